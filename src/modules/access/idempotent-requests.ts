// Fastify hooks for idempotency keys: the headers SVC-IDEMPOTENCY-KEY and Idempotency-Key on POST, PUT and PATCH.
import type { FastifyReply, FastifyRequest, onSendHookHandler, preValidationHookHandler } from 'fastify';
import { type Claimed, claimIdempotencyKey } from './idempotency.ts';
import type { AccessContext } from './context.ts';
import { isPartial } from './partial-requests.ts';
import { invalidField } from '../../platform/base/errors.ts';
import { type Answer, answerOf, createdPathOf, sendAnswer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { sortedJson } from '../../platform/crypto/seal.ts';
import { traceIdsOf } from '../../platform/http/trace.ts';
import { IDEMPOTENCY_KEY_LENGTH_MAX, idempotencyKeyPattern } from '../../platform/http/schemas.ts';

declare module 'fastify' {
  interface FastifyRequest {
    idempotency: Claimed | undefined;
  }
  interface FastifyContextConfig {
    /**
     * `none`: keys are ignored. `brief`: the answer may hold plaintext or a key, and is kept for a short time. `own`: the operation has
     * claims that outlive a process which dies. `semantic`: names of the body may come in another order.
     */
    idempotency?: 'none' | 'brief' | 'own' | 'semantic';
  }
}

const names = ['svc-idempotency-key', 'idempotency-key'] as const;
const BAD_KEY = `must be one key of 1 to ${IDEMPOTENCY_KEY_LENGTH_MAX} printable ASCII characters without spaces`;
const methods = new Set(['POST', 'PUT', 'PATCH']);

/** @param read the headers that may have it. @throws invalidInput for a malformed key, and for two different ones. */
export const keyOf = (
  { headers }: Pick<FastifyRequest, 'headers'>,
  read: readonly (typeof names)[number][] = names,
): string | undefined => {
  const given = read.map((name) => headers[name]).filter((value) => value !== undefined);
  const [key] = given;
  if (key === undefined) return undefined;
  const isKey = typeof key === 'string' && key.length <= IDEMPOTENCY_KEY_LENGTH_MAX && idempotencyKeyPattern.test(key);
  if (!isKey || given.some((other) => other !== key)) throw invalidField('SVC-IDEMPOTENCY-KEY', BAD_KEY);
  return key;
};

/** The header by its name in another API. Read as nothing, it would let a repeated request be done twice. */
const ofOtherApi = /^(?!svc-)[a-z0-9]{1,20}-idempotency-key$/;

/** @throws invalidInput for a key under a prefix that this server does not read. */
const refuseUnread = (headers: FastifyRequest['headers']): void => {
  const name = Object.keys(headers)
    .find((each) => ofOtherApi.test(each))
    ?.toUpperCase();
  if (name !== undefined)
    throw invalidField(
      name,
      'is not read by this server: send SVC-IDEMPOTENCY-KEY, or have the operator add the prefix to API_HEADER_PREFIXES',
      'not_supported',
    );
};

const routeOf = (request: FastifyRequest): string => {
  const [path = ''] = request.url.split('?', 1);
  return `${request.method} ${path.replace(/\/$/, '')}${isPartial(request) ? ' in part' : ''}`;
};

export const addIdempotency = (app: App, ctx: AccessContext): void => {
  app.decorateRequest('idempotency', undefined);
  app.decorateReply('answered', undefined);

  const claim = async (request: FastifyRequest, reply: FastifyReply): Promise<boolean> => {
    const key = keyOf(request);
    const { work } = request;
    if (key === undefined || work === undefined) return false;
    const { idempotency } = request.routeOptions.config;
    const creates = createdPathOf(request);
    const found = await claimIdempotencyKey(ctx, work, {
      key,
      route: routeOf(request),
      isBrief: idempotency === 'brief',
      body: idempotency === 'semantic' ? sortedJson(request.body) : request.body,
      answerOf: (result) => ({ ...answerOf(creates, result), ...(isPartial(request) && { status: 207 }) }),
    });
    if ('answer' in found) {
      reply.header('svc-idempotent-replayed', 'true');
      sendAnswer(reply, found.answer as Answer);
      return true;
    }
    request.idempotency = found.claimed;
    request.work = found.claimed.work;
    return false;
  };

  // After authentication and parsing, before validation: a repeated request gets the first answer even where its body is not valid.
  const replay: preValidationHookHandler = (request, reply, done) => {
    const { headers } = request;
    if (methods.has(request.method))
      try {
        refuseUnread(headers);
      } catch (error) {
        return done(error as Error);
      }
    if (request.routeOptions.config.idempotency === 'own') return done();
    // It does nothing that could be repeated, and its answer is not that of the request.
    if (headers['svc-dry-run'] !== undefined) return done();
    if (headers['svc-idempotency-key'] === undefined && headers['idempotency-key'] === undefined) return done();
    if (!methods.has(request.method)) return done();
    // A replay was sent: `done` is not called, so that the request ends here.
    return void claim(request, reply).then((isAnswered) => (isAnswered ? undefined : done()), done);
  };

  const settle: onSendHookHandler = (request, reply, payload, done) => {
    const claimed = request.idempotency;
    if (!claimed) return done(null, payload);
    request.idempotency = undefined;
    const location = reply.getHeader('location') as string | undefined;
    const body = typeof payload === 'string' ? payload : undefined;
    const answer: Answer = { status: reply.statusCode, location, headers: reply.answered?.headers, body };
    // The operation is committed: the client gets its answer, even where the answer could not be kept.
    const failed = (error: unknown): void =>
      request.log.error({ ...traceIdsOf(request), error }, 'an idempotency key was not settled');
    return void claimed
      .settle(answer)
      .catch(failed)
      .then(() => done(null, payload));
  };

  // Only on routes that take keys: each hook costs time in every request.
  app.addHook('onRoute', (route) => {
    if (route.config?.idempotency === 'none' || ![route.method].flat().some((method) => methods.has(method))) return;
    route.preValidation = [replay, ...[route.preValidation ?? []].flat()];
    route.onSend = [settle, ...[route.onSend ?? []].flat()];
  });
};
