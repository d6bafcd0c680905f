// Sign-in and sign-out: only the right password opens the console, and refusals do not reveal which addresses exist.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { sessionDigest } from '../src/platform/crypto/digest.ts';
import { COOKIE, invite, join, openBrowser, PASSWORD, signIn, startAtFullCost } from './support/people.ts';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());
afterEach(async () => {
  await server.sql('DELETE FROM attempts');
});

const TOO_LONG = 'x'.repeat(100_000);

const withoutTrace = (text: string, trace_id: string | null): string => text.replaceAll(trace_id ?? '-', 'TRACE');

const logsOf = async (actor_id: string): Promise<string[]> =>
  (await server.sql('SELECT message FROM audit_log WHERE actor_id = $1 ORDER BY id', [actor_id])).map(
    ({ message }) => message,
  );

describe('the right password', () => {
  test('opens the console with a cookie hidden from scripts and other sites, and is logged', async () => {
    const { email, user_id } = await join(server);
    const browser = openBrowser(server);
    expect((await browser.get('/console/sign-in')).status).toBe(200);
    const answer = await browser.post('/console/sign-in', { email, password: PASSWORD });
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console']);
    const [cookie = '', ...others] = answer.headers.getSetCookie();
    expect(others).toEqual([]);
    expect(cookie).toMatch(/^strongroom=[0-9A-Za-z]{43}; Path=\/; HttpOnly; SameSite=Strict$/);
    expect(await browser.isSignedIn()).toBe(true);
    const messages = await logsOf(user_id);
    // The first two are rows of one operation, which have no order.
    expect([...messages.slice(0, 2).toSorted(), ...messages.slice(2)]).toEqual([
      'Tenant invitation accepted',
      'Tenant member created',
      'Tenant member signed in',
      'Tenant member signed in',
    ]);
  });

  test.each([
    ['https as the public address', { PUBLIC_URL: 'https://vault.example.com' }],
    [
      'a production server',
      {
        NODE_ENV: 'production',
        SMTP_URL: 'smtp://mail.example.com',
        MAIL_FROM: 'Vault <vault@example.com>',
        PUBLIC_URL: 'https://vault.example.com',
        REQUIRE_SECOND_FACTOR: 'off',
      },
    ],
  ])('with %s the cookie goes to this very host by TLS alone', async (_what, environment) => {
    const fixture = await startServer(environment);
    try {
      const { path } = await invite(fixture, 'tls@example.com');
      const browser = openBrowser(fixture);
      const fields = { first_name: 'Ada', last_name: '', password: PASSWORD };
      const [cookie] = (await browser.post(path, fields)).headers.getSetCookie();
      expect(cookie).toMatch(/^__Host-strongroom=[0-9A-Za-z]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict$/);
      expect(await browser.isSignedIn()).toBe(true);
      // A cookie that anybody may set for the host by plain HTTP is none of ours here.
      const secret = browser.cookies.get('__Host-strongroom') as string;
      browser.cookies.clear();
      browser.cookies.set('strongroom', secret);
      expect(await browser.isSignedIn()).toBe(false);
    } finally {
      await fixture.close();
    }
  });

  test.each([
    ['in capitals', (email: string) => email.toUpperCase()],
    ['with blanks around it', (email: string) => `  ${email} `],
  ])('is as good with the address %s', async (_what, spell) => {
    const { email } = await join(server);
    expect(
      (await openBrowser(server).post('/console/sign-in', { email: spell(email), password: PASSWORD })).status,
    ).toBe(303);
  });

  test('is as good for an address that few forms take, in each of its spellings', async () => {
    await join(server, { email: '"ada lovelace"@b\u00fccher.example' });
    for (const email of ['"ada lovelace"@b\u00fccher.example', '"Ada\\ Lovelace"@XN--BCHER-KVA.example'])
      expect((await openBrowser(server).post('/console/sign-in', { email, password: PASSWORD })).status).toBe(303);
  });

  test.each([
    ['/console/logs?operation=use', '/console/logs?operation=use'],
    ['/console/tokens/abc', '/console/tokens/abc'],
    ['//evil.example', '/console'],
    ['https://evil.example/console', '/console'],
    ['/console\\evil', '/console'],
    ['/console/..//evil.example', '/console'],
    ['/console\r\nSet-Cookie: x=y', '/console'],
    ['/consoleevil', '/console'],
    ['/tokens', '/console'],
    ['/console/sign-out', '/console'],
    ['javascript:alert(1)', '/console'],
  ])('leads on to where somebody was going, %j, and never away from here', async (next, location) => {
    const { email } = await join(server);
    const answer = await openBrowser(server).post('/console/sign-in', { email, password: PASSWORD, next });
    expect(answer.headers.get('location')).toBe(location);
  });

  test('a visitor without a session is asked to sign in, and then gets the requested page', async () => {
    const { email } = await join(server);
    const browser = openBrowser(server);
    const { headers } = await browser.get('/console?x=%22%3E1');
    const to = headers.get('location') as string;
    expect(to).toMatch(/^\/console\/sign-in\?next=/);
    const { text } = await browser.get(to);
    const [, next = ''] = /name="next" value="([^"]*)"/.exec(text) ?? [];
    const signedIn = await browser.post('/console/sign-in', { email, password: PASSWORD, next });
    expect(signedIn.headers.get('location')).toBe('/console?x=%22%3E1');
  });
});

