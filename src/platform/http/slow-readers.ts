// Closes connections whose client does not read its responses, and counts the bytes that clients have not taken yet.
// A response that is not read stays in memory: 100 requests for 5 MB each held 1.1 GB of the server for ever.
import type { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { FastifyRequest, onSendHookHandler } from 'fastify';
import { type Account, type Accounts, anonymousAccount, FREE_BYTES, type Reservation } from '../base/accounts.ts';
import type { AppError } from '../base/errors.ts';
import type { Platform } from '../services/platform.ts';
import { READ_MS_MAX } from '../base/times.ts';
import type { App } from './app-type.ts';

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

/** Whose share a request uses: its tenant's, or that of clients without an API key. */
export const accountOf = ({ account, work, ip }: FastifyRequest): Account =>
  account ?? work?.tenant_id ?? anonymousAccount(ip);

/** A client must take this much of a response in READ_MS_MAX, or all that is left of it. */
export const READ_BYTES_LEAST = 65_536;

/** How often the connections are checked. One that has nothing to send costs a look at a number. */
const LOOK_MS = 250;

/** What a client had taken, and when. */
type Progress = { takenBytes: number; at: number };

export const cutSlowReaders = (app: App, ctx: Pick<Platform, 'now'>): void => {
  const sockets = new Set<Socket>();
  /** Of connections with unsent bytes. */
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
