// Start and stop as an operator sees them: files, messages and refusals.
// Three lanes of tests run concurrently. No more: executors of servers that run as root would share a limit of the system.
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { once } from 'node:events';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test as base } from 'vitest';
import { loadConfig } from '../src/platform/config.ts';
import { createDatabase, createEmptyDatabase, prepareDataDir, type TestDatabase } from './support/database.ts';
import {
  isAlive,
  postgresProcesses,
  root,
  runCommand,
  type ServerProcess,
  spawnServer,
  untilReady,
} from './support/process.ts';

const run = promisify(execFile);
const cli = (dataDir: string, args: string[], environment: Record<string, string> = {}) =>
  runCommand(args, { DATA_DIR: dataDir, ...environment });

const failing = (dataDir: string, args: string[], environment: Record<string, string> = {}) =>
  cli(dataDir, args, environment).then(
    () => expect.unreachable('the command succeeded'),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );

const query = async (database: TestDatabase, sql: string): Promise<unknown[]> => {
  const client = new Client(database.address);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
};

const pause = (ms: number) => new Promise((settle) => setTimeout(settle, ms));

type Place = {
  dataDir: string;
  database: TestDatabase;
  /** A server in the data directory. What is left of it is ended with the test. */
  start(environment?: Record<string, string>, command?: [string, ...string[]]): Promise<ServerProcess>;
};

/** Where a test is alone: a data directory and a migrated database, which only what is told of it uses. */
const test = base.extend<Place>({
  // vitest reads from the pattern what a fixture needs: nothing.
  // oxlint-disable-next-line no-empty-pattern
  dataDir: async ({}, use) => {
    const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-start-'));
    await use(dataDir);
    rmSync(dataDir, { recursive: true, force: true });
  },
  // oxlint-disable-next-line no-empty-pattern
  database: async ({}, use) => {
    const database = await createDatabase();
    await use(database);
    await database.drop();
  },
  start: async ({ dataDir }, use) => {
    const servers: ServerProcess[] = [];
    await use(async (environment, command) => {
      const server = await spawnServer(dataDir, environment, command);
      servers.push(server);
      return server;
    });
    for (const { child, exited } of servers) {
      child.kill();
      await exited;
    }
  },
});