describe('anything else', () => {
  test('is refused in one and the same way, whether there is such an account or not', async () => {
    const { email, browser: theirs } = await join(server);
    const { email: gone, member_id } = await join(server);
    expect((await server.request('DELETE', `/tenants/self/members/${member_id}`)).status).toBe(204);
    const seen = new Set<string>();
    for (const fields of [
      { email, password: 'not the password' },
      { email, password: `${PASSWORD} ` },
      { email, password: PASSWORD.toUpperCase() },
      { email, password: '' },
      { email, password: TOO_LONG },
      { email: 'nobody@example.com', password: PASSWORD },
      { email: gone, password: PASSWORD },
      { email: 'no address', password: PASSWORD },
      { email: '', password: '' },
      { email: `${email}, nobody@example.com`, password: PASSWORD },
    ]) {
      const answer = await openBrowser(server).post('/console/sign-in', fields);
      expect(answer.status).toBe(422);
      expect(answer.headers.getSetCookie()).toEqual([]);
      expect(answer.text).not.toContain(PASSWORD);
      const typed = `value="${fields.email}"`;
      seen.add(withoutTrace(answer.text, answer.headers.get('svc-trace-id')).replace(typed, 'value="TYPED"'));
    }
    expect(seen.size).toBe(1);
    expect(await theirs.isSignedIn()).toBe(true);
  });

  test('an unknown address costs the same work as a known one', async () => {
    const full = await startAtFullCost(server);
    try {
      const { email } = await join(full);
      const costOf = async (address: string): Promise<number> => {
        const before = process.cpuUsage();
        for (let round = 0; round < 3; round += 1)
          await openBrowser(full).post('/console/sign-in', { email: address, password: 'not the password' });
        const { user, system } = process.cpuUsage(before);
        return user + system;
      };
      await costOf('warm@example.com');
      const [known, unknown, none] = [
        await costOf(email),
        await costOf('nobody@example.com'),
        await costOf('no address'),
      ];
      // CPU time of the server in this process: without the hash it is a fifth of it or less.
      expect(unknown * 3).toBeGreaterThan(known);
      expect(none * 3).toBeGreaterThan(known);
    } finally {
      await full.close();
    }
  });

  test.each([
    ['JSON', 'application/json', '{"email":"a@example.com"}', 415],
    ['plain text', 'text/plain', 'email=a@example.com', 415],
    ['a form in parts', 'multipart/form-data; boundary=x', '--x--', 415],
    ['bytes that are no UTF-8', 'application/x-www-form-urlencoded', new Uint8Array([0xff]), 400],
    ['a NUL in the password', 'application/x-www-form-urlencoded', 'email=a@example.com&password=a%00b', 400],
    ['a NUL in the address', 'application/x-www-form-urlencoded', 'email=a%00@example.com&password=ab', 400],
    ['two passwords', 'application/x-www-form-urlencoded', 'email=a@example.com&password=a&password=b', 400],
    ['a thousand fields', 'application/x-www-form-urlencoded', 'a=b&'.repeat(1000), 400],
    ['2 MB', 'application/x-www-form-urlencoded', `password=${'x'.repeat(2_000_000)}`, 413],
  ])('%s in place of the form is refused as a page', async (_what, type, body, status) => {
    const headers = { 'content-type': type, 'sec-fetch-site': 'same-origin' };
    const answer = await server.request('POST', '/console/sign-in', { key: null, body, headers });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([status, 'text/html; charset=utf-8']);
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
  });

  test('no body at all is refused as well', async () => {
    const headers = { 'sec-fetch-site': 'same-origin' };
    expect((await server.request('POST', '/console/sign-in', { key: null, headers })).status).toBe(415);
  });
});

