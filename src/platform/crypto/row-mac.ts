// MACs of rows that authorise, under a key that the database does not have: a writer of the database cannot make one.
import { createHash, createHmac, createSecretKey } from 'node:crypto';
import { type DigestKey, equalDigests, rowMacKeyBytes } from './digest.ts';
import { encodeParts } from './seal.ts';
import { SIGNED_TABLES, type SignedTableName } from '../base/tables.ts';

/** A row as a driver returns it. A digested column may come as its digest, under the name `COLUMN_digest`. */
export type Row = Readonly<Record<string, unknown>>;

export type RowMacs = {
  /** @param version of the row that it is bound to; null for none. */
  macOf(table: SignedTableName, row: Row, version: number | null): Buffer;
  /** Whether the row has the MAC of its columns under this version. */
  isIntact(table: SignedTableName, row: Row, version: number | null): boolean;
};

/** Drivers return bytes as a Buffer or a Uint8Array, and large numbers as text or a bigint. PostgreSQL reorders keys of JSON. */
const plain = (value: unknown): unknown => {
  if (value === undefined || value === null) return null;
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object') return value;
  if (value instanceof Date) return value.getTime();
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (Array.isArray(value)) return value.map(plain);
  const entries = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(entries.map(([name, each]) => [name, plain(each)]));
};

const digestOf = (value: unknown): unknown =>
  value instanceof Uint8Array ? createHash('sha256').update(value).digest('hex') : null;

/**
 * The columns of a row as one text: names and values, of which absent ones are left out. So a row that was signed before there was a
 * column is signed as one whose column has no value, and a later column needs no second form.
 */
export const encodeRow = (table: SignedTableName, row: Row, version: number | null): string => {
  const { bound, digested } = SIGNED_TABLES[table];
  const columns = bound.flatMap((column) => {
    const value = digested.includes(column)
      ? (plain(row[`${column}_digest`]) ?? digestOf(row[column]))
      : plain(row[column]);
    // Prisma returns an empty list for a null one. To every reader they are the same.
    const isAbsent = value === null || (Array.isArray(value) && value.length === 0);
    return isAbsent ? [] : [[column, value]];
  });
  return JSON.stringify(version === null ? columns : [['version of its head', version], ...columns]);
};

export const createRowMacs = (pepper: DigestKey): RowMacs => {
  const key = createSecretKey(rowMacKeyBytes(pepper));
  const macOf: RowMacs['macOf'] = (table, row, version) =>
    createHmac('sha256', key)
      .update(encodeParts([table, encodeRow(table, row, version)]))
      .digest();
  return {
    macOf,
    isIntact: (table, row, version) =>
      row['mac'] instanceof Uint8Array && equalDigests(row['mac'], macOf(table, row, version)),
  };
};