describe.concurrent('a server with nothing configured', () => {
  let dataDir: string;
  let server: ServerProcess;
  beforeAll(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'strongroom-start-'));
    server = await spawnServer(dataDir);
    await untilReady(server);
  });
  afterAll(async () => {
    server.child.kill();
    await server.exited;
    rmSync(dataDir, { recursive: true, force: true });
  });

  const tokenize = (api_key: string) =>
    fetch(`${server.base_url}/tokenize`, {
      method: 'POST',
      headers: { 'svc-api-key': api_key, 'content-type': 'application/json' },
      body: '"x"',
    });

  test('credentials are in a file that only its owner reads, and work', async () => {
    const path = join(dataDir, 'dev-credentials.json');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const credentials = server.credentials();
    expect(Object.keys(credentials).sort()).toEqual(['api_key', 'application_id', 'base_url', 'tenant_id']);
    expect(credentials.base_url).toBe(server.base_url);
    expect((await tokenize(credentials.api_key)).status).toBe(200);
  });

  test('without a terminal the output is JSON lines, without the key', async ({ expect }) => {
    await expect.poll(() => server.output(), { timeout: 10_000 }).toContain('"listening"');
    const lines = server.output().trim().split('\n');
    for (const line of lines) expect(() => JSON.parse(line) as unknown, line).not.toThrow();
    expect(server.output()).not.toContain(server.credentials().api_key.split('_')[3]);
  });

  test('a second start on the data directory says so and exits', async () => {
    const second = await spawnServer(dataDir);
    expect(await second.exited).toBe(1);
    expect(second.output()).toContain('Another server is running');
    expect((await tokenize(server.credentials().api_key)).status).toBe(200);
  });

  test('a port in use is reported with the command that fixes it', async ({ database, start }) => {
    const second = await start({ DATABASE_URL: database.url, PORT: new URL(server.base_url).port });
    expect(await second.exited).toBe(1);
    expect(second.output()).toMatch(/Port \d+ .* taken[\s\S]*PORT=/);
  });

  test('the command line makes a tenant beside the running server, and prints one JSON line', async () => {
    const { stdout } = await cli(dataDir, ['tenants', 'create', '--name', 'Second', '--json']);
    expect(stdout.trim().split('\n')).toHaveLength(1);
    const made = JSON.parse(stdout);
    expect(Object.keys(made).sort()).toEqual(['api_key', 'application_id', 'tenant_id']);
    expect(made.tenant_id).not.toBe(server.credentials().tenant_id);
    expect((await tokenize(made.api_key)).status).toBe(200);
    const reader = await cli(dataDir, [
      'keys',
      'create',
      '--tenant',
      made.tenant_id,
      '--permissions',
      'token:read',
      '--json',
    ]);
    expect((await tokenize(JSON.parse(reader.stdout).api_key)).status).toBe(403);
  });

  test('the command line says what is wrong and exits with 1', async () => {
    const wrong = [
      ['tenants', 'create'],
      ['nonsense'],
      ['keys', 'create', '--permissions', 'token:fly'],
      ['bootstrap', '--tenant-name', 'X'],
      ['tenants', 'create', '--nope'],
    ].map(async (args) => {
      const failed = await cli(dataDir, args).then(
        () => ({ code: 0, stderr: '' }),
        (error: { code: number; stderr: string }) => error,
      );
      expect(failed.code, args.join(' ')).toBe(1);
      expect(failed.stderr).not.toMatch(/\n\s+at /);
    });
    await Promise.all(wrong);
  });

  test('doctor finds everything in order', async () => {
    const { stdout } = await cli(dataDir, ['doctor']);
    expect(stdout).not.toContain('✘');
    for (const name of ['Node', 'configuration', 'mail', 'database', 'root key', 'migrations', 'tenants'])
      expect(stdout).toContain(`✔ ${name}: `);
    expect(stdout).toMatch(/⚠ sandbox: |✔ sandbox: starts behind .*seccomp\n/);
  });

  test('mails are written to the outbox on their own, with a link to this server', async ({ expect }) => {
    const { api_key } = server.credentials();
    const invited = await fetch(`${server.base_url}/tenants/self/invitations`, {
      method: 'POST',
      headers: { 'svc-api-key': api_key, 'content-type': 'application/json' },
      body: '{"email":"ada@example.com"}',
    });
    expect(invited.status).toBe(201);
    const outbox = join(dataDir, 'outbox');
    const written = () => (existsSync(outbox) ? readdirSync(outbox).filter((file) => file.endsWith('.eml')) : []);
    await expect.poll(written, { timeout: 10_000 }).toHaveLength(1);
    const [name = ''] = written();
    expect(statSync(join(outbox, name)).mode & 0o777).toBe(0o600);
    const source = readFileSync(join(outbox, name), 'utf8');
    expect(source.split('\r\n')).toContainEqual(expect.stringMatching(new RegExp(`^${server.base_url}/join/\\w{32}$`)));
    await expect.poll(() => server.output(), { timeout: 10_000 }).toContain(JSON.stringify(join(outbox, name)));
    expect(server.output()).not.toContain('/join/');
  });

  // Each of these stops the server, and leaves one to the next.
  describe('and stopped', { concurrent: false }, () => {
    test('SIGTERM drains, exits 0, and Postgres is stopped; the second start has the same key', async () => {
      const before = server.credentials();
      const pids = postgresProcesses(dataDir);
      server.child.kill('SIGTERM');
      expect(await server.exited).toBe(0);
      expect(pids.filter(isAlive)).toEqual([]);
      server = await spawnServer(dataDir);
      await untilReady(server);
      expect(server.credentials()).toEqual({ ...before, base_url: server.base_url });
      expect((await tokenize(before.api_key)).status).toBe(200);
    });

    test('a lost file of credentials is written again, with a key of the same tenant', async () => {
      const path = join(dataDir, 'dev-credentials.json');
      const before = server.credentials();
      const losses = [() => rmSync(path), () => truncateSync(path, 40)];
      for (const lose of losses) {
        server.child.kill('SIGTERM');
        await server.exited;
        lose();
        server = await spawnServer(dataDir);
        await untilReady(server);
        const after = server.credentials();
        expect(after.tenant_id).toBe(before.tenant_id);
        expect(after.application_id).not.toBe(before.application_id);
        expect(statSync(path).mode & 0o777).toBe(0o600);
        for (const { api_key } of [before, after]) expect((await tokenize(api_key)).status).toBe(200);
      }
    });

    test('a start while the last server is stopping gets the data directory and its database', async () => {
      for (const delayMs of [0, 350, 600]) {
        const last = server;
        server = await spawnServer(dataDir);
        await pause(delayMs);
        last.child.kill('SIGTERM');
        expect(await last.exited).toBe(0);
        await untilReady(server);
        expect((await tokenize(server.credentials().api_key)).status).toBe(200);
        expect(last.output() + server.output()).not.toContain('lock_lost');
      }
    });

    test('a wrong root key on existing data is refused at the start, and nothing is written', async () => {
      server.child.kill('SIGTERM');
      await server.exited;
      const path = join(dataDir, 'master.key');
      const right = readFileSync(path, 'utf8');
      writeFileSync(path, `${Buffer.alloc(32, 1).toString('base64')}\n`);
      const refused = await spawnServer(dataDir);
      expect(await refused.exited).toBe(1);
      expect(refused.output()).toContain('The root key does not open this vault');
      expect((await failing(dataDir, ['doctor'])).stdout).toContain(
        '✘ root key: The root key does not open this vault',
      );
      // One character too many: what is lenient with it would find 32 bytes all the same.
      writeFileSync(path, right.replace(/^./, '$&!'));
      const garbled = await spawnServer(dataDir);
      expect(await garbled.exited).toBe(1);
      expect(garbled.output()).toContain('is not 32 bytes in base64');
      rmSync(path);
      const without = await spawnServer(dataDir);
      expect(await without.exited).toBe(1);
      expect(without.output()).toContain('The root key is missing');
      expect(readdirSync(dataDir).filter((name) => name.startsWith('master.key'))).toEqual([]);
      writeFileSync(path, right);
      server = await spawnServer(dataDir);
      await untilReady(server);
      expect((await tokenize(server.credentials().api_key)).status).toBe(200);
    });
  });
});

