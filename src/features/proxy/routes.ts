// /proxy and everything below it: requests with expressions in, the destination's answers out. A scope of its own: bodies
// are not parsed, and errors of ours stand in the frame that tells them from the destination's.
import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { AppError, invalidField } from '../../errors.ts';
import type { App } from '../../http/app-type.ts';
import { type Authentication, originOf } from '../../http/authenticate.ts';
import { logRefusal, sendProxyProblem, toAppError } from '../../http/problems.ts';
import { proxyAnswerHeaders } from '../../http/proxy-answer-headers.ts';
import { letThrough, piecesOf } from '../../http/request-pieces.ts';
import { withoutSessionCookie } from '../../http/session-cookie.ts';
import { READABLE_CODINGS } from '../../proxy/coded-body.ts';
import { forwardingFault } from '../../proxy/faults.ts';
import { forward, type ProxyAnswer, type ProxyRequest } from '../../proxy/forward.ts';
import { forwardedSchema } from './schema.ts';

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;

/** Failures of the destination, of a tenant's code, and of a caller's own are none of ours. */
const ours = new Set(['internal', 'unavailable']);

/** As sent: their spelling, their order, each of them. */
const headersOf = ({ raw }: FastifyRequest): [name: string, value: string][] => {
  const pairs: [string, string][] = [];
  for (let at = 0; at + 1 < raw.rawHeaders.length; at += 2)
    pairs.push([raw.rawHeaders[at] as string, raw.rawHeaders[at + 1] as string]);
  return pairs;
};

/** @throws invalidInput for a coding beside chunked: the body would go on in it, and the destination not learn of it. */
const bodyOf = ({ raw }: FastifyRequest): Pick<ProxyRequest, 'body' | 'bodyBytes'> => {
  const length = raw.headers['content-length'];
  const coding = raw.headers['transfer-encoding'];
  const isInChunks = coding !== undefined;
  if (isInChunks && coding.trim().toLowerCase() !== 'chunked')
    throw invalidField('headers.transfer-encoding', 'must be chunked alone');
  if (!isInChunks && (length === undefined || length === '0')) return { body: undefined, bodyBytes: undefined };
  return { body: piecesOf(raw), bodyBytes: isInChunks ? undefined : Number(length) };
};

/** Aborted when the caller leaves before it has its answer. */
const departureOf = ({ raw }: FastifyReply): AbortSignal => {
  const controller = new AbortController();
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort();
  });
  // It may have left while its key was looked up.
  if (raw.destroyed) controller.abort();
  return controller.signal;
};

/** Held in memory before it is sent: one piece of a TLS connection (RFC 8446 section 5.1). */
const SMALL_BYTES_MAX = 16_384;
/** How long its end is waited for; then what is there goes on. */
const GATHER_MS = 20;

/** Somewhat longer than an answer can take to come. */
const ANSWER_TAKEN_MS = 30_000;

/** RFC 9112 section 4. Other words of a destination stay behind: they say nothing that the status does not. */
const fairStatusText = /^[\t\x20-\x7e\x80-\xff]+$/;

/** Sends the answer, with what says where it comes from. What breaks off at the destination breaks off here as well. */
const send = async (request: FastifyRequest, reply: FastifyReply, answer: ProxyAnswer): Promise<void> => {
  const { status, statusText, headers, body, destination_status } = answer;
  const all = headers.flat();
  all.push('SVC-TRACE-ID', request.id);
  if (destination_status !== undefined) all.push('SVC-PROXY-DESTINATION-STATUS', String(destination_status));
  const bodyBytes = body instanceof Uint8Array ? body.byteLength : answer.bodyBytes;
  // RFC 9110 section 8.6: there is none in these, and a length would speak of something else.
  if (bodyBytes !== undefined && status !== 204 && status !== 304) all.push('content-length', String(bodyBytes));
  const isSmall = bodyBytes !== undefined && bodyBytes <= SMALL_BYTES_MAX;
  // What breaks off before anything was sent can still be told.
  const { pieces, rest } = await gather(body, isSmall);
  const { raw } = reply;
  if (fairStatusText.test(statusText)) raw.writeHead(status, statusText, all);
  else raw.writeHead(status, all);
  reply.hijack();
  if (bodyBytes === undefined || bodyBytes > SMALL_BYTES_MAX) cutSlowReader(raw);
  if (!rest) return endWith(raw, pieces, isSmall);
  // Events are for now: whoever waits for them sees that they are coming.
  if (bodyBytes === undefined) raw.flushHeaders();
  for (const piece of pieces) raw.write(piece);
  await pipeline(rest, raw).catch(() => raw.destroy());
};

