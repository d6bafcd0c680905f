// The current SDK of Basis Theory makes all of its calls, by the address of the vault and `API_HEADER_PREFIXES` alone.
// What comes of each is in support/current-calls.ts, of which docs/current-clients.md is made.
import { readFileSync } from 'node:fs';
import { BasisTheoryClient, BasisTheoryError, type BasisTheory } from '@basis-theory/node-sdk';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { calls, idOf, missing, pageOf } from './support/current-calls.ts';
import { join, takeLink } from './support/people.ts';
import { startServerBefore, type TestServer, type TestTenant } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

let upstream: Upstream;
let server: TestServer;
let tenant: TestTenant;
let client: BasisTheoryClient;

/** What a client is given: the address and a key. Nothing names a header. */
const clientOf = (apiKey: string): BasisTheoryClient =>
  new BasisTheoryClient({ baseUrl: server.base_url, apiKey, maxRetries: 0 });

beforeAll(async () => {
  upstream = await startUpstream();
  server = await startServerBefore({ 'upstream.test': upstream.port }, { API_HEADER_PREFIXES: 'SVC,BT' });
  tenant = await server.newTenant();
  client = clientOf(tenant.api_key);
});
afterAll(async () => {
  await server.close();
  await upstream.close();
});

/** @throws the error of a call that must fail, if it does not. */
const failureOf = async (call: PromiseLike<unknown>): Promise<BasisTheoryError> => {
  const result = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(result).toBeInstanceOf(BasisTheoryError);
  return result as BasisTheoryError;
};

const statusOf = async (call: PromiseLike<unknown>): Promise<number | undefined> => (await failureOf(call)).statusCode;

const allOf = async <T>(pages: AsyncIterable<T>): Promise<T[]> => {
  const items: T[] = [];
  for await (const item of pages) items.push(item);
  return items;
};

const idsOf = (items: readonly { id?: string | undefined }[]) => items.map(({ id }) => id);

const CARD = { number: '4242424242424242', expirationMonth: 12, expirationYear: 2030, cvc: '123' };
/** Data is any JSON to the SDK: it is sent as it is. */
const CARD_DATA = { number: CARD.number, expiration_month: 12, expiration_year: 2030, cvc: CARD.cvc };

const newId = () => `chosen-${crypto.randomUUID()}`;
const newToken = (data: unknown = 'x', more: Partial<BasisTheory.CreateTokenRequest> = {}) =>
  client.tokens.create({ type: 'token', data, ...more });
const newApplication = (more: Partial<BasisTheory.CreateApplicationRequest> = {}) =>
  client.applications.create({ name: 'A', type: 'private', permissions: ['token:read'], createKey: true, ...more });
const codeOf = (result: string) => `module.exports = async (req) => (${result});`;
const newReactor = (more: Partial<BasisTheory.CreateReactorRequest> = {}) =>
  client.reactors.create({ name: 'R', code: codeOf('{ raw: req.args }'), ...more });
const raw = async (id: string, args: unknown = {}) => (await client.reactors.react(id, { args })).raw;
const transformOf = (mark: string) =>
  `module.exports = async ({ args: { body, headers } }) => ({ body, headers: { ...headers, 'x-mark': '${mark}' } });`;
const newProxy = (more: Partial<BasisTheory.CreateProxyRequest> = {}) =>
  client.proxies.create({ name: 'P', destinationUrl: `https://upstream.test:${upstream.port}/base`, ...more });

