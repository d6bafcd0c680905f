// The vault of an earlier version on Citus: distributed before its migrations and its contract step, and after them.
import { mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { shardFunctions } from '../../src/modules.ts';
import { distribute } from '../../src/platform/db/distribute.ts';
import { listMigrations, migrate } from '../../src/platform/db/migrate.ts';
import { spawnServer, untilReady } from '../../test/support/process.ts';
import { makeCluster, type Node, runOn } from './cluster.ts';
import { type Commands, MASTER_KEY, migrations, root, say } from './commands.ts';

/** The dump of a version and what its server answered: see test/fixtures/README.md. */
const VERSION = '60669a8';
/** Its keys and sealed values are of a test server. */
const TEST_MODE = { NODE_ENV: 'test' };
/** The last migration of the release that first distributed tables. */
const FIRST_DISTRIBUTED = '20261124130000_keys_of_applications';

type Body = { expires_at?: string; data?: unknown };
type Recorded = { key: string; method: string; path: string; status: number; body: Body };
type Vault = { keys: Record<string, string>; recorded: Recorded[] };

const fixture = (name: string): string => readFileSync(join(root, 'test/fixtures', name), 'utf8');
const { keys, recorded } = JSON.parse(fixture(`vault-${VERSION}.json`)) as Vault;

/** The value of a token, without the security code: its time is over. */
const valueOf = ({ data }: Body): unknown =>
  typeof data === 'object' && data !== null ? { ...data, cvc: undefined } : data;

/** Reads what the earlier server was asked for, and writes a token. @throws for another status. */
const use = async (url: string, directory: string): Promise<number> => {
  const server = await spawnServer(mkdtempSync(join(directory, 'upgraded-')), {
    DATABASE_URL: url,
    MASTER_KEY,
    ...TEST_MODE,
  });
  try {
    await untilReady(server);
    const ask = (method: string, path: string, key: string, body?: string) =>
      fetch(server.base_url + path, {
        method,
        headers: { 'svc-api-key': key, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body }),
      });
    const reads = recorded.filter(({ method, body }) => method === 'GET' && body.expires_at === undefined);
    if (reads.length === 0) throw new Error('the earlier server was asked for nothing');
    for (const { path, key, status, body } of reads) {
      const response = await ask('GET', path, key);
      if (response.status !== status) throw new Error(`${path} answered ${response.status}, and before ${status}`);
      const found = (await response.json()) as Body;
      // Lists have one more token by then.
      if (!Array.isArray(body.data) && !isDeepStrictEqual(valueOf(found), valueOf(body)))
        throw new Error(`${path} has another value than before`);
    }
    const made = await ask('POST', '/tokens', keys['first'] as string, JSON.stringify({ data: 'after the upgrade' }));
    if (made.status !== 201) throw new Error(`POST /tokens answered ${made.status}: ${await made.text()}`);
    return reads.length;
  } finally {
    server.child.kill('SIGTERM');
    await server.exited;
  }
};

/** A cluster whose database has the dump. */
const loadDump = async (coordinator: Node, workers: Node[], database: string): Promise<string> => {
  await makeCluster(coordinator, workers, database);
  const url = coordinator.url(database);
  await runOn(url, fixture(`vault-${VERSION}.sql`));
  return url;
};

export const upgradeEarlier = async (
  commands: Commands,
  directory: string,
  coordinator: Node,
  workers: Node[],
): Promise<void> => {
  const must = (url: string, args: string[]) => commands.must(url, args, TEST_MODE);
  const first = await loadDump(coordinator, workers, 'distributed_first');
  const early = (await listMigrations(migrations)).filter((name) => name <= FIRST_DISTRIBUTED);
  await migrate({ connectionString: first }, migrations, early);
  await distribute({ connectionString: first }, shardFunctions, () => undefined);
  must(first, ['migrate']);
  must(first, ['db', 'distribute']);
  const reads = await use(first, directory);
  must(first, ['migrate', '--contract']);
  must(first, ['doctor']);
  await use(first, directory);

  const last = await loadDump(coordinator, workers, 'distributed_last');
  must(last, ['migrate']);
  must(last, ['migrate', '--contract']);
  must(last, ['db', 'distribute']);
  must(last, ['doctor']);
  await use(last, directory);
  say(
    `the vault of ${VERSION} was distributed before and after its upgrade and contract step; ${reads} reads as before`,
  );
};
