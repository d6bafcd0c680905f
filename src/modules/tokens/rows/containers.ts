// Statements on containers: which hold no token, which hold one, and which the applications of a tenant name.
import type { TenantQuery } from '../../../platform/db/database.ts';

/** Each container costs one look into the index on containers. */
const WITHOUT_TOKENS = `SELECT wanted.container FROM unnest($2::text[]) AS wanted (container)
WHERE NOT EXISTS (SELECT FROM tokens t WHERE t.tenant_id = $1::uuid AND t.container = wanted.container)`;

/** What rules and public applications name: a container by its path, or by that of one around it. */
const NAMED = `SELECT DISTINCT names.named AS container FROM applications a CROSS JOIN LATERAL (
  SELECT a.container AS named
  UNION ALL SELECT value #>> '{}' FROM jsonb_path_query(a.rules, '$[*].container') AS value
  UNION ALL SELECT value #>> '{}'
    FROM jsonb_path_query(a.rules, '$[*].conditions[*] ? (@.attribute == "container").value') AS value
) AS names WHERE a.tenant_id = $1::uuid AND names.named IS NOT NULL`;

/** Containers in use that a misspelt one is compared with. */
const COMPARED_MAX = 200;

/** The first containers in the order of their paths, each by one look into the index. */
const IN_USE = `WITH RECURSIVE used AS (
  (SELECT container FROM tokens WHERE tenant_id = $1::uuid ORDER BY container LIMIT 1)
  UNION ALL
  SELECT (SELECT t.container FROM tokens t
    WHERE t.tenant_id = $1::uuid AND t.container > used.container ORDER BY t.container LIMIT 1)
  FROM used WHERE used.container IS NOT NULL
) SELECT container FROM used WHERE container IS NOT NULL LIMIT ${COMPARED_MAX}`;

type Found = { container: string }[];

const containersIn = (rows: unknown): string[] => (rows as Found).map(({ container }) => container);

/** Those that hold no token of the tenant. */
export const findEmptyContainers = async (
  { query, tenant_id }: TenantQuery,
  containers: readonly string[],
): Promise<string[]> => containersIn(await query('find-empty-containers', WITHOUT_TOKENS, [tenant_id, containers]));

/** `named` are the containers that rules and public applications of the tenant name, `used` the first that hold tokens. */
export const findKnownContainers = async ({
  query,
  tenant_id,
}: TenantQuery): Promise<{ named: string[]; used: string[] }> => ({
  named: containersIn(await query('find-named-containers', NAMED, [tenant_id])),
  used: containersIn(await query('find-used-containers', IN_USE, [tenant_id])),
});
