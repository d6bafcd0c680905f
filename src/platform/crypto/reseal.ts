// Seals rows again under the newest data key of their tenant, in slices in the background, and then deletes the older keys.
import { setTimeout as pause } from 'node:timers/promises';
import { takeLease } from '../db/leases.ts';
import type { Platform } from '../platform.ts';
import { KEY_ACTIVE_AFTER_MS, KEY_SETTLED_AFTER_MS, TenantKeysGone } from './keyring.ts';
import { createResealRows, FIRST_ID, type SealedRow } from './reseal-rows.ts';
import { keyHeaderOf, keyIdOf, open, seal, SealBroken } from './seal.ts';
import { SEALED_TABLES, type SealedTable } from './sealed-tables.ts';

/** Sealing them takes five milliseconds, in which this process does nothing else. */
const SLICE_ROWS = 200;
/** For each millisecond of work the job waits three: reads and writes of clients come first. */
const PAUSE_FOR_WORK = 3;
const PAUSE_MS_MAX = 2_000;
const EVERY_MS = 60_000;
/** Longer than a slice and its pause. */
const LEASE_MS = 30_000;

type Resealing = Pick<Platform, 'db' | 'keyring' | 'environment' | 'randomBytes' | 'log' | 'now' | 'monotonicMs'>;

type Pacing = {
  /** Waits between slices. @returns false where the job must end. */
  goOn(workedMs: number): Promise<boolean>;
};

/** What a pass over a tenant has found. */
type Pass = { resealed: number; broken: number; isComplete: boolean };

const resealRow = (
  ctx: Resealing,
  keys: Awaited<ReturnType<Resealing['keyring']['tenantKeys']>>,
  table: SealedTable,
  tenant_id: string,
  row: SealedRow & { sealed: Buffer },
): { id: string; old: Buffer; sealed: Buffer } | undefined => {
  const { id, type, sealed: old } = row;
  const { record, field } = table;
  const binding = { environment: ctx.environment, tenant_id, record, id, field, ...(type !== undefined && { type }) };
  try {
    const key = keys.find(keyIdOf(old));
    if (!key) throw new SealBroken();
    const plain = open(key, binding, old);
    const sealed = seal(keys.data, binding, plain, ctx.randomBytes);
    plain.fill(0);
    return { id, old, sealed };
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error;
    ctx.log.error({ alarm: 'seal_broken', tenant_id, record, record_id: id }, 'a value does not open to be re-sealed');
    return undefined;
  }
};

/** Re-seals what is not under the newest key of a tenant. @throws TenantKeysGone; unavailable. */
const passOver = async (ctx: Resealing, tenant_id: string, newestId: string, pacing: Pacing): Promise<Pass> => {
  const rows = createResealRows(ctx.db);
  const pass: Pass = { resealed: 0, broken: 0, isComplete: false };
  for (const table of SEALED_TABLES) {
    let after = table.id === 'uuid' ? FIRST_ID : '';
    for (;;) {
      const beganMs = ctx.monotonicMs();
      // For each slice: keys live for some minutes only, and a pass may take longer.
      const keys = await ctx.keyring.tenantKeys(tenant_id);
      if (keys.data.id !== newestId) return pass;
      const slice = await rows.findSlice(table, tenant_id, after, keys.data.header, SLICE_ROWS);
      if (slice.length === 0) break;
      // Beyond the limit of bytes old values come without themselves: the next slice begins with the first of them.
      const end = slice.findIndex(({ is_old, sealed }) => is_old && sealed === null);
      const whole = end === -1 ? slice : slice.slice(0, end);
      const old = whole.filter((row): row is SealedRow & { sealed: Buffer } => row.sealed !== null);
      const resealed = old.map((row) => resealRow(ctx, keys, table, tenant_id, row)).filter((row) => row !== undefined);
      if (resealed.length > 0) await rows.replace(table, tenant_id, resealed);
      pass.resealed += resealed.length;
      pass.broken += old.length - resealed.length;
      after = whole.at(-1)?.id ?? after;
      if (!(await pacing.goOn(ctx.monotonicMs() - beganMs))) return pass;
    }
  }
  return { ...pass, isComplete: true };
};

