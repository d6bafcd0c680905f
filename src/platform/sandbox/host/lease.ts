// The state that the pool keeps for an executor, and the watch over its memory, threads and CPU time. Ends those that exceed limits.
import type { Executor } from './executor-process.ts';
import { executorMbMax } from '../protocol/sandbox.ts';
import { THREADS_MAX } from './wall.ts';

/** Owner of the code that an executor runs: one application of a tenant, or the tenant for code without an application. */
export type Owner = { tenant_id: string; application_id: string | undefined };

export const isSameOwner = (one: Owner, other: Owner): boolean =>
  one.tenant_id === other.tenant_id && one.application_id === other.application_id;

export type DeathReason = 'deadline' | 'cpu' | 'memory' | 'pressure' | 'stuck' | 'busy_after_reply' | 'violation';

export type Lease<Run> = {
  readonly executor: Executor;
  /** Set once, for life; undefined for a spare. */
  owner: Owner | undefined;
  /** The runs in it, by the ids of their frames. */
  readonly runs: Map<number, Run>;
  /** Bytes of the inputs of these runs. */
  inputBytes: number;
  /** Keys of loaded code, the least recently used first. */
  readonly loaded: Set<string>;
  /** Runs of its life so far. */
  runsSoFar: number;
  /** Private memory at the last measurement. */
  memoryMb: number;
  /** CPU time at the last reading, and when it last grew. */
  cpuMs: number;
  activeAt: number;
  /** CPU time at an earlier inspection, and the share of a core that it had used since the one before. */
  cpuBeforeMs: number;
  coreShare: number;
  /** Its place among the busy executors of its tenant: the lowest free one when it got its owner. Decides its priority. */
  rank: number;
  /** It has a run that no other run joins. */
  isForOne: boolean;
  /** CPU time of the process when it last had no run, and the CPU time that its runs since then may use. */
  cpuAtRestMs: number;
  cpuAllowedMs: number;
  /** Since when the system reports no memory for it. */
  hiddenSince: number | undefined;
  /** Resident memory at its start. */
  readonly baselineMb: number;
  idleSince: number;
  /** `rest` has scheduled a reading of its CPU time. */
  isLookComing: boolean;
  /** It has grown, and was told to give up its isolates. */
  isUnloaded: boolean;
  /** Takes no more runs, and ends with its last one. */
  isRetired: boolean;
  /** Why the pool ended it; undefined where it ended by itself, or was replaced. */
  death: DeathReason | undefined;
};

export const newLease = <Run>(executor: Executor): Lease<Run> => {
  const size = executor.size();
  const cpuMs = executor.cpuMs() ?? 0;
  const now = performance.now();
  return {
    executor,
    owner: undefined,
    runs: new Map(),
    inputBytes: 0,
    loaded: new Set(),
    runsSoFar: 0,
    memoryMb: size?.privateMb ?? 0,
    cpuMs,
    activeAt: now,
    cpuBeforeMs: cpuMs,
    coreShare: 0,
    rank: 0,
    isForOne: false,
    cpuAtRestMs: 0,
    cpuAllowedMs: 0,
    hiddenSince: undefined,
    baselineMb: size?.memoryMb ?? 0,
    idleSince: now,
    isLookComing: false,
    isUnloaded: false,
    isRetired: false,
    death: undefined,
  };
};

// Watches executors from outside: memory, threads, CPU time during runs and between them.

/** An executor is replaced after so many runs. */
const RUNS_OF_A_LIFE = 5000;
/**
 * Growth since its start, between runs. Beyond it the executor gives up its isolates, with what is left of large inputs: a new
 * isolate costs 15 ms of CPU time, a new executor 125 ms. If that does not help, it is replaced.
 */
const GROWTH_MB_MAX = 100;
/**
 * An executor is killed when its process uses so much more CPU time than its runs may use. The executor itself ends a run at
 * its limit. This is for work that it does not measure: threads of V8, and code that escaped the isolate.
 */
const CPU_BEYOND_MS = 250;
/** Overhead of a run that is not charged to it: contexts created ahead, garbage collection, compilers. Measured: 1 to 3 ms. */
const RUN_OVERHEAD_MS = 10;
/** The same for a run with a new isolate or newly loaded code. */
const ISOLATE_OVERHEAD_MS = 50;
/** How long memory may be unreadable. A process needs a few milliseconds to end. */
const HIDDEN_MS_MAX = 1000;
/** CPU time that an executor may use between runs. */
const REST_CPU_MS_MAX = 300;
/** Interval of readings during runs: of CPU time, and of the memory of executors that use CPU time. */
const LOOK_MS = 25;
/** Interval between runs, when a correct executor does not grow. */
const INSPECT_MS = 100;
/** Inspections over which the use of a core is measured. */
const SHARE_INSPECTIONS = 2;
/** An executor whose owner does not use it ends after this time. */
const IDLE_MS_MAX = 5 * 60_000;
/** CPU time that an executor without a run may use between two readings, to create contexts ahead. */
const IDLE_CPU_MS = 60;
const IDLE_LOOK_MS = 100;
/** Delay of the reading after the last run, so that its response is sent first. */
const REST_LOOK_MS = 10;

export type WatchOptions<Run> = {
  leases: ReadonlySet<Lease<Run>>;
  /** Memory of an isolate. */
  memoryMb: number;
  /** Whether executors could start processes because the isolation does not prevent it. */
  mayHaveChildren: () => boolean;
  end(lease: Lease<Run>, death: DeathReason | undefined): void;
  /** Makes the executor give up its isolates. */
  unload(lease: Lease<Run>): void;
  broken(lease: Lease<Run>, error: Error): void;
  /** After each inspection. */
  inspected(): void;
};

