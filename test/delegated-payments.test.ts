// Delegated payments of the Agentic Commerce Protocol, held to its published schemas and examples.
import { generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type SharedReactorServer, useReactorServer } from './support/reactors.ts';
import type { Answer, TestTenant } from './support/server.ts';
import { askProxy, makeProxy, type StoredProxy } from './support/stored-proxies.ts';

const PATH = '/agentic_commerce/delegate_payment';
const VERSIONS = ['2025-09-29', '2026-01-30', '2026-04-17'];
const NUMBER = '4242424242424242';
/** Later than every test. */
const ENDS = '2090-01-01T00:00:00Z';

type Json = Record<string, any>;

const published = (version: string, name: string): Json =>
  JSON.parse(
    readFileSync(
      new URL(`fixtures/agentic-commerce/${version}/${name}.delegate_payment.json`, import.meta.url),
      'utf8',
    ),
  ) as Json;

const schemaOf = (version: string, name: string) =>
  z.fromJSONSchema({ ...published(version, 'schema'), $ref: `#/$defs/${name}` } as never);

const example = (version = '2026-04-17'): Json => {
  const request = published(version, 'examples')['delegate_payment_request'] as Json;
  return { ...request, allowance: { ...request['allowance'], expires_at: ENDS } };
};

let fixture: SharedReactorServer;
let tenant: TestTenant;
let proxy: StoredProxy;
let silent: StoredProxy;
/** Of an agent: it may do nothing but this. */
let agent: string;
let count = 0;

const set = async (setting: object | undefined, of = tenant): Promise<Answer> => {
  const settings = setting ? { delegated_payments: JSON.stringify(setting) } : {};
  return fixture.server.request('PUT', '/tenants/self', { json: { name: 'Shop', settings }, key: of.api_key });
};

beforeAll(async () => {
  fixture = await useReactorServer();
  tenant = await fixture.server.newTenant();
  const amount = { value: '$.amount', currency: '$.currency', unit: 'minor' };
  proxy = await makeProxy(fixture.server, { destination_url: fixture.url, amount }, tenant.api_key);
  silent = await makeProxy(fixture.server, { destination_url: fixture.url }, tenant.api_key);
  agent = (await fixture.server.newKey(tenant, { permissions: ['delegation:create'] })).api_key;
  expect((await set({ proxies: [proxy.id, silent.id] })).status).toBe(200);
});
afterAll(() => fixture.close());
beforeEach(() => {
  fixture.upstream.received.length = 0;
});

type Options = { key?: string | null; version?: string | null; id?: string | null; headers?: Record<string, string> };

const delegate = (json: unknown, { key = agent, version = '2026-04-17', id, headers }: Options = {}): Promise<Answer> =>
  fixture.server.request('POST', PATH, {
    json,
    key: null,
    headers: {
      ...(key !== null && { authorization: `Bearer ${key}` }),
      ...(version !== null && { 'api-version': version }),
      ...(id !== null && { 'idempotency-key': id ?? `order-${(count += 1)}` }),
      ...headers,
    },
  });

/** An error in the published form, where its code is one that the protocol lists. */
const refused = (answer: Answer, status: number, code: string, param?: string): void => {
  expect([answer.status, answer.body.code, answer.body.param], answer.text).toEqual([status, code, param]);
  expect(Object.keys(answer.body)).toEqual(expect.arrayContaining(['type', 'code', 'message']));
  const { code: _, ...others } = answer.body as Json;
  expect(schemaOf('2026-04-17', 'Error').safeParse({ ...others, code: 'invalid_card' }).success, answer.text).toBe(
    true,
  );
  expect(answer.text).not.toContain(NUMBER);
};

const made = async (json: object = example()): Promise<string> => {
  const answer = await delegate(json);
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id as string;
};

const charge = (id: string, through = proxy, amount = 2000): Promise<Answer> =>
  askProxy(fixture.server, through, {
    json: { amount, currency: 'usd', number: `{{ ${id} | json: '$.number' }}`, cvc: `{{ ${id} | json: '$.cvc' }}` },
    key: tenant.api_key,
  });

