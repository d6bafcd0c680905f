// A forgotten password is reset by a mailed link: the whole way with a real mail server, limits, and links that end.
import { request as httpRequest } from 'node:http';
import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { resetPassword } from '../src/modules/people/passwords.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { textOf } from './support/console.ts';
import { seeingAllTenants } from './support/database.ts';
import { holdRow } from './support/held-rows.ts';
import { invite, join, openBrowser, PASSWORD, signIn } from './support/people.ts';
import {
  ASK_PATH,
  BASE_URL,
  NEW_PASSWORD,
  resetBy,
  type ResetServer,
  startResetServer,
  statusOfSignIn,
} from './support/password-resets.ts';
import { startServer, TEST_ROOT_KEY } from './support/server.ts';

const MINUTE_MS = 60_000;

let server: ResetServer;
beforeAll(async () => {
  server = await startResetServer();
});
afterAll(() => server.close());
afterEach(async () => {
  await server.sql('DELETE FROM attempts');
});

const pass = (ms: number): void => void (server.clock.offsetMs += ms);

const isAlive = async (path: string): Promise<boolean> => {
  const { status } = await openBrowser(server).get(path);
  expect([200, 410]).toContain(status);
  return status === 200;
};

const rowsOf = (user_id: string) => server.sql('SELECT * FROM password_resets WHERE user_id = $1', [user_id]);

const hashOf = async (user_id: string): Promise<string> =>
  (await server.sql('SELECT password_hash FROM users WHERE id = $1', [user_id]))[0].password_hash;

