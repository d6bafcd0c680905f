// Limits of an application: requests per second, and distinct tokens that it reveals and uses in a day.

/** Each request updates one row. PostgreSQL does not update a row more often. */
export const REQUESTS_PER_SECOND_MAX = 10_000;
/** Ten seconds of the highest rate. */
export const BURST_MAX = 100_000;
/** Each counted token is a row of about 100 bytes until the day after. */
export const DAILY_TOKENS_MAX = 1_000_000;

export type RateLimit = {
  requests_per_second: number;
  /** Requests that may come at once, after a pause. */
  burst: number;
};

/** Undefined for no limit. */
export type ApplicationLimits = {
  readonly rate_limit?: RateLimit | undefined;
  readonly daily_reveals?: number | undefined;
  readonly daily_uses?: number | undefined;
};

export type LimitName = keyof ApplicationLimits;

export type DailyLimit = Exclude<LimitName, 'rate_limit'>;
