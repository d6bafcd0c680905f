// `db distribute` is killed while it runs, at several places: the tables are as before, and the next run goes on.
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { DISTRIBUTED_TABLES } from '../../src/platform/base/tables.ts';
import { runOn } from './cluster.ts';
import { type Commands, say } from './commands.ts';

/** What it prints when it comes to a place. */
const PLACES = ['tokens: copying', 'token_counts: copying', 'audit_log: copying'];

const ROLLBACK_TIMEOUT_MS = 60_000;

const STATE = `
SELECT ${DISTRIBUTED_TABLES.map((table) => `(SELECT count(*)::int FROM ${table}) AS ${table}`).join(', ')},
  (SELECT count(*)::int FROM pg_catalog.pg_dist_partition) AS distributed,
  (SELECT count(*)::int FROM pg_trigger WHERE tgrelid = 'tokens'::regclass AND NOT tgisinternal) AS triggers,
  (SELECT count(*)::int FROM pg_policy) AS policies,
  (SELECT count(*)::int FROM pg_class WHERE relkind = 'r' AND relforcerowsecurity) AS walled,
  (SELECT sum(result::int)::int FROM run_command_on_workers($$
    SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p') AND relname ~ '^(token|idempotency|audit_log).*_[0-9]{6}$'$$)) AS shards,
  (SELECT count(*)::int FROM pg_prepared_xacts) AS prepared`;

const reaches = async (output: Readable, place: string): Promise<boolean> => {
  for await (const line of createInterface(output)) if (line.startsWith(place)) return true;
  return false;
};

/** PostgreSQL ends the statement of a client that is gone, and rolls back. */
const untilRolledBack = async (admin: string): Promise<void> => {
  const deadline = performance.now() + ROLLBACK_TIMEOUT_MS;
  const find = `SELECT FROM pg_stat_activity WHERE application_name = 'strongroom backup' AND datname = current_database()`;
  while ((await runOn(admin, find)).length > 0) {
    if (performance.now() > deadline) throw new Error('the session of a killed command is still there');
    await pause(100);
  }
};

/** @param admin the database of the coordinator, as a superuser: it is filled, and not distributed. */
export const killDistribute = async ({ start, must }: Commands, url: string, admin: string): Promise<void> => {
  const before = JSON.stringify(await runOn(admin, STATE));
  for (const place of PLACES) {
    const child = start(url, ['db', 'distribute']);
    if (!(await reaches(child.stdout as Readable, place))) throw new Error(`db distribute did not print ${place}`);
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    if (child.signalCode !== 'SIGKILL') throw new Error('db distribute ended before it was killed');
    await untilRolledBack(admin);
    const after = JSON.stringify(await runOn(admin, STATE));
    if (after !== before) throw new Error(`killed at "${place}", it left ${after}, and before there was ${before}`);
    must(url, ['doctor']);
  }
  say(`db distribute was killed at ${PLACES.length} places, and left the tables as they were: ${before}`);
};