const made = async (server: ServerProcess, path: string, json: object): Promise<string> => {
  const answer = await post(server, path, json);
  expect(answer.status).toBe(201);
  return ((await answer.json()) as { id: string }).id;
};
const post = (server: ServerProcess, path: string, json: object) =>
  fetch(server.base_url + path, {
    method: 'POST',
    headers: { 'svc-api-key': server.credentials().api_key, 'content-type': 'application/json' },
    body: JSON.stringify(json),
  });
const code = `module.exports = async ({ args }) => {
await new Promise((resolve) => setTimeout(resolve, args.ms ?? 1e9));
return { raw: 'ended', tokenize: 'made' };
};`;

const startWith = async (
  { database, start }: Pick<Place, 'database' | 'start'>,
  environment: Record<string, string> = {},
) => {
  const server = await start({ DATABASE_URL: database.url, ...environment });
  await untilReady(server);
  const formula = await made(server, '/reactor-formulas', { name: 'Waits', type: 'private', code });
  const reactor = await made(server, '/reactors', { name: 'Waits', formula: { id: formula } });
  const react = (args: object) => post(server, `/reactors/${reactor}/react`, { args });
  // Its executor is there before the signal.
  expect((await react({ ms: 0 })).status).toBe(200);
  /** Resolves once the log has the use after that one: its code runs by then. */
  const running = async () => {
    const uses = `SELECT FROM audit_log WHERE operation = 'use' AND entity_type = 'reactor'`;
    while ((await query(database, uses)).length < 2) await pause(20);
  };
  return { server, react, running };
};

