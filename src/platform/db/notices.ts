// Notices between the processes of a vault by PostgreSQL's LISTEN and NOTIFY: a process that changes a row invalidates the caches of all.
import type { Client, PoolConfig } from 'pg';
import { NOTICES_NAME } from './application-names.ts';
import { createTimedClient } from './timed-client.ts';

const CHANNEL = 'strongroom_changed';
/** A listener that lost its connection reconnects after this time, without a limit of attempts. */
const RECONNECT_MS = 1_000;

/** How often the listener queries the database. Nothing else detects a peer that vanished without closing the connection. */
const HEARTBEAT_MS = 5_000;
/** A database that neither connects nor answers in this time counts as lost. */
const SILENCE_MS = 3_000;
/** A dead peer is noticed at the latest after this time. */
export const DEAD_PEER_NOTICED_MS = HEARTBEAT_MS + SILENCE_MS;

/** Run in a transaction: PostgreSQL delivers it to every process when the transaction commits. */
export const NOTIFY = `SELECT pg_notify('${CHANNEL}', $1)::text`;

/**
 * Listens on a connection of its own until it is closed.
 * @param listener.changed called for each notice. `missed` is called after each connect, before the first notice: earlier ones may
 * be lost. `failed` is called when a connection is lost.
 */
export const listenForNotices = (
  poolConfig: PoolConfig,
  listener: { changed(notice: string): void; missed(): void; failed(error: unknown): void },
): { close(): Promise<void> } => {
  const TimedClient = createTimedClient(SILENCE_MS);
  let client: Client | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const connect = async (): Promise<void> => {
    const connecting = new TimedClient({
      ...poolConfig,
      connectionTimeoutMillis: SILENCE_MS,
      application_name: NOTICES_NAME,
    });
    client = connecting;
    const lost = (error: unknown): void => {
      if (closed || client !== connecting) return;
      client = undefined;
      clearTimeout(timer);
      listener.failed(error);
      void connecting.end().catch(() => undefined);
      timer = setTimeout(() => void connect(), RECONNECT_MS);
      timer.unref();
    };
    connecting.on('error', lost);
    connecting.on('end', () => lost(new Error('the connection for notices ended')));
    connecting.on('notification', ({ payload }) => listener.changed(payload ?? ''));
    try {
      await connecting.connect();
      await connecting.query(`LISTEN ${CHANNEL}`);
      // Notices before this moment were not received.
      listener.missed();
      beat(connecting);
    } catch (error) {
      lost(error);
    }
  };
  /** If the database does not answer, the client closes its connection, and `lost` is called. */
  const beat = (alive: Client): void => {
    timer = setTimeout(() => {
      alive.query('SELECT 1').then(
        () => {
          if (client === alive && !closed) beat(alive);
        },
        () => undefined,
      );
    }, HEARTBEAT_MS);
    timer.unref();
  };
  const connected = connect();

  return {
    close: async () => {
      closed = true;
      clearTimeout(timer);
      await connected;
      await client?.end().catch(() => undefined);
    },
  };
};
