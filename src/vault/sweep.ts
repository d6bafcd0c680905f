// Forgetting on time: removes CVCs and the keys they were sealed under, expired tokens and kept answers, and what deleted
// tenants left behind. Reads refuse what has expired anyway; the sweep makes it unrecoverable.
import type { Context } from '../context.ts';
import { noteUnknownMasks } from './unknown-masks.ts';

/** CVC_TTL plus a minute is the promise (security.md F23): a slot of keys is half of it, so a sweep must be well below the rest. */
const SWEEP_EVERY_MS = 15_000;
/** Rounds of one sweep, each of a bounded number of rows; what is left waits for the next. */
const SWEEP_ROUNDS_MAX = 100;

type Sweeping = Pick<Context, 'db' | 'now' | 'newLogId' | 'keyring' | 'environment' | 'randomBytes' | 'log'>;

/** Sweeps once, to the end or its bound. Safe beside other processes. @throws unavailable. */
export const sweep = async (ctx: Sweeping): Promise<void> => {
  for (let round = 0; round < SWEEP_ROUNDS_MAX; round += 1) {
    const isMoreLeft = await ctx.db.sweep(ctx.now(), ctx.newLogId);
    if (!isMoreLeft) break;
  }
  for (let round = 0; round < SWEEP_ROUNDS_MAX; round += 1) if (!(await noteUnknownMasks(ctx))) return;
};

/** Sweeps until stopped. A sweep that fails is logged and tried again at its next turn. @returns stop, which waits for one under way. */
export const startSweeping = (ctx: Sweeping): (() => Promise<void>) => {
  let running: Promise<void> | undefined;
  const timer = setInterval(() => {
    // One that takes longer than its turn goes on; another beside it would only wait for its locks.
    running ??= sweep(ctx)
      .catch((error: unknown) => ctx.log.error({ error }, 'a sweep failed'))
      .finally(() => (running = undefined));
  }, SWEEP_EVERY_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await running;
  };
};
