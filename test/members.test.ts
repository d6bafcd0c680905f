// Members: how an invitation makes exactly one, their names, and what is removed with them.
// Accepting calls the function of the page; everything else uses the API.
import { claimMails } from '../src/platform/mail/mail-outbox.ts';
import { findTenants } from '../src/modules/access/rows/tenants.ts';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join as joinPath } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { inviteOwner } from '../src/modules/people/bootstrap.ts';
import { createApplication } from '../src/modules/access/applications.ts';
import { type Context, createContext } from '../src/modules.ts';
import {
  acceptInvitation,
  type AcceptanceResult,
  findInvitationBeforeCaller,
} from '../src/modules/people/acceptance.ts';
import { Work } from '../src/modules/access/work.ts';
import { createPasswords } from '../src/platform/crypto/password.ts';
import { createInvitation, INVITATION_TTL_MS } from '../src/modules/people/invitations.ts';
import { deleteMember } from '../src/modules/people/members.ts';
import { startSession } from '../src/modules/people/sessions.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { createEmptyDatabase } from './support/database.ts';
import { holdRow } from './support/held-rows.ts';
import { callToSuccess } from './support/command.ts';
import { hearNotices } from './support/notices.ts';
import { invite, PASSWORD, takeLink } from './support/people.ts';
import { type Answer, startServer, TEST_ROOT_KEY, type TestServer, type TestTenant } from './support/server.ts';

const PATH = '/tenants/self/members';
const INVITATIONS = '/tenants/self/invitations';
const UNKNOWN = '7d6f1f5e-0000-4000-8000-000000000000';

let server: TestServer;
/** Another process of the same vault, as far as memory goes. */
let other: Context;
let tenant: TestTenant;

beforeAll(async () => {
  server = await startServer();
  const logDestination = { write: (line: string) => void server.logLines.push(line) };
  other = await createContext(server.ctx.config, 'server', { now: server.ctx.now, logDestination });
});
afterAll(async () => {
  await other.close();
  await server.close();
});
beforeEach(async () => {
  tenant = await server.newTenant({ name: 'Shop' });
});

const send = (method: string, path: string, key = tenant.api_key, json?: unknown): Promise<Answer> =>
  server.request(method, path, { key, ...(json === undefined ? {} : { json }) });

let addresses = 0;
const newAddress = (): string => `member-${(addresses += 1)}@example.com`;

type Given = { first_name?: string; last_name?: string; password?: string };

const accept = (secret: string, given: Given = {}, ctx = server.ctx): Promise<AcceptanceResult> =>
  acceptInvitation(ctx, secret, { first_name: 'Ada', last_name: 'Lovelace', password: PASSWORD, ...given });

/** With the cost of production, which takes long enough for another request to come in between. */
const acceptSlowly = (secret: string): Promise<AcceptanceResult> =>
  accept(secret, {}, { ...server.ctx, passwords: createPasswords(server.ctx.pepper) });

const accepted = (result: AcceptanceResult) => {
  if (result.kind !== 'accepted') throw new Error(`the invitation was not accepted: ${result.kind}`);
  return result.member;
};

const join = async (email = newAddress(), of = tenant, given: Given = {}) =>
  accepted(await accept((await invite(server, email, of)).secret, given));

const members = async (of = tenant) => (await send('GET', PATH, of.api_key)).body.data;

/** A link to own a tenant, as the operator makes it. */
const ownerLink = async (email: string, of = tenant): Promise<string> => {
  const { link } = await inviteOwner(server.ctx, of.tenant_id, email);
  return link.reveal().split('/join/')[1] as string;
};

const isAlive = async (secret: string): Promise<boolean> =>
  (await findInvitationBeforeCaller(server.ctx, secret)) !== undefined;

/** Whoever accepts waits for the tenant, with the password hashed: their link was alive when it was looked at. */
const holdTenant = ({ tenant_id }: TestTenant) =>
  holdRow(server, 'SELECT FROM tenants WHERE id = $1 FOR UPDATE', [tenant_id]);

const usersOf = async (user_id: string): Promise<number> =>
  (await server.sql('SELECT FROM users WHERE id = $1', [user_id])).length;

