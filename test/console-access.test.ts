// The page that says who may do what and why, the review with its attestation, and a change that is tried before it is saved.
import { beforeAll, expect, test } from 'vitest';
import { type Browser, fieldIn, type SharedConsole, textOf, useConsole } from './support/console.ts';
import type { TestTenant } from './support/server.ts';

const ACCESS = '/console/access';

let server: SharedConsole;
let tenant: TestTenant;
let owner: Browser;
let application_id: string;
let api_key: string;
let token_id: string;

beforeAll(async () => {
  server = await useConsole();
  tenant = await server.newTenant();
  owner = await server.signIn({ tenant });
  const rule = { priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:read', 'token:use'] };
  ({ application_id, api_key } = await server.newKey(tenant, { rules: [rule] }));
  const card = { type: 'card', data: { number: '4242424242424242' }, containers: ['/pci/high/'] };
  const made = await server.request('POST', '/tokens', { key: tenant.api_key, json: card });
  expect(made.status, made.text).toBe(201);
  token_id = made.body.id;
});

const wordsOf = (page: string): string => textOf(page.replaceAll('<', ' <')).replace(/\s+/g, ' ');

const ask = async (question: Record<string, string>, browser = owner): Promise<[number, string]> => {
  const { status, text } = await browser.get(`${ACCESS}?${new URLSearchParams(question)}`);
  return [status, wordsOf(text)];
};

test('answers by the rule that decides', async () => {
  const [status, words] = await ask({ application_id, permission: 'token:read', token_id });
  expect(status).toBe(200);
  expect(words).toContain('Allowed');
  expect(words).toContain('Rule 1 of its rules decides');
  expect(words).toContain('The operation gives the value.');
});

test('says which check refuses, and which rules were skipped', async () => {
  const [, refused] = await ask({ application_id, permission: 'token:delete', token_id });
  expect(refused).toMatch(/Refused Nothing allows it.*Rule 1 does not name the permission/);
  const [, elsewhere] = await ask({ application_id, permission: 'token:use', container: '/general/' });
  expect(elsewhere).toContain('Rule 1 does not reach the container');
});

test('names the field of a question that is none, and knows no token of another tenant', async () => {
  const [status, words] = await ask({ permission: 'token:read' });
  expect([status, words.includes('token_id: must be there, or container')]).toEqual([400, true]);
  const other = await server.newTenant();
  const made = await server.request('POST', '/tokens', { key: other.api_key, json: { type: 'token', data: 'a' } });
  expect((await ask({ permission: 'token:read', token_id: made.body.id }))[0]).toBe(404);
});

test('is for roles that may read access', async () => {
  for (const role of ['SUPPORT', 'AUDITOR', 'ADMIN'] as const) {
    const member = await server.signIn({ tenant });
    const path = `/tenants/self/members/${member.member_id}`;
    expect((await server.request('PUT', path, { json: { role }, key: tenant.api_key })).status).toBe(200);
    const isOpen = role !== 'SUPPORT';
    expect((await member.get(ACCESS)).status, role).toBe(isOpen ? 200 : 403);
    expect((await member.get('/console/home')).text.includes(ACCESS), role).toBe(isOpen);
  }
});

test('the review is a file whose name has the digest that an attestation names', async () => {
  const file = await owner.get(`${ACCESS}/review`);
  expect(file.headers.get('content-type')).toContain('text/csv');
  const [, digest = ''] = /access-review-([0-9a-f]{64})\.csv/.exec(file.headers.get('content-disposition') ?? '') ?? [];
  expect(file.text).toContain(application_id);
  const refused = await owner.post(`${ACCESS}/review`, { digest: 'abc', note: 'Read' });
  expect(refused.status).toBe(400);
  expect(wordsOf(refused.text)).toContain('The review was not attested.');
  const done = await owner.post(`${ACCESS}/review`, { digest, note: 'Two old keys revoked' });
  expect([done.status, done.headers.get('location')]).toEqual([303, `${ACCESS}?done=attested`]);
  const log = await server.request('GET', '/logs?size=100', { key: tenant.api_key });
  expect(log.text).toContain(digest);
});

test('a change is tried on the last days, and not saved', async () => {
  const read = await server.request('GET', `/tokens/${token_id}`, { key: api_key });
  expect(read.status).toBe(200);
  const before = await server.request('GET', `/applications/${application_id}`, { key: tenant.api_key });
  const { text: page } = await owner.get(`/console/applications/${application_id}`);
  const seen = fieldIn(page, 'seen') ?? '';
  const form = {
    name: 'Other',
    'permission.token:create': 'yes',
    rules: fieldIn(page, 'rules') ?? '',
    seen,
    do: 'try',
  };
  const tried = await owner.post(`/console/applications/${application_id}`, form);
  const words = wordsOf(tried.text);
  expect(words).toContain('Nothing is saved yet');
  expect(words).toMatch(/Refused from now on: 1\b/);
  expect(words).toMatch(new RegExp(`token:read ${token_id} /pci/high/ value refused`));
  expect(await server.request('GET', `/applications/${application_id}`, { key: tenant.api_key })).toMatchObject({
    body: before.body,
  });
});
