// Deletes expired security codes and their keys, expired tokens, expired kept responses and rows of deleted tenants.
// Reads refuse expired records already; the sweep makes them unrecoverable. Also ends runs of processes
// that died, looks for bursts of failures, makes search digests that are due, and has the next partitions of the log and of runs made.
import type { TenantDatabase } from '../../platform/db/database.ts';
import { AppError } from '../../platform/base/errors.ts';
import { type DraftContext, draftOf } from './change-token.ts';
import type { TokensContext } from './context.ts';
import { ECHO_RAISED } from './echo/echo-guard.ts';
import { DIGESTS_DUE_MAX, findTokensDue, lockTokensDue, writeDigests } from './rows/token-list.ts';
import type { StoredToken } from './rows/token-row.ts';
import { openToken, searchDigestsOf } from './tokens.ts';
import type { TenantKeys } from '../../platform/crypto/keyring.ts';
import { issueCertificates } from '../access/erasure-certificates.ts';
import { judgeDeadForwards } from '../runs/forward-leases.ts';
import { alarmErrorBurstsInTurn, endDeadRuns } from '../runs/sweep.ts';
import { deleteEndedLeases, takeLease } from '../../platform/db/leases.ts';
import { addLogPartitions, keepRunPartitions } from '../../platform/db/log-partitions.ts';
import { sweepOnce } from '../../platform/maintenance/sweep.ts';

// Makes the search digests of tokens that have not all of them, such as after a release that makes more. A part of the sweep.

type FillContext = DraftContext &
  Pick<TokensContext, 'db' | 'keyring' | 'accounts' | 'environment' | 'log' | 'metrics'>;

/** Undefined for a token that does not open, after an alarm, or whose request is not valid any more: it keeps its digests. */
const digestsOf = async (
  ctx: FillContext,
  tenant_id: string,
  row: StoredToken,
  keys: TenantKeys,
): Promise<{ digests: string[] | undefined } | undefined> => {
  try {
    const kept = openToken(ctx, tenant_id, row, keys);
    // In turns: the tenant's own requests go on meanwhile.
    return { digests: searchDigestsOf(keys, await ctx.accounts.runInTurns(tenant_id, draftOf(ctx, row, kept, {}))) };
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
};

/** @returns how many tokens have their digests now. */
const fillOf = async (ctx: FillContext, db: TenantDatabase, ids: readonly string[]): Promise<number> => {
  const { tenant_id } = db;
  const keys = await ctx.keyring.tenantKeys(tenant_id);
  return db.transaction(async (query) => {
    const rows = await lockTokensDue(query, tenant_id, ids);
    // The others are too much for one statement together: the next round has fewer.
    const read = rows.filter(({ sealed }) => sealed !== null);
    for (const row of read) await writeDigests(query, tenant_id, row.id, await digestsOf(ctx, tenant_id, row, keys));
    return read.length;
  });
};

const fillOrWarn = async (ctx: FillContext, tenant_id: string, ids: readonly string[]): Promise<number> => {
  try {
    return await fillOf(ctx, ctx.db.for({ tenant_id }), ids);
  } catch (error) {
    ctx.log.warn({ error, tenant_id }, 'the search digests of a tenant could not be made');
    return 0;
  }
};

/** Time of one sweep, so that the next one is in time to destroy security codes. It goes on with the digests. */
const FILL_MS_MAX = 5_000;

/**
 * Makes the digests that are due. A tenant whose tokens cannot be read or are locked is left to the next sweep.
 * @param mayGoOn called before each further tenant. @throws unavailable.
 */
const fillDigests = async (ctx: FillContext, mayGoOn: () => Promise<boolean>): Promise<void> => {
  const left = new Set<string>();
  const beganMs = performance.now();
  while (performance.now() - beganMs < FILL_MS_MAX) {
    const found = await findTokensDue(ctx.db.statements.query, [...left]);
    for (const [tenant_id, rows] of Map.groupBy(found, (row) => row.tenant_id)) {
      if (!(await mayGoOn())) return;
      const ids = rows.map(({ id }) => id);
      if ((await fillOrWarn(ctx, tenant_id, ids)) === 0) left.add(tenant_id);
    }
    if (found.length < DIGESTS_DUE_MAX) return;
  }
};

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
  await judgeDeadForwards(ctx, mayGoOn);
  await issueCertificates(ctx);
  await fillDigests(ctx, mayGoOn);
};

/** Sweeps unless another process has the lease. @param holder an id of this process. @returns whether it swept. @throws unavailable. */
export const sweepInTurn = async (ctx: Sweeping, holder: string): Promise<boolean> => {
  const take = (): Promise<boolean> => takeLease(ctx.db, 'sweep', holder, LEASE_MS);
  if (!(await take())) return false;
  await sweep(ctx, take);
  await alarmErrorBurstsInTurn(ctx, take);
  await deleteEndedLeases(ctx.db, ECHO_RAISED);
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
