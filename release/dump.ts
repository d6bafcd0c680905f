// Makes the fixtures of a version for test/upgrade.test.ts: a filled vault as SQL, its answers, and the statements of its server.
// Usage: npm run release-dump -- VERSION [DIRECTORY]   with the PostgreSQL 15 of PG_BIN, which the script starts and removes.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stopChild, untilReady } from '../bench/servers.ts';
import { freePort } from '../test/support/process.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
/** The oldest version that is supported: a dump of it runs on later ones. */
const programs = process.env['PG_BIN'] ?? '/usr/lib/postgresql/15/bin';
/** The root key of all test servers (TEST_ROOT_KEY): the vault has test values only. */
const MASTER_KEY = Buffer.alloc(32, 7).toString('base64');
/** nobody and nogroup, because PostgreSQL does not run as root. */
const NOBODY = 65_534;
const OUTPUT_BYTES_MAX = 1 << 26;

const [version = '', directory = join(root, 'test/fixtures')] = process.argv.slice(2);
const refuse = (reason: string): never => {
  console.error(reason);
  process.exit(1);
};
if (!/^\w[\w.-]*$/.test(version)) refuse('Name the version: npm run release-dump -- VERSION');
if (!existsSync(join(programs, 'pg_dump')))
  refuse(`There is no pg_dump in ${programs}. Name the directory of a PostgreSQL 15: PG_BIN=...`);
if (!existsSync(join(root, 'dist/main.js'))) refuse('Build first: npm run build');
const to = (name: string): string => join(directory, name);
if (existsSync(to(`vault-${version}.sql`)))
  refuse(`${to(`vault-${version}.sql`)} exists, and a dump is never changed.`);

const work = mkdtempSync(join(tmpdir(), 'strongroom-dump-'));
const cluster = join(work, 'pg');
const isRoot = process.geteuid?.() === 0;
const asUser = isRoot ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'] : [];
const logFile = join(work, 'statements.log');
const port = await freePort();
const url = `postgresql://strongroom@127.0.0.1:${port}/postgres`;
const environment = {
  PATH: process.env['PATH'],
  DATABASE_URL: url,
  MASTER_KEY,
  DATA_DIR: join(work, 'data'),
  LOG_LEVEL: 'warn',
};

const command = (...args: string[]): string =>
  execFileSync(process.execPath, [join(root, 'bin/strongroom.cjs'), ...args], {
    cwd: work,
    env: environment,
    encoding: 'utf8',
  });

/** The texts that the server prepared, by the name that it gives them or by a number, from PostgreSQL's log. */
const readStatements = (): Record<string, string> => {
  const found = new Map<string, string>();
  // Lines of one entry after the first begin with a tab.
  for (const entry of readFileSync(logFile, 'utf8').split(/\n(?!\t)/)) {
    const [, name = '', logged = ''] = /execute ([^:\n]+): ([^]*)$/.exec(entry) ?? [];
    const text = logged.replaceAll('\n\t', '\n').trim();
    if (!/^(?:select|insert|update|delete|with)\b/i.test(text) || [...found.values()].includes(text)) continue;
    found.set(name === '<unnamed>' || found.has(name) ? `${found.size} ${name}` : name, text);
  }
  return Object.fromEntries([...found].toSorted(([one], [other]) => one.localeCompare(other, 'en')));
};

try {
  mkdirSync(cluster);
  if (isRoot) for (const path of [work, cluster]) chownSync(path, NOBODY, NOBODY);
  const options = ['--auth=trust', '--username=strongroom', '--encoding=UTF8', '--locale=C', '--no-sync'];
  const [program = '', ...prefix] = [...asUser, join(programs, 'initdb'), ...options, '-D', cluster];
  const made = spawnSync(program, prefix, { encoding: 'utf8', cwd: '/' });
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const settings = ['fsync=off', 'unix_socket_directories=', 'log_min_duration_statement=0', 'log_line_prefix='];
  const [start = '', ...parameters] = [
    ...asUser,
    join(programs, 'postgres'),
    '-D',
    cluster,
    '-p',
    String(port),
    ...settings.flatMap((setting) => ['-c', setting]),
  ];
  const log = openSync(logFile, 'w');
  const postgres = spawn(start, parameters, { stdio: ['ignore', log, log], cwd: '/' });
  try {
    while (spawnSync(join(programs, 'pg_isready'), ['-q', '-d', url]).status !== 0) {
      if (postgres.exitCode !== null) throw new Error(`PostgreSQL ended: ${readFileSync(logFile, 'utf8')}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const httpPort = await freePort();
    const base_url = `http://127.0.0.1:${httpPort}`;
    const server = spawn(process.execPath, ['--disable-sigusr1', join(root, 'bin/start.cjs')], {
      cwd: work,
      env: { ...environment, PORT: String(httpPort) },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    try {
      await untilReady(`${base_url}/readyz`, server);
      const first = JSON.parse(readFileSync(join(work, 'data/dev-credentials.json'), 'utf8')) as Record<string, string>;
      command('formulas', 'install');
      const other = JSON.parse(command('tenants', 'create', '--name', 'Other', '--json')) as { api_key: string };
      const invite = ['owner', 'invite', '--email', 'owner@example.com', '--tenant', first['tenant_id'] as string];
      const { owner_link } = JSON.parse(command(...invite, '--json')) as { owner_link: string };
      const fill = [join(root, 'test/fixtures/fill-vault.ts'), base_url, first['api_key'] as string, other.api_key];
      const answers = execFileSync(process.execPath, [...fill, owner_link], {
        encoding: 'utf8',
        maxBuffer: OUTPUT_BYTES_MAX,
      });
      writeFileSync(to(`vault-${version}.json`), answers);
    } finally {
      await stopChild(server);
    }
    const dump = execFileSync(
      join(programs, 'pg_dump'),
      ['--inserts', '--rows-per-insert=100', '--no-owner', `--dbname=${url}`],
      { encoding: 'utf8', maxBuffer: OUTPUT_BYTES_MAX },
    );
    const sql = dump
      .replaceAll(/^\\.*\n/gm, '')
      // The heading of each object, which its statement repeats.
      .replaceAll(/^--\n-- .*\n--\n\n+/gm, '')
      .replaceAll(/^((?:GRANT|REVOKE) .*(?:TO|FROM)) strongroom;$/gm, '$1 CURRENT_USER;');
    writeFileSync(to(`vault-${version}.sql`), sql);
    const statements = readStatements();
    writeFileSync(to(`statements-${version}.json`), `${JSON.stringify(statements, null, 1)}\n`);
    console.log(
      `Made vault-${version}.sql, vault-${version}.json and statements-${version}.json, with ${Object.keys(statements).length} statements, in ${directory}.`,
    );
    console.log(`Add the version to the table in test/upgrade.test.ts.`);
  } finally {
    postgres.kill('SIGINT');
    if (postgres.exitCode === null) await once(postgres, 'exit');
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}
