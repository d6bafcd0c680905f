// Counts of uses, for tokens whose bound has `max_uses`, and for access rules that have it. Other tokens have no row here.
import type { TenantQuery } from '../../../platform/db/database.ts';
import type { Query } from '../../../platform/db/statements.ts';

/** The application of a token's own bound, which counts the uses of all callers. */
const EVERY_CALLER = '00000000-0000-0000-0000-000000000000';

/** One use of a token. `application_id`: of the caller whose access rule counts; undefined for the token's own bound. */
export type CountedUse = { token_id: string; application_id: string | undefined; most: number };

/** Sorted by their key, so that two requests with the same tokens wait for each other instead of locking each other out. */
const COUNT = `
INSERT INTO token_uses (tenant_id, token_id, application_id, uses)
SELECT $1::uuid, w.token_id, w.application_id, 1
FROM unnest($2::text[], $3::uuid[]) AS w(token_id, application_id) ORDER BY w.token_id, w.application_id
ON CONFLICT (tenant_id, token_id, application_id) DO UPDATE SET uses = token_uses.uses + 1
RETURNING token_id, application_id, uses`;

const FIND = `
SELECT token_id, uses FROM token_uses
WHERE tenant_id = $1 AND token_id = ANY ($2::text[]) AND application_id = '${EVERY_CALLER}'`;

/**
 * Counts one use each, in the transaction of the log row.
 * @returns the first that is above its limit: the transaction must fail then. Undefined where all are within.
 */
export const countUses = async (
  query: Query,
  tenant_id: string,
  uses: readonly CountedUse[],
): Promise<CountedUse | undefined> => {
  const applications = uses.map(({ application_id = EVERY_CALLER }) => application_id);
  const counted = (await query('count-uses', COUNT, [
    tenant_id,
    uses.map(({ token_id }) => token_id),
    applications,
  ])) as { token_id: string; application_id: string; uses: number }[];
  const countOf = new Map(
    counted.map(({ token_id, application_id, uses: count }) => [`${application_id} ${token_id}`, count]),
  );
  return uses.find(
    ({ token_id, most }, index) => (countOf.get(`${applications[index]} ${token_id}`) ?? Infinity) > most,
  );
};

const FIND_SPENT = `
SELECT DISTINCT w.token_id FROM unnest($2::text[], $3::uuid[], $4::int[]) AS w(token_id, application_id, most)
JOIN token_uses u ON u.tenant_id = $1::uuid AND u.token_id = w.token_id AND u.application_id = w.application_id
WHERE u.uses >= w.most`;

/** The tokens of which one use more would be above a limit. Counts nothing. */
export const findSpent = async (
  { query, tenant_id }: TenantQuery,
  uses: readonly CountedUse[],
): Promise<ReadonlySet<string>> => {
  if (uses.length === 0) return new Set();
  const found = (await query('find-spent-uses', FIND_SPENT, [
    tenant_id,
    uses.map(({ token_id }) => token_id),
    uses.map(({ application_id = EVERY_CALLER }) => application_id),
    uses.map(({ most }) => most),
  ])) as { token_id: string }[];
  return new Set(found.map(({ token_id }) => token_id));
};

/** Counted uses of tokens under their own bounds, by id. Without those that were never used. */
export const findUses = async (
  { query, tenant_id }: TenantQuery,
  ids: readonly string[],
): Promise<ReadonlyMap<string, number>> => {
  if (ids.length === 0) return new Map();
  const found = (await query('find-uses', FIND, [tenant_id, ids])) as { token_id: string; uses: number }[];
  return new Map(found.map(({ token_id, uses }) => [token_id, uses]));
};
