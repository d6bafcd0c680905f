// Opens a token of PKCS #11 with its AES keys, and encrypts and decrypts with them. Runs in a process of its own.
import { createHash } from 'node:crypto';
import { GCM_IV_BYTES, type GcmInput, type Library, loadLibrary, Pkcs11Error, type TokenInfo } from './library.ts';
import type { Fault, Opening } from './messages.ts';

/** Ends a call with a fault that the server understands. */
export class TokenFault extends Error {
  override readonly name = 'TokenFault';
  readonly kind: Fault['kind'];
  constructor(kind: Fault['kind'], text: string, cause?: unknown) {
    super(text, { cause });
    this.kind = kind;
  }
}

/** The same version is in package.json. */
export const KOFFI_VERSION = '3.3.4';

/** Flags of CK_TOKEN_INFO. */
const PIN_FINAL_TRY = 0x2_0000n;
const PIN_LOCKED = 0x4_0000n;

/**
 * Codes (CKR_) of C_Login that say nothing of the PIN: host memory, device error, memory, removed; session closed, count, handle;
 * token not present, not recognized. All others may: vendors have codes of their own for a wrong PIN.
 */
const LOGIN_CODES_WITHOUT_PIN = [0x02, 0x30, 0x31, 0x32, 0xb0, 0xb1, 0xb3, 0xe0, 0xe1];
/** Encrypted data invalid, or of a wrong length; AEAD decryption failed. */
const BROKEN_CODES = [0x40, 0x41, 0x42];
/** General error, function failed; data invalid, or of a wrong length. Some tokens say so of encrypted data that is broken. */
const MAYBE_BROKEN_CODES = [0x05, 0x06, 0x20, 0x21];
/** Function not supported; key size, type, function not permitted; mechanism or its parameter invalid. */
const REFUSED_CODES = [0x54, 0x62, 0x63, 0x68, 0x70, 0x71];

const AES_KEY_BYTES = 32;
/** Hex digits of the id of a root key. */
const ID_BYTES = 16;

/**
 * The id of a root key comes from the key itself, so that it stays the same under another label or on another HSM, and another key
 * of this label has another id. It is made of one message that is always the same, under an IV that no other message gets but by a
 * chance of 2^-96.
 */
const IDENTITY: GcmInput = {
  iv: Buffer.from('root key id/', 'ascii'),
  aad: Buffer.from('strongroom root key id of pkcs11/1'),
  data: Buffer.alloc(AES_KEY_BYTES),
};
if (IDENTITY.iv.length !== GCM_IV_BYTES) throw new Error('the IV of ids has the wrong length');

/** @returns why no PIN is tried, if so: a restart that repeats must not lock the token. */
export const refusalOfFlags = (flags: bigint): string | undefined => {
  if ((flags & PIN_LOCKED) !== 0n)
    return 'PKCS11_PIN: the token has locked its PIN, after wrong ones. Its security officer can set a new one.';
  if ((flags & PIN_FINAL_TRY) !== 0n)
    return 'PKCS11_PIN: no PIN was tried, since one more wrong PIN locks the token. Log in once by hand, such as with pkcs11-tool --login --list-objects, then start again.';
  return undefined;
};

const setup = (text: string, cause?: unknown): TokenFault => new TokenFault('setup', text, cause);

