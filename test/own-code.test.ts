// Reactors with code of their own, in place of a formula; and merge patches of reactors and proxies.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { codeOf, type SharedReactorServer, useReactorServer } from './support/reactors.ts';
import type { Answer, TestTenant } from './support/server.ts';

let fixture: SharedReactorServer;
let tenant: TestTenant;

beforeAll(async () => {
  fixture = await useReactorServer();
});
afterAll(() => fixture.close());
beforeEach(async () => {
  tenant = await fixture.server.newTenant();
});

const send = (method: string, path: string, json?: unknown, key = tenant.api_key): Promise<Answer> =>
  fixture.server.request(method, path, { key, ...(json !== undefined && { json }) });

const made = async (path: string, json: unknown): Promise<any> => {
  const { status, body, text } = await send('POST', path, json);
  expect(status, text).toBe(201);
  return body;
};

const changed = async (method: string, path: string, json: unknown): Promise<any> => {
  const { status, body, text } = await send(method, path, json);
  expect(status, text).toBe(200);
  return body;
};

const raw = async (id: string, args: unknown = {}): Promise<unknown> =>
  (await changed('POST', `/reactors/${id}/react`, { args })).raw;

const ECHO = codeOf('return { raw: { args, configuration } };');
const other = (word: string) => codeOf(`return { raw: '${word}' };`);

describe('a reactor with code of its own', () => {
  test('runs it with any args and any configuration', async () => {
    const reactor = await made('/reactors', { name: 'R', code: ECHO, configuration: { KEY: 'k', COUNT: 2 } });
    expect([reactor.code, reactor.formula.code, reactor.formula.configuration]).toEqual([ECHO, ECHO, []]);
    expect(await raw(reactor.id, { a: [1] })).toEqual({ args: { a: [1] }, configuration: { KEY: 'k', COUNT: 2 } });
    expect((await send('GET', `/reactors/${reactor.id}`)).body).toEqual(reactor);
  });

  test('shows it as a formula that no list and no route of formulas has', async () => {
    const formula = { name: 'F', type: 'private', code: ECHO, configuration: [], request_parameters: [] };
    const listed = await made('/reactor-formulas', formula);
    const { id } = await made('/reactors', { name: 'R', code: ECHO });
    const { body: page } = await send('GET', '/reactor-formulas?size=100');
    expect(page.data.filter(({ type }: { type: string }) => type === 'private')).toEqual([listed]);
    const path = `/reactor-formulas/${id}`;
    const answers = [
      await send('GET', path),
      await send('PUT', path, formula),
      await send('DELETE', path),
      await send('GET', `${path}/versions`),
      await send('POST', '/reactors', { name: 'R', formula: { id } }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404]);
    expect(await raw(id)).toEqual({ args: {}, configuration: {} });
  });

  test('changes it by PUT and PATCH, each a version, and goes with it', async () => {
    const { id } = await made('/reactors', { name: 'R', code: other('one') });
    expect(await raw(id)).toBe('one');
    const put = await changed('PUT', `/reactors/${id}`, { name: 'S', code: other('two') });
    expect([put.name, put.formula.name, put.code, await raw(id)]).toEqual(['S', 'S', other('two'), 'two']);
    await changed('PATCH', `/reactors/${id}`, { code: other('three') });
    expect((await changed('PUT', `/reactors/${id}`, { name: 'T' })).code).toBe(other('three'));
    expect(await raw(id)).toBe('three');
    const { body: versions } = await send('GET', `/reactors/${id}/versions`);
    expect(versions.data.map(({ number }: { number: number }) => number)).toEqual([3, 2, 1]);
    await changed('POST', `/reactors/${id}/versions/1/restore`, undefined);
    expect(await raw(id)).toBe('one');
    expect((await send('DELETE', `/reactors/${id}`)).status).toBe(204);
    const left = await fixture.server.sql(
      `SELECT id FROM reactor_formulas WHERE tenant_id = $1
       UNION ALL SELECT id FROM code_versions WHERE tenant_id = $1`,
      [tenant.tenant_id],
    );
    expect(left).toEqual([]);
  });

  test('is sealed like any code', async () => {
    await made('/reactors', { name: 'R', code: other('canary-in-own-code') });
    const [row] = await fixture.server.sql('SELECT f::text FROM reactor_formulas f WHERE tenant_id = $1', [
      tenant.tenant_id,
    ]);
    expect(row.f).not.toContain(Buffer.from('canary-in-own-code').toString('hex'));
  });

  test('is tested as a draft with any configuration', async () => {
    const { id } = await made('/reactors', { name: 'R', code: ECHO });
    const draft = { code: codeOf('return { raw: configuration };'), configuration: { KEY: 'draft' } };
    expect((await changed('POST', `/reactors/${id}/test`, draft)).raw).toEqual({ KEY: 'draft' });
  });

  test.each([
    [{ name: 'R' }, ['formula']],
    [{ name: 'R', code: ECHO, formula: { id: crypto.randomUUID() } }, ['code']],
    [{ name: 'R', code: ECHO, configuration: { 'a.b': 'x' } }, ['configuration.a.b']],
    [{ name: 'R', code: ECHO, configuration: { a: {} } }, ['configuration.a']],
    [{ name: 'R', code: 3 }, ['code']],
  ])('%j is a 400 that names the place', async (json, places) => {
    const { status, body } = await send('POST', '/reactors', json);
    expect([status, Object.keys(body.errors)]).toEqual([400, places]);
  });

  test('that does not compile is a 422, at creation and in a patch', async () => {
    expect((await send('POST', '/reactors', { name: 'R', code: 'module.exports = (' })).status).toBe(422);
    const { id } = await made('/reactors', { name: 'R', code: other('one') });
    expect((await send('PATCH', `/reactors/${id}`, { code: 'module.exports = (' })).status).toBe(422);
    expect(await raw(id)).toBe('one');
  });

  test('is changed only by a caller that holds all of the rights of its application', async () => {
    const application = await made('/applications', { name: 'A', permissions: ['token:read', 'token:use'] });
    const { id } = await made('/reactors', { name: 'R', code: other('one'), application: { id: application.id } });
    const { api_key } = await fixture.server.newKey(tenant, { permissions: ['reactor:update', 'token:use'] });
    expect((await send('PATCH', `/reactors/${id}`, { code: other('two') }, api_key)).status).toBe(403);
    expect(await raw(id)).toBe('one');
  });
});

