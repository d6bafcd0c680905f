// The settings page and the pages of members: every attribute by form, changes of others, other roles and other tenants.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Browser, fieldIn, type SharedConsole, textOf, useConsole } from './support/console.ts';
import type { TestTenant } from './support/server.ts';
import { makeProxy } from './support/stored-proxies.ts';

const PATH = '/console/settings';

let server: SharedConsole;
let tenant: TestTenant;
let owner: Browser;
beforeAll(async () => {
  server = await useConsole();
});
beforeEach(async () => {
  tenant = await server.newTenant();
  owner = await server.signIn({ tenant });
});

const ask = (method: 'GET' | 'PUT', path: string, json?: object) =>
  server.request(method, path, { key: tenant.api_key, ...(json && { json }) });

const stored = async () => (await ask('GET', '/tenants/self')).body;

const KNOWN = ['require_second_factor', 'reveal_reason', 'deduplicate_token', 'absent_paths', 'echo_guard'] as const;

/** The form as the page has it. */
const formIn = (text: string): Record<string, string> => {
  const typed = / name="(name|seen|setting\.\d+\.(?:name|value)|delegated\.(?:container|signing_keys))"/g;
  const names = [...text.matchAll(typed)].map(([, name]) => name ?? '');
  const ticked = [...text.matchAll(/ name="(delegated\.proxies\.\d+)" value="([^"]+)" checked/g)];
  const chosen = KNOWN.map((name) => {
    const [, options = ''] = new RegExp(`<select name="${name}"[^>]*>(.*?)</select>`, 's').exec(text) ?? [];
    return [name, /value="([^"]*)" selected/.exec(options)?.[1] ?? ''];
  });
  const boxes = ticked.map(([, name = '', value = '']) => [name, value]);
  return Object.fromEntries([...names.map((name) => [name, fieldIn(text, name) ?? '']), ...boxes, ...chosen]);
};

const save = async (changed: Record<string, string>) => {
  const { text } = await owner.get(PATH);
  return owner.post(PATH, { ...formIn(text), ...changed });
};

const become = async (role: string): Promise<Browser> => {
  const member = await server.signIn({ tenant });
  expect((await ask('PUT', `/tenants/self/members/${member.member_id}`, { role })).status).toBe(200);
  return member;
};

