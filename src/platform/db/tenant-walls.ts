// Raises row-level security on every table that has tenants, and finds the tables that lack it.
import { setTimeout as pause } from 'node:timers/promises';
import { HAS_CITUS } from './citus.ts';

/** Runs a statement. @returns its rows. */
type Ask = (text: string, values: unknown[]) => Promise<Record<string, unknown>[]>;

/** While a table is in use by a long transaction, others go first, and it is tried again. */
const ATTEMPTS = 30;
const PAUSE_MS = 1_000;

const IS_LEAKPROOF = `(SELECT proleakproof FROM pg_proc WHERE oid = 'pg_catalog.arraycontains(anyarray, anyarray)'::regprocedure)`;

/** Tables that have tenants, and partitions of such. */
const TENANT_TABLES = `FROM pg_class c
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
  AND (c.relname IN ('tenants', 'deleted_tenants')
    OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped))`;

const HAS_OPEN_READS = `EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'open_reads')`;

/** Only a superuser may run it. On arrays of texts, which is what the vault has, @> tells only its result. */
const MARK_LEAKPROOF = 'ALTER FUNCTION pg_catalog.arraycontains(anyarray, anyarray) LEAKPROOF';

/** For a superuser. */
export const MARK_LEAKPROOF_COMMAND = `psql -d DATABASE -c "${MARK_LEAKPROOF}"`;

const FIND_RIGHTS = `SELECT rolsuper AND NOT ${IS_LEAKPROOF} AS may_mark FROM pg_roles WHERE rolname = current_user`;

export type Walls = {
  /** Tables without a wall, or with one that could be whole by now. */
  missing: string[];
  /** Tables whose rows every statement may read, since their searches would be slow otherwise. */
  open: string[];
  /** Whether searches behind a whole wall are slow, as after pg_upgrade: an own mark of a function of PostgreSQL is not kept. */
  isSlow: boolean;
  /** Whether Citus has distributed some of the tables: those have no wall. */
  isDistributed: boolean;
};

/** @throws what `ask` throws. */
export const findWalls = async (ask: Ask): Promise<Walls> => {
  // Citus does not tell its workers the setting, so what it distributes has no wall.
  const [found] = await ask(HAS_CITUS, []);
  const isDistributed = found?.['has_citus']
    ? 'EXISTS (SELECT FROM pg_catalog.pg_dist_partition d WHERE d.logicalrelid = c.oid)'
    : 'false';
  const all = (await ask(
    `SELECT c.relname::text AS name, NOT c.relforcerowsecurity OR (${HAS_OPEN_READS} AND ${IS_LEAKPROOF}) AS is_missing,
     ${HAS_OPEN_READS} AS is_open, ${isDistributed} AS is_distributed,
     c.relname = 'tokens' AND c.relforcerowsecurity AND NOT ${HAS_OPEN_READS} AND NOT ${IS_LEAKPROOF} AS is_slow
     ${TENANT_TABLES} ORDER BY c.relname`,
    [],
  )) as { name: string; is_missing: boolean; is_open: boolean; is_distributed: boolean; is_slow: boolean }[];
  const rows = all.filter((row) => !row.is_distributed);
  return {
    isSlow: rows.some((row) => row.is_slow),
    missing: rows.filter((row) => row.is_missing).map(({ name }) => name),
    open: rows.filter((row) => row.is_open && !row.is_missing).map(({ name }) => name),
    isDistributed: rows.length < all.length,
  };
};

/** Raises what is missing, one table at a time. Any number of processes may call it. @throws what `ask` throws. */
export const raiseWalls = async (ask: Ask): Promise<void> => {
  const [rights] = await ask(FIND_RIGHTS, []);
  if (rights?.['may_mark']) await ask(MARK_LEAKPROOF, []);
  for (let attempt = 1; ; attempt += 1) {
    const { missing } = await findWalls(ask);
    let failure: unknown;
    for (const name of missing)
      await ask('SELECT raise_tenant_wall(quote_ident($1)::regclass)::text', [name]).catch((error: unknown) => {
        failure = error;
      });
    if (failure === undefined) return;
    if (attempt === ATTEMPTS) throw failure;
    await pause(PAUSE_MS);
  }
};

const LOWER = (name: string) => `ALTER TABLE ${name} NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY`;

/** Those of raise_tenant_wall (the baseline migration). */
const POLICIES = `SELECT quote_ident(p.polname) FROM pg_policy p WHERE p.polrelid = c.oid
AND p.polname IN ('named_tenants', 'named_tenants_insert', 'named_tenants_update', 'named_tenants_delete', 'open_reads')`;

/**
 * Takes walls down, as the owner of the tables: all, or those of a table and its partitions. Their policies go too, since Citus
 * refuses to distribute a table that has one with a sub-select. @throws what `ask` throws.
 */
export const lowerWalls = async (ask: Ask, table?: string): Promise<void> => {
  const rows = (await ask(
    `SELECT quote_ident(c.relname) AS name, ARRAY(${POLICIES}) AS policies ${TENANT_TABLES}
     AND (c.relforcerowsecurity OR EXISTS (${POLICIES}))
     AND ($1::text IS NULL OR c.oid = to_regclass($1)
       OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid AND i.inhparent = to_regclass($1)))`,
    [table ?? null],
  )) as { name: string; policies: string[] }[];
  for (const { name, policies } of rows) {
    await ask(LOWER(name), []);
    for (const policy of policies) await ask(`DROP POLICY ${policy} ON ${name}`, []);
  }
};
