// The lock that makes one process the only server on a data directory: an advisory lock of PostgreSQL, held by a session of its own.
// A lock whose session broke is taken again. Knows nothing of how the server of the directory is started or stopped.
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { DatabaseAddress } from './connection.ts';

/**
 * The key of the advisory lock. The number has no meaning ("STRONG" in ASCII). It must differ from Prisma's migration lock
 * (72707369) and must never change, or an old and a new release would not see each other.
 */
const dataDirectoryLockKey = '91616979177031';

/** PostgreSQL may notice the end of a killed server's connection only after a moment; then the directory is free. */
const LOCK_WAIT_MS = 3_000;

const LOCK_POLL_MS = 100;

/**
 * A lost lock is tried again for this long: PostgreSQL restarts its sessions within some seconds of a crash of one. A server
 * that cannot be reached for longer is gone, and the next start makes another on another port.
 */
const RETAKE_MS = 30_000;

/** A server that does not take a connection within this counts as away, and is tried again. */
const CONNECT_TIMEOUT_MS = 5_000;

export type LockOptions = {
  waitMs?: number;
  /** Called when the session broke before release(): the lock is then free for other processes. */
  onLost?: (error: Error) => void;
  /** Called when a lost lock could be taken again. Without `onGivenUp` a lost lock is left alone. */
  onRetaken?: () => void;
  /** Called when a lost lock is another process's by now, or its database did not come back in time. */
  onGivenUp?: (reason: 'taken' | 'away') => void;
};

export type DirectoryLock = {
  /**
   * Gives the lock back after `last` is done. `last` may stop the server, which ends the lock's own session: that is no loss.
   * Without the lock `last` is left out, because the server may belong to another process by then. Safe to call twice.
   */
  release(last?: () => Promise<void>): Promise<void>;
};

/**
 * Takes the lock in a session of its own, and takes it again when that session breaks.
 * Undefined when another process keeps it for three seconds (a killed process gives it up sooner).
 * Throws pg's error when the database cannot be reached, or is stopped meanwhile.
 */
export const lockDataDirectory = async (
  address: DatabaseAddress,
  options: LockOptions = {},
): Promise<DirectoryLock | undefined> => {
  const released = new AbortController();
  let retaking: Promise<void> | undefined;
  let holder: Client | undefined;

  const lost = (error: Error): void => {
    holder = undefined;
    if (released.signal.aborted) return;
    options.onLost?.(error);
    if (options.onGivenUp) retaking = retake(options.onGivenUp);
  };

  const retake = async (onGivenUp: (reason: 'taken' | 'away') => void): Promise<void> => {
    const deadline = Date.now() + RETAKE_MS;
    while (!released.signal.aborted) {
      const taken = await lockOnce(address, 0, lost).catch(() => 'away' as const);
      if (taken instanceof Client) {
        holder = taken;
        return options.onRetaken?.();
      }
      if (released.signal.aborted) return;
      if (taken === undefined) return onGivenUp('taken');
      if (Date.now() > deadline) return onGivenUp('away');
      await sleep(LOCK_POLL_MS, undefined, { signal: released.signal }).catch(() => undefined);
    }
  };

  holder = await lockOnce(address, options.waitMs ?? LOCK_WAIT_MS, lost);
  if (!holder) return undefined;
  return {
    release: async (last) => {
      released.abort();
      await retaking;
      const held = holder;
      holder = undefined;
      try {
        if (held) await last?.();
      } finally {
        await held?.end().catch(() => undefined);
      }
    },
  };
};

/** The session that holds the lock; undefined when another process keeps it for `waitMs`. `onLost` hears when it breaks later. */
const lockOnce = async (
  address: DatabaseAddress,
  waitMs: number,
  onLost: (error: Error) => void,
): Promise<Client | undefined> => {
  const client = new Client({
    ...address,
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: 'strongroom lock',
  });
  let held = false;
  client.on('error', (error) => {
    if (held) onLost(error);
    held = false;
  });
  const tryLock = async (): Promise<boolean> => {
    const { rows } = await client.query<{ taken: boolean }>('SELECT pg_try_advisory_lock($1) AS taken', [
      dataDirectoryLockKey,
    ]);
    return rows[0]?.taken === true;
  };
  try {
    await client.connect();
    const deadline = Date.now() + waitMs;
    let taken = await tryLock();
    while (!taken && Date.now() < deadline) {
      await sleep(LOCK_POLL_MS);
      taken = await tryLock();
    }
    // A server that is told to stop ends its sessions one by one: the lock of an ended one can pass to one that ends next.
    // That one answers once and never again.
    if (taken) await client.query('SELECT 1');
    held = taken;
  } finally {
    if (!held) await client.end().catch(() => undefined);
  }
  return held ? client : undefined;
};
