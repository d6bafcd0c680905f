// A fake payment processor for tests: HTTPS on a port of loopback, with cards that it declines, leaves without an answer, or cuts.
// The vault reaches it as a development server reaches `npm run echo`. The npm package for tests bundles this file.
import { once } from 'node:events';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import { selfSignedCertificateFor } from '../../platform/crypto/issue-certificate.ts';

/** Numbers of test cards, and what the processor does with a request that has one. It approves others. */
export const cards = {
  approved: '4242424242424242',
  /** 402 with the code `card_declined`. */
  declined: '4000000000000002',
  /** 402 with the code `insufficient_funds`. */
  insufficientFunds: '4000000000009995',
  /** No answer: the connection stays open until the vault ends it. */
  timesOut: '4000000000000408',
  /** The connection is reset. */
  resets: '4000000000000341',
  /** The response has the request that the processor received. */
  echoes: '4000000000000804',
} as const;

/** A request as the processor received it. */
export type ReceivedRequest = {
  method: string;
  /** With the query. */
  path: string;
  headers: Record<string, string | string[] | undefined>;
  /** Parsed if it is JSON. */
  body: unknown;
};

export type Processor = {
  /** Such as `https://localhost:40123`. */
  url: string;
  /** The newest are kept, the oldest first. */
  requests: ReceivedRequest[];
  stop(): Promise<void>;
};

/** Requests that are kept: a test looks at a few. */
const REQUESTS_MAX = 1_000;
/** Longer bodies are refused: a payment has some hundred bytes. With the number of requests it bounds the memory. */
const BODY_BYTES_MAX = 64 * 1024;

const parse = (body: string): unknown => {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
};

/** @returns undefined if it is too long. */
const readBody = async (request: IncomingMessage): Promise<string | undefined> => {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > BODY_BYTES_MAX) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
};

const respond = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
};

/** Answers by the card number in the body, wherever it is. */
const answer = (received: ReceivedRequest, text: string, response: ServerResponse, reset: () => void): void => {
  if (text.includes(cards.timesOut)) return;
  if (text.includes(cards.resets)) return reset();
  if (text.includes(cards.echoes)) return respond(response, 200, received);
  if (text.includes(cards.declined)) return respond(response, 402, { status: 'declined', code: 'card_declined' });
  if (text.includes(cards.insufficientFunds))
    return respond(response, 402, { status: 'declined', code: 'insufficient_funds' });
  respond(response, 200, { status: 'approved' });
};

/**
 * Starts a processor on a free port of loopback, and tells the vault of a data directory how to reach it.
 * @param dataDir of a vault in development mode. One vault knows one destination of this kind: the last one.
 */
export const startProcessor = async (dataDir: string): Promise<Processor> => {
  const { cert, key } = selfSignedCertificateFor('localhost');
  const requests: ReceivedRequest[] = [];
  /** Sockets by the port of the vault. */
  const sockets = new Map<number | undefined, Socket>();
  const server = createServer({ cert, key }, async (request, response) => {
    // A client that goes away in the middle of its request gets no answer.
    const text = await readBody(request).catch(() => undefined);
    if (text === undefined) return respond(response, 413, { status: 'refused', code: 'body_too_long' });
    const { method = '', url: path = '', headers } = request;
    const received = { method, path, headers, body: parse(text) };
    requests.push(received);
    if (requests.length > REQUESTS_MAX) requests.shift();
    answer(received, text, response, () => sockets.get(request.socket.remotePort)?.resetAndDestroy());
  });
  // A connection with TLS cannot be reset, the one below it can.
  server.on('connection', (socket: Socket) => {
    const { remotePort } = socket;
    sockets.set(remotePort, socket);
    socket.once('close', () => sockets.delete(remotePort));
  });
  // A vault that is stopped cuts its connections.
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A test that does not stop it must end all the same.
  server.unref();
  const { port } = server.address() as AddressInfo;
  const file = join(dataDir, 'echo.json');
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  // Form that src/platform/config/dev-destination.ts reads.
  await writeFile(`${file}.new`, JSON.stringify({ port, certificate: cert }), { mode: 0o600 });
  await rename(`${file}.new`, file);
  return {
    url: `https://localhost:${port}`,
    requests,
    stop: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
      await rm(file, { force: true });
    },
  };
};
