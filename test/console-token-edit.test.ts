// The page that changes a token's container, end and metadata by form: nothing else changes, and the value is not on it.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Browser, fieldIn, type SharedConsole, useConsole } from './support/console.ts';
import type { TestTenant } from './support/server.ts';

const NUMBER = '4242424242424242';
const EXPIRES = '2031-03-01T00:00:00.000Z';

let server: SharedConsole;
let tenant: TestTenant;
let member: Browser;
let id: string;
beforeAll(async () => {
  server = await useConsole();
  tenant = await server.newTenant();
  member = await server.signIn({ tenant });
});

const read = async () => (await server.request('GET', `/tokens/${id}`, { key: tenant.api_key })).body;

beforeEach(async () => {
  const json = {
    type: 'card',
    data: { number: NUMBER, expiration_month: 12, expiration_year: 2030 },
    metadata: { order: '4000', note: 'a\r\nb', 'x <b>': '' },
  };
  const made = await server.request('POST', '/tokens', { json, key: tenant.api_key });
  expect(made.status, made.text).toBe(201);
  id = made.body.id;
});

const pathOf = (): string => `/console/tokens/${id}/edit`;

const formIn = (text: string): Record<string, string> => {
  const names = [...text.matchAll(/ name="(container|expires_at|seen|metadata\.\d+\.(?:name|value))"/g)];
  return Object.fromEntries(names.map(([, name = '']) => [name, fieldIn(text, name) ?? '']));
};

/** @returns the place of the row with a name. */
const rowOf = (form: Record<string, string>, name: string): string =>
  /metadata\.\d+/.exec(Object.entries(form).find(([, value]) => value === name)?.[0] ?? '')?.[0] ?? '';

describe('The form of a token', () => {
  test('changes what was changed, and nothing else', async () => {
    const before = await read();
    const { text } = await member.get(pathOf());
    expect(text).not.toContain(NUMBER);
    const form = formIn(text);
    const fields = { ...form, container: '/pci/low/', expires_at: EXPIRES, [`${rowOf(form, 'order')}.value`]: '4001' };
    const answer = await member.post(pathOf(), fields);
    expect(answer.headers.get('location')).toBe(`/console/tokens/${id}?done=saved`);
    expect((await member.follow(answer)).text).toContain('The token was saved.');
    const after = await read();
    expect(after).toMatchObject({
      containers: ['/pci/low/'],
      expires_at: EXPIRES,
      metadata: { order: '4001', note: 'a\r\nb', 'x <b>': '' },
      fingerprint: before.fingerprint,
      data: before.data,
    });
  });

  test('removes metadata and the end, and adds metadata', async () => {
    const patch = { json: { expires_at: EXPIRES }, key: tenant.api_key };
    expect((await server.request('PATCH', `/tokens/${id}`, patch)).status).toBe(200);
    const form = formIn((await member.get(pathOf())).text);
    const [order, note] = [rowOf(form, 'order'), rowOf(form, 'note')];
    const none = { [`${order}.name`]: '', [`${order}.value`]: '', [`${note}.name`]: 'other' };
    const added = { 'metadata.4.name': ' new ', 'metadata.4.value': 'text' };
    expect((await member.post(pathOf(), { ...form, ...none, ...added, expires_at: '' })).status).toBe(303);
    const after = await read();
    expect(after.metadata).toEqual({ 'x <b>': '', other: 'a\nb', new: 'text' });
    expect(after.expires_at).toBeUndefined();
  });

  test.each<[string, Record<string, string>, number, string]>([
    ['a container that is none', { container: 'pci' }, 400, 'container-problem'],
    ['no container', { container: '' }, 400, 'container-problem'],
    ['an end that is no time', { expires_at: 'soon' }, 400, 'expires_at-problem'],
    ['a value without a name', { 'metadata.3.value': 'x' }, 422, 'metadata-3-problem'],
    ['a name twice', { 'metadata.3.name': 'order' }, 422, 'metadata-3-problem'],
    ['a long value', { 'metadata.3.name': 'a', 'metadata.3.value': 'x'.repeat(501) }, 400, 'class="notice bad"'],
  ])('refuses %s, and keeps what was typed', async (_, fields, status, place) => {
    const before = await read();
    const form = formIn((await member.get(pathOf())).text);
    const typed = { ...form, 'metadata.4.name': 'kept', 'metadata.4.value': 'kept <i>', ...fields };
    const answer = await member.post(pathOf(), typed);
    expect([answer.status, answer.text.includes(place)]).toEqual([status, true]);
    expect(answer.text).toContain('kept &lt;i&gt;');
    expect(await read()).toEqual(before);
  });

  test('does not overwrite what another changed meanwhile', async () => {
    const form = formIn((await member.get(pathOf())).text);
    const patch = { json: { metadata: { order: 'theirs' } }, key: tenant.api_key };
    await server.request('PATCH', `/tokens/${id}`, patch);
    const answer = await member.post(pathOf(), { ...form, container: '/mine/' });
    expect([answer.status, fieldIn(answer.text, 'container')]).toEqual([409, '/mine/']);
    expect((await read()).metadata.order).toBe('theirs');
  });

  test('is closed to other roles and tenants', async () => {
    const support = await server.signIn({ tenant });
    const role = { json: { role: 'SUPPORT' }, key: tenant.api_key };
    await server.request('PUT', `/tenants/self/members/${support.member_id}`, role);
    const anonymous = await server.signIn();
    for (const [browser, status] of [
      [support, 403],
      [anonymous, 404],
    ] as const) {
      expect((await browser.get(pathOf())).status).toBe(status);
      await browser.get('/console/account');
      expect((await browser.post(pathOf(), { container: '/theirs/' })).status).not.toBe(303);
    }
    expect((await read()).containers).toEqual(['/pci/high/']);
  });
});
