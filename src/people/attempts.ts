// How often somebody may be wrong: failures are counted before the work they would cost, by all processes together, and under
// digests, so that no table tells who tried what. Knows neither passwords nor links.
import { isIPv4, isIPv6 } from 'node:net';
import type { Context } from '../context.ts';
import { attemptDigest } from '../crypto/digest.ts';
import { AppError } from '../errors.ts';

const MINUTE_MS = 60_000;

/** What is counted: so many failures in so long. Guessing is hopeless far below them, and people rarely get there. */
const limits = {
  /** Of one address that somebody signs in with, whether it is anybody's or not. NIST SP 800-63B: at most 100. */
  sign_in_of_account: { most: 10, windowMs: 15 * MINUTE_MS },
  /** From one place, over all accounts: an office behind one address has more people than one. */
  sign_in_from: { most: 50, windowMs: 15 * MINUTE_MS },
  /** Links that lead nowhere: people open an old one a few times, and a secret has 190 bits. */
  dead_link_from: { most: 30, windowMs: 10 * MINUTE_MS },
} as const;

export type AttemptKind = keyof typeof limits;

type Counting = Pick<Context, 'config' | 'db' | 'pepper' | 'now'>;

/** Whom an IP address stands for: of IPv6 its first 64 bits, one network's at least (RFC 4291 section 2.5.4), of IPv4 the whole. */
export const placeOfIp = (ip: string): string => {
  // Some balancers tell the port as well, which is another one each time.
  const [address = ''] = ip.replace(/^(\d+(?:\.\d+){3}):\d+$|^\[(.*)\](?::\d+)?$/, '$1$2').split('%', 1);
  const mapped = address.replace(/^::ffff:/i, '');
  if (isIPv4(mapped)) return mapped;
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.toLowerCase().split('::');
  const groups = head === '' ? [] : head.split(':');
  // A dotted end is two groups long; whatever it says, it is none of the first four unless all eight are written out.
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const afterLength = after.length + (tail?.includes('.') ? 1 : 0);
  const missing = tail === undefined ? 0 : 8 - groups.length - afterLength;
  const all = [...groups, ...Array.from({ length: Math.max(0, missing) }, () => '0'), ...after];
  return `${all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
};

const tooMany = (ctx: Counting, ends_at: Date): AppError =>
  new AppError('too_many_requests', 'Too many attempts.', {
    retryAfterSeconds: Math.max(1, Math.ceil((ends_at.getTime() - ctx.now().getTime()) / 1000)),
  });

/** Counts an attempt that may fail, before it is made: of many at once no more pass. @throws too_many_requests. */
export const countAttempt = async (ctx: Counting, kind: AttemptKind, what: string): Promise<void> => {
  if (!ctx.config.rateLimit) return;
  const { most, windowMs } = limits[kind];
  const now = ctx.now();
  const ends_at = new Date(now.getTime() + windowMs);
  const counted = await ctx.db.countAttempt(attemptDigest(ctx.pepper, kind, what), now, ends_at);
  if (counted.failures > most) throw tooMany(ctx, counted.ends_at);
};

/** Refuses whoever has failed too often, and counts nothing. @throws too_many_requests. */
export const refuseTooMany = async (ctx: Counting, kind: AttemptKind, what: string): Promise<void> => {
  if (!ctx.config.rateLimit) return;
  const counted = await ctx.db.findAttempts(attemptDigest(ctx.pepper, kind, what), ctx.now());
  if (counted && counted.failures >= limits[kind].most) throw tooMany(ctx, counted.ends_at);
};

/** The attempt that was counted did not fail. */
export const takeBackAttempt = async (ctx: Counting, kind: AttemptKind, what: string): Promise<void> => {
  if (ctx.config.rateLimit) await ctx.db.takeBackAttempt(attemptDigest(ctx.pepper, kind, what));
};

/** Whoever it was knows the right answer: earlier failures are no guesses. */
export const clearAttempts = async (ctx: Counting, kind: AttemptKind, what: string): Promise<void> => {
  if (ctx.config.rateLimit) await ctx.db.clearAttempts(attemptDigest(ctx.pepper, kind, what));
};
