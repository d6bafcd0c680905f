// The lock that makes one process the only server of a data directory: an advisory lock of PostgreSQL in a session of its own.
// If the session breaks, the lock is taken again.
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { DatabaseAddress } from './connection.ts';

/**
 * The key of the advisory lock. The number has no meaning ("STRONG" in ASCII). It must differ from the migration lock
 * (72707369) and must never change, or an old and a new release could serve one directory.
 */
const LOCK_KEY = '91616979177031';

/** PostgreSQL notices the end of a killed server's connection after a moment, and then frees the lock. */
const LOCK_WAIT_MS = 3_000;

const LOCK_POLL_MS = 100;

/**
 * How long to retry a lost lock. After a crash of one session PostgreSQL takes connections again within seconds. If it takes none
 * for longer, it has ended, and the next start starts another on another port.
 */
const RETAKE_MS = 30_000;

const CONNECT_TIMEOUT_MS = 5_000;

export type LockOptions = {
  waitMs?: number;
  /** Called when the session broke before release(): other processes can take the lock. */
  onLost?: (error: Error) => void;
  /** Called when a lost lock was taken again. Without `onGivenUp` a lost lock is not retried. */
  onRetaken?: () => void;
  /** Called when another process has taken the lost lock, or the database did not come back in time. */
  onGivenUp?: (reason: 'taken' | 'away') => void;
};

export type DirectoryLock = {
  /**
   * Calls `last` and then frees the lock. `last` may stop the server, which ends the session of the lock without onLost().
   * Does not call `last` if the lock is lost: the server may belong to another process. Safe to call twice.
   */
  release(last?: () => Promise<void>): Promise<void>;
};

/**
 * Takes the lock, and takes it again if its session breaks.
 * @returns undefined if another process keeps it for `waitMs`, three seconds by default.
 * @throws pg's error if the database cannot be reached, or stops meanwhile.
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

/** @returns the session that holds the lock; undefined if another process keeps it for `waitMs`. */
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
    const { rows } = await client.query<{ taken: boolean }>('SELECT pg_try_advisory_lock($1) AS taken', [LOCK_KEY]);
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
    // A server that stops ends its sessions one by one, so the lock can pass to a session that ends next. A second query finds out.
    if (taken) await client.query('SELECT 1');
    held = taken;
  } finally {
    if (!held) await client.end().catch(() => undefined);
  }
  return held ? client : undefined;
};
