// Receivers of webhooks that are slow, silent or moved, the mail about a dead one, and what an event must never show.
import { Client } from 'pg';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { sendDueMails } from '../src/modules/people/send-mails.ts';
import { createDelivering, type Delivering } from '../src/modules/webhooks/deliver.ts';
import { FAILING_MS_MAX } from '../src/modules/webhooks/notices.ts';
import { testCa } from './support/certificates.ts';
import { type ConsoleServer, withMembers } from './support/console.ts';
import { startServerBefore, type Answer, type TestTenant } from './support/server.ts';
import { startSmtp, type TestSmtp } from './support/smtp.ts';
import { startUpstream, type Received, type Upstream } from './support/upstream.ts';

let upstream: Upstream;
let smtp: TestSmtp;
let server: ConsoleServer;
let tenant: TestTenant;
let delivering: Delivering;
/** Where every name leads, by now. */
let address = '127.0.0.1';
/** What the receiver answers; nothing for one that never does. */
let respond: (received: Received) => number | undefined;

const url = (end = '') => `https://upstream.test:${upstream.port}/${tenant.tenant_id}${end}`;

const send = (method: string, path: string, json?: unknown): Promise<Answer> =>
  server.request(method, path, { key: tenant.api_key, ...(json === undefined ? {} : { json }) });

