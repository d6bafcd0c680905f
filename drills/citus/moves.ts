// A shard moves to another worker while clients write: no acknowledged token is lost, and the log is append-only again afterwards.
import { setTimeout as pause } from 'node:timers/promises';
import type { RunningServer } from '../../bench/servers.ts';
import { runOn } from './cluster.ts';
import { type Commands, say } from './commands.ts';
import { startWriters, WRITERS_START_MS } from './writers.ts';

/** @param admin the database of the coordinator, as a superuser. */
export const moveUnderLoad = async (url: string, admin: string, server: RunningServer): Promise<void> => {
  const { tenant_id } = server.credentials;
  const [place] = await runOn(
    admin,
    `SELECT s.shardid, s.nodeport AS source, (SELECT nodeport FROM pg_catalog.pg_dist_node n WHERE n.groupid <> 0 AND n.nodeport <> s.nodeport) AS target
     FROM citus_shards s WHERE s.shardid = get_shard_id_for_distribution_column('tokens', '${tenant_id}')`,
  );
  const { shardid, source, target } = place as { shardid: string; source: number; target: number };
  const writers = startWriters(server);
  await pause(WRITERS_START_MS);
  const began = performance.now();
  await runOn(
    admin,
    `SELECT citus_move_shard_placement(${shardid}, '127.0.0.1', ${source}, '127.0.0.1', ${target}, 'auto')`,
  ).finally(writers.stop);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const { acknowledged } = writers;
  const rows = await runOn(
    url,
    `SELECT (SELECT count(*)::int FROM tokens WHERE tenant_id = '${tenant_id}' AND id IN ('${acknowledged.join("','")}')) AS tokens,
     (SELECT count(DISTINCT e)::int FROM audit_log, unnest(entity_ids) AS e WHERE tenant_id = '${tenant_id}' AND operation = 'create'
      AND e IN ('${acknowledged.join("','")}')) AS logged`,
  );
  const { tokens, logged } = rows[0] as { tokens: number; logged: number };
  say(
    `a shard moved in ${seconds} s under load: ${acknowledged.length} tokens acknowledged, ${tokens} there, ${logged} in the log`,
  );
  if (tokens !== acknowledged.length || logged !== acknowledged.length) throw new Error('tokens were lost');
};

/** `doctor` sees that a moved shard grants again, and `db distribute` takes it away. */
export const checkRights = ({ run, must }: Commands, url: string): void => {
  const { status, stdout } = run(url, ['doctor']);
  if (status === 0 || !stdout.includes('rows of the audit log can be changed'))
    throw new Error('doctor did not see the rights of the moved shard');
  must(url, ['db', 'distribute']);
  must(url, ['doctor']);
  say('doctor found the rights of the moved shard, and distribute took them away');
};
