// An HTTP server in front of another one. It loses, cuts, delays or replaces answers as a test asks, on real sockets.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request as startRequest, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type ServerOptions } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';

/** What happens to one request. The next one gets the next fault; after the last fault all pass. */
export type Fault =
  /** Forwarded, and answered with another status or further headers. */
  | { do: 'pass'; status?: number; headers?: Record<string, string> }
  /** The connection is reset before the request reaches the server. */
  | { do: 'reset_before' }
  /** The server does the request, and its answer is lost. */
  | { do: 'reset_after' }
  /** The server does the request. Half of its answer arrives. */
  | { do: 'cut' }
  /** The request does not reach the server, and gets no answer. */
  | { do: 'hang' }
  /** The server does the request and is killed. Its answer is lost, and another server takes its place. */
  | { do: 'kill_after' }
  /** Not forwarded. The answer is not HTTP. */
  | { do: 'garble'; text: string }
  /** Not forwarded. The end of an answer that stalls does not arrive. */
  | {
      do: 'answer';
      status: number;
      headers?: Record<string, string>;
      body?: string;
      times?: number;
      stalls?: true;
    };

/** One request as it arrived. */
export type Seen = { method: string; path: string; key: string | undefined; digest: string };

export type MisbehavingServer = {
  url: string;
  seen: Seen[];
  /** Forgets what was seen. */
  script(faults: readonly Fault[]): void;
  close(): Promise<void>;
};

export type MisbehavingOptions = {
  /** Of the server behind it. */
  port: number;
  /** Kills the server, and starts another one on the same port. */
  restart(): Promise<void>;
  tls?: ServerOptions;
};

type Answer = { status: number; headers: IncomingMessage['headers']; body: Buffer };

const readAll = async (message: IncomingMessage): Promise<Buffer> => {
  const pieces: Buffer[] = [];
  for await (const piece of message) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
};

const forward = async (port: number, request: IncomingMessage, body: Buffer): Promise<Answer> => {
  const { method, url, headers } = request;
  const sent = startRequest({ host: '127.0.0.1', port, method, path: url, headers, agent: false });
  sent.end(body);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: await readAll(answer) };
};

const send = (response: ServerResponse, { status, headers, body }: Answer): void => {
  const kept = Object.entries(headers).filter(
    ([name]) => !['connection', 'transfer-encoding', 'keep-alive'].includes(name),
  );
  response.writeHead(status, Object.fromEntries(kept)).end(body);
};

export const startMisbehavingServer = async ({
  port,
  restart,
  tls,
}: MisbehavingOptions): Promise<MisbehavingServer> => {
  let faults: Fault[] = [];
  const seen: Seen[] = [];
  const open = new Set<Socket>();

  const misbehave = async (request: IncomingMessage, response: ServerResponse, body: Buffer): Promise<void> => {
    const fault = faults.shift() ?? { do: 'pass' };
    const { socket } = request;
    switch (fault.do) {
      case 'reset_before':
        return void socket.resetAndDestroy();
      case 'hang':
        return;
      case 'garble':
        return void socket.end(fault.text);
      case 'answer':
        response.writeHead(fault.status, fault.headers);
        return void (fault.stalls ? response.write(fault.body ?? '') : response.end(fault.body));
      default:
    }
    const answer = await forward(port, request, body);
    if (fault.do === 'pass') {
      const { status = answer.status, headers } = fault;
      return send(response, { ...answer, status, headers: { ...answer.headers, ...headers } });
    }
    if (fault.do === 'reset_after') return void socket.resetAndDestroy();
    if (fault.do === 'kill_after') {
      await restart();
      return void socket.resetAndDestroy();
    }
    response.writeHead(answer.status, { ...answer.headers, 'content-length': answer.body.length });
    response.write(answer.body.subarray(0, answer.body.length / 2), () => socket.destroy());
  };

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      const body = await readAll(request);
      const { method = '', url = '', headers } = request;
      const key = headers['svc-idempotency-key']?.toString();
      seen.push({ method, path: url, key, digest: createHash('sha256').update(body).digest('hex') });
      await misbehave(request, response, body);
    } catch {
      // The client has gone, or the server behind: either is the end of this connection.
      request.socket.destroy();
    }
  };

  const server = tls ? createTlsServer(tls, handle) : createServer(handle);
  for (const event of ['connection', 'secureConnection'])
    server.on(event, (socket: Socket) => {
      open.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => open.delete(socket));
    });
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port: own } = server.address() as AddressInfo;
  return {
    url: tls ? `https://localhost:${own}` : `http://127.0.0.1:${own}`,
    seen,
    script: (next) => {
      seen.length = 0;
      faults = next.flatMap((fault) => Array<Fault>('times' in fault ? (fault.times ?? 1) : 1).fill(fault));
    },
    close: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
};
