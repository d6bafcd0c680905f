// Limits failed sign-ins and dead links per account and network, with counts that all processes share.
import { DAY_MS, MINUTE_MS } from '../../platform/base/times.ts';
import type { PeopleContext } from './context.ts';
import { accountAttemptDigest, accountAttemptRange, attemptDigest } from '../../platform/crypto/digest.ts';
import { AppError } from '../../platform/base/errors.ts';
import {
  addAttempt,
  deleteAttempts,
  deleteAttemptsBetween,
  findAttempts,
  rememberDigest,
  subtractAttempt,
} from '../access/rows/attempts.ts';

/** How many failures in which time. A place is the network of a client: see placeOfIp. */
const limits = {
  /** Failures of one account from one place, whether or not there is such an account. */
  sign_in_of_account_from: { most: 10, windowMs: 'lockout' },
  /** Failures of one account from all places. NIST SP 800-63B: at most 100. A known place is exempt. */
  sign_in_of_account: { most: 100, windowMs: 'lockout' },
  /** From one place, over all accounts: several people of an office share an address. */
  sign_in_from: { most: 50, windowMs: 'lockout' },
  /** Passwords of one account from one place, right ones too: each costs the work of a hash, for which others wait. */
  passwords_of_account_from: { most: 100, windowMs: 10 * MINUTE_MS },
  /**
   * Codes of a second factor of one account, after its password: from one place, then from all. Three of a million codes are right at a
   * time. A place where the person has given the second factor before is exempt from the counts of all places, so that an attacker with
   * the password alone cannot keep them out.
   */
  code_of_account_from: { most: 10, windowMs: 'lockout' },
  code_of_account_from_in_day: { most: 50, windowMs: DAY_MS },
  code_of_account: { most: 10, windowMs: 'lockout' },
  code_of_account_in_day: { most: 50, windowMs: DAY_MS },
  /** Single sign-ons that did not end with a session: an office of several hundred people may begin to work at one time. */
  sso_from: { most: 600, windowMs: 10 * MINUTE_MS },
  /** Links that do not work: people open an old one a few times, and a secret has 190 bits. */
  dead_link_from: { most: 30, windowMs: 10 * MINUTE_MS },
  /** Mails that reset a password of one account, asked for from one place: beyond it they would only fill the mailbox. */
  reset_of_account_from: { most: 3, windowMs: 60 * MINUTE_MS },
  /** The same from all places. A known place is exempt, so that other people's requests do not keep the person out. */
  reset_of_account: { most: 10, windowMs: 60 * MINUTE_MS },
  /** Requests for such mails from one place, over all accounts. */
  reset_from: { most: 30, windowMs: 60 * MINUTE_MS },
} as const;

/** What the person has given at a place. The password alone makes no place known for codes. */
type KnownFor = 'known_place' | 'known_place_of_factor';

/** A place stays known this long after the last sign-in from there. */
const KNOWN_PLACE_MS = 90 * DAY_MS;

type AttemptKind = keyof typeof limits;

/** What an attempt is counted for. */
type AttemptSubject = { account: string; place?: string } | { account?: undefined; place: string };

type Counting = Pick<PeopleContext, 'config' | 'db' | 'pepper' | 'now'>;

const digestOf = (
  { pepper }: Counting,
  kind: AttemptKind | KnownFor,
  { account, place = '' }: AttemptSubject,
): Buffer =>
  account === undefined ? attemptDigest(pepper, kind, place) : accountAttemptDigest(pepper, kind, account, place);

const tooMany = (ctx: Counting, ends_at: Date): AppError =>
  new AppError('too_many_requests', 'Too many attempts.', {
    retryAfterSeconds: Math.max(1, Math.ceil((ends_at.getTime() - ctx.now().getTime()) / 1000)),
  });

/**
 * Counts an attempt before it is made, so that concurrent ones do not pass the limit.
 * @param isExempt called where there are too many: whether this one passes all the same.
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
  const counted = await addAttempt(ctx.db, digestOf(ctx, kind, subject), now, ends_at);
  if (counted.failures > most && !(await isExempt())) throw tooMany(ctx, counted.ends_at);
};

/** Refuses a client that has failed too often, and counts nothing. @throws too_many_requests. */
export const refuseTooMany = async (ctx: Counting, kind: AttemptKind, subject: AttemptSubject): Promise<void> => {
  if (!ctx.config.rateLimit) return;
  const counted = await findAttempts(ctx.db, digestOf(ctx, kind, subject), ctx.now());
  if (counted && counted.failures >= limits[kind].most) throw tooMany(ctx, counted.ends_at);
};

/** The attempt that was counted did not fail. */
export const takeBackAttempt = async (ctx: Counting, kind: AttemptKind, subject: AttemptSubject): Promise<void> => {
  if (ctx.config.rateLimit) await subtractAttempt(ctx.db, digestOf(ctx, kind, subject));
};

/** The client knows the right answer: its earlier failures are no guesses. */
export const clearAttempts = async (ctx: Counting, kind: AttemptKind, subject: AttemptSubject): Promise<void> => {
  if (ctx.config.rateLimit) await deleteAttempts(ctx.db, digestOf(ctx, kind, subject));
};

/** Forgets the failures of an account, and its known places. */
export const clearAttemptsOfAccount = async (ctx: Counting, account: string): Promise<void> => {
  const { first, last } = accountAttemptRange(ctx.pepper, account);
  await deleteAttemptsBetween(ctx.db, first, last);
};

type AccountPlace = { account: string; place: string };

/** Remembers that the person of an account has signed in from a place. */
export const rememberPlace = async (
  ctx: Counting,
  subject: AccountPlace,
  known: KnownFor = 'known_place',
): Promise<void> => {
  if (!ctx.config.rateLimit) return;
  await rememberDigest(ctx.db, digestOf(ctx, known, subject), new Date(ctx.now().getTime() + KNOWN_PLACE_MS));
};

export const isKnownPlace = async (
  ctx: Counting,
  subject: AccountPlace,
  known: KnownFor = 'known_place',
): Promise<boolean> => (await findAttempts(ctx.db, digestOf(ctx, known, subject), ctx.now())) !== undefined;