describe('a merge patch of a reactor', () => {
  test('changes what it names: null removes, the rest stays', async () => {
    const application = await made('/applications', { name: 'A', permissions: ['token:read'] });
    const code = codeOf('return { raw: configuration };');
    const json = { name: 'R', code, configuration: { A: '1', B: '2' }, application: { id: application.id } };
    const { id } = await made('/reactors', json);
    const first = await changed('PATCH', `/reactors/${id}`, { configuration: { B: null, C: '3' } });
    expect([first.name, first.configuration, first.application.id]).toEqual(['R', { A: '1', C: '3' }, application.id]);
    const second = await changed('PATCH', `/reactors/${id}`, { name: 'S', application: null, configuration: null });
    expect([second.name, second.configuration, second.application]).toEqual(['S', {}, undefined]);
    expect(await raw(id)).toEqual({});
    const merge = { key: tenant.api_key, headers: { 'content-type': 'application/merge-patch+json' } };
    const third = await fixture.server.request('PATCH', `/reactors/${id}`, { ...merge, body: '{"name":"T"}' });
    expect([third.status, third.body.name]).toEqual([200, 'T']);
  });

  test('of a reactor of a formula is held to its contract', async () => {
    const contract = [{ name: 'SHOP', type: 'string' }];
    const formula = { name: 'F', type: 'private', code: ECHO, configuration: contract, request_parameters: [] };
    const { id: formula_id } = await made('/reactor-formulas', formula);
    const { id } = await made('/reactors', { name: 'R', formula: { id: formula_id }, configuration: { SHOP: 'one' } });
    const path = `/reactors/${id}`;
    expect((await changed('PATCH', path, { configuration: { SHOP: 'two' } })).configuration).toEqual({ SHOP: 'two' });
    for (const [patch, place] of [
      [{ configuration: { SHOP: null } }, 'configuration.SHOP'],
      [{ configuration: { OTHER: 'x' } }, 'configuration.OTHER'],
      [{ code: ECHO }, 'code'],
      [{ name: null }, 'name'],
      [{ formula: { id } }, 'formula.id'],
      [{ nam: 'S' }, 'nam'],
    ] as const) {
      const { status, body } = await send('PATCH', path, patch);
      expect([status, Object.keys(body.errors)], JSON.stringify(patch)).toEqual([400, [place]]);
    }
    expect((await send('GET', path)).body.configuration).toEqual({ SHOP: 'two' });
  });

  test('of another type than JSON is a 415', async () => {
    const { id } = await made('/reactors', { name: 'R', code: ECHO });
    const options = { key: tenant.api_key, headers: { 'content-type': 'application/vnd.x+json' }, body: '{}' };
    expect((await fixture.server.request('PATCH', `/reactors/${id}`, options)).status).toBe(415);
  });
});

