// Pools keep-alive connections to destinations. A connection belongs to one tenant, origin and client certificate for
// its whole life, and counts for the account that uses it.
import type { TLSSocket } from 'node:tls';
import { type buildConnector, Client } from 'undici';
import { type Account, type Accounts, isCrowded, type Reservation } from '../base/accounts.ts';
import { EgressFault } from '../base/egress-fault.ts';
import { mendHeads, type ResponseHeads } from './response-heads.ts';
import type { ClientCertificate } from './socket.ts';

/** How long a connection may be idle before it is closed. */
const IDLE_MS = 4_000;

/** Twice the common limit of servers. */
const RESPONSE_HEADERS_BYTES_MAX = 32_768;

/** Owner and destination of a connection. */
export type Place = { tenant_id: string; origin: string; clientCertificate: ClientCertificate | undefined };

/** A place, and the account that the connection counts for. */
export type Use = Place & { account: Account };

export type OpenSocket = {
  socket: TLSSocket;
  /** Time of `performance.now()`. Later requests do not use the connection. */
  isUsableUntilMs: number;
};

export type Connection = Use &
  OpenSocket & {
    client: Client;
    heads: ResponseHeads;
    reservation: Reservation;
    /** All connections of its place, including this one. */
    peers: Peers;
    /** A counter value: when it became idle. Undefined while it is in use. */
    restedAt: number | undefined;
  };

/** The connections of a place: their number, and the idle ones, the most recently used last. */
type Peers = { count: number; idle: Connection[] };

export type Ask = Use & { signal: AbortSignal; open(): Promise<OpenSocket> };

export type Connections = {
  /** Undefined if no connection is idle. */
  takeIdle(use: Use): Connection | undefined;
  /** @throws EgressFault BUSY if the account gets no connection in time, with the refusal as cause; what `open` throws; the signal's reason. */
  take(ask: Ask): Promise<Connection>;
  /** Returns a connection for the next request. Its last response must have been read to the end. */
  giveBack(connection: Connection): void;
  discard(connection: Connection): void;
  /** Connections in use and at rest, and requests that wait for one. */
  count(): { used: number; idle: number; waiting: number };
  /** Resolves when every socket is closed. */
  close(): Promise<void>;
};

/** An idle connection, or the reservation for a new one. */
type Grant = { connection: Connection } | { reservation: Reservation };
type Waiting = { ask: Ask; grant(got: Grant): void };

