// Limits the rate of requests of an application, for all processes together.
import type { RateLimit } from '../../platform/base/application-limits.ts';
import { AppError, failure } from '../../platform/base/errors.ts';
import type { QuotaState } from '../../platform/http/answers.ts';
import type { Platform } from '../../platform/services/platform.ts';
import type { Caller } from './caller.ts';
import { secondsOf } from './limits.ts';
import { createRefusedUntil } from './refused-until.ts';
import { findArrival, rateIdOfSessions, takeRequest } from './rows/limits.ts';

/** Applications over their rate that a process remembers: it refuses them without a statement. */
const REFUSED_MAX = 10_000;

const rateExceeded = (waitMs: number): AppError =>
  failure('rate_limit', 'The application is over its rate_limit. Wait and try again.', {
    retryAfterSeconds: secondsOf(waitMs),
  });

export type RequestRates = {
  /**
   * Takes one request of the rate of an application, or of that of its sessions. All processes share it.
   * @param report called with the remaining requests. @throws too_many_requests; unavailable.
   */
  take(
    caller: Pick<Caller, 'tenant_id' | 'actor_id' | 'publicAccess'>,
    limit: RateLimit,
    report: (state: QuotaState) => void,
  ): Promise<void>;
};

/**
 * Finds the rate that a caller takes from. The sessions of an application have one together, as high as its own and apart from
 * it: each visitor of the tenant's page has a key of a session, and must not use up the requests of the tenant's servers.
 */
const findRateId = ({ actor_id, publicAccess }: Pick<Caller, 'actor_id' | 'publicAccess'>): string => {
  const creator = publicAccess?.session?.created_by;
  return creator === undefined ? actor_id : rateIdOfSessions(creator);
};

export const createRequestRates = (ctx: Pick<Platform, 'db' | 'now'>): RequestRates => {
  const refused = createRefusedUntil(REFUSED_MAX);
  return {
    async take({ tenant_id, ...caller }, { requests_per_second, burst }, report) {
      const id = findRateId(caller);
      const nowMs = ctx.now().getTime();
      const name = `${id} ${requests_per_second} ${burst}`;
      const intervalUs = Math.ceil(1_000_000 / requests_per_second);
      const rate = { id, nowUs: nowMs * 1000, intervalUs, windowUs: intervalUs * burst };
      const exceeded = (freeMs: number): AppError => {
        const waitMs = freeMs - nowMs;
        report({ name: 'rate_limit', left: 0, resetSeconds: secondsOf(waitMs) });
        return rateExceeded(waitMs);
      };
      const until = refused.find(name, nowMs);
      if (until !== undefined) throw exceeded(until);
      const db = ctx.db.for({ tenant_id });
      const taken = await takeRequest(db, rate);
      if (taken === undefined) {
        const arrivalUs = (await findArrival(db, id)) ?? rate.nowUs;
        const freeMs = Math.max(nowMs + 1, Math.ceil((arrivalUs + intervalUs - rate.windowUs) / 1000));
        refused.add(name, freeMs);
        throw exceeded(freeMs);
      }
      const queuedUs = taken - rate.nowUs;
      const left = Math.floor((rate.windowUs - queuedUs) / intervalUs);
      report({ name: 'rate_limit', left, resetSeconds: Math.ceil(queuedUs / 1_000_000) });
    },
  };
};
