// A backup of an embedded database, and the verification of a backup.
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { KEPT_TABLES } from '../../src/platform/base/tables.ts';
import { type Ended, runToEnd, shareBackups } from '../support/backups.ts';
import { spawnServer, untilReady } from '../support/process.ts';

const here = shareBackups();

test('an embedded database is backed up beside its server, and restored into another directory', async () => {
  const [from, to] = [here.backups.fileNamed('from'), here.backups.fileNamed('to')];
  const source = await spawnServer(from);
  await untilReady(source);
  const { api_key } = source.credentials();
  const headers = { 'svc-api-key': api_key, 'content-type': 'application/json' };
  const body = JSON.stringify({ type: 'token', data: 'embedded' });
  const created = await fetch(`${source.base_url}/tokenize`, { method: 'POST', headers, body });
  const { id } = (await created.json()) as { id: string };
  const file = here.backups.fileNamed('embedded.age');
  const command = (DATA_DIR: string, ...args: string[]): Promise<Ended> =>
    runToEnd(args, { DATA_DIR }, here.backups.directory);
  expect((await command(from, 'backup', file, '--to', here.backups.recipient)).code).toBe(0);
  const beside = await command(from, 'restore', file, '--identity', here.backups.identityFile);
  expect([beside.code, beside.stderr]).toEqual([1, expect.stringContaining('Another server is running')]);
  source.child.kill();
  await source.exited;

  const keyless = await command(to, 'restore', file, '--identity', here.backups.identityFile);
  expect([keyless.code, keyless.stderr]).toEqual([1, expect.stringContaining('There is no root key')]);
  mkdirSync(to);
  copyFileSync(join(from, 'master.key'), join(to, 'master.key'));
  const restored = await command(to, 'restore', file, '--identity', here.backups.identityFile);
  expect([restored.code, restored.stdout]).toEqual([0, expect.stringContaining('Restored: ')]);
  const target = await spawnServer(to);
  await untilReady(target);
  const read = await fetch(`${target.base_url}/tokens/${id}`, { headers });
  expect([read.status, ((await read.json()) as { data: string }).data]).toEqual([200, 'embedded']);
  target.child.kill();
  await target.exited;
});

test('a verification opens tokens of every tenant, and leaves no database behind', async () => {
  const second = await here.server.newTenant();
  await here.server.tokenize({ type: 'token', data: 'of the second' }, second.api_key);
  const file = await here.backups.backUp(here.server.databaseUrl, 'verified.age');
  const databases = 'SELECT datname FROM pg_database WHERE datname LIKE $1';
  const { code, stdout } = await here.backups.restore(here.server.databaseUrl, file, '--verify');
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(
      new RegExp(
        `rows in ${KEPT_TABLES.length} tables, as the manifest says\\. \\d+ sampled tokens of \\d+ tenants open\\.`,
      ),
    ),
  ]);
  expect(await here.server.sql(databases, ['strongroom_verify_%'])).toEqual([]);
  // A token of another place does not open: the report says so.
  const [{ id }] = await here.server.sql('SELECT id FROM tokens WHERE tenant_id = $1', [second.tenant_id]);
  await here.server.sql("UPDATE tokens SET sealed = sealed || '\\x00' WHERE tenant_id = $1 AND id = $2", [
    second.tenant_id,
    id,
  ]);
  const broken = await here.backups.backUp(here.server.databaseUrl, 'broken.age');
  const failed = await here.backups.restore(here.server.databaseUrl, broken, '--verify');
  expect([failed.code, failed.stdout]).toEqual([
    1,
    expect.stringContaining(`tenant ${second.tenant_id}: 1 of 1 sampled tokens do not open`),
  ]);
  expect(await here.server.sql(databases, ['strongroom_verify_%'])).toEqual([]);
});