describe('too often', () => {
  test('of one account from one place after ten failures, for 30 minutes, also when right', async () => {
    const { email } = await join(server);
    const attempt = async (password: string, address = email) =>
      (await openBrowser(server).post('/console/sign-in', { email: address, password })).status;
    for (let guess = 0; guess < 10; guess += 1) expect(await attempt(`guess number ${guess}`)).toBe(422);
    // However it is spelled: it is one account.
    const refused = await openBrowser(server).post('/console/sign-in', {
      email: email.toUpperCase(),
      password: PASSWORD,
    });
    expect(refused.status).toBe(429);
    const retryAfter = Number(refused.headers.get('retry-after'));
    expect(retryAfter).toBeGreaterThan(1_700);
    expect(retryAfter).toBeLessThanOrEqual(1_800);
    expect(await attempt(PASSWORD, 'somebody-else@example.com')).toBe(422);
    server.clock.offsetMs += 1_801_000;
    expect(await attempt(PASSWORD)).toBe(303);
    server.clock.offsetMs -= 1_801_000;
  });

  test('a correct password resets the count', async () => {
    const { email } = await join(server);
    const attempt = async (password: string) =>
      (await openBrowser(server).post('/console/sign-in', { email, password })).status;
    for (let round = 0; round < 2; round += 1) {
      for (let guess = 0; guess < 9; guess += 1) expect(await attempt('not the password')).toBe(422);
      expect(await attempt(PASSWORD)).toBe(303);
    }
  });

  test('of many accounts from one place after fifty failures; those who sign in count for nothing', async () => {
    const { email } = await join(server);
    for (let round = 0; round < 3; round += 1) await signIn(server, email);
    const statuses: number[] = [];
    for (let guess = 0; guess < 51; guess += 1) {
      const fields = { email: `nobody-${guess}@example.com`, password: 'not the password' };
      statuses.push((await openBrowser(server).post('/console/sign-in', fields)).status);
    }
    expect(statuses).toEqual([...Array.from({ length: 50 }, () => 422), 429]);
    expect((await openBrowser(server).post('/console/sign-in', { email, password: PASSWORD })).status).toBe(429);
  });

  test('of guesses at one account that come together no more than ten are looked at', async () => {
    const { email } = await join(server);
    const sent = await Promise.all(
      Array.from({ length: 30 }, (_, guess) =>
        openBrowser(server).post('/console/sign-in', { email, password: `guess number ${guess}` }),
      ),
    );
    expect(sent.filter(({ status }) => status === 422)).toHaveLength(10);
    expect(sent.filter(({ status }) => status === 429)).toHaveLength(20);
  });

  test('what is counted says neither who nor from where', async () => {
    const { email } = await join(server);
    await openBrowser(server).post('/console/sign-in', { email, password: 'not the password' });
    const rows = JSON.stringify(
      await server.sql('SELECT encode(digest, $1) AS digest, failures FROM attempts', ['escape']),
    );
    expect(rows).toMatch(/failures/);
    expect(rows).not.toContain(email);
    expect(rows).not.toContain('127.0.0.1');
  });
});

