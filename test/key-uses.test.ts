// When API keys were used last: shown by the API and the console, written outside of requests, by any number of processes.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createKeyUses, startWritingKeyUses } from '../src/modules/access/key-uses.ts';
import { type ConsoleServer, startConsole } from './support/console.ts';
import type { Answer, TestTenant } from './support/server.ts';

let server: ConsoleServer;
let tenant: TestTenant;

beforeAll(async () => {
  server = await startConsole();
});
afterAll(() => server.close());
beforeEach(async () => {
  tenant = await server.newTenant();
});

const ask = (method: string, path: string, json?: unknown): Promise<Answer> =>
  server.request(method, path, { key: tenant.api_key, ...(json !== undefined && { json }) });

const make = async (name = 'Made'): Promise<{ id: string; key: string }> => {
  const { status, body, text } = await ask('POST', '/applications', { name, permissions: ['token:create'] });
  expect(status, text).toBe(201);
  return body;
};

const read = async (id: string) => (await ask('GET', `/applications/${id}`)).body;

test('the last use is shown in the list, on the page and by the API; a new key has none', async () => {
  const made = await make();
  expect(await read(made.id)).not.toHaveProperty('last_used_at');
  expect((await server.tokenize('x', made.key)).status).toBe(200);
  await server.ctx.keyUses.write();
  const { last_used_at, ...rest } = await read(made.id);
  expect(Math.abs(Date.parse(last_used_at) - server.ctx.now().getTime())).toBeLessThan(60_000);
  const member = await server.signIn({ tenant });
  for (const path of ['/console/applications', `/console/applications/${made.id}`])
    expect((await member.get(path)).text, path).toContain(`<time datetime="${last_used_at}">`);
  const changed = await ask('PUT', `/applications/${made.id}`, { ...rest, last_used_at });
  expect([changed.status, changed.body.last_used_at]).toEqual([200, last_used_at]);
  expect((await ask('POST', `/applications/${made.id}/regenerate`)).body).not.toHaveProperty('last_used_at');
  expect(await read(made.id)).not.toHaveProperty('last_used_at');
});

test('the last use is not moved by a wrong key', async () => {
  const made = await make();
  const other = await make();
  // The public id of one key with the secret of another has a wrong checksum, so the database has another digest instead.
  await server.sql(
    `UPDATE api_keys SET digest = (SELECT digest FROM api_keys WHERE application_id = $2) WHERE application_id = $1`,
    [made.id, other.id],
  );
  await server.sign(tenant.tenant_id);
  expect((await server.tokenize('x', made.key)).status).toBe(401);
  await server.ctx.keyUses.write();
  expect(await read(made.id)).not.toHaveProperty('last_used_at');
});

test('the last use is written once a minute for each key and process, and never goes back', async () => {
  const made = await make();
  const [{ public_id }] = await server.sql('SELECT public_id FROM api_keys WHERE application_id = $1', [made.id]);
  const { tenant_id } = tenant;
  const writesOf = async () => {
    const [{ xmin, at }] = await server.sql('SELECT xmin, last_used_at AS at FROM api_keys WHERE public_id = $1', [
      public_id,
    ]);
    return { xmin, at };
  };
  const clock = { ms: 0 };
  const at = () => new Date(Date.UTC(2031, 0, 1) + clock.ms);
  const uses = createKeyUses({ db: server.ctx.db, now: at, monotonicMs: () => clock.ms });
  const use = async () => {
    uses.note({ tenant_id, public_id });
    await uses.write();
    return writesOf();
  };
  const first = await use();
  expect(first.at).toEqual(at());
  clock.ms = 59_999;
  expect(await use()).toEqual(first);
  clock.ms = 60_000;
  const second = await use();
  expect(second.at).toEqual(at());
  const behind = createKeyUses({ db: server.ctx.db, now: () => new Date(0), monotonicMs: () => 0 });
  behind.note({ tenant_id, public_id });
  await behind.write();
  expect(await writesOf()).toEqual(second);
  const wrong = createKeyUses({ db: server.ctx.db, now: () => new Date(8e12), monotonicMs: () => 0 });
  wrong.note({ tenant_id: server.tenant.tenant_id, public_id });
  await wrong.write();
  expect(await writesOf()).toEqual(second);
});

test('the writing of uses waits for no lock of a key that is being changed', async () => {
  const made = await make();
  const [{ public_id }] = await server.sql('SELECT public_id FROM api_keys WHERE application_id = $1', [made.id]);
  const uses = createKeyUses(server.ctx);
  await server.ctx.db.statements.transaction(async (query) => {
    await query(undefined, 'SELECT FROM api_keys WHERE public_id = $1 FOR UPDATE', [public_id]);
    uses.note({ tenant_id: tenant.tenant_id, public_id });
    await uses.write();
  });
  expect(await read(made.id)).not.toHaveProperty('last_used_at');
});

test('a server that stops writes the uses that it has noted', async () => {
  const made = await make();
  const stop = startWritingKeyUses(server.ctx);
  expect((await server.tokenize('x', made.key)).status).toBe(200);
  await stop();
  expect(await read(made.id)).toHaveProperty('last_used_at');
});

test('a use that cannot be written stays noted, and no request fails', async () => {
  const made = await make();
  await server.sql('ALTER TABLE api_keys RENAME COLUMN last_used_at TO moved');
  try {
    expect((await server.tokenize('x', made.key)).status).toBe(200);
    await expect(server.ctx.keyUses.write()).rejects.toThrow();
  } finally {
    await server.sql('ALTER TABLE api_keys RENAME COLUMN moved TO last_used_at');
  }
  await server.ctx.keyUses.write();
  expect(await read(made.id)).toHaveProperty('last_used_at');
});