const made = async (path: string, json: object): Promise<any> => {
  const answer = await send('POST', path, json);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const create = (json: object = {}) =>
  made('/webhooks', { name: 'Orders', url: url(), events: ['token.created'], ...json });
const newToken = (json: object = {}) => made('/tokens', { type: 'token', data: 'x', ...json });

const settle = async (by = delivering): Promise<Received[]> => {
  await by.settle();
  return upstream.received.splice(0).filter(({ url: at }) => at.startsWith(`/${tenant.tenant_id}`));
};

const lastOf = async (id: string) => (await send('GET', `/webhooks/${id}/deliveries`)).body.data[0];

beforeAll(async () => {
  smtp = await startSmtp();
  upstream = await startUpstream({
    answer: (_, response, received) => {
      const status = respond(received);
      if (status !== undefined) response.writeHead(status).end();
    },
  });
  server = withMembers(
    await startServerBefore(
      { 'upstream.test': upstream.port },
      { RATE_LIMIT: 'off', SMTP_URL: smtp.url, MAIL_FROM: 'Strongroom <vault@example.com>' },
      { ca: [testCa], resolve: () => Promise.resolve([address]) },
    ),
  );
  delivering = createDelivering(server.ctx);
});
afterAll(async () => {
  await delivering.stop();
  await server.close();
  await upstream.close();
  await smtp.close();
});
beforeEach(async () => {
  respond = () => 204;
  address = '127.0.0.1';
  server.clock.offsetMs = 0;
  tenant = await server.newTenant();
  upstream.received.length = 0;
});

describe('a receiver', () => {
  test('that never answers ends its attempt by the time-out, and gets the event again', async () => {
    const { id } = await create();
    const { id: token } = await newToken();
    respond = () => undefined;
    const impatient = createDelivering(server.ctx, { attemptMs: 300 });
    expect(await settle(impatient)).toHaveLength(1);
    await impatient.stop();
    expect(await lastOf(id)).toMatchObject({ state: 'waiting', attempts: 1, error: 'TIMEOUT' });
    respond = () => 204;
    server.clock.offsetMs += 5_000;
    const [again] = await settle();
    expect(JSON.parse(String(again?.body)).data.id).toBe(token);
    expect(await lastOf(id)).toMatchObject({ state: 'delivered', attempts: 2 });
  });

  test.each([
    '10.0.0.8',
    '169.254.169.254',
    '192.168.1.1',
    '100.64.0.1',
    '::1',
    '::ffff:127.0.0.1',
    'fd00::1',
    '0.0.0.0',
  ])('whose name leads to %s after the create is sent nothing', async (moved) => {
    const { id } = await create({ url: 'https://hooks.example.com/' });
    const connections = upstream.connectionCount();
    await newToken();
    address = moved;
    await settle();
    expect(await lastOf(id)).toMatchObject({ state: 'waiting', error: 'DESTINATION_REFUSED' });
    expect(upstream.connectionCount()).toBe(connections);
  });

  test('that fails for five days has its webhook paused, and the owner gets one mail', async () => {
    const owner = await server.signIn({ tenant });
    await server.sql(`UPDATE members SET role = 'OWNER' WHERE id = $1`, [owner.member_id]);
    await server.sign(tenant.tenant_id);
    const { id } = await create({ name: 'Orders <b>&"' });
    respond = () => 500;
    for (const waitMs of [0, FAILING_MS_MAX + 60_000, 60_000]) {
      server.clock.offsetMs += waitMs;
      await newToken();
      await settle();
    }
    expect((await send('GET', `/webhooks/${id}`)).body.status).toBe('paused');
    smtp.mails.length = 0;
    await sendDueMails(server.ctx, 'https://vault.example.com');
    expect(smtp.mails.map(({ to, subject }) => [to, subject])).toEqual([
      [[owner.email], 'A webhook in Strongroom was paused'],
    ]);
    const [mail] = smtp.mails;
    expect(mail?.text).toContain('The webhook "Orders <b>');
    expect(mail?.html).not.toContain('<b>');
    expect(mail?.raw).not.toContain('upstream.test');
    await newToken();
    expect(await settle()).toEqual([]);
  });
});

test('a canary is in no body, header, row or log line, whatever is done to its token', async () => {
  const { id, secret } = await create({ events: ['*'], container: '/' });
  const canary = 'canary-4929000000006';
  const number = '4929000000006';
  const token = await newToken({ data: canary, metadata: { note: canary }, search_indexes: ['{{ data }}'] });
  const data = { number, expiration_month: 12, expiration_year: 2031, cvc: '9713' };
  const card = await newToken({ type: 'card', data: { ...data, cvc: '971' } });
  await send('PATCH', `/tokens/${token.id}`, { data: `${canary}-again` });
  await send('PATCH', `/tokens/${card.id}`, { data: { cvc: '972' } });
  const proxy = await made('/proxies', {
    name: 'P',
    destination_url: url('/proxy'),
    configuration: { KEY: canary },
    request_transform: { code: `module.exports = async () => { throw new Error('${canary}'); };` },
  });
  await server.request('POST', '/proxy', {
    key: tenant.api_key,
    headers: { 'svc-proxy-key': proxy.key },
    json: { a: `{{ ${token.id} }}` },
  });
  await send('GET', `/tokens/${canary}`);
  for (const path of [`/tokens/${token.id}`, `/tokens/${card.id}`, `/proxies/${proxy.id}`]) await send('DELETE', path);
  const received = (await settle()).filter(({ url: at }) => !at.endsWith('/proxy'));
  const types = received.map(({ body }) => JSON.parse(body.toString()).type);
  expect(new Set(types)).toEqual(
    new Set(['token.created', 'token.updated', 'token.deleted', 'proxy.created', 'proxy.failed', 'proxy.deleted']),
  );
  for (const each of received) {
    const whole = JSON.stringify({ ...each, body: each.body.toString('latin1') });
    for (const part of ['canary', number, number.slice(0, 8), '"971', '"972', secret, secret.slice(6)])
      expect(whole).not.toContain(part);
    new Webhook(secret).verify(each.body.toString(), Object.fromEntries(each.headers));
  }
  const rows = await server.sql('SELECT d::text AS row FROM webhook_deliveries d WHERE webhook_id = $1', [id]);
  expect(rows.length).toBe(received.length);
  const texts = [...rows.map(({ row }) => row), ...server.logLines, (await send('GET', '/logs?size=100')).text];
  for (const text of texts) {
    expect(text).not.toContain(secret.slice(6));
    expect(text).not.toContain(number);
  }
  for (const { row } of rows) expect(row).not.toContain('canary');
});

describe('a change of a tenant without webhooks', () => {
  /** Statements of a request, by name. @param work is repeated until no background work came between. */
  const statementsOf = async (work: () => Promise<Answer>): Promise<string[]> => {
    let least: string[] | undefined;
    for (let times = 0; times < 5; times += 1) {
      const sent = vi.spyOn(Client.prototype, 'query');
      expect((await work()).status).toBeLessThan(300);
      const names = sent.mock.calls.map(([config]) => String((config as unknown as { name?: string }).name ?? config));
      sent.mockRestore();
      if (!least || names.length < least.length) least = names;
    }
    return least as string[];
  };
  const logCount = async () =>
    (await server.sql('SELECT count(*)::int AS n FROM audit_log WHERE tenant_id = $1', [tenant.tenant_id]))[0].n;
  const kinds: [string, () => Promise<Answer>][] = [
    ['a token', () => send('POST', '/tokens', { data: 'x' })],
    ['a batch', () => send('POST', '/tokenize', ['x', 'y'])],
    ['an application', () => send('POST', '/applications', { name: 'A', type: 'private', permissions: ['log:read'] })],
    ['a proxy', () => send('POST', '/proxies', { name: 'P', destination_url: 'https://api.example.com' })],
  ];

  test.each(kinds)('costs %s no statement, and no row of the log, beside a tenant with one', async (_, work) => {
    const before = await statementsOf(work);
    const other = tenant;
    tenant = await server.newTenant();
    await create({ events: ['*'] });
    const result = await statementsOf(work);
    tenant = other;
    const from = await logCount();
    expect(await statementsOf(work)).toEqual(before);
    expect((await logCount()) - from).toBe(5);
    // The count sees what an event costs: a tenant that is told of the change has more statements.
    expect(result.length).toBeGreaterThan(before.length);
  });

  test('is one statement for a token, as without any webhook of the vault', async () => {
    expect(await statementsOf(() => send('POST', '/tokens', { data: 'x' }))).toEqual(['insert-tokens']);
  });
});