describe('The settings page', () => {
  test('changes each setting and the name, and leaves the others as they are', async () => {
    const settings = { deduplicate_tokens: 'true', shop: 'a\r\nb', 'x <b>': '', absent_paths: 'error' };
    expect((await ask('PUT', '/tenants/self', { name: 'Before', settings })).status).toBe(200);
    const answer = await save({ name: ' After ', require_second_factor: 'false' });
    expect(answer.headers.get('location')).toBe(`${PATH}?done=saved`);
    expect((await owner.follow(answer)).text).toContain('The settings were saved.');
    const changed = { name: 'After', settings: { ...settings, require_second_factor: 'false' } };
    expect(await stored()).toMatchObject(changed);
    expect(Object.keys((await stored()).settings).toSorted()).toEqual(Object.keys(changed.settings).toSorted());
    await save({ deduplicate_token: '', absent_paths: 'null', 'setting.0.name': '', 'setting.0.value': '' });
    expect((await stored()).settings).toEqual({ 'x <b>': '', absent_paths: 'null', require_second_factor: 'false' });
    await save({ 'setting.1.name': 'new', 'setting.1.value': 'text', deduplicate_token: 'true', echo_guard: 'mask' });
    expect((await stored()).settings).toMatchObject({ new: 'text', deduplicate_token: 'true', echo_guard: 'mask' });
  });

  test.each<[string, Record<string, string>, number, string]>([
    ['an empty name', { name: ' ' }, 400, 'name-problem'],
    ['an unknown choice', { absent_paths: 'odd' }, 400, 'absent_paths-problem'],
    ['a value without a name', { 'setting.0.value': 'x' }, 422, 'setting-0-problem'],
    ['a name with a field of its own', { 'setting.0.name': 'absent_paths' }, 422, 'setting-0-problem'],
    ['a name twice', { 'setting.0.name': 'a', 'setting.1.name': 'a' }, 422, 'setting-1-problem'],
    ['a long value', { 'setting.0.name': 'a', 'setting.0.value': 'x'.repeat(501) }, 400, 'setting-0-problem'],
    ['a long name', { 'setting.0.name': 'a'.repeat(201) }, 400, 'class="notice bad"'],
    ['__proto__', { 'setting.0.name': '__proto__', 'setting.0.value': 'x' }, 400, 'class="notice bad"'],
  ])('refuses %s beside its field, and keeps what was typed', async (_, fields, status, place) => {
    const before = await stored();
    const answer = await save({ 'setting.2.name': 'kept', 'setting.2.value': 'kept <i>', ...fields });
    expect(answer.status).toBe(status);
    expect(answer.text).toContain(place);
    expect(answer.text).toContain('kept &lt;i&gt;');
    expect(await stored()).toEqual(before);
  });

  test('asks for each part of delegated payments, and stores what did not change as it was', async () => {
    const { api_key } = tenant;
    const amount = { value: '$.amount', currency: '$.currency', unit: 'minor' };
    const wanted = { destination_url: 'https://api.example.com', amount };
    const one = await makeProxy(server, { ...wanted, name: 'One <b>' }, api_key);
    const other = await makeProxy(server, { ...wanted, name: 'Other' }, api_key);
    const numberOf = async (id: string) =>
      new RegExp(`name="(delegated\\.proxies\\.\\d+)" value="${id}"`).exec((await owner.get(PATH)).text)?.[1] ?? '';
    expect((await save({ [await numberOf(one.id)]: one.id })).status).toBe(303);
    expect((await stored()).settings).toEqual({ delegated_payments: JSON.stringify({ proxies: [one.id] }) });
    const key = 'A'.repeat(43);
    const more = { 'delegated.container': '/pci/agents/', 'delegated.signing_keys': `${key}\r\n` };
    expect((await save({ [await numberOf(other.id)]: other.id, ...more })).status).toBe(303);
    const setting = JSON.parse((await stored()).settings.delegated_payments);
    expect({ ...setting, proxies: setting.proxies.toSorted() }).toEqual({
      proxies: [one.id, other.id].toSorted(),
      container: '/pci/agents/',
      signing_keys: [key],
    });
    const spaced = `{ "signing_keys": ["${key}"], "proxies": ["${other.id}"] }`;
    await ask('PUT', '/tenants/self', { name: 'Shop', settings: { delegated_payments: spaced } });
    await save({ name: 'Renamed' });
    expect((await stored()).settings).toEqual({ delegated_payments: spaced });
    const reader = await become('SUPPORT');
    expect(textOf((await reader.get(PATH)).text)).toContain('Charged through Other');
    await save({ [await numberOf(other.id)]: '', 'delegated.signing_keys': '' });
    expect((await stored()).settings).toEqual({});
  });

  test.each<[string, Record<string, string>]>([
    ['container', { 'delegated.container': 'agents' }],
    ['signing_keys', { 'delegated.signing_keys': 'not a key' }],
    ['proxies', { 'delegated.container': '/agents/' }],
    ['proxies', { 'delegated.proxies.0': 'x' }],
  ])('refuses delegated payments beside the field %s, and keeps what was typed', async (name, fields) => {
    const before = await stored();
    const { status, text } = await save({ name: 'Kept', ...fields });
    expect(status).toBe(400);
    expect(text).toContain(`aria-describedby="delegated.${name}-problem"`);
    expect(text).toContain(`id="delegated.${name}-problem"`);
    expect([fieldIn(text, 'name'), textOf(text).includes('JSON')]).toEqual(['Kept', false]);
    expect(await stored()).toEqual(before);
  });

  test('does not overwrite what another changed meanwhile', async () => {
    const { text } = await owner.get(PATH);
    await ask('PUT', '/tenants/self', { name: 'Theirs' });
    const answer = await owner.post(PATH, { ...formIn(text), name: 'Mine' });
    expect([answer.status, fieldIn(answer.text, 'name')]).toEqual([409, 'Mine']);
    expect((await stored()).name).toBe('Theirs');
    expect((await owner.post(PATH, formIn(answer.text))).status).toBe(303);
    expect((await stored()).name).toBe('Mine');
  });

  test.each([
    ['DEVELOPER', 200],
    ['SUPPORT', 200],
    ['AUDITOR', 403],
  ] as const)('of %s is read only or closed', async (role, status) => {
    const member = await become(role);
    const { text, status: found } = await member.get(PATH);
    expect(found).toBe(status);
    expect(text).not.toContain(`action="${PATH}"`);
    await member.get('/console/account');
    const { seen } = formIn((await owner.get(PATH)).text);
    expect((await member.post(PATH, { name: 'Theirs', seen: seen ?? '' })).status).toBe(403);
    expect((await stored()).name).not.toBe('Theirs');
  });
});

