// Statements of the export: a snapshot, and pages of whole tokens in the order of ids.
import { INTENT_PATTERN } from '../../access/token-id.ts';
import { boundSealed } from '../../../platform/db/statements.ts';
import type { Transaction } from '../../../platform/db/transaction.ts';
import type { StoredToken } from './token-row.ts';
import { TOKEN_COLUMNS } from './token-sql.ts';

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
