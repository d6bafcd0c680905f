// A vault on a Citus cluster of one coordinator and two workers on loopback: tests, stops, copies, moves, plans, rates.
// CITUS_BIN names the PostgreSQL bin directory of an installation with Citus; without it this is skipped. Usage: npm run drill:citus
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { headersOf } from '../bench/turns.ts';
import type { RunningServer } from '../bench/servers.ts';
import { shardFunctions } from '../src/modules.ts';
import { distribute } from '../src/platform/maintenance/distribute.ts';
import { migrate } from '../src/platform/maintenance/migrate.ts';
import { makeCluster, makeDatabase, type Node, runOn, startNode, SUPERUSER } from './citus/cluster.ts';
import { createCommands, migrations, say } from './citus/commands.ts';
import { backUpAndRestore, backUpUnderLoad, operate } from './citus/copies.ts';
import { runDoorTests } from './citus/door-tests.ts';
import { explainAll } from './citus/explain.ts';
import { checkRights, moveUnderLoad } from './citus/moves.ts';
import { compareRates } from './citus/rates.ts';
import { killDistribute } from './citus/stops.ts';

const VAULT = 'vault';
const FILL_REQUESTS = 40;
const TOKENS_IN_REQUEST = 500;

const bin = process.env['CITUS_BIN'];
if (bin === undefined || !existsSync(join(bin, 'postgres'))) {
  say('skipped: CITUS_BIN does not name the bin directory of a PostgreSQL with Citus');
  process.exit(0);
}

const directory = mkdtempSync(join(tmpdir(), 'strongroom-citus-'));
chmodSync(directory, 0o755);
let isDone = false;
const stops: (() => Promise<void>)[] = [];
const commands = createCommands(directory, (stop) => stops.unshift(stop));
const { run, must, serve } = commands;

const start = async (name: string, hasCitus: boolean): Promise<Node> => {
  const node = await startNode(bin, directory, name, hasCitus);
  stops.unshift(node.stop);
  return node;
};

/** Without a worker nothing is distributed. */
const checkRefusal = async (coordinator: Node): Promise<void> => {
  await makeDatabase(coordinator, VAULT, true);
  must(coordinator.url(VAULT), ['migrate']);
  const alone = run(coordinator.url(VAULT), ['db', 'distribute']);
  if (alone.status !== 1 || !alone.stderr.includes('has no worker'))
    throw new Error(`without workers: ${alone.stderr}`);
  await runOn(coordinator.url('postgres', SUPERUSER), `DROP DATABASE ${VAULT} WITH (FORCE)`);
};

/** Tokens of four tenants, which are on several workers once they are distributed. */
const fill = async (url: string, server: RunningServer): Promise<void> => {
  const keys = ['b', 'c', 'd'].map(
    (name) => JSON.parse(must(url, ['tenants', 'create', '--name', name, '--json'])).api_key as string,
  );
  keys.push(server.credentials.api_key);
  for (let request = 0; request < FILL_REQUESTS; request += 1) {
    const body = JSON.stringify(Array.from({ length: TOKENS_IN_REQUEST }, (_, at) => `value ${request}-${at}`));
    const headers = headersOf(keys[request % keys.length] as string);
    const { status } = await fetch(`${server.credentials.base_url}/tokenize`, { method: 'POST', headers, body });
    if (status !== 200) throw new Error(`tokenize answered ${status}`);
  }
};

/** Two at once: one of them, or both in turn, and never half. */
const distributeTwice = async (url: string): Promise<void> => {
  const both = await Promise.allSettled(
    [1, 2].map(() => distribute({ connectionString: url }, shardFunctions, () => undefined)),
  );
  if (both.every(({ status }) => status === 'rejected'))
    throw new Error(String((both[0] as PromiseRejectedResult).reason));
  must(url, ['doctor']);
};

/** Statements as a later release may have them, in one file, with a table of tenants, which gets its policy. */
const migrateAgain = async (url: string): Promise<void> => {
  const later = join(directory, 'migrations');
  const name = '20990101000000_later';
  execFileSync('cp', ['-R', migrations, later]);
  mkdirSync(join(later, name));
  writeFileSync(
    join(later, name, 'migration.sql'),
    `ALTER TABLE "tokens" ADD COLUMN "later" TEXT;
CREATE INDEX "tokens_later" ON "tokens"("tenant_id", "later"); ALTER INDEX "tokens_later" RENAME TO "tokens_later_idx";
DROP INDEX "tokens_later_idx"; ALTER TABLE "tokens" DROP COLUMN "later";
CREATE TABLE "later" ("tenant_id" UUID NOT NULL);`,
  );
  const { applied } = await migrate({ connectionString: url }, later);
  if (applied.join() !== name) throw new Error('the migration was not applied');
  const [wall] = await runOn(
    url,
    `SELECT relforcerowsecurity AS is_raised FROM pg_class WHERE oid = 'later'::regclass`,
  );
  if (!wall?.['is_raised']) throw new Error('the new table has no policy');
  await runOn(url, `DELETE FROM _prisma_migrations WHERE migration_name = '${name}'; DROP TABLE later`);
};

try {
  const areTestsPassed = await runDoorTests(() => start('tests', true));
  const nodes = [await start('coordinator', true), await start('worker-1', true), await start('worker-2', true)];
  const [coordinator, ...workers] = nodes as [Node, Node, Node];
  await checkRefusal(coordinator);

  await makeCluster(coordinator, workers, VAULT);
  const url = coordinator.url(VAULT);
  const admin = coordinator.url(VAULT, SUPERUSER);
  const filling = await serve(url, 'vault');
  await fill(url, filling);
  await filling.stop();
  await killDistribute(commands, url, admin);
  await distributeTwice(url);
  await migrateAgain(url);
  say(`${await explainAll(url)} statements, each one task on one shard`);
  await backUpAndRestore(commands, directory, url, coordinator, workers);

  const server = await serve(url, 'vault');
  await operate(commands, directory, url, server);
  await backUpUnderLoad(commands, directory, url, coordinator, server);
  await moveUnderLoad(url, admin, server);
  checkRights(commands, url);

  const single = await start('plain', false);
  await makeDatabase(single, VAULT, false);
  must(single.url(VAULT), ['migrate']);
  await compareRates({ server: await serve(single.url(VAULT), 'plain'), nodes: [single] }, { server, nodes });
  if (!areTestsPassed) throw new Error('front-door tests failed: see above');
  isDone = true;
} finally {
  for (const stop of stops) await stop();
  if (isDone) rmSync(directory, { recursive: true, force: true });
  else say(`the logs of PostgreSQL are in ${directory}`);
}
