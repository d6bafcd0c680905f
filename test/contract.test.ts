// What the document says of requests is what the server takes: where null may stand, what an empty list means, which types
// a patch may have. Through the front door, with the real database.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exampleFormula } from '../src/http/openapi-examples.ts';
import { startServer, type TestServer } from './support/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const send = (method: string, path: string, json: unknown, headers: Record<string, string> = {}) =>
  server.request(method, path, {
    key: server.tenant.api_key,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(json),
  });

const make = async (json: unknown): Promise<{ id: string } & Record<string, unknown>> => {
  const made = await send('POST', '/tokens', json);
  expect(made.status, made.text).toBe(201);
  return made.body;
};

const card = { number: '4242424242424242', cvc: '123' };

describe('a token request', () => {
  test('with null as its type is a 400 that names it, wherever a token is made', async () => {
    const parent = await make({ data: 'x' });
    for (const path of ['/tokenize', '/tokens', `/tokens/${parent.id}/children`]) {
      const refused = await send('POST', path, { type: null, data: card });
      expect(refused.status, path).toBe(400);
      expect(Object.keys(refused.body.errors), path).toEqual(['type']);
    }
    const inside = await send('POST', '/tokenize', { card: { type: null, data: card } });
    expect([inside.status, Object.keys(inside.body.errors)]).toEqual([400, ['card.type']]);
  });

  test('without a type is a generic token', async () => {
    expect(await make({ data: 'x' })).toMatchObject({ type: 'token', containers: ['/general/high/'] });
  });

  test('with null for any other attribute is one without it, as the document says', async () => {
    const nulls = {
      id: null,
      mask: null,
      containers: null,
      metadata: null,
      search_indexes: null,
      fingerprint_expression: null,
      deduplicate_token: null,
      expires_at: null,
    };
    const { id: _, created_at: __, fingerprint: ___, ...made } = await make({ type: 'card', data: card, ...nulls });
    const { id: ____, created_at: _____, fingerprint: ______, ...plain } = await make({ type: 'card', data: card });
    expect(made).toEqual(plain);
  });

  test('with an empty list of containers goes to the container of its type', async () => {
    expect(await make({ type: 'card', data: card, containers: [] })).toMatchObject({ containers: ['/pci/high/'] });
  });

  test('with a key of the metadata that cannot be one is a 400 that says what a key may be', async () => {
    const bad = await send('POST', '/tokens', { data: 1, metadata: { 'order id': 'x' } });
    expect(bad.status).toBe(400);
    expect(Object.values(bad.body.errors)).toEqual([
      [
        'must have keys of 1 to 200 letters, digits, dots, dashes and underscores, with no dot and no dash at either end',
      ],
    ]);
    const noMap = await send('POST', '/tokens', { data: 1, metadata: ['x'] });
    expect(noMap.body.errors).toEqual({ metadata: ['must be an object of strings'] });
  });
});

describe('a patch of a token', () => {
  const types = ['application/merge-patch+json', 'application/json', 'application/json; charset=utf-8'];

  test.each(types)('is a merge patch, sent as %s', async (type) => {
    const { id } = await make({ data: { a: 1, b: 2 }, metadata: { order: '4711' } });
    const changed = await send(
      'PATCH',
      `/tokens/${id}`,
      { metadata: { order: null, kept: 'x' } },
      { 'content-type': type },
    );
    expect(changed.status, changed.text).toBe(200);
    expect(changed.body.metadata).toEqual({ kept: 'x' });
  });

  test.each(['application/json-patch+json', 'text/plain'])(
    'sent as %s is a 415 that names the types it may have',
    async (type) => {
      const { id } = await make({ data: 'x' });
      const refused = await send('PATCH', `/tokens/${id}`, [{ op: 'remove', path: '/data' }], { 'content-type': type });
      expect(refused.status).toBe(415);
      expect(refused.headers.get('accept-patch')).toBe('application/merge-patch+json, application/json');
    },
  );

  test('with an empty list of containers leaves the token where it is', async () => {
    const { id } = await make({ data: 'x', containers: ['/general/low/'] });
    const changed = await send('PATCH', `/tokens/${id}`, { containers: [], metadata: { a: 'b' } });
    expect(changed.body).toMatchObject({ containers: ['/general/low/'], metadata: { a: 'b' } });
  });
});

describe('an access rule', () => {
  const rule = { priority: 1, transform: 'mask', permissions: ['token:read'] };

  test('with a container and an empty list of conditions is a rule on the container', async () => {
    const rules = [{ ...rule, container: '/pci/', conditions: [] }];
    const made = await send('POST', '/applications', { name: 'Support', rules });
    expect(made.status, made.text).toBe(201);
    expect(made.body.rules).toEqual([{ ...rule, container: '/pci/' }]);
    const read = await server.request('GET', '/applications/key', { key: made.body.key });
    expect(read.body.rules).toEqual(made.body.rules);
  });

  test('with an empty list of conditions alone reaches nothing: it is refused', async () => {
    const refused = await send('POST', '/applications', { name: 'Support', rules: [{ ...rule, conditions: [] }] });
    expect(refused.status).toBe(400);
    expect(JSON.stringify(refused.body.errors)).toContain('must have either a container or conditions');
  });
});

test('a reactor without request parameters is invoked without a body', async () => {
  const code = 'module.exports = async () => ({ raw: 42 });';
  const formula = await send('POST', '/reactor-formulas', { name: exampleFormula.name, type: 'private', code });
  expect(formula.status, formula.text).toBe(201);
  const reactor = await send('POST', '/reactors', { name: 'None', formula: { id: formula.body.id } });
  expect(reactor.status, reactor.text).toBe(201);
  const answer = await server.request('POST', `/reactors/${reactor.body.id}/react`, { key: server.tenant.api_key });
  expect([answer.status, answer.body]).toEqual([200, { raw: 42 }]);
  const documented = (await server.request('GET', '/openapi.json', {})).body;
  expect(documented.paths['/reactors/{id}/react'].post.requestBody.required).toBe(false);
  expect(documented.paths['/tokenize'].post.requestBody.required).toBe(true);
});
