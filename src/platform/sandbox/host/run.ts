// The state of a run in the server, from admission to outcome.
import { type FaultHead, maskLines } from './heads.ts';
import type { Operation } from '../../base/event-loop.ts';
import type { Slices } from '../../json/slices.ts';
import type { Job, Outcome, RunFault } from '../protocol/sandbox.ts';

/** `bytes`: of the JSON of the value. */
export type Result = FaultHead | RunFault | { value: unknown; bytes: number };

export type Run = {
  readonly id: number;
  readonly job: Job;
  readonly isCheck: boolean;
  /** The request that started it. */
  readonly operation: Operation | undefined;
  readonly cpuMsMax: number;
  readonly inputBytes: number;
  /** How often its executor or isolate has ended under it. */
  deaths: number;
  /** It may have ended one: no other run is beside it. */
  isAlone: boolean;
  /** Numbers of its calls so far, finished or not. */
  readonly calls: Set<number>;
  /** Aborts running calls when the run is over. Created with the first call, because most runs make none. */
  aborter: AbortController | undefined;
  /** CPU time that the server used to parse its frames. */
  serverMs: number;
  startedAt: number;
  /** When its time is over. */
  endsAtMs: number;
  /** The timeout in the queue, then the time limit of the run. */
  timer: NodeJS.Timeout | undefined;
  /** The outcome is known. A cancelled run may still be in its executor. */
  isOver: boolean;
  settle(outcome: Outcome): void;
};

export const noReport = { logs: [], wallMs: 0, cpuMs: 0, hasCalled: false };

const RETRY_AFTER_SECONDS = 1;

export const busy = (over: 'tenant' | 'all', retryAfterSeconds = RETRY_AFTER_SECONDS): RunFault => ({
  code: 'BUSY',
  over,
  retryAfterSeconds,
});

/** Names the code of a run, for the breaker. */
export const nameOf = ({ tenant_id, key }: Job): string => `${tenant_id} ${key}`;

/** The account whose limits a run counts for. */
export const accountOf = ({ tenant_id, account = tenant_id }: Job): string => account;

/** Does nothing for a run that is over. */
export const finish = (run: Run, made: Result, logs: Outcome['logs'] = [], cpuMs = 0): void => {
  if (run.isOver) return;
  run.isOver = true;
  run.aborter?.abort();
  const usedMs = cpuMs + run.serverMs;
  const result: RunFault | { value: unknown; bytes: number } =
    'code' in made && made.code === 'ISOLATE_GONE'
      ? { code: 'EXECUTOR_DIED' }
      : !('code' in made) && usedMs > run.cpuMsMax
        ? { code: 'TIMEOUT_CPU' }
        : made;
  const wallMs = run.startedAt === 0 ? 0 : performance.now() - run.startedAt;
  const report = { logs: maskLines(logs), wallMs, cpuMs: usedMs, hasCalled: run.calls.size > 0 };
  run.settle('code' in result ? { ok: false, fault: result, ...report } : { ok: true, ...result, ...report });
};

/** The run has used up its CPU time, including the time that the server parses for it. */
export class CpuSpent extends Error {
  override readonly name = 'CpuSpent';
}

/** Does work for a run and counts its time as CPU time of the run. @throws CpuSpent; what the work throws. */
export function* charged<T>(run: Run, slices: Slices<T>): Slices<T> {
  for (;;) {
    const began = performance.now();
    const step = slices.next();
    run.serverMs += performance.now() - began;
    if (run.serverMs > run.cpuMsMax) throw new CpuSpent();
    if (step.done) return step.value;
    yield;
  }
}
