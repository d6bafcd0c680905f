// The one way out: a request to a destination that a tenant names, checked, pinned to one address and bounded in time.
// Follows nothing, tries nothing twice, and knows nothing of what the body means.
import type { Account, Accounts } from '../accounts.ts';
import { type Bag, createBag } from '../bag.ts';
import { type Connection, createConnections, type OpenSocket, type Use } from './connections.ts';
import { type AllowLists, checkDestination, type EgressPolicy, isPrivateHost, portOf } from './destination.ts';
import { type AnswerBody, type AnswerHead, type RequestBody, startExchange } from './exchange.ts';
import { EgressFault, faultOf } from './fault.ts';
import { type Headers, requestHeaders, responseHeaders } from './headers.ts';
import { createResolver, lookUpHost, resolveAddress, type Resolver } from './resolve.ts';
import { type ClientCertificate, createTrust, openSocket } from './socket.ts';

export type { EgressPolicy } from './destination.ts';
export type { Resolver } from './resolve.ts';
export type { ClientCertificate } from './socket.ts';

export type EgressTimeouts = { connectMs: number; firstByteMs: number; wholeMs: number };

/** The whole exchange takes at most 25 s. */
export const egressTimeouts: EgressTimeouts = { connectMs: 10_000, firstByteMs: 25_000, wholeMs: 25_000 };

/** How long a connection may be used before its name is looked up again. */
const RESOLUTION_MS = 30_000;

/** https://fetch.spec.whatwg.org/#forbidden-method; RFC 9110 section 5.6.2. */
const forbiddenMethod = /^(?:connect|trace|track)$/i;
const method = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;

export type EgressRequest = {
  tenant_id: string;
  /** Whose share of the connections is used; the tenant's if absent. */
  account?: Account | undefined;
  /** As text, or parsed already. What is asked for is what it is now, whatever becomes of the object. */
  url: string | URL;
  method: string;
  headers: Headers;
  /** Read as fast as the destination takes it. Where it has a `destroy`, that is called when nobody will read on. */
  body?: RequestBody | undefined;
  /** The length of a body that comes in pieces, where it is known. */
  bodyBytes?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Each narrows the policy's own. */
  allowLists?: AllowLists | undefined;
  /** To show to a destination that asks for one. */
  clientCertificate?: ClientCertificate | undefined;
  /** In place of the way's own. */
  timeouts?: Partial<EgressTimeouts> | undefined;
};

export type EgressResponse = {
  status: number;
  statusText: string;
  headers: Headers;
  /** As announced. */
  bodyBytes: number | undefined;
  /** Read to its end or destroyed, or its connection stays taken until the deadline. */
  body: AnswerBody;
};

export type Egress = {
  /** @throws EgressFault. */
  request(asked: EgressRequest): Promise<EgressResponse>;
  /** The URL as it would be asked for. @throws EgressFault DESTINATION_REFUSED. */
  check(url: string, allowLists?: AllowLists): URL;
  /** What holds for a request that names none. */
  timeouts: EgressTimeouts;
  /** Connections in use and at rest, and requests that wait for one. */
  connections(): { used: number; idle: number; waiting: number };
  /** Ends what is under way. Resolves when every socket is closed. */
  close(): Promise<void>;
};

export type EgressOptions = {
  accounts: Accounts;
  resolve?: Resolver | undefined;
  /** For the policy's private hosts; `resolve` where that is given, else the operating system. */
  resolvePrivate?: Resolver | undefined;
  /** In place of the system's trusted authorities. */
  ca?: string[] | undefined;
  log?: { warn(fields: { tenant_id: string; code: string }, message: string): void } | undefined;
  limits?: { resolutionMs?: number } | undefined;
  /** `egressTimeouts` where it names none. */
  timeouts?: Partial<EgressTimeouts> | undefined;
};

/** Of a destination that was checked: what its connection is opened by. */
type CheckedHost = { host: string; port: number; mayBePrivate: boolean };

/** All that can end a request early: its deadlines, its caller, our own closing. The first of them counts. */
type Life = {
  /** What is under way now, and how it is ended. */
  onCut(stop: (fault: EgressFault) => void): void;
  cut(code: 'TIMEOUT' | 'ABORTED'): void;
  startPhase(timeoutMs: number): void;
  endPhase(): void;
  end(): void;
};

