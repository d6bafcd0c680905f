// The canonical form of a log row, which its leaf in the Merkle tree hashes.
import { leafHash } from '../crypto/merkle.ts';

/** Time as PostgreSQL writes it in UTC: with three digits of a second at most, and without zeros at their end. */
const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,3}))?\+00:00$/;
/** Name of a column. No object has a property of its own with a meaning under such a name. */
const NAME = /^[a-z][a-z0-9_]*$/;

type Row = Record<string, unknown>;

const isText = (value: unknown): boolean => typeof value === 'string';

const isValue = (value: unknown): boolean =>
  isText(value) || typeof value === 'boolean' || (Array.isArray(value) && value.every(isText));

const parseObject = (text: string): Row | undefined => {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) ? (parsed as Row) : undefined;
  } catch {
    return undefined;
  }
};

/** Rows have few different sets of columns. */
const ORDERS_MAX = 1_000;
const orders = new Map<string, readonly string[] | undefined>();

/** @returns undefined for names that no column has. */
const sortedNames = (names: readonly string[]): readonly string[] | undefined => {
  const key = names.join();
  if (orders.has(key)) return orders.get(key);
  const sorted = names.every((name) => NAME.test(name)) ? names.toSorted() : undefined;
  if (orders.size < ORDERS_MAX) orders.set(key, sorted);
  return sorted;
};

/** The row as it is hashed; undefined where the line is not as PostgreSQL writes a row. */
const canonicalRow = (line: string): Row | undefined => {
  const row = parseObject(line);
  // Refuses repeated names, spaces and other spellings, which other readers may take in another way.
  if (!row || JSON.stringify(row) !== line) return undefined;
  const { created_at } = row;
  const time = typeof created_at === 'string' ? TIME.exec(created_at) : null;
  const names = time && sortedNames(Object.keys(row));
  if (!names) return undefined;
  const sorted: Row = {};
  for (const name of names) {
    const value = row[name];
    if (!isValue(value)) return undefined;
    sorted[name] = name === 'created_at' ? `${time[1]}.${(time[2] ?? '').padEnd(3, '0')}Z` : value;
  }
  return sorted;
};

/**
 * RFC 8785 (JCS) of the row: names in the order of their code units, no spaces, `created_at` with three digits of a second and Z.
 * Columns without a value are left out, so that a column that a later release adds changes no leaf of today. Any other line is
 * taken as it is: it is the canonical form of no row, so that two lines have one form only if they say the same.
 *
 * @param line a row as row_to_json writes it in UTC and without nulls, as in streams, archives and exports.
 */
export const canonicalText = (line: string): string => {
  const row = canonicalRow(line);
  return row ? JSON.stringify(row) : line;
};

/** A line as a leaf and a MAC take it, parsed once for both. `mac` and `macText` are undefined for a line that is no row. */
export type OpenLine = { text: string; mac: unknown; macText: string | undefined };

/**
 * `macText` is the canonical row without its MAC, its entities in order, since PostgreSQL collects those of new tokens in any order.
 * The MAC is cut out of the text, which is less work than to write it again: `created_at` comes before it, and no value of a row has
 * a quotation mark that is not escaped.
 */
export const openLine = (line: string): OpenLine => {
  const row = canonicalRow(line);
  if (!row) return { text: line, mac: undefined, macText: undefined };
  const text = JSON.stringify(row);
  const { mac, entity_ids } = row;
  const isOne = !Array.isArray(entity_ids) || entity_ids.length <= 1;
  const ordered = isOne ? text : JSON.stringify({ ...row, entity_ids: entity_ids.toSorted() });
  return { text, mac, macText: mac === undefined ? ordered : ordered.replace(`,"mac":${JSON.stringify(mac)}`, '') };
};

export const leafOfLine = (line: string): Buffer => leafHash(canonicalText(line));

/** Whether the line is the row that a tenant's deletion wrote. */
export const isDeletionOf = (tenant_id: string, line: string): boolean => {
  if (!line.includes('"delete"')) return false;
  const row = parseObject(line) ?? {};
  const { entity_ids } = row;
  return (
    row['entity_type'] === 'tenant' &&
    row['operation'] === 'delete' &&
    row['outcome'] === 'success' &&
    Array.isArray(entity_ids) &&
    entity_ids[0] === tenant_id
  );
};

/** @returns undefined where the line does not say it. */
export const idsOfLine = (line: string): { id: string; tenant_id: string } | undefined => {
  const { id, tenant_id } = parseObject(line) ?? {};
  return typeof id === 'string' && typeof tenant_id === 'string' ? { id, tenant_id } : undefined;
};
