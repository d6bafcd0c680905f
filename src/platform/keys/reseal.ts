// Seals rows again under the newest data key of their tenant, in slices in the background, and then deletes the older keys.
import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '../db/database.ts';
import { createSigning } from '../db/signing.ts';
import { boundSealed } from '../db/statements.ts';
import { KEY_ACTIVE_AFTER_MS, KEY_SETTLED_AFTER_MS, TenantKeysGone } from '../crypto/keyring.ts';
import { AGE_MS } from './rows.ts';
import {
  boundColumns,
  type BoundRow,
  keyHeaderOf,
  keyIdOf,
  open,
  seal,
  SealBroken,
  SEALED_HEADER_BYTES,
} from '../crypto/seal.ts';
import {
  EXPIRING_TABLES,
  SEALED_TABLES,
  type SealedTable,
  SIGNED_TABLES,
  type SignedTable,
  type SignedTableName,
} from '../base/tables.ts';
import { LEAST_ID } from '../crypto/ids.ts';
import { takeLease } from '../db/leases.ts';
import { AppError } from '../base/errors.ts';
import type { Platform } from '../services/platform.ts';

// Rows of sealed values by the key in their header, and the data keys of tenants, for re-sealing after a rotation.

/** The table, where a MAC binds its sealed values: they are signed again with the new ones. */
const signedTableOf = (name: string): SignedTableName | undefined => {
  const table: SignedTable | undefined = (SIGNED_TABLES as Readonly<Record<string, SignedTable>>)[name];
  return table?.bound.includes('sealed') ? (name as SignedTableName) : undefined;
};

/** Tenants of one statement. */
const TENANTS_MAX = 1_000;

/** `kind`: the column that names the field of a mail. */
type SealedRow = BoundRow & { id: string; type?: string; kind?: string; is_old: boolean; sealed: Buffer | null };

const header = `substring(sealed for ${SEALED_HEADER_BYTES})`;

/** A value that is sealed under the key of $3 comes without it. */
const findSlice = ({ name, id, isTyped, field, bound = [] }: SealedTable): string => {
  const named = typeof field === 'string' ? [] : [field.column];
  const columns = ['id', ...(isTyped ? ['type'] : []), ...named, ...bound, 'is_old', 'sealed'].join(', ');
  const rows = `SELECT ${columns.replace('sealed', 'CASE WHEN is_old THEN sealed END AS sealed')} FROM (
      SELECT *, coalesce(${header} <> $3, false) AS is_old FROM ${name}
      WHERE tenant_id = $1 AND id > $2::${id} ORDER BY id LIMIT $4) AS slice ORDER BY id`;
  return `${boundSealed(columns, rows)} ORDER BY id`;
};

/** Locks rows before `replace`. */
const lock = ({ name, id }: SealedTable): string =>
  `SELECT id FROM ${name} WHERE tenant_id = $1 AND id = ANY($2::${id}[]) ORDER BY id FOR NO KEY UPDATE`;

/** A row that was changed in the meantime keeps its new value. */
const replace = ({ name, id }: SealedTable): string => `
UPDATE ${name} t SET sealed = r.sealed
FROM unnest($2::text[], $3::bytea[], $4::bytea[]) AS r(id, old, sealed)
WHERE t.tenant_id = $1 AND t.id = r.id::${id} AND t.sealed = r.old`;

const countSlice = ({ name, id }: Pick<SealedTable, 'name' | 'id'>): string => `
SELECT key, count(*)::int AS count, max(id::text COLLATE "C") AS last FROM (
  SELECT id, encode(substring(sealed from 2 for 16), 'hex') AS key FROM ${name}
  WHERE tenant_id = $1 AND id > $2::${id} ORDER BY id LIMIT $3
) AS slice GROUP BY key`;

const COUNT_EXPIRING = EXPIRING_TABLES.map(
  (name) => `SELECT count(*)::int AS count FROM ${name} WHERE tenant_id = $1 AND ${header} = $2`,
);

const FIND_DATA_KEYS = `
SELECT id, ${AGE_MS} FROM tenant_keys WHERE tenant_id = $1 AND purpose = 'data' ORDER BY created_at DESC, id DESC`;
const FIND_TENANTS_WITH_OLD_KEYS = `
SELECT tenant_id FROM tenant_keys WHERE purpose = 'data' AND tenant_id > $1::uuid
GROUP BY tenant_id HAVING count(*) > 1 ORDER BY tenant_id LIMIT ${TENANTS_MAX}`;
const FIND_TENANTS = `SELECT id FROM tenants WHERE id > $1::uuid ORDER BY id LIMIT ${TENANTS_MAX}`;
/** The clock of the database alone decides: a host whose clock is wrong must not delete a key that others still seal under. */
const DELETE_KEY = `
DELETE FROM tenant_keys WHERE tenant_id = $1 AND id = $2 AND purpose = 'data' AND EXISTS (
  SELECT FROM tenant_keys AS newest WHERE newest.tenant_id = $1 AND newest.id = $3 AND newest.purpose = 'data'
  AND newest.id <> $2 AND newest.created_at <= now() - interval '${KEY_SETTLED_AFTER_MS} milliseconds'
) RETURNING id`;

