// How often somebody may be wrong: failures are counted before the work they would cost, by all processes together, and under
// digests, so that no table tells who tried what. Knows neither passwords nor links.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { Context } from '../context.ts';
import { accountAttemptDigest, accountAttemptRange, attemptDigest } from '../crypto/digest.ts';
import { AppError } from '../errors.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** What is counted: so many failures in so long. Guessing is hopeless far below them, and people rarely get there. */
const limits = {
  /** Of one account from one place, whether there is such an account or not. */
  sign_in_of_account_from: { most: 10, windowMs: 'lockout' },
  /** Of one account from all places: against guesses from many. NIST SP 800-63B: at most 100. A known place goes on. */
  sign_in_of_account: { most: 100, windowMs: 'lockout' },
  /** From one place, over all accounts: an office behind one address has more people than one. */
  sign_in_from: { most: 50, windowMs: 'lockout' },
  /** Links that lead nowhere: people open an old one a few times, and a secret has 190 bits. */
  dead_link_from: { most: 30, windowMs: 10 * MINUTE_MS },
} as const;

/** A place stays known for so long after the last sign-in from there. */
const KNOWN_PLACE_MS = 90 * DAY_MS;

export type AttemptKind = keyof typeof limits;

/** What an attempt is counted for. */
export type AttemptSubject = { account: string; place?: string } | { account?: undefined; place: string };

type Counting = Pick<Context, 'config' | 'db' | 'pepper' | 'now'>;

const digestOf = (
  { pepper }: Counting,
  kind: AttemptKind | 'known_place',
  { account, place = '' }: AttemptSubject,
): Buffer =>
  account === undefined ? attemptDigest(pepper, kind, place) : accountAttemptDigest(pepper, kind, account, place);

/**
 * Whom an IP address stands for: of IPv4 the whole, of IPv6 the first 48 bits, which is what a provider gives to one site
 * (RFC 6177): by the first 64 one client would be 65,536 places.
 */
export const placeOfIp = (ip: string): string => {
  // Some balancers tell the port as well, which is another one each time.
  const [address = ''] = ip.replace(/^(\d+(?:\.\d+){3}):\d+$|^\[(.*)\](?::\d+)?$/, '$1$2').split('%', 1);
  if (!isIP(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  const [first, second, third] = parsed.parts.map((part) => part.toString(16));
  return `${first}:${second}:${third}::/48`;
};

const tooMany = (ctx: Counting, ends_at: Date): AppError =>
  new AppError('too_many_requests', 'Too many attempts.', {
    retryAfterSeconds: Math.max(1, Math.ceil((ends_at.getTime() - ctx.now().getTime()) / 1000)),
  });

/**
 * Counts an attempt that may fail, before it is made: of many at once no more pass.
 * @param isExempt asked where there are too many: whether this one passes all the same.
 * @throws too_many_requests.
 */
export const countAttempt = async (
  ctx: Counting,
  kind: AttemptKind,
  subject: AttemptSubject,
  isExempt: () => Promise<boolean> = async () => false,
): Promise<void> => {
  if (!ctx.config.rateLimit) return;
  const { most, windowMs } = limits[kind];
  const now = ctx.now();
  const ends_at = new Date(now.getTime() + (windowMs === 'lockout' ? ctx.config.signInLockoutMs : windowMs));
  const counted = await ctx.db.countAttempt(digestOf(ctx, kind, subject), now, ends_at);
  if (counted.failures > most && !(await isExempt())) throw tooMany(ctx, counted.ends_at);
};

/** Refuses a client that has failed too often, and counts nothing. @throws too_many_requests. */
export const refuseTooMany = async (ctx: Counting, kind: AttemptKind, subject: AttemptSubject): Promise<void> => {
  if (!ctx.config.rateLimit) return;
  const counted = await ctx.db.findAttempts(digestOf(ctx, kind, subject), ctx.now());
  if (counted && counted.failures >= limits[kind].most) throw tooMany(ctx, counted.ends_at);
};

/** The attempt that was counted did not fail. */
export const takeBackAttempt = async (ctx: Counting, kind: AttemptKind, subject: AttemptSubject): Promise<void> => {
  if (ctx.config.rateLimit) await ctx.db.takeBackAttempt(digestOf(ctx, kind, subject));
};

/** The client knows the right answer: its earlier failures are no guesses. */
export const clearAttempts = async (ctx: Counting, kind: AttemptKind, subject: AttemptSubject): Promise<void> => {
  if (ctx.config.rateLimit) await ctx.db.clearAttempts(digestOf(ctx, kind, subject));
};

/** Forgets every attempt of an account, and every place that it is known at. */
export const clearAttemptsOfAccount = async (ctx: Counting, account: string): Promise<void> => {
  const { first, last } = accountAttemptRange(ctx.pepper, account);
  await ctx.db.clearAttemptsBetween(first, last);
};

type AccountPlace = { account: string; place: string };

/** Remembers that the person of an account has signed in from a place. */
export const rememberPlace = async (ctx: Counting, subject: AccountPlace): Promise<void> => {
  if (!ctx.config.rateLimit) return;
  await ctx.db.rememberDigest(digestOf(ctx, 'known_place', subject), new Date(ctx.now().getTime() + KNOWN_PLACE_MS));
};

export const isKnownPlace = async (ctx: Counting, subject: AccountPlace): Promise<boolean> =>
  (await ctx.db.findAttempts(digestOf(ctx, 'known_place', subject), ctx.now())) !== undefined;
