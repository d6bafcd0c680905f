// Versions of code, drafts, and tests of drafts: each deploy is kept, an earlier one is restored, and a draft runs undeployed.
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { VERSIONS_MAX } from '../src/modules/code/rows/code-versions.ts';
import { DRAFTS_KEPT_MS, sweepOnce } from '../src/platform/maintenance/sweep.ts';
import { type Answer, type SharedServer, type TestTenant, useServer } from './support/server.ts';
import { codeOf, makeReactor } from './support/reactors.ts';

let server: SharedServer;
let tenant: TestTenant;
beforeAll(async () => {
  server = await useServer();
  tenant = await server.newTenant();
});

const ask = (method: string, path: string, json?: unknown, key = tenant.api_key): Promise<Answer> =>
  server.request(method, path, { key, ...(json !== undefined && { json }) });

/** @returns the body. */
const done = async (method: string, path: string, json?: unknown, key = tenant.api_key): Promise<any> => {
  const answer = await ask(method, path, json, key);
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return answer.body;
};

const returning = (value: unknown): string => codeOf(`return { raw: ${JSON.stringify(value)} };`);
const formula = (value: unknown, more: object = {}) => ({
  name: 'F',
  type: 'private',
  code: returning(value),
  ...more,
});
const newFormula = async (value: unknown, more: object = {}): Promise<string> =>
  (await done('POST', '/reactor-formulas', formula(value, more))).id;
const newReactor = async (formula_id: string, more: object = {}): Promise<string> =>
  (await done('POST', '/reactors', { name: 'R', formula: { id: formula_id }, ...more })).id;
const rawOf = async (reactor: string) => (await done('POST', `/reactors/${reactor}/react`, {})).raw;
const numbersOf = async (path: string): Promise<number[]> =>
  (await done('GET', `${path}/versions?size=100`)).data.map(({ number }: { number: number }) => number);
const tampered = () => server.logLines.filter((line) => line.includes('"code_versions"')).length;

