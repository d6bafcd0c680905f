// Counts distinct tokens for the daily limits of an application, exact over all processes.
import { DAY_MS } from '../../platform/base/times.ts';
import type { DailyLimit } from '../../platform/base/application-limits.ts';
import { logRow } from '../../platform/db/audit-record.ts';
import { AppError, failure } from '../../platform/base/errors.ts';
import type { AccessContext } from './context.ts';
import { secondsOf } from './limits.ts';
import type { Check } from './checks.ts';
import type { Subject } from './explain-decision.ts';
import { countDailyItems, countDailyTokens, findDailyCount } from './rows/limits.ts';
import type { Work } from './work.ts';

type Counting = Pick<AccessContext, 'now' | 'newUuid' | 'newLogId' | 'refusals'>;

const dailyExceeded = (limit: DailyLimit, most: number, retryAfterSeconds: number): AppError =>
  failure('daily_limit', `The request is over the limit ${limit} of the application: ${most} tokens in a day (UTC).`, {
    retryAfterSeconds,
  });

/** Whether tokens fit into a limit, as the function `count_daily_tokens` decides. @param fresh those that are not counted today. */
export const fitsDailyLimit = ({ counted, most }: { counted: number; most: number }, fresh: number): boolean =>
  fresh === 0 || counted + fresh <= most;

/**
 * Counts tokens whose values are about to leave for the caller (`daily_reveals`), or for code and destinations (`daily_uses`).
 * All of them or none; each token once a day. Committed before values leave, and exact over all processes.
 * @throws too_many_requests where they are more than are left of the day; unavailable.
 */
export const countTokens = async (
  ctx: Counting,
  work: Work,
  limit: DailyLimit,
  ids: readonly string[],
): Promise<void> => {
  if (ids.length === 0) return;
  const most = work.caller.limits?.[limit];
  if (most !== undefined) {
    const { budget, resetSeconds } = budgetOf(ctx, work, limit, most);
    const { counted, is_allowed } = await countDailyTokens(work.db, budget, ids);
    work.reportLimit({ name: limit, left: Math.max(0, most - counted), resetSeconds });
    if (!is_allowed) {
      await logExceeded(ctx, work, limit);
      throw dailyExceeded(limit, most, resetSeconds);
    }
  }
  work.record?.counted({ actor_id: work.actor_id, limit, ids: [...ids] });
};

/**
 * Counts like `countTokens`, for items one after another: the tokens of each are counted all or none.
 * @returns why an item is over the limit, by its index; undefined for one that is counted.
 * @throws unavailable.
 */
export const countItems = async (
  ctx: Counting,
  work: Work,
  limit: DailyLimit,
  items: readonly (readonly string[])[],
): Promise<(AppError | undefined)[]> => {
  const most = work.caller.limits?.[limit];
  if (most === undefined || items.length === 0) return [];
  const { budget, resetSeconds } = budgetOf(ctx, work, limit, most);
  const { counted, allowed } = await countDailyItems(work.db, budget, items);
  work.reportLimit({ name: limit, left: Math.max(0, most - counted), resetSeconds });
  if (allowed.every(Boolean)) return [];
  await logExceeded(ctx, work, limit);
  return allowed.map((isAllowed) => (isAllowed ? undefined : dailyExceeded(limit, most, resetSeconds)));
};

/** Whether tokens would be counted; empty where the subject has no such limit. Counts nothing. */
export const findDailyCheck = async (
  { now }: Pick<Counting, 'now'>,
  work: Pick<Work, 'db'>,
  { id: application_id, rights }: Subject,
  limit: DailyLimit,
  ids: readonly string[],
): Promise<Check[]> => {
  const most = rights.limits?.[limit];
  if (most === undefined) return [];
  const day = dayOf(now());
  const { counted, fresh } = await findDailyCount(work.db, { application_id, limit, day }, ids);
  const ok = fitsDailyLimit({ counted, most }, fresh);
  return [{ name: limit, ok, detail: `${counted} of ${most} tokens are counted today (UTC).` }];
};

const dayOf = (now: Date): string => now.toISOString().slice(0, 10);

const budgetOf = (ctx: Counting, work: Work, limit: DailyLimit, most: number) => {
  const now = ctx.now();
  const day = dayOf(now);
  const midnightMs = Date.parse(day) + DAY_MS;
  const budget = {
    id: ctx.newUuid(),
    application_id: work.actor_id,
    limit,
    day,
    most,
    // A day more, for processes whose clock is behind.
    expires_at: new Date(midnightMs + DAY_MS),
  };
  return { budget, resetSeconds: secondsOf(midnightMs - now.getTime()) };
};

const logExceeded = (ctx: Counting, work: Work, limit: DailyLimit): Promise<void> => {
  const of = { entity_type: 'application', entity_ids: [work.actor_id] };
  const row = logRow(ctx, work, { operation: 'use', ...of, message: `Refused: ${limit}`, outcome: 'refused' });
  return ctx.refusals.recordRow(work.tenant_id, row);
};
