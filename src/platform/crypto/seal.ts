// Seals values with XAES-256-GCM; the associated data binds each one to its tenant, record and field.
// A value that was moved or changed does not open. Each value contains the id of its key.
import { uuidOf } from './ids.ts';
import { type BoundColumn, TOKEN_COLUMNS } from '../base/tables.ts';
import type { RandomBytes } from './random.ts';
import { prepareXaesKey, XAES_NONCE_BYTES, XAES_TAG_BYTES, xaesDecrypt, xaesEncrypt, type XaesKey } from './xaes.ts';

// Compares bytes that are not secret. Not constant-time.

/** Compares in JavaScript: for the few bytes of a header or nonce, a native call takes longer. */
const beginsWith = (bytes: Uint8Array, start: Uint8Array): boolean => {
  for (let index = 0; index < start.length; index += 1) if (bytes[index] !== start[index]) return false;
  return true;
};

/** version | key id | nonce | ciphertext and tag. */
const FORMAT_VERSION = 2;
const KEY_ID_AT = 1;
const KEY_ID_BYTES = 16;
const NONCE_AT = KEY_ID_AT + KEY_ID_BYTES;
const BODY_AT = NONCE_AT + XAES_NONCE_BYTES;
const FORMAT_LABEL = 'strongroom/2';

/** What the values of a key begin with. */
export const SEALED_HEADER_BYTES = NONCE_AT;

const keyIdPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export type SealingKey = {
  /** A lowercase UUID. */
  readonly id: string;
  readonly key: XaesKey;
  /** What every value sealed under this key begins with: the version and the key's id. */
  readonly header: Buffer;
};

/** The header of the values of a key. @throws RangeError for an id that is not a lowercase UUID. */
export const keyHeaderOf = (id: string): Buffer => {
  if (!keyIdPattern.test(id)) throw new RangeError('a sealing key has a lowercase UUID as its id');
  return Buffer.concat([Buffer.of(FORMAT_VERSION), Buffer.from(id.replaceAll('-', ''), 'hex')]);
};

/**
 * @param key 32 bytes.
 * @throws RangeError for another length, or for an id that is not a lowercase UUID.
 */
export const createSealingKey = (id: string, key: Uint8Array): SealingKey => ({
  id,
  key: prepareXaesKey(key),
  header: keyHeaderOf(id),
});

/** The place of a value, used as associated data: not secret, and each part must match to open the value. */
export type Binding = {
  environment: string;
  /** Left out for users, who belong to no tenant. */
  tenant_id?: string;
  record: string;
  id: string;
  field: string;
  type?: string;
  /** Columns of the row that decide who reads the value, and how long, always in the same order. A later one comes at the end. */
  row?: BoundColumns;
};

/** What a value or a row is bound to, by name. */
export type BoundColumns = Readonly<Record<string, string | Date | null | undefined>>;

/** A sealed value does not open: it was changed, moved or truncated, or has another key. The message reveals nothing. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken';
  constructor(cause?: unknown) {
    super('a sealed value does not open', { cause });
  }
}

/** Length-prefixed parts: two different lists of well-formed texts never have one encoding (docs/decisions/0004-sealing.md). */
export const encodeParts = (parts: readonly string[]): string => {
  let text = '';
  for (const part of parts) text += `${part.length}:${part}`;
  return text;
};

/**
 * Names and values, of which absent ones are left out: a value that was sealed before there was a column is bound as one whose
 * column has no value, so a later column needs no second form.
 */
const associatedData = (key: SealingKey, { row, ...place }: Binding): Buffer => {
  const { environment, tenant_id, record, id, field, type } = place;
  const parts = [FORMAT_LABEL, 'environment', environment, 'record', record, 'id', id, 'field', field, 'key', key.id];
  if (tenant_id !== undefined) parts.push('tenant_id', tenant_id);
  if (type !== undefined) parts.push('type', type);
  for (const name in row) {
    const value = row[name];
    if (value !== null && value !== undefined)
      parts.push(`row.${name}`, value instanceof Date ? String(value.getTime()) : value);
  }
  return Buffer.from(encodeParts(parts), 'utf8');
};

/** Seals one value under a random nonce. */
export const seal = (
  key: SealingKey,
  binding: Binding,
  plaintext: string | Uint8Array,
  randomBytes: RandomBytes,
): Buffer => {
  const nonce = randomBytes(XAES_NONCE_BYTES);
  const bytes = typeof plaintext === 'string' ? Buffer.from(plaintext, 'utf8') : plaintext;
  return Buffer.concat([key.header, nonce, xaesEncrypt(key.key, nonce, bytes, associatedData(key, binding))]);
};

/** The key id in the header of a sealed value. @throws SealBroken if the value has no valid header. */
export const keyIdOf = (sealed: Uint8Array): string => {
  if (sealed.length < BODY_AT + XAES_TAG_BYTES || sealed[0] !== FORMAT_VERSION) throw new SealBroken();
  return uuidOf(Buffer.from(sealed.subarray(KEY_ID_AT, NONCE_AT)).toString('hex'));
};

/** Whether the header of a value has the id of this key. */
export const isSealedUnder = (key: SealingKey, sealed: Uint8Array): boolean =>
  sealed.length >= BODY_AT + XAES_TAG_BYTES && beginsWith(sealed, key.header);

/** @throws SealBroken, the same for every cause. */
export const open = (key: SealingKey, binding: Binding, sealed: Uint8Array): Buffer => {
  if (!isSealedUnder(key, sealed)) throw new SealBroken();
  try {
    const nonce = sealed.subarray(NONCE_AT, BODY_AT);
    return xaesDecrypt(key.key, nonce, sealed.subarray(BODY_AT), associatedData(key, binding));
  } catch (error) {
    throw new SealBroken(error);
  }
};

/** The columns of a row that its sealed value is bound to, as the database has them, or as they are to be written. */
type BoundToken = { readonly [Column in BoundColumn]: string | Date | object | null | undefined };

export type BoundRow = Partial<BoundToken>;

/** JSON with sorted names: the database keeps the names of a `jsonb` in an order of its own. */
export const sortedJson = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  );

/** For `Binding.row`. */
export const boundColumns = (row: BoundRow, columns: readonly BoundColumn[]): BoundColumns => {
  const bound: Partial<Record<BoundColumn, string | Date | null | undefined>> = {};
  for (const column of columns) {
    const value = row[column];
    bound[column] = typeof value === 'object' && value !== null && !(value instanceof Date) ? sortedJson(value) : value;
  }
  return bound;
};

export const boundOfToken = (row: BoundToken): BoundColumns => boundColumns(row, TOKEN_COLUMNS);