const logsOf = async (entity_type: string) =>
  server.sql(
    `SELECT operation, message, actor_id, actor_type, entity_ids FROM audit_log
     WHERE tenant_id = $1 AND entity_type = $2 AND operation <> 'read' ORDER BY id`,
    [tenant.tenant_id, entity_type],
  );

describe('accepting an invitation', () => {
  test('makes a member with the names that were given, and ends the invitation', async () => {
    const email = 'Ada.Lovelace@Example.com';
    const { id, secret } = await invite(server, email, tenant);
    const member = accepted(await accept(secret));
    expect(member).toEqual({
      tenant_id: tenant.tenant_id,
      member_id: expect.any(String),
      user_id: expect.any(String),
      password_hash: expect.stringMatching(/^\$argon2id\$/),
    });
    expect(await members()).toEqual([
      {
        id: member.member_id,
        tenant_id: tenant.tenant_id,
        role: 'ADMIN',
        user: { id: member.user_id, email, first_name: 'Ada', last_name: 'Lovelace' },
        created_by: member.user_id,
        created_at: expect.stringMatching(/Z$/),
      },
    ]);
    expect((await send('GET', `${INVITATIONS}/${id}`)).status).toBe(404);
    expect(await logsOf('tenant_member')).toEqual([
      {
        operation: 'create',
        message: 'Tenant member created',
        actor_id: member.user_id,
        actor_type: 'user',
        entity_ids: [member.member_id],
      },
    ]);
    expect((await logsOf('tenant_invitation')).slice(1)).toEqual([
      {
        operation: 'delete',
        message: 'Tenant invitation accepted',
        actor_id: member.user_id,
        actor_type: 'user',
        entity_ids: [id],
      },
    ]);
    expect((await send('GET', '/tenants/self')).body).not.toHaveProperty('owner_id');
  });

  test('leaves out a last name that is not given', async () => {
    await join(newAddress(), tenant, { last_name: '' });
    const [{ user }] = await members();
    expect(user).not.toHaveProperty('last_name');
    expect(user.first_name).toBe('Ada');
  });

  test('is done by one of fifty at once, in two processes', async () => {
    const { secret } = await invite(server, newAddress(), tenant);
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        accept(secret, { first_name: `Ada ${index}` }, index % 2 ? other : server.ctx),
      ),
    );
    const kinds = results.map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'accepted')).toHaveLength(1);
    // Whoever looked later sees what the first has left.
    expect(new Set(kinds)).toEqual(new Set(['accepted', 'dead']));
    expect(await members()).toHaveLength(1);
    const { user_id } = accepted(results.find(({ kind }) => kind === 'accepted') as AcceptanceResult);
    expect(await server.sql('SELECT tenant_id FROM memberships WHERE user_id = $1', [user_id])).toHaveLength(1);
    expect(await logsOf('tenant_member')).toHaveLength(1);
  });

  test('of two links to one address at once is done by one, and ends both', async () => {
    for (let round = 0; round < 5; round += 1) {
      const own = await server.newTenant();
      const email = newAddress();
      const links = [await invite(server, email, own), await invite(server, email, own)];
      const results = await Promise.all(links.map(({ secret }) => accept(secret)));
      expect(results.map(({ kind }) => kind).toSorted()).toEqual(['accepted', 'dead']);
      expect(await members(own)).toHaveLength(1);
      expect((await send('GET', INVITATIONS, own.api_key)).body.data).toEqual([]);
    }
  });

  test('ends every invitation of the tenant to the address, with its mails, and no other', async () => {
    const email = newAddress();
    const otherTenant = await server.newTenant();
    const first = await invite(server, email, tenant);
    const second = await invite(server, email.toUpperCase(), tenant);
    const foreign = await invite(server, email, otherTenant);
    const another = await invite(server, newAddress(), tenant);
    const member = accepted(await accept(second.secret));
    expect(await Promise.all([first, second, foreign, another].map(({ secret }) => isAlive(secret)))).toEqual([
      false,
      false,
      true,
      true,
    ]);
    expect((await send('GET', INVITATIONS)).body.data.map(({ id }: { id: string }) => id)).toEqual([another.id]);
    const waiting = await server.sql(
      'SELECT invitation_id FROM mail_outbox WHERE tenant_id = $1 AND sealed IS NOT NULL',
      [tenant.tenant_id],
    );
    expect(waiting).toEqual([{ invitation_id: another.id }]);
    const ended = (await logsOf('tenant_invitation')).filter(({ operation }) => operation === 'delete');
    expect(ended.toSorted((a, b) => (a.message < b.message ? -1 : 1))).toMatchObject([
      { message: 'Tenant invitation accepted', entity_ids: [second.id], actor_id: member.user_id },
      { message: 'Tenant invitation deleted', entity_ids: [first.id], actor_id: member.user_id },
    ]);
  });

  test('by a known user takes their password, and makes another member of the same user', async () => {
    const email = newAddress();
    const first = await join(email, tenant, { first_name: 'Ada', last_name: 'Lovelace' });
    const second = await server.newTenant({ name: 'Bank' });
    const { id, secret } = await invite(server, email.toUpperCase(), second);
    expect(await findInvitationBeforeCaller(server.ctx, secret)).toMatchObject({
      tenant_name: 'Bank',
      isKnownUser: true,
    });
    const names = { first_name: 'Augusta', last_name: 'King' };
    expect(await accept(secret, { ...names, password: 'another password' })).toEqual({ kind: 'wrong_password' });
    expect(await members(second)).toEqual([]);
    expect((await send('GET', `${INVITATIONS}/${id}`, second.api_key)).body.status).toBe('PENDING');
    const member = accepted(await accept(secret, names));
    expect(member.user_id).toBe(first.user_id);
    expect(member.member_id).not.toBe(first.member_id);
    const nameIn = async (of: TestTenant) => (await members(of))[0].user;
    expect(await nameIn(tenant)).toEqual({ id: first.user_id, email, first_name: 'Ada', last_name: 'Lovelace' });
    expect(await nameIn(second)).toEqual({ id: first.user_id, email: email.toUpperCase(), ...names });
    expect(await usersOf(first.user_id)).toBe(1);
  });

  test('in two tenants at once makes one user; the second request must give the password', async () => {
    for (let round = 0; round < 5; round += 1) {
      const email = newAddress();
      const tenants = [await server.newTenant(), await server.newTenant()];
      const links = await Promise.all(tenants.map((each) => invite(server, email, each)));
      const passwords = ['the first password', 'the second password'];
      const held = await Promise.all(tenants.map(holdTenant));
      const accepting = links.map(({ secret }, index) =>
        accept(secret, { password: passwords[index] as string }, index ? other : server.ctx),
      );
      await held[0]?.waiting(2);
      await Promise.all(held.map(({ letGo }) => letGo()));
      const results = await Promise.all(accepting);
      const kinds = results.map(({ kind }) => kind);
      expect(kinds.toSorted()).toEqual(['accepted', 'user_came_meanwhile']);
      const winner = kinds.indexOf('accepted');
      const late = links[1 - winner] as { secret: string };
      expect(await accept(late.secret, { password: passwords[1 - winner] as string })).toEqual({
        kind: 'wrong_password',
      });
      const { user_id } = accepted(await accept(late.secret, { password: passwords[winner] as string }));
      expect(user_id).toBe(accepted(results[winner] as AcceptanceResult).user_id);
    }
  });

  test.each([
    ['never made', async () => ({ secret: '0'.repeat(32) })],
    ['no link at all', async () => ({ secret: '../..' })],
    [
      'deleted',
      async () => {
        const link = await invite(server, newAddress(), tenant);
        await send('DELETE', `${INVITATIONS}/${link.id}`);
        return link;
      },
    ],
    [
      'superseded',
      async () => {
        const link = await invite(server, newAddress(), tenant);
        await send('POST', `${INVITATIONS}/${link.id}/resend`);
        return link;
      },
    ],
    [
      'used',
      async () => {
        const link = await invite(server, newAddress(), tenant);
        accepted(await accept(link.secret));
        return link;
      },
    ],
    [
      'of a tenant that is gone',
      async () => {
        const link = await invite(server, newAddress(), tenant);
        await send('DELETE', '/tenants/self');
        return link;
      },
    ],
  ])('by a link that is %s makes no member', async (_what, make) => {
    const { secret } = await make();
    const users = await server.sql('SELECT FROM users');
    expect(await findInvitationBeforeCaller(server.ctx, secret)).toBeUndefined();
    expect(await accept(secret)).toEqual({ kind: 'dead' });
    expect(await server.sql('SELECT FROM users')).toHaveLength(users.length);
  });

  test('by a link makes a member until the second in which it expires', async () => {
    const early = await invite(server, newAddress(), tenant);
    const late = await invite(server, newAddress(), tenant);
    const leftMs = async ({ id }: { id: string }): Promise<number> =>
      Date.parse((await send('GET', `${INVITATIONS}/${id}`)).body.expires_at) - Date.now();
    try {
      // Hashing takes its time: what counts is when the link is taken.
      server.clock.offsetMs = (await leftMs(early)) - 10_000;
      expect((await accept(early.secret)).kind).toBe('accepted');
      server.clock.offsetMs = (await leftMs(late)) + 1000;
      expect(await accept(late.secret)).toEqual({ kind: 'dead' });
    } finally {
      server.clock.offsetMs = 0;
    }
  });

  test('with a refused password makes no member', async () => {
    const { secret } = await invite(server, newAddress(), tenant);
    for (const password of ['', 'eleven long', 'x'.repeat(129)])
      expect(await accept(secret, { password })).toEqual({ kind: 'wrong_password' });
    expect(await members()).toEqual([]);
    expect(await isAlive(secret)).toBe(true);
  });

  test('that expires while the password is hashed makes no member', async () => {
    const { id, secret } = await invite(server, newAddress(), tenant);
    const held = await holdTenant(tenant);
    const accepting = accept(secret);
    const expires_at = server.ctx.now();
    await held.waiting(1);
    await server.sql('UPDATE invitations SET expires_at = $2 WHERE id = $1', [id, expires_at]);
    await held.letGo();
    expect(await accepting).toEqual({ kind: 'dead' });
    expect(await members()).toEqual([]);
  });

  test.each([
    ['sent again', 'POST', '/resend', 200],
    ['deleted', 'DELETE', '', 204],
  ])('while it is %s is done before it, or not at all', async (_what, method, suffix, status) => {
    const seen = new Set<string>();
    for (let round = 0; round < 12; round += 1) {
      const own = await server.newTenant();
      const { id, secret } = await invite(server, newAddress(), own);
      const accepting = acceptSlowly(secret);
      // Accepting hashes the password first: the request arrives at a different point each round.
      await new Promise((resolve) => setTimeout(resolve, (round % 6) * 8));
      const response = await send(method, `${INVITATIONS}/${id}${suffix}`, own.api_key);
      const { kind } = await accepting;
      seen.add(kind);
      expect([kind, response.status]).toEqual(kind === 'accepted' ? ['accepted', 404] : ['dead', status]);
      expect(await members(own)).toHaveLength(kind === 'accepted' ? 1 : 0);
    }
    expect(seen).toContain('dead');
  });

  test('while the tenant is deleted leaves nothing behind', async () => {
    for (let round = 0; round < 6; round += 1) {
      const own = await server.newTenant();
      const { secret } = await invite(server, newAddress(), own);
      const accepting = acceptSlowly(secret);
      await new Promise((resolve) => setTimeout(resolve, round * 10));
      expect((await send('DELETE', '/tenants/self', own.api_key)).status).toBe(204);
      expect(['accepted', 'dead']).toContain((await accepting).kind);
      await sweep(server.ctx);
      for (const table of ['memberships', 'members', 'invitations', 'invitation_secrets', 'sessions'])
        expect(await server.sql(`SELECT FROM ${table} WHERE tenant_id = $1`, [own.tenant_id]), table).toEqual([]);
    }
    const orphans = await server.sql(
      'SELECT FROM users u WHERE NOT EXISTS (SELECT FROM memberships m WHERE m.user_id = u.id)',
    );
    expect(orphans).toEqual([]);
  });

  test('makes an address a member, which cannot be invited again', async () => {
    const email = newAddress();
    await join(email);
    const before = await server.sql('SELECT FROM mail_outbox');
    for (const given of [email, email.toUpperCase(), email.replace(/^(.*)@/, '"$1"@')]) {
      const answer = await send('POST', INVITATIONS, tenant.api_key, { email: given });
      expect(answer.status, given).toBe(409);
      expect(answer.text).not.toMatch(/member-\d/i);
    }
    expect(await server.sql('SELECT FROM mail_outbox')).toHaveLength(before.length);
    const otherTenant = await server.newTenant();
    expect((await send('POST', INVITATIONS, otherTenant.api_key, { email })).status).toBe(201);
  });
});