/** Small ones as a text of bytes: with that the head goes out in the same write. */
const endWith = (raw: ServerResponse, pieces: Uint8Array[], isSmall: boolean): void => {
  const [first] = pieces;
  const whole =
    pieces.length === 1 && first
      ? Buffer.from(first.buffer, first.byteOffset, first.byteLength)
      : Buffer.concat(pieces);
  if (isSmall) raw.end(whole.toString('latin1'), 'latin1');
  else raw.end(whole);
};

/** An answer takes memory and a connection until it is taken: whoever does not take it is cut (security.md O2). */
const cutSlowReader = (raw: ServerResponse): void => {
  const timer = setTimeout(() => raw.destroy(), ANSWER_TAKEN_MS);
  raw.once('close', () => clearTimeout(timer));
};

type Gathered = { pieces: Uint8Array[]; rest: AsyncIterable<Uint8Array> | undefined };

/** The whole of a small answer where it comes at once: most do, and a stream costs more than they do. @throws bad_gateway; gateway_timeout. */
const gather = async (body: ProxyAnswer['body'], isSmall: boolean): Promise<Gathered> => {
  if (body === undefined || body instanceof Uint8Array) return { pieces: body ? [body] : [], rest: undefined };
  if (!isSmall) return { pieces: [], rest: body };
  const all = body.takeAll();
  if (all) return { pieces: all, rest: undefined };
  const reader = body[Symbol.asyncIterator]();
  const pieces: Uint8Array[] = [];
  const { promise: late, resolve } = Promise.withResolvers<'late'>();
  const timer = setTimeout(resolve, GATHER_MS, 'late');
  try {
    for (;;) {
      const coming = reader.next();
      const next = await Promise.race([coming, late]);
      if (next === 'late') return { pieces, rest: restOf(coming, reader) };
      if (next.done) return { pieces, rest: undefined };
      pieces.push(next.value);
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
 * What a destination answers must not become a page of this server's origin, nor its headers speak for it, as those of an
 * image do: its scripts would act for whoever is signed in
 * here, and an open proxy's address is a link that anyone can send (https://www.w3.org/TR/fetch-metadata/).
 */
const refuseNavigation = ({ headers }: FastifyRequest): void => {
  const { 'sec-fetch-mode': mode, 'sec-fetch-dest': purpose } = headers;
  // A script of a module and that of a service worker are asked for in the modes of programs: what for is said beside.
  const isProgram =
    (mode === undefined || mode === 'cors' || mode === 'same-origin') && (purpose ?? 'empty') === 'empty';
  if (!isProgram)
    throw new AppError('forbidden', 'The proxy is for programs: a browser must not open its answers as pages.');
};

export const proxyRoutes = async (app: App, ctx: Context, { countFailure }: Authentication): Promise<void> => {
  const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    refuseNavigation(request);
    const { caller, method } = request;
    // What signs a person in here is no destination's business.
    const headers = withoutSessionCookie(ctx, headersOf(request));
    const origin = originOf(request);
    const asked = { caller, origin, method, url: request.raw.url ?? '', headers, ...bodyOf(request) };
    const answer = await forward(ctx, { ...asked, signal: departureOf(reply) }).catch(async (error: unknown) => {
      const isStranger = caller === undefined && error instanceof AppError;
      if (isStranger && (error.code === 'unauthorized' || error.code === 'not_found')) await countFailure(request);
      throw error;
    });
    // As long as anything of it is here.
    if (reply.raw.destroyed) answer.release();
    else reply.raw.once('close', () => answer.release());
    // Nor may it sign anybody in.
    const answered = proxyAnswerHeaders(request.headers, withoutSessionCookie(ctx, answer.headers));
    await send(request, reply, { ...answer, headers: answered });
    return reply;
  };

  await app.register(
    async (scope: App) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser(['application/octet-stream', '*'], (_request, _payload, done) => done(null));
      // The framework refuses content types that are not well formed; what goes on is as it was sent.
      scope.addHook('onRequest', (request, _reply, done) => {
        if (request.headers['content-type'] !== undefined)
          request.raw.headers['content-type'] = 'application/octet-stream';
        done();
      });
      scope.setErrorHandler(async (error, request, reply) => {
        const problem = toAppError(error, ctx.config.proxyBodyBytesMax);
        await logRefusal(ctx, request, problem);
        if (ours.has(problem.code) && !reply.raw.destroyed)
          request.log.error({ trace_id: request.id, error: problem, code: problem.code }, 'a request failed');
        // RFC 9110 section 15.5.16.
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
        letThrough(request.raw);
        done();
      });
      for (const url of ['/', '/*'] as const)
        for (const method of methods)
          scope.route({
            method,
            url,
            exposeHeadRoute: false,
            config: { permission: 'token:use', admitsStrangers: true, forwards: true, idempotency: 'none' },
            schema: forwardedSchema(method, url),
            handler: handle,
          });
    },
    { prefix: '/proxy' },
  );
};
