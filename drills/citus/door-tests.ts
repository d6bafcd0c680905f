// The tests of `door` and `process` on a distributed vault: all files but those that are listed here, each with its reason.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { shardFunctions } from '../../src/modules.ts';
import { distribute } from '../../src/platform/maintenance/distribute.ts';
import { migrate } from '../../src/platform/maintenance/migrate.ts';
import { makeCluster, type Node, runOn, SUPERUSER } from './cluster.ts';
import { migrations, root, say } from './commands.ts';

/**
 * Patterns by reason: names of files without the folder `process`, or how they begin. Single tests that make triggers on
 * distributed tables, or change rows by statements that Citus refuses, skip themselves.
 */
const EXCLUDED: Record<string, RegExp> = {
  'concern what runs beside the database: the sandbox, the way out, forwarding, pages in a browser, documents, packages':
    /^(console-|demo|docs|egress|executors|fairness|fetch-memory|fields|formula-check|generated-clients|image|journey|kubernetes|metrics|node-surface|no-wall|official-formulas|package|programs|prometheus|proxy-|readme|sandbox|slow-bodies|systemd|tracing|wall|watchdog|promises\/(dependencies|documents|named-tenants|openapi|signed-tables|style))/,
  'start a PostgreSQL of their own, which has no Citus':
    /^(broken-off-run|cli|commands-end|data-directory|database-roles|durability|embedded|embedded-hands|export|failover|killed-worker|processes|setup|start-\w+)$/,
  'make, upgrade or distribute the tables, or read their policies; this drill does so with the commands':
    /^(distribute|log-partitions|migrate|row-level-security|upgrade|upgrade-end)$/,
  'compare plans of PostgreSQL; this drill reads those of Citus': /^plans$/,
  'end all sessions of the database, lock rows of several tenants, or need a password: Citus has a session of a superuser, refuses such locks, and the nodes trust loopback':
    /^(away|database-words|face)$/,
  'attack rows by SQL that Citus refuses, or read the files of one PostgreSQL': /^(tampered-tokens|promises\/secrecy)$/,
};

const TEMPLATE = 'template_strongroom';
/** Few: each file clones the template with all its shards. */
const SHARDS = 4;

const chosen = (): string[] => {
  const named = process.env['DRILL_TESTS'];
  if (named !== undefined) return named.split(' ').filter(Boolean);
  const all = ['', 'promises/', 'process/'].flatMap((folder) =>
    readdirSync(join(root, 'test', folder)).flatMap((file) => {
      const name = /^(.+)\.test\.ts$/.exec(file)?.[1];
      return name === undefined ? [] : [folder + name];
    }),
  );
  const isExcluded = (name: string): boolean => Object.values(EXCLUDED).some((names) => names.test(name));
  return all.filter((name) => !isExcluded(name.replace(/^process\//, '')));
};

/**
 * On one node, whose databases can be cloned with their shards: test files clone a template.
 * @returns whether all passed; what follows in the drill does not depend on them.
 */
export const runDoorTests = async (start: () => Promise<Node>): Promise<boolean> => {
  const names = chosen();
  if (names.length === 0) return true;
  const node = await start();
  const admin = node.url('postgres', SUPERUSER);
  // Nothing here is asked what outlived a crash.
  for (const setting of [`citus.shard_count = ${SHARDS}`, 'fsync = off', 'synchronous_commit = off'])
    await runOn(admin, `ALTER SYSTEM SET ${setting}`);
  await runOn(admin, 'SELECT pg_reload_conf()');
  await makeCluster(node, [], TEMPLATE);
  const template = { connectionString: node.url(TEMPLATE) };
  await migrate(template, migrations);
  await distribute(template, shardFunctions, () => undefined);
  await runOn(
    admin,
    `ALTER DATABASE ${TEMPLATE} ALLOW_CONNECTIONS false IS_TEMPLATE true`,
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${TEMPLATE}'`,
  );
  say(`runs ${names.length} files of front-door tests on distributed tables. Left out are those that`);
  for (const [reason, pattern] of Object.entries(EXCLUDED)) say(`- ${reason}: ${pattern.source}`);
  const files = names.map((name) => `test/${name}.test.ts`);
  const projects = ['door', 'process'].flatMap((name) => ['--project', name]);
  const { status } = spawnSync(join(root, 'node_modules/.bin/vitest'), ['run', ...projects, ...files], {
    cwd: root,
    env: { ...process.env, TEST_DATABASE_SERVER: node.url('postgres'), TEST_IS_DISTRIBUTED: 'yes' },
    stdio: 'inherit',
  });
  await node.stop();
  return status === 0;
};
