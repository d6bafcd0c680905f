// Limits failed authentications of an address, for all processes together. Only failures cost a statement.
import { attemptDigest } from '../../platform/crypto/digest.ts';
import { AppError, failure } from '../../platform/base/errors.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { placeOfIp } from '../../platform/base/ip-place.ts';
import { createRefusedUntil } from './refused-until.ts';
import { addAttempt } from './rows/attempts.ts';

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
