// Finds ids and names of earlier versions that would be refused today, for the operator.
import type { Statements } from '../../../platform/db/statements.ts';

/** Ids of tokens that are read: an index has them, and a million takes a second. */
export const TOKEN_IDS_READ_MAX = 1_000_000;

/** Rows that are returned. There are few of them, or they have one cause. */
const FOUND_MAX = 10_000;

/** Nearly all ids and names have this form, and are valid: the database leaves them out. */
const PLAIN = "'^[!-~]([ -~]*[!-~])?$'";
const PLAIN_ID = "'^[A-Za-z0-9][A-Za-z0-9._-]*$'";

const TOKEN_IDS = `
SELECT id AS text FROM (SELECT id FROM tokens LIMIT ${TOKEN_IDS_READ_MAX}) AS read WHERE id COLLATE "C" !~ ${PLAIN_ID} LIMIT ${FOUND_MAX}`;

const NAMES = ['tenants', 'applications', 'api_keys', 'reactor_formulas', 'reactors', 'proxies']
  .map((table) => `(SELECT name AS text FROM ${table} WHERE name COLLATE "C" !~ ${PLAIN} LIMIT ${FOUND_MAX})`)
  .concat(
    `(SELECT key AS text FROM tenants, jsonb_object_keys(settings) AS key WHERE key !~ ${PLAIN} LIMIT ${FOUND_MAX})`,
  )
  .join('\nUNION ALL ');

type Text = { text: string };

/** Ids of tokens and names of records, in all tenants, that have another form than most. */
export const findUnusualTexts = async ({
  query,
}: Pick<Statements, 'query'>): Promise<{ ids: string[]; names: string[] }> => {
  const texts = async (sql: string): Promise<string[]> =>
    ((await query(undefined, sql, [])) as Text[]).map(({ text }) => text);
  return { ids: await texts(TOKEN_IDS), names: await texts(NAMES) };
};
