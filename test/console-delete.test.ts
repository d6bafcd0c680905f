// Deleting all that a search of the console finds: a typed confirmation, all or nothing, and an entry in the log for each.
import { beforeAll, expect, test } from 'vitest';
import { type Browser, fieldIn, type SharedConsole, textOf, useConsole } from './support/console.ts';
import type { Answer, TestTenant } from './support/server.ts';

const DELETE = '/console/tokens/search/delete';

let server: SharedConsole;
let tenant: TestTenant;
let owner: Browser;
beforeAll(async () => {
  server = await useConsole();
  tenant = await server.newTenant();
  owner = await server.signIn({ tenant });
});

const store = async (order: string, count: number, { api_key: key }: TestTenant = tenant): Promise<void> => {
  const json = Array.from({ length: count }, (_, index) => ({
    type: 'token',
    data: `${order} ${index}`,
    metadata: { order },
  }));
  expect((await server.request('POST', '/tokenize', { json, key })).status).toBe(200);
};

const countStored = async (order: string, { tenant_id }: TestTenant = tenant): Promise<number> => {
  const [row] = await server.sql(
    `SELECT count(*)::int FROM tokens WHERE tenant_id = $1 AND metadata ->> 'order' = $2`,
    [tenant_id, order],
  );
  return row.count;
};

/** The time of the search, as a page after now has it. */
const at = () => new Date(Date.now() + 60_000).toISOString();

const search = (query: string, by = owner): Promise<Answer> => by.post('/console/tokens/search', { query });

test('a search that is confirmed by its text deletes what it has found, and says how many', async () => {
  await store('A-1', 23);
  await store('A-2', 2);
  const query = 'metadata.order:A-1';
  const { text } = await search(query);
  expect(textOf(text)).toContain('Delete all 23 tokens');
  expect([fieldIn(text, 'count'), fieldIn(text, 'query')]).toEqual(['23', query]);
  const deleted = await owner.post(DELETE, { query, at: at(), count: '23', typed: ' Delete 23 tokens' });
  expect(deleted.status, deleted.text).toBe(200);
  expect(textOf(deleted.text)).toContain('23 tokens were deleted.');
  expect([await countStored('A-1'), await countStored('A-2')]).toEqual([0, 2]);
  const [, log = ''] = /href="(\/console\/logs\?operation=delete[^"]+)"/.exec(deleted.text) ?? [];
  const page = textOf((await owner.get(log.replaceAll('&amp;', '&'))).text);
  expect(page.match(/Token deleted/g)).toHaveLength(20);
  const again = await owner.post(DELETE, { query, at: at(), count: '23', typed: 'delete 23 tokens' });
  expect([again.status, textOf(again.text).includes('Nothing was deleted.')]).toEqual([409, true]);
});

test('nothing is deleted without the text, or where the number has changed', async () => {
  await store('B-1', 2);
  const query = 'metadata.order:B-1';
  for (const fields of [
    { count: '2', typed: '' },
    { count: '2', typed: 'delete' },
    { count: '2', typed: 'delete 3 tokens' },
    { count: '', typed: 'delete 2 tokens' },
    { count: '0', typed: 'delete 0 tokens' },
    { count: '2e0', typed: 'delete 2 tokens' },
    { count: '-2', typed: 'delete -2 tokens' },
  ] as Record<string, string>[]) {
    const { status, text } = await owner.post(DELETE, { query, at: at(), ...fields });
    expect([status, textOf(text).includes('Nothing was deleted.')], JSON.stringify(fields)).toEqual([422, true]);
  }
  await store('B-1', 1);
  const { status, text } = await owner.post(DELETE, { query, at: at(), count: '2', typed: 'delete 2 tokens' });
  expect(status).toBe(409);
  expect(textOf(text)).toContain('may find and delete: 3. expected_count is 2. Nothing was deleted.');
  expect(textOf(text)).toContain('Delete all 3 tokens');
  expect(await countStored('B-1')).toBe(3);
  const refused = await server.sql(`SELECT message FROM audit_log WHERE tenant_id = $1 AND outcome = 'refused'`, [
    tenant.tenant_id,
  ]);
  expect(refused).toContainEqual({ message: 'Refused: expected_count' });
});

test('what was created or changed since the search is not deleted, though the number is the same', async () => {
  await store('E-1', 2);
  await store('E-2', 1);
  const query = 'metadata.order:E-1';
  const { text } = await search(query);
  const form = { query, count: fieldIn(text, 'count') ?? '', at: fieldIn(text, 'at') ?? '', typed: 'delete 2 tokens' };
  const moved = await server.sql(
    `UPDATE tokens SET metadata = '{"order": "E-1"}', modified_at = now() + interval '1 second'
     WHERE tenant_id = $1 AND metadata ->> 'order' = 'E-2' RETURNING id`,
    [tenant.tenant_id],
  );
  expect(moved).toHaveLength(1);
  await server.sql(
    `DELETE FROM tokens WHERE id = (SELECT id FROM tokens WHERE tenant_id = $1 AND metadata ->> 'order' = 'E-1' AND modified_at IS NULL LIMIT 1)`,
    [tenant.tenant_id],
  );
  const answer = await owner.post(DELETE, form);
  expect(answer.status, textOf(answer.text)).toBe(409);
  expect(textOf(answer.text)).toContain('Nothing was deleted.');
  expect(await countStored('E-1')).toBe(2);
  for (const bad of ['', 'soon', '2026-13-01']) {
    const refused = await owner.post(DELETE, { ...form, at: bad });
    expect([bad, refused.status]).toEqual([bad, 400]);
  }
  expect(await countStored('E-1')).toBe(2);
});

test('a query that is none stays on the page, and one that finds nothing has no form', async () => {
  const { status, text } = await owner.post(DELETE, { query: 'colour:"<b>"', count: '1', typed: 'delete 1 token' });
  expect([status, text.includes('value="colour:&quot;&lt;b&gt;&quot;"')]).toEqual([400, true]);
  expect((await search('metadata.order:none')).text).not.toContain(DELETE);
});

test('tokens of another tenant are neither found nor counted nor deleted', async () => {
  const other = await server.newTenant();
  await store('C-1', 3, other);
  await store('C-1', 1);
  const { text } = await search('metadata.order:C-1');
  expect(textOf(text)).toContain('Delete all 1 token');
  const query = 'metadata.order:C-1';
  expect((await owner.post(DELETE, { query, at: at(), count: '3', typed: 'delete 3 tokens' })).status).toBe(409);
  expect((await owner.post(DELETE, { query, at: at(), count: '1', typed: 'delete 1 token' })).status).toBe(200);
  expect([await countStored('C-1'), await countStored('C-1', other)]).toEqual([0, 3]);
});

test('a role that deletes no tokens has no form, and is refused', async () => {
  await store('D-1', 1);
  const member = await server.signIn({ tenant });
  const path = `/tenants/self/members/${member.member_id}`;
  expect((await server.request('PUT', path, { json: { role: 'SUPPORT' }, key: tenant.api_key })).status).toBe(200);
  const query = 'metadata.order:D-1';
  const found = await search(query, member);
  expect([found.status, found.text.includes(DELETE)]).toEqual([200, false]);
  expect((await member.post(DELETE, { query, count: '1', typed: 'delete 1 token' })).status).toBe(403);
  expect(await countStored('D-1')).toBe(1);
});
