// Guards connections: slow clients, clients that leave, wrong framing, and clients of a server that ends.
import { type IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify';
import { type Account, type Accounts, anonymousAccount, FREE_BYTES, type Reservation } from '../base/accounts.ts';
import { AppError, badRequest, invalidField } from '../base/errors.ts';
import type { Platform } from '../services/platform.ts';
import { READ_MS_MAX, REQUEST_MS_MAX } from '../base/times.ts';
import type { App } from './app-type.ts';

// Closes connections whose client does not read its responses, and counts the bytes that clients have not taken yet.
// A response that is not read stays in memory: 100 requests for 5 MB each held 1.1 GB of the server for ever.

declare module 'fastify' {
  interface FastifyRequest {
    /** Set where it is not that of the caller's tenant: on a member's page, and for a public key. */
    account: Account | undefined;
  }
  interface FastifyContextConfig {
    /** The route runs code of a tenant: its response may be large, and what it has stored is kept for the idempotency key. */
    runsCode?: true;
  }
}

/** Account whose share a request uses: its tenant's, or that of clients without an API key. */
export const accountOf = ({ account, work, ip }: FastifyRequest): Account =>
  account ?? work?.tenant_id ?? anonymousAccount(ip);

/** A client must take this much of a response in READ_MS_MAX, or all that is left of it. */
const READ_BYTES_LEAST = 65_536;

/** How often the connections are checked. One that has nothing to send costs a look at a number. */
const LOOK_MS = 250;

/** What a client had taken, and when. */
type Progress = { takenBytes: number; at: number };

export const cutSlowReaders = (app: App, ctx: Pick<Platform, 'now'>): void => {
  const sockets = new Set<Socket>();
  /** Progress of connections with unsent bytes. */
  const progressOf = new Map<Socket, Progress>();

  const check = (socket: Socket, now: number): void => {
    if (socket.writableLength === 0) return void progressOf.delete(socket);
    const takenBytes = socket.bytesWritten - socket.writableLength;
    const before = progressOf.get(socket);
    if (!before || takenBytes - before.takenBytes >= READ_BYTES_LEAST) progressOf.set(socket, { takenBytes, at: now });
    else if (now - before.at >= READ_MS_MAX) socket.destroy();
  };

  let looking: NodeJS.Timeout | undefined;
  app.addHook('onListen', (done) => {
    looking = setInterval(() => {
      const now = ctx.now().getTime();
      for (const socket of sockets) check(socket, now);
    }, LOOK_MS).unref();
    done();
  });
  app.server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => {
      sockets.delete(socket);
      progressOf.delete(socket);
    });
  });
  app.addHook('onClose', (_app, done) => {
    clearInterval(looking);
    done();
  });
};

/** What is given back with each response. A listener for each reservation would be many for one response. */
const heldBy = new WeakMap<ServerResponse, Pick<Reservation, 'release'>[]>();

/** Gives a reservation back when the response was sent, or its connection is closed. */
export const releaseAfter = (raw: ServerResponse, reservation: Pick<Reservation, 'release'>): void => {
  if (raw.destroyed) return reservation.release();
  const held = heldBy.get(raw);
  if (held) return void held.push(reservation);
  const all = [reservation];
  heldBy.set(raw, all);
  const release = (): void => all.splice(0).forEach((each) => each.release());
  raw.once('finish', release);
  raw.once('close', release);
};

/**
 * A large body in pieces: each is written when the one before was taken. A single write of the whole would show no progress
 * before its end, and a slow client that reads would be cut.
 */
export const inPieces = (body: Buffer): Readable => {
  let at = 0;
  return new Readable({
    highWaterMark: FREE_BYTES,
    read() {
      this.push(at < body.byteLength ? body.subarray(at, (at += FREE_BYTES)) : null);
    },
  });
};

const unsafeMethods = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

/** Whether the operation has stored something. Its response is counted and never refused; its request body was counted before. */
const hasStored = ({ method, routeOptions: { config } }: FastifyRequest): boolean =>
  unsafeMethods.has(method) && config.idempotency !== 'none' && !config.runsCode;

/** The refusal of a response of this size; undefined for one that is sent in any case. */
export const findUnsentRefusal = (accounts: Accounts, request: FastifyRequest, bytes: number): AppError | undefined => {
  // A request of the console to the API, within the process: its page is counted.
  const isCounted = bytes > FREE_BYTES && request.raw.socket instanceof Socket;
  return isCounted && !hasStored(request) ? accounts.findRefusal(accountOf(request), 'unsent_bytes', bytes) : undefined;
};

/** Counts large responses for their tenant until they are sent. @throws too_many_requests; unavailable. */
export const countUnsent = (app: App, { accounts }: Pick<Platform, 'accounts'>): void => {
  app.decorateRequest('account', undefined);

  const count: onSendHookHandler<unknown> = (request, reply, payload, done) => {
    const isText = typeof payload === 'string';
    if (!isText && !Buffer.isBuffer(payload)) return done(null, payload);
    if (payload.length <= FREE_BYTES || !(request.raw.socket instanceof Socket)) return done(null, payload);
    const bytes = Buffer.byteLength(payload);
    // A buffer is a file of the server, which all responses share.
    if (isText) {
      const refusal = findUnsentRefusal(accounts, request, bytes);
      if (refusal) {
        reply.removeHeader('location');
        return done(refusal);
      }
      releaseAfter(reply.raw, accounts.hold(accountOf(request), 'unsent_bytes', bytes));
    }
    reply.header('content-length', bytes);
    return done(null, inPieces(isText ? Buffer.from(payload) : payload));
  };

  // The last hook of each route, so that the response is kept for its idempotency key before it may be refused.
  app.addHook('onRoute', (route) => {
    route.onSend = [...[route.onSend ?? []].flat(), count];
  });
};

