// Shared set-up of proxy tests: a server, a destination that sends and receives raw bytes, and raw connections to both.
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { createServer } from 'node:tls';
import { expect } from 'vitest';
import type { Overrides } from '../../src/context.ts';
import { certificateFor } from './certificates.ts';
import { checkProblem } from './problem.ts';
import {
  type Answer,
  type RequestOptions,
  type SharedServer,
  startServerBefore,
  type TestServer,
  upstreamOn,
  useEgressServer,
} from './server.ts';

export type Head = {
  /** The first line. */
  start: string;
  /** Their spelling, their order, each of them; a byte is a character. */
  headers: [name: string, value: string][];
};

export type Message = Head & {
  body: Buffer;
  /** Whether it came to the end that its framing says. */
  isWhole: boolean;
};

/** One end of a connection. */
export type Wire = {
  socket: Socket;
  /** @param bytes a text's characters are bytes. */
  send(bytes: string | Uint8Array): void;
  /** @throws WireEnded. */
  head(): Promise<Head>;
  /** What follows a head, however it is framed. */
  body(head: Head): Promise<Pick<Message, 'body' | 'isWhole'>>;
  /** The next message, whole. @throws WireEnded. */
  message(): Promise<Message>;
  /** The next pieces of a body up to a text in them, as they are. @throws WireEnded. */
  upTo(text: string): Promise<string>;
  bytesReceived(): number;
  /** Resolves when the connection is closed. */
  closed: Promise<void>;
};

export class WireEnded extends Error {}

export const delay = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Whoever waits for it hears of its failure, and nobody has to wait. */
export const handled = <T>(work: Promise<T>): Promise<T> => {
  work.catch(() => {});
  return work;
};

export const until = async (isSo: () => boolean, what = 'it'): Promise<void> => {
  const endMs = performance.now() + 10_000;
  while (!isSo()) {
    if (performance.now() > endMs) throw new Error(`${what} did not happen in 10 s`);
    await delay(5);
  }
};

export const valuesOf = ({ headers }: Pick<Head, 'headers'>, wanted: string): string[] =>
  headers.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value);

export const statusOf = ({ start }: Head): number => Number(start.split(' ')[1]);

export const openWire = (socket: Socket): Wire => {
  let waiting: Buffer[] = [];
  let received = 0;
  let isEnded = false;
  let wake = (): void => {};
  const end = (): void => {
    isEnded = true;
    wake();
  };
  socket.on('data', (piece: Buffer) => {
    received += piece.byteLength;
    waiting.push(piece);
    wake();
  });
  socket.on('end', end);
  socket.on('close', end);
  // Whoever reads hears of an end.
  socket.on('error', () => {});

  const more = async (): Promise<void> => {
    if (isEnded) throw new WireEnded('the connection ended');
    await new Promise<void>((resolve) => (wake = resolve));
  };

  /** All that waits, in one piece. */
  const look = (): Buffer => {
    if (waiting.length > 1) waiting = [Buffer.concat(waiting)];
    return waiting[0] ?? Buffer.alloc(0);
  };

  const take = (bytes: number): Buffer => {
    const all = look();
    waiting = all.byteLength > bytes ? [all.subarray(bytes)] : [];
    return all.subarray(0, bytes);
  };

  const upTo = async (text: string): Promise<string> => {
    let at: number;
    while ((at = look().indexOf(text, 0, 'latin1')) === -1) await more();
    return take(at + text.length).toString('latin1');
  };

  const head = async (): Promise<Head> => {
    const [start = '', ...lines] = (await upTo('\r\n\r\n')).slice(0, -4).split('\r\n');
    const headers = lines.map((line): [string, string] => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    });
    return { start, headers };
  };

  const readInto = async (pieces: Buffer[], bytes: number): Promise<void> => {
    for (let left = bytes; left > 0;) {
      while (waiting.length === 0) await more();
      const piece = take(left);
      pieces.push(piece);
      left -= piece.byteLength;
    }
  };

  const readChunks = async (pieces: Buffer[]): Promise<void> => {
    for (;;) {
      const size = Number.parseInt(await upTo('\r\n'), 16);
      if (size === 0) break;
      await readInto(pieces, size);
      await upTo('\r\n');
    }
    while ((await upTo('\r\n')) !== '\r\n');
  };

  const readToEnd = async (pieces: Buffer[]): Promise<void> => {
    try {
      for (;;) await readInto(pieces, 1);
    } catch {
      pieces.push(take(Number.MAX_SAFE_INTEGER));
    }
  };

  const body = async (of: Head): Promise<Pick<Message, 'body' | 'isWhole'>> => {
    const pieces: Buffer[] = [];
    const isAnswer = of.start.startsWith('HTTP/');
    const [length] = valuesOf(of, 'content-length');
    const isEmpty = isAnswer && (statusOf(of) < 200 || statusOf(of) === 204 || statusOf(of) === 304);
    try {
      if (isEmpty) return { body: Buffer.alloc(0), isWhole: true };
      if (valuesOf(of, 'transfer-encoding').length > 0) await readChunks(pieces);
      else if (length !== undefined) await readInto(pieces, Number(length));
      else if (isAnswer) await readToEnd(pieces);
      return { body: Buffer.concat(pieces), isWhole: true };
    } catch (error) {
      if (!(error instanceof WireEnded)) throw error;
      return { body: Buffer.concat(pieces), isWhole: false };
    }
  };

  const message = async (): Promise<Message> => {
    const first = await head();
    return { ...first, ...(await body(first)) };
  };

  return {
    socket,
    send: (bytes) => void socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes),
    head: () => handled(head()),
    body: (of) => handled(body(of)),
    message: () => handled(message()),
    upTo: (text) => handled(upTo(text)),
    bytesReceived: () => received,
    closed: new Promise((resolve) => socket.once('close', () => resolve())),
  };
};

