// Rows of the limits of applications: the rate of requests, and the tokens that count today.
import type { DailyLimit } from '../../../platform/base/application-limits.ts';
import type { TenantQuery } from '../../../platform/db/database.ts';
import { uuidOfName } from '../../../platform/crypto/ids.ts';
import type { PrismaTransaction } from '../../../platform/db/transaction.ts';

/** Clocks of processes differ by less. A time that is further ahead is of another limit or of a wrong clock: it does not count. */
const CLOCK_DIFFERENCE_US = 1_000_000;

/**
 * The generic cell rate algorithm (ITU-T I.371): each request moves the time of arrival on by the interval ($4), and it may be
 * ahead of now ($3) by the window ($5). Writes nothing where the request is refused.
 */
const BEHIND = `CASE WHEN request_rates.arrival_us > $3::bigint + $5::bigint + ${CLOCK_DIFFERENCE_US} THEN $3::bigint
  ELSE greatest(request_rates.arrival_us, $3::bigint) END + $4::bigint`;
export const TAKE_REQUEST = `
INSERT INTO request_rates (tenant_id, id, arrival_us) VALUES ($1, $2, $3::bigint + $4::bigint)
ON CONFLICT (tenant_id, id) DO UPDATE SET arrival_us = ${BEHIND} WHERE ${BEHIND} <= $3::bigint + $5::bigint
RETURNING arrival_us`;

export const FIND_ARRIVAL = 'SELECT arrival_us FROM request_rates WHERE tenant_id = $1 AND id = $2';

/** The function is in prisma/migrations/20261123200000_limits_of_applications. */
export const COUNT_DAILY_TOKENS =
  'SELECT counted, is_allowed FROM count_daily_tokens($1::uuid, $2::uuid, $3, $4::date, $5::text[], $6, $7::uuid, $8)';

/** The tokens of each item of $5, a list of lists, in the order of the items. */
const COUNT_DAILY_ITEMS = `
SELECT item.place, c.counted, c.is_allowed FROM jsonb_array_elements($5::jsonb) WITH ORDINALITY AS item(ids, place),
  LATERAL count_daily_tokens($1::uuid, $2::uuid, $3, $4::date, ARRAY(SELECT jsonb_array_elements_text(item.ids)), $6,
    $7::uuid, $8) AS c`;

/** The row of the rate that all sessions of an application have together. */
export const rateIdOfSessions = (application_id: string): string => uuidOfName(`sessions of ${application_id}`);

/** @returns the time of arrival, in microseconds since 1970; undefined where the request is refused. */
export const takeRequest = async (
  { query, tenant_id }: TenantQuery,
  { id, nowUs, intervalUs, windowUs }: { id: string; nowUs: number; intervalUs: number; windowUs: number },
): Promise<number | undefined> => {
  const [row] = (await query('take-request', TAKE_REQUEST, [tenant_id, id, nowUs, intervalUs, windowUs])) as {
    arrival_us: string;
  }[];
  return row && Number(row.arrival_us);
};

export const findArrival = async ({ query, tenant_id }: TenantQuery, id: string): Promise<number | undefined> => {
  const [row] = (await query('find-arrival', FIND_ARRIVAL, [tenant_id, id])) as { arrival_us: string }[];
  return row && Number(row.arrival_us);
};

export type DailyBudget = {
  /** Id of its row, if there is none yet. */
  id: string;
  application_id: string;
  limit: DailyLimit;
  day: string;
  most: number;
  expires_at: Date;
};

/** Counts tokens, all or none. @returns how many are counted, and whether these are among them. */
export const countDailyTokens = async (
  { query, tenant_id }: TenantQuery,
  { id, application_id, limit, day, most, expires_at }: DailyBudget,
  token_ids: readonly string[],
): Promise<{ counted: number; is_allowed: boolean }> => {
  const values = [tenant_id, application_id, limit, day, token_ids, most, id, expires_at];
  const [counted] = await query('count-daily-tokens', COUNT_DAILY_TOKENS, values);
  return counted as { counted: number; is_allowed: boolean };
};

/**
 * Counts the tokens of items one after another, those of each item all or none.
 * @returns how many are counted, and whether each item is among them.
 */
export const countDailyItems = async (
  { query, tenant_id }: TenantQuery,
  { id, application_id, limit, day, most, expires_at }: DailyBudget,
  items: readonly (readonly string[])[],
): Promise<{ counted: number; allowed: boolean[] }> => {
  const values = [tenant_id, application_id, limit, day, JSON.stringify(items), most, id, expires_at];
  const rows = await query('count-daily-items', COUNT_DAILY_ITEMS, values);
  const allowed: boolean[] = [];
  let counted = 0;
  for (const row of rows as { place: string; counted: number; is_allowed: boolean }[]) {
    allowed[Number(row.place) - 1] = row.is_allowed;
    counted = Math.max(counted, row.counted);
  }
  return { counted, allowed };
};

/** Counts, of tokens: how many the budget of a day has counted, and how many of these are not among them. */
const FIND_DAILY_COUNT = `SELECT coalesce(max(b.counted), 0)::int AS counted,
  (SELECT count(*) FROM (SELECT DISTINCT unnest($5::text[])) AS wanted (id)
    WHERE NOT EXISTS (SELECT FROM daily_tokens t WHERE t.tenant_id = $1::uuid AND t.budget_id = max(b.id::text)::uuid
      AND t.token_id = wanted.id))::int AS fresh
FROM daily_budgets b WHERE b.tenant_id = $1::uuid AND b.application_id = $2::uuid AND b.limit_name = $3 AND b.day = $4::date`;

/** Counts nothing. */
export const findDailyCount = async (
  { query, tenant_id }: TenantQuery,
  { application_id, limit, day }: Pick<DailyBudget, 'application_id' | 'limit' | 'day'>,
  token_ids: readonly string[],
): Promise<{ counted: number; fresh: number }> => {
  const values = [tenant_id, application_id, limit, day, token_ids];
  const [found] = await query('find-daily-count', FIND_DAILY_COUNT, values);
  return found as { counted: number; fresh: number };
};

/** Removes what is counted for an application. The sweep removes the tokens of its budgets. */
export const deleteCountsOf = async (
  { prisma, tenant_id }: PrismaTransaction,
  application_id: string,
): Promise<void> => {
  const ids = [application_id, rateIdOfSessions(application_id)];
  await prisma.request_rates.deleteMany({ where: { tenant_id, id: { in: ids } } });
  await prisma.daily_budgets.updateMany({ where: { tenant_id, application_id }, data: { expires_at: new Date(0) } });
};
