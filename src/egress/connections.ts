// The open connections: each is one tenant's to one origin for its whole life, so many of a tenant and so many of all.
// Knows nothing of what is sent over them.
import type { TLSSocket } from 'node:tls';
import { type buildConnector, Client } from 'undici';
import { EgressFault } from './fault.ts';

export type ConnectionLimits = { connectionsMax: number; connectionsPerTenantMax: number; idleMs: number };

/** A descriptor each, and some 50 KB. A tenant alone cannot take them all. */
export const connectionLimits: ConnectionLimits = {
  connectionsMax: 512,
  connectionsPerTenantMax: 128,
  idleMs: 4_000,
};

/** Requests that wait for room. More are turned away at once. */
const WAITING_MAX = 1_000;

/** Twice what servers commonly send at most. */
const RESPONSE_HEADERS_BYTES_MAX = 32_768;

export type Connection = {
  client: Client;
  socket: TLSSocket;
  tenant_id: string;
  origin: string;
  /** By `performance.now()`; from then on it is not taken again. */
  isUsableUntilMs: number;
};

export type Ask = {
  tenant_id: string;
  origin: string;
  signal: AbortSignal;
  open(): Promise<{ socket: TLSSocket; isUsableUntilMs: number }>;
};

export type Connections = {
  /** @throws EgressFault BUSY when there is no room in time; whatever `open` throws; the signal's reason. */
  take(ask: Ask): Promise<Connection>;
  /** For the next request: nothing of the last one is left in it. */
  giveBack(connection: Connection): void;
  discard(connection: Connection): void;
  /** Resolves when every socket is closed. */
  close(): Promise<void>;
};

/** A connection that rested, or the leave to open one. */
type Grant = Connection | 'room';
type Place = { ask: Ask; grant(got: Grant): void };

export const createConnections = (limits: ConnectionLimits): Connections => {
  const live = new Set<Connection>();
  /** In the order in which they came to rest. */
  const idle = new Set<Connection>();
  const waiting = new Set<Place>();
  const countOf = new Map<string, number>();
  let count = 0;
  let isClosed = false;

  const reserve = (tenant_id: string): void => {
    count += 1;
    countOf.set(tenant_id, (countOf.get(tenant_id) ?? 0) + 1);
  };

  const free = (tenant_id: string): void => {
    count -= 1;
    const left = (countOf.get(tenant_id) ?? 1) - 1;
    if (left === 0) countOf.delete(tenant_id);
    else countOf.set(tenant_id, left);
  };

  const remove = (connection: Connection): void => {
    idle.delete(connection);
    if (!live.delete(connection)) return;
    free(connection.tenant_id);
    connection.socket.destroy();
    void connection.client.destroy();
  };

  const takeIdle = ({ tenant_id, origin }: Ask): Connection | undefined => {
    // The one that rested last is the least likely to be closed by the other side meanwhile.
    for (const connection of [...idle].toReversed()) {
      if (connection.tenant_id !== tenant_id || connection.origin !== origin) continue;
      if (connection.socket.destroyed || performance.now() >= connection.isUsableUntilMs) {
        remove(connection);
        continue;
      }
      idle.delete(connection);
      return connection;
    }
    return undefined;
  };

  /** Room for one more, if need be by closing the connection that has rested longest. */
  const makeRoom = (tenant_id: string): boolean => {
    if ((countOf.get(tenant_id) ?? 0) >= limits.connectionsPerTenantMax) {
      const own = [...idle].find((each) => each.tenant_id === tenant_id);
      if (own === undefined) return false;
      remove(own);
    }
    if (count < limits.connectionsMax) return true;
    const [oldest] = idle;
    if (oldest === undefined) return false;
    remove(oldest);
    return true;
  };

  const tryTake = (ask: Ask): Grant | undefined => {
    const connection = takeIdle(ask);
    if (connection !== undefined) return connection;
    if (!makeRoom(ask.tenant_id)) return undefined;
    reserve(ask.tenant_id);
    return 'room';
  };

  const admit = (): void => {
    for (const each of waiting) {
      const got = tryTake(each.ask);
      if (got === undefined) continue;
      waiting.delete(each);
      each.grant(got);
    }
  };

  const wait = async (ask: Ask): Promise<Grant> => {
    if (waiting.size >= WAITING_MAX) throw new EgressFault('BUSY');
    const { promise, resolve, reject } = Promise.withResolvers<Grant>();
    const place: Place = { ask, grant: resolve };
    const abort = () => {
      const isTimeout = ask.signal.reason instanceof EgressFault && ask.signal.reason.code === 'TIMEOUT';
      reject(isTimeout ? new EgressFault('BUSY') : ask.signal.reason);
    };
    waiting.add(place);
    ask.signal.addEventListener('abort', abort);
    try {
      return await promise;
    } finally {
      waiting.delete(place);
      ask.signal.removeEventListener('abort', abort);
    }
  };

  const adopt = ({ tenant_id, origin }: Ask, socket: TLSSocket, isUsableUntilMs: number): Connection => {
    const client = new Client(origin, {
      connect: handOver(socket),
      // What the destination says may make it shorter, not longer.
      keepAliveTimeout: limits.idleMs,
      keepAliveMaxTimeout: limits.idleMs,
      maxHeaderSize: RESPONSE_HEADERS_BYTES_MAX,
      // The deadlines are the request's own; these are kept by coarse timers.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    const connection: Connection = { client, socket, tenant_id, origin, isUsableUntilMs };
    live.add(connection);
    socket.once('close', () => {
      remove(connection);
      admit();
    });
    return connection;
  };

  return {
    take: async (ask) => {
      const got = tryTake(ask) ?? (await wait(ask));
      if (got !== 'room') return got;
      try {
        const { socket, isUsableUntilMs } = await ask.open();
        if (!isClosed && !socket.destroyed) return adopt(ask, socket, isUsableUntilMs);
        socket.destroy();
        throw new EgressFault(isClosed ? 'ABORTED' : 'RESET');
      } catch (error) {
        free(ask.tenant_id);
        admit();
        throw error;
      }
    },
    giveBack: (connection) => {
      if (live.has(connection)) idle.add(connection);
      admit();
    },
    discard: (connection) => {
      remove(connection);
      admit();
    },
    close: async () => {
      isClosed = true;
      const closing = [...live].map(
        ({ socket }) => new Promise<void>((done) => (socket.closed ? done() : socket.once('close', () => done()))),
      );
      for (const connection of live) remove(connection);
      await Promise.all(closing);
    },
  };
};

/** Gives undici the socket once. It would connect again when the socket breaks; a broken one is the end of it here. */
const handOver = (socket: TLSSocket): buildConnector.connector => {
  let isGiven = false;
  return (_, done) => {
    const isFirst = !isGiven;
    isGiven = true;
    // undici does not expect an answer within the call.
    queueMicrotask(() => (isFirst ? done(null, socket) : done(new EgressFault('RESET'), null)));
  };
};
