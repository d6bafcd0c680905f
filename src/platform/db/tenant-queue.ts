// A fair queue for connections: tenants take turns, so that one statement of a tenant does not wait for ten of another.
import type { Accounts } from '../base/accounts.ts';

export type TenantQueue = {
  /** Runs work when it is the tenant's turn. @throws what the work throws; as `reserve` of accounts. */
  run<T>(tenant_id: string, work: () => Promise<T>): Promise<T>;
  /** How much waits. */
  length(): number;
};

/**
 * @param name the limit on waiting work. Work that runs at once is not counted.
 * @param most work of all tenants that may run at once.
 */
export const createTenantQueue = (
  accounts: Pick<Accounts, 'reserve'>,
  name: 'transactions' | 'statements',
  most: number,
): TenantQueue => {
  /** Waiting work by tenant, in the order of turns. */
  const waiting = new Map<string, (() => void)[]>();
  let running = 0;

  const wait = async (tenant_id: string): Promise<void> => {
    const reservation = accounts.reserve(tenant_id, name, 1);
    try {
      await new Promise<void>((begin) => {
        const own = waiting.get(tenant_id);
        if (own) own.push(begin);
        else waiting.set(tenant_id, [begin]);
      });
    } finally {
      reservation.release();
    }
  };

  const leave = (): void => {
    const [next] = waiting;
    if (!next) return void (running -= 1);
    const [tenant_id, own] = next;
    const begin = own.shift();
    // The tenant goes to the end of the queue.
    waiting.delete(tenant_id);
    if (own.length > 0) waiting.set(tenant_id, own);
    return begin?.();
  };

  return {
    length: () => {
      let count = 0;
      for (const own of waiting.values()) count += own.length;
      return count;
    },
    run: async (tenant_id, work) => {
      if (running < most) running += 1;
      else await wait(tenant_id);
      try {
        return await work();
      } finally {
        leave();
      }
    },
  };
};
