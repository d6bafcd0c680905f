// Starts PostgreSQL with Citus on loopback, from the binaries that CITUS_BIN names, as a user without privileges.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { appendFileSync, chownSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { freePort } from '../../test/support/process.ts';

export const SUPERUSER = 'postgres';
/** The role that owns the tables and serves: no superuser, as the role of the embedded database. */
export const ROLE = 'strongroom';
const SHARDS = 8;
const CONNECTIONS = 150;
const START_TIMEOUT_MS = 60_000;

export type Node = {
  port: number;
  child: ChildProcess;
  url(database: string, user?: string): string;
  stop(): Promise<void>;
};

/** PostgreSQL refuses to run as root. */
const unprivileged = (): { uid?: number; gid?: number } => {
  if (process.getuid?.() !== 0) return {};
  const id = (kind: string) => Number(execFileSync('id', [kind, 'nobody'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
};

export const runOn = async (url: string, ...texts: string[]): Promise<Record<string, unknown>[]> => {
  const client = new Client({ connectionString: url, options: '-c strongroom.tenants=*' });
  await client.connect();
  try {
    let rows: Record<string, unknown>[] = [];
    for (const text of texts) ({ rows } = await client.query(text));
    return rows;
  } finally {
    await client.end();
  }
};

/** @param hasCitus false for plain PostgreSQL of the same binaries. */
export const startNode = async (bin: string, directory: string, name: string, hasCitus: boolean): Promise<Node> => {
  const user = unprivileged();
  const data = join(directory, name);
  mkdirSync(data);
  if (user.uid !== undefined) chownSync(data, user.uid, user.gid as number);
  const as = { ...user, cwd: data, env: { PATH: process.env['PATH'], LC_ALL: 'C' } };
  const authentication = ['-A', 'trust', '-U', SUPERUSER];
  execFileSync(join(bin, 'initdb'), ['-D', data, ...authentication, '-E', 'UTF8'], { ...as, stdio: 'ignore' });
  const port = await freePort();
  appendFileSync(
    join(data, 'postgresql.conf'),
    `port = ${port}
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = ${CONNECTIONS}
max_prepared_transactions = ${CONNECTIONS}
wal_level = logical
shared_buffers = '256MB'
max_wal_size = '4GB'
${hasCitus ? `shared_preload_libraries = 'citus'\ncitus.shard_count = ${SHARDS}\ncitus.node_conninfo = 'sslmode=disable'` : ''}
`,
  );
  const log = openSync(join(directory, `${name}.log`), 'a');
  const child = spawn(join(bin, 'postgres'), ['-D', data], { ...as, stdio: ['ignore', log, log] });
  const url = (database: string, role = ROLE): string => `postgresql://${role}:trusted@127.0.0.1:${port}/${database}`;
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    const isUp = await runOn(url('postgres', SUPERUSER), 'SELECT 1').then(
      () => true,
      () => false,
    );
    if (isUp) break;
    if (Date.now() > deadline || child.exitCode !== null) throw new Error(`${name} did not start: see ${name}.log`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await runOn(url('postgres', SUPERUSER), `CREATE ROLE ${ROLE} LOGIN CREATEDB`, `GRANT pg_signal_backend TO ${ROLE}`);
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      if (child.exitCode !== null) return resolve();
      child.once('exit', () => resolve());
      // A fast shutdown: sessions end.
      child.kill('SIGINT');
    });
  return { port, child, url, stop };
};

/** An empty database, with the extension where there is Citus. */
export const makeDatabase = async (node: Node, database: string, hasCitus: boolean): Promise<void> => {
  await runOn(node.url('postgres', SUPERUSER), `CREATE DATABASE ${database} OWNER ${ROLE}`);
  const grant = `GRANT ALL ON SCHEMA public TO ${ROLE}`;
  await runOn(node.url(database, SUPERUSER), ...(hasCitus ? ['CREATE EXTENSION citus'] : []), grant);
};

/** Makes the nodes a cluster in a database. Without workers the coordinator has the shards itself. */
export const makeCluster = async (coordinator: Node, workers: Node[], database: string): Promise<void> => {
  for (const node of [coordinator, ...workers]) await makeDatabase(node, database, true);
  await runOn(
    coordinator.url(database, SUPERUSER),
    `SELECT citus_set_coordinator_host('127.0.0.1', ${coordinator.port})`,
    ...workers.map(({ port }) => `SELECT citus_add_node('127.0.0.1', ${port})`),
    ...(workers.length > 0
      ? []
      : [`SELECT citus_set_node_property('127.0.0.1', ${coordinator.port}, 'shouldhaveshards', true)`]),
  );
};