export const createEgress = (policy: EgressPolicy, options: EgressOptions): Egress => {
  const { resolve = createResolver(), resolvePrivate = options.resolve ?? lookUpHost, limits = {}, log } = options;
  const trust = createTrust(options.ca);
  const connections = createConnections(options.accounts);
  const resolutionMs = limits.resolutionMs ?? RESOLUTION_MS;
  const timeouts = { ...egressTimeouts, ...options.timeouts };
  const lives = createBag<Life>();
  let isClosed = false;

  const check = (url: string | URL, allowLists?: AllowLists): URL => checkDestination(policy, url, allowLists);

  const open = async (
    { host, port, mayBePrivate }: CheckedHost,
    { tenant_id, clientCertificate }: Use,
    signal: AbortSignal,
  ): Promise<OpenSocket> => {
    const isUsableUntilMs = performance.now() + resolutionMs;
    const ask = mayBePrivate ? resolvePrivate : resolve;
    const address = await resolveAddress(ask, host, mayBePrivate, signal).catch((error: unknown) => {
      // A valid name that leads inside is more than a slip: somebody set it up.
      const code = faultOf(error).code;
      if (code === 'DESTINATION_REFUSED') log?.warn({ tenant_id, code }, 'a name leads to a refused address');
      throw error;
    });
    return { socket: await openSocket({ address, port, host }, trust(clientCertificate), signal), isUsableUntilMs };
  };

  /** Waits for its turn, too. */
  const openInTime = (host: CheckedHost, use: Use, life: Life, connectMs: number): Promise<Connection> => {
    const controller = new AbortController();
    const { signal } = controller;
    life.onCut((fault) => controller.abort(fault));
    life.startPhase(connectMs);
    return connections.take({ ...use, signal, open: () => open(host, use, signal) });
  };

  return {
    check,
    timeouts,
    connections: connections.count,
    request: async (asked) => {
      const { tenant_id, account = tenant_id, clientCertificate, body, bodyBytes } = asked;
      const { connectMs, firstByteMs, wholeMs } = { ...timeouts, ...asked.timeouts };
      const life = startLife(wholeMs, asked.signal, lives);
      try {
        const url = check(asked.url, asked.allowLists);
        const host = { host: url.hostname, port: portOf(url), mayBePrivate: isPrivateHost(policy, url) };
        const path = url.pathname + url.search;
        const use = { tenant_id, account, origin: url.origin, clientCertificate };
        if (!method.test(asked.method) || forbiddenMethod.test(asked.method)) throw new EgressFault('REQUEST_REFUSED');
        const headers = requestHeaders(asked.headers);
        if (isClosed || asked.signal?.aborted) throw new EgressFault('ABORTED');
        // One that rests is there at once, which spares most requests what another costs.
        const connection = connections.takeIdle(use) ?? (await openInTime(host, use, life, connectMs));
        life.startPhase(firstByteMs);
        const question = { path, method: asked.method, headers, body, bodyBytes };
        const exchange = startExchange(connection.client, question, (isWhole) => {
          life.end();
          // An answer may come before all of the question was sent: the rest is not wanted any more.
          stopBody(body);
          if (isWhole) connections.giveBack(connection);
          else connections.discard(connection);
        });
        life.onCut(exchange.fail);
        const head = await exchange.head;
        life.endPhase();
        return receive(head, asked.method, exchange.body);
      } catch (error) {
        life.end();
        stopBody(body);
        throw faultOf(error);
      }
    },
    close: async () => {
      isClosed = true;
      for (const life of lives) life.cut('ABORTED');
      await connections.close();
    },
  };
};

/** @param lives has it for as long as it lasts. */
const startLife = (wholeMs: number, outer: AbortSignal | undefined, lives: Bag<Life>): Life => {
  let stop: ((fault: EgressFault) => void) | undefined;
  let fault: EgressFault | undefined;
  let phase: NodeJS.Timeout | undefined;
  const cut = (code: 'TIMEOUT' | 'ABORTED'): void => {
    fault ??= new EgressFault(code);
    stop?.(fault);
  };
  const abort = () => cut('ABORTED');
  const whole = setTimeout(cut, wholeMs, 'TIMEOUT');
  outer?.addEventListener('abort', abort);
  const life: Life = {
    cut,
    onCut: (next) => {
      stop = next;
      if (fault !== undefined) stop(fault);
    },
    startPhase: (timeoutMs) => {
      clearTimeout(phase);
      // It began after the whole did: one that is as long ends nothing.
      phase = timeoutMs < wholeMs ? setTimeout(cut, timeoutMs, 'TIMEOUT') : undefined;
    },
    endPhase: () => clearTimeout(phase),
    end: () => {
      clearTimeout(whole);
      clearTimeout(phase);
      outer?.removeEventListener('abort', abort);
      leave();
    },
  };
  const leave = lives.add(life);
  return life;
};

/** A stream that nobody will read any more must not wait for its next piece. */
const stopBody = (body: EgressRequest['body']): void => {
  const destroy = (body as { destroy?: unknown } | undefined)?.destroy;
  if (typeof destroy === 'function') destroy.call(body);
};

/** RFC 9112 section 6.3: these announce the length of a body that they do not have. */
const hasNoBody = (asked: string, status: number): boolean => asked === 'HEAD' || status === 204 || status === 304;

const receive = ({ status, statusText, headers }: AnswerHead, asked: string, body: AnswerBody): EgressResponse => {
  const announced = headers.find(([name]) => name.toLowerCase() === 'content-length')?.[1];
  const bodyBytes = announced === undefined ? undefined : Number(announced);
  try {
    return {
      status,
      statusText,
      headers: responseHeaders(headers),
      bodyBytes: hasNoBody(asked, status) ? 0 : bodyBytes,
      body,
    };
  } catch (error) {
    body.destroy();
    throw error;
  }
};
