// The state that the pool keeps for an executor: its owner, its runs, and its use of memory and CPU time.
import type { Executor } from './executor-process.ts';

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
