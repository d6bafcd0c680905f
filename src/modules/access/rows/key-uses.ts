// Rows of API keys: when each was used last.
import type { Database, TenantQuery } from '../../../platform/db/database.ts';

/** A use of an API key, named by its public id. */
export type KeyUse = { tenant_id: string; public_id: string; used_at: Date };

/** A key that another process writes at this moment, or that is being deleted, is skipped: no statement waits for it. */
export const WRITE_KEY_USES = `
WITH used AS (
  SELECT k.public_id, u.used_at
  FROM unnest($1::uuid[], $2::text[], $3::timestamptz[]) AS u(tenant_id, public_id, used_at)
  JOIN api_keys k ON k.tenant_id = u.tenant_id AND k.public_id = u.public_id
  WHERE k.last_used_at IS NULL OR k.last_used_at < u.used_at
  FOR NO KEY UPDATE OF k SKIP LOCKED
)
UPDATE api_keys SET last_used_at = used.used_at FROM used WHERE api_keys.public_id = used.public_id`;

export const FIND_LAST_USES = `
SELECT application_id, max(last_used_at) AS last_used_at FROM api_keys
WHERE tenant_id = $1 AND application_id = ANY($2::uuid[]) AND last_used_at IS NOT NULL GROUP BY application_id`;

/** Writes uses of several tenants in one statement; a key of another tenant than its use says stays as it is. */
export const writeKeyUses = async (
  { statements }: Pick<Database, 'statements'>,
  uses: readonly KeyUse[],
): Promise<void> => {
  const tenant_ids = uses.map(({ tenant_id }) => tenant_id);
  const columns = [tenant_ids, uses.map(({ public_id }) => public_id), uses.map(({ used_at }) => used_at)];
  await statements.queryOf(...tenant_ids)('write-key-uses', WRITE_KEY_USES, columns);
};

/** When a key of each application was used last. Applications whose keys were not used are left out. */
export const findLastUses = async (
  { query, tenant_id }: TenantQuery,
  application_ids: readonly string[],
): Promise<Map<string, Date>> => {
  const rows = (await query('find-last-uses', FIND_LAST_USES, [tenant_id, application_ids])) as {
    application_id: string;
    last_used_at: Date;
  }[];
  return new Map(rows.map(({ application_id, last_used_at }) => [application_id, last_used_at]));
};
