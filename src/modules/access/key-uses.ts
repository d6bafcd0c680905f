// Records when API keys were last used: notes uses in memory, and writes them in batches outside of requests.
import type { Platform } from '../../platform/services/platform.ts';
import { type KeyUse, writeKeyUses } from './rows/key-uses.ts';

/** A process writes the use of one key at most this often: a last use is exact to the minute. */
const REWRITTEN_AFTER_MS = 60_000;
/** How soon the first use of a key can be seen. */
const WRITE_EVERY_MS = 10_000;
/** Keys in one statement. */
const BATCH_MAX = 500;
/** Keys that a process remembers, about 200 bytes each. Those beyond are noted when there is room. */
const KEYS_MAX = 10_000;

export type KeyUses = {
  /** Notes that a key is used now. Costs no statement. */
  note(key: Pick<KeyUse, 'tenant_id' | 'public_id'>): void;
  /** Writes what was noted. What cannot be written stays noted. @throws unavailable. */
  write(): Promise<void>;
};

export const createKeyUses = (ctx: Pick<Platform, 'db' | 'now' | 'monotonicMs'>): KeyUses => {
  const noted = new Map<string, KeyUse>();
  /** When this process wrote the use of a key, by the monotonic clock. */
  const writtenMs = new Map<string, number>();

  const isRecent = (public_id: string): boolean =>
    (writtenMs.get(public_id) ?? -Infinity) + REWRITTEN_AFTER_MS > ctx.monotonicMs();

  const writeBatch = async (uses: readonly KeyUse[]): Promise<void> => {
    for (const { public_id } of uses) writtenMs.set(public_id, ctx.monotonicMs());
    try {
      await writeKeyUses(ctx.db, uses);
    } catch (error) {
      for (const use of uses) {
        writtenMs.delete(use.public_id);
        noted.set(use.public_id, use);
      }
      throw error;
    }
  };

  return {
    note: ({ tenant_id, public_id }) => {
      if (isRecent(public_id) || noted.size + writtenMs.size >= KEYS_MAX) return;
      noted.set(public_id, { tenant_id, public_id, used_at: ctx.now() });
    },
    async write() {
      for (const public_id of writtenMs.keys()) if (!isRecent(public_id)) writtenMs.delete(public_id);
      const uses = Array.from(noted.values());
      while (uses.length > 0) {
        const batch = uses.splice(0, BATCH_MAX);
        for (const { public_id } of batch) noted.delete(public_id);
        await writeBatch(batch);
      }
    },
  };
};

/** Writes uses periodically. A failed write is logged, and the next interval retries. @returns stop, which writes what is left. */
export const startWritingKeyUses = ({
  keyUses,
  log,
}: { keyUses: KeyUses } & Pick<Platform, 'log'>): (() => Promise<void>) => {
  const write = (): Promise<void> =>
    keyUses.write().catch((error: unknown) => log.warn({ error }, 'uses of API keys could not be written'));
  let running: Promise<void> | undefined;
  const timer = setInterval(() => {
    running ??= write().finally(() => (running = undefined));
  }, WRITE_EVERY_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await running;
    await write();
  };
};
