// Knows which tenants have heavy work. Their requests go to a process of their own, the heavy worker, where there is one, so that
// their work is on no event loop that others wait for.
import type { Account } from './event-loop.ts';

/** Work in turns beyond this makes a tenant heavy: some large bodies at once, which a usual client sends from time to time. */
export const HEAVY_MS = 100;

/** So much work in turns is forgotten each second: a tenant that has less in the long run never becomes heavy. */
const FORGOTTEN_MS_PER_S = 50;

/** A tenant stays heavy for so long after it last was. Each change of process costs it a burst on the loop of the others. */
export const HEAVY_STAY_MS = 60_000;

/** A tenant is another's neighbour for so long after its last request. */
const NEIGHBOUR_MS = 10_000;

/** Tenants that are remembered: the earliest is forgotten. */
const TENANTS_MAX = 10_000;

type Use = { workMs: number; atMs: number; heavyUntilMs: number };

export type HeavyTenants = {
  /** Socket on which the heavy worker listens for their requests; undefined where there is none, and within it. */
  socket: string | undefined;
  /** Counts work in turns of the event loop. Clients without a secret key make no tenant heavy. */
  spend(account: Account, usedMs: number): void;
  /** Another process found that these tenants are heavy. */
  tell(tenant_ids: readonly string[]): void;
  /** Counts a request. @returns whether it belongs to the heavy worker: its tenant is heavy, and not alone in this process. */
  isElsewhere(account: Account): boolean;
  /** Whether new requests of the account go to the heavy worker, so that only what began before is left here. */
  isLeftOver(account: Account): boolean;
  /**
   * Those that this process found heavy, or still heavy, since the last call.
   * @param isHeavyWorker in which all are taken; elsewhere only those that are not alone.
   */
  take(isHeavyWorker: boolean): string[];
};

const isTenant = (account: Account): boolean => !account.includes(' ');

/** @param monotonicMs a clock that never goes back. */
export const createHeavyTenants = (monotonicMs: () => number): HeavyTenants => {
  const uses = new Map<string, Use>();
  let found = new Set<string>();
  /** The account that asked last, and the last one before it that is another. */
  let last = { account: '', atMs: -Infinity };
  let other = last;

  const findUse = (tenant_id: string, now: number): Use => {
    const use = uses.get(tenant_id) ?? { workMs: 0, atMs: now, heavyUntilMs: -Infinity };
    uses.delete(tenant_id);
    uses.set(tenant_id, use);
    const [earliest] = uses.keys();
    if (uses.size > TENANTS_MAX && earliest !== undefined) uses.delete(earliest);
    return use;
  };

  const hasNeighbour = (account: Account, now: number): boolean =>
    now - (account === last.account ? other : last).atMs <= NEIGHBOUR_MS;

  const isHeavy = (account: Account, now: number): boolean =>
    (uses.get(account)?.heavyUntilMs ?? -Infinity) > now && hasNeighbour(account, now);

  const tenants: HeavyTenants = {
    socket: undefined,
    spend: (account, usedMs) => {
      if (!isTenant(account)) return;
      const now = monotonicMs();
      const use = findUse(account, now);
      const forgotten = ((now - use.atMs) / 1000) * FORGOTTEN_MS_PER_S;
      // No more than twice the limit: a long burst is not remembered for minutes.
      use.workMs = Math.min(Math.max(0, use.workMs - forgotten) + usedMs, 2 * HEAVY_MS);
      use.atMs = now;
      if (use.workMs < HEAVY_MS) return;
      use.heavyUntilMs = now + HEAVY_STAY_MS;
      found.add(account);
    },
    tell: (tenant_ids) => {
      const now = monotonicMs();
      for (const tenant_id of tenant_ids) findUse(tenant_id, now).heavyUntilMs = now + HEAVY_STAY_MS;
    },
    isElsewhere: (account) => {
      const now = monotonicMs();
      if (account !== last.account) [other, last] = [last, { account, atMs: now }];
      else last.atMs = now;
      return isHeavy(account, now);
    },
    isLeftOver: (account) => tenants.socket !== undefined && isHeavy(account, monotonicMs()),
    take: (isHeavyWorker) => {
      const now = monotonicMs();
      const taken = [...found].filter((tenant_id) => isHeavyWorker || hasNeighbour(tenant_id, now));
      found = new Set();
      return taken;
    },
  };
  return tenants;
};
