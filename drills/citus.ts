// A vault on a Citus cluster of one coordinator and two workers on loopback: tests, plans, a shard that moves under load, rates.
// CITUS_BIN names the PostgreSQL bin directory of an installation with Citus; without it this is skipped. Usage: npm run drill:citus
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cpuSeconds } from '../bench/cpu-time.ts';
import { runLoad } from '../bench/load.ts';
import { type RunningServer, startServer } from '../bench/servers.ts';
import { headersOf, median } from '../bench/turns.ts';
import { shardFunctions } from '../src/modules.ts';
import { distribute } from '../src/platform/db/distribute.ts';
import { migrate } from '../src/platform/db/migrate.ts';
import { makeCluster, makeDatabase, type Node, runOn, startNode, SUPERUSER } from './citus/cluster.ts';
import { explainAll } from './citus/explain.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const migrations = join(root, 'prisma/migrations');
/** Front-door tests that run on Citus. Those left out make triggers on distributed tables, or stop their PostgreSQL. */
const TESTS = (process.env['DRILL_TESTS'] ?? 'associations tenants tokens').split(' ').filter(Boolean);
const TURNS = Number(process.env['DRILL_TURNS'] ?? 3);
const SECONDS = Number(process.env['DRILL_SECONDS'] ?? 5);
const VAULT = 'vault';

const say = (text: string): void => void process.stdout.write(`${text}\n`);

const bin = process.env['CITUS_BIN'];
if (bin === undefined || !existsSync(join(bin, 'postgres'))) {
  say('skipped: CITUS_BIN does not name the bin directory of a PostgreSQL with Citus');
  process.exit(0);
}

const directory = mkdtempSync(join(tmpdir(), 'strongroom-citus-'));
chmodSync(directory, 0o755);
let isDone = false;
const stops: (() => Promise<void>)[] = [];
const MASTER_KEY = Buffer.alloc(32, 7).toString('base64');

const start = async (name: string, hasCitus: boolean): Promise<Node> => {
  const node = await startNode(bin, directory, name, hasCitus);
  stops.unshift(node.stop);
  return node;
};

const command = (node: Node, args: string[]) =>
  spawnSync(process.execPath, [join(root, 'bin/strongroom.cjs'), ...args], {
    cwd: directory,
    env: { PATH: process.env['PATH'], DATABASE_URL: node.url(VAULT), MASTER_KEY },
    encoding: 'utf8',
  });

const must = (node: Node, args: string[]): string => {
  const { status, stdout, stderr } = command(node, args);
  if (status !== 0) throw new Error(`${args.join(' ')} failed: ${stdout}${stderr}`);
  return stdout;
};

const serve = async (node: Node): Promise<RunningServer> => {
  const data = join(directory, `server-${node.port}`);
  mkdirSync(data);
  const server = await startServer(data, { DATABASE_URL: node.url(VAULT), MASTER_KEY, LOG_LEVEL: 'warn' });
  stops.unshift(server.stop);
  return server;
};

/** On one node, whose databases can be cloned with their shards: test files clone a template. */
const runTests = async (): Promise<void> => {
  if (TESTS.length === 0) return;
  const node = await start('tests', true);
  const template = 'template_strongroom';
  await makeCluster(node, [], template);
  await migrate({ connectionString: node.url(template) }, migrations);
  await distribute({ connectionString: node.url(template) }, shardFunctions, () => undefined);
  await runOn(
    node.url('postgres', SUPERUSER),
    `ALTER DATABASE ${template} ALLOW_CONNECTIONS false IS_TEMPLATE true`,
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${template}'`,
  );
  const files = TESTS.map((name) => `test/${name}.test.ts`);
  say(`runs ${files.length} files of front-door tests on distributed tables`);
  execFileSync(join(root, 'node_modules/.bin/vitest'), ['run', '--project', 'door', ...files], {
    cwd: root,
    env: { ...process.env, TEST_DATABASE_SERVER: node.url('postgres') },
    stdio: 'inherit',
  });
};

