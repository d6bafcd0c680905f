// Starting and stopping as an operator sees it: what is written, what is told, what is refused.
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase } from './support/database.ts';
import { isAlive, postgresProcesses, root, type ServerProcess, spawnServer, untilReady } from './support/process.ts';

const run = promisify(execFile);
const cli = (dataDir: string, args: string[], environment: Record<string, string> = {}) =>
  run(process.execPath, [join(root, 'src/cli/main.ts'), ...args], {
    cwd: root,
    env: { PATH: process.env['PATH'], DATA_DIR: dataDir, ...environment },
  });

describe('with nothing configured', () => {
  let dataDir: string;
  let server: ServerProcess;
  beforeAll(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'strongroom-start-'));
    server = await spawnServer(dataDir);
    await untilReady(server);
  });
  afterAll(async () => {
    server.child.kill('SIGKILL');
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

  test('without a terminal the output is JSON lines, without the key', async () => {
    await expect.poll(() => server.output()).toContain('"listening"');
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

  test('a port that is taken is told with the command that mends it', async () => {
    const other = mkdtempSync(join(tmpdir(), 'strongroom-port-'));
    const second = await spawnServer(other, { PORT: new URL(server.base_url).port });
    expect(await second.exited).toBe(1);
    expect(second.output()).toMatch(/Port \d+ .* taken[\s\S]*PORT=/);
    rmSync(other, { recursive: true, force: true });
  });

  test('the command line makes a further tenant beside the running server, and prints one JSON line', async () => {
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
    for (const args of [
      ['tenants', 'create'],
      ['nonsense'],
      ['keys', 'create', '--permissions', 'token:fly'],
      ['bootstrap', '--tenant-name', 'X'],
      ['tenants', 'create', '--nope'],
    ]) {
      const failed = await cli(dataDir, args).then(
        () => ({ code: 0, stderr: '' }),
        (error: { code: number; stderr: string }) => error,
      );
      expect(failed.code, args.join(' ')).toBe(1);
      expect(failed.stderr).not.toMatch(/\n\s+at /);
    }
  });

  test('doctor finds everything in order', async () => {
    const { stdout } = await cli(dataDir, ['doctor']);
    expect(stdout).not.toContain('✘');
    expect(stdout).toContain('✔ database and root key');
  });

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

  test('a wrong root key on existing data is refused at the start, and nothing is written', async () => {
    server.child.kill('SIGTERM');
    await server.exited;
    const path = join(dataDir, 'master.key');
    const right = readFileSync(path, 'utf8');
    writeFileSync(path, `${Buffer.alloc(32, 1).toString('base64')}\n`);
    const refused = await spawnServer(dataDir);
    expect(await refused.exited).toBe(1);
    expect(refused.output()).toContain('The root key does not open this vault');
    rmSync(path);
    const without = await spawnServer(dataDir);
    expect(await without.exited).toBe(1);
    expect(() => statSync(path)).toThrow();
    writeFileSync(path, right);
    server = await spawnServer(dataDir);
    await untilReady(server);
    expect((await tokenize(server.credentials().api_key)).status).toBe(200);
  });
});

describe('with DATABASE_URL set', () => {
  test('the embedded database is never touched, and production needs its keys', async () => {
    const database = await createDatabase();
    const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-url-'));
    const production = { NODE_ENV: 'production', DATABASE_URL: database.url };
    const keyless = await spawnServer(dataDir, production);
    expect(await keyless.exited).toBe(1);
    expect(keyless.output()).toMatch(/MASTER_KEY: .*openssl|MASTER_KEY: .*urandom/);

    const MASTER_KEY = Buffer.alloc(32, 5).toString('base64');
    const server = await spawnServer(dataDir, { ...production, MASTER_KEY });
    await untilReady(server);
    expect(await (await fetch(`${server.base_url}/readyz`)).json()).toEqual({ status: 'ok', initialized: false });
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

    // A development server must not open what production sealed, nor the other way round.
    const other = await spawnServer(dataDir, { DATABASE_URL: database.url, MASTER_KEY });
    expect(await other.exited).toBe(1);
    expect(other.output()).toContain('belongs to a production vault');
    await database.drop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  test('a deployment supplies the first key in a file; a typo in it stops the start', async () => {
    const database = await createDatabase();
    const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-bootstrap-'));
    const environment = {
      DATABASE_URL: database.url,
      MASTER_KEY: Buffer.alloc(32, 6).toString('base64'),
      BOOTSTRAP_API_KEY_FILE: join(dataDir, 'key'),
    };
    writeFileSync(environment.BOOTSTRAP_API_KEY_FILE, 'svc_test_typo');
    const refused = await spawnServer(dataDir, environment);
    expect(await refused.exited).toBe(1);
    expect(refused.output()).toContain('BOOTSTRAP_API_KEY_FILE');
    expect(refused.output()).not.toContain('svc_test_typo');
    await database.drop();
    rmSync(dataDir, { recursive: true, force: true });
  });
});

test('a database that does not answer is told with the command that looks at it', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-away-'));
  const refused = await spawnServer(dataDir, { DATABASE_URL: 'postgresql://user:hidden-password@127.0.0.1:9/none' });
  expect(await refused.exited).toBe(1);
  expect(refused.output()).toContain('The database does not answer (ECONNREFUSED)');
  expect(refused.output()).not.toContain('hidden-password');
  rmSync(dataDir, { recursive: true, force: true });
});

test('every problem of the environment is told at once, each with its fix', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-config-'));
  const refused = await spawnServer(dataDir, {
    PORT: '99999',
    MASTER_KEY: 'short',
    CVC_TTL: '48h',
    DATABASE_URL: 'mysql://x',
    HOST: '0.0.0.0',
  });
  expect(await refused.exited).toBe(1);
  for (const name of ['PORT', 'MASTER_KEY', 'CVC_TTL', 'DATABASE_URL'])
    expect(refused.output()).toContain(`- ${name}:`);
  rmSync(dataDir, { recursive: true, force: true });
});
