// Spreads the tables that grow over the workers of a Citus cluster, by tenant. Everything else stays on the coordinator.
import { setTimeout as pause } from 'node:timers/promises';
import type { Client, PoolConfig } from 'pg';
import { HAS_CITUS } from '../db/citus.ts';
import { DISTRIBUTED_TABLES } from '../base/tables.ts';
import { createFunctionText, functionName, type ShardFunction, signatureOf } from '../db/shard-functions.ts';
import type { Query } from '../db/statements.ts';
import { MIGRATE, PROGRAM } from '../base/program.ts';
import { StartError } from '../base/errors.ts';
import { ANY_PROCESS } from '../db/application-names.ts';
import { inSession, quoted } from '../db/backup/session.ts';
import { LOCK_KEY } from './migrate.ts';
import { lowerWalls } from '../db/tenant-walls.ts';

// Reads how a distributed database is placed, for the `doctor` command: tables, rights on shards, functions and versions.

/** `faults`: what is wrong, in sentences. `warnings`: what is only slow. */
export type Placement = { workers: number; shards: number; version: string; faults: string[]; warnings: string[] };

/** Partitions are named by their parent. */
const FIND_TABLES = `
SELECT coalesce(i.inhparent, p.logicalrelid)::regclass::text AS name, p.colocationid AS colocation,
  (SELECT a.attname::text FROM pg_attribute a
   WHERE a.attrelid = p.logicalrelid AND a.attname = column_to_column_name(p.logicalrelid, p.partkey)) AS by_column
FROM pg_catalog.pg_dist_partition p LEFT JOIN pg_inherits i ON i.inhrelid = p.logicalrelid`;

const FIND_VERSIONS = `SELECT r.success, r.result, n.nodename || ':' || n.nodeport AS node
FROM run_command_on_all_nodes($cmd$SELECT extversion FROM pg_extension WHERE extname = 'citus'$cmd$) r
JOIN pg_catalog.pg_dist_node n USING (nodeid)`;

const FIND_COUNTS = `
SELECT (SELECT count(*)::int FROM pg_catalog.pg_dist_node WHERE groupid <> 0 AND noderole = 'primary' AND isactive) AS workers,
  (SELECT count(*)::int FROM pg_catalog.pg_dist_shard WHERE logicalrelid = 'tokens'::regclass) AS shards`;

/** How many grants let a role change or delete rows of the log: on its shards, on those of its partitions, and on their tables. */
const FIND_GRANTS = `
SELECT r.nodename || ':' || r.nodeport AS node, r.success, r.result FROM run_command_on_workers($cmd$
  SELECT count(*) FROM pg_class c, aclexplode(c.relacl) AS acl
  WHERE c.relname LIKE 'audit\\_log%' AND c.relkind IN ('r', 'p') AND acl.privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE')
$cmd$) r`;

type Answer = { node: string; success: boolean; result: string };

/** @returns undefined where nothing is distributed. @throws unavailable. */
export const findPlacement = async (
  query: Query,
  functions: readonly ShardFunction[],
): Promise<Placement | undefined> => {
  const [{ has_citus }] = (await query(undefined, HAS_CITUS, [])) as [{ has_citus: boolean }];
  if (!has_citus) return undefined;
  const tables = (await query(undefined, FIND_TABLES, [])) as { name: string; colocation: number; by_column: string }[];
  if (tables.length === 0) return undefined;
  const faults: string[] = [];
  const known: readonly string[] = DISTRIBUTED_TABLES;
  for (const name of known) {
    const placed = tables.filter((table) => table.name === name);
    if (placed.length === 0) faults.push(`${name} is not distributed`);
    else if (placed.some(({ by_column }) => by_column !== 'tenant_id'))
      faults.push(`${name} is not distributed by tenant_id`);
  }
  for (const { name } of tables) if (!known.includes(name)) faults.push(`${name} should stay on the coordinator`);
  if (new Set(tables.filter(({ name }) => known.includes(name)).map(({ colocation }) => colocation)).size > 1)
    faults.push('the tables are not colocated');

  const versions = (await query(undefined, FIND_VERSIONS, [])) as Answer[];
  for (const { node, success, result } of versions)
    if (!success) faults.push(`${node} does not answer (${result.slice(0, 100)})`);
  const known_versions = new Set(versions.filter(({ success }) => success).map(({ result }) => result));
  if (known_versions.size > 1)
    faults.push(
      `nodes have different versions of citus (${versions.map(({ node, result }) => `${node} ${result}`).join(', ')})`,
    );

  const grants = (await query(undefined, FIND_GRANTS, [])) as Answer[];
  const open = grants.filter(({ success, result }) => success && result !== '0');
  if (open.length > 0)
    faults.push(
      `rows of the audit log can be changed on ${open.map(({ node }) => node).join(', ')}, as after a rebalance. Run: ${PROGRAM} db distribute`,
    );

  const names = functions.map(functionName);
  const there = await query(undefined, 'SELECT FROM pg_proc WHERE proname = ANY ($1::text[])', [names]);
  const warnings =
    there.length < names.length
      ? [`functions of this release are missing, so writes are slower. Run: ${PROGRAM} db distribute`]
      : [];
  const [counts] = (await query(undefined, FIND_COUNTS, [])) as [{ workers: number; shards: number }];
  return { ...counts, version: [...known_versions].join(', '), faults, warnings };
};

