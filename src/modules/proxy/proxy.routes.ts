// Routes of /proxy: forwards requests and returns the destination's responses.
// Bodies are not parsed, and the server's own errors have a form that distinguishes them from the destination's.
import { type ProxyAnswer, type ProxyRequest } from './request.ts';
import { pipeline } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ProxyContext } from './context.ts';
import { FREE_BYTES } from '../../platform/base/accounts.ts';
import { disconnectOf, inPieces, releaseAfter } from '../../platform/http/connections.ts';
import { AppError, unauthorized } from '../../platform/base/errors.ts';
import type { App } from '../../platform/http/app-type.ts';
import { type Authentication, originOf } from '../access/authenticate.ts';
import { keyOf } from '../access/idempotent-requests.ts';
import { logRefusal } from '../access/refusals.ts';
import { sendProxyProblem, toAppError } from '../../platform/http/problems.ts';
import { traceIdsOf } from '../../platform/http/trace.ts';
import { proxyAnswerHeaders } from '../../platform/http/proxy-answer-headers.ts';
import { discardBody, chunksOf } from '../../platform/http/unparsed-body.ts';
import { withoutSessionCookie } from '../../platform/http/session-cookie.ts';
import { READABLE_CODINGS } from './bodies/take-body.ts';
import { forwardingFault } from './faults.ts';
import { forward } from './forward.ts';
import { forwardedSchema } from './proxy.schema.ts';

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** Codes of errors of this server: not of the destination, of a tenant's code or of the caller. */
const serverErrors = new Set(['internal', 'unavailable']);

/** All headers as they were sent, with their spelling and order. */
const headersOf = ({ raw }: FastifyRequest): [name: string, value: string][] => {
  const pairs: [string, string][] = [];
  for (let at = 0; at + 1 < raw.rawHeaders.length; at += 2)
    pairs.push([raw.rawHeaders[at] as string, raw.rawHeaders[at + 1] as string]);
  return pairs;
};

const bodyOf = ({ raw }: FastifyRequest): Pick<ProxyRequest, 'body' | 'bodyBytes'> => {
  const length = raw.headers['content-length'];
  // No other coding comes here: see platform/http/connections.ts.
  const isInChunks = raw.headers['transfer-encoding'] !== undefined;
  if (!isInChunks && (length === undefined || length === '0')) return { body: undefined, bodyBytes: undefined };
  return { body: chunksOf(raw), bodyBytes: isInChunks ? undefined : Number(length) };
};

/** A body of at most this size is gathered and sent at once: one TLS record (RFC 8446 section 5.1). */
const SMALL_BYTES_MAX = 16_384;
/** How long to wait for the end of a small body. Then the part that is there is sent. */
const GATHER_MS = 20;

/** RFC 9112 section 4. Other texts are dropped. */
const statusTextPattern = /^[\t\x20-\x7e\x80-\xff]+$/;

const FORWARD_ID = 'svc-forward-id';

/** Methods that may have an effect each time. */
const retriable: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

/** `Idempotency-Key` without the prefix is the destination's. @throws invalidInput for a malformed key; unauthorized. */
const retryOf = (request: FastifyRequest, reply: FastifyReply): ProxyRequest['retry'] => {
  if (request.headers['svc-idempotency-key'] === undefined || !retriable.has(request.method)) return undefined;
  const key = keyOf(request, ['svc-idempotency-key']);
  if (key === undefined) return undefined;
  // Not read, the key would let a client repeat a request that is then done twice.
  if (!request.work) throw unauthorized('SVC-IDEMPOTENCY-KEY needs an API key.');
  return { key, note: (id) => void reply.header(FORWARD_ID, id) };
};

