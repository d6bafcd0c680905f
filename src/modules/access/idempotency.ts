// Idempotency keys: claims them, keeps answers encrypted, and checks permissions again before it replays one.
import type { Work } from './work.ts';
import { logRow } from '../../platform/db/audit-record.ts';
import type { AccessContext, TokenPlace } from './context.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { idempotencyDigest, memoryDigest } from '../../platform/crypto/digest.ts';
import { type Binding, keyIdOf, open, seal, SealBroken } from '../../platform/crypto/seal.ts';
import { keepAnswer, type KeptAnswer } from '../../platform/db/transaction.ts';
import { type FoundClaim, releaseIdempotencyKey, takeIdempotencyKey } from './rows/idempotency.ts';
import { claimMs } from '../../platform/base/times.ts';
import { addressOfIp } from '../../platform/base/ip-place.ts';
import { type AppError, failure, forbidden, internal } from '../../platform/base/errors.ts';
import {
  type AnswerBasis,
  createAnswerRecord,
  type Decision,
  type LoggedOperation,
  showsLess,
} from './answer-record.ts';
import { allowsLogged } from './bounds.ts';
import type { Caller } from './caller.ts';
import { apiKeysIn, parseApiKey } from './api-keys.ts';
import { findApiKeyBeforeCaller } from './rows/api-keys.ts';
import { findSessionBeforeCaller } from './rows/find-session.ts';
import { countCreates } from './failures.ts';
import { checkGrants } from './grants.ts';
import { countTokens } from './daily-counts.ts';
import { boundOfUse, holdsAnywhere, transformUnder, visibilityUnder, wouldDecide } from './rules.ts';

const KEPT_MS = 24 * 3_600_000;

export type IdempotentRequest = {
  /** Key as the client chose it. */
  key: string;
  /** Method and path: the key is for these. */
  route: string;
  /** The answer may hold plaintext or a key: it is kept for CVC_TTL, under a key that is destroyed. The claim outlives it. */
  isBrief: boolean;
  /** The body as it was parsed; undefined for none. */
  body: unknown;
  /** Makes the answer, with its status, from the result of the operation. */
  answerOf(result: unknown): { status: number };
};

export type Claimed = {
  /** Work whose transactions keep the answer, and that can ask for a failure to be kept. */
  work: Work;
  /**
   * Ends the claim when the request is answered. Keeps the answer where the operation succeeded and its transaction did not keep
   * it, and where it had an effect that no transaction rolls back. Else it releases the key, unless the answer is kept already.
   */
  settle(answer: { status: number }): Promise<void>;
};

/** What is encrypted. */
type Kept = {
  answer: { status: number };
  /** Until when it may be replayed, in ms since 1970. */
  readable_until: number;
  /** Keyed digest of the body. */
  body: string;
  basis: AnswerBasis;
};

const bindingOf = (ctx: AccessContext, work: Work, id: string): Binding => ({
  environment: ctx.environment,
  tenant_id: work.tenant_id,
  record: 'idempotency_key',
  id,
  field: 'answer',
});

/**
 * Holder of a claim. Everybody has the key of a public caller: a claim of all would tell others by a 422 whether they have
 * guessed the value that a page has sent. So a retry from another address makes a claim of its own.
 */
export const holderOf = ({ actor_id, caller, origin }: Work) => ({
  actor_id,
  address: caller.publicAccess && addressOfIp(origin?.ip ?? ''),
});

/**
 * Claims a key of the caller for a request. Claims are in the database, so that two processes never do the same operation.
 * @returns the claim; or the answer that was kept under the key.
 * @throws conflict while another request with the key is under way; unprocessable where the key stands for another request;
 * too_many_requests.
 */
export const claimIdempotencyKey = async (
  ctx: AccessContext,
  work: Work,
  request: IdempotentRequest,
): Promise<{ claimed: Claimed } | { answer: unknown }> => {
  // A run of code may take longer than keys are cached, and its answer is sealed at its end.
  const { keys, release } = await ctx.keyring.holdTenantKeys(work.tenant_id);
  const claimed = await claim(ctx, work, request, keys, release).catch((error: unknown) => {
    release();
    throw error;
  });
  if ('answer' in claimed) release();
  return claimed;
};

