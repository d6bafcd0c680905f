// Tokens of which it is not known whether they have a mask: those that an earlier version wrote. In all tenants.
import type { Statements } from './statements.ts';
import type { StoredToken } from './hot.ts';
import { boundSealed } from './token-sql.ts';

export type TokenOfUnknownMask = Pick<StoredToken, 'id' | 'type' | 'sealed'> & { tenant_id: string };

const COLUMNS = 'tenant_id, id, type, sealed';

const FIND = boundSealed(
  COLUMNS,
  `SELECT ${COLUMNS} FROM tokens WHERE masked IS NULL AND type = 'token' ORDER BY tenant_id, id LIMIT $1`,
);

/** One that was changed meanwhile is known by now. */
const NOTE = `
UPDATE tokens t SET masked = r.masked FROM json_to_recordset($1::json) AS r(tenant_id uuid, id text, masked boolean)
WHERE t.tenant_id = r.tenant_id AND t.id = r.id AND t.masked IS NULL`;

export const maskStatements = ({ query }: Statements) => ({
  /** Some of them; what does not fit into memory beside others comes without its sealed value. */
  findTokensOfUnknownMask: async (limit: number): Promise<TokenOfUnknownMask[]> =>
    (await query(undefined, FIND, [limit])) as TokenOfUnknownMask[],
  noteMasks: async (known: { tenant_id: string; id: string; masked: boolean }[]): Promise<void> => {
    await query(undefined, NOTE, [JSON.stringify(known)]);
  },
});
