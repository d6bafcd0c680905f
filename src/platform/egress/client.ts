// Sends every outgoing request whose URL a tenant chose: checks the URL, pins one address, and enforces deadlines.
// Does not follow redirects, retry, or interpret bodies.
import type { Account, Accounts } from '../base/accounts.ts';
import { type Bag, createBag } from '../base/bag.ts';
import { type Connection, createConnections, type OpenSocket, type Use } from './connections.ts';
import {
  type AllowLists,
  checkDestination,
  type EgressPolicy,
  findDevDestination,
  isPrivateHost,
  portOf,
} from './destination.ts';
import { LOCAL_HINT } from '../config/dev-destination.ts';
import { type AnswerBody, type AnswerHead, type RequestBody, startExchange } from './exchange.ts';
import { afterSending, EgressFault, faultOf } from '../base/egress-fault.ts';
import { type Headers, requestHeaders, responseHeaders, withoutPrefixes } from './headers.ts';
import { createResolver, lookUpHost, resolveAddress, type Resolver } from './resolve.ts';
import { type ClientCertificate, createTrust, openSocket } from './socket.ts';
import { type EgressTimeouts, TIMEOUT_SECONDS, timeoutsOf } from '../base/times.ts';

export type { EgressPolicy } from './destination.ts';
export type { Resolver } from './resolve.ts';
export type { ClientCertificate } from './socket.ts';

/** How long a connection may be used before its name is looked up again. */
const RESOLUTION_MS = 30_000;

/** https://fetch.spec.whatwg.org/#forbidden-method; RFC 9110 section 5.6.2. */
const forbiddenMethod = /^(?:connect|trace|track)$/i;
const method = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;

export type EgressRequest = {
  tenant_id: string;
  /** Account whose share of the connections is used; the tenant's if absent. */
  account?: Account | undefined;
  /** A text or a parsed URL. Read when the request is made: later changes of the object have no effect. */
  url: string | URL;
  /** Path and query as they are written, if the parsed URL would spell them otherwise. */
  target?: string | undefined;
  method: string;
  headers: Headers;
  /** Read as fast as the destination accepts it. Its `destroy`, if any, is called when reading stops. */
  body?: RequestBody | undefined;
  /** The length of a streamed body, if known. */
  bodyBytes?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Each list narrows the allowlist of the policy. */
  allowLists?: AllowLists | undefined;
  /** Presented to a destination that requests a client certificate. */
  clientCertificate?: ClientCertificate | undefined;
  /** Replace those of `Egress`. */
  timeouts?: Partial<EgressTimeouts> | undefined;
  /** Called once, when the connection is there and before the first byte leaves. If what it returns rejects, nothing leaves. */
  sending?: (() => Promise<void> | undefined) | undefined;
};

export type EgressResponse = {
  status: number;
  statusText: string;
  headers: Headers;
  /** The announced content length. */
  bodyBytes: number | undefined;
  /** The reader must read it to its end or destroy it. Otherwise the connection stays in use until the deadline. */
  body: AnswerBody;
};

export type Egress = {
  /** @throws EgressFault. */
  request(asked: EgressRequest): Promise<EgressResponse>;
  /** Returns the URL that a request would use. @throws EgressFault DESTINATION_REFUSED. */
  check(url: string, allowLists?: AllowLists): URL;
  /** Timeouts of requests that set none. */
  timeouts: EgressTimeouts;
  /** Connections in use and at rest, and requests that wait for one. */
  connections(): { used: number; idle: number; waiting: number };
  /** Aborts requests in flight. Resolves when every socket is closed. */
  close(): Promise<void>;
};

export type EgressOptions = {
  accounts: Accounts;
  resolve?: Resolver | undefined;
  /** Resolves the policy's private hosts. Default: `resolve` if given, else the operating system. */
  resolvePrivate?: Resolver | undefined;
  /** Replaces the trusted certificate authorities of the system. */
  ca?: string[] | undefined;
  log?: { warn(fields: { tenant_id: string; code: string }, message: string): void } | undefined;
  limits?: { resolutionMs?: number } | undefined;
  /** Replace those of a request with the usual `timeout_seconds`. */
  timeouts?: Partial<EgressTimeouts> | undefined;
};

/** A checked destination: what is needed to open its connection. */
type CheckedHost = {
  host: string;
  port: number;
  mayBePrivate: boolean;
  /** The only certificate that is trusted, of the destination of `npm run echo`. Undefined for all other hosts. */
  devCertificate: string | undefined;
};

/** Ends a request early: by its deadline, by its caller, or by `close`. The first one counts. */
type Life = {
  /** Registers how to stop the current step of the request. */
  onCut(stop: (fault: EgressFault) => void): void;
  cut(code: 'TIMEOUT' | 'ABORTED'): void;
  /** Sets the deadline: the shortest of these times since the start of the request. */
  endWithin(...timesMs: number[]): void;
  end(): void;
};

