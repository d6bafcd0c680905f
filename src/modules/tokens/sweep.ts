// Deletes expired security codes and their keys, expired tokens, expired kept responses and rows of deleted tenants.
// Reads refuse expired records already; the sweep makes them unrecoverable. Also ends runs of processes
// that died, looks for bursts of failures, makes search digests that are due, and has the next partitions of the log and of runs made.
import { issueCertificates } from '../access/erasure-certificates.ts';
import { endDeadRuns } from '../runs/dead-runs.ts';
import { alarmErrorBurstsInTurn } from '../runs/error-bursts.ts';
import type { TokensContext } from './context.ts';
import { type FillContext, fillDigests } from './fill-digests.ts';
import { takeLease } from '../../platform/db/leases.ts';
import { addLogPartitions, keepRunPartitions } from '../../platform/db/log-partitions.ts';
import { sweepOnce } from '../../platform/maintenance/sweep.ts';

/** A security code must be unrecoverable one minute after its time to live. Half of that minute is the lifetime of its key. */
const SWEEP_EVERY_MS = 15_000;
/** The lease of the process that sweeps: less than the interval, so that another process goes on at its next interval. */
const LEASE_MS = 10_000;
/**
 * Months of the log are made four ahead, so there is no hurry. Each try locks the log, and fails while a long transaction reads it,
 * such as a backup. The lease is of no process: it ends with the hour.
 */
const LOG_PARTITIONS_EVERY_MS = 60 * 60_000;
/** Each round deletes a limited number of rows. The next sweep deletes the rest. */
const SWEEP_ROUNDS_MAX = 100;

type Sweeping = FillContext & Pick<TokensContext, 'newLogId' | 'newUuid' | 'pepper'>;

/**
 * Sweeps once, until nothing is left or the limit of rounds is reached. Several processes may sweep at once.
 * @param mayGoOn called before each further round, and before each further tenant of a round. @throws unavailable.
 */
export const sweep = async (ctx: Sweeping, mayGoOn: () => Promise<boolean> = async () => true): Promise<void> => {
  for (let round = 0; round < SWEEP_ROUNDS_MAX; round += 1) {
    const isMoreLeft = await sweepOnce(ctx.db, ctx.now(), ctx.newLogId, ctx.config, mayGoOn);
    if (!isMoreLeft) break;
    if (!(await mayGoOn())) return;
  }
  await endDeadRuns(ctx, mayGoOn);
  await issueCertificates(ctx);
  await fillDigests(ctx, mayGoOn);
};

/** Sweeps unless another process has the lease. @param holder an id of this process. @returns whether it swept. @throws unavailable. */
export const sweepInTurn = async (ctx: Sweeping, holder: string): Promise<boolean> => {
  const take = (): Promise<boolean> => takeLease(ctx.db, 'sweep', holder, LEASE_MS);
  if (!(await take())) return false;
  await sweep(ctx, take);
  await alarmErrorBurstsInTurn(ctx, take);
  if (await takeLease(ctx.db, 'log-partitions', ctx.newUuid(), LOG_PARTITIONS_EVERY_MS))
    for (const keep of [addLogPartitions, keepRunPartitions]) await keep(ctx.db.statements.query);
  return true;
};

/** Sweeps periodically, in turn with other processes. A failed sweep is logged, and the next interval retries. @returns stop, which waits for a running sweep. */
export const startSweeping = (ctx: Sweeping & Pick<TokensContext, 'monotonicMs'>): (() => Promise<void>) => {
  const { metrics } = ctx;
  const holder = ctx.newUuid();
  let succeededMs = 0;
  metrics.read('strongroom_sweep_last_success_timestamp_seconds', () => [[{}, succeededMs / 1000]]);
  for (const result of ['ok', 'failed']) metrics.count('strongroom_sweeps_total', { result }, 0);
  const sweepOrNot = async (): Promise<void> => {
    const beganMs = ctx.monotonicMs();
    try {
      if (!(await sweepInTurn(ctx, holder))) return;
      succeededMs = ctx.now().getTime();
      metrics.count('strongroom_sweeps_total', { result: 'ok' });
      metrics.observe('strongroom_sweep_seconds', {}, (ctx.monotonicMs() - beganMs) / 1000);
    } catch (error) {
      metrics.count('strongroom_sweeps_total', { result: 'failed' });
      ctx.log.error({ error }, 'a sweep failed');
    }
  };
  let running: Promise<unknown> | undefined;
  const timer = setInterval(() => {
    // A long sweep skips intervals: a second one would only wait for the locks of the first.
    running ??= sweepOrNot().finally(() => (running = undefined));
  }, SWEEP_EVERY_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await running;
  };
};
