// The page of an invitation's link: a valid link makes one member, invalid links look the same, the secret does not leak.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { inviteOwner } from '../src/modules/people/bootstrap.ts';
import { join, invite, openBrowser, PASSWORD, takeLink } from './support/people.ts';
import { startServer, type TestServer } from './support/server.ts';

let server: TestServer;
/** Without limits on attempts. */
let free: TestServer;
beforeAll(async () => {
  [server, free] = await Promise.all([startServer({ LOG_LEVEL: 'debug' }), startServer({ RATE_LIMIT: 'off' })]);
});
afterAll(() => Promise.all([server.close(), free.close()]));
afterEach(async () => {
  await server.sql('DELETE FROM attempts');
});

const HOUR_MS = 3_600_000;
const answers = { first_name: 'Ada', last_name: 'Lovelace', password: PASSWORD };

let people = 0;
const newEmail = (): string => `joining-${(people += 1)}@example.com`;

const membersOf = async (of: TestServer): Promise<any[]> =>
  (await of.request('GET', '/tenants/self/members?size=50')).body.data;

const memberWith = async (of: TestServer, email: string): Promise<any> =>
  (await membersOf(of)).find((member) => member.user.email === email);

const withoutTrace = (text: string, trace_id: string | null): string => text.replaceAll(trace_id ?? '-', 'TRACE');

describe('a live link', () => {
  test('shows who invites whom, and a form without the secret that goes to the same page', async () => {
    const email = newEmail();
    const { path, secret } = await invite(server, email);
    const { status, headers, text } = await openBrowser(server).get(path);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(text).toContain('Join Test');
    expect(text).toContain(email);
    expect(text).toContain('autocomplete="new-password"');
    expect(text).not.toContain(secret);
  });

  test('says that the person becomes the owner, if the operator invites', async () => {
    const { tenant_id } = await server.newTenant({ name: 'Owned' });
    const { link } = await inviteOwner(server.ctx, tenant_id, newEmail());
    const { text } = await openBrowser(server).get(new URL(link.reveal()).pathname);
    expect(text).toContain('become the owner of Owned');
  });

  test('makes the sender of the form a member, signs them in, and works only once', async () => {
    const email = newEmail();
    const { path, id } = await invite(server, email);
    const browser = openBrowser(server);
    const accepted = await browser.post(path, answers);
    expect([accepted.status, accepted.headers.get('location')]).toEqual([303, '/console']);
    expect((await browser.get('/console')).headers.get('location')).toBe('/console/home');
    expect(await memberWith(server, email)).toMatchObject({
      role: 'ADMIN',
      user: { email, first_name: 'Ada', last_name: 'Lovelace' },
    });
    expect((await server.request('GET', `/tenants/self/invitations/${id}`)).status).toBe(404);
    expect((await openBrowser(server).get(path)).status).toBe(410);
    expect((await openBrowser(server).post(path, answers)).status).toBe(410);
  });

  test('is changed by no scanner that opens it: GET and HEAD as often as they like', async () => {
    const { path } = await invite(server, newEmail());
    for (const method of ['GET', 'HEAD', 'GET', 'HEAD', 'OPTIONS'])
      expect((await server.request(method, path, { key: null })).status).toBeLessThan(300);
    expect((await openBrowser(server).post(path, answers)).status).toBe(303);
  });

  test('asks an address that has a password for that one, and makes no second user of it', async () => {
    const other = await server.newTenant({ name: 'Second house' });
    const { email, user_id } = await join(server);
    const { path } = await invite(server, email, other);
    const browser = openBrowser(server);
    expect((await browser.get(path)).text).toContain('autocomplete="current-password"');
    const wrong = await browser.post(path, { ...answers, password: 'not the password' });
    expect(wrong.status).toBe(422);
    expect(wrong.text).toContain('not the password of the account');
    expect(wrong.text).not.toContain('value="not the password"');
    expect((await browser.post(path, answers)).status).toBe(303);
    expect(await server.sql('SELECT count(*)::int FROM memberships WHERE user_id = $1', [user_id])).toEqual([
      { count: 2 },
    ]);
  });

  test('lets the password of an account be guessed no oftener than where one signs in', async () => {
    const other = await server.newTenant();
    const { email } = await join(server);
    const { path } = await invite(server, email, other);
    const browser = openBrowser(server);
    const statuses: number[] = [];
    for (let guess = 0; guess < 12; guess += 1)
      statuses.push((await browser.post(path, { ...answers, password: `guess number ${guess}` })).status);
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 422), 429, 429]);
    const signIn = await browser.post('/console/sign-in', { email, password: PASSWORD });
    expect([signIn.status, Number(signIn.headers.get('retry-after')) > 0]).toEqual([429, true]);
  });
});