const claim = async (
  ctx: AccessContext,
  work: Work,
  request: IdempotentRequest,
  keys: TenantKeys,
  release: () => void,
): Promise<{ claimed: Claimed } | { answer: unknown }> => {
  const db = work.db;
  const holder = holderOf(work);
  const id = idempotencyDigest(keys.digest, holder, request.key);
  const route = memoryDigest(request.route);
  const body = idempotencyDigest(keys.digest, holder, JSON.stringify(request.body) ?? '');
  const sealingKey = request.isBrief ? await ctx.keyring.ephemeralKey() : keys.data;
  const now = ctx.now();
  const claimId = ctx.newUuid();
  const expires_at = new Date(now.getTime() + KEPT_MS);
  const readable_until = request.isBrief ? now.getTime() + ctx.config.cvcTtlMs : expires_at.getTime();
  const claimed_until = new Date(now.getTime() + claimMs(ctx.config.sandbox.wallMs));
  const found = await takeIdempotencyKey(db, { id, claim: claimId, route, claimed_until, expires_at }, now);
  if (found) {
    // Several people may share an address: whatever the answer is, it says something about the first request.
    await countCreates(ctx, work, 1);
    return { answer: await openAnswer(ctx, work, { id, route, body, isBrief: request.isBrief }, found) };
  }

  const record = createAnswerRecord();
  let isMade = false;
  let mustBeKept = false;
  const sealed = (answer: { status: number }): KeptAnswer => {
    const { basis } = record;
    const until = Math.min(readable_until, basis.readable_until ?? Infinity);
    const kept: Kept = { answer, readable_until: until, body, basis };
    const bytes = seal(sealingKey, bindingOf(ctx, work, id), JSON.stringify(kept), ctx.randomBytes);
    return { id, claim: claimId, status: answer.status, sealed: bytes.toString('base64'), expires_at };
  };
  const keep = (result: unknown): KeptAnswer => {
    isMade = true;
    return sealed(request.answerOf(result));
  };
  return {
    claimed: {
      work: work.with({ record, keeping: { keep, keepAnyAnswer: () => void (mustBeKept = true) } }),
      settle: async (answer) => {
        try {
          const isDone = answer.status < 300;
          if (!isDone && !mustBeKept) return await releaseIdempotencyKey(db, { id, claim: claimId });
          // The transaction of the operation wrote the answer, or rolled it back.
          if (!isDone || !isMade) await keepAnswer(db.query, db.tenant_id, sealed(answer));
        } finally {
          release();
        }
      },
    },
  };
};

export const answerGone = () =>
  failure('idempotency_not_shown', 'The request with this idempotency key was answered, and the answer is gone.');

/** @throws unprocessable; conflict; forbidden; internal, after an alarm, for an answer that cannot be decrypted. */
const openAnswer = async (
  ctx: AccessContext,
  work: Work,
  asked: { id: string; route: string; body: string; isBrief: boolean },
  found: FoundClaim,
): Promise<unknown> => {
  if (found.route !== asked.route)
    throw failure('idempotency_key_reused', 'The idempotency key was used for another request.');
  if (!found.sealed) throw failure('idempotency_in_progress', 'A request with this idempotency key is under way.');
  const kept = await openKept(ctx, work, asked.id, found.sealed);
  if (kept.body !== asked.body)
    throw failure('idempotency_key_reused', 'The idempotency key was used with another body.');
  const hidden = await decideAgain(ctx, work, kept.basis);
  if (ctx.now().getTime() >= kept.readable_until) throw answerGone();
  await checkProxyKeys(ctx, work, kept.basis.proxy_keys ?? []);
  if (hidden) throw hidden;
  await checkKeys(ctx, work, kept);
  await countAgain(ctx, work, kept.basis);
  await logReplay(ctx, work, kept.basis);
  return kept.answer;
};

