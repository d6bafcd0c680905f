// Roles of members: what each sees and does in the console and through it, and how a role is given and changed.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type GivenRole, givenRoles } from '../src/modules/people/roles.ts';
import { type Browser, type SharedConsole, useConsole } from './support/console.ts';
import type { Answer, TestTenant } from './support/server.ts';

const VALUE = 'the whole canary';

let server: SharedConsole;
let tenant: TestTenant;
let token_id: string;

beforeAll(async () => {
  server = await useConsole();
});
beforeEach(async () => {
  tenant = await server.newTenant();
  const made = await ask('POST', '/tokens', { data: VALUE, mask: '{{ data | reveal_last: 6 }}' });
  token_id = made.body.id;
});

const ask = (method: string, path: string, json?: unknown): Promise<Answer> =>
  server.request(method, path, { key: tenant.api_key, ...(json !== undefined && { json }) });

const setRole = (member: Pick<Browser, 'member_id'>, role: string): Promise<Answer> =>
  ask('PUT', `/tenants/self/members/${member.member_id}`, { role });

const memberAs = async (role: GivenRole): Promise<Browser> => {
  const member = await server.signIn({ tenant });
  expect((await setRole(member, role)).body).toMatchObject({ id: member.member_id, role });
  return member;
};

const PAGES = ['home', 'tokens', 'reactors', 'proxies', 'webhooks', 'runs', 'applications', 'logs', 'people'];

/** The sections that its menu has, and those that it may open. */
const opens = async (member: Browser): Promise<{ listed: string[]; opened: string[] }> => {
  const { text } = await member.follow(await member.get('/console'));
  const listed = PAGES.filter((page) => text.includes(`<a href="/console/${page}"`));
  const opened: string[] = [];
  for (const page of PAGES) if ((await member.get(`/console/${page}`)).status === 200) opened.push(page);
  return { listed, opened };
};

const everyPage = { listed: PAGES, opened: PAGES };

test.each<[GivenRole, string[]]>([
  ['ADMIN', PAGES],
  ['DEVELOPER', ['home', 'tokens', 'reactors', 'proxies', 'runs', 'applications', 'logs']],
  ['SUPPORT', ['home', 'tokens']],
  ['AUDITOR', ['home', 'runs', 'logs']],
])('%s: the menu lists the pages that the role opens', async (role, pages) => {
  expect(await opens(await memberAs(role))).toEqual({ listed: pages, opened: pages });
});

const revealOf = async (member: Browser): Promise<Answer> => {
  await member.get('/console/tokens');
  return member.post(`/console/tokens/${token_id}/reveal`, { sure: 'yes' });
};

test.each<[GivenRole, boolean, boolean]>([
  ['ADMIN', true, true],
  ['DEVELOPER', false, false],
  ['SUPPORT', true, false],
  ['AUDITOR', false, false],
])('%s: sees the mask %s, the value %s', async (role, seesMask, seesValue) => {
  const member = await memberAs(role);
  const { text } = await member.get(`/console/tokens/${token_id}`);
  expect(text.includes('canary'), text).toBe(seesMask);
  expect(text).not.toContain(VALUE);
  const revealed = await revealOf(member);
  expect([revealed.status === 200, revealed.text.includes(VALUE)]).toEqual([seesValue, seesValue]);
});

test('SUPPORT is offered no link of tokens, and a link that it sends is refused', async () => {
  const support = await memberAs('SUPPORT');
  const [parent, child] = await Promise.all(
    ['one', 'two'].map(async (data) => (await ask('POST', '/tokens', { data })).body.id),
  );
  const page = (await support.get(`/console/tokens/${parent}`)).text;
  expect(page).toContain('Masked value');
  for (const action of ['link', 'unlink']) expect(page).not.toContain(`/console/tokens/${parent}/${action}"`);
  expect((await support.post(`/console/tokens/${parent}/link`, { child_id: child })).status).toBe(403);
  const admin = await memberAs('ADMIN');
  expect((await admin.get(`/console/tokens/${parent}`)).text).toContain(`/console/tokens/${parent}/link"`);
});

test('a role without values finds no token by its value', async () => {
  const indexed = { data: '123-45-6789', type: 'social_security_number', search_indexes: ['{{ data }}'] };
  const { id } = (await ask('POST', '/tokens', indexed)).body;
  const find = async (member: Browser): Promise<boolean> => {
    await member.get('/console/tokens');
    return (await member.post('/console/tokens/search', { query: 'data:"123-45-6789"' })).text.includes(id);
  };
  expect([await find(await memberAs('ADMIN')), await find(await memberAs('SUPPORT'))]).toEqual([true, false]);
});

test('a DEVELOPER gives an application only what the role has', async () => {
  const member = await memberAs('DEVELOPER');
  const make = async (permission: string): Promise<number> => {
    await member.get('/console/applications/new');
    const form_id = crypto.randomUUID();
    const fields = { name: 'Made', type: 'private', form_id, [`permission.${permission}`]: 'yes' };
    return (await member.post('/console/applications/new', fields)).status;
  };
  expect([await make('token:create'), await make('token:use'), await make('token:read')]).toEqual([200, 403, 403]);
});