describe('the log', () => {
  type Row = Record<'tenant_id' | 'message' | 'operation' | 'outcome' | 'actor_id' | 'trace_id' | 'ip', string | null>;
  const rowsOf = (member_ids: string[]): Promise<Row[]> =>
    server.sql(
      `SELECT tenant_id, message, operation, outcome, actor_id, trace_id, ip FROM audit_log
       WHERE entity_type = 'tenant_member' AND entity_ids && $1 AND message LIKE '%ign%' ORDER BY id`,
      [member_ids],
    );
  const memberIdsOf = async (user_id: string): Promise<string[]> =>
    (await server.sql('SELECT id FROM members WHERE user_id = $1', [user_id])).map(({ id }) => id);
  const wrong = { password: 'not the password' };

  test('has a failed sign-in in each tenant of the member, with where it came from', async () => {
    const second = await server.newTenant();
    const { email, user_id } = await join(server);
    const { path } = await invite(server, email, second);
    const joining = await openBrowser(server).post(path, { first_name: 'Ada', ...wrong });
    // The rows go to the tenants of which the person is a member when they are written.
    await server.ctx.refusals.finishBackground();
    expect((await openBrowser(server).post(path, { first_name: 'Ada', password: PASSWORD })).status).toBe(303);
    const failed = await openBrowser(server).post('/console/sign-in', { email: email.toUpperCase(), ...wrong });
    const memberIds = await memberIdsOf(user_id);
    const failures = async () => (await rowsOf(memberIds)).filter(({ message }) => message === 'Sign-in failed');
    await expect.poll(async () => (await failures()).length, { timeout: 10_000 }).toBe(3);
    const row = (tenant_id: string, answer: Answer): Row => ({
      tenant_id,
      message: 'Sign-in failed',
      operation: 'use',
      outcome: 'refused',
      actor_id: null,
      trace_id: answer.headers.get('svc-trace-id'),
      ip: '127.0.0.1',
    });
    const rows = await failures();
    expect(rows).toContainEqual(row(server.tenant.tenant_id, joining));
    expect(rows).toContainEqual(row(server.tenant.tenant_id, failed));
    expect(rows).toContainEqual(row(second.tenant_id, failed));
  });

  test('of a tenant has sixty failures a minute at most, and the number of those beyond', async () => {
    const tenant = await server.newTenant();
    const people = await Promise.all(Array.from({ length: 7 }, () => join(server, { tenant })));
    // A whole minute, so that all of them fall into it.
    server.clock.stoppedAtMs = Math.ceil((Date.now() + server.clock.offsetMs) / 60_000) * 60_000;
    try {
      for (const { email } of people) {
        // Ten at once may be more than wait for their password to be hashed.
        for (let count = 0; count < 10; count += 2) {
          const fail = () => openBrowser(server).post('/console/sign-in', { email, ...wrong });
          const statuses = (await Promise.all([fail(), fail()])).map(({ status }) => status);
          expect(statuses).toEqual([422, 422]);
          await server.ctx.refusals.finishBackground();
        }
        // One place may fail fifty times.
        await server.sql('DELETE FROM attempts');
      }
      const countOf = async (where: string): Promise<number> =>
        (
          await server.sql(`SELECT count(*)::int AS n FROM audit_log WHERE tenant_id = $1 AND ${where}`, [
            tenant.tenant_id,
          ])
        )[0].n;
      expect(await countOf(`outcome = 'refused'`)).toBe(60);
      server.clock.stoppedAtMs += 60_000;
      let failures = 70;
      // The rows are written after the response: the last of the first minute may be counted in the next.
      const unlogged = async () => {
        await openBrowser(server).post('/console/sign-in', { email: people[0]?.email ?? '', ...wrong });
        failures += 1;
        await server.ctx.refusals.finishBackground();
        await server.sql('DELETE FROM attempts');
        const counts = await server.sql(
          `SELECT split_part(message, ' ', 1)::int AS n FROM audit_log WHERE tenant_id = $1 AND message LIKE '% more failed sign-ins within a minute'`,
          [tenant.tenant_id],
        );
        if (counts.length === 0) return failures;
        return counts.reduce((left, { n }) => left - n, failures - (await countOf(`message = 'Sign-in failed'`)));
      };
      await expect.poll(unlogged, { timeout: 10_000, interval: 500 }).toBe(0);
    } finally {
      server.clock.stoppedAtMs = undefined;
    }
  });

  test('has failed sign-ins beside many refused keys, and refused keys beside many failures', async () => {
    const [one, other] = [await server.newTenant(), await server.newTenant()];
    const { email } = await join(server, { tenant: one });
    const people = await Promise.all(Array.from({ length: 6 }, () => join(server, { tenant: other })));
    server.clock.stoppedAtMs = Math.ceil((Date.now() + server.clock.offsetMs) / 60_000) * 60_000;
    const failing = async (address: string, times: number): Promise<void> => {
      await Promise.all(
        Array.from({ length: times }, () => openBrowser(server).post('/console/sign-in', { email: address, ...wrong })),
      );
      await server.sql('DELETE FROM attempts');
    };
    const refuse = async (tenant: TestTenant, times: number): Promise<void> => {
      const { api_key } = await server.newKey(tenant, { permissions: ['token:create'] });
      for (let count = 0; count < times; count += 1)
        expect((await server.request('GET', '/logs', { key: api_key })).status).toBe(403);
    };
    const written = async ({ tenant_id }: TestTenant): Promise<{ message: string; n: number }[]> =>
      server.sql(
        `SELECT message, count(*)::int AS n FROM audit_log WHERE tenant_id = $1 AND outcome = 'refused' GROUP BY 1 ORDER BY 1`,
        [tenant_id],
      );
    try {
      await refuse(one, 61);
      await failing(email, 1);
      for (const person of people) await failing(person.email, 10);
      await expect.poll(async () => (await written(other))[0]?.n, { timeout: 10_000 }).toBe(60);
      await refuse(other, 1);
      await expect
        .poll(() => written(one), { timeout: 10_000 })
        .toEqual([
          { message: 'Refused: log:read', n: 60 },
          { message: 'Sign-in failed', n: 1 },
        ]);
      expect(await written(other)).toEqual([
        { message: 'Refused: log:read', n: 1 },
        { message: 'Sign-in failed', n: 60 },
      ]);
    } finally {
      server.clock.stoppedAtMs = undefined;
    }
  });

  test('has nothing of an address without an account; the process log has its origin only', async () => {
    const email = 'canary-without-account@example.com';
    const { headers } = await openBrowser(server).post('/console/sign-in', { email, ...wrong });
    const trace_id = headers.get('svc-trace-id') ?? '';
    const lines = () =>
      server.logLines.filter((each) => each.includes('no account has the address') && each.includes(trace_id));
    await expect.poll(lines, { timeout: 10_000 }).toHaveLength(1);
    expect(lines()[0]).toContain('127.0.0.1');
    for (const text of [email, wrong.password]) expect(server.logLines.join('')).not.toContain(text);
    expect(await server.sql('SELECT FROM audit_log WHERE trace_id = $1', [trace_id])).toEqual([]);
  });

  test('has where each sign-in, sign-out and acceptance came from', async () => {
    const { browser, email, user_id, member_id } = await join(server);
    await signIn(server, email);
    await browser.post('/console/sign-out', { csrf: await browser.csrf() });
    const rows = await server.sql(
      `SELECT message, trace_id, ip FROM audit_log WHERE actor_id = $1 AND operation <> 'read'`,
      [user_id],
    );
    expect(rows.map(({ message }) => message).toSorted()).toEqual([
      'Tenant invitation accepted',
      'Tenant member created',
      'Tenant member signed in',
      'Tenant member signed in',
      'Tenant member signed out',
    ]);
    for (const { trace_id, ip } of rows) expect([trace_id?.length > 0, ip]).toEqual([true, '127.0.0.1']);
    await server.request('DELETE', `/tenants/self/members/${member_id}`);
    const [removal] = await server.sql(
      `SELECT trace_id, ip FROM audit_log WHERE operation = 'delete' AND entity_ids[1] = $1`,
      [member_id],
    );
    expect([removal.trace_id?.length > 0, removal.ip]).toEqual([true, '127.0.0.1']);
  });
});