const openKept = async (ctx: AccessContext, work: Work, id: string, sealed: Buffer): Promise<Kept> => {
  try {
    const keyId = keyIdOf(sealed);
    const keys = await ctx.keyring.tenantKeys(work.tenant_id);
    const key = keys.find(keyId) ?? (await ctx.keyring.findEphemeralKey(keyId));
    // The short-lived key is destroyed, and the answer with it. The claim still says that the operation was done.
    if (!key) throw answerGone();
    return JSON.parse(open(key, bindingOf(ctx, work, id), sealed).toString('utf8')) as Kept;
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error;
    ctx.log.error({ alarm: 'seal_broken', tenant_id: work.tenant_id }, 'a kept answer does not open');
    throw internal(error);
  }
};

/** A key gives all that its application holds today, which may be more than when it was made. @throws forbidden; unavailable. */
const checkRightsOf = async (ctx: AccessContext, { caller }: Work, application_id: string): Promise<void> => {
  const application = await ctx.callers.findCallerOfApplication(caller, application_id);
  if (application) checkGrants({ caller }, { ...application, application_id });
};

/** A kept answer shows no key of a proxy that has ended, nor one that gives more than its caller holds and may not read. */
const checkProxyKeys = async (ctx: AccessContext, work: Work, keys: readonly string[]): Promise<void> => {
  for (const key of keys) {
    const proxy = await ctx.proxyKeys.find?.(key);
    if (!proxy) throw answerGone();
    if (proxy.application_id !== undefined && !holdsAnywhere(work.caller, 'proxy:read'))
      await checkRightsOf(ctx, work, proxy.application_id);
  }
};

/**
 * A kept answer shows no API key that was deleted, was replaced or has ended since, and hands on none that gives more than its
 * caller holds. @throws conflict; forbidden; unavailable.
 */
const checkKeys = async (ctx: AccessContext, work: Work, { answer, basis }: Kept): Promise<void> => {
  const handsOn = basis !== undefined && basis.handedOn.length > 0;
  for (const key of apiKeysIn(JSON.stringify(answer))) {
    const parts = parseApiKey(key, ctx.environment);
    if (!parts) continue;
    const found = parts.isOfSession
      ? await findSessionBeforeCaller(ctx.db, parts.publicId)
      : await findApiKeyBeforeCaller(ctx.db, parts.publicId);
    if (!found || (found.expires_at !== null && found.expires_at <= ctx.now())) throw answerGone();
    if (handsOn && 'application_id' in found) await checkRightsOf(ctx, work, found.application_id);
  }
};

const noLongerShown = () =>
  failure(
    'idempotency_not_shown',
    'The request with this idempotency key was answered, and today the access rules would not show all of it.',
  );

/**
 * Repeats the decisions behind an answer with today's rules and tokens.
 * @returns why the answer is not replayed although no permission is missing: less would be shown, or a token is gone.
 * @throws forbidden where a permission is missing; unavailable.
 */
const decideAgain = async (ctx: AccessContext, work: Work, basis: AnswerBasis): Promise<AppError | undefined> => {
  for (const rights of basis.handedOn) checkGrants(work, rights);
  const callers = new Map<string, Caller | undefined>([[work.actor_id, work.caller]]);
  const places = await placesOf(ctx, work, basis.decisions);
  const masks = await masksOf(ctx, work, basis.decisions);
  let hidden = basis.isTooLarge ? noLongerShown() : undefined;
  for (const { actor_id, permission, id, container, shown, isStored, hasMask = true, mask } of basis.decisions) {
    if (!callers.has(actor_id)) callers.set(actor_id, await ctx.callers.findCallerOfApplication(work, actor_id));
    const actor = callers.get(actor_id);
    if (!actor || !holdsAnywhere(actor, permission)) throw forbidden(permission);
    if (container === undefined || shown === undefined) continue;
    const place = isStored && id !== undefined ? places.get(id) : undefined;
    const target = { ...(id !== undefined && { id }), container: place?.container ?? container };
    const decided = wouldDecide(actor, permission, target);
    if (decided === undefined) throw forbidden(permission);
    const bound = place?.bound_to ?? undefined;
    const isUse = permission === 'token:use';
    const bounds = isUse ? [bound, boundOfUse(actor, target)].filter((each) => each !== undefined) : [];
    if (bounds.some((each) => !usesOf(basis, id).every((row) => allowsLogged(each, row)))) hidden ??= noLongerShown();
    const today = isUse ? decided : transformUnder(bound, decided);
    // A deleted token shows nothing. It is no obstacle to the answer that deleted it.
    if (isStored && !place && permission !== 'token:delete') hidden ??= answerGone();
    const isHidden = place ? place.masked : hasMask;
    const visible = visibilityUnder(permission, today, isHidden);
    const isOtherMask = mask !== undefined && visible === 'masked' && id !== undefined && masks.get(id) !== mask;
    if (showsLess(visible, shown) || isOtherMask) hidden ??= noLongerShown();
  }
  return hidden;
};

