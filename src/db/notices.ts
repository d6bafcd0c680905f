// Notices between the processes of a vault: what one has changed, the others forget at once. PostgreSQL's LISTEN and
// NOTIFY carry them; a process that missed some is told so, and every memory has a time of its own beside.
import type { Client, PoolConfig } from 'pg';
import { createTimedClient } from './timed-client.ts';

const CHANNEL = 'strongroom_changed';
/** A listener that lost its connection tries again after this, for as long as it takes. */
const RECONNECT_MS = 1_000;

/** The listener asks its database for a sign of life so often: behind an address that moved, nothing else tells of it. */
const HEARTBEAT_MS = 5_000;
/** And waits for it this long. */
const HEARTBEAT_TIMEOUT_MS = 3_000;

/** In a transaction: heard by every process once it has committed. */
export const NOTIFY = `SELECT pg_notify('${CHANNEL}', $1)`;

/**
 * Listens until closed, on a connection of its own.
 * @param heartbeatMs how often it asks for a sign of life.
 * @param listener.changed is told each notice; `missed` that some may have been missed, before the first one heard after it.
 */
export const listenForNotices = (
  poolConfig: PoolConfig,
  listener: { changed(notice: string): void; missed(): void; failed(error: unknown): void },
  heartbeatMs = HEARTBEAT_MS,
): { close(): Promise<void> } => {
  /** Cuts its connection where the database does not answer in time. */
  const TimedClient = createTimedClient(Math.min(heartbeatMs, HEARTBEAT_TIMEOUT_MS));
  let client: Client | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const connect = async (): Promise<void> => {
    const connecting = new TimedClient({ ...poolConfig, keepAlive: true, application_name: 'strongroom notices' });
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
      // Whatever was said before this is not known here.
      listener.missed();
      beat(connecting);
    } catch (error) {
      lost(error);
    }
  };
  /** What does not answer is cut by the client, and that ends it. */
  const beat = (alive: Client): void => {
    timer = setTimeout(() => {
      alive.query('SELECT 1').then(
        () => {
          if (client === alive && !closed) beat(alive);
        },
        () => undefined,
      );
    }, heartbeatMs);
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
