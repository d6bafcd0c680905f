// Hands a request over to the heavy worker, and its response back, as bytes in both directions. Nothing of them is parsed here.
import {
  Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as ask,
  type ServerResponse,
} from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { mark, Operation, within } from '../base/event-loop.ts';
import { prefixFor } from './header-prefixes.ts';
import { nameReads } from './metered-bodies.ts';
import type { Platform } from '../services/platform.ts';
import { accountOf } from './connections.ts';
import { discardBody } from './unparsed-body.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The heavy worker serves, logs, counts and traces it. */
    isHandedOver: boolean;
  }
}

/** Headers of one connection only, by RFC 9110, section 7.6.1. The connections on both sides have their own. */
const besideConnection = /^(?:keep-alive|proxy-connection|te|transfer-encoding|upgrade|expect)$/i;
const ofConnection = new RegExp(`^connection$|${besideConnection.source}`, 'i');
/** And what is said of the client by this process. */
const ofClient = /^(?:svc-trace-id|x-forwarded-(?:for|host|proto))$/i;

/** What each connection decides for itself. */
const optionOfConnection = /^(?:|close|keep-alive|upgrade)$/i;

/** Raw headers, as names and values in turns, without others. */
const without = (raw: readonly string[], ...others: RegExp[]): string[] => {
  const passed: string[] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] as string;
    if (!others.some((other) => other.test(name))) passed.push(name, raw[at + 1] as string);
  }
  return passed;
};

const optionsOf = ({ connection = '' }: IncomingHttpHeaders): string[] =>
  connection.split(',').map((option) => option.trim());

/** Headers that a request of HTTP/1.0 may lack: the requests of this process must have a Host. Length 0 is as none at all. */
const missingHeaders = ({ headers, method }: IncomingMessage): string[] => [
  ...(headers.host === undefined ? ['host', ''] : []),
  ...(hasBody(headers) || method === 'GET' || method === 'HEAD' ? [] : ['content-length', '0']),
];

const hasBody = (headers: IncomingHttpHeaders): boolean =>
  headers['transfer-encoding'] !== undefined || headers['content-length'] !== undefined;

/** What the heavy worker is told of the client, which it does not see itself. It believes no other sender: see `createServer`. */
const sentHeadersOf = ({ raw, id, ip, host, protocol }: FastifyRequest): string[] => [
  `${prefixFor(raw)}trace-id`,
  id,
  'x-forwarded-for',
  ip,
  'x-forwarded-host',
  host,
  'x-forwarded-proto',
  protocol,
  // Headers that the client names here go no further than to the worker.
  'connection',
  ['keep-alive', ...optionsOf(raw.headers).filter((option) => !optionOfConnection.test(option))].join(', '),
  ...missingHeaders(raw),
  ...without(raw.rawHeaders, ofConnection, ofClient),
  ...(raw.headers['transfer-encoding'] === undefined ? [] : ['transfer-encoding', 'chunked']),
];

/** Connections that are kept: the next request needs no new one. */
const agent = new Agent({ keepAlive: true, maxFreeSockets: 64 });

const passAnswer = (answer: IncomingMessage, response: ServerResponse, operation: Operation): void => {
  // This process reads no further request of the client if the worker would read none.
  const closes = optionsOf(answer.headers).some((option) => /^close$/i.test(option));
  const headers = without(answer.rawHeaders, closes ? besideConnection : ofConnection);
  response.writeHead(answer.statusCode as number, answer.statusMessage, headers);
  // With the first of the body where that is there. A stream of events may begin much later.
  setImmediate(() => {
    if (!response.writableEnded && !response.destroyed) response.flushHeaders();
  });
  answer.on('data', () => mark(operation));
  // A response that breaks off must not look complete.
  answer.on('error', () => response.destroy());
  answer.pipe(response);
};

/**
 * Sends a request to where the heavy worker listens. Its account pays for the time that this takes. A client whose request was lost
 * with that process is disconnected, as with a worker that ends.
 * @param serveHere called where no connection could be made, as the process has ended, or too many wait for it: nothing of the
 * request was read then.
 */
export const handOver = (
  ctx: Pick<Platform, 'accounts'>,
  socketPath: string,
  request: FastifyRequest,
  reply: FastifyReply,
  serveHere: () => void,
): void => {
  const operation = new Operation('', () => accountOf(request), '', ctx.accounts.budgets);
  const { method, url: path } = request.raw;
  const asked = ask({ agent, socketPath, method, path, headers: sentHeadersOf(request), setHost: false });
  asked.once('error', serveHere);
  const begin = (): void => {
    asked.off('error', serveHere);
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
  // Without a framing of its own, a body would be the next request of this connection.
  if (hasBody(raw.headers)) raw.pipe(asked);
  else asked.end();
};