describe('the versions of a formula', () => {
  test('are its deploys, with author, time and note; unchanged code is none, and says so', async () => {
    const id = await newFormula(1, { note: 'First' });
    const path = `/reactor-formulas/${id}`;
    await done('PUT', path, formula(2, { note: 'Second' }));
    const same = await ask('PUT', path, formula(2, { name: 'Renamed', note: 'Not kept' }));
    expect([same.status, same.headers.get('svc-warning')]).toEqual([200, expect.stringContaining('did not change')]);
    await done('PUT', path, formula(3));
    const { data, pagination } = await done('GET', `${path}/versions`);
    expect(pagination.total_items).toBe(3);
    const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    const by = { created_by: tenant.application_id, created_at: at };
    expect(data).toEqual([
      { number: 3, ...by },
      { number: 2, note: 'Second', ...by },
      { number: 1, note: 'First', ...by },
    ]);
    expect(await done('GET', `${path}/versions/2`)).toEqual({ ...data[1], code: returning(2) });
  });

  test('are those of its reactors too, which run a restored one at once', async () => {
    const id = await newFormula('old');
    const reactor = await newReactor(id);
    await done('PUT', `/reactor-formulas/${id}`, formula('new'));
    expect([await rawOf(reactor), await numbersOf(`/reactors/${reactor}`)]).toEqual(['new', [2, 1]]);
    const restored = await done('POST', `/reactors/${reactor}/versions/1/restore`, {});
    expect(restored).toMatchObject({ number: 3, note: 'Version 1 again', created_by: tenant.application_id });
    expect(await rawOf(reactor)).toBe('old');
    // It runs already.
    expect((await done('POST', `/reactors/${reactor}/versions/1/restore`)).number).toBe(3);
    expect(await numbersOf(`/reactor-formulas/${id}`)).toEqual([3, 2, 1]);
    const rows = await server.sql(
      `SELECT operation FROM audit_log WHERE tenant_id = $1 AND message = 'Version of code restored' AND entity_ids = ARRAY[$2]`,
      [tenant.tenant_id, id],
    );
    expect(rows).toEqual([{ operation: 'update' }, { operation: 'update' }]);
  });

  test(`are the last ${VERSIONS_MAX}, and end with the formula: one of the same id begins anew`, async () => {
    const id = await newFormula(0);
    const path = `/reactor-formulas/${id}`;
    await server.sql('UPDATE code_versions SET number = $2 WHERE resource_id = $1', [id, VERSIONS_MAX + 7]);
    await done('PUT', path, formula(1));
    await server.sql('UPDATE code_versions SET number = 8 WHERE resource_id = $1 AND number = $2', [
      id,
      VERSIONS_MAX + 7,
    ]);
    await done('PUT', path, formula(2));
    const left = await server.sql('SELECT number FROM code_versions WHERE resource_id = $1 ORDER BY number', [id]);
    expect(left.map(({ number }) => number)).toEqual([VERSIONS_MAX + 8, VERSIONS_MAX + 9]);
    expect((await ask('GET', `${path}/versions/8`)).status).toBe(404);
    await done('PUT', `${path}/draft`, { code: returning(9) });
    await done('DELETE', path);
    expect(await server.sql('SELECT id FROM code_versions WHERE resource_id = $1', [id])).toEqual([]);
    expect(await server.sql('SELECT id FROM code_drafts WHERE resource_id = $1', [id])).toEqual([]);
    await newFormula(1, { id });
    expect(await numbersOf(path)).toEqual([1]);
  });

  test('are sealed, and one that no server wrote is neither listed nor restored', async () => {
    const id = await newFormula('my secret code');
    const [row] = await server.sql('SELECT * FROM code_versions WHERE resource_id = $1', [id]);
    expect(JSON.stringify(row) + row.sealed.toString('latin1')).not.toContain('secret');
    const before = tampered();
    await server.sql("UPDATE code_versions SET note = 'Approved by Ada' WHERE resource_id = $1", [id]);
    expect((await done('GET', `/reactor-formulas/${id}/versions`)).data).toEqual([]);
    expect((await ask('POST', `/reactor-formulas/${id}/versions/1/restore`)).status).toBe(404);
    expect(tampered()).toBe(before + 2);
    // The code of another version in place of its own.
    await server.sql('UPDATE code_versions SET note = NULL WHERE resource_id = $1', [id]);
    const other = await newFormula('other');
    const swap = `UPDATE code_versions SET sealed = (SELECT sealed FROM code_versions WHERE resource_id = $2) WHERE resource_id = $1`;
    await server.sql(swap, [id, other]);
    expect((await ask('POST', `/reactor-formulas/${id}/versions/1/restore`)).status).toBe(500);
  });

  test('are restored by a caller that holds what the code may do, and only by it', async () => {
    const id = await newFormula(1);
    const application = await done('POST', '/applications', { name: 'A', permissions: ['token:read'] });
    await newReactor(id, { application: { id: application.id } });
    await done('PUT', `/reactor-formulas/${id}`, formula(2));
    const path = `/reactor-formulas/${id}/versions/1/restore`;
    const { api_key: less } = await server.newKey(tenant, { permissions: ['reactor:update'] });
    const { api_key: enough } = await server.newKey(tenant, { permissions: ['reactor:update', 'token:read'] });
    const refused = await ask('POST', path, {}, less);
    expect([refused.status, refused.body.detail]).toEqual([403, expect.stringContaining('token:read')]);
    expect((await ask('POST', path, {}, enough)).status).toBe(200);
  });

  test.each([
    ['versions/0', 400, 'number'],
    ['versions/x', 400, 'number'],
    ['versions/9', 404, undefined],
    ['versions?start=x', 400, 'start'],
    ['versions?page=x', 400, 'page'],
  ])('at %s are a %i that names the place', async (rest, status, place) => {
    const id = await newFormula(1);
    const answer = await ask('GET', `/reactor-formulas/${id}/${rest}`);
    expect([answer.status, Object.keys(answer.body.errors ?? {})]).toEqual([status, place ? [place] : []]);
  });

  test.each([
    ['a number', { note: 7 }],
    ['too long', { note: 'x'.repeat(501) }],
    ['not storable', { note: '\u0000' }],
    ['another attribute', { notes: 'x' }],
  ])('take no note that is %s', async (_what, body) => {
    const id = await newFormula(1);
    for (const [method, path, json] of [
      ['POST', `/reactor-formulas/${id}/versions/1/restore`, body],
      ['PUT', `/reactor-formulas/${id}`, formula(2, body)],
    ] as const) {
      const answer = await ask(method, path, json);
      expect([answer.status, Object.keys(answer.body.errors)]).toEqual([400, Object.keys(body)]);
    }
  });
});

