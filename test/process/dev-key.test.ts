// STRONGROOM_DEV_KEY: the vault of a development server has a key that scripts know beforehand, and production refuses it.
import { expect } from 'vitest';
import { knownKey } from '../support/known-keys.ts';
import { cli, test } from '../support/place.ts';
import { untilReady } from '../support/process.ts';

const known = knownKey('test', 'k');

const statusOf = async (base_url: string, key: string): Promise<number> =>
  (await fetch(`${base_url}/tokens`, { headers: { 'svc-api-key': key } })).status;

test('a new vault has it at once, a key that was ended comes back, and others stay', async ({
  dataDir,
  database,
  start,
}) => {
  const environment = { DATABASE_URL: database.url };
  const first = await start(environment);
  await untilReady(first);
  const { api_key } = first.credentials();
  first.child.kill();
  await first.exited;

  for (let starts = 0; starts < 2; starts += 1) {
    const server = await start({ ...environment, STRONGROOM_DEV_KEY: known });
    await untilReady(server);
    await expect.poll(() => server.credentials().api_key).toBe(known);
    expect(await statusOf(server.base_url, known)).toBe(200);
    expect(await statusOf(server.base_url, api_key)).toBe(200);
    expect(server.output()).not.toContain(known);
    await cli(dataDir, ['api-keys', 'revoke', `svc_test_${'k'.repeat(16)}`], environment);
    await expect.poll(() => statusOf(server.base_url, known), { timeout: 5_000 }).toBe(401);
    server.child.kill();
    await server.exited;
  }
});

test('another key with its public part ends the start, and so does a key of a session', async ({ database, start }) => {
  const environment = { DATABASE_URL: database.url };
  const server = await start({ ...environment, STRONGROOM_DEV_KEY: known });
  await untilReady(server);
  server.child.kill();
  await server.exited;
  const given = {
    [knownKey('test', 'k', 's')]: `another key with the same public part`,
    [knownKey('sess', 'k')]: 'has a typo',
  };
  for (const [key, sentence] of Object.entries(given)) {
    const refused = await start({ ...environment, STRONGROOM_DEV_KEY: key });
    expect(await refused.exited).toBe(1);
    expect(refused.output()).toContain(sentence);
    expect(refused.output()).not.toContain(key.slice(-39));
  }
});

test('a vault whose tenants are all of somebody else gets no key that scripts know', async ({ database, start }) => {
  const environment = { DATABASE_URL: database.url };
  const server = await start(environment);
  await untilReady(server);
  const { api_key } = server.credentials();
  const renamed = await fetch(`${server.base_url}/tenants/self`, {
    method: 'PUT',
    headers: { 'svc-api-key': api_key, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Ada' }),
  });
  expect(renamed.status).toBe(200);
  server.child.kill();
  await server.exited;
  const refused = await start({ ...environment, STRONGROOM_DEV_KEY: known });
  expect(await refused.exited).toBe(1);
  expect(refused.output()).toContain('STRONGROOM_DEV_KEY: the vault has no tenant Development');
});

test('production does not start with it', async ({ database, start }) => {
  const MASTER_KEY = Buffer.alloc(32, 5).toString('base64');
  const production = { NODE_ENV: 'production', DATABASE_URL: database.url, MASTER_KEY };
  const refused = await start({ ...production, STRONGROOM_DEV_KEY: knownKey('live', 'k') });
  expect(await refused.exited).toBe(1);
  expect(refused.output()).toContain('STRONGROOM_DEV_KEY: is for development only');
});
