// Limits of applications: what holds for an application, whether one limit is within another, and what headers say of them.
import type { ApplicationLimits, DailyLimit, RateLimit } from '../../platform/base/application-limits.ts';
import type { Quota } from '../../platform/http/answers.ts';
import type { Platform } from '../../platform/services/platform.ts';
import type { Caller } from './caller.ts';
import type { Work } from './work.ts';

const DAY_SECONDS = 86_400;

/** The limit of public callers, as headers and problems name it. */
export const CREATES_LIMIT = 'creates_per_minute';
export const CREATES_WINDOW_MS = 60_000;

/** Limits as the columns of an application have them. */
export type LimitColumns = {
  rate_limit: unknown;
  daily_reveals: number | null;
  daily_uses: number | null;
};

/** What an application names itself. */
export const namedLimits = ({ rate_limit, daily_reveals, daily_uses }: LimitColumns): ApplicationLimits => ({
  rate_limit: (rate_limit as RateLimit | null) ?? undefined,
  daily_reveals: daily_reveals ?? undefined,
  daily_uses: daily_uses ?? undefined,
});

/** What holds for an application: what it names, else the operator's default. Undefined for no limit at all. */
export const effectiveLimits = (
  { config: { limitDefaults } }: Pick<Platform, 'config'>,
  named: ApplicationLimits,
): ApplicationLimits | undefined => {
  const rate_limit = named.rate_limit ?? limitDefaults.rate_limit;
  const daily_reveals = named.daily_reveals ?? limitDefaults.daily_reveals;
  const daily_uses = named.daily_uses ?? limitDefaults.daily_uses;
  if (rate_limit === undefined && daily_reveals === undefined && daily_uses === undefined) return undefined;
  return { rate_limit, daily_reveals, daily_uses };
};

const isWithin = (inner: number | undefined, outer: number | undefined): boolean =>
  outer === undefined || (inner !== undefined && inner <= outer);

/** Whether the inner limits allow no more than the outer ones. Undefined limits nothing. */
export const coversLimits = (outer: ApplicationLimits = {}, inner: ApplicationLimits = {}): boolean =>
  isWithin(inner.daily_reveals, outer.daily_reveals) &&
  isWithin(inner.daily_uses, outer.daily_uses) &&
  isWithin(inner.rate_limit?.requests_per_second, outer.rate_limit?.requests_per_second) &&
  isWithin(inner.rate_limit?.burst, outer.rate_limit?.burst);

/** Whether tokens count for a caller. Who has no limits must not be made by it. */
export const hasDailyLimit = ({ limits }: Pick<Caller, 'limits'>): boolean =>
  limits?.daily_reveals !== undefined || limits?.daily_uses !== undefined;

/** The quotas of limits, as headers announce them. A whole burst is free again after its window. */
export const quotasOf = ({ limits = {}, publicAccess }: Pick<Caller, 'limits' | 'publicAccess'>): Quota[] => {
  const { rate_limit, daily_reveals, daily_uses } = limits;
  const windowSeconds = rate_limit && Math.ceil(rate_limit.burst / rate_limit.requests_per_second);
  const quotas: { name: string; quota: number | undefined; windowSeconds: number }[] = [
    { name: 'rate_limit', quota: rate_limit?.burst, windowSeconds: windowSeconds ?? 0 },
    { name: 'daily_reveals', quota: daily_reveals, windowSeconds: DAY_SECONDS },
    { name: 'daily_uses', quota: daily_uses, windowSeconds: DAY_SECONDS },
    { name: CREATES_LIMIT, quota: publicAccess?.creates_per_minute, windowSeconds: CREATES_WINDOW_MS / 1000 },
  ];
  return quotas.filter((each): each is typeof each & { quota: number } => each.quota !== undefined);
};

/** For Retry-After and the headers: at least one second. */
export const secondsOf = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));

/** Counts a value that an operation reveals to its caller. Within code only the code sees it, which counts as a use. */
export const limitOfReveal = ({ origin }: Pick<Work, 'origin'>): DailyLimit =>
  origin?.reactor_id === undefined && origin?.proxy_id === undefined ? 'daily_reveals' : 'daily_uses';
