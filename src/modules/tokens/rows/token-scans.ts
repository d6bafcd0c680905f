// Reads tokens in the order of their ids: those whose search digests are due, and all tokens of a tenant for an export.
import { boundSealed, type Query } from '../../../platform/db/statements.ts';
import type { StoredToken } from './token-row.ts';
import { TOKEN_COLUMNS } from './token-sql.ts';
import { INTENT_PATTERN } from '../../access/token-id.ts';
import type { Transaction } from '../../../platform/db/transaction.ts';

// Tokens whose search digests are due, of all tenants, and the digests that are made of them.

/** Tokens of one step: to evaluate their expressions takes some milliseconds for a hundred. */
export const DIGESTS_DUE_MAX = 200;

/** $1: tenants that are left out. */
const FIND_TOKENS_DUE = `
SELECT tenant_id, id FROM tokens WHERE digests_due AND tenant_id <> ALL ($1::uuid[]) ORDER BY tenant_id, id LIMIT ${DIGESTS_DUE_MAX}`;

/** Locks tokens of one tenant, as all such statements do. A token that is being changed is left: the change makes its digests. */
const LOCK_TOKENS_DUE = boundSealed(
  TOKEN_COLUMNS,
  `SELECT ${TOKEN_COLUMNS} FROM tokens WHERE tenant_id = $1 AND id = ANY ($2::text[]) AND digests_due
ORDER BY id FOR NO KEY UPDATE SKIP LOCKED`,
);

/** $3: whether the token gets new digests. */
const WRITE_DIGESTS = `
UPDATE tokens SET digests_due = false, search_digests = CASE WHEN $3::boolean THEN $4::text[] ELSE search_digests END
WHERE tenant_id = $1 AND id = $2`;

export const findTokensDue = async (
  query: Query,
  without: readonly string[],
): Promise<{ tenant_id: string; id: string }[]> =>
  (await query('find-tokens-due', FIND_TOKENS_DUE, [without])) as { tenant_id: string; id: string }[];

export const lockTokensDue = async (query: Query, tenant_id: string, ids: readonly string[]): Promise<StoredToken[]> =>
  (await query('lock-tokens-due', LOCK_TOKENS_DUE, [tenant_id, ids])) as StoredToken[];

/** @param made undefined for a token that keeps its digests. */
export const writeDigests = async (
  query: Query,
  tenant_id: string,
  id: string,
  made: { digests: string[] | undefined } | undefined,
): Promise<void> => {
  await query('write-digests', WRITE_DIGESTS, [tenant_id, id, made !== undefined, made?.digests ?? null]);
};

// Statements of the export: a snapshot, and pages of whole tokens in the order of ids.

/** Tokens of one statement. Large tokens end a page earlier, see boundSealed. */
const PAGE_ROWS = 500;

/** Without intents: they end within a day, and no import takes them. */
const FIND_PAGE = `${boundSealed(
  TOKEN_COLUMNS,
  `SELECT ${TOKEN_COLUMNS} FROM tokens
WHERE tenant_id = $1 AND id > $2 AND (expires_at IS NULL OR expires_at > $3) AND id NOT LIKE '${INTENT_PATTERN}' ORDER BY id LIMIT ${PAGE_ROWS}`,
)} ORDER BY id`;

/** All further statements of the transaction see the rows of this moment. Must be its first statement. */
export const takeSnapshot = async ({ query }: Transaction): Promise<void> => {
  await query(undefined, 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY', []);
};

/** The next tokens after an id, all with their sealed values. Empty after the last. */
export const findExportPage = async ({ query, tenant_id }: Transaction, after: string, now: Date) => {
  const rows = (await query('find-export-page', FIND_PAGE, [tenant_id, after, now])) as StoredToken[];
  // Beyond the limit of bytes rows come without values: the next page begins with the first of them.
  const end = rows.findIndex(({ sealed }) => sealed === null);
  return end === -1 ? rows : rows.slice(0, end);
};