describe('failures at many places', () => {
  /** Believes what a balancer in front of it says of where a request came from. */
  let balanced: TestServer;
  beforeAll(async () => {
    balanced = await startServer({ TRUSTED_PROXIES: '127.0.0.0/8', SESSION_IDLE: '2m', SIGN_IN_LOCKOUT: '5m' });
  });
  afterAll(() => balanced.close());

  const attempt = (email: string, password: string, ip: string): Promise<Answer> =>
    openBrowser(balanced).post('/console/sign-in', { email, password }, { 'x-forwarded-for': ip });
  const failTenTimes = (email: string, ip: string): Promise<Answer[]> =>
    Promise.all(Array.from({ length: 10 }, (_, guess) => attempt(email, `guess number ${guess}`, ip)));

  test('of a client at another address keep no member out, for as often as it fails', async () => {
    const { email } = await join(balanced);
    for (let round = 0; round < 12; round += 1) await failTenTimes(email, '192.0.2.1');
    expect((await attempt(email, PASSWORD, '192.0.2.1')).status).toBe(429);
    expect((await attempt(email, PASSWORD, '198.51.100.1')).status).toBe(303);
  });

  test('of many clients lock the account for places that it is not known at, and for no other', async () => {
    const { email } = await join(balanced);
    expect((await attempt(email, PASSWORD, '198.51.100.7')).status).toBe(303);
    for (let place = 1; place <= 10; place += 1)
      expect((await failTenTimes(email, `203.0.113.${place}`)).map(({ status }) => status)).toEqual(
        Array(10).fill(422),
      );
    const refused = await attempt(email, PASSWORD, '203.0.113.99');
    expect(refused.status).toBe(429);
    // The lock-out that the configuration names.
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(240);
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(300);
    expect((await attempt(email, PASSWORD, '198.51.100.7')).status).toBe(303);
    balanced.clock.offsetMs += 301_000;
    expect((await attempt(email, PASSWORD, '203.0.113.99')).status).toBe(303);
    balanced.clock.offsetMs -= 301_000;
  });

  test('from many addresses of one IPv6 site are failures of one place', async () => {
    const { email } = await join(balanced);
    for (let guess = 0; guess < 10; guess += 1)
      expect((await attempt(email, `guess number ${guess}`, `2001:db8:7:${guess}::1`)).status).toBe(422);
    expect((await attempt(email, PASSWORD, '2001:db8:7:ffff::1')).status).toBe(429);
    expect((await attempt(email, PASSWORD, '2001:db8:8::1')).status).toBe(303);
  });

  test('at the place of a member count there: the known place is no way around ten guesses', async () => {
    const { email } = await join(balanced);
    expect((await attempt(email, PASSWORD, '198.51.100.8')).status).toBe(303);
    await failTenTimes(email, '198.51.100.8');
    expect((await attempt(email, PASSWORD, '198.51.100.8')).status).toBe(429);
  });

  test('a session ends after the time without use that the configuration names', async () => {
    const { browser } = await join(balanced);
    balanced.clock.offsetMs += 119_000;
    expect(await browser.isSignedIn()).toBe(true);
    balanced.clock.offsetMs += 121_000;
    expect(await browser.isSignedIn()).toBe(false);
    balanced.clock.offsetMs -= 240_000;
  });
});

