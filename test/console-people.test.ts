// People in the console: members and invitations, seen and changed by a member with a browser that has no scripts.
import { request as requestHttp } from 'node:http';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Browser, fieldIn, type SharedConsole, textOf, useConsole } from './support/console.ts';
import { openBrowser, signIn, takeLink } from './support/people.ts';
import type { TestTenant } from './support/server.ts';

const PATH = '/console/people';
const UNKNOWN = '7d6f1f5e-0000-4000-8000-000000000000';

let server: SharedConsole;
let tenant: TestTenant;
let member: Browser;
let anonymous: Browser;
beforeAll(async () => {
  server = await useConsole();
  anonymous = await server.signIn();
});
beforeEach(async () => {
  tenant = await server.newTenant();
  member = await server.signIn({ tenant });
});

let count = 0;
const newAddress = () => `console-${(count += 1)}@example.com`;

/** What a person reads, with spaces between what stands apart. */
const wordsOf = (page: string): string => textOf(page.replaceAll('<', ' <')).replace(/\s+/g, ' ');

/** Presses the button of a form: only where the page has that form. */
const press = async (browser: Pick<Browser, 'get' | 'post'>, action: string, typed: Record<string, string> = {}) => {
  const page = await browser.get(PATH);
  expect(page.text).toContain(`action="${PATH}${action}"`);
  return browser.post(`${PATH}${action}`, typed);
};

type Row = { id: string; email: string; status: string; user: { id: string } };
const listed = async (what: 'members' | 'invitations'): Promise<Row[]> =>
  (await server.request('GET', `/tenants/self/${what}`, { key: tenant.api_key })).body.data;

const invited = async (email = newAddress()): Promise<Row> => {
  await member.follow(await press(member, '/invitations', { email }));
  const found = (await listed('invitations')).find((each) => each.email === email);
  expect(found).toBeDefined();
  return found as Row;
};

describe('The page of people', () => {
  test('shows members and invitations of the own tenant alone, and marks oneself', async () => {
    const other = await server.signIn({ tenant });
    const { email } = await invited();
    const { status, text } = await member.get(PATH);
    expect(status).toBe(200);
    for (const each of [member.email, other.email, email]) expect(text).toContain(each);
    expect(text).not.toContain(anonymous.email);
    const rows = text.split('<tr>').filter((row) => row.includes('@example.com'));
    expect(rows.filter((row) => row.includes('>you<')).map((row) => row.includes(member.email))).toEqual([true]);
    const theirs = (await anonymous.get(PATH)).text;
    for (const each of [member.email, email]) expect(theirs).not.toContain(each);
    expect(textOf(theirs)).toContain('No invitations.');
  });

  test('shows hostile names and addresses as text', async () => {
    const email = `"<script>alert(1)</script>"@example.com`;
    const { id } = await invited(email);
    const { path } = await takeLink(server, id);
    const joined = await openBrowser(server).post(path, {
      first_name: '<img src=x onerror=alert(1)>',
      last_name: '"&\u05d0',
      password: 'correct horse battery',
    });
    expect(joined.status, joined.text).toBe(303);
    await invited('"><b>x</b>"@example.com');
    const { text } = await member.get(PATH);
    expect(text).not.toMatch(/<script>alert|<img src=x|<b>x/);
    for (const each of [email, '<img src=x onerror=alert(1)> "&\u05d0', '"><b>x</b>"@example.com'])
      expect(textOf(text)).toContain(each);
  });

  test('has pages of both lists, each by itself', async () => {
    const addresses = Array.from({ length: 11 }, newAddress);
    for (const email of addresses) {
      const json = { email };
      await server.request('POST', '/tenants/self/invitations', { json, key: tenant.api_key });
    }
    const found = (text: string) => addresses.filter((email) => text.includes(`>${email}<`));
    const first = await member.get(PATH);
    const second = await member.get(`${PATH}?invitations_page=2`);
    expect([found(first.text).length, found(second.text)]).toEqual([10, addresses.slice(0, 1)]);
    expect(second.text).toContain(member.email);
    expect(first.text).toContain('href="/console/people?invitations_page=2"');
  });

  test('says nothing that an address makes up', async () => {
    const { text } = await member.get(`${PATH}?done=${encodeURIComponent('<b>You</b> must pay')}`);
    expect(text).not.toContain('must pay');
    expect(text).not.toContain('class="notice');
    expect((await member.get(`${PATH}?done=constructor`)).text).not.toContain('class="notice');
    expect(textOf((await member.get(`${PATH}?done=invited`)).text)).toContain('The invitation was sent.');
  });
});