/** The tenants that were found to have nothing under older keys, with the newest key, and whether it had settled by then. */
export type CleanTenants = Map<string, { newestId: string; isSettled: boolean }>;

/**
 * Re-seals what one tenant has under older keys. Deletes these keys when no process can seal under them any more and nothing is
 * sealed under them. @returns whether the older keys are gone.
 */
export const resealTenant = async (
  ctx: Resealing,
  tenant_id: string,
  clean: CleanTenants,
  pacing: Pacing,
): Promise<boolean> => {
  const rows = createResealRows(ctx.db);
  const [newest, ...older] = await rows.findDataKeys(tenant_id);
  if (!newest || older.length === 0) return true;
  if (newest.age_ms < KEY_ACTIVE_AFTER_MS) return false;
  // At the beginning of the pass.
  const isSettled = newest.age_ms >= KEY_SETTLED_AFTER_MS;
  const known = clean.get(tenant_id);
  const isKnown = known?.newestId === newest.id && known.isSettled === isSettled;
  if (!isKnown) {
    const pass = await passOver(ctx, tenant_id, newest.id, pacing);
    if (pass.resealed > 0) ctx.log.info({ tenant_id, rows: pass.resealed }, 'rows are sealed under the new data key');
    if (!pass.isComplete || pass.broken > 0) return false;
    clean.set(tenant_id, { newestId: newest.id, isSettled });
  }
  if (!isSettled) return false;
  let areGone = true;
  for (const { id } of older) {
    const isUsed = (await rows.countExpiring(tenant_id, keyHeaderOf(id))) > 0;
    if (isUsed || !(await rows.deleteKey(tenant_id, id, newest.id))) areGone = false;
    else ctx.log.info({ tenant_id, key_id: id }, 'a data key that seals nothing any more was deleted');
  }
  return areGone;
};

/** Re-seals for all tenants once. @throws unavailable. */
export const resealAll = async (ctx: Resealing, clean: CleanTenants, pacing: Pacing): Promise<void> => {
  const rows = createResealRows(ctx.db);
  for (let after: string | undefined = FIRST_ID; after !== undefined;) {
    const tenants = await rows.findTenantsWithOldKeys(after);
    for (const tenant_id of tenants) {
      if (!(await pacing.goOn(0))) return;
      await resealTenant(ctx, tenant_id, clean, pacing).catch((error: unknown) => {
        // Deleted meanwhile.
        if (!(error instanceof TenantKeysGone)) throw error;
      });
    }
    after = tenants.at(-1);
  }
};

/** Re-seals periodically, in turn with other processes. @returns stop, which waits for the running slice. */
export const startResealing = (ctx: Resealing & Pick<Platform, 'newUuid'>): (() => Promise<void>) => {
  const holder = ctx.newUuid();
  const clean: CleanTenants = new Map();
  const stopping = new AbortController();
  const take = (): Promise<boolean> => takeLease(ctx.db, 'reseal', holder, LEASE_MS);
  const pacing: Pacing = {
    goOn: async (workedMs) => {
      const pauseMs = Math.min(workedMs * PAUSE_FOR_WORK, PAUSE_MS_MAX);
      if (pauseMs > 0) await pause(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      return !stopping.signal.aborted && (await take());
    },
  };
  const resealInTurn = async (): Promise<void> => {
    if (await take()) await resealAll(ctx, clean, pacing);
  };
  let running: Promise<void> | undefined;
  const timer = setInterval(() => {
    running ??= resealInTurn()
      .catch((error: unknown) => ctx.log.error({ error }, 're-sealing was interrupted; it goes on in a minute'))
      .finally(() => (running = undefined));
  }, EVERY_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    stopping.abort();
    await running;
  };
};
