// Idempotency keys on the wire: SVC-IDEMPOTENCY-KEY, or Idempotency-Key, on every POST, PUT and PATCH that does a deed.
import type { FastifyReply, FastifyRequest, onSendHookHandler, preValidationHookHandler } from 'fastify';
import { type Claimed, claimIdempotencyKey } from '../access/idempotency.ts';
import type { Context } from '../context.ts';
import { invalidField } from '../errors.ts';
import { type Answer, answerOf, sendAnswer } from './answers.ts';
import type { App } from './app-type.ts';

declare module 'fastify' {
  interface FastifyRequest {
    idempotency: Claimed | undefined;
  }
  interface FastifyContextConfig {
    /** What a repeated request gets: `none` where it is simply done again, `brief` where the answer may hold plaintext or a key. */
    idempotency?: 'none' | 'brief';
  }
}

const names = ['svc-idempotency-key', 'idempotency-key'] as const;
const fairKey = /^[\x21-\x7e]{1,255}$/;
const methods = new Set(['POST', 'PUT', 'PATCH']);

/** @throws invalidInput for a key that is none, and for two different ones. */
const keyOf = (request: FastifyRequest): string | undefined => {
  const given = names.map((name) => request.headers[name]).filter((value) => value !== undefined);
  const [key] = given;
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || !fairKey.test(key) || given.some((other) => other !== key))
    throw invalidField('SVC-IDEMPOTENCY-KEY', 'must be one key of 1 to 255 printable ASCII characters without spaces');
  return key;
};

const routeOf = (request: FastifyRequest): string => {
  const [path = ''] = request.url.split('?', 1);
  return `${request.method} ${path.replace(/\/$/, '')}`;
};

export const addIdempotency = (app: App, ctx: Context): void => {
  app.decorateRequest('idempotency', undefined);
  app.decorateReply('answered', undefined);

  const claim = async (request: FastifyRequest, reply: FastifyReply): Promise<boolean> => {
    const key = keyOf(request);
    const { caller } = request;
    if (key === undefined || caller === undefined) return false;
    const { creates, idempotency } = request.routeOptions.config;
    const found = await claimIdempotencyKey(ctx, caller, {
      key,
      route: routeOf(request),
      isBrief: idempotency === 'brief',
      body: request.body,
      answerOf: (result) => answerOf(creates, result),
    });
    if ('answer' in found) {
      reply.header('svc-idempotent-replayed', 'true');
      sendAnswer(reply, found.answer as Answer);
      return true;
    }
    request.idempotency = found.claimed;
    request.caller = found.claimed.caller;
    return false;
  };

  // Once the caller is known and the body is read, and before it is checked: whatever it says, a repeated request gets the first answer.
  const replay: preValidationHookHandler = (request, reply, done) => {
    const { headers } = request;
    if (headers['svc-idempotency-key'] === undefined && headers['idempotency-key'] === undefined) return done();
    if (!methods.has(request.method)) return done();
    // A replay has been sent: the request goes no further.
    return void claim(request, reply).then((isAnswered) => (isAnswered ? undefined : done()), done);
  };

  const settle: onSendHookHandler = (request, reply, payload, done) => {
    const claimed = request.idempotency;
    if (!claimed) return done(null, payload);
    request.idempotency = undefined;
    const location = reply.getHeader('location') as string | undefined;
    const body = typeof payload === 'string' ? payload : undefined;
    const answer: Answer = { status: reply.statusCode, location, headers: reply.answered?.headers, body };
    // What was done stands: its caller gets the answer, whether it could be kept or not.
    const failed = (error: unknown): void =>
      request.log.error({ trace_id: request.id, error }, 'an idempotency key was not settled');
    return void claimed
      .settle(answer)
      .catch(failed)
      .then(() => done(null, payload));
  };

  // Only where a key is heard of: each hook costs every request of its route.
  app.addHook('onRoute', (route) => {
    if (route.config?.idempotency === 'none' || ![route.method].flat().some((method) => methods.has(method))) return;
    route.preValidation = [replay, ...[route.preValidation ?? []].flat()];
    route.onSend = [settle, ...[route.onSend ?? []].flat()];
  });
};