describe('the owner', () => {
  test('is who accepts the link of the operator, and the tenant says so', async () => {
    const email = newAddress();
    const member = accepted(await accept(await ownerLink(email)));
    expect((await members())[0]).toMatchObject({ id: member.member_id, role: 'OWNER' });
    expect((await send('GET', '/tenants/self')).body.owner_id).toBe(member.user_id);
  });

  test('cannot be removed, by anybody', async () => {
    const { member_id } = accepted(await accept(await ownerLink(newAddress())));
    const answer = await send('DELETE', `${PATH}/${member_id}`);
    expect(answer.status).toBe(422);
    expect(await members()).toHaveLength(1);
    expect((await logsOf('tenant_member')).map(({ operation }) => operation)).toEqual(['create']);
  });

  test('is one: a second link of the operator makes an admin, and no third is given out', async () => {
    const links = [await ownerLink(newAddress()), await ownerLink(newAddress())];
    const both = await Promise.all(links.map((link) => accept(link)));
    expect(both.map(({ kind }) => kind)).toEqual(['accepted', 'accepted']);
    const roles = (await members()).map(({ role }: { role: string }) => role);
    expect(roles.toSorted()).toEqual(['ADMIN', 'OWNER']);
    const owner = (await members()).find(({ role }: { role: string }) => role === 'OWNER');
    expect((await send('GET', '/tenants/self')).body.owner_id).toBe(owner.user.id);
    await expect(ownerLink(newAddress())).rejects.toThrow('has an owner already');
  });

  test('may have come by another invitation to the same address', async () => {
    const email = newAddress();
    const link = await ownerLink(email);
    await join(email);
    expect((await members())[0].role).toBe('OWNER');
    expect(await isAlive(link)).toBe(false);
  });

  test('may have been a member before', async () => {
    const email = newAddress();
    const before = await join(email);
    const notices = await hearNotices(server);
    const member = accepted(await accept(await ownerLink(email), { first_name: 'Other' }));
    expect(member).toEqual(before);
    const [shown] = await members();
    expect(shown).toMatchObject({ role: 'OWNER', modified_by: member.user_id, user: { first_name: 'Ada' } });
    expect((await send('GET', '/tenants/self')).body.owner_id).toBe(member.user_id);
    await notices.times(`member ${member.member_id}`, 1);
    await notices.close();
  });

  test('is not who has an invitation that has expired', async () => {
    const email = newAddress();
    await ownerLink(email);
    await server.sql('UPDATE invitations SET expires_at = $2 WHERE tenant_id = $1', [
      tenant.tenant_id,
      server.ctx.now(),
    ]);
    await server.sign(tenant.tenant_id);
    await join(email);
    expect((await members())[0].role).toBe('ADMIN');
  });
});

