// Calls to a key service: a limited number at once, with a timeout, repeated with pauses, and refused at once while it is down.
import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { unavailable } from '../base/errors.ts';
import { contextText } from './key-provider.ts';
import { SealBroken } from './seal.ts';

/** Key services limit requests, and a rotation wraps thousands of keys. */
const CALLS_AT_ONCE = 8;
/** More callers would wait longer than their clients do. */
const CALLS_WAITING_MAX = 500;
/** A key service answers in some milliseconds. Three attempts end before a statement of the database would. */
const ATTEMPT_MS = 2_500;
const ATTEMPTS_MAX = 3;
const PAUSES_MS = [100, 400];
/** After a call that got no answer, callers are refused for this time: they must not wait for timeouts one by one. */
const DOWN_MS = 1_000;

/** Why a key service gave no key. The reason is for the operator: from a closed list, without what the service said. */
export class KeyServiceFault extends Error {
  override readonly name = 'KeyServiceFault';
  readonly isTransient: boolean;
  constructor(reason: string, isTransient: boolean, cause?: unknown) {
    super(reason, { cause });
    this.isTransient = isTransient;
  }
}

export const noAnswer = (cause?: unknown) => new KeyServiceFault('does not answer', true, cause);
export const badAnswer = (cause?: unknown) => new KeyServiceFault('answered with what is no valid answer', true, cause);
export const refusedWith = (status: number) =>
  new KeyServiceFault(`answered with the status ${status}`, status === 429 || status >= 500);
export const notAllowed = (cause?: unknown) =>
  new KeyServiceFault('refused the credentials, or they may not use the key', false, cause);

export type KeyService = {
  /** @throws unavailable, with the fault as its cause; SealBroken as `work` throws it. */
  call<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Whether the last call was done, or would have been but for what it was asked to open. For operators. */
  isAvailable(): boolean;
};

/** @param attemptMs shorter for tests. */
export const createKeyService = (attemptMs = ATTEMPT_MS): KeyService => {
  let running = 0;
  const waiting: (() => void)[] = [];
  let downUntilMs = 0;
  let lastFault: unknown;

  const attempt = async <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const signal = AbortSignal.timeout(attemptMs);
    const isLate = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(noAnswer()), { once: true });
    });
    // Also where the work does not heed the signal.
    return Promise.race([work(signal), isLate]);
  };

  const attempts = async <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    for (let attemptsMade = 1; ; attemptsMade += 1) {
      try {
        const result = await attempt(work);
        lastFault = undefined;
        downUntilMs = 0;
        return result;
      } catch (error) {
        // The service is well: what it was asked to open was changed.
        if (error instanceof SealBroken) {
          lastFault = undefined;
          throw error;
        }
        lastFault = error;
        // It may concern one key or one tenant: calls for others go on.
        if (error instanceof KeyServiceFault && !error.isTransient) throw unavailable(error);
        if (attemptsMade === ATTEMPTS_MAX) {
          downUntilMs = performance.now() + DOWN_MS;
          throw unavailable(error);
        }
        await pause(PAUSES_MS[attemptsMade - 1]);
      }
    }
  };

  return {
    isAvailable: () => lastFault === undefined,
    async call(work) {
      if (performance.now() < downUntilMs || waiting.length >= CALLS_WAITING_MAX) throw unavailable(lastFault);
      if (running < CALLS_AT_ONCE) running += 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        if (performance.now() < downUntilMs) throw unavailable(lastFault);
        return await attempts(work);
      } finally {
        // A waiting call takes over the place, so that no new one comes between.
        const next = waiting.shift();
        if (next) next();
        else running -= 1;
      }
    },
  };
};

const BOUND_LABEL = 'strongroom wrapped key/2';
const DIGEST_BYTES = 32;

/** The context as bytes that a key service authenticates. */
export const contextBytes = (context: readonly string[]): Buffer => Buffer.from(contextText(BOUND_LABEL, context));

const contextDigest = (context: readonly string[]): Buffer =>
  createHash('sha256').update(contextBytes(context)).digest();

/**
 * What a key service encrypts: the digest of the context, then the key. So the context is bound also by a service, or a version of
 * one, that ignores associated data: what it encrypts cannot be changed, and its digest is compared.
 */
export const bindToContext = (key: Uint8Array, context: readonly string[]): Buffer =>
  Buffer.concat([contextDigest(context), key]);

/** @throws SealBroken where the key was wrapped for another context. */
export const unbind = (bound: Buffer, context: readonly string[]): Buffer => {
  if (bound.length <= DIGEST_BYTES || !bound.subarray(0, DIGEST_BYTES).equals(contextDigest(context)))
    throw new SealBroken();
  const key = Buffer.from(bound.subarray(DIGEST_BYTES));
  bound.fill(0);
  return key;
};
