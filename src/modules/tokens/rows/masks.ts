// Finds tokens of all tenants whose column `masked` is unknown because an earlier version wrote them.
import { type StoredValue } from './token-row.ts';
import { VALUE_COLUMNS } from './token-sql.ts';
import type { Database } from '../../../platform/db/database.ts';
import { boundSealed } from '../../../platform/db/statements.ts';

export type TokenOfUnknownMask = StoredValue & { tenant_id: string };

const COLUMNS = `tenant_id, ${VALUE_COLUMNS}`;

const FIND = boundSealed(
  COLUMNS,
  `SELECT ${COLUMNS} FROM tokens WHERE masked IS NULL AND type = 'token' ORDER BY tenant_id, id LIMIT $1`,
);

/** Skips tokens that were changed in the meantime: their `masked` is known. */
const NOTE = `
UPDATE tokens t SET masked = r.masked FROM json_to_recordset($1::json) AS r(tenant_id uuid, id text, masked boolean)
WHERE t.tenant_id = r.tenant_id AND t.id = r.id AND t.masked IS NULL`;

export const maskRows = ({ statements: { query } }: Pick<Database, 'statements'>) => ({
  /** At most `limit` tokens. A value beyond the size limit of the statement comes as null. */
  findTokensOfUnknownMask: async (limit: number): Promise<TokenOfUnknownMask[]> =>
    (await query(undefined, FIND, [limit])) as TokenOfUnknownMask[],
  noteMasks: async (known: { tenant_id: string; id: string; masked: boolean }[]): Promise<void> => {
    await query(undefined, NOTE, [JSON.stringify(known)]);
  },
});
