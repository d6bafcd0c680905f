// A kept answer is given again only to a caller who would be shown all of it today, and each time is in the log.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { codeOf, makeReactor } from './support/reactors.ts';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';

const CVC_TTL_S = 100;

let server: TestServer;
let tenant: TestTenant;

beforeAll(async () => {
  server = await startServer({ CVC_TTL: `${CVC_TTL_S}s` });
  tenant = await server.newTenant();
});
afterAll(() => server.close());

let count = 0;
const newKey = (): string => `replay-${(count += 1)}`;

const card = { type: 'card', data: { number: '4242424242424242', cvc: '737' } };

const create = async (request: object): Promise<string> => {
  const answer = await server.request('POST', '/tokens', { json: request, key: tenant.api_key });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

type Rule = { priority: number; container: string; transform: string; permissions: string[] };
const rule = (container: string, transform: string, ...permissions: string[]): Rule => ({
  priority: 1,
  container,
  transform,
  permissions,
});

/** Gives a key other rights than it had. Permissions and rules are replaced as a whole. */
const change = async (key: TestTenant, rights: { permissions?: string[]; rules?: Rule[] }): Promise<void> => {
  const json = { name: 'Key', permissions: [], rules: [], ...rights };
  const answer = await server.request('PUT', `/applications/${key.application_id}`, { json, key: tenant.api_key });
  expect(answer.status, answer.text).toBe(200);
};

const move = async (id: string, container: string): Promise<void> => {
  const admin = await server.newKey(tenant, {
    permissions: ['token:update', 'token:use'],
    rules: [rule('/', 'reveal', 'token:read', 'token:search')],
  });
  const answer = await server.request('PATCH', `/tokens/${id}`, {
    key: admin.api_key,
    headers: { 'content-type': 'application/merge-patch+json' },
    body: JSON.stringify({ containers: [container] }),
  });
  expect(answer.status, answer.text).toBe(200);
};

type Again = { first: Answer; again(json?: object): Promise<Answer> };

/** A request with an idempotency key that was answered, and the same once more. */
const once = async (method: string, path: string, key: TestTenant, json: object): Promise<Again> => {
  const headers = { 'svc-idempotency-key': newKey() };
  const again = (body = json) => server.request(method, path, { json: body, headers, key: key.api_key });
  const first = await again();
  expect(first.status, first.text).toBeLessThan(300);
  return { first, again };
};

const expectSame = (again: Answer, first: Answer): void => {
  expect([again.status, again.text]).toEqual([first.status, first.text]);
  expect(again.headers.get('svc-idempotent-replayed')).toBe('true');
};

const expectRefused = (again: Answer, status: number): void => {
  expect(again.status, again.text).toBe(status);
  expect(again.headers.get('svc-idempotent-replayed')).toBeNull();
  expect(again.text).not.toMatch(/4242|737/);
};

const ECHO = codeOf('return { raw: { card: args.card } };');

describe('the answer of code that used a card', () => {
  const reacted = async (key: TestTenant, request: object = card) => {
    const id = await create(request);
    const reactor = await makeReactor(server, { code: ECHO, key: tenant.api_key });
    const path = `/reactors/${reactor.id}/react`;
    return { id, reactor, ...(await once('POST', path, key, { args: { card: `{{ ${id} }}` } })) };
  };
  const user = () => server.newKey(tenant, { permissions: ['token:use'] });

  test('is given again as it was, and the log says so', async () => {
    const key = await user();
    const { id, reactor, first, again } = await reacted(key);
    expect(first.text).toContain('737');
    expectSame(await again(), first);
    const { body } = await server.request('GET', `/logs?actor_id=${key.application_id}&outcome=replayed`, {
      key: tenant.api_key,
    });
    expect(body.data.map((entry: any) => [entry.operation, entry.entity_id, entry.disclosure]).toSorted()).toEqual(
      [
        ['use', id, 'used'],
        ['use', reactor.id, 'none'],
      ].toSorted(),
    );
  });

  test('is gone when the security code in it expires, though it was given later than the code', async () => {
    const id = await create(card);
    server.clock.offsetMs += (CVC_TTL_S * 1000) / 2;
    const reactor = await makeReactor(server, { code: ECHO, key: tenant.api_key });
    const path = `/reactors/${reactor.id}/react`;
    const { first, again } = await once('POST', path, tenant, { args: { card: `{{ ${id} }}` } });
    expect(first.text).toContain('737');
    expectSame(await again(), first);
    server.clock.offsetMs += (CVC_TTL_S * 1000) / 2 + 1000;
    expectRefused(await again(), 409);
  });

  test('is a 403 for a caller that may not use the token any more', async () => {
    const key = await user();
    const { again } = await reacted(key);
    await change(key, { rules: [rule('/elsewhere/', 'reveal', 'token:use')] });
    expectRefused(await again(), 403);
  });

  test('is a 409 where a rule would show less of the token today', async () => {
    const key = await user();
    const { again } = await reacted(key);
    await change(key, { rules: [rule('/pci/', 'mask', 'token:use')] });
    expectRefused(await again(), 409);
  });

  test('is a 409 once the token is deleted', async () => {
    const { id, again } = await reacted(await user());
    await server.request('DELETE', `/tokens/${id}`, { key: tenant.api_key });
    expectRefused(await again(), 409);
  });

  test('is decided over the container that the token is in today', async () => {
    const key = await server.newKey(tenant, { rules: [rule('/pci/', 'reveal', 'token:use')] });
    const { id, first, again } = await reacted(key);
    await move(id, '/pci/other/');
    expectSame(await again(), first);
    await move(id, '/closed/');
    expectRefused(await again(), 403);
  });
});

describe('the answer of code that read by its application', () => {
  test('is a 403 once the application may not read the token', async () => {
    const id = await create(card);
    const application = await server.newKey(tenant, { rules: [rule('/pci/', 'reveal', 'token:read')] });
    const reactor = await makeReactor(server, {
      code: codeOf('return { raw: await svc.tokens.retrieve(args.id) };'),
      application,
      key: tenant.api_key,
    });
    const { first, again } = await once('POST', `/reactors/${reactor.id}/react`, tenant, { args: { id } });
    expect(first.text).toContain('4242424242424242');
    expectSame(await again(), first);
    await change(application, { rules: [rule('/elsewhere/', 'reveal', 'token:read')] });
    expectRefused(await again(), 403);
  });
});

describe('the answer of a create', () => {
  test('is given again after the token was deleted: its caller has sent all that is in it', async () => {
    const { first, again } = await once('POST', '/tokens', tenant, card);
    await server.request('DELETE', `/tokens/${first.body.id}`, { key: tenant.api_key });
    expectSame(await again(), first);
    const { body } = await server.request('GET', `/logs?entity_id=${first.body.id}&outcome=replayed`, {
      key: tenant.api_key,
    });
    expect(body.data).toMatchObject([{ operation: 'create', entity_type: 'card' }]);
  });

  test('is a 403 once token:create does not reach the container', async () => {
    const key = await server.newKey(tenant, { permissions: ['token:create'] });
    const { again } = await once('POST', '/tokens', key, card);
    await change(key, { rules: [rule('/bank/', 'mask', 'token:create')] });
    expectRefused(await again(), 403);
  });

  test('is a 409 where it has a fingerprint that its caller may not see today', async () => {
    const key = await server.newKey(tenant, { permissions: ['token:create', 'token:read'] });
    const { first, again } = await once('POST', '/tokens', key, card);
    expect(first.body.fingerprint).toEqual(expect.any(String));
    await change(key, { permissions: ['token:create'], rules: [rule('/', 'redact', 'token:read')] });
    expectRefused(await again(), 409);
  });

  test('of ten thousand tokens is given again', async () => {
    const values = Array.from({ length: 10_000 }, (_, index) => index);
    const { first, again } = await once('POST', '/tokenize', tenant, values);
    expectSame(await again(), first);
  });
});

describe('an answer with an API key in it', () => {
  test('is a 403 once its caller could not give the application these rights', async () => {
    const key = await server.newKey(tenant, { permissions: ['application:create', 'token:read', 'token:use'] });
    const json = { name: 'A', type: 'private', permissions: ['token:use'] };
    const { first, again } = await once('POST', '/applications', key, json);
    expectSame(await again(), first);
    await change(key, { permissions: ['application:create', 'token:read'] });
    const refused = await again();
    expectRefused(refused, 403);
    expect(refused.text).not.toContain(first.body.key);
  });
});

describe('another body under the same key', () => {
  test.each([
    ['a value is another', { data: 'other' }],
    ['there is one attribute more', { data: 'x', metadata: { a: 'b' } }],
    ['it is not valid', { data: null, type: 5 }],
  ])('is a 422 where %s', async (_, other) => {
    const { first, again } = await once('POST', '/tokens', tenant, { data: 'x' });
    const refused = await again(other);
    expect(refused.status).toBe(422);
    expect(refused.text).not.toContain(first.body.id);
    expectSame(await again({ data: 'x' }), first);
  });

  test('is a 422 where there was one and is none, and where there was none and is one', async () => {
    const reactor = await makeReactor(server, { code: codeOf('return { raw: 1 };'), key: tenant.api_key });
    const headers = { 'svc-idempotency-key': newKey() };
    const path = `/reactors/${reactor.id}/react`;
    const send = (json?: object) => server.request('POST', path, { headers, key: tenant.api_key, json });
    expect((await send()).status).toBe(200);
    expect((await send({ args: {} })).status).toBe(422);
  });
});
