// Queues runs that wait for an executor, one queue for each owner. Tenants with the fewest executors are served first.
import type { Pool } from './pool.ts';
import { busy, finish, type Run } from './run.ts';
import type { Lease, Owner } from './lease.ts';
import type { RunFault } from '../protocol/sandbox.ts';
import { RUN_WAIT_MS } from '../../base/times.ts';

/** Runs that must be alone have a line of their own: the others do not wait behind them. */
type Line = { owner: Owner; runs: Run[] };

export type RunQueue = {
  add(run: Run): void;
  remove(run: Run): void;
  place(assign: (lease: Lease<Run>, run: Run) => void): void;
  /** Refuses waiting runs. @param isMeant all if absent. */
  refuse(fault: RunFault, isMeant?: (run: Run) => boolean): void;
  /** How many runs wait. */
  length(): number;
};

const keyOf = ({ job: { tenant_id, application_id = '' }, isAlone }: Run): string =>
  `${tenant_id} ${application_id} ${isAlone}`;

export const createQueue = (pool: Pick<Pool<Run>, 'find' | 'leases'>): RunQueue => {
  const lines = new Map<string, Line>();

  const executorsOf = (): Map<string | undefined, number> => {
    const counts = new Map<string | undefined, number>();
    for (const { owner } of pool.leases) if (owner) counts.set(owner.tenant_id, (counts.get(owner.tenant_id) ?? 0) + 1);
    return counts;
  };

  const remove = (run: Run): void => {
    const key = keyOf(run);
    const runs = lines.get(key)?.runs;
    const index = runs?.indexOf(run) ?? -1;
    // The timer of a run in an executor is its time limit: it holds for a run that is cancelled too.
    if (!runs || index < 0) return;
    clearTimeout(run.timer);
    runs.splice(index, 1);
    if (runs.length === 0) lines.delete(key);
  };

  return {
    add: (run) => {
      clearTimeout(run.timer);
      const { tenant_id, application_id } = run.job;
      const key = keyOf(run);
      const line = lines.get(key) ?? { owner: { tenant_id, application_id }, runs: [] };
      lines.set(key, line);
      line.runs.push(run);
      // A run that waits too long gets a response that asks the client to retry.
      run.timer = setTimeout(() => {
        remove(run);
        // The tenant's own runs fill its executors, or other tenants fill the memory.
        finish(run, busy(executorsOf().has(tenant_id) ? 'tenant' : 'all'));
      }, RUN_WAIT_MS);
    },
    remove,
    length: () => {
      let count = 0;
      for (const { runs } of lines.values()) count += runs.length;
      return count;
    },
    place: (assign) => {
      if (lines.size === 0) return;
      const counts = executorsOf();
      const countOf = ({ owner }: Line): number => counts.get(owner.tenant_id) ?? 0;
      for (const line of [...lines.values()].toSorted((a, b) => countOf(a) - countOf(b)))
        for (let run = line.runs[0]; run; run = line.runs[0]) {
          const { job, inputBytes, isAlone } = run;
          const lease = pool.find(line.owner, { key: job.key, inputBytes, isAlone });
          if (!lease) break;
          remove(run);
          assign(lease, run);
        }
    },
    refuse: (fault, isMeant = () => true) => {
      for (const run of [...lines.values()].flatMap(({ runs }) => runs.filter(isMeant))) {
        remove(run);
        finish(run, fault);
      }
    },
  };
};
