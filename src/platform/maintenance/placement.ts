// Reads how a distributed database is placed, for the `doctor` command: tables, rights on shards, functions and versions.
import { HAS_CITUS } from '../db/citus.ts';
import { DISTRIBUTED_TABLES } from '../base/tables.ts';
import { functionName, type ShardFunction } from '../db/shard-functions.ts';
import type { Query } from '../db/statements.ts';
import { PROGRAM } from '../base/program.ts';

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
