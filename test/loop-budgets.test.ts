// Each tenant has a budget of event-loop time: one that uses more than its share waits, and no other one does.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { anonymousAccount } from '../src/platform/base/accounts.ts';
import { startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
beforeAll(async () => {
  const limits = { waiting_requests: { ofAll: 40, ofTenantMax: 8, ofTenantLeast: 2 } };
  server = await startServer({ TRUSTED_PROXIES: '127.0.0.1' }, { limits });
});
afterAll(() => server.close());

const waitingOf = (holder: string): number =>
  server.ctx.accounts
    .figures()
    .limits.find(({ name }) => name === 'waiting_requests')
    ?.holders()
    .get(holder) ?? 0;

/** A load in a thread of its own: the event loop of the server must not work for the clients too. */
const CLIENTS = 16;
const LOAD = `
const { parentPort, workerData: { url, key, most } } = require('node:worker_threads');
const body = JSON.stringify(Array.from({ length: 100 }, (_, each) => ({
  type: 'token', data: 'value ' + each, mask: '{{ data | last4 }}', fingerprint_expression: '{{ data | remove: " " }}',
})));
const headers = { 'svc-api-key': key, 'content-type': 'application/json' };
let left = most;
const inLoop = async () => {
  while ((left -= 1) >= 0) {
    const answer = await fetch(url, { method: 'POST', headers, body });
    const { detail } = await answer.json();
    parentPort.postMessage({ status: answer.status, detail, after: Number(answer.headers.get('retry-after')) });
  }
};
Promise.all(Array.from({ length: ${CLIENTS} }, inLoop)).then(() => process.exit());
`;

type Loaded = { status: number; detail?: string; after: number };

/** Sends so many requests, each client its next one when the last is answered. */
const load = (tenant: TestTenant, most: number): { answers: Loaded[]; ended: Promise<unknown>; worker: Worker } => {
  const url = `${server.base_url}/tokenize`;
  const worker = new Worker(LOAD, { eval: true, workerData: { url, key: tenant.api_key, most } });
  const answers: Loaded[] = [];
  worker.on('message', (answer: Loaded) => answers.push(answer));
  return { answers, ended: once(worker, 'exit'), worker };
};

const statusesOf = (answers: Loaded[]): Set<number> => new Set(answers.map(({ status }) => status));

test('a tenant alone is never delayed', async () => {
  let most = 0;
  const watching = setInterval(() => (most = Math.max(most, waitingOf(server.tenant.tenant_id))), 1);
  const { answers, ended } = load(server.tenant, 2 * CLIENTS);
  await ended;
  clearInterval(watching);
  expect(answers).toHaveLength(2 * CLIENTS);
  expect(statusesOf(answers)).toEqual(new Set([200]));
  expect(most).toBe(0);
});

test('beside another tenant the heavy one waits or is a 429, and the light one is answered', async () => {
  const light = await server.newTenant();
  const [id] = (await server.tokenize(['value'], light.api_key)).body as string[];
  const most = { heavy: 0, light: 0 };
  const watching = setInterval(() => {
    most.heavy = Math.max(most.heavy, waitingOf(server.tenant.tenant_id));
    most.light = Math.max(most.light, waitingOf(light.tenant_id));
  }, 1);
  const { answers, ended, worker } = load(server.tenant, Infinity);
  const statuses = new Set<number>();
  await expect
    .poll(
      async () => {
        statuses.add((await server.request('GET', `/tokens/${id}`, { key: light.api_key })).status);
        return statusesOf(answers);
      },
      { timeout: 20_000, interval: 20 },
    )
    .toEqual(new Set([200, 429]));
  await worker.terminate();
  await ended;
  clearInterval(watching);
  expect([...statuses]).toEqual([200]);
  expect(most).toEqual({ heavy: 8, light: 0 });
  const refused = answers.find(({ status }) => status === 429);
  expect(refused?.after).toBeGreaterThan(0);
  expect(refused?.detail).toContain('limit of waiting requests');
});

test('a tenant beside many that ask little has what they leave', async () => {
  const { budgets } = server.ctx.accounts;
  const others = Array.from({ length: 24 }, () => crypto.randomUUID());
  const ask = (): void => others.forEach((each) => void budgets.enter(each));
  ask();
  // Once a second is enough to count as active.
  const asking = setInterval(ask, 200);
  const busy = crypto.randomUUID();
  budgets.spend(busy, 500);
  // A twenty-fifth of the loop would take ten seconds for it, and refuse the request after five.
  await budgets.enter(busy);
  clearInterval(asking);
});

test('an address without a key waits for its own debt only, and probes are answered', async () => {
  const [heavy, light] = ['203.0.113.7', '203.0.113.8'];
  const order: string[] = [];
  const ask = async (ip: string, path: string): Promise<void> => {
    const { status } = await server.request('GET', path, { key: null, headers: { 'x-forwarded-for': ip } });
    expect(status).toBe(200);
    order.push(`${ip} ${path}`);
  };
  await ask(light, '/console/sign-in');
  await ask(heavy, '/console/sign-in');
  order.length = 0;
  server.ctx.accounts.budgets.spend(anonymousAccount(heavy), 400);
  const waiting = ask(heavy, '/console/sign-in');
  await ask(heavy, '/healthz');
  await ask(light, '/console/sign-in');
  await waiting;
  expect(order).toEqual([`${heavy} /healthz`, `${light} /console/sign-in`, `${heavy} /console/sign-in`]);
});