describe('removing a member', () => {
  test('may be done by themselves, and to the last', async () => {
    const member = await join();
    const { ctx } = server;
    const session = await ctx.sessions.find(await startSession(ctx, member));
    if (!session) throw new Error('no session');
    await deleteMember(ctx, new Work(ctx, session.caller), member.member_id);
    expect(await members()).toEqual([]);
    expect((await logsOf('tenant_member')).at(-1)).toMatchObject({
      operation: 'delete',
      actor_type: 'user',
      actor_id: member.user_id,
    });
  });

  test('ends their sessions in every process, and no others', async () => {
    const [gone, stays] = [await join(), await join()];
    const secret = await startSession(server.ctx, gone);
    const kept = await startSession(server.ctx, stays);
    for (const ctx of [server.ctx, other])
      for (const each of [secret, kept]) expect(await ctx.sessions.find(each)).toBeDefined();
    const notices = await hearNotices(server);
    expect((await send('DELETE', `${PATH}/${gone.member_id}`)).status).toBe(204);
    expect(await server.ctx.sessions.find(secret)).toBeUndefined();
    await notices.times(`member ${gone.member_id}`, 1);
    await notices.close();
    await expect.poll(() => other.sessions.find(secret), { timeout: 10_000 }).toBeUndefined();
    expect(await server.ctx.sessions.find(kept)).toBeDefined();
    expect(await server.sql('SELECT FROM sessions WHERE member_id = $1', [gone.member_id])).toEqual([]);
    await expect(startSession(server.ctx, gone)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('ends their links and sessions, and leaves the records that they created', async () => {
    const email = newAddress();
    const member = await join(email);
    const { ctx } = server;
    const session = await ctx.sessions.find(await startSession(ctx, member));
    if (!session) throw new Error('no session');
    const work = new Work(ctx, session.caller);
    const made = await createInvitation(ctx, work, { email: newAddress(), role: 'ADMIN' });
    const { secret } = await takeLink(server, made.id);
    const application = await createApplication(ctx, work, {
      name: 'Theirs',
      type: 'private',
      permissions: ['token:create'],
      rules: [],
    });
    // The operator's link to a member's address is one of those doors.
    const owner = await ownerLink(email);
    const others = await invite(server, newAddress(), tenant);
    expect((await send('DELETE', `${PATH}/${member.member_id}`)).status).toBe(204);
    expect(await Promise.all([secret, owner, others.secret].map(isAlive))).toEqual([false, false, true]);
    expect((await send('GET', INVITATIONS)).body.data.map(({ id }: { id: string }) => id)).toEqual([others.id]);
    const waiting = await server.sql(
      'SELECT invitation_id FROM mail_outbox WHERE tenant_id = $1 AND sealed IS NOT NULL',
      [tenant.tenant_id],
    );
    expect(waiting).toEqual([{ invitation_id: others.id }]);
    const tokenized = await server.tokenize('x', application.key as string);
    expect(tokenized.status).toBe(200);
    const ended = (await logsOf('tenant_invitation')).filter(({ operation }) => operation === 'delete');
    expect(ended).toMatchObject([
      { message: 'Tenant invitation accepted', actor_id: member.user_id },
      {
        message: 'Tenant invitation deleted',
        actor_id: tenant.application_id,
        entity_ids: expect.arrayContaining([made.id]),
      },
    ]);
    expect(ended[1].entity_ids).toHaveLength(2);
  });

  test('deletes the user with the last membership, and not before', async () => {
    const email = newAddress();
    const second = await server.newTenant();
    const first = await join(email);
    const other = await join(email, second);
    await send('DELETE', `${PATH}/${first.member_id}`);
    expect(await usersOf(first.user_id)).toBe(1);
    expect(await members(second)).toHaveLength(1);
    await send('DELETE', `${PATH}/${other.member_id}`, second.api_key);
    expect(await usersOf(first.user_id)).toBe(0);
    // A person who is invited again chooses a new password, and is another user.
    const again = await join(email, tenant, { password: 'a password of today' });
    expect(again.user_id).not.toBe(first.user_id);
  });

  test('in two tenants at once deletes the user', async () => {
    for (let round = 0; round < 5; round += 1) {
      const email = newAddress();
      const second = await server.newTenant();
      const [one, two] = [await join(email), await join(email, second)];
      const answers = await Promise.all([
        send('DELETE', `${PATH}/${one.member_id}`),
        send('DELETE', `${PATH}/${two.member_id}`, second.api_key),
      ]);
      expect(answers.map(({ status }) => status)).toEqual([204, 204]);
      expect(await usersOf(one.user_id)).toBe(0);
    }
  });

  test('while they accept elsewhere leaves them a user with their password', async () => {
    for (let round = 0; round < 6; round += 1) {
      const email = newAddress();
      const second = await server.newTenant();
      const member = await join(email);
      const { secret } = await invite(server, email, second);
      const accepting = acceptSlowly(secret);
      await new Promise((resolve) => setTimeout(resolve, round * 10));
      expect((await send('DELETE', `${PATH}/${member.member_id}`)).status).toBe(204);
      const { user_id } = accepted(await accepting);
      expect(await usersOf(user_id)).toBe(1);
      const third = await server.newTenant();
      const next = await invite(server, email, third);
      expect(accepted(await accept(next.secret)).user_id).toBe(user_id);
    }
  });
});

test('deleting a tenant ends its sessions, links and mails, and users without other tenants', async () => {
  const email = newAddress();
  const second = await server.newTenant();
  const [stays, gone] = [await join(email), await join()];
  const elsewhere = await join(email, second);
  const { secret } = await invite(server, newAddress(), tenant);
  const session = await startSession(server.ctx, stays);
  const foreign = await startSession(server.ctx, elsewhere);
  expect(await server.ctx.sessions.find(session)).toBeDefined();
  expect((await send('DELETE', '/tenants/self')).status).toBe(204);
  expect(await server.ctx.sessions.find(session)).toBeUndefined();
  expect(await server.ctx.sessions.find(foreign)).toBeDefined();
  expect(await isAlive(secret)).toBe(false);
  expect(await Promise.all([stays, gone].map(({ user_id }) => usersOf(user_id)))).toEqual([1, 0]);
  const left = (table: string) => server.sql(`SELECT FROM ${table} WHERE tenant_id = $1`, [tenant.tenant_id]);
  for (const table of ['sessions', 'memberships', 'invitation_secrets']) expect(await left(table), table).toEqual([]);
  const unsent = 'SELECT FROM mail_outbox WHERE tenant_id = $1 AND sealed IS NOT NULL';
  expect(await server.sql(unsent, [tenant.tenant_id])).toEqual([]);
  await sweep(server.ctx);
  for (const table of ['members', 'invitations']) expect(await left(table), table).toEqual([]);
  expect(await members(second)).toHaveLength(1);
});

test('links of expired invitations are swept, and no others', async () => {
  const old = await invite(server, newAddress(), tenant);
  const young = await invite(server, newAddress(), tenant);
  await server.sql('UPDATE invitations SET expires_at = $2 WHERE id = $1', [old.id, server.ctx.now()]);
  await sweep(server.ctx);
  const left = await server.sql('SELECT invitation_id FROM invitation_secrets WHERE tenant_id = $1', [
    tenant.tenant_id,
  ]);
  expect(left).toEqual([{ invitation_id: young.id }]);
  expect(INVITATION_TTL_MS).toBe(72 * 3_600_000);
});

describe('the command line', () => {
  let dataDir: string;
  let database: Awaited<ReturnType<typeof createEmptyDatabase>>;
  beforeAll(async () => {
    dataDir = mkdtempSync(joinPath(tmpdir(), 'strongroom-owner-'));
    database = await createEmptyDatabase();
  });
  afterAll(async () => {
    await database.drop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  const cli = async (args: string[], environment: Record<string, string> = {}): Promise<string> => {
    const env = {
      DATA_DIR: dataDir,
      DATABASE_URL: database.url,
      MASTER_KEY: TEST_ROOT_KEY,
      ...environment,
    };
    return (await callToSuccess(args, { env })).stdout;
  };
  const failing = (args: string[]): Promise<{ code: number; stderr: string }> =>
    cli(args).then(
      () => expect.unreachable('the command succeeded'),
      (error: { code: number; stderr: string }) => error,
    );

  /** Accepts a link as a server on that database does. */
  const acceptAt = async (link: string) => {
    const ctx = await createContext({ ...server.ctx.config, databaseUrl: database.url }, 'command', {
      logDestination: { write: () => undefined },
    });
    try {
      const member = accepted(await accept(link.split('/join/')[1] as string, {}, ctx));
      const [stored] = await findTenants(ctx.db, member.tenant_id);
      const queued = await claimMails(ctx.db, ctx.now(), 1000, 100);
      return { member, owner_id: stored?.owner_id, queued: queued.length };
    } finally {
      await ctx.close();
    }
  };

  test('makes the first tenant and mails its owner a link; a wrong address makes nothing', async () => {
    const bad = await failing(['bootstrap', '--tenant-name', 'First', '--owner-email', 'Ada <ada@example.com>']);
    expect(bad.code).toBe(1);
    expect(bad.stderr).toContain('address');
    const beyond = await failing(['bootstrap', '--tenant-name', 'First', '--owner-email', 'größe@example.com']);
    expect([beyond.code, beyond.stderr]).toEqual([1, expect.stringContaining('only ASCII characters before the @')]);
    const made = JSON.parse(
      await cli(['bootstrap', '--tenant-name', 'First', '--owner-email', 'ada@example.com', '--json']),
    );
    expect(Object.keys(made).toSorted()).toEqual(['api_key', 'application_id', 'owner_link', 'tenant_id']);
    expect(made.owner_link).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/join\/[0-9A-Za-z]{32}$/);
    const { member, owner_id } = await acceptAt(made.owner_link);
    expect(member.tenant_id).toBe(made.tenant_id);
    expect(owner_id).toBe(member.user_id);
    const again = await failing(['owner', 'invite', '--email', 'bob@example.com']);
    expect(again.stderr).toContain('has an owner already');
  });

  test('creates further tenants, prints a link on the public URL, and invites an owner later', async () => {
    const environment = { PUBLIC_URL: 'https://vault.example.com' };
    const args = ['tenants', 'create', '--name', 'Second', '--owner-email', 'bob@example.com'];
    const words = await cli(args, environment);
    expect(words).toMatch(/^owner_link {6}https:\/\/vault\.example\.com\/join\/[0-9A-Za-z]{32}$/m);
    expect(words).toMatch(/^api_key {9}svc_test_/m);
    const third = JSON.parse(await cli(['tenants', 'create', '--name', 'Third', '--json']));
    expect(third).not.toHaveProperty('owner_link');
    const invited = ['owner', 'invite', '--email', 'eve@example.com'];
    const refused = await Promise.all([
      failing(invited),
      failing([...invited, '--tenant', UNKNOWN]),
      failing([...invited, '--tenant', 'x']),
      failing(['owner', 'invite', '--tenant', third.tenant_id]),
    ]);
    for (const [index, word] of ['--tenant', 'no such tenant', 'UUID', '--email'].entries())
      expect(refused[index]?.stderr).toContain(word);
    const { owner_link } = JSON.parse(
      await cli([...invited, '--tenant', third.tenant_id.toUpperCase(), '--json'], environment),
    );
    expect(owner_link).toMatch(/^https:\/\/vault\.example\.com\/join\//);
    const { member, owner_id, queued } = await acceptAt(owner_link);
    expect(member.tenant_id).toBe(third.tenant_id);
    expect(owner_id).toBe(member.user_id);
    // Bob's waits; the two others' went with their invitations.
    expect(queued).toBe(1);
  });

  test('gives out links to the development server beside it, wherever that one listens', async () => {
    const { tenant_id } = JSON.parse(await cli(['tenants', 'create', '--name', 'Beside', '--json']));
    const path = joinPath(dataDir, 'dev-credentials.json');
    writeFileSync(path, JSON.stringify({ base_url: 'http://127.0.0.1:9123' }));
    const invited = ['owner', 'invite', '--email', 'ida@example.com', '--tenant', tenant_id, '--json'];
    expect(JSON.parse(await cli(invited)).owner_link).toMatch(/^http:\/\/127\.0\.0\.1:9123\/join\//);
    rmSync(path);
  });

  test('gives out links where no mail is sent', async () => {
    const own = await createEmptyDatabase();
    const production = { NODE_ENV: 'production', DATABASE_URL: own.url };
    const words = await cli(['bootstrap', '--tenant-name', 'Live', '--owner-email', 'ada@example.com'], production);
    expect(words).toContain('No mail is sent');
    expect(words).toMatch(/\/join\/[0-9A-Za-z]{32}$/m);
    await own.drop();
  });
});

test('an owner whose mailbox had too many mails still gets a link', async () => {
  const email = newAddress();
  for (let index = 0; index < 10; index += 1) await invite(server, email, tenant);
  const { link, isMailed } = await inviteOwner(server.ctx, tenant.tenant_id, email);
  expect(isMailed).toBe(false);
  expect((await accept(link.reveal().split('/join/')[1] as string)).kind).toBe('accepted');
  expect((await members())[0].role).toBe('OWNER');
});