describe('The tenant', () => {
  const path = `${PATH}/delete`;
  const isThere = async (): Promise<boolean> => (await ask('GET', '/tenants/self')).status === 200;

  test('is deleted after its name was typed, with all that it has', async () => {
    expect((await ask('PUT', '/tenants/self', { name: 'Shop <b>' })).status).toBe(200);
    const { text } = await owner.get(PATH);
    expect(text).toContain('To delete it, type its name: <bdi>Shop &lt;b&gt;</bdi>');
    for (const typed of ['', 'Shop', 'delete']) {
      const refused = await owner.post(path, { typed });
      expect([refused.status, refused.text.includes('typed-problem')]).toEqual([422, true]);
    }
    expect(await isThere()).toBe(true);
    expect((await owner.post(path, { typed: 'Shop <b>', csrf: 'x' })).status).toBe(403);
    expect(await isThere()).toBe(true);
    const gone = await owner.post(path, { typed: 'Shop <b>' });
    expect([gone.status, gone.headers.get('location')]).toEqual([303, '/console/sign-in']);
    expect(await isThere()).toBe(false);
    expect((await owner.get(PATH)).headers.get('location')).toContain('/console/sign-in');
  });

  test.each(['DEVELOPER', 'SUPPORT', 'AUDITOR'] as const)('is not deleted by %s', async (role) => {
    const member = await become(role);
    expect((await member.get(PATH)).text).not.toContain(path);
    await member.get('/console/account');
    const { name } = await stored();
    expect((await member.post(path, { typed: name })).status).toBe(403);
    expect(await isThere()).toBe(true);
  });
});

describe('The page of a member', () => {
  test('shows role, sessions and the call of the API, and has the forms', async () => {
    const other = await become('SUPPORT');
    const list = await owner.get('/console/people');
    expect(list.text).toContain(`href="/console/people/members/${other.member_id}"`);
    const { status, text } = await owner.get(`/console/people/members/${other.member_id}`);
    expect(status).toBe(200);
    const words = textOf(text);
    for (const each of [other.email, 'SUPPORT', 'password', 'not given', `user_id=${other.user_id}`])
      expect(words).toContain(each);
    expect(text).toContain('Sessions <span class="quiet">1<');
    expect(text).toContain(`/console/logs?actor_id=${other.user_id}`);
    for (const action of ['role', 'remove', 'second-factor/reset'])
      expect(text).toContain(`action="/console/people/members/${other.member_id}/${action}"`);
    await other.get('/console/account');
    await other.post('/console/sign-out');
    expect(textOf((await owner.get(`/console/people/members/${other.member_id}`)).text)).toContain('Not signed in.');
  });

  test('of oneself leads to the password, and has no reset of the own second factor', async () => {
    const { text } = await owner.get(`/console/people/members/${owner.member_id}`);
    expect(text).toContain('href="/console/password"');
    expect(text).not.toContain('second-factor/reset');
  });

  test('of another tenant, of none and of no id is a 404', async () => {
    const anonymous = await server.signIn();
    for (const id of [anonymous.member_id, owner.user_id, '../self', "'", 'x'.repeat(300)]) {
      const { status, text } = await owner.get(`/console/people/members/${encodeURIComponent(id)}`);
      expect([id, status]).toEqual([id, 404]);
      expect(text).not.toContain(anonymous.email);
    }
  });
});
