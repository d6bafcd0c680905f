// Hands a request over to the heavy worker, and its response back, as bytes in both directions. Nothing of them is parsed here.
import { Agent, type ClientRequest, type IncomingMessage, request as ask, type ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { mark, Operation, within } from '../event-loop.ts';
import { nameReads } from './metered-bodies.ts';
import type { Platform } from '../platform.ts';
import { accountOf } from './slow-readers.ts';
import { discardBody } from './unparsed-body.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The heavy worker serves, logs, counts and traces it. */
    isHandedOver: boolean;
  }
}

/** Headers of one connection only, by RFC 9110, section 7.6.1. The connections on both sides have their own. */
const ofConnection = /^(?:connection|keep-alive|proxy-connection|te|transfer-encoding|upgrade|expect)$/i;
/** And what is said of the client by this process. */
const ofClient = /^(?:svc-trace-id|x-forwarded-(?:for|host|proto))$/i;

/** Raw headers, as names and values in turns, without others. */
const without = (raw: readonly string[], ...others: RegExp[]): string[] => {
  const passed: string[] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] as string;
    if (!others.some((other) => other.test(name))) passed.push(name, raw[at + 1] as string);
  }
  return passed;
};

/** What the heavy worker is told of the client, which it does not see itself. It believes no other sender: see `createServer`. */
const sentHeadersOf = ({ raw, id, ip, host, protocol }: FastifyRequest): string[] => [
  ...without(raw.rawHeaders, ofConnection, ofClient),
  'svc-trace-id',
  id,
  'x-forwarded-for',
  ip,
  'x-forwarded-host',
  host,
  'x-forwarded-proto',
  protocol,
  ...(raw.headers['transfer-encoding'] === undefined ? [] : ['transfer-encoding', 'chunked']),
];

/** Connections that are kept: the next request needs no new one. */
const agent = new Agent({ keepAlive: true, maxFreeSockets: 64 });

const passAnswer = (answer: IncomingMessage, response: ServerResponse, operation: Operation): void => {
  response.writeHead(answer.statusCode as number, answer.statusMessage, without(answer.rawHeaders, ofConnection));
  answer.on('data', () => mark(operation));
  // A response that breaks off must not look complete.
  answer.on('error', () => response.destroy());
  answer.pipe(response);
};

/**
 * Sends a request to where the heavy worker listens. Its account pays for the time that this takes. A client whose request was lost
 * with that process is disconnected, as with a worker that ends.
 * @param serveHere called where nobody listens any more: nothing of the request was read then.
 */
export const handOver = (
  ctx: Pick<Platform, 'accounts' | 'heavyWorker'>,
  socketPath: string,
  request: FastifyRequest,
  reply: FastifyReply,
  serveHere: () => void,
): void => {
  const operation = new Operation('', () => accountOf(request), '', ctx.accounts.budgets);
  const { method, url: path } = request.raw;
  const asked = ask({ agent, socketPath, method, path, headers: sentHeadersOf(request), setHost: false });
  const isUnreached = (): void => {
    if (ctx.heavyWorker.socket === socketPath) ctx.heavyWorker.socket = undefined;
    serveHere();
  };
  asked.once('error', isUnreached);
  const begin = (): void => {
    asked.off('error', isUnreached);
    reply.hijack();
    request.isHandedOver = true;
    nameReads(request, operation, ctx.accounts);
    within(operation, () => pass(asked, operation, request.raw, reply.raw));
  };
  asked.once('socket', (socket) => (socket.connecting ? socket.once('connect', begin) : begin()));
};

const pass = (asked: ClientRequest, operation: Operation, raw: IncomingMessage, response: ServerResponse): void => {
  asked.on('response', (answer) => passAnswer(answer, response, operation));
  asked.on('error', () => response.destroy());
  raw.on('error', () => asked.destroy());
  const end = (): void => {
    raw.unpipe(asked);
    if (response.writableFinished) discardBody(raw);
    // It is of no use any more, or its response came before its end.
    if (!response.writableFinished || !asked.writableFinished) asked.destroy();
  };
  // The client may have left while the connection was made.
  if (response.destroyed) return end();
  response.once('close', end);
  raw.pipe(asked);
};