/** Sends the response. If the destination breaks off, so does the response. */
const send = async (request: FastifyRequest, reply: FastifyReply, answer: ProxyAnswer): Promise<void> => {
  const { status, statusText, headers, body, destination_status } = answer;
  const all = headers.flat();
  all.push('SVC-TRACE-ID', request.id);
  if (destination_status !== undefined) all.push('SVC-PROXY-DESTINATION-STATUS', String(destination_status));
  const forwardId = reply.getHeader(FORWARD_ID);
  if (forwardId !== undefined) all.push('SVC-FORWARD-ID', String(forwardId));
  const bodyBytes = body instanceof Uint8Array ? body.byteLength : answer.bodyBytes;
  // These have no body, and Content-Length would have another meaning (RFC 9110 section 8.6).
  if (bodyBytes !== undefined && status !== 204 && status !== 304) all.push('content-length', String(bodyBytes));
  if (answer.trailers)
    all.push(
      'Trailer',
      answer
        .trailers()
        .map(([name]) => name)
        .join(', '),
    );
  const isSmall = bodyBytes !== undefined && bodyBytes <= SMALL_BYTES_MAX;
  // An error before anything was sent can still become an error response.
  const { chunks, rest } = await gather(body, isSmall);
  const { raw } = reply;
  const breakOff = (error: unknown): void => {
    answer.run.brokenOff(status, error);
    raw.destroy();
  };
  if (statusTextPattern.test(statusText)) raw.writeHead(status, statusText, all);
  else raw.writeHead(status, all);
  reply.hijack();
  if (body instanceof Uint8Array && body.byteLength > FREE_BYTES)
    return pipeline(inPieces(Buffer.from(body.buffer, body.byteOffset, body.byteLength)), raw).catch(breakOff);
  if (!rest) return void raw.end(Buffer.concat(chunks));
  // Without a length it may be a stream of events: the client must see the headers before the first one.
  if (bodyBytes === undefined) raw.flushHeaders();
  for (const chunk of chunks) raw.write(chunk);
  const { trailers } = answer;
  if (!trailers) return pipeline(rest, raw).catch(breakOff);
  await pipeline(rest, raw, { end: false }).then(() => {
    raw.addTrailers(trailers());
    raw.end();
  }, breakOff);
};

type Gathered = { chunks: Uint8Array[]; rest: AsyncIterable<Uint8Array> | undefined };

/** Collects a small response if it arrives at once: most do, and a stream costs more. @throws bad_gateway; gateway_timeout. */
const gather = async (body: ProxyAnswer['body'], isSmall: boolean): Promise<Gathered> => {
  if (body === undefined || body instanceof Uint8Array) return { chunks: body ? [body] : [], rest: undefined };
  if (!isSmall) return { chunks: [], rest: body };
  const all = body.takeAll();
  if (all) return { chunks: all, rest: undefined };
  const reader = body[Symbol.asyncIterator]();
  const chunks: Uint8Array[] = [];
  const { promise: late, resolve } = Promise.withResolvers<'late'>();
  const timer = setTimeout(resolve, GATHER_MS, 'late');
  try {
    for (;;) {
      const coming = reader.next();
      const next = await Promise.race([coming, late]);
      if (next === 'late') return { chunks, rest: restOf(coming, reader) };
      if (next.done) return { chunks, rest: undefined };
      chunks.push(next.value);
    }
  } catch (error) {
    throw forwardingFault(error);
  } finally {
    clearTimeout(timer);
  }
};

async function* restOf(
  coming: Promise<IteratorResult<Uint8Array>>,
  reader: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  try {
    for (let next = await coming; !next.done; next = await reader.next()) yield next.value;
  } finally {
    await reader.return?.();
  }
}

/**
 * Refuses requests by which a browser would load the response as a page, an image or a script of this origin. Scripts of the
 * destination would act for the user who is signed in here, and an attacker can send the URL of an open proxy as a link
 * (https://www.w3.org/TR/fetch-metadata/).
 */
const refuseNavigation = ({ headers }: FastifyRequest): void => {
  const { 'sec-fetch-mode': mode, 'sec-fetch-dest': purpose } = headers;
  // Module scripts and service workers use the modes of fetch(); only the destination header distinguishes them.
  const isProgram =
    (mode === undefined || mode === 'cors' || mode === 'same-origin') && (purpose ?? 'empty') === 'empty';
  if (!isProgram)
    throw new AppError('forbidden', 'The proxy is for programs: a browser must not open its responses as pages.');
};