/** Citus refuses triggers. The server records deletions itself. */
const TRIGGER = 'tokens_record_erasures';

/** Statements of servers wait behind this one, so it gives up instead. */
const LOCK_TIMEOUT_MS = 10_000;
const LOCK_NOT_AVAILABLE = '55P03';

/** The sessions of a command that has just ended, such as `migrate`, are there for a moment longer. */
const SESSIONS_END_MS = 5_000;
const SESSIONS_POLL_MS = 100;

/** Tables and their partitions, where they have any. */
const WITH_PARTITIONS = `
SELECT c.relname::text AS name FROM pg_class c CROSS JOIN unnest($1::regclass[]) AS whole
WHERE c.oid = whole OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = whole)`;

const withPartitions = async (session: Client, tables: readonly string[]): Promise<string[]> =>
  (await session.query<{ name: string }>(WITH_PARTITIONS, [tables])).rows.map(({ name }) => name);

const FIND_STATE = `
SELECT current_user::text AS role,
  ARRAY(SELECT relname::text FROM pg_class WHERE oid IN (SELECT to_regclass(t) FROM unnest($1::text[]) AS t)
    AND NOT pg_has_role(current_user, relowner, 'USAGE')) AS foreign_tables,
  (SELECT count(*)::int FROM unnest($1::text[]) AS t WHERE to_regclass(t) IS NOT NULL) AS tables,
  EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') AS has_citus`;

const FIND_NODES = `
SELECT (SELECT groupid FROM pg_catalog.pg_dist_local_group) AS local_group,
  (SELECT count(*)::int FROM pg_catalog.pg_dist_node WHERE noderole = 'primary' AND isactive AND shouldhaveshards) AS workers`;

/** What it does, for the operator who watches. */
type Report = (line: string) => void;

const check = async (session: Client): Promise<void> => {
  const { rows } = await session.query(FIND_STATE, [DISTRIBUTED_TABLES]);
  const { role, foreign_tables, tables, has_citus } = rows[0];
  if (tables < DISTRIBUTED_TABLES.length)
    throw new StartError(`The database lacks tables, so nothing was changed. Make them first: ${MIGRATE}`);
  if (foreign_tables.length > 0)
    throw new StartError(
      `The role "${role}" does not own the tables (${foreign_tables.join(', ')}), so nothing was changed. Name the role that migrates in DATABASE_URL (docs/operations/database-roles.md).`,
    );
  if (!has_citus)
    throw new StartError(
      "The database has no extension citus, so nothing was changed. On the coordinator and on each worker set shared_preload_libraries = 'citus', and run CREATE EXTENSION citus as a superuser (docs/operations/citus.md).",
    );
  const nodes = (await session.query(FIND_NODES)).rows[0];
  if (nodes.local_group !== 0)
    throw new StartError(
      'DATABASE_URL names a worker, so nothing was changed. Name the coordinator: servers and commands connect to no worker.',
    );
  if (nodes.workers === 0)
    throw new StartError(
      "The cluster has no worker, so nothing was changed. Add one on the coordinator as a superuser: SELECT citus_add_node('worker-1', 5432) (docs/operations/citus.md).",
    );
};

const isDistributed = async (session: Client, table: string): Promise<boolean> =>
  (await session.query('SELECT FROM pg_catalog.pg_dist_partition WHERE logicalrelid = $1::regclass', [table]))
    .rowCount !== 0;

/**
 * A server looks for the trigger when it starts: one that still runs would record no erasures afterwards. The list of sessions is
 * kept for a transaction unless it is cleared.
 */
const checkNoServer = async (session: Client, waitMs = 0): Promise<void> => {
  for (let waitedMs = 0; ; waitedMs += SESSIONS_POLL_MS) {
    await session.query('SELECT pg_stat_clear_snapshot()');
    const { rowCount } = await session.query(
      `SELECT FROM pg_stat_activity
       WHERE datname = current_database() AND application_name ~ '${ANY_PROCESS}'`,
    );
    if (rowCount === 0) return;
    if (waitedMs >= waitMs) throw new StartError('A server or a command is connected to it.');
    await pause(SESSIONS_POLL_MS);
  }
};

