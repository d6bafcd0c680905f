// Variables of limits that applications have by default.
import { z } from 'zod';
import { BURST_MAX, DAILY_TOKENS_MAX, REQUESTS_PER_SECOND_MAX } from '../base/application-limits.ts';

/** `50`, or `50:200` with the burst. */
const rateLimit = z.string().transform((text, problems) => {
  const [, rate = '', burst = rate] = /^(\d{1,6})(?::(\d{1,6}))?$/.exec(text) ?? [];
  const limit = { requests_per_second: Number(rate), burst: Number(burst) };
  const isRate = limit.requests_per_second >= 1 && limit.requests_per_second <= REQUESTS_PER_SECOND_MAX;
  if (isRate && limit.burst >= 1 && limit.burst <= BURST_MAX) return limit;
  problems.addIssue(
    `must be requests per second from 1 to ${REQUESTS_PER_SECOND_MAX}, such as 50, or with a burst up to ${BURST_MAX}, such as 50:200`,
  );
  return z.NEVER;
});

const dailyTokens = z.coerce
  .number(`must be a whole number from 0 to ${DAILY_TOKENS_MAX}`)
  .int()
  .min(0)
  .max(DAILY_TOKENS_MAX)
  .optional();

export const limitVariables = {
  RATE_LIMIT: z.enum(['on', 'off']).default('on').describe('`off` lifts the limit on failed authentications.'),
  RATE_LIMIT_DEFAULT: rateLimit
    .optional()
    .describe(
      'Requests per second of an application that names no `rate_limit`, such as `50`, or `50:200` with its burst. Not set: no limit.',
    ),
  DAILY_REVEALS_DEFAULT: dailyTokens.describe(
    'Distinct tokens per day that an application may reveal if it names no `daily_reveals`. Not set: no limit.',
  ),
  DAILY_USES_DEFAULT: dailyTokens.describe(
    'Distinct tokens per day that an application may use if it names no `daily_uses`. Not set: no limit.',
  ),
};