describe('Inviting', () => {
  test('sends an invitation, and leads back to a page that may be loaded again', async () => {
    const email = newAddress();
    const answer = await press(member, '/invitations', { email: `  ${email} ` });
    expect([answer.status, answer.headers.get('location')]).toEqual([303, `${PATH}?done=invited`]);
    const page = await member.follow(answer);
    expect(wordsOf(page.text)).toContain('The invitation was sent.');
    expect(wordsOf(page.text)).toMatch(new RegExp(`${email} ADMIN PENDING`));
    await member.get(`${PATH}?done=invited`);
    expect((await listed('invitations')).map((each) => each.email)).toEqual([email]);
  });

  test.each(['', 'nobody', 'a@b@c', 'Ada <ada@example.com>', '"><script>alert(1)</script>'])(
    'tells beside the field what is no address: %j',
    async (email) => {
      const { status, text } = await press(member, '/invitations', { email });
      expect(status).toBe(400);
      expect(text).toMatch(/aria-describedby="email-problem"/);
      expect(textOf(text)).toContain('must be one e-mail address');
      expect(fieldIn(text, 'email')).toBe(email);
      expect(text).not.toContain('<script>alert');
      expect(await listed('invitations')).toEqual([]);
    },
  );

  test('somebody who is a member is told beside the field', async () => {
    const { status, text } = await press(member, '/invitations', { email: member.email });
    expect(status).toBe(409);
    expect(text).toContain('id="email-problem"');
    expect(fieldIn(text, 'email')).toBe(member.email);
  });

  test('too often says when to come again', async () => {
    const email = newAddress();
    for (let times = 0; times < 10; times += 1) await press(member, '/invitations', { email });
    const { status, text } = await press(member, '/invitations', { email });
    expect(status).toBe(429);
    expect(/id="email-problem">([^<]*)/.exec(text)?.[1]).toMatch(/Try again in (?:59|60) minutes\.$/);
    expect(fieldIn(text, 'email')).toBe(email);
    expect(await listed('invitations')).toHaveLength(10);
  });

  test('in a vault that sends no mail is refused in words', async () => {
    const { mail } = server.ctx.config;
    server.ctx.config.mail = undefined;
    try {
      const { status, text } = await press(member, '/invitations', { email: newAddress() });
      expect(status).toBe(503);
      expect(textOf(text)).toContain('This server sends no mail, so it cannot invite anyone');
      expect(textOf(text)).not.toContain('Try again in');
    } finally {
      server.ctx.config.mail = mail;
    }
  });
});

test('a page whose data the API cannot read answers 500 with the trace id', async () => {
  const { id } = await invited();
  await server.sql(`UPDATE invitations SET sealed = set_byte(sealed, 50, get_byte(sealed, 50) # 1) WHERE id = $1`, [
    id,
  ]);
  const { status, text, headers } = await member.get(PATH);
  expect(status).toBe(500);
  expect(text).toContain('An internal error occurred.');
  expect(text).toContain(headers.get('svc-trace-id'));
});

describe('An invitation', () => {
  test('is sent again: its earlier link is dead then', async () => {
    const { id, email } = await invited();
    const { path } = await takeLink(server, id);
    await server.sql(`UPDATE invitations SET expires_at = now() - interval '1 hour' WHERE id = $1`, [id]);
    await server.sign(tenant.tenant_id);
    expect(wordsOf((await member.get(PATH)).text)).toContain(`${email} ADMIN EXPIRED`);
    const page = await member.follow(await press(member, `/invitations/${id}/resend`));
    expect(wordsOf(page.text)).toContain('A new link was sent.');
    expect(wordsOf(page.text)).toContain(`${email} ADMIN PENDING`);
    expect((await openBrowser(server).get(path)).status).toBe(410);
  });

  test('is deleted: its link is dead then', async () => {
    const { id, email } = await invited();
    const { path } = await takeLink(server, id);
    const page = await member.follow(await press(member, `/invitations/${id}/delete`));
    expect(wordsOf(page.text)).toContain('The invitation was deleted');
    expect(page.text).not.toContain(email);
    expect((await openBrowser(server).get(path)).status).toBe(410);
  });

  test.each(['resend', 'delete'])('that is gone meanwhile is told above the lists: %s', async (action) => {
    await member.get(PATH);
    const { status, text } = await member.post(`${PATH}/invitations/${UNKNOWN}/${action}`);
    expect(status).toBe(404);
    expect(textOf(text)).toContain('The invitation was not found.');
    expect(text).toContain(member.email);
  });
});

