// Signed checkpoints of a log: notes of C2SP tlog-checkpoint, signed with Ed25519.
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';
import { HASH_BYTES } from './merkle.ts';

// Signs and verifies JSON documents with Ed25519 (RFC 8032), over their canonical form (RFC 8785).

/** Documents have whole numbers and well-formed texts only, so that their canonical form is that of JSON.stringify with sorted names. */
export type JsonDocument = { readonly [name: string]: JsonPart };
type JsonPart = string | number | null | JsonDocument | readonly JsonPart[];

export type SignedDocument = JsonDocument & {
  signature: { algorithm: 'Ed25519'; public_key: string; value: string };
};

/** Names are sorted by UTF-16 code units, as in RFC 8785 section 3.2.3. */
const canonical = (part: JsonPart): string => {
  if (Array.isArray(part)) return `[${part.map(canonical).join(',')}]`;
  if (typeof part !== 'object' || part === null) return JSON.stringify(part);
  const document = part as JsonDocument;
  const names = Object.keys(document).toSorted((one, other) => (one < other ? -1 : 1));
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(document[name] as JsonPart)}`).join(',')}}`;
};

export const signDocument = ({ key, publicKey }: LogSigningKey, document: JsonDocument): SignedDocument => ({
  ...document,
  signature: {
    algorithm: 'Ed25519',
    public_key: publicKeyText(publicKey),
    value: sign(null, Buffer.from(canonical(document)), key).toString('base64'),
  },
});

/**
 * @param publicKey of the vault: the one in the document is not believed.
 * @returns the document without its signature; undefined if it was not signed with the key.
 */
export const openDocument = (publicKey: LogPublicKey, signed: unknown): JsonDocument | undefined => {
  if (typeof signed !== 'object' || signed === null || Array.isArray(signed)) return undefined;
  const { signature, ...document } = signed as JsonDocument & { signature?: { algorithm?: unknown; value?: unknown } };
  if (signature?.algorithm !== 'Ed25519' || typeof signature.value !== 'string') return undefined;
  const value = Buffer.from(signature.value, 'base64');
  return verify(null, Buffer.from(canonical(document)), publicKey.key, value) ? document : undefined;
};

/** c2sp.org/signed-note: the type of a signature is part of its key id. */
const ED25519 = Buffer.from([1]);
const PUBLIC_KEY_BYTES = 32;
const KEY_ID_BYTES = 4;
const SIGNATURE_BYTES = 64;
/** DER of PKCS#8 and of SubjectPublicKeyInfo up to the 32 bytes of an Ed25519 key (RFC 8410). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/** A public key of the log's signatures, as its 32 bytes. */
export type LogPublicKey = { readonly bytes: Buffer; readonly key: KeyObject };
export type LogSigningKey = { readonly key: KeyObject; readonly publicKey: LogPublicKey };

const publicKeyOf = (bytes: Uint8Array): LogPublicKey => ({
  bytes: Buffer.from(bytes),
  key: createPublicKey({ key: Buffer.concat([SPKI_PREFIX, bytes]), format: 'der', type: 'spki' }),
});

const signingKeyOf = (key: KeyObject): LogSigningKey | undefined => {
  if (key.asymmetricKeyType !== 'ed25519') return undefined;
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
  return { key, publicKey: publicKeyOf(spki.subarray(SPKI_PREFIX.length)) };
};

/** @param seed 32 bytes. */
export const signingKeyOfSeed = (seed: Uint8Array): LogSigningKey =>
  signingKeyOf(
    createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' }),
  ) as LogSigningKey;

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** Parses a private key: PKCS#8 in PEM, or in base64 on one line; undefined for anything else. */
export const parseSigningKey = (text: string): LogSigningKey | undefined => {
  const written = text.trim();
  try {
    if (written.startsWith('-----BEGIN')) return signingKeyOf(createPrivateKey(written));
    if (!BASE64.test(written)) return undefined;
    return signingKeyOf(createPrivateKey({ key: Buffer.from(written, 'base64'), format: 'der', type: 'pkcs8' }));
  } catch {
    return undefined;
  }
};

/** @returns a new private key as PKCS#8 in PEM. */
export const newSigningKeyPem = (): string =>
  generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;

