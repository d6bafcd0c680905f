// A first start as an operator sees it, with nothing configured: files, messages, the command line and mails.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { cli, shareServer, test } from '../support/place.ts';
import { spawnServer } from '../support/process.ts';

describe.concurrent('a server with nothing configured', () => {
  const here = shareServer();

  test('credentials are in a file that only its owner reads, and work', async () => {
    const path = join(here.dataDir, 'dev-credentials.json');
    const keyPath = join(here.dataDir, 'dev-api-key');
    for (const file of [path, keyPath]) expect(statSync(file).mode & 0o777).toBe(0o600);
    const credentials = here.server.credentials();
    expect(readFileSync(keyPath, 'utf8')).toBe(`${credentials.api_key}\n`);
    expect(Object.keys(credentials).sort()).toEqual(['api_key', 'application_id', 'base_url', 'tenant_id']);
    expect(credentials.base_url).toBe(here.server.base_url);
    expect((await here.tokenize(credentials.api_key)).status).toBe(200);
  });

  test('without a terminal the output is JSON lines, without the key', async ({ expect }) => {
    await expect.poll(() => here.server.output(), { timeout: 10_000 }).toContain('"listening"');
    const lines = here.server.output().trim().split('\n');
    for (const line of lines) expect(() => JSON.parse(line) as unknown, line).not.toThrow();
    const start = lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'development server');
    expect(start).toMatchObject({
      credentials: join(here.dataDir, 'dev-credentials.json'),
      console_url: `${here.server.base_url}/console`,
      console_invite: expect.stringContaining('owner invite'),
    });
    const { stdout } = await promisify(execFile)('sh', ['-c', `${start.curl} -s`]);
    expect(JSON.parse(stdout)).toEqual({ note: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    expect(here.server.output()).not.toContain(here.server.credentials().api_key.split('_')[3]);
  });

  test('a second start on the data directory says so and exits', async () => {
    const second = await spawnServer(here.dataDir);
    expect(await second.exited).toBe(1);
    expect(second.output()).toContain('Another server is running');
    expect((await here.tokenize()).status).toBe(200);
  });

  test('a port in use is reported with the command that fixes it', async ({ database, start }) => {
    const second = await start({ DATABASE_URL: database.url, PORT: new URL(here.server.base_url).port });
    expect(await second.exited).toBe(1);
    expect(second.output()).toMatch(/Port \d+ .* taken[\s\S]*PORT=/);
  });

  test('the command line makes a tenant beside the running server, and prints one JSON line', async () => {
    const { stdout } = await cli(here.dataDir, ['tenants', 'create', '--name', 'Second', '--json']);
    expect(stdout.trim().split('\n')).toHaveLength(1);
    const made = JSON.parse(stdout);
    expect(Object.keys(made).sort()).toEqual(['api_key', 'application_id', 'tenant_id']);
    expect(made.tenant_id).not.toBe(here.server.credentials().tenant_id);
    expect((await here.tokenize(made.api_key)).status).toBe(200);
    const reader = await cli(here.dataDir, [
      'keys',
      'create',
      '--tenant',
      made.tenant_id,
      '--permissions',
      'token:read',
      '--json',
    ]);
    expect((await here.tokenize(JSON.parse(reader.stdout).api_key)).status).toBe(403);
  });

  test('the command line says what is wrong and exits with 1', async () => {
    const wrong = [
      ['tenants', 'create'],
      ['nonsense'],
      ['keys', 'create', '--permissions', 'token:fly'],
      ['bootstrap', '--tenant-name', 'X'],
      ['tenants', 'create', '--nope'],
    ].map(async (args) => {
      const failed = await cli(here.dataDir, args).then(
        () => ({ code: 0, stderr: '' }),
        (error: { code: number; stderr: string }) => error,
      );
      expect(failed.code, args.join(' ')).toBe(1);
      expect(failed.stderr).not.toMatch(/\n\s+at /);
    });
    await Promise.all(wrong);
  });

  test('doctor finds everything in order', async () => {
    const { stdout } = await cli(here.dataDir, ['doctor']);
    expect(stdout).not.toContain('✘');
    for (const name of ['Node', 'configuration', 'mail', 'database', 'root key', 'migrations', 'tenants'])
      expect(stdout).toContain(`✔ ${name}: `);
    expect(stdout).toMatch(/⚠ sandbox: |✔ sandbox: starts behind .*seccomp\n/);
  });

  test('mails are written to the outbox on their own, with a link to this server', async ({ expect }) => {
    const { api_key } = here.server.credentials();
    const invited = await fetch(`${here.server.base_url}/tenants/self/invitations`, {
      method: 'POST',
      headers: { 'svc-api-key': api_key, 'content-type': 'application/json' },
      body: '{"email":"ada@example.com"}',
    });
    expect(invited.status).toBe(201);
    const outbox = join(here.dataDir, 'outbox');
    const written = () => (existsSync(outbox) ? readdirSync(outbox).filter((file) => file.endsWith('.eml')) : []);
    await expect.poll(written, { timeout: 10_000 }).toHaveLength(1);
    const [name = ''] = written();
    expect(statSync(join(outbox, name)).mode & 0o777).toBe(0o600);
    const source = readFileSync(join(outbox, name), 'utf8');
    expect(source.split('\r\n')).toContainEqual(
      expect.stringMatching(new RegExp(`^${here.server.base_url}/join/\\w{32}$`)),
    );
    await expect.poll(() => here.server.output(), { timeout: 10_000 }).toContain(JSON.stringify(join(outbox, name)));
    expect(here.server.output()).not.toContain('/join/');
  });
});
