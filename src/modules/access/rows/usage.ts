// How many tokens of each type a tenant has.
import type { TenantQuery } from '../../../platform/db/database.ts';

export type TypeCount = { type: string; count: number; last_created_at: Date | null };

const COUNT_BY_TYPE = `
SELECT type, sum(change)::bigint AS count, max(last_created_at) AS last_created_at
FROM token_counts WHERE tenant_id = $1 GROUP BY type ORDER BY type`;

export const countTokensByType = async ({ query, tenant_id }: TenantQuery): Promise<TypeCount[]> => {
  const rows = (await query('count-by-type', COUNT_BY_TYPE, [tenant_id])) as (Omit<TypeCount, 'count'> & {
    count: string;
  })[];
  return rows.map((row) => ({ ...row, count: Number(row.count) }));
};