export const createResealRows = ({
  signedRows,
  statements: { query, transaction },
}: Pick<Database, 'signedRows' | 'statements'>) => ({
  /** In the order of ids. @param keyHeader of the key that seals: its values come without `sealed`. */
  findSlice: async (table: SealedTable, tenant_id: string, after: string, keyHeader: Buffer, limit: number) =>
    (await query(`find-sealed-${table.name}`, findSlice(table), [tenant_id, after, keyHeader, limit])) as SealedRow[],
  replace: async (
    table: SealedTable,
    tenant_id: string,
    rows: readonly { id: string; old: Buffer; sealed: Buffer }[],
  ): Promise<void> => {
    const ids = rows.map(({ id }) => id);
    const columns = [ids, rows.map(({ old }) => old), rows.map(({ sealed }) => sealed)];
    const signed = signedTableOf(table.name);
    await transaction(async (within) => {
      const signing = createSigning(signedRows, tenant_id, within);
      if (signed) await signing.rewrite(signed, ids);
      await within(`lock-sealed-${table.name}`, lock(table), [tenant_id, ids]);
      await within(`reseal-${table.name}`, replace(table), [tenant_id, ...columns]);
      await signing.write();
    });
  },
  /** How many values of a table are under each key, by slices. `key` is null for rows without a value. */
  countSlice: async (table: SealedTable, tenant_id: string, after: string, limit: number) =>
    (await query(undefined, countSlice(table), [tenant_id, after, limit])) as {
      key: string | null;
      count: number;
      last: string;
    }[],
  countExpiring: async (tenant_id: string, keyHeader: Buffer): Promise<number> => {
    let count = 0;
    for (const text of COUNT_EXPIRING) {
      const [row] = (await query(undefined, text, [tenant_id, keyHeader])) as [{ count: number }];
      count += row.count;
    }
    return count;
  },

  findTenantIdsAfter: async (after: string): Promise<string[]> =>
    ((await query(undefined, FIND_TENANTS, [after])) as { id: string }[]).map(({ id }) => id),
  /** The data keys of a tenant, the one that seals first, or will: the newest before older ones. */
  findDataKeys: async (tenant_id: string) =>
    (await query(undefined, FIND_DATA_KEYS, [tenant_id])) as { id: string; age_ms: number }[],
  findTenantsWithOldKeys: async (after: string): Promise<string[]> =>
    ((await query(undefined, FIND_TENANTS_WITH_OLD_KEYS, [after])) as { tenant_id: string }[]).map(
      ({ tenant_id }) => tenant_id,
    ),
  /** @param newestId the key that seals. @returns whether it has sealed for so long that the older key is deleted. */
  deleteKey: async (tenant_id: string, id: string, newestId: string): Promise<boolean> =>
    (await query(undefined, DELETE_KEY, [tenant_id, id, newestId])).length > 0,
});

/** Sealing them takes five milliseconds, in which this process does nothing else. */
const SLICE_ROWS = 200;
/** For each millisecond of work the job waits three: reads and writes of clients come first. */
const PAUSE_FOR_WORK = 3;
const PAUSE_MS_MAX = 2_000;
const EVERY_MS = 60_000;
/** What does not open or unwrap today rarely does in a minute. After this time, an operator may have restored it. */
const RETRY_BROKEN_MS = 6 * 3_600_000;
/** Longer than a slice and its pause. */
const LEASE_MS = 30_000;

type Resealing = Pick<Platform, 'db' | 'keyring' | 'environment' | 'randomBytes' | 'log' | 'now' | 'monotonicMs'>;

type Pacing = {
  /** Waits between slices. @returns false where the job must end. */
  goOn(workedMs: number): Promise<boolean>;
};

/** What a pass over a tenant has found. `broken`: the places of values that do not open. */
type Pass = { resealed: number; broken: { record: string; record_id: string }[]; isComplete: boolean };

const resealRow = (
  ctx: Resealing,
  keys: Awaited<ReturnType<Resealing['keyring']['tenantKeys']>>,
  table: SealedTable,
  tenant_id: string,
  row: SealedRow & { sealed: Buffer },
): { id: string; old: Buffer; sealed: Buffer } | undefined => {
  const { id, type, sealed: old } = row;
  const { record, bound = [] } = table;
  const field = typeof table.field === 'string' ? table.field : (row[table.field.column] as string);
  try {
    const place = { environment: ctx.environment, tenant_id, record, id, field, ...(type !== undefined && { type }) };
    const binding = { ...place, row: boundColumns(row, bound) };
    const key = keys.find(keyIdOf(old));
    if (!key) throw new SealBroken();
    const plain = open(key, binding, old);
    const sealed = seal(keys.data, binding, plain, ctx.randomBytes);
    plain.fill(0);
    return { id, old, sealed };
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error;
    return undefined;
  }
};

