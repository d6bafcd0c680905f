// POST /tokens/delete-by-search: deletes exactly what was expected, or nothing.
import { beforeAll, expect, test } from 'vitest';
import { DELETED_MAX } from '../src/modules/tokens/delete-by-search.ts';
import { type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

const card = { type: 'card', data: { number: '4242424242424242', cvc: '737' } };

const create = async (tenant: TestTenant, body: object): Promise<string> => {
  const answer = await server.request('POST', '/tokens', { key: tenant.api_key, json: body });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

const end = (tenant: TestTenant, json: unknown, headers: Record<string, string> = {}) =>
  server.request('POST', '/tokens/delete-by-search', { key: tenant.api_key, headers, json });

const idsOf = async (tenant: TestTenant): Promise<string[]> =>
  (await server.sql('SELECT id FROM tokens WHERE tenant_id = $1 ORDER BY id', [tenant.tenant_id])).map(({ id }) => id);

/** Ids of the rows of the log that record a delete. */
const deletedOf = async (tenant: TestTenant): Promise<string[]> =>
  (
    await server.sql(
      "SELECT entity_ids FROM audit_log WHERE tenant_id = $1 AND operation = 'delete' AND outcome = 'success' ORDER BY id",
      [tenant.tenant_id],
    )
  ).flatMap(({ entity_ids }) => entity_ids);

test('deletes what the query finds, with codes and links, a log row for each, and counts', async () => {
  const tenant = await server.newTenant();
  const metadata = { customer: '4711' };
  // More than one group of statements.
  const items = Array.from({ length: 230 }, () => ({ type: 'token', data: 'x', metadata }));
  const made = await server.request('POST', '/tokenize', { key: tenant.api_key, json: items });
  expect(made.status, made.text).toBe(200);
  const first = await create(tenant, { ...card, metadata });
  const other = await create(tenant, { ...card, metadata: { customer: '4712' } });
  const linked = await server.request('POST', `/tokens/${other}/children/${first}`, { key: tenant.api_key });
  expect(linked.status, linked.text).toBeLessThan(300);

  const answer = await end(tenant, { query: 'metadata.customer:4711', expected_count: 231 });
  expect(answer.status, answer.text).toBe(200);
  expect(answer.body).toEqual({ deleted_count: 231 });
  expect(await idsOf(tenant)).toEqual([other]);
  const rows = await deletedOf(tenant);
  expect(rows).toHaveLength(231);
  expect(new Set(rows)).toEqual(new Set([first, ...made.body.map(({ id }: { id: string }) => id)]));
  const left = await server.sql(
    'SELECT id FROM token_cvcs WHERE tenant_id = $1 UNION ALL SELECT child_id FROM token_associations WHERE tenant_id = $1',
    [tenant.tenant_id],
  );
  expect(left).toEqual([{ id: other }]);
  const list = await server.request('GET', '/tokens', { key: tenant.api_key });
  expect(list.body.pagination.total_items).toBe(1);
  const gone = await server.request('GET', `/tokens/${first}`, { key: tenant.api_key });
  expect(gone.status).toBe(404);
});

test('another count is a 409 that says how many there are, and deletes nothing', async () => {
  const tenant = await server.newTenant();
  for (let made = 0; made < 3; made += 1) await create(tenant, card);
  for (const expected_count of [1, 2, 4]) {
    const answer = await end(tenant, { query: 'type:card', expected_count });
    expect(answer.status, answer.text).toBe(409);
    expect(answer.body.detail).toContain('delete: 3.');
  }
  expect(await idsOf(tenant)).toHaveLength(3);
  // The count tells something of what is stored: each such response is in the log.
  const rows = `SELECT message, outcome FROM audit_log WHERE tenant_id = $1 AND operation = 'delete'`;
  const refused = { message: 'Refused: expected_count', outcome: 'refused' };
  expect(await server.sql(rows, [tenant.tenant_id])).toEqual([refused, refused, refused]);
});

test('deletes the tokens of the search: as many others, or changed ones, are a 409', async () => {
  const tenant = await server.newTenant();
  const order = (value: string) => ({ ...card, metadata: { order: value } });
  const [first = '', second = ''] = [await create(tenant, order('a')), await create(tenant, order('a'))];
  const other = await create(tenant, order('b'));
  const unchanged_since = new Date(Date.now() + 1).toISOString();
  const ask = (json = {}) => end(tenant, { query: 'metadata.order:a', expected_count: 2, unchanged_since, ...json });
  const change = async (id: string, metadata: object) => {
    const answer = await server.request('PATCH', `/tokens/${id}`, { key: tenant.api_key, json: { metadata } });
    expect(answer.status, answer.text).toBe(200);
  };
  // As many as before, of which one is another.
  await change(second, { order: 'c' });
  await change(other, { order: 'a' });
  const refused = await ask();
  expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('unchanged_since')]);
  await change(other, { order: 'b' });
  await change(second, { order: 'a' });
  expect((await ask()).status).toBe(409);
  expect(await idsOf(tenant)).toHaveLength(3);
  const refusal = { message: 'Refused: unchanged_since' };
  const rows = `SELECT message FROM audit_log WHERE tenant_id = $1 AND operation = 'delete'`;
  expect(await server.sql(rows, [tenant.tenant_id])).toEqual([refusal, refusal]);
  const later = new Date(Date.now() + 60_000).toISOString();
  expect((await ask({ unchanged_since: later })).body).toEqual({ deleted_count: 2 });
  expect(await idsOf(tenant)).toEqual([other]);
  expect(await deletedOf(tenant)).toEqual(expect.arrayContaining([first, second]));
});