describe('a form that is not right', () => {
  test.each([
    ['no first name', { first_name: ' ' }],
    ['a first name of 101 characters', { first_name: 'x'.repeat(101) }],
    ['a last name of 101 characters', { last_name: 'x'.repeat(101) }],
    ['a line break in a name', { first_name: 'Ada\r\nBcc: x' }],
    ['a password of 11 characters', { password: 'x'.repeat(11) }],
    ['a password of 129 characters', { password: 'x'.repeat(129) }],
    ['no password', { password: '' }],
    ['a common password', { password: 'password1234' }],
    ['a password with the name that was typed', { password: 'my name is LOVELACE' }],
    ["a password with the tenant's name", { password: 'only a test of it' }],
  ])('%s: it is shown again, and the link lives', async (_what, wrong) => {
    const email = newEmail();
    const { path } = await invite(server, email);
    const browser = openBrowser(server);
    const refused = await browser.post(path, { ...answers, ...wrong });
    expect(refused.status).toBe(422);
    expect(refused.text).toContain('class="problem"');
    expect(refused.headers.getSetCookie()).toEqual([]);
    expect(await memberWith(server, email)).toBeUndefined();
    expect((await browser.post(path, answers)).status).toBe(303);
  });

  test.each([
    ['JSON', 'application/json', JSON.stringify(answers), 415],
    ['nothing', 'application/x-www-form-urlencoded', '', 422],
    ['bytes that are no UTF-8', 'application/x-www-form-urlencoded', new Uint8Array([0xff, 0xfe]), 400],
    ['a NUL', 'application/x-www-form-urlencoded', 'first_name=A%00da&password=correct+horse+battery', 400],
    ['a field given twice', 'application/x-www-form-urlencoded', 'first_name=Ada&first_name=Eve&password=x', 400],
  ])('%s in place of it: refused as a page, and the link lives', async (_what, type, body, status) => {
    const { path } = await invite(server, newEmail());
    const refused = await server.request('POST', path, {
      key: null,
      body,
      headers: { 'content-type': type, 'sec-fetch-site': 'same-origin' },
    });
    expect([refused.status, refused.headers.get('content-type')]).toEqual([status, 'text/html; charset=utf-8']);
    expect((await openBrowser(server).post(path, answers)).status).toBe(303);
  });

  test('what people write is text on the page, and nothing else', async () => {
    const tenant = await server.newTenant({ name: '<script>alert(1)</script>"' });
    const { path } = await invite(server, newEmail(), tenant);
    const { text } = await openBrowser(server).post(path, { ...answers, password: '', first_name: '"><img src=x>' });
    expect(text).not.toMatch(/<script>|<img src=x/);
    expect(text).toContain('&lt;script&gt;alert(1)&lt;/script&gt;&quot;');
  });

  test.each([
    ['Sec-Fetch-Site: cross-site', { 'sec-fetch-site': 'cross-site' }],
    ['Sec-Fetch-Site: same-site', { 'sec-fetch-site': 'same-site' }],
    ['Sec-Fetch-Site: none', { 'sec-fetch-site': 'none' }],
  ])('sent from elsewhere (%s): 403, and the link lives', async (_what, headers) => {
    const { path } = await invite(server, newEmail());
    const browser = openBrowser(server);
    expect((await browser.post(path, answers, headers)).status).toBe(403);
    expect((await browser.post(path, answers)).status).toBe(303);
  });
});

