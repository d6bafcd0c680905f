// A cache of what the database says: bounded in entries and in time, and invalidated by changes. A value that a change concerns
// is not cached if its load began before the change.
import { LRUCache } from 'lru-cache';

// What has changed in the database, for the caches that remember it: announced in this process, and between processes by notices.

/** A change, with the id that caches know it by: of the application, the member, or the tenant (also of `runnable` and `webhook`). */
export type Change = {
  /** `runnable`: formulas, reactors or proxies of a tenant. */
  subject: 'application' | 'member' | 'runnable' | 'tenant' | 'webhook';
  id: string;
};

/** `anything`: notices may have been missed. */
export type Announced = Change | 'anything';

export type Changes = {
  on(listener: (change: Announced) => void): void;
  announce(change: Announced): void;
};

/** The text of a notice. */
export const noticeOf = ({ subject, id }: Change): string => `${subject} ${id}`;

const subjects: ReadonlySet<string> = new Set<Change['subject']>([
  'application',
  'member',
  'runnable',
  'tenant',
  'webhook',
]);

/** The id of a change to the runnables of every tenant: official formulas belong to all. */
export const EVERY_TENANT = 'all';

/** @returns undefined for a notice of another version of the server that this one does not know. */
export const changeOf = (notice: string): Announced | undefined => {
  const [subject = '', id = ''] = notice.split(' ');
  return subjects.has(subject) ? ({ subject, id } as Change) : undefined;
};

export const createChanges = (): Changes => {
  const listeners: ((change: Announced) => void)[] = [];
  const announce = (change: Announced): void => {
    for (const listener of listeners) listener(change);
  };
  return { on: (listener) => void listeners.push(listener), announce };
};

export type Cache<T extends object> = {
  /** What is cached under a key; saves the hot path a promise. */
  recall(key: string): T | undefined;
  /** What is cached, or else what `load` finds; concurrent loads of one key are one. Undefined is not cached. */
  find(key: string, load: () => Promise<T | undefined>): Promise<T | undefined>;
};

/**
 * @param ttlMs how long a value may be used where the notice of a change got lost.
 * @param monotonicMs a clock that never goes back.
 * @param isStale whether a change concerns a value. Left out: nothing but time ends a value.
 */
export const createCache = <T extends object>(options: {
  max: number;
  ttlMs: number;
  monotonicMs: () => number;
  changes?: Changes;
  isStale?: (value: T, change: Change) => boolean;
}): Cache<T> => {
  const { max, ttlMs, monotonicMs, changes, isStale } = options;
  const known = new LRUCache<string, T>({ max, ttl: ttlMs, perf: { now: monotonicMs } });
  const pending = new Map<string, Promise<T | undefined>>();
  /** For each load under way, the changes since it began: it may have read what was true before them. */
  const missed = new Set<Announced[]>();

  const concerns = (change: Announced, value: T): boolean =>
    change === 'anything' || (isStale?.(value, change) ?? false);

  changes?.on((change) => {
    for (const list of missed) list.push(change);
    // Loads that begin from now on must not share one that began before.
    pending.clear();
    for (const [key, value] of known.entries()) if (concerns(change, value)) known.delete(key);
  });

  const loadOnce = async (key: string, load: () => Promise<T | undefined>): Promise<T | undefined> => {
    const changesSince: Announced[] = [];
    missed.add(changesSince);
    // The age of a value counts from the start of its load: an answer that took long is already that old.
    const start = monotonicMs();
    try {
      const found = await load();
      if (found && !changesSince.some((change) => concerns(change, found))) known.set(key, found, { start });
      return found;
    } finally {
      missed.delete(changesSince);
    }
  };

  return {
    recall: (key) => known.get(key),

    find(key, load) {
      const recalled = known.get(key);
      if (recalled) return Promise.resolve(recalled);
      const underWay = pending.get(key);
      if (underWay) return underWay;
      const loading = loadOnce(key, load).finally(() => {
        if (pending.get(key) === loading) pending.delete(key);
      });
      pending.set(key, loading);
      return loading;
    },
  };
};