test('counts and deletes only what the caller may both find and delete', async () => {
  const tenant = await server.newTenant();
  const kept = await create(tenant, { ...card, containers: ['/kept/'] });
  await create(tenant, { ...card, containers: ['/old/'] });
  const rule = (container: string, permissions: string[]) => ({
    priority: 1,
    container,
    transform: 'mask',
    permissions,
  });
  const partial = await server.newKey(tenant, {
    permissions: ['token:search'],
    rules: [rule('/old/', ['token:delete'])],
  });
  const wrong = await end(partial, { query: 'type:card', expected_count: 2 });
  expect(wrong.status, wrong.text).toBe(409);
  expect((await end(partial, { query: 'type:card', expected_count: 1 })).body).toEqual({ deleted_count: 1 });
  expect(await idsOf(tenant)).toEqual([kept]);
  for (const permission of ['token:search', 'token:delete'] as const)
    expect(
      (await end(await server.newKey(tenant, { permissions: [permission] }), { query: 'type:card', expected_count: 1 }))
        .status,
    ).toBe(403);
  // A value that the caller does not see finds nothing, as in a search.
  const guesser = await server.newKey(tenant, { permissions: ['token:search', 'token:delete'] });
  const guess = await end(guesser, { query: 'data:4242424242424242', expected_count: 1 });
  expect(guess.status, guess.text).toBe(409);
  expect(guess.body.detail).toContain('delete: 0.');
  const anonymous = await server.newTenant();
  expect((await end(anonymous, { query: `id:"${kept}"`, expected_count: 1 })).status).toBe(409);
  expect(await idsOf(tenant)).toEqual([kept]);
});

test('the same idempotency key deletes once, also where more tokens match since', async () => {
  const tenant = await server.newTenant();
  await create(tenant, card);
  const headers = { 'svc-idempotency-key': 'ended-customer' };
  const json = { query: 'type:card', expected_count: 1 };
  const first = await end(tenant, json, headers);
  expect(first.body).toEqual({ deleted_count: 1 });
  const id = await create(tenant, card);
  expect((await end(tenant, json, headers)).body).toEqual({ deleted_count: 1 });
  expect(await idsOf(tenant)).toEqual([id]);
});

test('of two at a time one deletes, and the other finds another count', async () => {
  const tenant = await server.newTenant();
  for (let made = 0; made < 20; made += 1) await create(tenant, card);
  const json = { query: 'type:card', expected_count: 20 };
  const answers = await Promise.all([end(tenant, json), end(tenant, json)]);
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
  expect(await deletedOf(tenant)).toHaveLength(20);
});

test('bad input names the place and deletes nothing', async () => {
  const tenant = await server.newTenant();
  await create(tenant, card);
  const bad: [unknown, string][] = [
    [{}, 'query'],
    [{ query: 'type:card' }, 'expected_count'],
    [{ query: '', expected_count: 1 }, 'query'],
    [{ query: 'nothing:4242', expected_count: 1 }, 'query'],
    [{ query: 'type:card', expected_count: DELETED_MAX + 1 }, 'expected_count'],
    [{ query: 'type:card', expected_count: 0 }, 'expected_count'],
    [{ query: 'type:card', expected_count: -1 }, 'expected_count'],
    [{ query: 'type:card', expected_count: 1.5 }, 'expected_count'],
    [{ query: 'type:card', expected_count: '1' }, 'expected_count'],
    [{ query: 'type:card', expected_count: 1, force: true }, 'force'],
    [{ query: 'type:card', expected_count: 1, unchanged_since: 'soon' }, 'unchanged_since'],
    [{ query: 'type:card', expected_count: 1, unchanged_since: 1 }, 'unchanged_since'],
  ];
  for (const [json, place] of bad) {
    const answer = await end(tenant, json);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toContain(place);
  }
  expect(await idsOf(tenant)).toHaveLength(1);
});