describe('the versions of a proxy', () => {
  test('are its transforms: a change of either, or without them, and a restored one', async () => {
    const at = { name: 'P', destination_url: 'https://api.example.com' };
    const transform = (value: number) => ({ code: `module.exports = ({ args }) => ({ ...args, body: ${value} });` });
    const { id } = await done('POST', '/proxies', at);
    const path = `/proxies/${id}`;
    expect(await numbersOf(path)).toEqual([]);
    await done('PUT', path, { ...at, request_transform: transform(1), note: 'One' });
    await done('PUT', path, { ...at, name: 'Renamed', request_transform: transform(1) });
    await done('PUT', path, { ...at, request_transform: transform(1), response_transform: transform(2) });
    await done('PUT', path, at);
    expect(await numbersOf(path)).toEqual([3, 2, 1]);
    expect(await done('GET', `${path}/versions/1`)).toMatchObject({ note: 'One', request_transform: transform(1) });
    expect((await done('POST', `${path}/versions/2/restore`, { note: 'Both again' })).number).toBe(4);
    const restored = await done('GET', path);
    expect([restored.request_transform, restored.response_transform]).toEqual([transform(1), transform(2)]);
    const limited = { name: 'L', permissions: ['proxy:update'], allowed_hosts: ['api.example.com'] };
    const { key } = await done('POST', '/applications', limited);
    expect((await ask('POST', `${path}/versions/1/restore`, {}, key)).status).toBe(403);
    await done('DELETE', path);
    expect(await server.sql('SELECT id FROM code_versions WHERE resource_id = $1', [id])).toEqual([]);
  });
});

describe('a draft', () => {
  test('is its own for each caller, is not compiled or deployed, and ends after 90 days', async () => {
    const id = await newFormula('deployed');
    const path = `/reactor-formulas/${id}/draft`;
    const reactor = await newReactor(id);
    const { api_key: other } = await server.newKey(tenant, { permissions: ['reactor:update', 'reactor:read'] });
    expect((await ask('GET', path)).status).toBe(404);
    await done('PUT', path, { code: 'not yet (' });
    await done('PUT', path, { code: 'mine' });
    await done('PUT', path, { code: 'of the other' }, other);
    expect([(await done('GET', path)).code, (await done('GET', path, undefined, other)).code]).toEqual([
      'mine',
      'of the other',
    ]);
    expect((await done('GET', `/reactors/${reactor}/draft`)).code).toBe('mine');
    expect([await rawOf(reactor), await numbersOf(`/reactors/${reactor}`)]).toEqual(['deployed', [1]]);
    await done('DELETE', path, undefined, other);
    expect((await ask('DELETE', path, undefined, other)).status).toBe(404);
    const { ctx } = server;
    const sweepAt = (ms: number) => sweepOnce(ctx.db, new Date(Date.now() + ms), ctx.newLogId, ctx.config);
    await server.sql('UPDATE code_drafts SET modified_at = now() - $2 * $3::interval WHERE resource_id = $1', [
      id,
      DRAFTS_KEPT_MS - 60_000,
      '1 millisecond',
    ]);
    await sweepAt(0);
    const left = () => server.sql('SELECT id FROM code_drafts WHERE resource_id = $1', [id]);
    expect(await left()).toHaveLength(1);
    await sweepAt(120_000);
    expect(await left()).toEqual([]);
  });

  test('of a proxy has its transforms', async () => {
    const { id } = await done('POST', '/proxies', { name: 'P', destination_url: 'https://api.example.com' });
    const draft = { response_transform: { code: 'draft' } };
    expect(await done('PUT', `/proxies/${id}/draft`, draft)).toMatchObject(draft);
    expect(await done('GET', `/proxies/${id}/draft`)).toEqual({ ...draft, modified_at: expect.any(String) });
  });
});

