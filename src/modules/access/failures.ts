// Limits failed authentications of an address, for all processes together. Only failures cost a statement.
import { attemptDigest } from '../../platform/crypto/digest.ts';
import { AppError, failure } from '../../platform/base/errors.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { CREATES_LIMIT, CREATES_WINDOW_MS, secondsOf } from './limits.ts';
import { placeOfIp } from '../../platform/base/ip-place.ts';
import { addAttempt } from './rows/attempts.ts';
import type { Work } from './work.ts';
import { createRefusedUntil } from './refused-until.ts';

// Limits the tokens that one client address creates with a public key, for all processes together.

/**
 * Counts tokens that a public caller is about to create, or a request that an earlier one answers. Does nothing for other callers.
 * @throws too_many_requests, with nothing created.
 */
export const countCreates = async (
  ctx: Pick<Platform, 'config' | 'db' | 'pepper' | 'now'>,
  work: Work,
  count: number,
): Promise<void> => {
  const { publicAccess } = work.caller;
  if (!publicAccess || !ctx.config.rateLimit) return;
  const most = publicAccess.creates_per_minute;
  const now = ctx.now();
  const place = placeOfIp(work.origin?.ip ?? '');
  const digest = attemptDigest(ctx.pepper, CREATES_LIMIT, `${work.actor_id} ${place}`);
  const { failures, ends_at } = await addAttempt(
    ctx.db,
    digest,
    now,
    new Date(now.getTime() + CREATES_WINDOW_MS),
    count,
  );
  const resetSeconds = secondsOf(ends_at.getTime() - now.getTime());
  work.reportLimit({ name: CREATES_LIMIT, left: Math.max(0, most - failures), resetSeconds });
  if (failures > most)
    throw failure('rate_limit', `The limit ${CREATES_LIMIT} of ${most} is reached. Wait and try again.`, {
      retryAfterSeconds: resetSeconds,
    });
};

/** Failed authentications of one address, or of one IPv6 network (ip-place.ts): far above a misconfigured client, far below guessing. */
const FAILURES_PER_WINDOW_MAX = 100;
const FAILURES_WINDOW_MS = 60_000;

/** Addresses over the limit that a process remembers. */
const REFUSED_MAX = 10_000;

/**
 * Counts a failed authentication of an address, without its value in the database. Over the limit a process writes nothing more
 * for the address: an attacker causes as many writes as it has failures, and one for each process.
 * @throws too_many_requests for an address with too many of them.
 */
export type CountFailure = (ip: string) => Promise<void>;

/** @param kind what is counted apart: keys, or links of pages. */
export const createFailureCount = (
  ctx: Pick<Platform, 'config' | 'db' | 'pepper' | 'now' | 'log'>,
  kind: 'authentication_from' | 'collect_link_from' = 'authentication_from',
): CountFailure => {
  const refused = createRefusedUntil(REFUSED_MAX);
  const tooMany = (untilMs: number, nowMs: number): AppError =>
    failure('too_many_failures', 'Too many failed authentications. Wait and try again.', {
      retryAfterSeconds: Math.max(1, Math.ceil((untilMs - nowMs) / 1000)),
    });
  return async (ip) => {
    if (!ctx.config.rateLimit) return;
    const now = ctx.now();
    const nowMs = now.getTime();
    const place = placeOfIp(ip);
    const untilMs = refused.find(place, nowMs);
    if (untilMs !== undefined) throw tooMany(untilMs, nowMs);
    const digest = attemptDigest(ctx.pepper, kind, place);
    // Without the database no key is found: there is nothing to guess, and the client learns that its key is missing.
    const counted = await addAttempt(ctx.db, digest, now, new Date(nowMs + FAILURES_WINDOW_MS)).catch(
      (error: unknown) => void ctx.log.warn({ error }, 'a failed authentication was not counted'),
    );
    if (!counted || counted.failures <= FAILURES_PER_WINDOW_MAX) return;
    refused.add(place, counted.ends_at.getTime());
    throw tooMany(counted.ends_at.getTime(), nowMs);
  };
};