/** Parses a public key: 32 bytes in base64, or a verifier key of C2SP (`name+id+base64`); undefined for anything else. */
export const parsePublicKey = (text: string): LogPublicKey | undefined => {
  const parts = text.trim().split('+');
  // Base64 may have a plus too.
  const verifier = /^[^+\s]+\+[0-9a-f]{8}\+(?<bytes>[A-Za-z0-9+/]+=*)$/.exec(text.trim())?.groups?.['bytes'];
  const bytes = Buffer.from(verifier ?? parts.join('+'), 'base64');
  if (verifier !== undefined)
    return bytes.length === 1 + PUBLIC_KEY_BYTES && bytes[0] === ED25519[0]
      ? publicKeyOf(bytes.subarray(1))
      : undefined;
  return BASE64.test(text.trim()) && bytes.length === PUBLIC_KEY_BYTES ? publicKeyOf(bytes) : undefined;
};

export const publicKeyText = ({ bytes }: LogPublicKey): string => bytes.toString('base64');

const keyIdOf = (name: string, { bytes }: LogPublicKey): Buffer =>
  createHash('sha256').update(`${name}\n`).update(ED25519).update(bytes).digest().subarray(0, KEY_ID_BYTES);

/** The name of a tenant's log: the first line of its checkpoints, and the name of the key in their signatures. */
export const originOf = (tenant_id: string): string => `strongroom/${tenant_id}`;

/** The key in the form that tools for C2SP logs read. */
export const verifierKeyText = (tenant_id: string, key: LogPublicKey): string =>
  [
    originOf(tenant_id),
    keyIdOf(originOf(tenant_id), key).toString('hex'),
    Buffer.concat([ED25519, key.bytes]).toString('base64'),
  ].join('+');

export type Checkpoint = { tenant_id: string; size: number; root: Buffer; at: Date };

const textOf = ({ tenant_id, size, root, at }: Checkpoint): string =>
  `${originOf(tenant_id)}\n${size}\n${root.toString('base64')}\ntime ${at.toISOString()}\n`;

/** A text with its signature. @param text ends with a line end. @param name of the key, as the signature has it. */
export const signNote = ({ key, publicKey }: LogSigningKey, name: string, text: string): string => {
  const signature = Buffer.concat([keyIdOf(name, publicKey), sign(null, Buffer.from(text), key)]);
  return `${text}\n— ${name} ${signature.toString('base64')}\n`;
};

/** Whether a note is this text, signed by one of the keys. */
export const isSignedNote = (note: string, name: string, text: string, keys: readonly LogPublicKey[]): boolean =>
  note.startsWith(`${text}\n`) &&
  note
    .slice(text.length + 1)
    .split('\n')
    .some((line) => {
      if (!line.startsWith(`— ${name} `)) return false;
      const signature = Buffer.from(line.slice(name.length + 3), 'base64');
      if (signature.length !== KEY_ID_BYTES + SIGNATURE_BYTES) return false;
      return keys.some(
        (key) =>
          keyIdOf(name, key).equals(signature.subarray(0, KEY_ID_BYTES)) &&
          verify(null, Buffer.from(text), key.key, signature.subarray(KEY_ID_BYTES)),
      );
    });

/** Signs what the tree of a tenant was at a time. */
export const signCheckpoint = (key: LogSigningKey, checkpoint: Checkpoint): string =>
  signNote(key, originOf(checkpoint.tenant_id), textOf(checkpoint));

/** A line of a few hundred bytes; other signatures, such as those of witnesses, may follow. */
export const NOTE_LENGTH_MAX = 64 * 1024;

const NOTE =
  /^strongroom\/(?<tenant_id>[0-9a-f-]{36})\n(?<size>0|[1-9]\d{0,15})\n(?<root>[A-Za-z0-9+/]{43}=)\ntime (?<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)\n$/;

/** @returns the checkpoint of a note; undefined if it has another form. No signature is checked. */
export const parseCheckpoint = (note: string): Checkpoint | undefined => {
  const end = note.indexOf('\n\n') + 1;
  const found = note.length <= NOTE_LENGTH_MAX ? NOTE.exec(note.slice(0, end))?.groups : undefined;
  if (!found) return undefined;
  const { tenant_id = '', size = '', root = '', time = '' } = found;
  const checkpoint = { tenant_id, size: Number(size), root: Buffer.from(root, 'base64'), at: new Date(time) };
  const isExact = checkpoint.root.length === HASH_BYTES && !Number.isNaN(checkpoint.at.getTime());
  return isExact && textOf(checkpoint) === note.slice(0, end) ? checkpoint : undefined;
};

/** @returns the checkpoint of a note that one of the keys has signed; undefined otherwise. */
export const openCheckpoint = (note: string, keys: readonly LogPublicKey[]): Checkpoint | undefined => {
  const checkpoint = parseCheckpoint(note);
  if (!checkpoint) return undefined;
  const isSigned = isSignedNote(note, originOf(checkpoint.tenant_id), textOf(checkpoint), keys);
  return isSigned ? checkpoint : undefined;
};