export const createConnections = (accounts: Accounts): Connections => {
  const live = new Set<Connection>();
  /** Peers by `keyOf`; only places with connections. */
  const peersAt = new Map<string, Peers>();
  const waiting = new Set<Waiting>();
  let rests = 0;
  let idleCount = 0;
  let isClosed = false;

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
    connection.reservation.release();
    connection.socket.destroy();
    void connection.client.destroy();
  };

  /** Moves an idle connection to another account of the tenant. @returns false if that account has reached its limit. */
  const moveTo = (connection: Connection, account: Account): boolean => {
    if (connection.account === account) return true;
    if (accounts.findRefusal(account, 'connections', 1)) return false;
    connection.reservation.release();
    connection.reservation = accounts.hold(account, 'connections', 1);
    connection.account = account;
    return true;
  };

  const takeIdle = (use: Use): Connection | undefined => {
    const there = peersAt.get(keyOf(use))?.idle ?? [];
    // The destination is least likely to have closed the most recently used one.
    for (let at = there.length - 1; at >= 0; at -= 1) {
      const connection = there[at] as Connection;
      if (!isSameCertificate(connection.clientCertificate, use.clientCertificate)) continue;
      if (connection.socket.destroyed || performance.now() >= connection.isUsableUntilMs) {
        remove(connection);
        continue;
      }
      if (!moveTo(connection, use.account)) return undefined;
      wake(connection);
      return connection;
    }
    return undefined;
  };

  /** Finds the connection that has been idle longest. Linear: called only when a limit is reached. */
  const findLongestIdle = (isOpenTo: (connection: Connection) => boolean): Connection | undefined => {
    let longest: Connection | undefined;
    if (idleCount === 0) return undefined;
    for (const connection of live) {
      if (connection.restedAt === undefined || !isOpenTo(connection)) continue;
      if (connection.restedAt < (longest?.restedAt ?? Infinity)) longest = connection;
    }
    return longest;
  };

  const countByAccount = (): Map<Account, number> => {
    const counts = new Map<Account, number>();
    for (const { account } of live) counts.set(account, (counts.get(account) ?? 0) + 1);
    return counts;
  };

  /** The idle connection to close for a further one of the account. Those with fewer keep theirs: they would open it again for each request. */
  const findIdleToClose = (account: Account, isOwnLimit: boolean): Connection | undefined => {
    if (isOwnLimit) return findLongestIdle((connection) => connection.account === account);
    const counts = countByAccount();
    const own = counts.get(account) ?? 0;
    return findLongestIdle(
      (connection) => connection.account === account || (counts.get(connection.account) ?? 0) > own,
    );
  };

  /** Reserves one more connection. Closes one that is idle if a limit is reached. */
  const tryReserve = ({ account }: Use): Reservation | undefined => {
    for (;;) {
      const refusal = accounts.findRefusal(account, 'connections', 1);
      if (!refusal) return accounts.hold(account, 'connections', 1);
      const idle = idleCount > 0 ? findIdleToClose(account, refusal.code === 'too_many_requests') : undefined;
      if (idle === undefined) return undefined;
      remove(idle);
    }
  };

  const tryTake = (ask: Ask): Grant | undefined => {
    const connection = takeIdle(ask);
    if (connection !== undefined) return { connection };
    const reservation = tryReserve(ask);
    return reservation && { reservation };
  };

  const admit = (): void => {
    const full = new Set<Account>();
    for (const each of waiting) {
      const { account } = each.ask;
      const got = full.has(account) ? undefined : tryTake(each.ask);
      if (got === undefined) {
        // The account has no idle connection to close, so its other waiting requests get none either.
        full.add(account);
        continue;
      }
      waiting.delete(each);
      each.grant(got);
    }
  };

  const busy = ({ account }: Use): EgressFault =>
    new EgressFault('BUSY', { cause: accounts.findRefusal(account, 'connections', 1) });

  const wait = async (ask: Ask): Promise<Grant> => {
    const accountsThere = Array.from(waiting, (each) => each.ask.account);
    if (isCrowded([...accountsThere, ask.account], ask.account)) throw busy(ask);
    const { promise, resolve, reject } = Promise.withResolvers<Grant>();
    const place: Waiting = { ask, grant: resolve };
    const abort = () => {
      // Immediately: a connection that is returned in this tick must not go to a request that has given up.
      waiting.delete(place);
      const isTimeout = ask.signal.reason instanceof EgressFault && ask.signal.reason.code === 'TIMEOUT';
      reject(isTimeout ? busy(ask) : ask.signal.reason);
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

  const adopt = (ask: Ask, opened: OpenSocket, reservation: Reservation): Connection => {
    const { tenant_id, account, origin, clientCertificate } = ask;
    const { socket } = opened;
    const client = new Client(origin, {
      connect: handOver(socket),
      // A `keep-alive` header of the destination can shorten this, not extend it.
      keepAliveTimeout: IDLE_MS,
      keepAliveMaxTimeout: IDLE_MS,
      maxHeaderSize: RESPONSE_HEADERS_BYTES_MAX,
      // The request enforces its deadlines. undici's own timers are too coarse.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    const key = keyOf(ask);
    const peers = peersAt.get(key) ?? { count: 0, idle: [] };
    peersAt.set(key, peers);
    peers.count += 1;
    const use: Use = { tenant_id, account, origin, clientCertificate };
    const heads = mendHeads(socket);
    const connection: Connection = { ...use, ...opened, client, heads, reservation, peers, restedAt: undefined };
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
      if ('connection' in got) return got.connection;
      try {
        const opened = await ask.open();
        if (!isClosed && !opened.socket.destroyed) return adopt(ask, opened, got.reservation);
        opened.socket.destroy();
        throw new EgressFault(isClosed ? 'ABORTED' : 'RESET');
      } catch (error) {
        got.reservation.release();
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
    count: () => ({ used: live.size - idleCount, idle: idleCount, waiting: waiting.size }),
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

/** Without the certificate, whose texts are long: `isSameCertificate` compares it. */
const keyOf = ({ tenant_id, origin }: Place): string => `${tenant_id} ${origin}`;

const isSameCertificate = (one: ClientCertificate | undefined, other: ClientCertificate | undefined): boolean =>
  one === other ||
  (one !== undefined && one.certificate === other?.certificate && one.private_key === other.private_key);

/** Gives undici the socket once. undici would reconnect when the socket breaks; here that is an error. */
const handOver = (socket: TLSSocket): buildConnector.connector => {
  let isGiven = false;
  return (_, done) => {
    const isFirst = !isGiven;
    isGiven = true;
    // undici does not expect the callback before this function returns.
    queueMicrotask(() => (isFirst ? done(null, socket) : done(new EgressFault('RESET'), null)));
  };
};
