// Sealing: bytes bound to their tenant, record and field. A value that was moved, changed or belongs to another key does
// not open, and every value names its key. Knows no database and no meaning of what it seals.
import { LRUCache } from 'lru-cache';
import { beginsWith } from './bytes.ts';
import { uuidOf } from './ids.ts';
import type { RandomBytes } from './random.ts';
import {
  DERIVE_NONCE_BYTES,
  XAES_NONCE_BYTES,
  XAES_TAG_BYTES,
  type XaesKey,
  xaesDecrypt,
  xaesEncrypt,
} from './xaes.ts';

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

/** What a value's associated data has before and after its record's id. */
type Frame = Omit<Required<Binding>, 'id'> & { before: string; after: string };

/**
 * What the values of a key have in common. All begin with the version and the key's id; most are bound as the last one was,
 * but for their record's id. Worked out once, and gone with the key.
 */
type Common = { readonly header: Buffer; frame: Frame };

const commons = new WeakMap<SealingKey, Common>();

const noFrame: Frame = { environment: '', tenant_id: '', record: '', type: '', field: '', before: '', after: '' };

/** @throws RangeError when the id is no lowercase UUID: a value whose header does not name its key would never open again. */
const commonOf = (key: SealingKey): Common => {
  let common = commons.get(key);
  if (!common) {
    if (!keyIdPattern.test(key.id)) throw new RangeError('a sealing key has a lowercase UUID as its id');
    const header = Buffer.concat([Buffer.of(FORMAT_VERSION), Buffer.from(key.id.replaceAll('-', ''), 'hex')]);
    commons.set(key, (common = { header, frame: noFrame }));
  }
  return common;
};

/**
 * Values that share the first half of their nonces, and with it the message key that XAES derives from it: drawn for each,
 * deriving would cost as much as sealing. The other half is drawn from the kernel for every value, so that two copies of a
 * process, which go on with one series, share no nonce either, and the chance that two of a
 * series have the same nonce is 2^-65 (docs/decisions/0004-sealing.md).
 */
const SERIES_VALUES_MAX = 65_536;

/** Keys whose series are remembered: as many as a process has keys in memory. One that was forgotten begins another. */
const SERIES_MAX = 10_000;

/**
 * The series of this process, by key id: a key that is forgotten and read again goes on with its own, or a quiet vault
 * would have as many series as values. Nothing of them is secret.
 */
const series = new LRUCache<string, { firstHalf: Buffer; valuesLeft: number }>({ max: SERIES_MAX });

const nonceFor = ({ id }: SealingKey, randomBytes: RandomBytes): Buffer => {
  let current = series.get(id);
  if (!current || current.valuesLeft === 0) {
    current = { firstHalf: randomBytes(DERIVE_NONCE_BYTES), valuesLeft: SERIES_VALUES_MAX };
    series.set(id, current);
  }
  current.valuesLeft -= 1;
  return Buffer.concat([current.firstHalf, randomBytes(XAES_NONCE_BYTES - DERIVE_NONCE_BYTES)]);
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

const frameOf = (key: SealingKey, { environment, tenant_id, record, type = '', field }: Binding): Frame => {
  const common = commonOf(key);
  const { frame } = common;
  const isSame =
    frame.before !== '' &&
    frame.type === type &&
    frame.field === field &&
    frame.record === record &&
    frame.tenant_id === tenant_id &&
    frame.environment === environment;
  if (isSame) return frame;
  const before = encodeParts([FORMAT_LABEL, environment, tenant_id, record]);
  const after = encodeParts([type, field, key.id]);
  return (common.frame = { environment, tenant_id, record, type, field, before, after });
};

/** The parts are those of encodeParts([label, environment, tenant, record, id, type, field, key]), in this order. */
const associatedData = (key: SealingKey, binding: Binding): Buffer => {
  const { before, after } = frameOf(key, binding);
  return Buffer.from(before + encodeParts([binding.id]) + after, 'utf8');
};

/** Seals one value under a nonce of its own. @throws RangeError when the key's id is no lowercase UUID. */
export const seal = (
  key: SealingKey,
  binding: Binding,
  plaintext: string | Uint8Array,
  randomBytes: RandomBytes,
): Buffer => {
  const { header } = commonOf(key);
  const nonce = nonceFor(key, randomBytes);
  const bytes = typeof plaintext === 'string' ? Buffer.from(plaintext, 'utf8') : plaintext;
  return Buffer.concat([header, nonce, xaesEncrypt(key.key, nonce, bytes, associatedData(key, binding))]);
};

/** The id of the key that a value says it is sealed under. @throws SealBroken for what is no sealed value. */
export const keyIdOf = (sealed: Uint8Array): string => {
  if (sealed.length < BODY_AT + XAES_TAG_BYTES || sealed[0] !== FORMAT_VERSION) throw new SealBroken();
  return uuidOf(Buffer.from(sealed.subarray(KEY_ID_AT, NONCE_AT)).toString('hex'));
};

/** Whether a value says it is sealed under this key. */
export const isSealedUnder = (key: SealingKey, sealed: Uint8Array): boolean =>
  sealed.length >= BODY_AT + XAES_TAG_BYTES && beginsWith(sealed, commonOf(key).header);

/** @throws SealBroken, always the same, whatever is wrong. */
export const open = (key: SealingKey, binding: Binding, sealed: Uint8Array): Buffer => {
  if (!isSealedUnder(key, sealed)) throw new SealBroken();
  try {
    const nonce = sealed.subarray(NONCE_AT, BODY_AT);
    return xaesDecrypt(key.key, nonce, sealed.subarray(BODY_AT), associatedData(key, binding));
  } catch (error) {
    throw new SealBroken(error);
  }
};