describe('A member', () => {
  test('is removed, after a question that needs no script, and has no access from then on', async () => {
    const other = await server.signIn({ tenant });
    const page = await member.get(PATH);
    const action = `${PATH}/members/${other.member_id}/remove`;
    expect(page.text).toMatch(
      new RegExp(`<details[^>]*><summary>Remove</summary><form method="post" action="${action}"`),
    );
    const done = await member.follow(await member.post(action));
    expect(wordsOf(done.text)).toContain('The member was removed.');
    expect(done.text).not.toContain(other.email);
    const theirs = await other.get(PATH);
    expect([theirs.status, theirs.headers.get('location')?.split('?')[0]]).toEqual([303, '/console/sign-in']);
  });

  test('who leaves is signed out, and comes no further', async () => {
    await server.signIn({ tenant });
    const page = await member.get(PATH);
    expect(textOf(page.text)).toContain('You lose all access to Test');
    const answer = await member.post(`${PATH}/members/${member.member_id}/remove`);
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console/sign-in']);
    expect((await member.get(PATH)).status).toBe(303);
    expect((await listed('members')).map((each) => each.user.id)).not.toContain(member.user_id);
  });

  test('who owns the tenant has no button, and cannot be removed', async () => {
    const owner = await server.signIn({ tenant });
    await server.sql(`UPDATE members SET role = 'OWNER' WHERE id = $1`, [owner.member_id]);
    await server.sign(tenant.tenant_id);
    const page = await member.get(PATH);
    expect(textOf(page.text)).toContain('OWNER');
    expect(page.text).not.toContain(`/members/${owner.member_id}/remove`);
    const { status, text } = await member.post(`${PATH}/members/${owner.member_id}/remove`);
    expect(status).toBe(422);
    expect(textOf(text)).toContain('The member was not removed.');
    expect(/<div class="notice bad"[^>]*>(.*?)<\/div>/s.exec(text)?.[1]).toMatch(/owner/i);
    expect((await signIn(server, owner.email)).cookies.size).toBe(1);
  });

  test('a dot segment for an id removes nothing: not the tenant either', async () => {
    const browser = await signIn(server, member.email);
    const csrf = await browser.csrf();
    const { port } = new URL(server.base_url);
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const statuses = await Promise.all(
      ['%2e%2e', '%2e', '..'].map(
        (id) =>
          new Promise((resolve, reject) => {
            // As it is written: other clients take dot segments away.
            const headers = { cookie, 'content-type': 'application/x-www-form-urlencoded' };
            const path = `${PATH}/members/${id}/remove`;
            const asked = requestHttp(
              { port, host: '127.0.0.1', method: 'POST', path, headers, agent: false },
              (answer) => {
                answer.resume();
                resolve(answer.statusCode);
              },
            );
            asked.on('error', reject);
            asked.end(new URLSearchParams({ csrf }).toString());
          }),
      ),
    );
    expect(statuses).toEqual([404, 404, 404]);
    expect((await server.request('GET', '/tenants/self', { key: tenant.api_key })).status).toBe(200);
  });
});

describe('What is another tenant’s', () => {
  test('is not there for anyone else', async () => {
    const { id } = await invited();
    const before = [await listed('members'), await listed('invitations')];
    await anonymous.get(PATH);
    for (const path of [
      `/invitations/${id}/resend`,
      `/invitations/${id}/delete`,
      `/members/${member.member_id}/remove`,
    ]) {
      const { status, text } = await anonymous.post(`${PATH}${path}`);
      expect([path, status]).toEqual([path, 404]);
      expect(text).not.toContain(member.email);
    }
    expect([await listed('members'), await listed('invitations')]).toEqual(before);
    expect((await member.get(PATH)).status).toBe(200);
  });

  test('no form does anything without its token, nor for whoever is nobody', async () => {
    const other = await server.signIn({ tenant });
    const { id } = await invited();
    const before = [await listed('members'), await listed('invitations')];
    const actions = [
      '/invitations',
      `/invitations/${id}/resend`,
      `/invitations/${id}/delete`,
      `/members/${other.member_id}/remove`,
    ];
    await member.get(PATH);
    for (const path of actions) {
      const typed = { email: newAddress() };
      expect((await member.post(`${PATH}${path}`, { ...typed, csrf: 'x'.repeat(43) })).status).toBe(403);
      const answer = await server.anonymous().post(`${PATH}${path}`, typed);
      expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console/sign-in']);
    }
    expect([await listed('members'), await listed('invitations')]).toEqual(before);
  });
});