describe('a dead link', () => {
  /** Each state that a link can be dead in. */
  const deaths: [string, () => Promise<string>][] = [
    ['unknown', async () => `/join/${'x'.repeat(32)}`],
    ['too short', async () => '/join/x'],
    ['with a NUL in it', async () => '/join/x%00'],
    [
      'expired',
      async () => {
        const { path, id } = await invite(server, newEmail());
        await server.sql("UPDATE invitations SET expires_at = now() - interval '1 second' WHERE id = $1", [id]);
        await server.sign(server.tenant.tenant_id);
        return path;
      },
    ],
    [
      'superseded',
      async () => {
        const { path, id } = await invite(server, newEmail());
        expect((await server.request('POST', `/tenants/self/invitations/${id}/resend`)).status).toBe(200);
        return path;
      },
    ],
    [
      'deleted',
      async () => {
        const { path, id } = await invite(server, newEmail());
        expect((await server.request('DELETE', `/tenants/self/invitations/${id}`)).status).toBe(204);
        return path;
      },
    ],
    [
      'used',
      async () => {
        const { path } = await invite(server, newEmail());
        expect((await openBrowser(server).post(path, answers)).status).toBe(303);
        return path;
      },
    ],
    [
      'of a tenant that is deleted',
      async () => {
        const tenant = await server.newTenant();
        const { path } = await invite(server, newEmail(), tenant);
        expect((await server.request('DELETE', '/tenants/self', { key: tenant.api_key })).status).toBe(204);
        return path;
      },
    ],
    [
      'whose member was removed',
      async () => {
        const email = newEmail();
        const { path } = await invite(server, email);
        expect((await openBrowser(server).post(path, answers)).status).toBe(303);
        const { id } = await memberWith(server, email);
        expect((await server.request('DELETE', `/tenants/self/members/${id}`)).status).toBe(204);
        return path;
      },
    ],
  ];

  test('shows one page for every invalid link, equal but for the trace id', async () => {
    const seen = new Set<string>();
    for (const [what, die] of deaths) {
      const path = await die();
      for (const answer of [await openBrowser(server).get(path), await openBrowser(server).post(path, answers)]) {
        expect(answer.status, what).toBe(410);
        expect(answer.headers.getSetCookie(), what).toEqual([]);
        const trace_id = answer.headers.get('svc-trace-id');
        const headers = [...answer.headers].filter(([name]) => name !== 'date');
        seen.add(withoutTrace(JSON.stringify([headers, answer.text]), trace_id));
      }
    }
    expect([...seen]).toHaveLength(1);
  });

  test('is one 72 hours after the invitation, and not a second before', async () => {
    const { id, path } = await invite(free, 'late@example.com');
    const { created_at } = (await free.request('GET', `/tenants/self/invitations/${id}`)).body;
    const endMs = Date.parse(created_at) + 72 * HOUR_MS;
    free.clock.stoppedAtMs = endMs - 1;
    expect((await openBrowser(free).get(path)).status).toBe(200);
    free.clock.stoppedAtMs = endMs;
    expect((await openBrowser(free).get(path)).status).toBe(410);
    // A clock that is set back brings no link back.
    free.clock.stoppedAtMs = undefined;
    expect((await openBrowser(free).post(path, answers)).status).toBe(410);
  });

  test('the newest one lives on: after a resend its link makes the member', async () => {
    const { id, path } = await invite(server, newEmail());
    await server.request('POST', `/tenants/self/invitations/${id}/resend`);
    const newer = await takeLink(server, id);
    expect((await openBrowser(server).get(path)).status).toBe(410);
    expect((await openBrowser(server).post(newer.path, answers)).status).toBe(303);
  });

  test('guesses from one address get 410 thirty times, and then 429, also for valid links', async () => {
    const { path } = await invite(server, newEmail());
    const browser = openBrowser(server);
    const statuses: number[] = [];
    for (let guess = 0; guess < 32; guess += 1)
      statuses.push((await browser.get(`/join/${String(guess).padStart(32, 'a')}`)).status);
    expect(statuses).toEqual([...Array.from({ length: 30 }, () => 410), 429, 429]);
    const refused = await browser.get(path);
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([429, true]);
    server.clock.offsetMs += 600_001;
    expect((await browser.get(path)).status).toBe(200);
    server.clock.offsetMs -= 600_001;
  });

  test('a part of a live one is none', async () => {
    const { path } = await invite(server, newEmail());
    for (const part of [path.slice(0, -1), `${path}x`, path.toUpperCase()])
      expect((await openBrowser(server).get(part)).status).toBeGreaterThan(403);
  });
});