export type Watch<Run> = {
  /** Before a run joins the lease. */
  begin(lease: Lease<Run>, cpuMs: number, hasNewIsolate: boolean): void;
  /** The last run of a lease is over. */
  rest(lease: Lease<Run>): void;
  /** Sets the interval of readings: short during runs. */
  adjust(): void;
  stop(): void;
};

export const createWatch = <Run>({ leases, memoryMb, end, broken, ...options }: WatchOptions<Run>): Watch<Run> => {
  let looks: NodeJS.Timeout | undefined;
  let inspections = 0;
  let sharesAt = performance.now();
  const memoryMbMax = executorMbMax(memoryMb);

  /** Reads CPU time. @returns whether it grew or cannot be read. An executor without CPU time cannot have grown in memory. */
  const hasWorked = (lease: Lease<Run>): boolean => {
    const cpuMs = lease.executor.cpuMs();
    if (cpuMs === lease.cpuMs) return false;
    lease.cpuMs = cpuMs ?? lease.cpuMs;
    lease.activeAt = performance.now();
    return true;
  };

  const measure = (lease: Lease<Run>): ReturnType<Executor['size']> => {
    const size = lease.executor.size();
    if (size) lease.memoryMb = size.privateMb;
    return size;
  };

  const hasGrown = (lease: Lease<Run>): boolean => (measure(lease)?.memoryMb ?? 0) > lease.baselineMb + GROWTH_MB_MAX;

  const weigh = (lease: Lease<Run>): void => {
    const size = measure(lease);
    if (!size) return;
    if (size.memoryMb > memoryMbMax) end(lease, 'memory');
    if (size.threads > THREADS_MAX) broken(lease, new Error('it has more threads than it needs'));
    if (!size.isHidden) lease.hiddenSince = undefined;
    else if (performance.now() - (lease.hiddenSince ??= performance.now()) > HIDDEN_MS_MAX)
      broken(lease, new Error('it hides its memory'));
  };

  const checkCpu = (lease: Lease<Run>, death: DeathReason): void => {
    if (lease.cpuMs - lease.cpuAtRestMs > lease.cpuAllowedMs + CPU_BEYOND_MS) end(lease, death);
  };

  const look = (): void => {
    for (const lease of leases) {
      if (lease.runs.size === 0 || (!hasWorked(lease) && lease.hiddenSince === undefined)) continue;
      weigh(lease);
      checkCpu(lease, 'cpu');
    }
  };

  const inspect = (): void => {
    const now = performance.now();
    inspections += 1;
    const hasShares = inspections % SHARE_INSPECTIONS === 0;
    for (const lease of leases) {
      if (!lease.owner) continue;
      const isIdle = lease.runs.size === 0;
      if (isIdle && (hasWorked(lease) || lease.hiddenSince !== undefined)) weigh(lease);
      if (isIdle && !lease.isLookComing) checkCpu(lease, 'busy_after_reply');
      if (options.mayHaveChildren() && lease.executor.hasChildren()) broken(lease, new Error('it started a process'));
      if (isIdle && now - lease.idleSince > IDLE_MS_MAX) end(lease, undefined);
      if (!hasShares) continue;
      lease.coreShare = (lease.cpuMs - lease.cpuBeforeMs) / (now - sharesAt);
      lease.cpuBeforeMs = lease.cpuMs;
    }
    if (hasShares) sharesAt = now;
    options.inspected();
  };
  const timer = setInterval(inspect, INSPECT_MS);
  timer.unref();

  const lookAtRest = (lease: Lease<Run>): void => {
    lease.isLookComing = false;
    if (lease.isRetired || lease.runs.size > 0) return;
    const before = lease.executor.cpuMs();
    lease.cpuAtRestMs = before ?? 0;
    lease.cpuAllowedMs = REST_CPU_MS_MAX - CPU_BEYOND_MS;
    const { runsSoFar } = lease;
    setTimeout(() => {
      if (lease.isRetired || lease.runsSoFar !== runsSoFar) return;
      const after = lease.executor.cpuMs();
      if (before === undefined || after === undefined) return;
      if (after - before > IDLE_CPU_MS) end(lease, 'busy_after_reply');
      else if (lease.isUnloaded && hasGrown(lease)) end(lease, undefined);
    }, IDLE_LOOK_MS).unref();
  };

  return {
    begin: (lease, cpuMs, hasNewIsolate) => {
      lease.runsSoFar += 1;
      lease.activeAt = performance.now();
      if (lease.runs.size === 0) {
        lease.cpuAtRestMs = lease.executor.cpuMs() ?? 0;
        lease.cpuAllowedMs = 0;
      }
      lease.cpuAllowedMs += cpuMs + (hasNewIsolate ? ISOLATE_OVERHEAD_MS : RUN_OVERHEAD_MS);
    },
    rest: (lease) => {
      lease.idleSince = performance.now();
      if (lease.isRetired || lease.runsSoFar >= RUNS_OF_A_LIFE) return end(lease, undefined);
      // Immediately: the next run may start immediately and exceed the memory.
      if (!hasGrown(lease)) lease.isUnloaded = false;
      else if (lease.isUnloaded) return end(lease, undefined);
      else {
        options.unload(lease);
        lease.isUnloaded = true;
      }
      // Later, and once for all calls until then: a response waits to be sent while this runs.
      if (lease.isLookComing) return;
      lease.isLookComing = true;
      setTimeout(lookAtRest, REST_LOOK_MS, lease).unref();
    },
    adjust: () => {
      if ([...leases].some(({ runs }) => runs.size > 0)) looks ??= setInterval(look, LOOK_MS);
      else {
        clearInterval(looks);
        looks = undefined;
      }
    },
    stop: () => {
      clearInterval(looks);
      clearInterval(timer);
    },
  };
};