test('a change of the role holds for a session that is open, at once', async () => {
  const member = await memberAs('ADMIN');
  expect((await revealOf(member)).status).toBe(200);
  await setRole(member, 'SUPPORT');
  expect((await revealOf(member)).status).toBe(403);
  const refused = await member.get('/console/people');
  expect([refused.status, refused.text.includes('<a href="/console/tokens"')]).toEqual([403, true]);
  expect(refused.text).toContain('The request failed');
  await setRole(member, 'ADMIN');
  expect(await opens(member)).toEqual(everyPage);
});

test('an invitation gives its role, and the people page invites and changes roles', async () => {
  const admin = await memberAs('ADMIN');
  await admin.get('/console/people');
  const sent = await admin.post('/console/people/invitations', { email: 'sup@example.com', role: 'SUPPORT' });
  expect(sent.headers.get('location')).toBe('/console/people?done=invited');
  const { mail } = server.ctx.config;
  const outbox = mail?.kind === 'files' ? mail.directory : 'a development server writes files';
  expect((await admin.get('/console/people?done=invited')).text).toContain(`the newest file in ${outbox}`);
  const [invitation] = (await ask('GET', '/tenants/self/invitations')).body.data;
  expect(invitation).toMatchObject({ email: 'sup@example.com', role: 'SUPPORT' });
  const other = await memberAs('AUDITOR');
  const changed = await admin.post(`/console/people/members/${other.member_id}/role`, { role: 'DEVELOPER' });
  expect(changed.headers.get('location')).toBe('/console/people?done=role');
  const [{ role }] = (await ask('GET', `/tenants/self/members?user_id=${other.user_id}`)).body.data;
  expect(role).toBe('DEVELOPER');
});

test('a DEVELOPER changes no proxy and no code, which may handle the values of others', async () => {
  const member = await memberAs('DEVELOPER');
  const code = 'module.exports = ({ args }) => ({ raw: args });';
  const formula = (await ask('POST', '/reactor-formulas', { name: 'Made', type: 'private', code })).body;
  const reactor = (await ask('POST', '/reactors', { name: 'Made', formula: { id: formula.id } })).body;
  await member.get(`/console/reactors/${reactor.id}`);
  const other = 'module.exports = ({ args }) => fetch("https://example.com", { method: "POST", body: args });';
  const seen = reactor.formula.modified_at ?? reactor.formula.created_at;
  const typed = { name: 'Made', code: other, args: '{}', seen: `${seen} ${reactor.created_at}` };
  for (const wanted of ['deploy', 'test']) {
    const { text } = await member.post(`/console/reactors/${reactor.id}`, { ...typed, do: wanted });
    expect(text).toContain('reactor:update');
  }
  expect((await ask('GET', `/reactor-formulas/${formula.id}`)).body.code).toBe(code);
});

test('a member who may invite no longer loses the invitations that they created', async () => {
  const admin = await memberAs('ADMIN');
  await admin.get('/console/people');
  await admin.post('/console/people/invitations', { email: 'second@example.com', role: 'ADMIN' });
  expect((await ask('GET', '/tenants/self/invitations')).body.data).toHaveLength(1);
  await setRole(admin, 'AUDITOR');
  expect((await ask('GET', '/tenants/self/invitations')).body.data).toEqual([]);
});

test('a caller with a daily limit changes no role', async () => {
  const member = await memberAs('AUDITOR');
  const limited = { name: 'Limited', permissions: ['tenant:member:update'], daily_reveals: 5 };
  const { key } = (await ask('POST', '/applications', limited)).body;
  const path = `/tenants/self/members/${member.member_id}`;
  expect((await server.request('PUT', path, { key, json: { role: 'ADMIN' } })).status).toBe(403);
});

describe('bad input', () => {
  test.each([{ role: 'OWNER' }, { role: 'READ_ONLY' }, { role: null }, {}])(
    '%j is a 400 that names the role',
    async (json) => {
      const member = await memberAs('SUPPORT');
      const { status, body } = await ask('PUT', `/tenants/self/members/${member.member_id}`, json);
      expect([status, body.errors.role]).toEqual([400, [`must be ADMIN, DEVELOPER, SUPPORT or AUDITOR`]]);
      const invited = await ask('POST', '/tenants/self/invitations', { email: 'a@example.com', role: 'OWNER' });
      expect([invited.status, Object.keys(invited.body.errors)]).toEqual([400, ['role']]);
    },
  );

  test('the role of the owner stays', async () => {
    const member = await memberAs('ADMIN');
    await server.sql(`UPDATE members SET role = 'OWNER' WHERE id = $1`, [member.member_id]);
    await server.sign(tenant.tenant_id);
    for (const role of givenRoles) expect((await setRole(member, role)).status).toBe(422);
  });
});
