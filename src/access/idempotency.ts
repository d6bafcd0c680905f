// Idempotency keys: the answer to a request that did something is kept, sealed, and given again to whoever repeats it. A key
// belongs to one caller; a claim on it is in the database, so that two processes never do the same deed.
import { logRow } from '../audit/record.ts';
import type { Context } from '../context.ts';
import { idempotencyDigest, memoryDigest } from '../crypto/digest.ts';
import { type Binding, keyIdOf, open, seal, SealBroken } from '../crypto/seal.ts';
import type { TokenPlace } from '../db/hot.ts';
import type { FoundClaim, KeptAnswer } from '../db/idempotency.ts';
import { type AppError, conflict, forbidden, internal, unprocessable } from '../errors.ts';
import { openToken } from '../vault/tokens.ts';
import { type AnswerBasis, createAnswerRecord, type Decision, digestOfMask, showsLess } from './answer-record.ts';
import type { Caller } from './caller.ts';
import { checkGrants } from './grants.ts';
import { mayAnywhere, visibilityUnder, wouldDecide } from './rules.ts';

/** decisions.md section 1. */
const KEPT_MS = 24 * 3_600_000;

/**
 * Beyond two of the longest runs of code (one may be begun twice), longer than any request takes: a claim this old was left by
 * a process that died.
 */
const CLAIM_MS = 90_000;

export type IdempotentRequest = {
  /** As the caller chose it. */
  key: string;
  /** Method and path: what the key stands for. */
  route: string;
  /** The answer may hold plaintext or a key: it is kept for CVC_TTL only, under a key that ceases to exist. The claim outlives it. */
  isBrief: boolean;
  /** The body as it was parsed; undefined for none. */
  body: unknown;
  /** A deed's result as the answer to be kept, in JSON, with its status. */
  answerOf(result: unknown): { status: number };
};

export type Claimed = {
  /** The caller, with which the deed keeps its answer in its own transaction, or says that even its failure is to be kept. */
  caller: Caller;
  /**
   * The request is answered. Keeps the answer where the deed was done and did not keep it itself, and where something was
   * done that no transaction undoes; else the key is free again, unless the deed stands all the same.
   */
  settle(answer: { status: number }): Promise<void>;
};

/** What is sealed. Answers of earlier versions have the first two alone. */
type Kept = {
  answer: { status: number };
  /** Until when it may be given again, in ms since 1970. */
  readable_until: number;
  /** Keyed digest of the body. */
  body?: string;
  basis?: AnswerBasis;
};

const bindingOf = (ctx: Context, caller: Caller, id: string): Binding => ({
  environment: ctx.environment,
  tenant_id: caller.tenant_id,
  record: 'idempotency_key',
  id,
  field: 'answer',
});

/**
 * Claims a key for a request.
 * @returns the claim; or the answer that was kept under the key.
 * @throws conflict while another request with the key is under way; unprocessable where the key stands for another request.
 */
export const claimIdempotencyKey = async (
  ctx: Context,
  caller: Caller,
  request: IdempotentRequest,
): Promise<{ claimed: Claimed } | { answer: unknown }> => {
  const db = ctx.db.for(caller);
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const id = idempotencyDigest(keys.digest, caller.actor_id, request.key);
  const route = memoryDigest(request.route);
  const body = idempotencyDigest(keys.digest, caller.actor_id, JSON.stringify(request.body) ?? '');
  const sealingKey = request.isBrief ? await ctx.keyring.ephemeralKey() : keys.data;
  const now = ctx.now();
  const claim = ctx.newUuid();
  const expires_at = new Date(now.getTime() + KEPT_MS);
  const readable_until = request.isBrief ? now.getTime() + ctx.config.cvcTtlMs : expires_at.getTime();
  const claimed_until = new Date(now.getTime() + 2 * ctx.config.sandbox.wallMs + CLAIM_MS);
  const found = await db.takeIdempotencyKey({ id, claim, route, claimed_until, expires_at }, now);
  if (found) return { answer: await openAnswer(ctx, caller, { id, route, body, isBrief: request.isBrief }, found) };

  const record = createAnswerRecord();
  let isMadeReady = false;
  let mustBeKept = false;
  const sealed = (answer: { status: number }): KeptAnswer => {
    const { basis } = record;
    const until = Math.min(readable_until, basis.readable_until ?? Infinity);
    const kept: Kept = { answer, readable_until: until, body, basis };
    const bytes = seal(sealingKey, bindingOf(ctx, caller, id), JSON.stringify(kept), ctx.randomBytes);
    return { id, claim, status: answer.status, sealed: bytes.toString('base64'), expires_at };
  };
  const keep = (result: unknown): KeptAnswer => {
    isMadeReady = true;
    return sealed(request.answerOf(result));
  };
  return {
    claimed: {
      caller: { ...caller, keep, keepAnyAnswer: () => void (mustBeKept = true), record },
      settle: async (answer) => {
        const isDone = answer.status < 300;
        if (!isDone && !mustBeKept) return db.releaseIdempotencyKey({ id, claim });
        // What was made ready was written in the transaction of the deed, or undone with it.
        if (!isDone || !isMadeReady) await db.keepAnswer(sealed(answer));
      },
    },
  };
};

const answerGone = () => conflict('The request with this idempotency key was answered, and the answer is gone.');

