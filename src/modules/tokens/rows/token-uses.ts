// Counts of uses and sums of amounts, for tokens whose bound has `max_uses` or `max_total`, and for access rules that have them. Other
// tokens have no row here.
import type { Bound } from '../../access/bounds.ts';
import type { TenantQuery } from '../../../platform/db/database.ts';
import type { Query } from '../../../platform/db/statements.ts';

/** The application of a token's own bound, which counts the uses of all callers. */
const EVERY_CALLER = '00000000-0000-0000-0000-000000000000';

/** One use of a token. `application_id`: of the caller whose access rule counts; undefined for the token's own bound. */
export type CountedUse = { token_id: string; application_id: string | undefined; most: number };

/** Sorted by their key, so that two requests with the same tokens wait for each other instead of locking each other out. */
const COUNT = `
INSERT INTO token_uses (tenant_id, token_id, application_id, uses, total)
SELECT $1::uuid, w.token_id, w.application_id, 1, 0
FROM unnest($2::text[], $3::uuid[]) AS w(token_id, application_id) ORDER BY w.token_id, w.application_id
ON CONFLICT (tenant_id, token_id, application_id) DO UPDATE SET uses = token_uses.uses + 1
RETURNING token_id, application_id, uses`;

const FIND = `
SELECT token_id, uses, total FROM token_uses
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

const RETURN = `
UPDATE token_uses u SET uses = u.uses - 1 FROM unnest($2::text[], $3::uuid[]) AS w(token_id, application_id)
WHERE u.tenant_id = $1::uuid AND u.token_id = w.token_id AND u.application_id = w.application_id AND u.uses > 0`;

/** Takes back uses that were counted, of a request of which nothing was sent. */
export const returnUses = async (query: Query, tenant_id: string, uses: readonly CountedUse[]): Promise<void> => {
  if (uses.length === 0) return;
  const applications = uses.map(({ application_id = EVERY_CALLER }) => application_id);
  await query('return-uses', RETURN, [tenant_id, uses.map(({ token_id }) => token_id), applications]);
};

/** What one request has counted of a token. `amount`: in minor units. */
export type SpentUse = Pick<CountedUse, 'token_id' | 'application_id'> & { uses: 0 | 1; amount: bigint };

const GIVE_BACK = `
UPDATE token_uses u SET uses = greatest(u.uses - w.uses, 0), total = greatest(u.total - w.amount, 0), given_back = true
FROM unnest($2::text[], $3::uuid[], $4::int[], $5::bigint[]) AS w(token_id, application_id, uses, amount)
WHERE u.tenant_id = $1::uuid AND u.token_id = w.token_id AND u.application_id = w.application_id AND NOT u.given_back`;

/** Gives back what a request that was sent has counted. Once for each count: a destination that goes on answering so may have acted. */
export const giveBackUses = async ({ query, tenant_id }: TenantQuery, spent: readonly SpentUse[]): Promise<void> => {
  if (spent.length === 0) return;
  await query('give-back-uses', GIVE_BACK, [
    tenant_id,
    spent.map(({ token_id }) => token_id),
    spent.map(({ application_id = EVERY_CALLER }) => application_id),
    spent.map(({ uses }) => uses),
    spent.map(({ amount }) => String(amount)),
  ]);
};

/** Sorted as counts are. A row that is above its limit is not changed, and not returned. */
const ADD = `
INSERT INTO token_uses (tenant_id, token_id, application_id, uses, total)
SELECT $1::uuid, w.token_id, w.application_id, 0, $5::bigint
FROM unnest($2::text[], $3::uuid[], $4::bigint[]) AS w(token_id, application_id, most)
WHERE $5::bigint <= w.most ORDER BY w.token_id, w.application_id
ON CONFLICT (tenant_id, token_id, application_id) DO UPDATE SET total = token_uses.total + excluded.total
RETURNING token_id, application_id, total`;

/**
 * Adds an amount to the sums of tokens, in a transaction of its own or with others.
 * @param sums of which `most` is the limit. @returns the first that is above it: the transaction must fail then.
 */
export const addTotals = async (
  query: Query,
  tenant_id: string,
  sums: readonly CountedUse[],
  amount: bigint,
): Promise<CountedUse | undefined> => {
  const applications = sums.map(({ application_id = EVERY_CALLER }) => application_id);
  const added = (await query('add-totals', ADD, [
    tenant_id,
    sums.map(({ token_id }) => token_id),
    applications,
    sums.map(({ most }) => most),
    String(amount),
  ])) as { token_id: string; application_id: string; total: string }[];
  const totalOf = new Map(
    added.map(({ token_id, application_id, total }) => [`${application_id} ${token_id}`, BigInt(total)]),
  );
  return sums.find(({ token_id, most }, index) => {
    const total = totalOf.get(`${applications[index]} ${token_id}`);
    return total === undefined || total > BigInt(most);
  });
};

const FIND_ABOVE = `
SELECT w.token_id, w.application_id FROM unnest($2::text[], $3::uuid[], $4::bigint[]) AS w(token_id, application_id, most)
LEFT JOIN token_uses u ON u.tenant_id = $1::uuid AND u.token_id = w.token_id AND u.application_id = w.application_id
WHERE coalesce(u.total, 0) + $5::numeric > w.most LIMIT 1`;

/** Finds what `addTotals` would find, and adds nothing. */
export const findAboveTotal = async (
  { query, tenant_id }: TenantQuery,
  sums: readonly CountedUse[],
  amount: bigint,
): Promise<CountedUse | undefined> => {
  if (sums.length === 0) return undefined;
  const applications = sums.map(({ application_id = EVERY_CALLER }) => application_id);
  const [above] = (await query('find-above-total', FIND_ABOVE, [
    tenant_id,
    sums.map(({ token_id }) => token_id),
    applications,
    sums.map(({ most }) => most),
    String(amount),
  ])) as { token_id: string; application_id: string }[];
  return sums.find(
    ({ token_id }, index) => token_id === above?.token_id && applications[index] === above.application_id,
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

/** What is counted of a token under its own bound. `spent`: in minor units. */
export type Uses = { uses: number; spent: number };

/** What a record shows of it: where its bound counts it. */
export type ShownUses = { uses: number | undefined; spent: number | undefined };

export const usesUnder = (bound: Bound | null | undefined, { uses, spent }: Uses = NO_USES): ShownUses => ({
  uses: bound?.max_uses === undefined ? undefined : uses,
  spent: bound?.allowance?.max_total === undefined ? undefined : spent,
});

const NO_USES: Uses = { uses: 0, spent: 0 };

/** Counted uses of tokens under their own bounds, by id. Without those that were never used. */
export const findUses = async (
  { query, tenant_id }: TenantQuery,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Uses>> => {
  if (ids.length === 0) return new Map();
  const found = (await query('find-uses', FIND, [tenant_id, ids])) as {
    token_id: string;
    uses: number;
    total: string;
  }[];
  return new Map(found.map(({ token_id, uses, total }) => [token_id, { uses, spent: Number(total) }]));
};