describe('proxies', () => {
  const code = (header: string) =>
    `module.exports = async ({ args: { body, headers } }) => ({ body, headers: { ...headers, 'x-by': '${header}' } });`;
  const proxy = () => ({ name: 'P', destination_url: fixture.url });
  const through = (key: string, json: unknown) =>
    fixture.server.request('POST', '/proxy', { key: tenant.api_key, headers: { 'svc-proxy-key': key }, json });
  const sentBy = (): unknown => new Map(fixture.upstream.received.at(-1)?.headers).get('x-by');

  test('a merge patch changes what it names: null removes, the rest stays', async () => {
    const json = {
      ...proxy(),
      request_transform: { code: code('one') },
      configuration: { A: '1' },
      timeout_seconds: 9,
    };
    const first = await made('/proxies', json);
    const path = `/proxies/${first.id}`;
    const second = await changed('PATCH', path, { request_transform: { code: code('two') } });
    const { request_transform, modified_at, modified_by, ...rest } = second;
    expect([request_transform.code, modified_by, modified_at === undefined]).toEqual([
      code('two'),
      tenant.application_id,
      false,
    ]);
    expect({ ...rest, request_transform: first.request_transform }).toEqual(first);
    await through(first.key, {});
    expect(sentBy()).toBe('two');
    const nothing = { request_transform: null, configuration: null, timeout_seconds: null };
    const third = await changed('PATCH', path, { ...nothing, disable_detokenization: true });
    expect([third.request_transform, third.configuration, third.timeout_seconds, third.expressions]).toEqual([
      undefined,
      null,
      25,
      'off',
    ]);
    await through(first.key, { a: '{{ not-a-token }}' });
    expect([sentBy(), fixture.upstream.received.at(-1)?.body.toString()]).toEqual([
      undefined,
      '{"a":"{{ not-a-token }}"}',
    ]);
  });

  test('take lists of one transform, and no more', async () => {
    const made_by = await made('/proxies', { ...proxy(), request_transforms: [{ type: 'code', code: code('list') }] });
    expect(made_by.request_transform).toEqual({ code: code('list') });
    await through(made_by.key, {});
    expect(sentBy()).toBe('list');
    const transform = { code: code('x') };
    for (const [json, places] of [
      [{ request_transforms: [transform, transform] }, ['request_transforms']],
      [{ request_transforms: [transform], request_transform: transform }, ['request_transforms']],
      [
        { request_transform: { type: 'mask', expression: 'x' } },
        ['request_transform.type', 'request_transform.code', 'request_transform.expression'],
      ],
      [{ response_transform: { type: 'tokenize' } }, ['response_transform.type']],
      [{ response_transform: { type: 'mask' } }, ['response_transform.expression']],
      [{ response_transform: { type: 'mask', expression: '(' } }, ['response_transform.expression']],
      [{ response_transform: { type: 'mask', matcher: 'chase_stratus_pan' } }, ['response_transform.matcher']],
      [{ response_transform: { code: code('x'), expression: 'x' } }, ['response_transform.type']],
      [{ disable_detokenization: true, expressions: 'on' }, ['disable_detokenization']],
    ] as const) {
      const { status, body } = await send('POST', '/proxies', { ...proxy(), ...json });
      expect([status, Object.keys(body.errors)], JSON.stringify(json)).toEqual([400, places]);
    }
  });

  test('mask what an expression matches in a response, and show how', async () => {
    const mask = { type: 'mask', matcher: 'regex', expression: '[0-9]{12}(?=[0-9]{4})', replacement: '#' };
    const record = await made('/proxies', { ...proxy(), response_transform: mask });
    expect(record.response_transform).toMatchObject(mask);
    const answer = await through(record.key, { number: '4242424242424242', amount: 7 });
    const echoed = JSON.parse(answer.body.body);
    expect([answer.status, echoed]).toEqual([200, { number: '#4242', amount: 7 }]);
    const again = await changed('PUT', `/proxies/${record.id}`, record);
    expect(again.response_transform).toEqual(record.response_transform);
  });

  test('mask text of JSON, with * where nothing else is said', async () => {
    const mask = { type: 'mask', expression: 'secret(?=")' };
    const { key } = await made('/proxies', { ...proxy(), response_transforms: [mask] });
    const answer = await fixture.server.request('POST', '/proxy', {
      key: tenant.api_key,
      headers: { 'svc-proxy-key': key, 'content-type': 'text/plain' },
      body: 'secret',
    });
    expect([answer.status, answer.body.body]).toEqual([200, '*']);
  });
});