describe('a card that an agent hands over', () => {
  for (const version of VERSIONS)
    test(`in the published example of ${version} is answered in the published form`, async () => {
      const answer = await delegate(published(version, 'examples')['delegate_payment_request'], { version });
      expect(answer.status, answer.text).toBe(201);
      expect(schemaOf(version, 'DelegatePaymentResponse').safeParse(answer.body).success).toBe(true);
      expect(answer.body.id).toMatch(/^vt_[0-9A-Za-z]{26}$/);
      expect(answer.body.metadata).toMatchObject({ source: 'chatgpt_checkout', merchant_id: 'acme_store' });
    });

  test('is charged once, up to its amount, with its security code', async () => {
    const id = await made();
    const above = await charge(id, proxy, 2001);
    expect(above.body.proxy_error.errors).toEqual({
      'bound_to.allowance': ['max_amount is 2000 usd, the request has 2001'],
    });
    expect((await charge(id)).status).toBe(200);
    expect(JSON.parse(String(fixture.upstream.received[0]?.body))).toMatchObject({ number: NUMBER, cvc: '223' });
    expect((await charge(id)).body.proxy_error.errors).toHaveProperty(['bound_to.max_uses']);
    expect(fixture.upstream.received).toHaveLength(1);
  });

  test('is charged once by 20 requests at once', async () => {
    const id = await made();
    const answers = await Promise.all(Array.from({ length: 20 }, () => charge(id)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(fixture.upstream.received).toHaveLength(1);
  });

  test('is not charged after its end, or by a proxy that does not say where its amount is', async () => {
    const late = await made({
      ...example(),
      allowance: { ...example()['allowance'], expires_at: '2025-10-09T07:20:50.52Z' },
    });
    expect((await charge(late)).body.proxy_error.errors).toHaveProperty(['bound_to.until']);
    const id = await made();
    expect((await charge(id, silent)).body.proxy_error.errors).toHaveProperty(['bound_to.allowance']);
    expect(fixture.upstream.received).toEqual([]);
  });

  test('is a token that nobody reads, with its details sealed beside it', async () => {
    const id = await made();
    const { body } = await fixture.server.request('GET', `/tokens/${id}`, { key: tenant.api_key });
    expect(body).toMatchObject({
      type: 'card',
      containers: ['/pci/high/'],
      expires_at: '2090-01-31T00:00:00.000Z',
      metadata: { merchant_id: 'acme_store', campaign: 'q4' },
      bound_to: {
        max_uses: 1,
        until: '2090-01-01T00:00:00.000Z',
        allowance: {
          max_amount: 2000,
          currency: 'usd',
          merchant_id: 'acme_store',
          checkout_session_id: 'csn_01HV3P3XYZ9ABC',
        },
      },
    });
    expect(JSON.stringify(body)).not.toContain(NUMBER);
    const city = `{{ ${id}-details | json: '$.billing_address.city' }}`;
    expect((await askProxy(fixture.server, silent, { json: { city }, key: tenant.api_key })).status).toBe(200);
    expect(String(fixture.upstream.received[0]?.body)).toBe('{"city":"San Francisco"}');
    const rows = await fixture.server.sql(
      'SELECT to_jsonb(l)::text AS row FROM audit_log l WHERE entity_ids && $1::text[]',
      [[id, `${id}-details`]],
    );
    expect(rows.length).toBeGreaterThan(1);
    expect(JSON.stringify(rows)).not.toContain(NUMBER);
    const stored = await fixture.server.sql(
      'SELECT to_jsonb(t)::text AS row FROM tokens t WHERE id = ANY ($1::text[])',
      [[id, `${id}-details`]],
    );
    expect(JSON.stringify(stored)).not.toMatch(/4242424242|Lovelace|Chat Road/);
  });
});

describe('an idempotency key', () => {
  test('gives the same token again, whatever the order of names', async () => {
    const first = await delegate(example(), { id: 'same' });
    const { payment_method, ...others } = example();
    const again = await delegate({ ...others, payment_method }, { id: 'same' });
    expect([again.status, again.body]).toEqual([201, first.body]);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
  });

  test('is needed, and is for one request', async () => {
    refused(await delegate(example(), { id: null }), 400, 'idempotency_key_required');
    await delegate(example(), { id: 'used' });
    refused(await delegate({ ...example(), metadata: {} }, { id: 'used' }), 422, 'idempotency_conflict');
  });

  test('of 10 requests at once makes one token', async () => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => delegate(example(), { id: 'at-once' })));
    const ids = new Set(answers.flatMap(({ status, body }) => (status === 201 ? [body.id] : [])));
    expect(ids.size).toBe(1);
    for (const each of answers.filter(({ status }) => status !== 201)) refused(each, 409, 'idempotency_in_flight');
  });
});