/**
 * Before a kept answer is returned to its caller: the decisions behind it are made again, its tokens counted, and its rows logged.
 * @throws forbidden; conflict where less would be shown, or a token is gone; too_many_requests; unavailable.
 */
export const checkReplay = async (ctx: AccessContext, work: Work, basis: AnswerBasis): Promise<void> => {
  await checkBasis(ctx, work, basis);
  await countAgain(ctx, work, basis);
  await logReplay(ctx, work, basis);
};

/** The decisions behind an answer, made again. @throws as checkReplay. */
export const checkBasis = async (ctx: AccessContext, work: Work, basis: AnswerBasis): Promise<void> => {
  const hidden = await decideAgain(ctx, work, basis);
  if (hidden) throw hidden;
};

/** The log rows of the uses of a token. */
const usesOf = ({ logged }: AnswerBasis, id: string | undefined): LoggedOperation[] =>
  logged.filter(({ operation, entity_ids }) => operation === 'use' && id !== undefined && entity_ids.includes(id));

/** Values leave again: they count for today, as they did for the day of the request. @throws too_many_requests; unavailable. */
const countAgain = async (ctx: AccessContext, work: Work, { counted }: AnswerBasis): Promise<void> => {
  for (const { actor_id, limit, ids } of counted) {
    if (actor_id === work.actor_id) await countTokens(ctx, work, limit, ids);
    else {
      const caller = await ctx.callers.findCallerOfApplication(work, actor_id);
      if (caller) await countTokens(ctx, work.as(caller), limit, ids);
    }
  }
};

/** Writes the log rows of a replayed answer again. @throws unavailable. */
const logReplay = async (ctx: AccessContext, work: Work, { logged }: AnswerBasis): Promise<void> => {
  const rows = logged.map(({ reactor_id, proxy_id, code_application_id, ...operation }) => {
    const origin = { ...work.origin, reactor_id, proxy_id, code_application_id };
    return logRow(ctx, work.with({ origin }), { ...operation, outcome: 'replayed' });
  });
  if (rows.length > 0) await work.log(rows);
};

/** The containers of the stored tokens of decisions, as they are now. */
const placesOf = async (
  ctx: AccessContext,
  work: Work,
  decisions: readonly Decision[],
): Promise<Map<string, TokenPlace>> => {
  const stored = decisions.filter(({ isStored, id }) => isStored && id !== undefined);
  const ids = [...new Set(stored.map(({ id }) => id as string))];
  if (ids.length === 0) return new Map();
  const rows = (await ctx.replayChecks?.findPlaces(work.tenant_id, ids)) ?? [];
  return new Map(rows.map((row) => [row.id, row]));
};

/** Digests of the current masks of the stored tokens of decisions. A token that is too large to be opened beside the others has none. */
const masksOf = async (
  ctx: AccessContext,
  work: Work,
  decisions: readonly Decision[],
): Promise<Map<string, string>> => {
  const shown = decisions.filter(({ mask, id }) => mask !== undefined && id !== undefined);
  const ids = [...new Set(shown.map(({ id }) => id as string))];
  if (ids.length === 0) return new Map();
  return (await ctx.replayChecks?.digestMasks(work.tenant_id, ids)) ?? new Map();
};