describe('a form from elsewhere', () => {
  test.each([
    ['cross-site', { 'sec-fetch-site': 'cross-site' }],
    ['same-site', { 'sec-fetch-site': 'same-site' }],
    ['one without a click', { 'sec-fetch-site': 'none' }],
  ])('does not sign in: %s', async (_what, headers) => {
    const { email } = await join(server);
    const answer = await openBrowser(server).post('/console/sign-in', { email, password: PASSWORD }, headers);
    expect([answer.status, answer.headers.getSetCookie()]).toEqual([403, []]);
  });

  test.each([
    ['another origin', 'https://evil.example', 403],
    ['one that is hidden', 'null', 403],
    ['one that is no origin', 'x', 403],
    ['none', undefined, 303],
  ])('by an older browser, which tells its origin alone: %s', async (_what, origin, status) => {
    const { email } = await join(server);
    const answer = await server.request('POST', '/console/sign-in', {
      key: null,
      body: new URLSearchParams({ email, password: PASSWORD }).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...(origin !== undefined && { origin }) },
    });
    expect(answer.status).toBe(status);
  });

  test('by an older browser from our own origin signs in', async () => {
    const { email } = await join(server);
    const answer = await server.request('POST', '/console/sign-in', {
      key: null,
      body: new URLSearchParams({ email, password: PASSWORD }).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded', origin: server.base_url },
    });
    expect(answer.status).toBe(303);
  });
});