describe('a request is refused', () => {
  test('without a key, with a key of another tenant, and without the permission', async () => {
    refused(await delegate(example(), { key: null }), 401, 'unauthorized');
    refused(await delegate(example(), { key: `${agent}x` }), 401, 'unauthorized');
    refused(
      await delegate(example(), {
        key: (await fixture.server.newKey(tenant, { permissions: ['token:create'] })).api_key,
      }),
      403,
      'permission_missing',
    );
    const other = await fixture.server.newTenant();
    const { api_key } = await fixture.server.newKey(other, { permissions: ['delegation:create'] });
    const unknown = await delegate(example(), { key: api_key });
    const nothing = await fixture.server.request('POST', '/agentic_commerce/other', { json: {}, key: api_key });
    expect([unknown.status, unknown.body.detail]).toEqual([404, nothing.body.detail]);
    // Proxies of another tenant are none.
    expect((await set({ proxies: [proxy.id] }, other)).status).toBe(200);
    refused(await delegate(example(), { key: api_key }), 503, 'unavailable');
  });

  test('by every other route, for a key with this permission alone', async () => {
    const ask = (method: string, path: string, json?: object) =>
      fixture.server.request(method, path, { key: agent, ...(json && { json }) });
    const id = await made();
    expect((await ask('POST', '/tokens', { type: 'token', data: 'x' })).status).toBe(403);
    expect((await ask('GET', `/tokens/${id}`)).status).toBe(403);
    expect((await ask('PATCH', `/tokens/${id}`, { metadata: {} })).status).toBe(403);
    const sent = await askProxy(fixture.server, proxy, {
      json: { amount: 1, currency: 'usd', a: `{{ ${id} }}` },
      key: agent,
    });
    expect(sent.status).toBe(403);
  });

  test('in another version, with the versions that there are', async () => {
    for (const version of [null, '2025-12-12']) {
      const answer = await delegate(example(), { version });
      refused(answer, 400, 'unsupported_api_version');
      expect(answer.body.supported_versions).toEqual(VERSIONS.toReversed());
    }
  });

  const card = (more: Json): Json => ({ ...example(), payment_method: { ...example()['payment_method'], ...more } });
  const allowance = (more: Json): Json => ({ ...example(), allowance: { ...example()['allowance'], ...more } });
  const wrong: [name: string, body: Json, code: string, param: string][] = [
    ['a wrong check digit', card({ number: '4242424242424241' }), 'invalid_card', '$.payment_method.number'],
    ['no month', card({ exp_month: undefined }), 'invalid_card', '$.payment_method.exp_month'],
    ['a thirteenth month', card({ exp_month: '13' }), 'invalid_card', '$.payment_method.exp_month'],
    ['letters in its code', card({ cvc: 'abc' }), 'invalid_card', '$.payment_method.cvc'],
    ['an unknown name', card({ pin: '1' }), 'invalid_card', '$.payment_method'],
    ['a currency in capitals', allowance({ currency: 'USD' }), 'invalid_request', '$.allowance.currency'],
    ['an amount as text', allowance({ max_amount: '5' }), 'invalid_request', '$.allowance.max_amount'],
    ['no amount', allowance({ max_amount: 0 }), 'invalid_request', '$.allowance.max_amount'],
    ['many uses', allowance({ reason: 'many' }), 'invalid_request', '$.allowance.reason'],
    ['no end', allowance({ expires_at: 'soon' }), 'invalid_request', '$.allowance.expires_at'],
    ['null in place of an address', { ...example(), billing_address: null }, 'invalid_request', '$.billing_address'],
  ];
  for (const [name, body, code, param] of wrong)
    test(`with ${name}: 400 at its place`, async () => {
      refused(await delegate(body), 400, code, param);
    });

  test('where the published schema refuses it, and not where it does not', async () => {
    const bodies: Json[] = [
      example(),
      { ...example(), risk_signals: [] },
      { ...example(), metadata: { a: 1 } },
      { ...example(), more: 1 },
      card({ iin: '42424242' }),
      card({ display_last4: 'abcd' }),
      card({ display_card_funding_type: 'other' }),
      card({ checks_performed: ['none'] }),
      card({ metadata: undefined }),
      { ...example(), billing_address: { ...example()['billing_address'], country: 'USA' } },
      { ...example(), billing_address: { ...example()['billing_address'], line_one: 'x'.repeat(61) } },
    ];
    for (const version of VERSIONS)
      for (const body of bodies) {
        const isValid = schemaOf(version, 'DelegatePaymentRequest').safeParse(JSON.parse(JSON.stringify(body))).success;
        const answer = await delegate(body, { version });
        expect(answer.status === 201, `${version} ${answer.text} ${JSON.stringify(body)}`).toBe(isValid);
      }
  });
});