export const createEgress = (policy: EgressPolicy, options: EgressOptions): Egress => {
  const { resolve = createResolver(), resolvePrivate = options.resolve ?? lookUpHost, limits = {}, log } = options;
  const trust = createTrust(options.ca);
  const connections = createConnections(options.accounts);
  const resolutionMs = limits.resolutionMs ?? RESOLUTION_MS;
  const timeouts = { ...timeoutsOf(TIMEOUT_SECONDS.usual), ...options.timeouts };
  const lives = createBag<Life>();
  let isClosed = false;

  const check = (url: string | URL, allowLists?: AllowLists): URL => checkDestination(policy, url, allowLists);

  const open = async (
    { host, port, mayBePrivate, devCertificate }: CheckedHost,
    { tenant_id, clientCertificate }: Use,
    signal: AbortSignal,
  ): Promise<OpenSocket> => {
    const trusted = devCertificate === undefined ? trust : createTrust([devCertificate]);
    const isUsableUntilMs = performance.now() + resolutionMs;
    const ask = mayBePrivate ? resolvePrivate : resolve;
    const address = await resolveAddress(ask, host, mayBePrivate, signal).catch((error: unknown) => {
      // A public name that resolves to an internal address is no typing error: an attacker may have set it up.
      const code = faultOf(error).code;
      if (code === 'DESTINATION_REFUSED') log?.warn({ tenant_id, code }, 'a host name resolves to a refused address');
      throw error;
    });
    return { socket: await openSocket({ address, port, host }, trusted(clientCertificate), signal), isUsableUntilMs };
  };

  /** Takes a connection. */
  const openInTime = (host: CheckedHost, use: Use, life: Life): Promise<Connection> => {
    const controller = new AbortController();
    const { signal } = controller;
    life.onCut((fault) => controller.abort(fault));
    const openOrExplain = async (): Promise<OpenSocket> => {
      try {
        return await open(host, use, signal);
      } catch (error) {
        throw policy.development ? withLocalHint(host, faultOf(error)) : error;
      }
    };
    return connections.take({ ...use, signal, open: openOrExplain });
  };

  const giveUp = (connection: Connection, cause: unknown): never => {
    connections.giveBack(connection);
    throw new EgressFault('ABORTED', { cause });
  };

  return {
    check,
    timeouts,
    connections: connections.count,
    request: async (asked) => {
      const { tenant_id, account = tenant_id, clientCertificate, body, bodyBytes } = asked;
      const { connectMs, firstByteMs, wholeMs } = { ...timeouts, ...asked.timeouts };
      const life = startLife(asked.signal, lives);
      try {
        const url = check(asked.url, asked.allowLists);
        const host = {
          host: url.hostname,
          port: portOf(url),
          mayBePrivate: isPrivateHost(policy, url),
          devCertificate: findDevDestination(policy, url)?.certificate,
        };
        const path = asked.target ?? targetOf(url);
        const use = { tenant_id, account, origin: url.origin, clientCertificate };
        if (!method.test(asked.method) || forbiddenMethod.test(asked.method)) throw new EgressFault('REQUEST_REFUSED');
        const headers = withoutPrefixes(requestHeaders(asked.headers), policy.headerPrefixes);
        if (isClosed || asked.signal?.aborted) throw new EgressFault('ABORTED');
        // The fast path of most requests: an idle connection costs no await and no connect timer.
        let connection = connections.takeIdle(use);
        if (!connection) {
          life.endWithin(connectMs, firstByteMs, wholeMs);
          connection = await openInTime(host, use, life);
        }
        const recorded = asked.sending?.();
        if (recorded) await recorded.catch((error: unknown) => giveUp(connection, error));
        life.endWithin(firstByteMs, wholeMs);
        const question = { path, method: asked.method, headers, body, bodyBytes };
        const payer = { accounts: options.accounts, account };
        const exchange = startExchange(connection, question, payer, (isWhole) => {
          life.end();
          // A response may arrive before the whole request was sent. The rest of the body is not needed.
          stopBody(body);
          if (isWhole) connections.giveBack(connection);
          else connections.discard(connection);
        });
        life.onCut(exchange.fail);
        const head = await exchange.head;
        life.endWithin(wholeMs);
        const kept = { ...head, headers: withoutPrefixes(head.headers, policy.headerPrefixes) };
        return receive(kept, asked.method, exchange.body);
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

/** The path and query of a URL. `search` alone has no question mark without a query. */
const targetOf = ({ href, protocol }: URL): string =>
  href.slice(href.indexOf('/', protocol.length + 2)).replace(/#.*/, '');

/** In development, says how a server of the author's own network is reached. */
const withLocalHint = ({ mayBePrivate }: CheckedHost, fault: EgressFault): EgressFault => {
  const { code, message } = fault;
  const isLocal = code === 'DESTINATION_REFUSED' || (code === 'TLS' && mayBePrivate);
  return isLocal ? new EgressFault(code, { sentence: `${message} ${LOCAL_HINT}`, cause: fault.cause }) : fault;
};

/** @param lives contains the request while it is in flight. */
const startLife = (outer: AbortSignal | undefined, lives: Bag<Life>): Life => {
  const beganMs = performance.now();
  let stop: ((fault: EgressFault) => void) | undefined;
  let fault: EgressFault | undefined;
  let deadline: NodeJS.Timeout | undefined;
  let isOver = false;
  const cut = (code: 'TIMEOUT' | 'ABORTED'): void => {
    fault ??= new EgressFault(code);
    stop?.(fault);
  };
  const abort = () => cut('ABORTED');
  outer?.addEventListener('abort', abort);
  const life: Life = {
    cut,
    onCut: (next) => {
      stop = next;
      if (fault !== undefined) stop(fault);
    },
    endWithin: (...timesMs) => {
      clearTimeout(deadline);
      const leftMs = Math.min(...timesMs) - (performance.now() - beganMs);
      if (!isOver) deadline = setTimeout(cut, Math.max(0, leftMs), 'TIMEOUT');
    },
    end: () => {
      isOver = true;
      clearTimeout(deadline);
      outer?.removeEventListener('abort', abort);
      leave();
    },
  };
  const leave = lives.add(life);
  return life;
};

/** Ends a body stream that will not be read further, so that it does not wait for its next piece. */
const stopBody = (body: EgressRequest['body']): void => {
  const destroy = (body as { destroy?: unknown } | undefined)?.destroy;
  if (typeof destroy === 'function') destroy.call(body);
};

/** RFC 9112 section 6.3: these responses have no body, whatever content length they announce. */
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
    throw afterSending(faultOf(error));
  }
};