describe('a person who forgot the password', () => {
  test('chooses another one by the link of a mail, in every tenant', async () => {
    const second = await server.newTenant({ name: 'Second' });
    const { browser, email, user_id } = await join(server);
    const { path: invitation } = await invite(server, email, second);
    await openBrowser(server).post(invitation, { first_name: 'Ada', password: PASSWORD });
    const other = await signIn(server, email);

    const page = await openBrowser(server).get('/console/sign-in');
    expect(page.text).toContain(`href="${ASK_PATH}"`);
    expect((await openBrowser(server).get(ASK_PATH)).status).toBe(200);
    const path = await server.linkFor(email);
    for (let visit = 0; visit < 3; visit += 1) {
      const { status, text } = await openBrowser(server).get(path);
      expect(status).toBe(200);
      expect(text).toContain(`value="${email}" readonly`);
      expect(text).not.toContain(path.slice(-32));
    }
    expect([await statusOfSignIn(server, email, PASSWORD), await browser.isSignedIn()]).toEqual([303, true]);

    const answer = await resetBy(server, path);
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console/sign-in?done=reset']);
    expect(answer.headers.getSetCookie()).toEqual([]);
    const done = await openBrowser(server).get('/console/sign-in?done=reset');
    expect(textOf(done.text)).toContain('Your password was changed. Sign in with the new one.');
    expect([await browser.isSignedIn(), await other.isSignedIn()]).toEqual([false, false]);
    expect(await server.sql('SELECT FROM sessions WHERE user_id = $1', [user_id])).toEqual([]);
    expect(await statusOfSignIn(server, email, PASSWORD)).toBe(422);
    expect(await statusOfSignIn(server, email, NEW_PASSWORD)).toBe(303);
    expect(await isAlive(path)).toBe(false);
    expect((await resetBy(server, path, 'yet another long one')).status).toBe(410);

    const [, notice] = await server.mailsTo(email);
    expect(notice?.subject).toBe('Your password in Strongroom was reset');
    expect(notice?.text).toContain('All of your sessions ended');
    expect(notice?.raw).not.toMatch(/https?:/);
    const logged = await server.sql(
      `SELECT tenant_id, actor_type, actor_id, operation, outcome, ip IS NOT NULL AS has_ip FROM audit_log
       WHERE message = 'Tenant member password reset by mail' AND actor_id = $1 ORDER BY tenant_id`,
      [user_id],
    );
    const row = { actor_type: 'user', actor_id: user_id, operation: 'update', outcome: 'success', has_ip: true };
    expect(logged).toEqual(
      [server.tenant.tenant_id, second.tenant_id].toSorted().map((tenant_id) => ({ tenant_id, ...row })),
    );
  });

  test('gets the mail at the address of the account, however it was typed', async () => {
    const { email } = await join(server, { email: 'Grace.Hopper@example.com' });
    await server.ask(' GRACE.HOPPER@EXAMPLE.COM ');
    const [mail] = await server.mailsTo(email);
    expect(mail?.to).toEqual(['Grace.Hopper@example.com']);
    expect(mail?.subject).toBe('Choose a new password in Strongroom');
    expect(mail?.text).toContain('until ');
    expect(mail?.html.match(/https?:\/\/[^"<]+/g)?.every((link) => link.startsWith(BASE_URL))).toBe(true);
  });

  test('signs in at once where failures have locked the account', async () => {
    const { email } = await join(server);
    for (let round = 0; round < 11; round += 1) await statusOfSignIn(server, email, 'not the password');
    expect(await statusOfSignIn(server, email, PASSWORD)).toBe(429);
    expect((await resetBy(server, await server.linkFor(email))).status).toBe(303);
    expect(await statusOfSignIn(server, email, NEW_PASSWORD)).toBe(303);
  });
});

describe('a link', () => {
  test('is made from the configured URL, whatever host a request names', async () => {
    const { email } = await join(server);
    const body = new URLSearchParams({ email }).toString();
    const status = await new Promise((resolve, reject) => {
      const headers = {
        host: 'evil.example',
        'x-forwarded-host': 'evil.example',
        'x-forwarded-proto': 'https',
        'content-type': 'application/x-www-form-urlencoded',
        'content-length': String(body.length),
      };
      const request = httpRequest(server.base_url + ASK_PATH, { method: 'POST', headers }, (response) => {
        response.resume();
        response.on('end', () => resolve(response.statusCode));
      });
      request.on('error', reject);
      request.end(body);
    });
    expect(status).toBe(200);
    await server.ctx.refusals.finishBackground();
    const [mail] = await server.mailsTo(email);
    expect(mail?.text).toMatch(/^https:\/\/vault\.example\.com\/console\/sign-in\/reset\/[0-9A-Za-z]{32}$/m);
    expect(mail?.raw).not.toContain('evil');
  });

  test('stands in the database as a digest alone, and its mail is sealed until it is sent', async () => {
    const { email, user_id } = await join(server);
    await server.ask(email);
    const rows = async () =>
      JSON.stringify([await rowsOf(user_id), await server.sql('SELECT * FROM mail_outbox')], (_, value) =>
        value?.type === 'Buffer' ? Buffer.from(value.data).toString('latin1') : value,
      );
    const before = await rows();
    const [mail] = await server.mailsTo(email);
    const [secret = ''] = /[0-9A-Za-z]{32}/.exec(mail?.text ?? '') ?? [];
    expect(secret).toHaveLength(32);
    for (const text of [before, await rows()]) expect(text).not.toContain(secret);
    expect(before).not.toContain(email);
    expect(server.logLines.join('\n')).not.toContain(secret);
  });

  test('works for 30 minutes', async () => {
    const { email, user_id } = await join(server);
    const path = await server.linkFor(email);
    pass(29 * MINUTE_MS);
    expect(await isAlive(path)).toBe(true);
    pass(MINUTE_MS + 1_000);
    expect(await isAlive(path)).toBe(false);
    expect((await resetBy(server, path)).status).toBe(410);
    expect(await statusOfSignIn(server, email, PASSWORD)).toBe(303);
    await sweep(server.ctx);
    expect(await rowsOf(user_id)).toEqual([]);
  });

  test('is the newest one: another request ends it, and leaves the sessions', async () => {
    const { browser, email, user_id } = await join(server);
    const [first, second] = [await server.linkFor(email), await server.linkFor(email)];
    expect([await isAlive(first), await isAlive(second)]).toEqual([false, true]);
    expect(await rowsOf(user_id)).toHaveLength(1);
    expect(await browser.isSignedIn()).toBe(true);
    expect((await resetBy(server, first)).status).toBe(410);
    expect((await resetBy(server, second)).status).toBe(303);
  });

  test('changes the password once, also where its form is sent twice at the same time', async () => {
    const { email, user_id } = await join(server);
    const path = await server.linkFor(email);
    const held = await holdRow(server, 'SELECT FROM users WHERE id = $1 FOR UPDATE', [user_id]);
    const answers = [1, 2].map((each) => resetBy(server, path, `the password number ${each} of two`));
    await held.waiting(2);
    await held.letGo();
    expect((await Promise.all(answers)).map(({ status }) => status).toSorted()).toEqual([303, 410]);
  });

  test.each([
    [
      'the person changes the password',
      async (browser: Awaited<ReturnType<typeof join>>['browser']) => {
        const csrf = await browser.csrf('/console/password');
        const fields = { csrf, current_password: PASSWORD, new_password: NEW_PASSWORD };
        expect((await browser.post('/console/password', fields)).status).toBe(303);
      },
    ],
    ['the operator resets it', async (_: unknown, email: string) => void (await resetPassword(server.ctx, email))],
  ])('ends when %s', async (_what, change) => {
    const { browser, email, user_id } = await join(server);
    const path = await server.linkFor(email);
    await change(browser, email);
    const hash = await hashOf(user_id);
    expect((await resetBy(server, path, 'yet another long one')).status).toBe(410);
    expect(await hashOf(user_id)).toBe(hash);
  });

  test('resets nothing for the user of another row, nor after its end was moved', async () => {
    const [victim, attacker] = [await join(server), await join(server)];
    const path = await server.linkFor(attacker.email);
    await server.sql('UPDATE password_resets SET user_id = $2 WHERE user_id = $1', [attacker.user_id, victim.user_id]);
    expect(await isAlive(path)).toBe(false);
    expect((await resetBy(server, path)).status).toBe(410);
    await server.sql('UPDATE password_resets SET user_id = $1 WHERE user_id = $2', [attacker.user_id, victim.user_id]);
    expect(await isAlive(path)).toBe(true);
    pass(31 * MINUTE_MS);
    await server.sql("UPDATE password_resets SET expires_at = expires_at + interval '1 hour'");
    expect(await isAlive(path)).toBe(false);
    expect(await statusOfSignIn(server, victim.email, PASSWORD)).toBe(303);
  });

  test('that is guessed is limited by place, as links of invitations are', async () => {
    const { email } = await join(server);
    const path = await server.linkFor(email);
    for (let round = 0; round < 30; round += 1)
      expect(await isAlive(`/console/sign-in/reset/${String(round).padStart(32, 'x')}`)).toBe(false);
    expect((await openBrowser(server).get(path)).status).toBe(429);
    expect((await resetBy(server, path)).status).toBe(429);
  });
});

describe('a new password', () => {
  test.each([
    ['elevenchars', 'Choose 12 to 128 characters.'],
    ['123456789012345', 'repeats a few characters'],
    ['a lovelace of words', 'must not contain your name'],
    [PASSWORD, 'This is your current password.'],
  ])('%j is refused, and the link goes on', async (next, sentence) => {
    const { email, user_id } = await join(server);
    const hash = await hashOf(user_id);
    const path = await server.linkFor(email);
    const answer = await resetBy(server, path, next);
    expect(answer.status).toBe(422);
    expect(textOf(answer.text)).toContain(sentence);
    expect(answer.text).toContain('aria-invalid="true"');
    expect(answer.text).not.toContain(next);
    expect(await hashOf(user_id)).toBe(hash);
    expect((await resetBy(server, path)).status).toBe(303);
  });
});

describe('limits', () => {
  test('an account gets three mails an hour by one place, and a fourth request leaves the link', async () => {
    const { email } = await join(server);
    const links = [await server.linkFor(email), await server.linkFor(email), await server.linkFor(email)];
    expect((await server.ask(email.toUpperCase())).status).toBe(200);
    expect(await server.mailsTo(email)).toHaveLength(3);
    expect(await isAlive(links[2] as string)).toBe(true);
    pass(61 * MINUTE_MS);
    await server.linkFor(email);
    expect(await server.mailsTo(email)).toHaveLength(4);
  });

  test('other people cause ten mails an hour in all, and leave three to a known place', async () => {
    const balanced = await startResetServer({ TRUSTED_PROXIES: '127.0.0.1' });
    const askFrom = async (ip: string, email: string): Promise<number> => {
      const before = (await balanced.mailsTo(email)).length;
      expect((await openBrowser(balanced).post(ASK_PATH, { email }, { 'x-forwarded-for': ip })).status).toBe(200);
      await balanced.ctx.refusals.finishBackground();
      return (await balanced.mailsTo(email)).length - before;
    };
    try {
      const { email } = await join(balanced);
      const known = { 'x-forwarded-for': '198.51.100.7' };
      expect((await openBrowser(balanced).post('/console/sign-in', { email, password: PASSWORD }, known)).status).toBe(
        303,
      );
      let mails = 0;
      for (let ip = 1; ip <= 6; ip += 1)
        for (let round = 0; round < 4; round += 1) mails += await askFrom(`203.0.113.${ip}`, email);
      expect(mails).toBe(10);
      expect(await askFrom('192.0.2.1', email)).toBe(0);
      const link = await balanced.linkFor(email, known);
      // Nor does another request end the link of the person now.
      expect(await askFrom('192.0.2.2', email)).toBe(0);
      expect((await openBrowser(balanced).get(link)).status).toBe(200);
      expect([await askFrom('198.51.100.7', email), await askFrom('198.51.100.7', email)]).toEqual([1, 1]);
      expect(await askFrom('198.51.100.7', email)).toBe(0);
      // IPv6 counts by the network of a site.
      const { email: other } = await join(balanced);
      const fromSite = [];
      for (const end of ['::1', ':1::1', ':2::1', ':ffff::1']) fromSite.push(await askFrom(`2001:db8:7${end}`, other));
      expect(fromSite).toEqual([1, 1, 1, 0]);
    } finally {
      await balanced.close();
    }
  });

  test('a place asks 30 times an hour', async () => {
    const { email } = await join(server);
    for (let round = 0; round < 30; round += 1)
      expect((await server.ask(`stranger-${round}@example.org`)).status).toBe(200);
    const refused = await server.ask(email);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3_500);
    expect(await server.mailsTo(email)).toEqual([]);
  });

  test('mails of invitations and of resets do not count for one another', async () => {
    const tenant = await server.newTenant();
    const { email } = await join(server, { tenant });
    await server.sql(
      `INSERT INTO mail_outbox (tenant_id, id, kind, invitation_id, address_digest, due_at, expires_at, created_at)
       SELECT $1, gen_random_uuid(), 'password_reset', $1, '\\x00', $2, $2, $2 FROM generate_series(1, 200)`,
      [tenant.tenant_id, server.ctx.now()],
    );
    await invite(server, 'newcomer@example.org', tenant);
    await server.sql(`UPDATE mail_outbox SET kind = 'invitation' WHERE tenant_id = $1`, [tenant.tenant_id]);
    await server.linkFor(email);
  });
});

test('asking is answered before anything is done for the account, known or unknown', async () => {
  const { email } = await join(server);
  const client = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
  await client.connect();
  try {
    // No look-up of a user ends while this lasts.
    await client.query('BEGIN; LOCK TABLE users IN ACCESS EXCLUSIVE MODE');
    const answers = await Promise.all(
      [email, 'no-one@example.org'].map((each) => openBrowser(server).post(ASK_PATH, { email: each })),
    );
    const [known, unknown] = answers.map(({ status, text }) => ({ status, text }));
    expect(known?.status).toBe(200);
    expect(known).toEqual(unknown);
  } finally {
    await client.end();
  }
  await server.ctx.refusals.finishBackground();
  expect(await server.mailsTo(email)).toHaveLength(1);
});

test('until the response the database has the same statements, whatever account there is', async () => {
  const { email } = await join(server);
  const statements: string[] = [];
  const { query } = Client.prototype;
  const counted = vi.spyOn(Client.prototype, 'query').mockImplementation(function (this: Client, ...given: unknown[]) {
    const [statement] = given as [string | { text: string }];
    statements.push(typeof statement === 'string' ? statement : statement.text);
    return Reflect.apply(query, this, given);
  });
  try {
    const before: string[][] = [];
    const background: string[] = [];
    for (const address of [email, 'no-one@example.org', email, 'not an address', email]) {
      statements.length = 0;
      expect((await openBrowser(server).post(ASK_PATH, { email: address })).status).toBe(200);
      // Others may be of the server's own timers.
      before.push(statements.filter((each) => /\b(?:attempts|users|members|password_resets)\b/.test(each)));
      statements.length = 0;
      await server.ctx.refusals.finishBackground();
      background.push(...statements);
    }
    expect(before[0]).toHaveLength(1);
    expect(before[0]?.[0]).toContain('attempts');
    for (const each of before) expect(each).toEqual(before[0]);
    expect(background.some((each) => each.includes('users'))).toBe(true);
  } finally {
    counted.mockRestore();
  }
});

test('a vault that sends no mail has no such pages, and says who resets a password', async () => {
  const mailless = await startServer({ NODE_ENV: 'production', MASTER_KEY: TEST_ROOT_KEY });
  try {
    const browser = openBrowser(mailless);
    const { text } = await browser.get('/console/sign-in');
    expect(text).toContain('the operator of this vault can reset it');
    expect(text).not.toContain(ASK_PATH);
    expect((await browser.get(ASK_PATH)).headers.get('location')).toMatch(/^\/console\/sign-in\?next=/);
    const link = `/console/sign-in/reset/${'x'.repeat(32)}`;
    for (const path of [ASK_PATH, link])
      expect((await browser.post(path, { email: 'ada@example.com' })).status).toBeGreaterThanOrEqual(404);
    expect(await mailless.sql('SELECT FROM password_resets')).toEqual([]);
  } finally {
    await mailless.close();
  }
});