/** The SDK has no call for the proxy itself. @returns what the destination received, and the response. */
const throughProxy = async (key: string | undefined, body: unknown) => {
  const response = await fetch(`${server.base_url}/proxy/path`, {
    method: 'POST',
    headers: { 'BT-API-KEY': tenant.api_key, 'BT-PROXY-KEY': key ?? '', 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const received = upstream.received.at(-1);
  return { status: response.status, text, sent: received?.body.toString(), headers: new Map(received?.headers) };
};

let addresses = 0;
const newAddress = () => `sdk-${(addresses += 1)}@example.com`;
const invitations = () => client.tenants.invitations;

const ofTokens: Record<string, () => Promise<void>> = {
  'tokens.create: any JSON': async () => {
    const token = await newToken({ a: [1] });
    expect([token.tenantId, token.type, token.createdBy]).toEqual([tenant.tenant_id, 'token', tenant.application_id]);
    expect((await client.tokens.get(token.id as string)).data).toEqual({ a: [1] });
  },
  'tokens.create: a card, whose details are in `card`': async () => {
    const token = await client.tokens.create({ type: 'card', data: CARD_DATA });
    const details = { brand: 'visa', last4: '4242', expirationMonth: 12, expirationYear: 2030 };
    expect([token.card, token.data]).toEqual([
      details,
      { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 },
    ]);
    expect((await client.tokens.get(token.id as string)).card).toEqual(details);
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }];
    const { api_key } = await server.newKey(tenant, { permissions: [], rules });
    const read = await clientOf(api_key).tokens.get(token.id as string);
    expect([read.card, read.data]).toEqual([{ ...details, bin: '42424242' }, CARD_DATA]);
  },
  'tokens.create: with all options': async () => {
    const id = newId();
    const token = await newToken('555-12', {
      id,
      metadata: { order: '4711' },
      searchIndexes: ['{{ data }}'],
      fingerprintExpression: '{{ data }}',
      mask: '{{ data | reveal_last: 2 }}',
      expiresAt: '2030-01-01T00:00:00Z',
      containers: ['/general/low/'],
    });
    expect(token).toMatchObject({
      id,
      metadata: { order: '4711' },
      searchIndexes: ['{{ data }}'],
      fingerprintExpression: '{{ data }}',
      mask: '{{ data | reveal_last: 2 }}',
      data: 'XXX-12',
      containers: ['/general/low/'],
    });
    expect(new Date(String(token.expiresAt)).toISOString()).toBe('2030-01-01T00:00:00.000Z');
  },
  'tokens.create: twice under one idempotency key': async () => {
    const options = { idempotencyKey: crypto.randomUUID() };
    const create = () => client.tokens.create({ data: 'once' }, options);
    const [first, second] = [await create(), await create().withRawResponse()];
    expect([second.data.id, second.rawResponse.headers.get('bt-idempotent-replayed')]).toEqual([first.id, 'true']);
    expect((await client.tokens.create({ data: 'once' })).id).not.toBe(first.id);
  },
  'tokens.create: twice with `deduplicateToken`': async () => {
    const data = crypto.randomUUID();
    const first = await newToken(data);
    const second = await newToken(data, { deduplicateToken: true });
    expect([second.id, second.extras?.deduplicated, second.fingerprint]).toEqual([first.id, true, first.fingerprint]);
  },
  'tokens.create: from a token intent': async () => {
    const intent = await client.tokenIntents.create({ type: 'card', data: CARD_DATA });
    const token = await client.tokens.create({ tokenIntentId: intent.id as string, metadata: { a: 'b' } });
    expect([token.type, token.card?.last4, token.metadata]).toEqual(['card', '4242', { a: 'b' }]);
    const { sent } = await throughProxy((await newProxy()).key, { card: `{{ ${token.id} }}` });
    const { cvc: _, ...kept } = CARD_DATA;
    expect(JSON.parse(sent ?? '')).toEqual({ card: kept });
    expect(await statusOf(client.tokens.create({ tokenIntentId: intent.id as string }))).toBe(404);
    expect(await statusOf(client.tokenIntents.get(intent.id as string))).toBe(404);
  },
  'tokens.create: with `encrypted`': async () => {
    await client.tokens.create({ type: 'card', encrypted: 'eyJ' });
  },
  'tokens.get: by its id': async () => {
    const token = await newToken('read');
    expect(await client.tokens.get(token.id as string)).toMatchObject({ id: token.id, data: 'read' });
    expect(await statusOf(client.tokens.get(newId()))).toBe(404);
  },
  'tokens.update: metadata and data': async () => {
    const { id } = await newToken({ a: 1 }, { metadata: { kept: 'x' } });
    const changed = await client.tokens.update(id as string, { data: 'new', metadata: { more: 'y' } });
    expect(changed.metadata).toEqual({ kept: 'x', more: 'y' });
    expect((await client.tokens.get(id as string)).data).toBe('new');
  },
  'tokens.update: another container': async () => {
    const { id } = await newToken('x');
    expect((await client.tokens.update(id as string, { containers: ['/pii/low/'] })).containers).toEqual(['/pii/low/']);
  },
  'tokens.delete: by its id': async () => {
    const { id } = await newToken('x');
    expect(await client.tokens.delete(id as string)).toBeUndefined();
    expect(await statusOf(client.tokens.get(id as string))).toBe(404);
  },
  'tokens.tokenize: values and a card': async () => {
    const made = (await client.tokens.tokenize({ name: 'Ada', card: { type: 'card', data: CARD_DATA } })) as any;
    expect([made.card.mask.number, (await client.tokens.get(made.name)).data]).toEqual(['XXXXXXXXXXXX4242', 'Ada']);
  },
  'tokens.detokenize: expressions': async () => {
    const { id } = await newToken({ part: 'secret' });
    const opened = await client.tokens.detokenize({ all: `{{ ${id} }}`, part: `{{ ${id} | json: '$.part' }}!` });
    expect(opened).toEqual({ all: { part: 'secret' }, part: 'secret!' });
  },
  'tokens.listV2: all, over several pages': async () => {
    const mine = clientOf((await server.newTenant()).api_key);
    const made = [];
    for (let count = 0; count < 5; count += 1) made.push(await mine.tokens.create({ data: `t${count}` }));
    const page = await mine.tokens.listV2({ size: 2 });
    expect([page.data.length, page.hasNextPage()]).toEqual([2, true]);
    expect(idsOf(await allOf(page))).toEqual(idsOf(made).toReversed());
  },
  'tokens.listV2: by type, container, fingerprint and metadata': async () => {
    const order = crypto.randomUUID();
    const token = await newToken(order, { metadata: { order }, containers: ['/general/low/'] });
    for (const filter of [
      { metadata: { order } },
      { fingerprint: token.fingerprint as string },
      { container: '/general/low/', type: 'token', metadata: { order } },
    ])
      expect(idsOf(await allOf(await client.tokens.listV2(filter)))).toEqual([token.id]);
    const others = { container: '/general/', metadata: { order } };
    expect(await allOf(await client.tokens.listV2(others))).toEqual([]);
  },
  'tokens.searchV2: by a query, over several pages': async () => {
    const order = crypto.randomUUID();
    const made = [await newToken('a', { metadata: { order } }), await newToken('b', { metadata: { order } })];
    const found = await client.tokens.searchV2({ query: `metadata.order:${order}`, size: 1 });
    expect(idsOf(await allOf(found))).toEqual(idsOf(made).toReversed());
  },
  'tokenIntents.create: a card': async () => {
    const { data: intent, rawResponse } = await client.tokenIntents
      .create({ type: 'card', data: CARD_DATA })
      .withRawResponse();
    expect(intent.card).toEqual({ brand: 'visa', last4: '4242', expirationMonth: 12, expirationYear: 2030 });
    expect([intent.fingerprint, intent.tenantId, rawResponse.status]).toEqual([undefined, tenant.tenant_id, 201]);
    const hours = (new Date(String(intent.expiresAt)).getTime() - Date.now()) / 3_600_000;
    expect(Math.round(hours)).toBe(24);
    // With its security code, as it was sent.
    const { sent } = await throughProxy((await newProxy()).key, { card: `{{ ${intent.id} }}` });
    expect(JSON.parse(sent ?? '')).toEqual({ card: CARD_DATA });
  },
  'tokenIntents.create: any JSON': async () => {
    const intent = await client.tokenIntents.create({ type: 'token', data: { a: 1 } });
    expect([intent.type, intent.card]).toEqual(['token', undefined]);
    const token = await client.tokens.create({ tokenIntentId: intent.id as string });
    expect((await client.tokens.get(token.id as string)).data).toEqual({ a: 1 });
  },
  'tokenIntents.create: with `encrypted`': async () => {
    await client.tokenIntents.create({ type: 'card', encrypted: 'eyJ' });
  },
  'tokenIntents.get: by its id': async () => {
    const made = await client.tokenIntents.create({ type: 'card', data: CARD_DATA });
    expect(await client.tokenIntents.get(made.id as string)).toEqual(made);
    // A token is no intent.
    expect(await statusOf(client.tokenIntents.get((await newToken()).id as string))).toBe(404);
  },
  'tokenIntents.delete: by its id': async () => {
    const { id } = await client.tokenIntents.create({ type: 'card', data: CARD_DATA });
    await client.tokenIntents.delete(id as string);
    expect(await statusOf(client.tokenIntents.get(id as string))).toBe(404);
    expect(await statusOf(client.tokenIntents.delete((await newToken()).id as string))).toBe(404);
  },
};

const ofApplications: Record<string, () => Promise<void>> = {
  'applications.create: with `createKey`': async () => {
    const made = await newApplication();
    expect([made.type, made.permissions]).toEqual(['private', ['token:read']]);
    expect((await clientOf(made.key as string).applications.getByKey()).id).toBe(made.id);
  },
  'applications.create: without a key': async () => {
    const made = await newApplication({ createKey: false });
    expect([made.key, await client.applicationKeys.list(made.id as string)]).toEqual([undefined, []]);
  },
  'applications.create: with access rules': async () => {
    const rules = [
      { description: 'Masks', priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:read'] },
    ];
    const made = await newApplication({ permissions: [], rules });
    expect((await client.applications.get(made.id as string)).rules).toEqual(rules);
  },
  'applications.list: all': async () => {
    const made = await newApplication();
    expect(idsOf(await allOf(await client.applications.list()))).toContain(made.id);
  },
  'applications.list: by type and ids': async () => {
    const made = await newApplication({ type: 'management' });
    const others = await newApplication();
    const ids = [made.id as string, others.id as string];
    expect(idsOf(await allOf(await client.applications.list({ id: ids, type: 'management' })))).toEqual([made.id]);
  },
  'applications.list: from a `start`': async () => {
    await client.applications.list({ start: 'x' });
  },
  'applications.get: by its id': async () => {
    const { key: _, ...made } = await newApplication();
    expect(await client.applications.get(made.id as string)).toEqual(made);
  },
  'applications.getByKey: the caller': async () => {
    expect((await client.applications.getByKey()).id).toBe(tenant.application_id);
  },
  'applications.update: name and permissions': async () => {
    const { id } = await newApplication();
    await client.applications.update(id as string, { name: 'B', permissions: ['token:create'] });
    expect(await client.applications.get(id as string)).toMatchObject({ name: 'B', permissions: ['token:create'] });
  },
  'applications.delete: with its keys': async () => {
    const { id, key } = await newApplication();
    await client.applications.delete(id as string);
    expect(await statusOf(client.applications.get(id as string))).toBe(404);
    expect(await statusOf(clientOf(key as string).applications.getByKey())).toBe(401);
  },
  'applicationKeys.create: a further key': async () => {
    const { id } = await newApplication();
    const key = await client.applicationKeys.create(id as string);
    expect((await clientOf(key.key as string).applications.getByKey()).id).toBe(id);
  },
  'applicationKeys.list: as a plain list': async () => {
    const { id } = await newApplication();
    const key = await client.applicationKeys.create(id as string);
    const listed = await client.applicationKeys.list(id as string);
    expect([Array.isArray(listed), listed.length, listed[0]?.id, listed[0]?.key]).toEqual([true, 2, key.id, undefined]);
  },
  'applicationKeys.list: by ids': async () => {
    const { id } = await newApplication();
    const key = await client.applicationKeys.create(id as string);
    expect(idsOf(await client.applicationKeys.list(id as string, { id: key.id as string }))).toEqual([key.id]);
  },
  'applicationKeys.get: by its id': async () => {
    const { id } = await newApplication();
    const { key: _, ...made } = await client.applicationKeys.create(id as string);
    expect(await client.applicationKeys.get(id as string, made.id as string)).toEqual(made);
  },
  'applicationKeys.delete: which ends the key': async () => {
    const { id } = await newApplication();
    const made = await client.applicationKeys.create(id as string);
    await client.applicationKeys.delete(id as string, made.id as string);
    expect(await statusOf(clientOf(made.key as string).applications.getByKey())).toBe(401);
    expect(await statusOf(client.applicationKeys.get(id as string, made.id as string))).toBe(404);
  },
};

const ofReactors: Record<string, () => Promise<void>> = {
  'reactors.create: with its code': async () => {
    const code = codeOf('{ raw: { sum: req.args.a + req.args.b } }');
    const made = await newReactor({ code });
    expect([made.name, made.code, made.formula?.code]).toEqual(['R', code, code]);
    expect(await raw(made.id as string, { a: 1, b: 2 })).toEqual({ sum: 3 });
  },
  'reactors.create: with an application and a configuration': async () => {
    const application = await newApplication({ permissions: ['token:create', 'token:read'] });
    const code = `module.exports = async ({ configuration, bt }) => ({ raw: { configuration, id: await bt.tokenize('made') } });`;
    const made = await newReactor({ code, application: { id: application.id as string }, configuration: { KEY: 'v' } });
    expect(made.application?.id).toBe(application.id);
    const result = (await raw(made.id as string)) as { configuration: unknown; id: string };
    expect([result.configuration, (await client.tokens.get(result.id)).createdBy]).toEqual([
      { KEY: 'v' },
      application.id,
    ]);
  },
  'reactors.create: with `runtime`': async () => {
    await newReactor({ runtime: { image: 'node22' } });
  },
  'reactors.list: all': async () => {
    const made = await newReactor();
    expect(idsOf(await allOf(await client.reactors.list()))).toContain(made.id);
  },
  'reactors.list: by name and ids': async () => {
    const made = await newReactor({ name: 'Sought' });
    const found = await client.reactors.list({ name: 'Sou*', id: made.id as string });
    expect(idsOf(await allOf(found))).toEqual([made.id]);
  },
  'reactors.get: by its id': async () => {
    const made = await newReactor();
    expect(await client.reactors.get(made.id as string)).toEqual(made);
  },
  'reactors.update: its code': async () => {
    const { id } = await newReactor();
    const code = codeOf(`{ raw: 'changed' }`);
    const changed = await client.reactors.update(id as string, { name: 'S', code, configuration: { A: '1' } });
    expect([changed.name, changed.configuration, await raw(id as string)]).toEqual(['S', { A: '1' }, 'changed']);
  },
  'reactors.patch: its code alone': async () => {
    const { id } = await newReactor({ configuration: { A: '1' } });
    await client.reactors.patch(id as string, { code: codeOf('{ raw: req.configuration }') });
    expect([await raw(id as string), (await client.reactors.get(id as string)).name]).toEqual([{ A: '1' }, 'R']);
  },
  'reactors.react: with expressions': async () => {
    const { id } = await newReactor();
    const token = await newToken({ secret: 'value' });
    expect(await raw(id as string, { opened: `{{ ${token.id} }}` })).toEqual({ opened: { secret: 'value' } });
  },
  'reactors.delete: with its code': async () => {
    const { id } = await newReactor();
    await client.reactors.delete(id as string);
    expect(await statusOf(client.reactors.react(id as string, {}))).toBe(404);
  },
  'reactors.reactAsync: in the background': async () => {
    await client.reactors.reactAsync((await newReactor()).id as string, {});
  },
  'reactors.results.get: of a background run': async () => {
    await client.reactors.results.get((await newReactor()).id as string, crypto.randomUUID());
  },
};

const ofProxies: Record<string, () => Promise<void>> = {
  'proxies.create: with a request transform': async () => {
    const token = await newToken('secret');
    const made = await newProxy({ requestTransform: { code: transformOf('one') } });
    expect(made.requestTransform?.code).toBe(transformOf('one'));
    const { status, sent, headers } = await throughProxy(made.key, { value: `{{ ${token.id} }}` });
    expect([status, sent, headers.get('x-mark')]).toEqual([200, '{"value":"secret"}', 'one']);
    expect([...headers.keys()].filter((name) => /^(?:bt|svc)-/i.test(name))).toEqual([]);
  },
  'proxies.create: with lists of one transform': async () => {
    const list = [{ type: 'code', code: transformOf('list') }];
    const made = await newProxy({ requestTransforms: list, responseTransforms: [] });
    expect([made.requestTransform?.code, made.responseTransform]).toEqual([transformOf('list'), undefined]);
    expect((await throughProxy(made.key, {})).headers.get('x-mark')).toBe('list');
  },
  'proxies.create: with a response transform of the type `mask`': async () => {
    const mask = { type: 'mask', matcher: 'regex', expression: '[0-9]{12}(?=[0-9]{4})', replacement: '*' };
    const made = await newProxy({ responseTransform: mask });
    expect(made.responseTransform).toMatchObject(mask);
    const { text } = await throughProxy(made.key, { number: CARD.number });
    expect([text.includes('*4242'), text.includes(CARD.number)]).toEqual([true, false]);
  },
  'proxies.create: with `disableDetokenization`': async () => {
    const token = await newToken('secret');
    const made = await newProxy({ disableDetokenization: true });
    expect((await throughProxy(made.key, { a: `{{ ${token.id} }}` })).sent).toBe(`{"a":"{{ ${token.id} }}"}`);
  },
  'proxies.create: with two transforms in a list': async () => {
    const transform = { code: transformOf('x') };
    await newProxy({ requestTransforms: [transform, transform] });
  },
  'proxies.create: with a transform of the type `tokenize`': async () => {
    await newProxy({ responseTransform: { type: 'tokenize', expression: '$.number' } });
  },
  'proxies.list: all': async () => {
    const made = await newProxy();
    expect(idsOf(await allOf(await client.proxies.list()))).toContain(made.id);
  },
  'proxies.list: by name and ids': async () => {
    const made = await newProxy({ name: 'Sought' });
    expect(idsOf(await allOf(await client.proxies.list({ name: 'Sou*', id: [made.id as string] })))).toEqual([made.id]);
  },
  'proxies.get: by its id': async () => {
    const made = await newProxy();
    expect(await client.proxies.get(made.id as string)).toEqual(made);
  },
  'proxies.update: its destination': async () => {
    const made = await newProxy();
    const destinationUrl = `https://upstream.test:${upstream.port}/other`;
    await client.proxies.update(made.id as string, { name: 'Q', destinationUrl, requireAuth: true });
    await throughProxy(made.key, {});
    expect([upstream.received.at(-1)?.url, (await client.proxies.get(made.id as string)).name]).toEqual([
      '/other/path',
      'Q',
    ]);
  },
  'proxies.patch: its transform alone': async () => {
    const made = await newProxy({ configuration: { A: '1' } });
    await client.proxies.patch(made.id as string, { requestTransforms: [{ code: transformOf('patched') }] });
    expect((await throughProxy(made.key, {})).headers.get('x-mark')).toBe('patched');
    expect((await client.proxies.get(made.id as string)).configuration).toEqual({ A: '1' });
  },
  'proxies.delete: with its key': async () => {
    const made = await newProxy();
    await client.proxies.delete(made.id as string);
    expect([(await throughProxy(made.key, {})).status, await statusOf(client.proxies.get(made.id as string))]).toEqual([
      404, 404,
    ]);
  },
};

/** The owner of a tenant of their own, who has accepted. */
const newOwner = async (): Promise<{ mine: BasisTheoryClient; of: TestTenant }> => {
  const of = await server.newTenant({ ownerEmail: newAddress() });
  const [{ id }] = await server.sql('SELECT id FROM invitations WHERE tenant_id = $1', [of.tenant_id]);
  const { path } = await takeLink(server, id);
  const body = new URLSearchParams({ first_name: 'Ada', last_name: 'Lovelace', password: 'correct horse battery' });
  const headers = { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' };
  const answer = await server.request('POST', path, { key: null, headers, body: body.toString() });
  expect(answer.status, answer.text).toBe(303);
  return { mine: clientOf(of.api_key), of };
};

const newWebhook = () =>
  client.webhooks.create({ name: 'W', url: `https://upstream.test:${upstream.port}/`, events: ['token.created'] });

const ofWebhooks: Record<string, () => Promise<void>> = {
  'webhooks.create: with types of events': async () => {
    const made = await newWebhook();
    expect([made.status, made.events, made.createdBy]).toEqual(['enabled', ['token.created'], tenant.application_id]);
  },
  'webhooks.list: all': async () => {
    const { id } = await newWebhook();
    expect(idsOf((await client.webhooks.list()).data)).toContain(id);
  },
  'webhooks.get: by its id': async () => {
    const { id } = await newWebhook();
    expect(await client.webhooks.get(id)).toMatchObject({ id, name: 'W' });
  },
  'webhooks.update: with another URL': async () => {
    const { id } = await newWebhook();
    const url = `https://upstream.test:${upstream.port}/other`;
    expect((await client.webhooks.update(id, { name: 'X', url, events: ['proxy.created'] })).url).toBe(url);
  },
  'webhooks.delete: by its id': async () => {
    const { id } = await newWebhook();
    await client.webhooks.delete(id);
    expect(await statusOf(client.webhooks.get(id))).toBe(404);
  },
  'webhooks.events.list: all types': async () => {
    expect(await client.webhooks.events.list()).toContain('token.expired');
  },
};

const ofTenants: Record<string, () => Promise<void>> = {
  'permissions.list: all': async () => {
    const listed = await client.permissions.list();
    const create = listed.find(({ type }) => type === 'token:create');
    expect([typeof create?.description, create?.applicationTypes]).toEqual([
      'string',
      expect.arrayContaining(['private', 'public']),
    ]);
  },
  'permissions.list: of a type of applications': async () => {
    const listed = await client.permissions.list({ applicationType: 'public' });
    expect(listed.map(({ type }) => type)).toEqual(['token:create']);
  },
  'logs.list: all': async () => {
    const { id } = await newToken();
    const page = await client.logs.list({ size: 5 });
    expect(page.data.some(({ entityId, operation }) => entityId === id && operation === 'create')).toBe(true);
  },
  'logs.list: of an entity and a time': async () => {
    const { id } = await newToken();
    const startDate = new Date(Date.now() - 3_600_000);
    const page = await client.logs.list({
      entityType: 'token',
      entityId: id as string,
      startDate,
      endDate: new Date(Date.now() + 3_600_000),
    });
    expect(page.data.map(({ actorId, operation }) => [actorId, operation])).toEqual([
      [tenant.application_id, 'create'],
    ]);
  },
  'logs.getEntityTypes: all': async () => {
    const types = await client.logs.getEntityTypes();
    expect(types).toContainEqual(expect.objectContaining({ value: 'card', displayName: expect.any(String) }));
  },
  'roles.list: all': async () => {
    const names = (await client.roles.list()).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['OWNER', 'ADMIN']));
  },
  'tenants.self.get: the tenant': async () => {
    expect((await client.tenants.self.get()).id).toBe(tenant.tenant_id);
  },
  'tenants.self.update: its name': async () => {
    await client.tenants.self.update({ name: 'Renamed' });
    expect((await client.tenants.self.get()).name).toBe('Renamed');
  },
  'tenants.self.getUsageReports: counts of tokens': async () => {
    await newToken();
    expect((await client.tenants.self.getUsageReports()).totalTokens).toBeGreaterThan(0);
  },
  'tenants.self.delete: the tenant with all it has': async () => {
    const mine = clientOf((await server.newTenant()).api_key);
    await mine.tenants.self.delete();
    expect(await statusOf(mine.tenants.self.get())).toBe(401);
  },
  'tenants.owner.get: the owner': async () => {
    const { mine, of } = await newOwner();
    expect(await mine.tenants.owner.get()).toMatchObject({
      tenantId: of.tenant_id,
      role: 'OWNER',
      user: { firstName: 'Ada' },
    });
    expect(await statusOf(client.tenants.owner.get())).toBe(404);
  },
  'tenants.members.list: all': async () => {
    const { member_id } = await join(server, { tenant });
    const { data = [], pagination } = await client.tenants.members.list();
    expect([idsOf(data), typeof pagination?.totalItems]).toEqual([expect.arrayContaining([member_id]), 'number']);
  },
  'tenants.members.list: by user': async () => {
    const { member_id, user_id, email } = await join(server, { tenant });
    const { data = [] } = await client.tenants.members.list({ userId: [user_id] });
    expect(data.map(({ id, user }) => [id, user?.email])).toEqual([[member_id, email]]);
  },
  'tenants.members.update: the role': async () => {
    const { member_id, user_id } = await join(server, { tenant });
    await client.tenants.members.update(member_id, { role: 'AUDITOR' });
    const { data = [] } = await client.tenants.members.list({ userId: user_id });
    expect(data[0]?.role).toBe('AUDITOR');
  },
  'tenants.members.delete: the member': async () => {
    const { member_id, user_id, browser } = await join(server, { tenant });
    await client.tenants.members.delete(member_id);
    expect([(await client.tenants.members.list({ userId: user_id })).data, await browser.isSignedIn()]).toEqual([
      [],
      false,
    ]);
  },
  'tenants.invitations.create: by an address': async () => {
    const email = newAddress();
    const made = await invitations().create({ email });
    expect([made.email, made.status, made.tenantId]).toEqual([email, 'PENDING', tenant.tenant_id]);
  },
  'tenants.invitations.create: with a role': async () => {
    expect((await invitations().create({ email: newAddress(), role: 'SUPPORT' })).role).toBe('SUPPORT');
  },
  'tenants.invitations.list: all': async () => {
    const made = await invitations().create({ email: newAddress() });
    expect(idsOf(await allOf(await invitations().list()))).toContain(made.id);
  },
  'tenants.invitations.list: by status': async () => {
    const made = await invitations().create({ email: newAddress() });
    expect(idsOf(await allOf(await invitations().list({ status: 'PENDING' })))).toContain(made.id);
    expect(await allOf(await invitations().list({ status: 'EXPIRED' }))).toEqual([]);
  },
  'tenants.invitations.get: by its id': async () => {
    const made = await invitations().create({ email: newAddress() });
    expect(await invitations().get(made.id as string)).toEqual(made);
  },
  'tenants.invitations.resend: with a new link': async () => {
    const made = await invitations().create({ email: newAddress() });
    const { path } = await takeLink(server, made.id as string);
    expect((await invitations().resend(made.id as string)).id).toBe(made.id);
    expect((await server.request('GET', path, { key: null })).status).toBe(410);
  },
  'tenants.invitations.delete: which ends the link': async () => {
    const made = await invitations().create({ email: newAddress() });
    const { path } = await takeLink(server, made.id as string);
    await invitations().delete(made.id as string);
    expect(await statusOf(invitations().get(made.id as string))).toBe(404);
    expect((await server.request('GET', path, { key: null })).status).toBe(410);
  },
};

const runs = { ...ofTokens, ...ofApplications, ...ofReactors, ...ofProxies, ...ofWebhooks, ...ofTenants };

test('each call of the list is made', () => {
  expect(Object.keys(runs).toSorted()).toEqual(calls.map(idOf).toSorted());
});

describe('works', () => {
  test.each(calls.filter(({ works }) => works).map((call) => [idOf(call)]))('%s', async (id) => {
    await runs[id]?.();
  });
});

describe('is refused, and says what', () => {
  test.each(calls.filter(({ works }) => !works).map((call) => [idOf(call), call.status]))('%s', async (id, status) => {
    const error = await failureOf((runs[id] as () => Promise<void>)());
    expect(error.statusCode).toBe(status);
    if (status === 400) expect(Object.keys((error.body as any).errors).length).toBeGreaterThan(0);
  });
});

/** Every method of the SDK by its path, such as `tokens.create`. */
const methodsOf = (of: object, path = ''): string[] => {
  const prototype = Object.getPrototypeOf(of) as object;
  return Object.entries(Object.getOwnPropertyDescriptors(prototype)).flatMap(([name, { get }]) => {
    if (name === 'constructor' || name.startsWith('_')) return [];
    return get ? methodsOf(Reflect.get(of, name) as object, `${path}${name}.`) : [`${path}${name}`];
  });
};

const missingMethods = (): string[] =>
  methodsOf(clientOf('x')).filter((method) =>
    missing.some(({ prefixes }) => prefixes.some((each) => method.startsWith(each))),
  );

test('each method of the SDK is in the list, or among those that the vault does not have', () => {
  const made = new Set(calls.map(({ method }) => method));
  expect(
    methodsOf(clientOf('x'))
      .filter((method) => !made.has(method))
      .toSorted(),
  ).toEqual(missingMethods().toSorted());
});

/** Calls a method by its path, with an id or an empty object for each parameter. */
const callByName = (method: string): PromiseLike<unknown> => {
  const names = method.split('.');
  const owner = names.slice(0, -1).reduce<any>((at, name) => at[name], client);
  const call = owner[names.at(-1) as string] as (...given: unknown[]) => PromiseLike<unknown>;
  const parameters =
    /\(([^)]*)\)/
      .exec(call.toString())?.[1]
      ?.split(',')
      .map((name) => name.trim()) ?? [];
  const given = parameters
    .filter((name) => name !== 'requestOptions')
    .map((name): unknown => (/id$/i.test(name) ? crypto.randomUUID() : {}));
  return callFilled((...filled) => call.apply(owner, filled), given);
};

