// Statements on containers: which hold no token, and which the applications of a tenant name.
import type { TenantQuery } from '../../../platform/db/database.ts';

/** Each container costs one look into the index on containers. */
const WITHOUT_TOKENS = `SELECT wanted.container FROM unnest($2::text[]) AS wanted (container)
WHERE NOT EXISTS (SELECT FROM tokens t WHERE t.tenant_id = $1::uuid AND t.container = wanted.container)`;

/** A rule names a container by its path or by that of one around it. The root names none, as it is around all. */
const UNNAMED = `SELECT wanted.container FROM unnest($2::text[]) AS wanted (container)
WHERE NOT EXISTS (
  SELECT FROM applications a CROSS JOIN LATERAL (
    SELECT a.container AS named
    UNION ALL SELECT value #>> '{}' FROM jsonb_path_query(a.rules, '$[*].container') AS value
    UNION ALL SELECT value #>> '{}'
      FROM jsonb_path_query(a.rules, '$[*].conditions[*] ? (@.attribute == "container").value') AS value
  ) AS names
  WHERE a.tenant_id = $1::uuid AND names.named <> '/' AND starts_with(wanted.container, names.named)
)`;

type Found = { container: string }[];

/** Those that hold no token of the tenant, and that no rule and no public application of it names. */
export const findUnusedContainers = async (
  { query, tenant_id }: TenantQuery,
  containers: readonly string[],
): Promise<string[]> => {
  const empty = (await query('find-empty-containers', WITHOUT_TOKENS, [tenant_id, containers])) as Found;
  if (empty.length === 0) return [];
  const values = [tenant_id, empty.map(({ container }) => container)];
  const unnamed = (await query('find-unnamed-containers', UNNAMED, values)) as Found;
  return unnamed.map(({ container }) => container);
};
