// A production server on a machine that cannot isolate tenants' code: it serves everything except code.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from './support/database.ts';
import { codeOf, makeReactor, type MadeReactor, react } from './support/reactors.ts';
import { startServer, type TestServer } from './support/server.ts';
import { askProxy, makeProxy, type StoredProxy } from './support/stored-proxies.ts';

const NO_WALL = { NODE_ENV: 'production', SANDBOX_JAIL: 'none' };

let database: TestDatabase;
/** Makes what the strict one finds. */
let weak: TestServer;
let strict: TestServer;
let reactor: MadeReactor;
let proxy: StoredProxy;

beforeAll(async () => {
  database = await createDatabase();
  weak = await startServer({ ...NO_WALL, SANDBOX_ALLOW_WEAK: '1' }, {}, { database });
  reactor = await makeReactor(weak, 'return { raw: { ran: args.n } };');
  proxy = await makeProxy(weak, {
    destination_url: 'https://destination.example',
    request_transform: { code: codeOf('return { body: args.body };') },
  });
  strict = await startServer(NO_WALL, {}, { database });
  strict.tenant = weak.tenant;
});
afterAll(async () => {
  await strict.close();
  await weak.close();
});

const refused = {
  status: 503,
  body: { detail: 'This server runs no code: it has no sandbox that it may use. Its operator sees why.' },
};

test('SANDBOX_ALLOW_WEAK=1 runs code, with an alarm', async () => {
  expect(await react(weak, reactor, { n: 1 })).toMatchObject({ status: 200, body: { raw: { ran: 1 } } });
  expect(weak.logLines.join('')).toContain('"alarm":"no_wall"');
});

test('without it a reactor, a transform and new code answer 503; the log says why and what to do', async () => {
  const key = weak.tenant.api_key;
  expect(await react(strict, reactor, { n: 1 }, { key })).toMatchObject(refused);
  expect(await askProxy(strict, proxy, { json: { a: 1 }, key })).toMatchObject({ status: 503 });
  const json = { name: 'New', type: 'private', code: codeOf('return { raw: 1 };') };
  expect(await strict.request('POST', '/reactor-formulas', { key, json })).toMatchObject(refused);
  const alarm = strict.logLines.map((line) => JSON.parse(line)).find((line) => line.alarm === 'no_wall');
  expect(alarm).toMatchObject({ wall: 'none', causes: [] });
  expect(alarm.msg).toContain('SANDBOX_JAIL=none asks for none');
  expect(alarm.msg).toContain('SANDBOX_ALLOW_WEAK=1');
});

test('everything else is served, and anonymous clients do not see the cause', async () => {
  const made = await strict.request('POST', '/tokenize', { key: weak.tenant.api_key, json: 'x' });
  expect(made.status).toBe(200);
  expect(await strict.request('GET', '/readyz', { key: null })).toMatchObject({
    status: 200,
    text: '{"status":"ok","initialized":true}',
  });
});
