// The one way out: a request to a destination that a tenant names, checked, pinned to one address and bounded in time.
// Follows nothing, tries nothing twice, and knows nothing of what the body means.
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { type Connection, type ConnectionLimits, connectionLimits, createConnections } from './connections.ts';
import { checkDestination, type EgressPolicy, isPrivateHost, portOf } from './destination.ts';
import { EgressFault, faultOf } from './fault.ts';
import { type Headers, requestHeaders, responseHeaders } from './headers.ts';
import { createResolver, lookUpHost, resolveAddress, type Resolver } from './resolve.ts';
import { type BodyRooms, createBodyRooms, type RoomLimits } from './room.ts';
import { createTrust, openSocket } from './socket.ts';

export type { EgressPolicy } from './destination.ts';
export type { Resolver } from './resolve.ts';

export type EgressTimeouts = { connectMs: number; firstByteMs: number; wholeMs: number };

/** decisions.md section 6: the whole takes at most 25 s. */
export const egressTimeouts: EgressTimeouts = { connectMs: 10_000, firstByteMs: 25_000, wholeMs: 25_000 };

/** How long a connection may be used before its name is looked up again. */
const RESOLUTION_MS = 30_000;

/** https://fetch.spec.whatwg.org/#forbidden-method; RFC 9110 section 5.6.2. */
const forbiddenMethod = /^(?:connect|trace|track)$/i;
const method = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;

export type EgressRequest = {
  tenant_id: string;
  url: string;
  method: string;
  headers: Headers;
  body?: Uint8Array | AsyncIterable<Uint8Array> | undefined;
  /** The length of a body that comes in pieces, where it is known. */
  bodyBytes?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Narrows the policy's own. */
  allowedHosts?: string[] | undefined;
  timeouts?: Partial<EgressTimeouts> | undefined;
};

export type EgressResponse = {
  status: number;
  statusText: string;
  headers: Headers;
  /** As announced. */
  bodyBytes: number | undefined;
  /** Read to its end or destroyed, or its connection stays taken until the deadline. */
  body: AsyncIterable<Uint8Array> & { destroy(): void };
};

export type Egress = {
  /** @throws EgressFault. */
  request(asked: EgressRequest): Promise<EgressResponse>;
  /** The URL as it would be asked for. @throws EgressFault DESTINATION_REFUSED. */
  check(url: string, allowedHosts?: string[]): URL;
  /** For whoever takes whole bodies into memory. */
  rooms: BodyRooms;
  /** Ends what is under way. Resolves when every socket is closed. */
  close(): Promise<void>;
};

export type EgressOptions = {
  resolve?: Resolver | undefined;
  /** For the policy's private hosts; `resolve` where that is given, else the operating system. */
  resolvePrivate?: Resolver | undefined;
  /** In place of the system's trusted authorities. */
  ca?: string[] | undefined;
  log?: { warn(fields: { tenant_id: string; code: string }, message: string): void } | undefined;
  limits?: Partial<ConnectionLimits & RoomLimits & { resolutionMs: number }> | undefined;
};

type Life = {
  signal: AbortSignal;
  startPhase(timeoutMs: number): void;
  endPhase(): void;
  abort(): void;
  end(): void;
};

/** undici's types name the headers parsed; asked for raw they are names and values in turn. */
type Answer = Omit<Dispatcher.ResponseData, 'headers'> & { headers: string[] };

export const createEgress = (policy: EgressPolicy, options: EgressOptions = {}): Egress => {
  const { resolve = createResolver(), resolvePrivate = options.resolve ?? lookUpHost, limits = {}, log } = options;
  const trust = createTrust(options.ca);
  const connections = createConnections({ ...connectionLimits, ...limits });
  const resolutionMs = limits.resolutionMs ?? RESOLUTION_MS;
  const lives = new Set<Life>();
  let isClosed = false;

  const check = (url: string, allowedHosts?: string[]): URL => checkDestination(policy, url, allowedHosts);

  const connect = (url: URL, tenant_id: string, signal: AbortSignal): Promise<Connection> =>
    connections.take({
      tenant_id,
      origin: url.origin,
      signal,
      open: async () => {
        const isUsableUntilMs = performance.now() + resolutionMs;
        const mayBePrivate = isPrivateHost(policy, url);
        const ask = mayBePrivate ? resolvePrivate : resolve;
        const address = await resolveAddress(ask, url.hostname, mayBePrivate, signal).catch((error: unknown) => {
          // A valid name that leads inside is more than a slip: somebody set it up.
          const code = faultOf(error).code;
          if (code === 'DESTINATION_REFUSED') log?.warn({ tenant_id, code }, 'a name leads to a refused address');
          throw error;
        });
        const target = { address, port: portOf(url), host: url.hostname };
        return { socket: await openSocket(target, trust, signal), isUsableUntilMs };
      },
    });

  const rooms = createBodyRooms(limits);

  return {
    check,
    rooms,
    request: async (asked) => {
      const url = check(asked.url, asked.allowedHosts);
      if (!method.test(asked.method) || forbiddenMethod.test(asked.method)) throw new EgressFault('REQUEST_REFUSED');
      const headers = requestHeaders(asked.headers);
      if (isClosed) throw new EgressFault('ABORTED');
      const timeouts = { ...egressTimeouts, ...asked.timeouts };
      const life: Life = startLife(timeouts.wholeMs, asked.signal, () => lives.delete(life));
      lives.add(life);
      let connection: Connection | undefined;
      try {
        life.startPhase(timeouts.connectMs);
        const taken = await connect(url, asked.tenant_id, life.signal);
        connection = taken;
        life.startPhase(timeouts.firstByteMs);
        const answer = await send(taken, asked, url, headers, life.signal);
        life.endPhase();
        return receive(answer, asked.method, () => {
          life.end();
          // An answer may come before all of the question was sent: the rest is not wanted any more.
          stopBody(asked.body);
          const { body } = answer;
          if (body.readableEnded && !body.errored) connections.giveBack(taken);
          else connections.discard(taken);
        });
      } catch (error) {
        life.end();
        if (connection !== undefined) connections.discard(connection);
        stopBody(asked.body);
        throw faultOf(error);
      }
    },
    close: async () => {
      isClosed = true;
      for (const life of lives) life.abort();
      rooms.close();
      await connections.close();
    },
  };
};

