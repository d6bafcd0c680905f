// Names that the operator gives on the command line, and ids and names of earlier versions that `doctor` counts.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callCommand } from './support/command.ts';
import { startServer, TEST_ROOT_KEY, type TestServer } from './support/server.ts';

let server: TestServer;
const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-names-'));
beforeAll(async () => {
  server = await startServer();
});
afterAll(async () => {
  await server.close();
  rmSync(dataDir, { recursive: true, force: true });
});

const command = (...args: string[]) =>
  callCommand(args, { env: { DATA_DIR: dataDir, DATABASE_URL: server.databaseUrl, MASTER_KEY: TEST_ROOT_KEY } });

const REFUSED = 'The name must not have blanks at its ends, line ends or other control characters.';

test.each([
  ['tenants create', () => ['tenants', 'create']],
  ['keys create', () => ['keys', 'create', '--tenant', server.tenant.tenant_id]],
  ['api-keys add', () => ['api-keys', 'add', server.tenant.application_id, '--tenant', server.tenant.tenant_id]],
])('%s refuses a name with blanks at its ends or controls', async (_name, args) => {
  for (const name of [' x', 'x ', 'x\u0007', 'x\ny']) {
    const { code, stdout, stderr } = await command(...args(), '--name', name);
    expect([code, stdout, stderr.trim()]).toEqual([1, '', REFUSED]);
  }
  expect((await command(...args(), '--name', 'größe 7')).code).toBe(0);
});

test('doctor counts ids and names of earlier versions that would be refused today', async () => {
  const lineOf = async (): Promise<string | undefined> =>
    (await command('doctor')).stdout.split('\n').find((line) => line.includes('ids and names'));
  const make = async (id: string) =>
    expect((await server.request('POST', '/tokens', { json: { id, data: 'x' } })).status).toBe(201);
  for (const id of ['größe 7', 'a:b', 'plain-1', 'first', 'second', 'third']) await make(id);
  expect(await lineOf()).toBe('✔ ids and names: have the form of today');
  const rename = (from: string, to: string) =>
    server.sql('UPDATE tokens SET id = $2 WHERE id = $1 AND tenant_id = $3', [from, to, server.tenant.tenant_id]);
  await rename('first', ' first');
  await rename('second', 'token:second');
  await rename('third', 'third{');
  await server.sql("UPDATE applications SET name = name || ' ' WHERE id = $1", [server.tenant.application_id]);
  await server.sql(`UPDATE tenants SET settings = '{"x ": "y"}' WHERE id = $1`, [server.tenant.tenant_id]);
  expect(await lineOf()).toMatch(/^⚠ ids and names: 3 ids of tokens and 2 names of records or settings have a form/);
  expect((await command('doctor')).stdout).not.toContain('second');
  // More than it looks at.
  const { tenant_id } = server.tenant;
  const many = `SELECT jsonb_object_agg('key ' || n || ' ', n) FROM generate_series(1, 10000) AS n`;
  await server.sql(`UPDATE tenants SET settings = (${many}) WHERE id = $1`, [tenant_id]);
  expect(await lineOf()).toMatch(/: at least 3 ids of tokens and (?:99\d\d|10000) names.*Only 10,000 unusual ids/);
  // They stay readable.
  expect((await server.request('GET', `/tokens/${encodeURIComponent(' first')}`)).status).not.toBe(400);
});