/** Statements as a later release may have them, in one file. */
const migrateAgain = async (node: Node): Promise<void> => {
  const later = join(directory, 'migrations');
  const name = '20990101000000_later';
  execFileSync('cp', ['-R', migrations, later]);
  mkdirSync(join(later, name));
  writeFileSync(
    join(later, name, 'migration.sql'),
    `ALTER TABLE "tokens" ADD COLUMN "later" TEXT;
CREATE INDEX "tokens_later" ON "tokens"("tenant_id", "later"); ALTER INDEX "tokens_later" RENAME TO "tokens_later_idx";
DROP INDEX "tokens_later_idx"; ALTER TABLE "tokens" DROP COLUMN "later";`,
  );
  const { applied } = await migrate({ connectionString: node.url(VAULT) }, later);
  if (applied.join() !== name) throw new Error('the migration was not applied');
  await runOn(node.url(VAULT), `DELETE FROM _prisma_migrations WHERE migration_name = '${name}'`);
};

const moveUnderLoad = async (node: Node, server: RunningServer): Promise<void> => {
  const { base_url, api_key, tenant_id } = server.credentials;
  const admin = node.url(VAULT, SUPERUSER);
  const [place] = await runOn(
    admin,
    `SELECT s.shardid, s.nodeport AS source, (SELECT nodeport FROM pg_dist_node n WHERE n.groupid <> 0 AND n.nodeport <> s.nodeport) AS target
     FROM citus_shards s WHERE s.shardid = get_shard_id_for_distribution_column('tokens', '${tenant_id}')`,
  );
  const { shardid, source, target } = place as { shardid: string; source: number; target: number };
  const acknowledged: string[] = [];
  let failed = 0;
  let isMoving = true;
  const write = async (): Promise<void> => {
    while (isMoving) {
      const body = JSON.stringify({ type: 'token', data: 'moved' });
      const response = await fetch(`${base_url}/tokens`, { method: 'POST', headers: headersOf(api_key), body });
      const made = (await response.json()) as { id: string };
      if (response.status === 201) acknowledged.push(made.id);
      else failed += 1;
    }
  };
  const writers = Array.from({ length: 8 }, write);
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const began = performance.now();
  await runOn(
    admin,
    `SELECT citus_move_shard_placement(${shardid}, '127.0.0.1', ${source}, '127.0.0.1', ${target}, 'auto')`,
  ).finally(() => (isMoving = false));
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  await Promise.all(writers);
  const rows = await runOn(
    node.url(VAULT),
    `SELECT (SELECT count(*)::int FROM tokens WHERE tenant_id = '${tenant_id}' AND id IN ('${acknowledged.join("','")}')) AS tokens,
     (SELECT count(DISTINCT e)::int FROM audit_log, unnest(entity_ids) AS e WHERE tenant_id = '${tenant_id}' AND operation = 'create'
      AND e IN ('${acknowledged.join("','")}')) AS logged`,
  );
  const { tokens, logged } = rows[0] as { tokens: number; logged: number };
  say(
    `a shard moved in ${seconds} s under load: ${acknowledged.length} tokens acknowledged, ${tokens} there, ${logged} in the log; ${failed} requests refused`,
  );
  if (tokens !== acknowledged.length || logged !== acknowledged.length) throw new Error('tokens were lost');
};

/** The append-only log after a move: doctor sees that a shard grants again, and distribute takes it away. */
const checkRights = async (node: Node): Promise<void> => {
  const before = command(node, ['doctor']);
  if (before.status === 0) throw new Error('doctor did not see the rights of the moved shard');
  must(node, ['db', 'distribute']);
  must(node, ['doctor']);
  say('doctor found the rights of the moved shard, and distribute took them away');
};

type Rate = { perSecond: number; serverUs: number; databaseUs: number[] };