/** What a destination does with a request, once its head is there. What it throws ends the connection. */
export type Script = (wire: Wire, head: Head) => Promise<void>;

export type Destination = {
  port: number;
  /** Requests that `receiving` got, in their order. */
  received: Message[];
  /** The next requests are served so, until there is another. By default `receiving(OK)`. */
  script: Script;
  /** Of requests, with their heads. */
  bytesReceived(): number;
  connectionCount(): number;
  openCount(): number;
  close(): Promise<void>;
};

export const OK = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok';

/** @param port any free one by default. */
export const startDestination = async (port = 0): Promise<Destination> => {
  const wires = new Set<Wire>();
  const serve = async (wire: Wire): Promise<void> => {
    for (;;) {
      const head = await wire.head();
      await destination.script(wire, head);
    }
  };
  let bytesOfClosed = 0;
  let connections = 0;
  const server = createServer(certificateFor('upstream.test', '*.upstream.test'), (socket) => {
    connections += 1;
    // What is sent is sent now, not when the other side has seen what was sent before.
    socket.setNoDelay(true);
    const wire = openWire(socket);
    wires.add(wire);
    void wire.closed.then(() => {
      wires.delete(wire);
      bytesOfClosed += wire.bytesReceived();
    });
    void serve(wire).catch(() => socket.destroy());
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const destination: Destination = {
    port: (server.address() as AddressInfo).port,
    received: [],
    script: async () => {},
    bytesReceived: () => [...wires].reduce((sum, wire) => sum + wire.bytesReceived(), bytesOfClosed),
    connectionCount: () => connections,
    openCount: () => wires.size,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      for (const { socket } of wires) socket.destroy();
      await closed;
    },
  };
  destination.script = receiving(destination, OK);
  return destination;
};

/** Takes a whole request, and answers these bytes. */
export const receiving =
  (destination: Pick<Destination, 'received'>, answer: string | Uint8Array): Script =>
  async (wire, head) => {
    destination.received.push({ ...head, ...(await wire.body(head)) });
    wire.send(answer);
  };

export type ProxyFixture<Server extends SharedServer = TestServer> = {
  server: Server;
  destination: Destination;
  /** Such as `https://upstream.test:4711`. */
  url: string;
  /** A raw connection to the server. */
  connect(): Promise<Wire>;
  /** What a request of the server's own tenant begins with; `lines` may say what these headers say otherwise. */
  head(start: string, ...lines: string[]): string;
  /** Sends bytes over a connection of their own and closes it behind the answer. */
  ask(bytes: string | Uint8Array, ...more: (string | Uint8Array)[]): Promise<Message>;
  forward(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  /** The request that the destination received last. */
  last(): Message;
  close(): Promise<void>;
};

export type SharedProxyFixture = ProxyFixture<SharedServer>;

export const startProxyFixture = async (
  environment: Record<string, string> = {},
  overrides: Overrides = {},
): Promise<ProxyFixture> => {
  const destination = await startDestination();
  const server = await startServerBefore(upstreamOn(destination.port), environment, overrides);
  const fixture = openFixture(server, destination);
  return { ...fixture, close: () => server.close().then(fixture.close) };
};

/** On the server that several files use. */
export const useProxyFixture = async (): Promise<SharedProxyFixture> => {
  const { server, port } = await useEgressServer();
  return openFixture(server, await startDestination(port));
};

const openFixture = <Server extends SharedServer>(server: Server, destination: Destination): ProxyFixture<Server> => {
  const url = `https://upstream.test:${destination.port}`;
  const open = async (): Promise<Wire> => {
    const { port, hostname } = new URL(server.base_url);
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    return openWire(socket);
  };
  return {
    server,
    destination,
    url,
    connect: open,
    head: (start, ...lines) => {
      const said = new Set(lines.map((line) => line.slice(0, line.indexOf(':')).toLowerCase()));
      const ours = ['Host: vault.test', `SVC-API-KEY: ${server.tenant.api_key}`, `SVC-PROXY-URL: ${url}`];
      const unsaid = ours.filter((line) => !said.has(line.slice(0, line.indexOf(':')).toLowerCase()));
      return [`${start} HTTP/1.1`, ...unsaid, ...lines, '', ''].join('\r\n');
    },
    ask: async (...pieces) => {
      const wire = await open();
      try {
        for (const piece of pieces) wire.send(piece);
        return await wire.message();
      } finally {
        wire.socket.destroy();
      }
    },
    forward: (method, path, options = {}) =>
      server.request(method, path, { ...options, headers: { 'svc-proxy-url': url, ...options.headers } }),
    last: () => destination.received.at(-1) as Message,
    close: () => destination.close(),
  };
};

/** The destination gets no byte and no connection of what is done meanwhile. */
export const nothingReaches = async <T>({ destination }: SharedProxyFixture, work: () => Promise<T>): Promise<T> => {
  const seen = () => ({ bytes: destination.bytesReceived(), connections: destination.connectionCount() });
  const before = seen();
  const done = await work();
  // What was sent in vain may still be on its way.
  await delay(20);
  expect(seen()).toEqual(before);
  return done;
};

/** The proxy's own error, without random parts and codes. */
export const proxyErrorOf = ({ status, body, text }: Answer) => {
  expect(Object.keys(body ?? {}), text).toEqual(['proxy_error']);
  checkProblem(body.proxy_error);
  const { trace_id, code: _code, codes: _codes, ...problem } = body.proxy_error;
  expect(trace_id).toEqual(expect.any(String));
  expect(problem.status).toBe(status);
  return problem;
};

/** The same of an answer read from the wire. */
export const proxyErrorIn = (answer: Message) => {
  const text = answer.body.toString();
  return proxyErrorOf({ status: statusOf(answer), headers: new Headers(), text, body: JSON.parse(text) });
};

export const makeProxy = async (
  { server, url }: SharedProxyFixture,
  wanted: object = {},
  key?: string,
): Promise<{ id: string; key: string }> => {
  const answer = await server.request('POST', '/proxies', {
    json: { name: 'Proxy', destination_url: url, ...wanted },
    ...(key !== undefined && { key }),
  });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

/** Ends with an error where the work does not end. */
export const soon = async <T>(work: Promise<T>, what: string): Promise<T> => {
  void handled(work);
  const late = Symbol(what);
  const first = await Promise.race([work, delay(5_000).then(() => late)]);
  if (first === late) throw new Error(`${what} did not come in 5 s`);
  return work;
};

/** As much at once as the other side takes. Stops when the connection does. */
export const pour = async (
  { socket, closed }: Wire,
  body: Uint8Array,
  { isChunked = false, onSent }: { isChunked?: boolean; onSent?: (bytes: number) => void } = {},
): Promise<void> => {
  const PIECE_BYTES = 65_536;
  for (let at = 0; at < body.byteLength && !socket.destroyed; at += PIECE_BYTES) {
    const piece = body.subarray(at, at + PIECE_BYTES);
    if (isChunked) socket.write(`${piece.byteLength.toString(16)}\r\n`);
    socket.write(piece);
    if (isChunked) socket.write('\r\n');
    if (socket.writableNeedDrain) await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), closed]);
    onSent?.(at + piece.byteLength);
  }
  if (isChunked && !socket.destroyed) socket.write('0\r\n\r\n');
};