type Missing = { path: (string | number)[]; message: string };

/** Sets what the SDK's own check of a request wants, by its message. The first guess is a text; the next message says what it should be. */
const fill = (request: any, { path, message }: Missing): void => {
  const [, key] = /^Missing required key "(\w+)"/.exec(message) ?? [];
  const at = key === undefined ? path : [...path, key];
  const owner = at.slice(0, -1).reduce((part, step) => part[step], request);
  const [, type = ''] = /^Expected (\w+)/.exec(message) ?? [];
  const values: Record<string, unknown> = { object: {}, number: 1, boolean: true, Date: new Date(), enum: 'WEB' };
  // The message about a list does not say where it is.
  owner[at.at(-1) as string] = key === 'events' ? [] : (values[type] ?? 'x');
};

/** The SDK checks requests before it sends them: gives it what it misses, so that the request is sent. */
const callFilled = async (call: (...given: unknown[]) => PromiseLike<unknown>, given: unknown[]): Promise<unknown> => {
  for (let tries = 0; tries < 10; tries += 1) {
    const problems = await Promise.resolve()
      .then(() => call(...given))
      .then(
        () => [],
        (error: { errors?: Missing[] }) => {
          if (!error.errors) throw error;
          return error.errors;
        },
      );
    if (problems.length === 0) return undefined;
    for (const problem of problems) fill(given.at(-1), problem);
  }
  throw new Error('The SDK takes no request.');
};

test('methods that the vault does not have are refused, none of them in silence', async () => {
  const statuses = new Map<string, number | undefined>();
  for (const method of missingMethods()) {
    const error = await Promise.resolve(callByName(method)).then(
      () => undefined,
      (thrown: unknown) => thrown as BasisTheoryError,
    );
    statuses.set(method, error instanceof BasisTheoryError ? error.statusCode : undefined);
  }
  expect([...statuses].filter(([, status]) => status === undefined || ![400, 404, 405, 415].includes(status))).toEqual(
    [],
  );
});

test('the page of current clients is made of the list', () => {
  const path = new URL('../docs/current-clients.md', import.meta.url);
  const { version } = JSON.parse(
    readFileSync(new URL('../node_modules/@basis-theory/node-sdk/package.json', import.meta.url), 'utf8'),
  );
  expect(readFileSync(path, 'utf8')).toBe(pageOf(version));
});