const measure = async (server: RunningServer, nodes: Node[], body: unknown, connections: number): Promise<Rate> => {
  const { base_url, api_key } = server.credentials;
  const pids = [server.child.pid as number, ...nodes.map(({ child }) => child.pid as number)];
  const before = pids.map((pid) => cpuSeconds(pid));
  const load = {
    url: `${base_url}/tokenize`,
    headers: headersOf(api_key),
    body: JSON.stringify(body),
    connections,
    seconds: SECONDS,
  };
  const { requestsPerSecond, errors } = await runLoad(load);
  // On a machine with other work a request may wait for its database too long.
  if (errors > (requestsPerSecond * SECONDS) / 100) throw new Error(`${errors} requests failed`);
  const us = pids.map((pid, index) =>
    Math.round(((cpuSeconds(pid) - (before[index] as number)) * 1e6) / (requestsPerSecond * SECONDS)),
  );
  return { perSecond: requestsPerSecond, serverUs: us[0] as number, databaseUs: us.slice(1) };
};

const CARD = {
  type: 'card',
  data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' },
};
const BATCH = Array.from({ length: 100 }, (_, index) => `value number ${index} of a batch`);

const compare = async (plain: [RunningServer, Node[]], citus: [RunningServer, Node[]]): Promise<void> => {
  for (const [name, body, connections, goal] of [
    ['a card a request', CARD, 32, 0.65],
    ['100 strings a request', BATCH, 8, 0.9],
  ] as const) {
    const turns: [Rate, Rate][] = [];
    for (let turn = 0; turn <= TURNS; turn += 1) {
      const both: [Rate, Rate] = [
        await measure(...plain, body, connections),
        await measure(...citus, body, connections),
      ];
      // The first turn warms both.
      if (turn > 0) turns.push(both);
    }
    const ratio = median(turns.map(([one, other]) => other.perSecond / one.perSecond));
    const middle = (side: 0 | 1, of: (rate: Rate) => number) => Math.round(median(turns.map((turn) => of(turn[side]))));
    say(
      JSON.stringify({
        name,
        ratio: Math.round(ratio * 100) / 100,
        goal,
        plain_per_second: middle(0, ({ perSecond }) => perSecond),
        citus_per_second: middle(1, ({ perSecond }) => perSecond),
        plain_us: {
          server: middle(0, (rate) => rate.serverUs),
          postgres: middle(0, (rate) => rate.databaseUs[0] as number),
        },
        citus_us: {
          server: middle(1, (rate) => rate.serverUs),
          coordinator: middle(1, (rate) => rate.databaseUs[0] as number),
          workers: middle(1, (rate) => rate.databaseUs.slice(1).reduce((sum, each) => sum + each, 0)),
        },
      }),
    );
  }
};

try {
  await runTests();
  const nodes = [await start('coordinator', true), await start('worker-1', true), await start('worker-2', true)];
  const [coordinator, ...workers] = nodes as [Node, Node, Node];
  await makeDatabase(coordinator, VAULT, true);
  must(coordinator, ['migrate']);
  const alone = command(coordinator, ['db', 'distribute']);
  if (alone.status !== 1 || !alone.stderr.includes('has no worker'))
    throw new Error(`without workers: ${alone.stderr}`);
  await runOn(coordinator.url('postgres', SUPERUSER), `DROP DATABASE ${VAULT} WITH (FORCE)`);

  await makeCluster(coordinator, workers, VAULT);
  must(coordinator, ['migrate']);
  // Two at once: one of them, or both in turn, and never half.
  const both = await Promise.allSettled(
    [1, 2].map(() => distribute({ connectionString: coordinator.url(VAULT) }, shardFunctions, () => undefined)),
  );
  if (both.every(({ status }) => status === 'rejected'))
    throw new Error(String((both[0] as PromiseRejectedResult).reason));
  must(coordinator, ['doctor']);
  await migrateAgain(coordinator);
  say(`${await explainAll(coordinator.url(VAULT))} statements, each one task on one shard`);

  const server = await serve(coordinator);
  await moveUnderLoad(coordinator, server);
  await checkRights(coordinator);

  const single = await start('plain', false);
  await makeDatabase(single, VAULT, false);
  must(single, ['migrate']);
  await compare([await serve(single), [single]], [server, nodes]);
  isDone = true;
} finally {
  for (const stop of stops) await stop();
  if (isDone) rmSync(directory, { recursive: true, force: true });
  else say(`the logs of PostgreSQL are in ${directory}`);
}