describe('a session', () => {
  test('never takes up a secret that the browser brought along, and ends the one it had', async () => {
    const { email } = await join(server);
    const planted = 'a'.repeat(43);
    const browser = openBrowser(server);
    browser.cookies.set(COOKIE, planted);
    await browser.post('/console/sign-in', { email, password: PASSWORD });
    const first = browser.cookies.get(COOKIE);
    expect(first).not.toBe(planted);
    await browser.post('/console/sign-in', { email, password: PASSWORD });
    const second = browser.cookies.get(COOKIE);
    expect(second).not.toBe(first);
    for (const [secret, isIn] of [
      [planted, false],
      [first, false],
      [second, true],
    ] as const) {
      const other = openBrowser(server);
      other.cookies.set(COOKIE, secret as string);
      expect(await other.isSignedIn()).toBe(isIn);
    }
  });

  test('is another after an invitation was accepted with it, too', async () => {
    const { browser, email } = await join(server);
    const before = browser.cookies.get(COOKIE) as string;
    const other = await server.newTenant();
    const { path } = await invite(server, email, other);
    expect((await browser.post(path, { first_name: 'Ada', password: PASSWORD })).status).toBe(303);
    expect(browser.cookies.get(COOKIE)).not.toBe(before);
    expect(await server.ctx.sessions.find(before)).toBeUndefined();
  });

  test('is kept as a digest: no table has its secret', async () => {
    const { secret } = await join(server);
    const [row] = await server.sql('SELECT s::text AS text FROM sessions s WHERE digest = $1', [
      sessionDigest(server.ctx.pepper, secret),
    ]);
    expect(row.text).not.toContain(secret);
    expect(row.text).not.toContain(Buffer.from(secret).toString('hex'));
  });

  test('ends by signing out, everywhere the secret was, and the log says so', async () => {
    const { browser, secret, user_id } = await join(server);
    const copy = openBrowser(server);
    copy.cookies.set(COOKIE, secret);
    expect(await copy.isSignedIn()).toBe(true);
    const answer = await browser.post('/console/sign-out', { csrf: await browser.csrf() });
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console/sign-in']);
    expect(answer.headers.getSetCookie()).toEqual(['strongroom=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict']);
    expect(await copy.isSignedIn()).toBe(false);
    expect(answer.headers.get('clear-site-data')).toBe('"cache", "storage"');
    expect((await logsOf(user_id)).at(-1)).toBe('Tenant member signed out');
  });

  test.each([
    ['missing', () => ({})],
    ['wrong', () => ({ csrf: 'x'.repeat(43) })],
    ['given twice over', (own: string) => ({ csrf: own + own })],
  ])('does nothing for a form whose token is %s', async (_what, fieldsOf) => {
    const { browser } = await join(server);
    const fields = fieldsOf(await browser.csrf()) as Record<string, string>;
    for (const path of ['/console/sign-out', '/console/tenant']) {
      const answer = await browser.post(path, { tenant_id: server.tenant.tenant_id, ...fields });
      expect([answer.status, answer.headers.getSetCookie()]).toEqual([403, []]);
    }
    expect(await browser.isSignedIn()).toBe(true);
  });

  test("does nothing for another session's token, or for its own from another site", async () => {
    const [one, other] = [await join(server), await join(server)];
    expect((await one.browser.post('/console/sign-out', { csrf: await other.browser.csrf() })).status).toBe(403);
    const csrf = await one.browser.csrf();
    const crossed = await one.browser.post('/console/sign-out', { csrf }, { 'sec-fetch-site': 'cross-site' });
    expect(crossed.status).toBe(403);
    expect(await one.browser.isSignedIn()).toBe(true);
  });

  test('has a token that says nothing of its secret, and changes with it', async () => {
    const { browser, secret, email } = await join(server);
    const before = await browser.csrf();
    expect(before).not.toContain(secret.slice(0, 8));
    await browser.post('/console/sign-in', { email, password: PASSWORD });
    expect(await browser.csrf()).not.toBe(before);
  });

  test('a signed-in member who opens the sign-in page is redirected', async () => {
    const { browser } = await join(server);
    expect((await browser.get('/console/sign-in?next=/console/people')).headers.get('location')).toBe(
      '/console/people',
    );
  });
});

