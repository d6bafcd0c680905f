// The canonical form of a log row, which its leaf in the Merkle tree hashes.
import { leafHash } from '../crypto/merkle.ts';

/** The values that the columns of the log have in JSON. A column without a value is left out. */
type Fields = Record<string, unknown>;

/** PostgreSQL writes three digits of a second at most: more would be a time that the canonical form does not tell from another. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?(?:Z|[+-]\d\d:\d\d)$/;

const isText = (value: unknown): boolean => typeof value === 'string';

const isValue = (value: unknown): boolean =>
  isText(value) || typeof value === 'boolean' || (Array.isArray(value) && value.every(isText));

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** The fields of a row as PostgreSQL writes them: no name twice, no spaces, and one spelling of each value. */
const parseFields = (line: string): Fields | undefined => {
  const parsed = parseJson(line);
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return undefined;
  if (JSON.stringify(parsed) !== line || !Object.values(parsed).every(isValue)) return undefined;
  const at = (parsed as Fields)['created_at'];
  return typeof at === 'string' && TIME.test(at) && !Number.isNaN(Date.parse(at)) ? (parsed as Fields) : undefined;
};

/**
 * RFC 8785 (JCS) of the row: names in the order of their code units, no spaces, `created_at` in UTC with three digits of a second.
 * Columns without a value are left out, so that a column that a later release adds changes no leaf of today. Any other line is
 * taken as it is: it is the canonical form of no row, so that two lines have one form only if they say the same.
 *
 * @param line a row as row_to_json writes it without nulls, as in streams, archives and exports.
 */
export const canonicalText = (line: string): string => {
  const row = parseFields(line);
  if (!row) return line;
  // Without a prototype, no name has a meaning of its own.
  const fields = Object.create(null) as Fields;
  for (const name of Object.keys(row).toSorted()) fields[name] = row[name];
  fields['created_at'] = new Date(row['created_at'] as string).toISOString();
  return JSON.stringify(fields);
};

export const leafOfLine = (line: string): Buffer => leafHash(Buffer.from(canonicalText(line)));

/** @returns undefined where the line does not say it. */
export const idsOfLine = (line: string): { id: string; tenant_id: string } | undefined => {
  const { id, tenant_id } = (parseJson(line) ?? {}) as Fields;
  return typeof id === 'string' && typeof tenant_id === 'string' ? { id, tenant_id } : undefined;
};
