// The end of an upgrade: refused while an old process is connected, noticed by servers, and over from the start in a new vault.
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { contract } from '../../src/contract.ts';
import { lowerWalls } from '../../src/platform/db/tenant-walls.ts';
import { startServer, type TestServer } from '../support/server.ts';

let server: TestServer;

beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const ended = () => server.sql('SELECT contracted_at, new_forms_at FROM instance');

test('a new vault needs none', async () => {
  expect(server.ctx.contract.isDone()).toBe(true);
  expect(await ended()).toEqual([{ contracted_at: expect.any(Date), new_forms_at: expect.any(Date) }]);
});

test('is refused while a process of the earlier version is connected, and changes nothing', async () => {
  await server.sql('UPDATE instance SET contracted_at = NULL, new_forms_at = NULL');
  await lowerWalls((text, values) => server.sql(text, values));
  const other = await startServer({ DATABASE_URL: server.databaseUrl });
  try {
    expect(other.ctx.contract.isDone()).toBe(false);
    const old = new Client({
      connectionString: server.databaseUrl,
      application_name: 'strongroom notices',
    });
    await old.connect();
    // A process of the earlier version names no tenant.
    const see = async () => (await old.query('SELECT 1 FROM tenants')).rowCount;
    expect(await see()).toBeGreaterThan(0);
    await expect(contract(server.ctx, () => undefined, { isAlone: false })).rejects.toThrow('1 connections');
    expect(await ended()).toEqual([{ contracted_at: null, new_forms_at: null }]);
    await old.end();

    await contract(server.ctx, () => undefined, { isAlone: false });
    const late = new Client({ connectionString: server.databaseUrl });
    await late.connect();
    expect((await late.query('SELECT 1 FROM tenants')).rowCount).toBe(0);
    await late.end();
    expect(await ended()).toEqual([{ contracted_at: expect.any(Date), new_forms_at: expect.any(Date) }]);
    expect(other.ctx.contract.isDone()).toBe(true);
  } finally {
    await other.close();
  }
});