// Closes connections whose request body takes too long, by the clock of the platform. Node checks its own timeout only every few
// seconds; it remains the limit for slow headers.

/** How often the unfinished bodies are checked. There are few: most arrive with their headers. */
const BODY_LOOK_MS = 100;

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/** The error that Node itself uses. platform/http/problems.ts has its response. */
const timeout = (): Error => Object.assign(new Error('request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });

export const cutSlowBodies = (app: App, ctx: Pick<Platform, 'now'>): void => {
  /** Requests by the time of their headers. */
  const arriving = new Map<IncomingMessage, number>();
  let looking: NodeJS.Timeout | undefined;
  const forget = (raw: IncomingMessage): void => {
    arriving.delete(raw);
    if (arriving.size > 0) return;
    clearInterval(looking);
    looking = undefined;
  };
  const look = (): void => {
    const latest = ctx.now().getTime() - REQUEST_MS_MAX;
    for (const [raw, from] of arriving) {
      if (from > latest && !raw.complete) continue;
      forget(raw);
      if (!raw.complete) app.server.emit('clientError', timeout(), raw.socket);
    }
  };
  app.server.on('request', (raw: IncomingMessage) => {
    if (!hasBody(raw)) return;
    arriving.set(raw, ctx.now().getTime());
    looking ??= setInterval(look, BODY_LOOK_MS).unref();
    raw.once('end', () => forget(raw));
    raw.once('close', () => forget(raw));
  });
};

// Tells when a client disconnects before it has its response.

/** Aborted when the client disconnects before it has the response. */
export const disconnectOf = ({ raw }: FastifyReply): AbortSignal => {
  const controller = new AbortController();
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort();
  });
  // The client may have disconnected while its key was looked up.
  if (raw.destroyed) controller.abort();
  return controller.signal;
};

// Refuses requests whose framing or headers have two meanings. A proxy in front of the server may have taken the other one
// (request smuggling). The connection closes, since its next bytes may belong to the request.

/** Headers that have one value for this server. Of two, Node keeps the first, or joins them. */
const SINGLE: ReadonlySet<string> = new Set([
  'content-length',
  'svc-api-key',
  'svc-fields-session',
  'svc-idempotency-key',
  'svc-proxy-key',
  'svc-proxy-url',
  'svc-trace-id',
  'transfer-encoding',
]);

/** A forwarded request has these for the destination, which gets them as they came. */
const SINGLE_UNLESS_FORWARDED: ReadonlySet<string> = new Set(['authorization', 'content-type']);

const refused = (name: string, sentence: string): AppError => invalidField(`headers.${name}`, sentence);

/** The name of a header that must be there once, and is there twice. */
const findDouble = ({ rawHeaders }: IncomingMessage, isForwarded: boolean): string | undefined => {
  const seen = new Set<string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] as string).toLowerCase();
    if (!SINGLE.has(name) && (isForwarded || !SINGLE_UNLESS_FORWARDED.has(name))) continue;
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return undefined;
};

/** Node's parser takes a request line of HTTP/2.0, too, which another server in between may not read as HTTP/1.1. */
const VERSIONS: ReadonlySet<string> = new Set(['1.0', '1.1']);

/** RFC 9112 section 6.1: the server decodes chunks alone, and HTTP/1.0 has no Transfer-Encoding. */
const framingProblem = ({ headers, httpVersion }: IncomingMessage): AppError | undefined => {
  if (!VERSIONS.has(httpVersion)) return badRequest('The version in the request line must be HTTP/1.1 or HTTP/1.0.');
  const { 'transfer-encoding': coding } = headers;
  if (coding === undefined) return undefined;
  if (httpVersion === '1.0') return refused('transfer-encoding', 'must not be in a request of HTTP/1.0');
  if (headers['content-length'] !== undefined)
    return refused('transfer-encoding', 'must not be there beside Content-Length');
  if (coding.trim().toLowerCase() === 'chunked') return undefined;
  return new AppError('not_implemented', 'The Transfer-Encoding must be chunked, without another coding.');
};

export const refuseTwoMeanings = (app: App): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const double = findDouble(request.raw, request.routeOptions.config.forwards === true);
    const problem = double === undefined ? framingProblem(request.raw) : refused(double, 'must be there once');
    if (problem === undefined) return done();
    reply.header('connection', 'close');
    return done(problem);
  });
};

// Sends Connection: close with every response while the server drains, so that clients leave their connections.

/** A response for `http.createServer`. Every response passes `writeHead`, also of a request that began before the drain. */
export const closingResponse = (draining: Platform['draining']): typeof ServerResponse =>
  class extends ServerResponse {
    override writeHead(...head: unknown[]): this {
      if (draining.isOn && !this.headersSent) this.setHeader('connection', 'close');
      return Reflect.apply(super.writeHead, this, head);
    }
  } as typeof ServerResponse;