describe('with signing keys', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const x = publicKey.export({ format: 'jwk' }).x as string;
  const sorted = (value: unknown): unknown =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(
          Object.entries(value)
            .toSorted(([one], [other]) => (one < other ? -1 : 1))
            .map(([name, each]) => [name, sorted(each)]),
        )
      : Array.isArray(value)
        ? value.map(sorted)
        : value;
  const signed = (body: object, at = new Date(), key = privateKey) => ({
    signature: sign(null, Buffer.from(JSON.stringify(sorted(body))), key).toString('base64url'),
    timestamp: at.toISOString(),
  });

  test('a request is signed over its canonical JSON, and at most five minutes old', async () => {
    expect((await set({ proxies: [proxy.id, silent.id], signing_keys: [x] })).status).toBe(200);
    const body = example();
    const { signature, timestamp } = signed(body);
    expect((await delegate(body, { id: 'signed', headers: { signature, timestamp } })).status).toBe(201);
    const other = generateKeyPairSync('ed25519').privateKey;
    const wrong: Record<string, string>[] = [
      {},
      { signature },
      { timestamp },
      { signature, timestamp: new Date(Date.now() - 301_000).toISOString() },
      { signature, timestamp: new Date(Date.now() + 301_000).toISOString() },
      { signature, timestamp: 'now' },
      { signature: `A${signature.slice(1)}`, timestamp },
      { signature: '', timestamp },
      signed({ ...body, metadata: {} }),
      signed(body, new Date(), other),
    ];
    refused(await delegate(undefined, { headers: { signature, timestamp } }), 401, 'unauthorized');
    // Not even the answer to the same request is given again.
    for (const headers of wrong) refused(await delegate(body, { id: 'signed', headers }), 401, 'unauthorized');
    expect((await set({ proxies: [proxy.id, silent.id] })).status).toBe(200);
  });
});

describe('the setting', () => {
  test('is changed by no key that may not use the cards of its container, before or after', async () => {
    const mine = { container: '/mine/', transform: 'reveal', permissions: ['token:create', 'token:read', 'token:use'] };
    const rules = [{ description: '', priority: 1, ...mine }];
    const { api_key } = await fixture.server.newKey(tenant, { permissions: ['tenant:update'], rules });
    const thief = { ...tenant, api_key };
    for (const setting of [{ proxies: [proxy.id], container: '/mine/' }, { proxies: [proxy.id] }, undefined])
      expect((await set(setting, thief)).status).toBe(403);
    expect((await set({ proxies: [proxy.id, silent.id] })).status).toBe(200);
  });

  for (const setting of [
    {},
    { proxies: [] },
    { proxies: ['x'] },
    { proxies: [crypto.randomUUID()], keys: [] },
    { proxies: [crypto.randomUUID()], signing_keys: ['x'] },
    { proxies: [crypto.randomUUID()], container: 'pci' },
  ])
    test(`${JSON.stringify(setting).replace(/[0-9a-f-]{36}/, 'ID')} is a 400`, async () => {
      const answer = await set(setting);
      expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, ['settings.delegated_payments']]);
    });
});
