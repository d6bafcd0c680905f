// Finds ids and names of earlier versions that would be refused today, for the operator.
import type { Statements } from '../../../platform/db/statements.ts';

/** Ids of tokens that are read: an index has them, and a million takes a second. */
export const TOKEN_IDS_READ_MAX = 1_000_000;

/** Rows that are looked at. There are few of them, or they have one cause. */
export const UNUSUAL_READ_MAX = 10_000;

/** Nearly all ids and names have this form, and are valid: the database leaves them out. */
const PLAIN = "'^[!-~]([ -~]*[!-~])?$'";
const PLAIN_ID = "'^[A-Za-z0-9][A-Za-z0-9._-]*$'";

const TOKEN_IDS = `
SELECT id AS text FROM (SELECT id FROM tokens LIMIT ${TOKEN_IDS_READ_MAX}) AS read WHERE id COLLATE "C" !~ ${PLAIN_ID} LIMIT $1`;

const NAMES = `
SELECT text FROM (
  ${['tenants', 'applications', 'api_keys', 'reactor_formulas', 'reactors', 'proxies']
    .map((table) => `SELECT name AS text FROM ${table} UNION ALL `)
    .join('')}SELECT key AS text FROM tenants, jsonb_object_keys(settings) AS key
) AS named WHERE text COLLATE "C" !~ ${PLAIN} LIMIT $1`;

type Text = { text: string };

type Unusual = { texts: string[]; isCut: boolean };

/** Ids of tokens and names of records, in all tenants, that have another form than most. `isCut`: whether there are more. */
export const findUnusualTexts = async ({
  query,
}: Pick<Statements, 'query'>): Promise<{ ids: Unusual; names: Unusual }> => {
  const find = async (sql: string): Promise<Unusual> => {
    const texts = ((await query(undefined, sql, [UNUSUAL_READ_MAX + 1])) as Text[]).map(({ text }) => text);
    return { texts: texts.slice(0, UNUSUAL_READ_MAX), isCut: texts.length > UNUSUAL_READ_MAX };
  };
  return { ids: await find(TOKEN_IDS), names: await find(NAMES) };
};
