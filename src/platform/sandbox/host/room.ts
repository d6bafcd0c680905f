// Decides by memory which executors may start, which may run code, and which idle ones must end. Fair between tenants.
import { availableParallelism } from 'node:os';
import type { Lease, Owner } from './lease.ts';

/** Private memory of an executor that has just started. Measured: 20 to 25 MB. */
const START_MB = 30;
/**
 * An executor whose runs used no CPU time for so long waits for a fetch or a timer. Only its measured memory counts, so that
 * waiting runs do not block other tenants.
 */
const WAITING_AFTER_MS = 200;
/** A tenant has this share of the memory at most. */
const TENANT_SHARE = 0.5;
/** Further executors of tenants leave the rest free: a tenant without one finds memory for its first. */
const FURTHER_SHARE = 0.75;
/** An executor counts as burning above this share of a core. Many that burn leave each other little of one. */
const BURNING_SHARE = 0.1;
/** While so many executors burn, a tenant with one of them gets no further one. */
const BURNING_MAX = availableParallelism() + 1;

export type RoomOptions<Run> = {
  leases: ReadonlySet<Lease<Run>>;
  /** Executors that are being started. */
  starting: () => number;
  totalMb: number;
  /** Memory of a run, which an executor that runs code may come to use. */
  runMb: number;
};

export type Room<Run> = {
  /** Whether an executor may begin to run code. */
  mayRun(lease: Lease<Run>): boolean;
  /** Whether the owner, which has executors or none, may have one more. */
  mayHaveMore(owner: Owner, hasNone: boolean): boolean;
  /** Whether the memory for so many starts is free. */
  fits(starts: number): boolean;
  /** Idle executors to end, so that so many may start. */
  toEnd(starts: number): Lease<Run>[];
  /** Further executors to take back when their runs are over, since no idle one is left. */
  toRetire(count: number): Lease<Run>[];
  /** The idle executor of a tenant that another application of the tenant may replace. */
  toReplace(owner: Owner): Lease<Run> | undefined;
  /** The executor to end where all together have grown beyond the total. */
  largestBeyond(): Lease<Run> | undefined;
};

export const createRoom = <Run>({ leases, starting, totalMb, runMb }: RoomOptions<Run>): Room<Run> => {
  const isActive = ({ runs, activeAt }: Lease<Run>): boolean =>
    runs.size > 0 && performance.now() - activeAt < WAITING_AFTER_MS;
  const costOf = (lease: Lease<Run>): number => lease.memoryMb + (isActive(lease) ? runMb : 0);
  const sumOf = (some: Iterable<Lease<Run>>): number => {
    let sum = 0;
    for (const lease of some) sum += costOf(lease);
    return sum;
  };
  const usedMb = (): number => sumOf(leases) + starting() * START_MB;
  /** Of one more executor, and of a run in it. */
  const startMb = START_MB + runMb;
  const tenantMb = Math.max(totalMb * TENANT_SHARE, 2 * startMb);
  const of = (tenant_id: string): Lease<Run>[] => [...leases].filter(({ owner }) => owner?.tenant_id === tenant_id);
  const isBurning = ({ coreShare }: Lease<Run>): boolean => coreShare >= BURNING_SHARE;
  const isEnding = ({ isRetired, death, runs }: Lease<Run>): boolean =>
    isRetired && (death !== undefined || runs.size === 0);
  const isIdle = ({ owner, runs, isRetired }: Lease<Run>): boolean =>
    owner !== undefined && runs.size === 0 && !isRetired;
  const countByTenant = (): Map<string | undefined, number> => {
    const counts = new Map<string | undefined, number>();
    for (const { owner } of leases) if (owner) counts.set(owner.tenant_id, (counts.get(owner.tenant_id) ?? 0) + 1);
    return counts;
  };

  return {
    mayRun: (lease) =>
      isActive(lease) ||
      usedMb() + runMb <= totalMb ||
      ![...leases].some((other) => other !== lease && isActive(other)),
    mayHaveMore: ({ tenant_id }, hasNone) => {
      const own = of(tenant_id);
      // Executors that are ending count until they are gone.
      if (own.length === 0) return true;
      const hasBurning = own.some(isBurning);
      if (!hasNone && hasBurning && [...leases].filter(isBurning).length >= BURNING_MAX) return false;
      return sumOf(own) + startMb <= tenantMb && usedMb() + runMb <= totalMb * FURTHER_SHARE;
    },
    fits: (starts) => leases.size + starting() < 2 || usedMb() + starts * startMb <= totalMb,
    toEnd: (starts) => {
      const counts = countByTenant();
      const isFurther = ({ owner }: Lease<Run>): boolean => (counts.get(owner?.tenant_id) ?? 0) > 1;
      const candidates = [...leases]
        .filter(isIdle)
        .toSorted((a, b) => Number(isFurther(b)) - Number(isFurther(a)) || a.idleSince - b.idleSince);
      let missingMb = usedMb() + starts * startMb - totalMb;
      // What is ending already.
      for (const lease of leases) if (isEnding(lease)) missingMb -= lease.memoryMb;
      return candidates.filter((lease) => {
        if (missingMb <= 0) return false;
        missingMb -= lease.memoryMb;
        return true;
      });
    },
    toRetire: (count) => {
      const counts = countByTenant();
      const retired = [...leases].filter(({ isRetired }) => isRetired).length;
      const busy = [...leases].filter(({ owner, isRetired, runs }) => owner && !isRetired && runs.size > 0);
      return busy
        .filter(({ owner }) => {
          const own = counts.get(owner?.tenant_id) ?? 0;
          counts.set(owner?.tenant_id, own - 1);
          return own > 1;
        })
        .slice(0, Math.max(0, count - retired));
    },
    toReplace: (owner) => {
      const own = of(owner.tenant_id);
      // One at a time.
      if (own.some(isEnding)) return undefined;
      return own.filter(isIdle).toSorted((a, b) => a.idleSince - b.idleSince)[0];
    },
    largestBeyond: () => {
      let sum = 0;
      let largest: Lease<Run> | undefined;
      for (const lease of leases) {
        if (isEnding(lease)) continue;
        sum += lease.memoryMb;
        if (lease.memoryMb > (largest?.memoryMb ?? 0)) largest = lease;
      }
      return sum > totalMb ? largest : undefined;
    },
  };
};