/** One signal for all that can end a request early: its deadlines, its caller, our own closing. */
const startLife = (wholeMs: number, outer: AbortSignal | undefined, onEnd: () => void): Life => {
  const controller = new AbortController();
  const timeout = () => controller.abort(new EgressFault('TIMEOUT'));
  const abort = () => controller.abort(new EgressFault('ABORTED'));
  const whole = setTimeout(timeout, wholeMs);
  let phase: NodeJS.Timeout | undefined;
  outer?.addEventListener('abort', abort);
  if (outer?.aborted) abort();
  return {
    signal: controller.signal,
    startPhase: (timeoutMs) => {
      clearTimeout(phase);
      phase = setTimeout(timeout, timeoutMs);
    },
    endPhase: () => clearTimeout(phase),
    abort,
    end: () => {
      clearTimeout(whole);
      clearTimeout(phase);
      outer?.removeEventListener('abort', abort);
      onEnd();
    },
  };
};

const send = async (
  connection: Connection,
  asked: EgressRequest,
  url: URL,
  headers: Headers,
  signal: AbortSignal,
): Promise<Answer> => {
  signal.throwIfAborted();
  const { body } = asked;
  const isWhole = body === undefined || body instanceof Uint8Array;
  const flat = headers.flat();
  if (!isWhole && asked.bodyBytes !== undefined) flat.push('content-length', String(asked.bodyBytes));
  const answer = await connection.client.request({
    path: url.pathname + url.search,
    method: asked.method as Dispatcher.HttpMethod,
    headers: flat,
    // undici takes any async iterable; its types say less.
    body: (isWhole ? body : guarded(body)) as Uint8Array | Readable | undefined,
    signal,
    responseHeaders: 'raw',
  });
  return answer as unknown as Answer;
};

/** A body that breaks off is its sender's doing, and no fault of the destination. */
async function* guarded(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (cause) {
    throw new EgressFault('ABORTED', { cause });
  }
}

/** A stream that nobody will read any more must not wait for its next piece. */
const stopBody = (body: EgressRequest['body']): void => {
  const destroy = (body as { destroy?: unknown } | undefined)?.destroy;
  if (typeof destroy === 'function') destroy.call(body);
};

/** RFC 9112 section 6.3: these announce the length of a body that they do not have. */
const hasNoBody = (asked: string, status: number): boolean => asked === 'HEAD' || status === 304;

/** @param onClose once, when the body was read to its end or is given up. */
const receive = (
  { statusCode, statusText, headers, body }: Answer,
  asked: string,
  onClose: () => void,
): EgressResponse => {
  body.on('error', () => {});
  body.once('close', onClose);
  const received: Headers = [];
  for (let at = 0; at + 1 < headers.length; at += 2) received.push([headers[at] as string, headers[at + 1] as string]);
  const announced = received.find(([name]) => name.toLowerCase() === 'content-length')?.[1];
  const bodyBytes = announced === undefined ? undefined : Number(announced);
  try {
    return {
      status: statusCode,
      statusText,
      headers: responseHeaders(received),
      bodyBytes: hasNoBody(asked, statusCode) ? 0 : bodyBytes,
      body: { destroy: () => void body.destroy(), [Symbol.asyncIterator]: () => iterate(body) },
    };
  } catch (error) {
    body.destroy();
    throw error;
  }
};

/** Reads with our faults in place of a driver's. Ending early destroys the body, also before the first piece. */
const iterate = (body: Readable): AsyncIterator<Uint8Array> => {
  const pieces: AsyncIterator<Uint8Array> = body[Symbol.asyncIterator]();
  return {
    next: async () => {
      try {
        return await pieces.next();
      } catch (error) {
        throw faultOf(error);
      }
    },
    return: async () => {
      body.destroy();
      return { done: true, value: undefined };
    },
  };
};