describe.concurrent('a signal', () => {
  // The first is logged when the database is being made, the second when it runs and has no tables yet.
  test.for(['postgres_initializing', 'postgres_ready', 'listening'])(
    'ends server and database after %s, also if repeated at once, as by a terminal and npm',
    async (line, { dataDir, start }) => {
      const server = await start();
      while (!server.output().includes(line)) await pause(5);
      // In the same moment, and while the first is being heeded. Of one kind the system would make the first two one.
      server.child.kill('SIGINT');
      server.child.kill('SIGTERM');
      await pause(30);
      server.child.kill('SIGINT');
      expect(await server.exited).toBe(0);
      expect(server.output()).toContain('postgres_stopped');
      expect(existsSync(join(dataDir, 'pg', 'postmaster.pid'))).toBe(false);
      expect(readdirSync(dataDir).toSorted()).toEqual(['dev-credentials.json', 'master.key', 'pg', 'postgres.log']);
    },
  );

  test('that comes again after a while ends it at once, and it says so', async ({ database, start }) => {
    const server = await start({ DATABASE_URL: database.url });
    await untilReady(server);
    const half = connect(
      Number(new URL(server.base_url).port),
      '127.0.0.1',
      () => void half.write('POST / HTTP/1.1\r\n'),
    );
    half.on('error', () => undefined);
    await pause(500);
    server.child.kill('SIGTERM');
    await pause(1200);
    server.child.kill('SIGTERM');
    expect(await server.exited).toBe(1);
    expect(server.output()).toContain('Ended by a second signal');
    half.destroy();
  });
});

const olderNode = (process.env['PATH'] ?? '')
  .split(':')
  .filter((directory) => !directory.includes('node_modules'))
  .map((directory) => join(directory, 'node'))
  .find(
    (path) =>
      existsSync(path) && Number(execFileSync(path, ['-p', 'process.versions.node']).toString().split('.')[0]) < 24,
  );

test
  .skipIf(olderNode === undefined)
  .concurrent(
    'an older Node hands over to the bundled one: the server, with its signals, and the command line',
    async ({ dataDir, start }) => {
      prepareDataDir(dataDir);
      const server = await start({}, [olderNode as string, join(root, 'dist/main.js')]);
      await untilReady(server);
      const pids = postgresProcesses(dataDir);
      server.child.kill('SIGINT');
      expect(await server.exited).toBe(0);
      expect(pids.filter(isAlive)).toEqual([]);
      const { stdout } = await run(olderNode as string, [join(root, 'bin/strongroom.cjs'), '--help']);
      expect(stdout).toContain('doctor');
    },
  );

describe.concurrent('a signal while connections are open', () => {
  test('half-sent requests do not keep a signal from ending the server', async ({ dataDir, start }) => {
    prepareDataDir(dataDir);
    const server = await start();
    await untilReady(server);
    const { api_key } = server.credentials();
    const head = `POST /tokenize HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: ${api_key}\r\nContent-Type: application/json\r\n`;
    const parts = ['', head, `${head}Content-Length: 1000\r\n\r\n"half`];
    const sockets = parts.map((part) => {
      const socket = connect(Number(new URL(server.base_url).port), '127.0.0.1', () => void socket.write(part));
      return socket.on('error', () => undefined);
    });
    await pause(500);
    const pids = postgresProcesses(dataDir);
    server.child.kill('SIGTERM');
    expect(await server.exited).toBe(0);
    expect(pids.filter(isAlive)).toEqual([]);
    for (const socket of sockets) socket.destroy();
  });

  test('cuts who sends half a request, and not who waits for code that runs longer than that', async ({
    database,
    start,
  }) => {
    const { server, react, running } = await startWith({ database, start });
    const half = connect(Number(new URL(server.base_url).port), '127.0.0.1');
    half.on('error', () => undefined);
    await new Promise<void>((resolve) => half.write('POST /tokenize HT', () => resolve()));
    const answering = react({ ms: 12_500 });
    await running();
    server.child.kill('SIGTERM');
    const answer = await answering;
    expect([answer.status, ((await answer.json()) as { raw: string }).raw]).toEqual([200, 'ended']);
    expect(await server.exited).toBe(0);
    half.destroy();
  });
});

