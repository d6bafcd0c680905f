// Limits the tokens that one client address creates with a public key, for all processes together.
import { attemptDigest } from '../../platform/crypto/digest.ts';
import { failure } from '../../platform/base/errors.ts';
import type { Platform } from '../../platform/services/platform.ts';
import { CREATES_LIMIT, CREATES_WINDOW_MS, secondsOf } from './limits.ts';
import { placeOfIp } from '../../platform/base/ip-place.ts';
import { addAttempt } from './rows/attempts.ts';
import type { Work } from './work.ts';

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
