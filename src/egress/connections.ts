// The open connections: each is one tenant's to one origin, under one client certificate or none, for its whole life; so many
// of a tenant and so many of all. Knows nothing of what is sent over them.
import type { TLSSocket } from 'node:tls';
import { type buildConnector, Client } from 'undici';
import { EgressFault } from './fault.ts';
import type { ClientCertificate } from './socket.ts';

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

/** Whose connection it is, and to whom. */
export type Place = { tenant_id: string; origin: string; clientCertificate: ClientCertificate | undefined };

export type OpenSocket = {
  socket: TLSSocket;
  /** By `performance.now()`; from then on it is not taken again. */
  isUsableUntilMs: number;
};

export type Connection = Place &
  OpenSocket & {
    client: Client;
    /** Those of its place, itself among them. */
    peers: Peers;
    /** When it came to rest, counted; undefined while it is in use. */
    restedAt: number | undefined;
  };

/** The connections of a place: how many there are, and those that rest, the last to rest last. */
type Peers = { count: number; idle: Connection[] };

export type Ask = Place & { signal: AbortSignal; open(): Promise<OpenSocket> };

export type Connections = {
  /** Undefined where none rests. */
  takeIdle(place: Place): Connection | undefined;
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
type Waiting = { ask: Ask; grant(got: Grant): void };

export const createConnections = (limits: ConnectionLimits): Connections => {
  const live = new Set<Connection>();
  /** By `keyOf`, where there are any. */
  const peersAt = new Map<string, Peers>();
  const waiting = new Set<Waiting>();
  const countOf = new Map<string, number>();
  let count = 0;
  let rests = 0;
  let idleCount = 0;
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

  const rest = (connection: Connection): void => {
    rests += 1;
    idleCount += 1;
    connection.restedAt = rests;
    connection.peers.idle.push(connection);
  };

  const wake = (connection: Connection): void => {
    if (connection.restedAt === undefined) return;
    connection.restedAt = undefined;
    idleCount -= 1;
    const { idle } = connection.peers;
    idle.splice(idle.lastIndexOf(connection), 1);
  };

  const remove = (connection: Connection): void => {
    wake(connection);
    if (!live.delete(connection)) return;
    connection.peers.count -= 1;
    if (connection.peers.count === 0) peersAt.delete(keyOf(connection));
    free(connection.tenant_id);
    connection.socket.destroy();
    void connection.client.destroy();
  };

  const takeIdle = (place: Place): Connection | undefined => {
    const there = peersAt.get(keyOf(place))?.idle ?? [];
    // The one that rested last is the least likely to be closed by the other side meanwhile.
    for (let at = there.length - 1; at >= 0; at -= 1) {
      const connection = there[at] as Connection;
      if (!isSameCertificate(connection.clientCertificate, place.clientCertificate)) continue;
      if (connection.socket.destroyed || performance.now() >= connection.isUsableUntilMs) {
        remove(connection);
        continue;
      }
      wake(connection);
      return connection;
    }
    return undefined;
  };

  /** The one that has rested longest, of a tenant or of all. Looks at each, where any rests: it is asked for when there is no room. */
  const findLongestIdle = (tenant_id?: string): Connection | undefined => {
    let longest: Connection | undefined;
    if (idleCount === 0) return undefined;
    for (const connection of live) {
      if (connection.restedAt === undefined) continue;
      if (tenant_id !== undefined && connection.tenant_id !== tenant_id) continue;
      if (connection.restedAt < (longest?.restedAt ?? Infinity)) longest = connection;
    }
    return longest;
  };

  /** Room for one more, if need be by closing the connection that has rested longest. */
  const makeRoom = (tenant_id: string): boolean => {
    if ((countOf.get(tenant_id) ?? 0) >= limits.connectionsPerTenantMax) {
      const own = findLongestIdle(tenant_id);
      if (own === undefined) return false;
      remove(own);
    }
    if (count < limits.connectionsMax) return true;
    const oldest = findLongestIdle();
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
    const full = new Set<string>();
    for (const each of waiting) {
      const { tenant_id } = each.ask;
      const got = full.has(tenant_id) ? undefined : tryTake(each.ask);
      if (got === undefined) {
        // Nothing of the tenant's rests, wherever to: its others have no room either.
        full.add(tenant_id);
        continue;
      }
      waiting.delete(each);
      each.grant(got);
    }
  };

  const wait = async (ask: Ask): Promise<Grant> => {
    if (waiting.size >= WAITING_MAX) throw new EgressFault('BUSY');
    const { promise, resolve, reject } = Promise.withResolvers<Grant>();
    const place: Waiting = { ask, grant: resolve };
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

  const adopt = (ask: Ask, opened: OpenSocket): Connection => {
    const { tenant_id, origin, clientCertificate } = ask;
    const { socket } = opened;
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
    const key = keyOf(ask);
    const peers = peersAt.get(key) ?? { count: 0, idle: [] };
    peersAt.set(key, peers);
    peers.count += 1;
    const place: Place = { tenant_id, origin, clientCertificate };
    const connection: Connection = { ...place, ...opened, client, peers, restedAt: undefined };
    live.add(connection);
    socket.once('close', () => {
      remove(connection);
      admit();
    });
    return connection;
  };

  return {
    takeIdle,
    take: async (ask) => {
      const got = tryTake(ask) ?? (await wait(ask));
      if (got !== 'room') return got;
      try {
        const opened = await ask.open();
        if (!isClosed && !opened.socket.destroyed) return adopt(ask, opened);
        opened.socket.destroy();
        throw new EgressFault(isClosed ? 'ABORTED' : 'RESET');
      } catch (error) {
        free(ask.tenant_id);
        admit();
        throw error;
      }
    },
    giveBack: (connection) => {
      if (live.has(connection)) rest(connection);
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

/** The certificate is compared where the rest is the same: its texts are long. */
const keyOf = ({ tenant_id, origin }: Place): string => `${tenant_id} ${origin}`;

const isSameCertificate = (one: ClientCertificate | undefined, other: ClientCertificate | undefined): boolean =>
  one === other ||
  (one !== undefined && one.certificate === other?.certificate && one.private_key === other.private_key);

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