export const proxyRoutes = async (app: App, ctx: ProxyContext, { countFailure }: Authentication): Promise<void> => {
  const sendOn = async (request: FastifyRequest, reply: FastifyReply, answer: ProxyAnswer): Promise<void> => {
    // The reservations last until the connection is closed.
    releaseAfter(reply.raw, answer);
    // The destination must not set a session cookie.
    const answered = proxyAnswerHeaders(request.headers, withoutSessionCookie(ctx, answer.headers));
    // What code made is in memory until the client has taken it. A stream is not: a slow client slows the destination down.
    const madeBytes = answer.body instanceof Uint8Array ? answer.body.byteLength : 0;
    if (madeBytes > FREE_BYTES)
      releaseAfter(reply.raw, ctx.accounts.reserve(answer.account, 'unsent_bytes', madeBytes));
    await send(request, reply, { ...answer, headers: answered });
  };

  const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    refuseNavigation(request);
    const { work, method } = request;
    // The destination must not get the session of a user of this server.
    const headers = withoutSessionCookie(ctx, headersOf(request));
    const origin = work?.origin ?? originOf(request);
    const beginUsage = (tenant_id: string) => (request.usage ??= ctx.usage.begin(tenant_id, undefined));
    const retry = retryOf(request, reply);
    const asked = { work, origin, beginUsage, method, url: request.raw.url ?? '', headers, ...bodyOf(request), retry };
    // A request with a key goes on without its client, who asks for the answer by the key.
    const signal = retry ? new AbortController().signal : disconnectOf(reply);
    const answer = await forward(ctx, { ...asked, signal }).catch(async (error: unknown) => {
      const isAnonymous = work === undefined && error instanceof AppError;
      if (isAnonymous && (error.code === 'unauthorized' || error.code === 'not_found')) await countFailure(request.ip);
      throw error;
    });
    await answer.run.through(
      () => answer.status,
      () => sendOn(request, reply, answer),
    );
    return reply;
  };

  await app.register(
    async (scope: App) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser(['application/octet-stream', '*'], (_request, _payload, done) => done(null));
      // The framework refuses invalid content types. The forwarded headers come from rawHeaders and stay as they were.
      scope.addHook('onRequest', (request, _reply, done) => {
        if (request.headers['content-type'] !== undefined)
          request.raw.headers['content-type'] = 'application/octet-stream';
        done();
      });
      scope.setErrorHandler(async (error, request, reply) => {
        const problem = toAppError(error, ctx.config.proxyBodyBytesMax);
        await logRefusal(ctx, request, problem);
        if (serverErrors.has(problem.code) && !reply.raw.destroyed)
          request.log.error({ ...traceIdsOf(request), error: problem, code: problem.code }, 'a request failed');
        if (problem.code === 'unsupported_content_coding') reply.header('accept-encoding', READABLE_CODINGS);
        return sendProxyProblem(reply, problem);
      });
      scope.setNotFoundHandler((_request, reply) => {
        reply.header('allow', methods.join(', '));
        return sendProxyProblem(
          reply,
          new AppError('method_not_allowed', `The method must be one of ${methods.join(', ')}.`),
        );
      });
      scope.addHook('onResponse', (request, _reply, done) => {
        discardBody(request.raw);
        done();
      });
      for (const url of ['/', '/*'] as const)
        for (const method of methods)
          scope.route({
            method,
            url,
            exposeHeadRoute: false,
            config: {
              permission: 'token:use',
              allowsAnonymous: true,
              forwards: true,
              takesDryRun: true,
              idempotency: 'none',
            },
            schema: forwardedSchema(method, url),
            handler: handle,
          });
    },
    { prefix: '/proxy' },
  );
};