/** @throws unprocessable; conflict; forbidden; internal, after an alarm, for an answer that does not open. */
const openAnswer = async (
  ctx: Context,
  caller: Caller,
  asked: { id: string; route: string; body: string; isBrief: boolean },
  found: FoundClaim,
): Promise<unknown> => {
  if (found.route !== asked.route) throw unprocessable('The idempotency key was used for another request.');
  if (!found.sealed) throw conflict('A request with this idempotency key is under way.');
  const kept = await openKept(ctx, caller, asked.id, found.sealed);
  if (kept.body !== undefined && kept.body !== asked.body)
    throw unprocessable('The idempotency key was used with another body.');
  const hidden = kept.basis && (await decideAgain(ctx, caller, kept.basis));
  if (ctx.now().getTime() >= kept.readable_until) throw answerGone();
  // An earlier version did not note what the answer rests on: what may hold plaintext or a key is not given again.
  if (!kept.basis && asked.isBrief) throw answerGone();
  if (hidden) throw hidden;
  if (kept.basis) await logReplay(ctx, caller, kept.basis);
  return kept.answer;
};

const openKept = async (ctx: Context, caller: Caller, id: string, sealed: Buffer): Promise<Kept> => {
  try {
    const keyId = keyIdOf(sealed);
    const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
    const key = keys.find(keyId) ?? (await ctx.keyring.findEphemeralKey(keyId));
    // Its time or its short-lived key is gone, and with it what was answered; that the deed was done is still known.
    if (!key) throw answerGone();
    return JSON.parse(open(key, bindingOf(ctx, caller, id), sealed).toString('utf8')) as Kept;
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error;
    ctx.log.error({ alarm: 'seal_broken', tenant_id: caller.tenant_id }, 'a kept answer does not open');
    throw internal(error);
  }
};

const noLongerShown = () =>
  conflict('The request with this idempotency key was answered, and today the access rules would not show all of it.');

/**
 * Decides again over all that an answer rests on, as it is today.
 * @returns why the answer is not given again though no right is missing: less would be shown, or what was shown is gone.
 * @throws forbidden where a right is missing; unavailable.
 */
const decideAgain = async (ctx: Context, caller: Caller, basis: AnswerBasis): Promise<AppError | undefined> => {
  for (const rights of basis.handedOn) checkGrants(caller, rights);
  const callers = new Map<string, Caller | undefined>([[caller.actor_id, caller]]);
  const places = await placesOf(ctx, caller, basis.decisions);
  const masks = await masksOf(ctx, caller, basis.decisions);
  let hidden = basis.isTooLarge ? noLongerShown() : undefined;
  for (const { actor_id, permission, id, container, shown, isStored, hasMask = true, mask } of basis.decisions) {
    if (!callers.has(actor_id)) callers.set(actor_id, await ctx.callers.findCallerOfApplication(caller, actor_id));
    const actor = callers.get(actor_id);
    if (!actor || !mayAnywhere(actor, permission)) throw forbidden(permission);
    if (container === undefined || shown === undefined) continue;
    const place = isStored && id !== undefined ? places.get(id) : undefined;
    const target = { ...(id !== undefined && { id }), container: place?.container ?? container };
    const today = wouldDecide(actor, permission, target);
    if (today === undefined) throw forbidden(permission);
    // A token that is gone shows nothing. Deleting it is done when it is gone.
    if (isStored && !place && permission !== 'token:delete') hidden ??= answerGone();
    // Where it is not known yet whether a token has a mask, it counts as masked.
    const isHidden = place ? place.masked !== false : hasMask;
    const visible = visibilityUnder(permission, today, isHidden);
    const isOtherMask = mask !== undefined && visible === 'masked' && id !== undefined && masks.get(id) !== mask;
    if (showsLess(visible, shown) || isOtherMask) hidden ??= noLongerShown();
  }
  return hidden;
};

/** Logs that an answer is given again: its rows once more. @throws unavailable. */
const logReplay = async (ctx: Context, caller: Caller, { logged }: AnswerBasis): Promise<void> => {
  const rows = logged.map(({ reactor_id, proxy_id, ...deed }) => {
    const actor = { ...caller, origin: { ...caller.origin, reactor_id, proxy_id } };
    return logRow(ctx, actor, { ...deed, outcome: 'replayed' });
  });
  if (rows.length > 0) await ctx.db.for(caller).insertLogs(rows);
};

/** Where the stored tokens of decisions are now. */
const placesOf = async (
  ctx: Context,
  caller: Caller,
  decisions: readonly Decision[],
): Promise<Map<string, TokenPlace>> => {
  const stored = decisions.filter(({ isStored, id }) => isStored && id !== undefined);
  const ids = [...new Set(stored.map(({ id }) => id as string))];
  if (ids.length === 0) return new Map();
  const rows = await ctx.db.for(caller).findPlaces(ids, ctx.now());
  return new Map(rows.map((row) => [row.id, row]));
};

/** Digests of the masks that stored tokens of decisions have now. One that is too large to be opened beside the others has none. */
const masksOf = async (ctx: Context, caller: Caller, decisions: readonly Decision[]): Promise<Map<string, string>> => {
  const shown = decisions.filter(({ mask, id }) => mask !== undefined && id !== undefined);
  const ids = [...new Set(shown.map(({ id }) => id as string))];
  if (ids.length === 0) return new Map();
  const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
  const rows = (await ctx.db.for(caller).findValues(ids, ctx.now())).filter(({ sealed }) => sealed !== null);
  return new Map(rows.map((row) => [row.id, digestOfMask(openToken(ctx, caller.tenant_id, row, keys))]));
};
