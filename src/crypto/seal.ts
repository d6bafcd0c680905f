// Sealing: bytes bound to their tenant, record and field. A value that was moved, changed or belongs to another key does
// not open, and every value names its key. Knows no database and no meaning of what it seals.
import type { RandomBytes } from './random.ts';
import { XAES_NONCE_BYTES, XAES_TAG_BYTES, type XaesKey, xaesDecrypt, xaesEncrypt } from './xaes.ts';

/** version | key id | nonce | ciphertext and tag. */
const FORMAT_VERSION = 1;
const KEY_ID_AT = 1;
const KEY_ID_BYTES = 16;
const NONCE_AT = KEY_ID_AT + KEY_ID_BYTES;
const BODY_AT = NONCE_AT + XAES_NONCE_BYTES;
const FORMAT_LABEL = 'strongroom/1';

const keyIdPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** @property id a lowercase UUID. */
export type SealingKey = { readonly id: string; readonly key: XaesKey };

/** A key's id as values hold it, worked out once. */
const idBytes = new WeakMap<SealingKey, Buffer>();

const idBytesOf = (key: SealingKey): Buffer => {
  let bytes = idBytes.get(key);
  if (!bytes) idBytes.set(key, (bytes = Buffer.from(key.id.replaceAll('-', ''), 'hex')));
  return bytes;
};

/** Where a value belongs. All of it is associated data: none of it is secret, each part must match to open. */
export type Binding = {
  environment: string;
  tenant_id: string;
  record: string;
  id: string;
  field: string;
  type?: string;
};

/** A sealed value does not open: changed, moved, cut short, or not under this key. Says nothing about what it holds. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken';
  constructor(cause?: unknown) {
    super('a sealed value does not open', { cause });
  }
}

/** Length-prefixed parts: no two lists of well-formed texts encode alike (security.md section 3, decision 2). */
export const encodeParts = (parts: readonly string[]): string => {
  let text = '';
  for (const part of parts) text += `${part.length}:${part}`;
  return text;
};

const associatedData = (keyId: string, { environment, tenant_id, record, id, type, field }: Binding): Buffer =>
  Buffer.from(encodeParts([FORMAT_LABEL, environment, tenant_id, record, id, type ?? '', field, keyId]), 'utf8');

/** Seals one value under a fresh random nonce. @throws RangeError when the key's id is no lowercase UUID. */
export const seal = (
  { id, key }: SealingKey,
  binding: Binding,
  plaintext: string | Uint8Array,
  randomBytes: RandomBytes,
): Buffer => {
  // A value whose header does not name its key would never open again.
  if (!keyIdPattern.test(id)) throw new RangeError('a sealing key has a lowercase UUID as its id');
  const nonce = randomBytes(XAES_NONCE_BYTES);
  const bytes = typeof plaintext === 'string' ? Buffer.from(plaintext, 'utf8') : plaintext;
  const body = xaesEncrypt(key, nonce, bytes, associatedData(id, binding));
  const sealed = Buffer.allocUnsafe(BODY_AT + body.length);
  sealed[0] = FORMAT_VERSION;
  sealed.write(id.replaceAll('-', ''), KEY_ID_AT, KEY_ID_BYTES, 'hex');
  sealed.set(nonce, NONCE_AT);
  sealed.set(body, BODY_AT);
  return sealed;
};

const dashed = (hex: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;

/** The id of the key that a value says it is sealed under. @throws SealBroken for what is no sealed value. */
export const keyIdOf = (sealed: Uint8Array): string => {
  if (sealed.length < BODY_AT + XAES_TAG_BYTES || sealed[0] !== FORMAT_VERSION) throw new SealBroken();
  return dashed(Buffer.from(sealed.subarray(KEY_ID_AT, NONCE_AT)).toString('hex'));
};

/** Whether a value says it is sealed under this key. */
export const isSealedUnder = (key: SealingKey, sealed: Uint8Array): boolean =>
  sealed.length >= BODY_AT + XAES_TAG_BYTES &&
  sealed[0] === FORMAT_VERSION &&
  idBytesOf(key).compare(sealed, KEY_ID_AT, NONCE_AT) === 0;

/** @throws SealBroken, always the same, whatever is wrong. */
export const open = (key: SealingKey, binding: Binding, sealed: Uint8Array): Buffer => {
  if (!isSealedUnder(key, sealed)) throw new SealBroken();
  try {
    const nonce = sealed.subarray(NONCE_AT, BODY_AT);
    return xaesDecrypt(key.key, nonce, sealed.subarray(BODY_AT), associatedData(key.id, binding));
  } catch (error) {
    throw new SealBroken(error);
  }
};