describe('a test of a reactor', () => {
  const echo = codeOf('return { raw: { args, configuration } };');
  const contract = [{ name: 'KEY', type: 'string' }];
  const make = () =>
    makeReactor(server, {
      code: returning('deployed'),
      contract,
      configuration: { KEY: 'of the reactor' },
      key: tenant.api_key,
    });

  test('runs given code and configuration, deploys nothing, and is logged as a run', async () => {
    const { id } = await make();
    const tryIt = (json: object) => done('POST', `/reactors/${id}/test`, json);
    expect(await tryIt({ code: echo, args: { n: 1 } })).toEqual({
      raw: { args: { n: 1 }, configuration: { KEY: 'of the reactor' } },
    });
    expect((await tryIt({ code: echo, configuration: { KEY: 'other' } })).raw.configuration).toEqual({ KEY: 'other' });
    expect((await tryIt({})).raw).toBe('deployed');
    expect([await rawOf(id), await numbersOf(`/reactors/${id}`)]).toEqual(['deployed', [1]]);
    await vi.waitFor(async () => {
      const { data } = await done('GET', `/runs?resource_id=${id}`);
      expect(data.map(({ version }: { version: string }) => version)).toEqual(['1.1', 'draft', 'draft', 'draft']);
    });
    const [{ count }] = await server.sql(
      "SELECT count(*)::int AS count FROM audit_log WHERE tenant_id = $1 AND message = 'Reactor tested' AND entity_ids = ARRAY[$2]",
      [tenant.tenant_id, id],
    );
    expect(count).toBe(3);
  });

  test('refuses what a deploy refuses, by its place', async () => {
    const { id } = await make();
    const refusal = async (json: object) => {
      const { status, body } = await ask('POST', `/reactors/${id}/test`, json);
      return [status, Object.keys(body.errors ?? {})];
    };
    expect(await refusal({ code: 'module.exports = (' })).toEqual([422, ['code']]);
    expect(await refusal({ code: 7 })).toEqual([400, ['code']]);
    expect(await refusal({ configuration: { OTHER: 1 } })).toEqual([400, ['configuration.KEY', 'configuration.OTHER']]);
    expect(await refusal({ cod: echo })).toEqual([400, ['cod']]);
  });

  test('opens tokens with token:use only, counts and logs them; sample values need no more', async () => {
    const { id } = await make();
    const { id: token } = await done('POST', '/tokens', { data: 'SECRET' });
    const draft = codeOf('return { raw: args.value.length };');
    const withToken = { code: draft, args: { value: `{{ ${token} }}` } };
    const { api_key: deployer } = await server.newKey(tenant, { permissions: ['reactor:update'] });
    const refused = await ask('POST', `/reactors/${id}/test`, withToken, deployer);
    expect([refused.status, refused.body.detail]).toEqual([403, expect.stringContaining('token:use')]);
    const sample = { code: draft, args: { value: 'sample' } };
    expect((await done('POST', `/reactors/${id}/test`, sample, deployer)).raw).toBe(6);
    const limited = await done('POST', '/applications', {
      name: 'L',
      permissions: ['reactor:update', 'token:use'],
      daily_uses: 1,
    });
    const { id: second } = await done('POST', '/tokens', { data: 'SECRET TOO' });
    expect((await done('POST', `/reactors/${id}/test`, withToken, limited.key)).raw).toBe(6);
    const over = { code: draft, args: { value: `{{ ${second} }}` } };
    expect((await ask('POST', `/reactors/${id}/test`, over, limited.key)).status).toBe(429);
    const uses = await server.sql(
      "SELECT actor_id, disclosure FROM audit_log WHERE tenant_id = $1 AND entity_ids = ARRAY[$2] AND operation = 'use'",
      [tenant.tenant_id, token],
    );
    expect(uses).toEqual([{ actor_id: limited.id, disclosure: 'used' }]);
  });

  test('needs all permissions of the application that its code acts with', async () => {
    const application = await done('POST', '/applications', { name: 'A', permissions: ['token:read'] });
    const reactor = await newReactor(await newFormula(1), { application: { id: application.id } });
    const { id: token } = await done('POST', '/tokens', { data: 'SECRET' });
    const code = codeOf(`return { raw: (await svc.tokens.retrieve('${token}')).data };`);
    const { api_key: less } = await server.newKey(tenant, { permissions: ['reactor:update', 'token:use'] });
    const refused = await ask('POST', `/reactors/${reactor}/test`, { code }, less);
    expect([refused.status, refused.body.detail]).toEqual([403, expect.stringContaining('token:read')]);
    const { api_key: enough } = await server.newKey(tenant, { permissions: ['reactor:update', 'token:read'] });
    expect((await done('POST', `/reactors/${reactor}/test`, { code }, enough)).raw).toBe('SECRET');
  });
});
