// Names that the operator gives on the command line.
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
