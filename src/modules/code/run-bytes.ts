// Reserves memory for the input and the result of a run before they are made.
import type { Accounts, Reservation } from '../../platform/base/accounts.ts';

/** Less is not counted: it costs less than the run. */
const FREE_BYTES = 65_536;

export type RunBytes = {
  /** How much is held. */
  readonly bytes: number;
  /** The input is not needed any more when there is a result: the larger of the two counts. @throws too_many_requests; unavailable. */
  growTo(bytes: number): void;
  release(): void;
};

export const holdRunBytes = (accounts: Pick<Accounts, 'reserve'>, account: string): RunBytes => {
  const held: Reservation[] = [];
  let total = 0;
  return {
    get bytes() {
      return total;
    },
    growTo: (bytes) => {
      if (bytes <= total || bytes <= FREE_BYTES) return;
      held.push(accounts.reserve(account, 'run_bytes', bytes - total));
      total = bytes;
    },
    release: () => {
      for (const each of held.splice(0)) each.release();
    },
  };
};