/** Re-seals what is not under the newest key of a tenant. @throws TenantKeysGone; unavailable. */
const passOver = async (ctx: Resealing, tenant_id: string, newestId: string, pacing: Pacing): Promise<Pass> => {
  const rows = createResealRows(ctx.db);
  const pass: Pass = { resealed: 0, broken: [], isComplete: false };
  for (const table of SEALED_TABLES) {
    let after = table.id === 'uuid' ? LEAST_ID : '';
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
      const resealed: { id: string; old: Buffer; sealed: Buffer }[] = [];
      for (const row of old) {
        const again = resealRow(ctx, keys, table, tenant_id, row);
        if (again) resealed.push(again);
        else pass.broken.push({ record: table.record, record_id: row.id });
      }
      if (resealed.length > 0) await rows.replace(table, tenant_id, resealed);
      pass.resealed += resealed.length;
      after = whole.at(-1)?.id ?? after;
      if (!(await pacing.goOn(ctx.monotonicMs() - beganMs))) return pass;
    }
  }
  return { ...pass, isComplete: true };
};

/** What the last whole pass over each tenant has found. */
export type Passes = Map<
  string,
  | { outcome: 'clean'; newestId: string; isSettled: boolean }
  /** A value or a key does not open: no further pass before this time. */
  | { outcome: 'broken'; retryAtMs: number }
>;

const noteBroken = (ctx: Resealing, passes: Passes, tenant_id: string): void =>
  void passes.set(tenant_id, { outcome: 'broken', retryAtMs: ctx.monotonicMs() + RETRY_BROKEN_MS });

/**
 * Re-seals what one tenant has under older keys. Deletes these keys when no process can seal under them any more and nothing is
 * sealed under them. @returns whether the older keys are gone.
 */
const resealTenant = async (ctx: Resealing, tenant_id: string, passes: Passes, pacing: Pacing): Promise<boolean> => {
  const known = passes.get(tenant_id);
  if (known?.outcome === 'broken' && ctx.monotonicMs() < known.retryAtMs) return false;
  const rows = createResealRows(ctx.db);
  const [newest, ...older] = await rows.findDataKeys(tenant_id);
  if (!newest || older.length === 0) return true;
  if (newest.age_ms < KEY_ACTIVE_AFTER_MS) return false;
  // At the beginning of the pass.
  const isSettled = newest.age_ms >= KEY_SETTLED_AFTER_MS;
  const isKnown = known?.outcome === 'clean' && known.newestId === newest.id && known.isSettled === isSettled;
  if (!isKnown) {
    const pass = await passOver(ctx, tenant_id, newest.id, pacing);
    if (pass.resealed > 0) ctx.log.info({ tenant_id, rows: pass.resealed }, 'rows are sealed under the new data key');
    const [first] = pass.broken;
    if (first) {
      noteBroken(ctx, passes, tenant_id);
      const found = { ...first, values: pass.broken.length };
      ctx.log.error({ alarm: 'seal_broken', tenant_id, ...found }, 'values do not open to be re-sealed');
    }
    if (!pass.isComplete || first) return false;
    passes.set(tenant_id, { outcome: 'clean', newestId: newest.id, isSettled });
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

/** Re-seals for all tenants once. What fails for one tenant is logged, and the others go on. @throws unavailable. */
export const resealAll = async (ctx: Resealing, passes: Passes, pacing: Pacing): Promise<void> => {
  const rows = createResealRows(ctx.db);
  for (let after: string | undefined = LEAST_ID; after !== undefined;) {
    const tenants = await rows.findTenantsWithOldKeys(after);
    for (const tenant_id of tenants) {
      if (!(await pacing.goOn(0))) return;
      await resealTenant(ctx, tenant_id, passes, pacing).catch((error: unknown) => {
        // Deleted meanwhile.
        if (error instanceof TenantKeysGone) return;
        // A wrapped key that was damaged, or whose root key is not at hand.
        if (!(error instanceof AppError)) noteBroken(ctx, passes, tenant_id);
        ctx.log.error({ error, tenant_id }, 're-sealing of a tenant was interrupted; it goes on later');
      });
    }
    after = tenants.at(-1);
  }
};

/** Re-seals periodically, in turn with other processes. @returns stop, which waits for the running slice. */
export const startResealing = (ctx: Resealing & Pick<Platform, 'newUuid'>): (() => Promise<void>) => {
  const holder = ctx.newUuid();
  const passes: Passes = new Map();
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
    if (await take()) await resealAll(ctx, passes, pacing);
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
