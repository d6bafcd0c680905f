// Idempotency keys: the answer to a request that did something is kept, sealed, and given again to whoever repeats it. A key
// belongs to one caller; a claim on it is in the database, so that two processes never do the same deed.
import type { Context } from '../context.ts';
import { idempotencyDigest, memoryDigest } from '../crypto/digest.ts';
import { type Binding, keyIdOf, open, seal, SealBroken } from '../crypto/seal.ts';
import type { FoundClaim, KeptAnswer } from '../db/idempotency.ts';
import { conflict, internal, unprocessable } from '../errors.ts';
import type { Caller } from './caller.ts';

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

/** What is sealed: the answer, and until when it may be given again, in ms since 1970. */
type Kept = { answer: { status: number }; readable_until: number };

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
  const sealingKey = request.isBrief ? await ctx.keyring.ephemeralKey() : keys.data;
  const now = ctx.now();
  const claim = ctx.newUuid();
  const expires_at = new Date(now.getTime() + KEPT_MS);
  const readable_until = request.isBrief ? now.getTime() + ctx.config.cvcTtlMs : expires_at.getTime();
  const claimed_until = new Date(now.getTime() + 2 * ctx.config.sandbox.wallMs + CLAIM_MS);
  const found = await db.takeIdempotencyKey({ id, claim, route, claimed_until, expires_at }, now);
  if (found) return { answer: await openAnswer(ctx, caller, id, route, found) };

  let isMadeReady = false;
  let mustBeKept = false;
  const sealed = (answer: { status: number }): KeptAnswer => {
    const kept: Kept = { answer, readable_until };
    const body = seal(sealingKey, bindingOf(ctx, caller, id), JSON.stringify(kept), ctx.randomBytes);
    return { id, claim, status: answer.status, sealed: body.toString('base64'), expires_at };
  };
  const keep = (result: unknown): KeptAnswer => {
    isMadeReady = true;
    return sealed(request.answerOf(result));
  };
  return {
    claimed: {
      caller: { ...caller, keep, keepAnyAnswer: () => void (mustBeKept = true) },
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

const openAnswer = async (
  ctx: Context,
  caller: Caller,
  id: string,
  route: string,
  found: FoundClaim,
): Promise<unknown> => {
  if (found.route !== route) throw unprocessable('The idempotency key was used for another request.');
  if (!found.sealed) throw conflict('A request with this idempotency key is under way.');
  try {
    const keyId = keyIdOf(found.sealed);
    const keys = await ctx.keyring.tenantKeys(caller.tenant_id);
    const key = keys.find(keyId) ?? (await ctx.keyring.findEphemeralKey(keyId));
    // Its time or its short-lived key is gone, and with it what was answered; that the deed was done is still known.
    if (!key) throw answerGone();
    const kept = JSON.parse(open(key, bindingOf(ctx, caller, id), found.sealed).toString('utf8')) as Kept;
    if (ctx.now().getTime() >= kept.readable_until) throw answerGone();
    return kept.answer;
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error;
    ctx.log.error({ alarm: 'seal_broken', tenant_id: caller.tenant_id }, 'a kept answer does not open');
    throw internal(error);
  }
};