/** @returns whether tokens were not distributed before. */
const distributeTables = async (session: Client, report: Report): Promise<boolean> => {
  const isNew = !(await isDistributed(session, 'tokens'));
  for (const table of DISTRIBUTED_TABLES) {
    if (await isDistributed(session, table)) {
      report(`${table}: is distributed already`);
      continue;
    }
    if (table === 'tokens') {
      await checkNoServer(session, SESSIONS_END_MS);
      await session.query(`DROP TRIGGER IF EXISTS ${TRIGGER} ON tokens`);
    }
    // Citus does not tell its workers the setting that names tenants: behind a wall they would see no rows.
    await lowerWalls(async (text, values) => (await session.query(text, values)).rows, table);
    const { rows } = await session.query(`SELECT count(*) AS count FROM ${table}`);
    report(`${table}: copying ${rows[0].count} rows to the workers`);
    const beganMs = performance.now();
    const colocation = table === 'tokens' ? 'none' : 'tokens';
    await session.query(`SELECT create_distributed_table($1, 'tenant_id', colocate_with => $2)`, [table, colocation]);
    report(`${table}: done in ${((performance.now() - beganMs) / 1000).toFixed(1)} s`);
  }
  return isNew;
};

const createFunctions = async (session: Client, functions: readonly ShardFunction[]): Promise<number> => {
  let made = 0;
  for (const each of functions) {
    const { rowCount } = await session.query('SELECT FROM pg_proc WHERE proname = $1', [functionName(each)]);
    if (rowCount !== 0) continue;
    await session.query(createFunctionText(each));
    if (!each.isOnCoordinator)
      await session.query(
        `SELECT create_distributed_function($1, '$1', colocate_with => 'tokens', force_delegation => true)`,
        [signatureOf(each)],
      );
    made += 1;
  }
  return made;
};

/** New shards and moved ones grant again what the tables do not: Citus makes them with the rights of an owner. */
const revokeOnShards = async (session: Client): Promise<void> => {
  for (const name of await withPartitions(session, ['audit_log'])) {
    const { rows } = await session.query<{ grantee: string }>(
      `SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END AS grantee
       FROM pg_class, aclexplode(relacl) AS acl WHERE pg_class.oid = $1::regclass`,
      [name],
    );
    for (const { grantee } of rows)
      await session.query(`REVOKE UPDATE, DELETE, TRUNCATE ON ${quoted(name)} FROM ${grantee}`);
  }
};

/** Rows that were copied to the workers stay in files of the coordinator, where nothing reads them, until this. */
const dropLocalRows = async (session: Client, report: Report): Promise<void> => {
  for (const table of await withPartitions(session, DISTRIBUTED_TABLES)) {
    const { rows } = await session.query('SELECT pg_relation_size($1::regclass) > 0 AS has_rows', [quoted(table)]);
    if (!rows[0].has_rows) continue;
    await session.query("BEGIN; SET LOCAL citus.multi_shard_modify_mode = 'sequential'");
    // No role may empty a table, not even its owner. The owner gets the right for the copy, within this transaction.
    await session.query(`GRANT TRUNCATE ON ${quoted(table)} TO CURRENT_USER`);
    await session.query('SELECT truncate_local_data_after_distributing_table($1::regclass)', [quoted(table)]);
    await session.query(`REVOKE TRUNCATE ON ${quoted(table)} FROM CURRENT_USER`);
    await session.query('COMMIT');
    report(`${table}: the copy on the coordinator is removed`);
  }
};

/**
 * Distributes the tables, makes the functions and takes rights on shards away. What is done already is left. The tables are
 * distributed in one transaction: a process that is stopped leaves them as they were.
 * @throws StartError with what to do.
 */
export const distribute = (
  poolConfig: PoolConfig,
  functions: readonly ShardFunction[],
  report: Report,
): Promise<void> =>
  inSession(poolConfig, async (session) => {
    await check(session);
    // The lock of migrations: a migration must not meet tables that are half distributed.
    const { rows } = await session.query('SELECT pg_try_advisory_lock($1) AS locked', [LOCK_KEY]);
    if (!rows[0].locked)
      throw new StartError(
        'Another process is distributing or migrating this database, so nothing was changed. Run this again when it has ended.',
      );
    try {
      await session.query(`BEGIN; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
      // Citus makes functions in the transaction of tables only over one connection to each worker.
      await session.query("SET LOCAL citus.multi_shard_modify_mode = 'sequential'");
      const isNew = await distributeTables(session, report);
      const made = await createFunctions(session, functions);
      report(made === 0 ? 'functions: are there already' : `functions: ${made} made`);
      await revokeOnShards(session);
      // One may have started meanwhile.
      if (isNew) await checkNoServer(session);
      await session.query('COMMIT');
      report('audit_log: no role may change or delete its rows, on any shard');
      await dropLocalRows(session, report);
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      throw new StartError(
        code === LOCK_NOT_AVAILABLE
          ? 'A table is in use, so no table was distributed. Stop the servers, and run this again.'
          : `The database could not be distributed: ${message.trim().replace(/\.$/, '')}. No table is half distributed. Remove the cause, and run this again.`,
        { cause: error },
      );
    }
  });