describe('many at once', () => {
  test('of 50 clients who send the form of one link together, one becomes a member', async () => {
    const email = newEmail();
    const { path } = await invite(free, email);
    const sent = await Promise.all(Array.from({ length: 50 }, () => openBrowser(free).post(path, answers)));
    const statuses = sent.map(({ status }) => status);
    expect(statuses.filter((status) => status === 303)).toHaveLength(1);
    // Beside another tenant's requests, few of one address wait at once; the others are told to come back.
    expect(statuses.filter((status) => ![303, 410, 429].includes(status))).toEqual([]);
    const [{ members, users, sessions }] = await free.sql(
      'SELECT (SELECT count(*)::int FROM members) AS members, (SELECT count(*)::int FROM users) AS users, (SELECT count(*)::int FROM sessions) AS sessions',
    );
    expect({ members, users, sessions }).toEqual({ members: 1, users: 1, sessions: 1 });
  });

  test('two invitations to one new address accepted together make one user with one password', async () => {
    const other = await free.newTenant();
    const email = newEmail();
    const [one, two] = [await invite(free, email), await invite(free, email, other)];
    const sent = await Promise.all([
      openBrowser(free).post(one.path, answers),
      openBrowser(free).post(two.path, { ...answers, password: 'another fair password' }),
    ]);
    const statuses = sent.map(({ status }) => status);
    expect(statuses.filter((status) => status === 303)).toHaveLength(1);
    expect([409, 422]).toContain(statuses.find((status) => status !== 303));
    const winner = statuses[0] === 303 ? PASSWORD : 'another fair password';
    expect((await openBrowser(free).post('/console/sign-in', { email, password: winner })).status).toBe(303);
  });
});

test('a secret stands in no line of the log, and neither do names, addresses and passwords', async () => {
  const email = 'canary-address@example.com';
  const { path, secret } = await invite(server, email);
  const browser = openBrowser(server);
  await browser.get(path);
  await browser.post(path, { ...answers, first_name: 'Canaryname', password: 'x' });
  await browser.post(path, { ...answers, first_name: 'Canaryname', password: 'canary password' });
  await browser.get(path);
  await browser.get(`${path}%`);
  const lines = server.logLines.join('');
  const session = browser.cookies.get('strongroom') as string;
  for (const text of [secret, email, 'Canaryname', 'canary password', session]) expect(lines).not.toContain(text);
  expect(lines).toContain('/join/:secret');
});

test('without a console, the accepting person sees a notice and is not signed in', async () => {
  const bare = await startServer({ CONSOLE: 'off' });
  try {
    const { path } = await invite(bare, 'someone@example.com');
    const accepted = await openBrowser(bare).post(path, answers);
    expect([accepted.status, accepted.headers.getSetCookie()]).toEqual([200, []]);
    expect(accepted.text).toContain('You are a member of Test');
    expect(await bare.sql('SELECT count(*)::int FROM sessions')).toEqual([{ count: 0 }]);
    for (const path of ['/console', '/console/sign-in', '/console/tokens'])
      expect((await openBrowser(bare).get(path)).status).toBe(404);
  } finally {
    await bare.close();
  }
});