const load = async (path: string): Promise<Library> => {
  try {
    return await loadLibrary(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND')
      throw setup(
        `The key provider pkcs11 needs the optional package koffi, which is not installed. Install it beside Strongroom: npm install koffi@${KOFFI_VERSION} @koromix/koffi-linux-${process.arch}@${KOFFI_VERSION}`,
        error,
      );
    throw setup(`PKCS11_MODULE: the library ${path} cannot be loaded: ${message.split('\n')[0]}.`, error);
  }
};

const findToken = (library: Library, label: string): TokenInfo => {
  const tokens = library.findTokens();
  const [found, another] = tokens.filter((each) => each.label === label);
  if (found && another)
    throw setup(`PKCS11_TOKEN: two tokens have the label ${label}. Give one of them another label.`);
  if (found) return found;
  const labels = tokens.map((each) => each.label).filter(Boolean);
  const others = labels.length === 0 ? 'It has no token with a label.' : `It has: ${labels.join(', ')}.`;
  throw setup(`PKCS11_TOKEN: the library shows no token with the label ${label}. ${others}`);
};

const logIn = (library: Library, session: bigint, pin: string): void => {
  try {
    library.login(session, pin);
  } catch (error) {
    if (!(error instanceof Pkcs11Error) || LOGIN_CODES_WITHOUT_PIN.includes(error.code)) throw error;
    throw new TokenFault(
      'pin',
      `PKCS11_PIN: the token refused the PIN (${error.message}). It was tried once: tokens lock after a few wrong PINs. Correct it before the next start.`,
      error,
    );
  }
};

/** @throws TokenFault for a key that does not protect what it wraps. */
const findKey = (library: Library, session: bigint, label: string): bigint => {
  const [key, another] = library.findAesKeys(session, label, 2);
  if (key === undefined) throw setup(`PKCS11_KEY: the token has no AES key with the label ${label}.`);
  if (another !== undefined) throw setup(`PKCS11_KEY: the token has several AES keys with the label ${label}.`);
  const has = (name: Parameters<Library['attributeOf']>[2]) => library.attributeOf(session, key, name);
  if (has('sensitive') !== 1 || has('extractable') !== 0)
    throw setup(
      `PKCS11_KEY: the key ${label} can be read out of the token: it must be sensitive and not extractable (CKA_SENSITIVE, CKA_EXTRACTABLE). Make another.`,
    );
  if (has('valueLength') !== AES_KEY_BYTES) throw setup(`PKCS11_KEY: the key ${label} must be an AES key of 256 bits.`);
  if (has('encrypt') !== 1 || has('decrypt') !== 1)
    throw setup(`PKCS11_KEY: the key ${label} must be for encryption and decryption (CKA_ENCRYPT, CKA_DECRYPT).`);
  return key;
};

const isMaybeBroken = (error: unknown): boolean =>
  error instanceof Pkcs11Error && error.called === 'C_Decrypt' && MAYBE_BROKEN_CODES.includes(error.code);

const codeOf = (error: unknown): string => (error instanceof Pkcs11Error ? error.message : 'for an unknown reason');

export type Token = {
  root_key_ids: string[];
  encrypt(key: number, input: GcmInput): Buffer;
  decrypt(key: number, input: GcmInput): Buffer;
  close(): void;
};

/** @throws TokenFault; Pkcs11Error, of a token that does not answer. */
export const openToken = async ({ module, token: label, keys: labels, pin }: Opening): Promise<Token> => {
  const library = await load(module);
  library.initialize();
  const { slot, flags } = findToken(library, label);
  const refusal = refusalOfFlags(flags);
  if (refusal !== undefined) throw new TokenFault('pin', refusal);
  const session = library.openSession(slot);
  logIn(library, session, pin);

  const keys = labels.map((each) => {
    const handle = findKey(library, session, each);
    const refusal = (why: string, error?: unknown): TokenFault =>
      setup(`PKCS11_KEY: the token does not do AES-GCM with the key ${each} under an IV of the caller: ${why}.`, error);
    try {
      const identity = library.encrypt(session, handle, IDENTITY);
      // A token that makes the IV itself, in place of ours, would wrap what nothing opens.
      if (library.decrypt(session, handle, { ...IDENTITY, data: identity }).equals(IDENTITY.data))
        return { handle, identity };
    } catch (error) {
      throw refusal(codeOf(error), error);
    }
    throw refusal('it does not decrypt what it encrypted');
  });
  const keyAt = (index: number) => keys[index] as (typeof keys)[number];

  return {
    root_key_ids: keys.map(({ identity }) =>
      createHash('sha256').update(identity).digest().subarray(0, ID_BYTES).toString('hex'),
    ),
    encrypt: (key, input) => library.encrypt(session, keyAt(key).handle, input),
    decrypt(key, input) {
      const { handle, identity } = keyAt(key);
      const decrypt = (each: GcmInput): Buffer => library.decrypt(session, handle, each);
      try {
        return decrypt(input);
      } catch (error) {
        if (error instanceof Pkcs11Error && BROKEN_CODES.includes(error.code))
          throw new TokenFault('broken', '', error);
        if (!isMaybeBroken(error)) throw error;
        // SoftHSM says CKR_GENERAL_ERROR to a ciphertext that was changed, as to a failure of its own. If the token decrypts what it
        // encrypted itself, and this not at a second attempt, the ciphertext is broken.
        decrypt({ ...IDENTITY, data: identity });
        try {
          return decrypt(input);
        } catch (second) {
          throw isMaybeBroken(second) ? new TokenFault('broken', '', second) : second;
        }
      }
    },
    close: () => library.finalize(),
  };
};

/** What the server is told of an error. */
export const faultOf = (error: unknown): Fault => {
  if (error instanceof TokenFault) return { kind: error.kind, text: error.message };
  if (!(error instanceof Pkcs11Error)) return { kind: 'failed', text: 'failed in a way that is not known' };
  const isRefused = REFUSED_CODES.includes(error.code);
  return { kind: isRefused ? 'refused' : 'failed', text: `${isRefused ? 'refused' : 'failed with'} ${error.message}` };
};