describe.concurrent('a server with a database of its own', () => {
  describe('and a signal while code runs', { concurrent: false }, () => {
    test('lets it end and be answered, takes no other, and does not wait for idle connections', async ({
      expect,
      database,
      start,
    }) => {
      const { server, react, running } = await startWith({ database, start });
      const idle = connect(Number(new URL(server.base_url).port), '127.0.0.1');
      idle.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
      await once(idle, 'data');
      const answering = react({ ms: 2500 });
      let isAnswered = false;
      void answering.then(() => (isAnswered = true));
      await running();
      server.child.kill('SIGTERM');
      await once(idle.resume(), 'close');
      expect(isAnswered).toBe(false);
      await expect.poll(() => server.output(), { timeout: 10_000 }).toContain('"stopping"');
      // By a new connection or by one that is open still.
      expect(
        await react({ ms: 0 }).then(
          ({ status }) => status,
          () => 'refused',
        ),
      ).toBeOneOf([503, 'refused']);
      const answer = await answering;
      expect(answer.status).toBe(200);
      expect(await answer.json()).toEqual({ tokens: expect.any(String), raw: 'ended' });
      expect(await server.exited).toBe(0);
    });

    test('waits no longer than a run may take, and its caller hears that', async ({ database, start }) => {
      const { server, react, running } = await startWith({ database, start }, { SANDBOX_WALL_MS: '2000' });
      const answering = react({});
      await running();
      server.child.kill('SIGTERM');
      expect((await answering).status).toBe(408);
      expect(await server.exited).toBe(0);
    });
  });

  describe('the wall around the code of tenants', { concurrent: false }, () => {
    test.for(['auto', 'bwrap', 'landlock', 'none'] as const)(
      'as SANDBOX_JAIL=%s asks for it: doctor tells what a start does',
      async (wanted, { dataDir, database, start }) => {
        const environment = { DATABASE_URL: database.url, SANDBOX_JAIL: wanted };
        const server = await start(environment);
        await Promise.race([server.exited, untilReady(server).catch(() => undefined)]);
        const ready = await fetch(`${server.base_url}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        );
        const { code, stdout } = await cli(dataDir, ['doctor'], environment).then(
          (done) => ({ code: 0, ...done }),
          (failed: { code: number; stdout: string }) => failed,
        );
        const [told = ''] = stdout.split('\n').filter((line) => line.includes(' sandbox: '));
        if (!ready) {
          // Only a wall that was asked for by its name stops a start.
          expect(['bwrap', 'landlock']).toContain(wanted);
          expect(server.output()).toContain('The sandbox for the code of tenants does not start');
          expect([code, told]).toEqual([1, expect.stringMatching(/^✘ sandbox: .*SANDBOX_JAIL=auto/)]);
          return;
        }
        const wallOf = () => /"wall":"([^"]+)"/.exec(server.output())?.[1];
        while (wallOf() === undefined) await pause(20);
        const wall = wallOf();
        const first = { auto: '', bwrap: 'bubblewrap', landlock: 'Landlock', none: 'none' }[wanted];
        expect(wall).toMatch(new RegExp(`^${first}`));
        if (wall === 'none') expect(server.output()).toContain('"alarm":"no_wall"');
        const expected = wall === 'none' ? '^⚠ sandbox: no wall stands' : `^✔ sandbox: starts behind ${wall}$`;
        expect([code, told]).toEqual([0, expect.stringMatching(new RegExp(expected))]);
      },
    );
  });

  describe('pending migrations', { concurrent: false }, () => {
    test('are a failed check of doctor, which applies none', async ({ dataDir, start }) => {
      const database = await createEmptyDatabase();
      const environment = { DATABASE_URL: database.url };
      for (const MIGRATE_ON_START of ['true', 'false']) {
        const { code, stdout } = await failing(dataDir, ['doctor'], { ...environment, MIGRATE_ON_START });
        expect(code).toBe(1);
        expect(stdout).toMatch(/✘ migrations: .* pending .*npm run migrate/);
        expect(stdout).toContain('✔ root key');
        expect(stdout).toContain('npm run -s strongroom -- bootstrap');
      }
      const tables = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace";
      expect(await query(database, tables)).toEqual([]);
      expect(readdirSync(dataDir)).toEqual([]);

      const refused = await start({ ...environment, MIGRATE_ON_START: 'false' });
      expect(await refused.exited).toBe(1);
      expect(refused.output()).toContain('npm run migrate');
      await cli(dataDir, ['migrate'], environment);
      await cli(dataDir, ['bootstrap', '--tenant-name', 'First'], environment);
      await query(
        database,
        `DELETE FROM _prisma_migrations WHERE migration_name = (SELECT max(migration_name) FROM _prisma_migrations)`,
      );
      const behind = await failing(dataDir, ['doctor'], { ...environment, MIGRATE_ON_START: 'false' });
      expect(behind.stdout).toMatch(/✔ root key: opens[^]*✘ migrations: 1 of \d+ pending/);
      const early = await start({ ...environment, MIGRATE_ON_START: 'false' });
      expect(await early.exited).toBe(1);
      expect(early.output()).toMatch(/1 of \d+ migrations are pending \(\w+\).*npm run migrate/);
      await database.drop();
    });
  });

  describe('with DATABASE_URL set', { concurrent: false }, () => {
    test('the embedded database is never touched, and production needs its keys', async ({
      expect,
      dataDir,
      database,
      start,
    }) => {
      const production = { NODE_ENV: 'production', DATABASE_URL: database.url };
      const keyless = await start(production);
      expect(await keyless.exited).toBe(1);
      expect(keyless.output()).toMatch(/MASTER_KEY: .*openssl|MASTER_KEY: .*urandom/);

      const MASTER_KEY = Buffer.alloc(32, 5).toString('base64');
      const server = await start({ ...production, MASTER_KEY, SANDBOX_JAILL: 'bwrap' });
      await untilReady(server);
      // The log is written a moment after a line.
      await expect.poll(() => server.output(), { timeout: 10_000 }).toContain('"listening"');
      expect(server.output()).toMatch(/"warn".*no tenant: every API route answers 503.*bootstrap --tenant-name NAME/);
      expect(server.output()).toMatch(/"warn".*SANDBOX_JAILL is no variable .* did you mean SANDBOX_JAIL\?/);
      expect(server.output()).toContain('the console and the proxy share one host');
      expect(server.output()).toMatch(/"warn".*the frames that collect cards share a host .* set FIELDS_ORIGIN/);
      expect(await (await fetch(`${server.base_url}/readyz`)).json()).toEqual({
        status: 'ok',
        initialized: false,
      });
      expect((await fetch(`${server.base_url}/tokens/x`)).status).toBe(503);
      const made = JSON.parse(
        (await cli(dataDir, ['bootstrap', '--tenant-name', 'First', '--json'], { ...production, MASTER_KEY })).stdout,
      );
      expect(made.api_key).toMatch(/^svc_live_[0-9A-Za-z]{16}_[0-9A-Za-z]{39}$/);
      const answer = await fetch(`${server.base_url}/tokenize`, {
        method: 'POST',
        headers: { 'svc-api-key': made.api_key, 'content-type': 'application/json' },
        body: '"x"',
      });
      expect(answer.status).toBe(200);
      expect(() => statSync(join(dataDir, 'pg'))).toThrow();
      expect(() => statSync(join(dataDir, 'dev-credentials.json'))).toThrow();
      server.child.kill('SIGTERM');
      expect(await server.exited).toBe(0);
      // It drains without being told to: DRAIN_SECONDS is not set.
      expect(server.output()).toMatch(/"seconds":5.*"draining"|"draining".*"seconds":5/);

      // A development server must not open what production sealed, nor the other way round.
      const other = await start({ DATABASE_URL: database.url, MASTER_KEY });
      expect(await other.exited).toBe(1);
      expect(other.output()).toContain('belongs to a production vault');
      const keylessOther = await start({ DATABASE_URL: database.url });
      expect(await keylessOther.exited).toBe(1);
      expect(keylessOther.output()).toContain('belongs to a production vault');
      expect(readdirSync(dataDir)).toEqual([]);
    });

    test('a deployment supplies the first key in a file; a typo in it stops the start', async ({
      dataDir,
      database,
      start,
    }) => {
      const environment = {
        DATABASE_URL: database.url,
        MASTER_KEY: Buffer.alloc(32, 6).toString('base64'),
        BOOTSTRAP_API_KEY_FILE: join(dataDir, 'key'),
      };
      writeFileSync(environment.BOOTSTRAP_API_KEY_FILE, 'svc_test_typo');
      const refused = await start(environment);
      expect(await refused.exited).toBe(1);
      expect(refused.output()).toContain('BOOTSTRAP_API_KEY_FILE');
      expect(refused.output()).not.toContain('svc_test_typo');
    });
  });

  describe('the root key of a development server', { concurrent: false }, () => {
    const keyFiles = (dataDir: string) => readdirSync(dataDir).filter((name) => name.startsWith('master.key'));

    test('is kept before the vault that needs it exists, and the next start goes on with it', async ({
      dataDir,
      database,
      start,
    }) => {
      const environment = { DATABASE_URL: database.url };
      // The start fails where the vault is written, which is where a crash would lose a key that is kept later.
      await query(database, 'REVOKE INSERT ON instance FROM CURRENT_USER');
      const failed = await start(environment);
      expect(await failed.exited).toBe(1);
      expect(failed.output()).toContain('This failure is unexpected');
      expect(failed.output()).not.toMatch(/permission denied|INSERT/);
      expect(keyFiles(dataDir)).toEqual(['master.key']);
      const path = join(dataDir, 'master.key');
      expect(statSync(path).mode & 0o777).toBe(0o600);
      const key = readFileSync(path, 'utf8');
      await query(database, 'GRANT INSERT ON instance TO CURRENT_USER');
      const server = await start(environment);
      await untilReady(server);
      expect(readFileSync(path, 'utf8')).toBe(key);
      server.child.kill('SIGTERM');
      expect(await server.exited).toBe(0);
    });

    test('is one for servers that start at once', async ({ dataDir, database, start }) => {
      const servers = await Promise.all([1, 2, 3].map(() => start({ DATABASE_URL: database.url })));
      await Promise.all(servers.map(untilReady));
      expect(keyFiles(dataDir)).toEqual(['master.key']);
      for (const { child } of servers) child.kill('SIGTERM');
      expect(await Promise.all(servers.map(({ exited }) => exited))).toEqual([0, 0, 0]);
    });
  });
});

test.concurrent('a database that does not answer is reported with a command that checks it', async ({ start }) => {
  const refused = await start({ DATABASE_URL: 'postgresql://user:hidden-password@127.0.0.1:9/none' });
  expect(await refused.exited).toBe(1);
  expect(refused.output()).toContain(
    'The database cannot be used: nothing listens there (ECONNREFUSED). Tried: 127.0.0.1:9, user "user", database "none".',
  );
  expect(refused.output()).not.toContain('hidden-password');
});

test.concurrent('a data directory below /proc is refused at once', async ({ start }) => {
  const refused = await start({ DATA_DIR: '/proc/strongroom/data' });
  const ended = await Promise.race([refused.exited, pause(20_000).then(() => 'still running')]);
  if (ended === 'still running') refused.child.kill('SIGKILL');
  expect(ended).toBe(1);
  expect(refused.output()).toContain('The data directory /proc/strongroom/data cannot be created (ENOENT)');
});

test.concurrent('all problems of the environment are reported at once, each with its fix', async ({ start }) => {
  const refused = await start({
    PORT: '99999',
    MASTER_KEY: 'short',
    CVC_TTL: '48h',
    DATABASE_URL: 'mysql://x',
    HOST: '0.0.0.0',
  });
  expect(await refused.exited).toBe(1);
  for (const name of ['PORT', 'MASTER_KEY', 'CVC_TTL', 'DATABASE_URL'])
    expect(refused.output()).toContain(`- ${name}:`);
});

test('a root key is 32 bytes in base64, base64url or hex, written out whole', () => {
  const key = Buffer.from(Array.from({ length: 32 }, (_, index) => (index * 37 + 251) % 256));
  const written = key.toString('base64');
  for (const text of [written, written.slice(0, -1), key.toString('base64url'), key.toString('hex'), `${written}\n`])
    expect(loadConfig({ MASTER_KEY: text }).rootKey?.equals(key), text).toBe(true);
  const mixed = `-${written.slice(1, 20)}+${written.slice(21)}`;
  const notWhole = `${written.slice(0, 42)}B=`;
  for (const text of [
    `${written.slice(0, 20)} ${written.slice(20)}`,
    `!${written}`,
    `${written}=`,
    `${written}AAAA`,
  ].concat(written.slice(1), mixed, notWhole, key.toString('hex').slice(1), key.subarray(1).toString('base64')))
    expect(() => loadConfig({ MASTER_KEY: text }), text).toThrow('MASTER_KEY: must be 32 random bytes');
});