describe('a user of several tenants', () => {
  test('goes from one to another under a new secret, and to no tenant that they are no member of', async () => {
    const [second, foreign] = [
      await server.newTenant({ name: 'Zweithaus' }),
      await server.newTenant({ name: 'Foreign' }),
    ];
    const { email, user_id } = await join(server);
    const { path } = await invite(server, email, second);
    const browser = openBrowser(server);
    await browser.post(path, { first_name: 'Ada', password: PASSWORD });
    const session = await server.ctx.sessions.find(browser.cookies.get(COOKIE) as string);
    expect(session?.tenant_id).toBe(second.tenant_id);
    expect(session?.tenants.map(({ name }) => name)).toEqual(['Test', 'Zweithaus']);
    const before = browser.cookies.get(COOKIE) as string;

    for (const tenant_id of [foreign.tenant_id, 'no id', '']) {
      const refused = await browser.post('/console/tenant', { tenant_id, csrf: await browser.csrf() });
      expect([refused.status, refused.headers.getSetCookie()]).toEqual([404, []]);
    }
    const moved = await browser.post('/console/tenant', {
      tenant_id: server.tenant.tenant_id,
      csrf: await browser.csrf(),
    });
    expect([moved.status, moved.headers.get('location')]).toEqual([303, '/console']);
    const after = browser.cookies.get(COOKIE) as string;
    expect(await server.ctx.sessions.find(before)).toBeUndefined();
    expect(await server.ctx.sessions.find(after)).toMatchObject({
      tenant_id: server.tenant.tenant_id,
      user_id,
      caller: { tenant_id: server.tenant.tenant_id, actor_id: user_id, actor_type: 'user' },
    });
  });

  test('signs in still where one of them removed them, and nowhere when the last one did', async () => {
    const second = await server.newTenant();
    const { email, member_id } = await join(server);
    const { path } = await invite(server, email, second);
    const browser = openBrowser(server);
    await browser.post(path, { first_name: 'Ada', password: PASSWORD });
    expect((await server.request('DELETE', `/tenants/self/members/${member_id}`)).status).toBe(204);
    const still = await signIn(server, email);
    expect((await server.ctx.sessions.find(still.cookies.get(COOKIE) as string))?.tenant_id).toBe(second.tenant_id);
    const { body } = await server.request('GET', '/tenants/self/members', { key: second.api_key });
    const path2 = `/tenants/self/members/${body.data[0].id}`;
    expect((await server.request('DELETE', path2, { key: second.api_key })).status).toBe(204);
    expect((await openBrowser(server).post('/console/sign-in', { email, password: PASSWORD })).status).toBe(422);
    expect(await still.isSignedIn()).toBe(false);
  });
});

test('neither an address, a password nor a secret stands in the log', async () => {
  const { email, secret } = await join(server, { email: 'log-canary@example.com' });
  await openBrowser(server).post('/console/sign-in', { email, password: 'canary of a password' });
  await signIn(server, email);
  const lines = server.logLines.join('');
  for (const text of [email, 'canary of a password', PASSWORD, secret]) expect(lines).not.toContain(text);
});
