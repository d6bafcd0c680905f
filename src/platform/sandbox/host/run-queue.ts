// Runs that wait for an executor: a line for each owner. Tenants with the fewest executors are served first.
import type { Pool } from './pool.ts';
import { busy, finish, type Run } from './run.ts';
import type { Lease, Owner } from './lease.ts';

/** A run that waits this long for an executor gets a response that asks the client to retry. */
const WAIT_MS_MAX = 10_000;

type Line = { owner: Owner; runs: Run[] };

export type RunQueue = {
  add(run: Run): void;
  remove(run: Run): void;
  place(assign: (lease: Lease<Run>, run: Run) => void): void;
  refuseAll(): void;
  /** How many runs wait. */
  length(): number;
};

const keyOf = ({ tenant_id, application_id = '' }: Owner): string => `${tenant_id} ${application_id}`;

export const createQueue = (pool: Pick<Pool<Run>, 'find' | 'leases'>): RunQueue => {
  const lines = new Map<string, Line>();

  const executorsOf = (): Map<string | undefined, number> => {
    const counts = new Map<string | undefined, number>();
    for (const { owner } of pool.leases) if (owner) counts.set(owner.tenant_id, (counts.get(owner.tenant_id) ?? 0) + 1);
    return counts;
  };

  const remove = (run: Run): void => {
    const key = keyOf(run.job);
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
      const key = keyOf(run.job);
      const line = lines.get(key) ?? { owner: { tenant_id, application_id }, runs: [] };
      lines.set(key, line);
      line.runs.push(run);
      run.timer = setTimeout(() => {
        remove(run);
        // The tenant's own runs fill its executors, or other tenants fill the memory.
        finish(run, busy(executorsOf().has(tenant_id) ? 'tenant' : 'all'));
      }, WAIT_MS_MAX);
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
          const lease = pool.find(line.owner, run.job.key, run.inputBytes);
          if (!lease) break;
          remove(run);
          assign(lease, run);
        }
    },
    refuseAll: () => {
      for (const { runs } of lines.values())
        for (let run = runs[0]; run; run = runs[0]) {
          remove(run);
          finish(run, busy('all'));
        }
    },
  };
};
