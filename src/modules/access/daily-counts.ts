// Counts distinct tokens for the daily limits of an application, exact over all processes.
import type { DailyLimit } from '../../platform/application-limits.ts';
import { logRow } from '../../platform/audit/record.ts';
import { AppError, failure } from '../../platform/errors.ts';
import type { AccessContext } from './context.ts';
import { secondsOf } from './limits.ts';
import { countDailyTokens } from './rows/limits.ts';
import type { Work } from './work.ts';

const DAY_MS = 86_400_000;

const dailyExceeded = (limit: DailyLimit, most: number, retryAfterSeconds: number): AppError =>
  failure('daily_limit', `The request is over the limit ${limit} of the application: ${most} tokens in a day (UTC).`, {
    retryAfterSeconds,
  });

/**
 * Counts tokens whose values are about to leave for the caller (`daily_reveals`), or for code and destinations (`daily_uses`).
 * All of them or none; each token once a day. Committed before values leave, and exact over all processes.
 * @throws too_many_requests where they are more than are left of the day; unavailable.
 */
export const countTokens = async (
  ctx: Pick<AccessContext, 'now' | 'newUuid' | 'newLogId' | 'refusals'>,
  work: Work,
  limit: DailyLimit,
  ids: readonly string[],
): Promise<void> => {
  if (ids.length === 0) return;
  const most = work.caller.limits?.[limit];
  if (most !== undefined) {
    const now = ctx.now();
    const day = now.toISOString().slice(0, 10);
    const midnightMs = Date.parse(day) + DAY_MS;
    const resetSeconds = secondsOf(midnightMs - now.getTime());
    const budget = {
      id: ctx.newUuid(),
      application_id: work.actor_id,
      limit,
      day,
      most,
      // A day more, for processes whose clock is behind.
      expires_at: new Date(midnightMs + DAY_MS),
    };
    const { counted, is_allowed } = await countDailyTokens(work.db, budget, ids);
    work.reportLimit({ name: limit, left: Math.max(0, most - counted), resetSeconds });
    if (!is_allowed) {
      const of = { entity_type: 'application', entity_ids: [work.actor_id] };
      const row = logRow(ctx, work, { operation: 'use', ...of, message: `Refused: ${limit}`, outcome: 'refused' });
      await ctx.refusals.recordRow(work.tenant_id, row);
      throw dailyExceeded(limit, most, resetSeconds);
    }
  }
  work.record?.counted({ actor_id: work.actor_id, limit, ids: [...ids] });
};
