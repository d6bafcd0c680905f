// Changes of passwords: in the console with the current one, or by the operator.
// All sessions end at once, and of concurrent changes one succeeds.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join as joinPath } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { inviteOwner } from '../src/modules/people/bootstrap.ts';
import { buildApp } from '../src/app.ts';
import { createContext } from '../src/modules.ts';
import { textOf } from './support/console.ts';
import { callToSuccess } from './support/command.ts';
import { holdRow } from './support/held-rows.ts';
import {
  type Browser,
  COOKIE,
  invite,
  join,
  openBrowser,
  PASSWORD,
  signIn,
  startAtFullCost,
} from './support/people.ts';
import { type Answer, startServer, TEST_ROOT_KEY, type TestServer, type TestTenant } from './support/server.ts';

const PATH = '/console/password';
const NEW = 'a better one than before';

let server: TestServer;
let dataDir: string;
beforeAll(async () => {
  server = await startServer();
  dataDir = mkdtempSync(joinPath(tmpdir(), 'strongroom-passwords-'));
});
afterAll(async () => {
  await server.close();
  rmSync(dataDir, { recursive: true, force: true });
});
afterEach(async () => {
  await server.sql('DELETE FROM attempts');
});

const change = async (browser: Browser, fields: { current?: string; next?: string; csrf?: string } = {}) => {
  const { current = PASSWORD, next = NEW, csrf = await browser.csrf(PATH) } = fields;
  return browser.post(PATH, { csrf, current_password: current, new_password: next });
};

const statusOfSignIn = async (email: string, password: string): Promise<number> =>
  (await openBrowser(server).post('/console/sign-in', { email, password })).status;

const browserWith = (secret: string): Browser => {
  const browser = openBrowser(server);
  browser.cookies.set(COOKIE, secret);
  return browser;
};

/** A person becomes a member of a further tenant, and is signed in there. */
const joinToo = async (email: string, tenant: TestTenant): Promise<Browser> => {
  const { path } = await invite(server, email, tenant);
  const browser = openBrowser(server);
  expect((await browser.post(path, { first_name: 'Ada', password: PASSWORD })).status).toBe(303);
  return browser;
};

const hashOf = async (user_id: string): Promise<string> =>
  (await server.sql('SELECT password_hash FROM users WHERE id = $1', [user_id]))[0].password_hash;

type Logged = { tenant_id: string; actor_type: string; actor_id: string | null; entity_ids: string[] };

/** What the log has of changed passwords of a user's members. */
const changesLogged = (user_id: string): Promise<Logged[]> =>
  server.sql(
    `SELECT tenant_id, actor_type, actor_id, entity_ids FROM audit_log
     WHERE entity_type = 'tenant_member' AND operation = 'update' AND message = 'Tenant member password changed'
     AND entity_ids[1] IN (SELECT id::text FROM members WHERE user_id = $1) ORDER BY tenant_id`,
    [user_id],
  );

const refusedWith = (answer: Answer, sentence: string): void => {
  expect(answer.status, answer.text).toBe(422);
  expect(textOf(answer.text)).toContain(sentence);
  expect(answer.text).toContain('aria-invalid="true"');
  expect(answer.headers.getSetCookie()).toEqual([]);
};

const cli = (args: string[]): Promise<{ stdout: string; stderr: string }> =>
  callToSuccess(args, { env: { DATA_DIR: dataDir, DATABASE_URL: server.databaseUrl, MASTER_KEY: TEST_ROOT_KEY } });

const reset = async (email: string): Promise<string> =>
  JSON.parse((await cli(['password', 'reset', '--email', email, '--json'])).stdout).password;

const holdUser = (user_id: string) => holdRow(server, 'SELECT FROM users WHERE id = $1 FOR UPDATE', [user_id]);

describe('the page on which one changes a password', () => {
  test('is linked on the People page, only beside the own name', async () => {
    const [{ browser, email }] = [await join(server), await join(server)];
    const { text } = await browser.get('/console/people');
    const rows = text.split('<tr>').filter((row) => row.includes(`href="${PATH}"`));
    expect(rows).toHaveLength(1);
    expect(rows[0]).toContain(email);
  });

  test('is linked as well where one stands on another page of the list', async () => {
    const tenant = await server.newTenant();
    const { browser } = await join(server, { tenant });
    const linked = async (path: string) => (await browser.get(path)).text.split(`href="${PATH}"`).length - 1;
    expect([await linked('/console/people'), await linked('/console/people?page=9')]).toEqual([1, 1]);
  });

  test('marks the fields and the address for password managers', async () => {
    const { browser, email } = await join(server);
    const { status, text } = await browser.get(PATH);
    expect(status).toBe(200);
    const inputs = text.match(/<input[^>]*>/g) ?? [];
    const named = (name: string) => inputs.find((input) => input.includes(`name="${name}"`));
    expect(named('current_password')).toMatch(/type="password".* autocomplete="current-password"/);
    expect(named('new_password')).toMatch(/type="password".* autocomplete="new-password"/);
    expect(inputs.find((input) => input.includes('autocomplete="username"'))).toContain(`value="${email}"`);
  });
});

describe('a changed password', () => {
  test('opens the console from then on, and the one before does not', async () => {
    const { browser, email, user_id, member_id } = await join(server);
    const answer = await change(browser);
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console/people?done=password']);
    expect(textOf((await browser.get('/console/people?done=password')).text)).toContain('Your password was changed.');
    expect(await statusOfSignIn(email, PASSWORD)).toBe(422);
    expect(await statusOfSignIn(email, NEW)).toBe(303);
    expect(await changesLogged(user_id)).toEqual([
      { tenant_id: server.tenant.tenant_id, actor_type: 'user', actor_id: user_id, entity_ids: [member_id] },
    ]);
  });

  test('is one password in every Unicode form, with any spelling of the address', async () => {
    const { browser, email } = await join(server, { email: '"Grace Hopper"@b\u00fccher.example' });
    expect((await change(browser, { next: 'Caf\u00e9 au lait \u2460 \u00e0 Paris' })).status).toBe(303);
    expect(await statusOfSignIn(email, 'Cafe\u0301 au lait 1 a\u0300 Paris')).toBe(303);
  });

  test('leaves this browser signed in, under a secret that is new', async () => {
    const { browser, secret } = await join(server);
    const answer = await change(browser);
    const [cookie = '', ...others] = answer.headers.getSetCookie();
    expect(others).toEqual([]);
    expect(cookie).toMatch(/^strongroom=[0-9A-Za-z]{43}; Path=\/; HttpOnly; SameSite=Strict$/);
    expect(browser.cookies.get(COOKIE)).not.toBe(secret);
    expect(await browser.isSignedIn()).toBe(true);
    expect(await browserWith(secret).isSignedIn()).toBe(false);
  });

  test('ends every other session of the user in every tenant and every process', async () => {
    const second = await server.newTenant({ name: 'Second' });
    const { browser, email, user_id } = await join(server);
    const elsewhere = [await signIn(server, email), await joinToo(email, second)];
    const bystander = await join(server);
    const neighbour = await createContext(server.ctx.config, 'server', { logDestination: { write: () => true } });
    const app = await buildApp(neighbour);
    try {
      const isSignedInThere = async (of: Browser): Promise<boolean> => {
        const headers = { cookie: `${COOKIE}=${of.cookies.get(COOKIE)}` };
        return (await app.inject({ url: '/console', headers })).headers.location === '/console/home';
      };
      for (const each of elsewhere)
        expect([await each.isSignedIn(), await isSignedInThere(each)]).toEqual([true, true]);
      expect((await change(browser)).status).toBe(303);
      for (const each of elsewhere) expect(await each.isSignedIn()).toBe(false);
      for (const each of elsewhere)
        await expect.poll(() => isSignedInThere(each), { timeout: 10_000, interval: 10 }).toBe(false);
      expect(await isSignedInThere(browser)).toBe(true);
      expect(await bystander.browser.isSignedIn()).toBe(true);
      const logged = await changesLogged(user_id);
      expect(logged.map(({ tenant_id }) => tenant_id)).toEqual([server.tenant.tenant_id, second.tenant_id].toSorted());
      expect(await server.sql('SELECT FROM sessions WHERE user_id = $1', [user_id])).toHaveLength(1);
    } finally {
      await app.close();
      await neighbour.close();
    }
  });
});

describe('nothing changes', () => {
  test('for a current password that is wrong, and nothing that was typed is shown again', async () => {
    const { browser, email, user_id } = await join(server);
    const other = await signIn(server, email);
    const before = await hashOf(user_id);
    for (const current of ['not the password', '', `${PASSWORD} `, 'x'.repeat(100_000), NEW]) {
      const answer = await change(browser, { current });
      refusedWith(answer, 'This is not your password.');
      // So many of one sign that no CSRF token has them.
      for (const typed of [PASSWORD, NEW, 'not the password', 'x'.repeat(12)]) expect(answer.text).not.toContain(typed);
    }
    expect(await hashOf(user_id)).toBe(before);
    expect([await browser.isSignedIn(), await other.isSignedIn()]).toEqual([true, true]);
    expect(await changesLogged(user_id)).toEqual([]);
  });

  test.each([
    ['of 11 characters', 'elevenchars'],
    ['of 129 characters', 'y'.repeat(129)],
    ['that is missing', ''],
    ['of 11 characters in 12 code points', `elevenchar\u0065\u0301`],
  ])('for a new one %s, and the current one is not even looked at', async (_what, next) => {
    const { browser, user_id } = await join(server);
    const before = await hashOf(user_id);
    for (let round = 0; round < 12; round += 1) {
      const answer = await change(browser, { next, current: 'not the password' });
      refusedWith(answer, 'Choose 12 to 128 characters.');
      if (next !== '') expect(answer.text).not.toContain(next);
    }
    expect(await hashOf(user_id)).toBe(before);
  });

  test.each([
    ['is on the list of common ones', () => 'Password1234', 'common passwords'],
    ['repeats one character', () => 'aaaaaaaaaaaa', 'repeats a few characters'],
    ['contains the address', ({ email }: { email: string }) => `my ${email}`, 'your e-mail address'],
    ['contains the name', () => 'lovelace in the sky', 'your name'],
    ['contains the name of a tenant', () => 'zweit-haus am Meer', 'name of a tenant'],
    ['contains the name of the product', () => 'the strong room door', 'name of this product'],
    ['is the current one', () => PASSWORD, 'This is your current password.'],
  ])('for a new one that %s, and the page says so', async (_what, nextOf, sentence) => {
    const second = await server.newTenant({ name: 'Zweithaus' });
    const { browser, email, user_id } = await join(server);
    await joinToo(email, second);
    const before = await hashOf(user_id);
    for (let round = 0; round < 12; round += 1)
      refusedWith(await change(browser, { next: nextOf({ email }) }), sentence);
    expect(await hashOf(user_id)).toBe(before);
    expect(await changesLogged(user_id)).toEqual([]);
  });

  test.each([12, 128])('amiss with one of %i characters', async (length) => {
    const { browser } = await join(server);
    const next = String.fromCodePoint(...Array.from({ length }, (_, index) => 0x1f300 + 2 * index));
    expect((await change(browser, { next })).status).toBe(303);
  });

  test('for a NUL in either field', async () => {
    const { browser, user_id } = await join(server);
    const before = await hashOf(user_id);
    expect((await change(browser, { next: `${NEW}\0` })).status).toBe(400);
    expect((await change(browser, { current: `${PASSWORD}\0` })).status).toBe(400);
    expect(await hashOf(user_id)).toBe(before);
  });

  test("without the form's token, with another session's, or for a form from elsewhere", async () => {
    const [{ browser, user_id }, other] = [await join(server), await join(server)];
    const before = await hashOf(user_id);
    for (const csrf of ['', 'x'.repeat(43), await other.browser.csrf()])
      expect((await change(browser, { csrf })).status).toBe(403);
    const fields = { csrf: await browser.csrf(), current_password: PASSWORD, new_password: NEW };
    expect((await browser.post(PATH, fields, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect(await hashOf(user_id)).toBe(before);
    expect(await browser.isSignedIn()).toBe(true);
  });
});

describe('guessing the current password', () => {
  test('counts with failed sign-ins: after ten failures of both neither accepts the right one', async () => {
    const { browser, email, user_id } = await join(server);
    const before = await hashOf(user_id);
    for (let guess = 0; guess < 5; guess += 1) {
      expect((await change(browser, { current: `guess number ${guess}` })).status).toBe(422);
      expect(await statusOfSignIn(email, `guess number ${guess}`)).toBe(422);
    }
    const refused = await change(browser);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(1_700);
    expect(await statusOfSignIn(email, PASSWORD)).toBe(429);
    expect(await hashOf(user_id)).toBe(before);
  });

  test('resets after a correct password', async () => {
    const { browser, email } = await join(server);
    for (let guess = 0; guess < 9; guess += 1) await change(browser, { current: 'not the password' });
    expect((await change(browser)).status).toBe(303);
    for (let guess = 0; guess < 9; guess += 1) expect(await statusOfSignIn(email, PASSWORD)).toBe(422);
    expect(await statusOfSignIn(email, NEW)).toBe(303);
  });
});

describe('concurrent requests', () => {
  test('of two changes at once with one current password one is done, the other is refused', async () => {
    const { browser, email, user_id } = await join(server);
    const other = await signIn(server, email);
    const tokens = [await browser.csrf(), await other.csrf()] as const;
    const held = await holdUser(user_id);
    const sent = [
      change(browser, { csrf: tokens[0], next: 'the first of two new ones' }),
      change(other, { csrf: tokens[1], next: 'the second of two new ones' }),
    ];
    // Both have shown the right password by now.
    await held.waiting(2);
    await held.letGo();
    const answers = await Promise.all(sent);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([303, 422]);
    const isFirst = answers[0]?.status === 303;
    refusedWith(answers[isFirst ? 1 : 0] as Answer, 'This is not your password.');
    expect(await statusOfSignIn(email, `the ${isFirst ? 'first' : 'second'} of two new ones`)).toBe(303);
    expect(await statusOfSignIn(email, `the ${isFirst ? 'second' : 'first'} of two new ones`)).toBe(422);
    expect(await changesLogged(user_id)).toHaveLength(1);
    expect([await browser.isSignedIn(), await other.isSignedIn()]).toEqual([isFirst, !isFirst]);
  });

  test('a member who is removed while they change it changes nothing, and is asked to sign in', async () => {
    const second = await server.newTenant();
    const { browser, email, user_id, member_id } = await join(server);
    const there = await joinToo(email, second);
    const [csrf, before] = [await browser.csrf(), await hashOf(user_id)];
    const held = await holdUser(user_id);
    const removal = server.request('DELETE', `/tenants/self/members/${member_id}`);
    await held.waiting(1);
    const changing = change(browser, { csrf });
    await held.waiting(2);
    await held.letGo();
    expect((await removal).status).toBe(204);
    const answer = await changing;
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console/sign-in']);
    expect(answer.headers.getSetCookie()).toEqual([]);
    expect(await hashOf(user_id)).toBe(before);
    expect([await browser.isSignedIn(), await there.isSignedIn()]).toEqual([false, true]);
    expect(await changesLogged(user_id)).toEqual([]);
  });

  test('nor does a user who is gone with their last membership', async () => {
    const { browser, user_id, member_id } = await join(server);
    const csrf = await browser.csrf();
    const held = await holdUser(user_id);
    const removal = server.request('DELETE', `/tenants/self/members/${member_id}`);
    await held.waiting(1);
    const changing = change(browser, { csrf });
    await held.waiting(2);
    await held.letGo();
    expect((await removal).status).toBe(204);
    const answer = await changing;
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console/sign-in']);
    expect(await server.sql('SELECT FROM sessions WHERE user_id = $1', [user_id])).toEqual([]);
  });

  test('a change and a removal that come the other way round are both done', async () => {
    const { browser, user_id, member_id } = await join(server);
    const csrf = await browser.csrf();
    const held = await holdUser(user_id);
    const changing = change(browser, { csrf });
    await held.waiting(1);
    const removal = server.request('DELETE', `/tenants/self/members/${member_id}`);
    await held.waiting(2);
    await held.letGo();
    expect([(await changing).status, (await removal).status]).toEqual([303, 204]);
    expect(await browser.isSignedIn()).toBe(false);
  });

  test('a change meets the end of a tenant, and both are done', async () => {
    const second = await server.newTenant();
    const { browser, email, user_id } = await join(server);
    const there = await joinToo(email, second);
    const csrf = await browser.csrf();
    const held = await holdUser(user_id);
    const ending = server.request('DELETE', '/tenants/self', { key: second.api_key });
    await held.waiting(1);
    const changing = change(browser, { csrf });
    await held.waiting(2);
    await held.letGo();
    expect([(await ending).status, (await changing).status]).toEqual([204, 303]);
    expect([await browser.isSignedIn(), await there.isSignedIn()]).toEqual([true, false]);
  });

  test.each(['signing in', 'joining once more', 'going to another tenant'])(
    'no session begins by the old password behind a change: %s',
    async (what) => {
      const second = await server.newTenant({ name: 'Zweithaus' });
      const { browser, email, user_id, member_id } = await join(server);
      const there = await joinToo(email, second);
      const [{ id: memberThere }] = await server.sql('SELECT id FROM members WHERE user_id = $1 AND id <> $2', [
        user_id,
        member_id,
      ]);
      const [csrf, csrfThere] = [await browser.csrf(), await there.csrf()];
      // A link for somebody who is a member already: only the operator makes one.
      const { link } = await inviteOwner(server.ctx, second.tenant_id, email);
      const late = openBrowser(server);
      const begin: Record<string, () => Promise<Answer>> = {
        'signing in': () => late.post('/console/sign-in', { email, password: PASSWORD }),
        'joining once more': () =>
          late.post(new URL(link.reveal()).pathname, { first_name: 'Ada', password: PASSWORD }),
        'going to another tenant': () =>
          there.post('/console/tenant', { csrf: csrfThere, tenant_id: server.tenant.tenant_id }),
      };
      // The change waits for the row of the member that is to begin a session, and whoever begins it waits behind.
      const target = what === 'joining once more' ? memberThere : member_id;
      const held = await holdRow(server, 'SELECT FROM members WHERE id = $1 FOR UPDATE', [target]);
      const changing = change(browser, { csrf });
      await held.waiting(1);
      const beginning = (begin[what] as () => Promise<Answer>)();
      await held.waiting(2);
      await held.letGo();
      expect((await changing).status).toBe(303);
      const answer = await beginning;
      expect(answer.status, answer.text).toBeGreaterThanOrEqual(400);
      expect(answer.headers.getSetCookie()).toEqual([]);
      expect(await server.sql('SELECT FROM sessions WHERE user_id = $1', [user_id])).toHaveLength(1);
      expect(await browser.isSignedIn()).toBe(true);
    },
  );
});

test('a hash has the cost of production unless a server has another, and keeps it', async () => {
  const full = await startAtFullCost(server);
  try {
    const [cheap, dear] = [await join(server), await join(full)];
    const costOf = async (user_id: string) => (await hashOf(user_id)).split('$').slice(1, 4).join(' ');
    expect(await costOf(cheap.user_id)).toBe('argon2id v=19 m=8,t=1,p=1');
    expect(await costOf(dear.user_id)).toBe('argon2id v=19 m=19456,t=2,p=1');
    for (const { email } of [cheap, dear])
      for (const at of [server, full]) {
        expect(await (await signIn(at, email)).isSignedIn()).toBe(true);
        const wrong = { email, password: 'not the password' };
        expect((await openBrowser(at).post('/console/sign-in', wrong)).status).toBe(422);
      }
  } finally {
    await full.close();
  }
});

describe('the command that resets a password', () => {
  test('gives one that signs in at once, ends the old one and every session, and is logged', async () => {
    const second = await server.newTenant();
    const { browser, email, user_id } = await join(server);
    const there = await joinToo(email, second);
    for (let guess = 0; guess < 10; guess += 1) await statusOfSignIn(email, 'not the password');
    expect(await statusOfSignIn(email, PASSWORD)).toBe(429);
    const { stdout, stderr } = await cli(['password', 'reset', '--email', ` ${email.toUpperCase()} `]);
    expect(stderr).toBe('');
    const [, password = ''] = /^password {8}([0-9A-Za-z]{24})$/m.exec(stdout) ?? [];
    expect(stdout.split(password)).toHaveLength(2);
    expect(stdout).toContain('It is temporary: change it in the console under People.');
    // The notice has a way to go.
    for (const each of [browser, there])
      await expect.poll(() => each.isSignedIn(), { timeout: 10_000, interval: 10 }).toBe(false);
    expect(await statusOfSignIn(email, PASSWORD)).toBe(422);
    const again = await signIn(server, email, password);
    expect((await change(again, { current: password })).status).toBe(303);
    expect(await statusOfSignIn(email, NEW)).toBe(303);
    const logged = await changesLogged(user_id);
    expect(logged.filter(({ actor_type, actor_id }) => actor_type === 'operator' && actor_id === null)).toHaveLength(2);
    expect(logged.filter(({ actor_type, actor_id }) => actor_type === 'user' && actor_id === user_id)).toHaveLength(2);
    expect(server.logLines.join('')).not.toContain(password);
  }, 30_000);

  test('lets an owner back in, who can neither be removed nor invited again', async () => {
    const { email, member_id } = await join(server);
    await server.sql(`UPDATE members SET role = 'OWNER' WHERE id = $1`, [member_id]);
    await server.sign(server.tenant.tenant_id);
    const password = await reset(email);
    expect(password).toMatch(/^[0-9A-Za-z]{24}$/);
    expect(await statusOfSignIn(email, password)).toBe(303);
  }, 30_000);

  test.each([
    ['that nobody has', ['--email', 'nobody-at-all@example.com'], 'No account has this address: nothing was changed.'],
    ['that is none', ['--email', 'Ada <ada@example.com>'], 'No account has this address: nothing was changed.'],
    ['that is missing', [], 'The option --email is needed.'],
  ])(
    'refuses an address %s',
    async (_what, args, sentence) => {
      const failed = await cli(['password', 'reset', ...args]).then(
        () => expect.unreachable('the command succeeded'),
        (error: { code: number; stdout: string; stderr: string }) => error,
      );
      expect([failed.code, failed.stdout]).toEqual([1, '']);
      expect(failed.stderr).toContain(sentence);
      // Of the help that follows a misuse, the examples name an address.
      if (args.length > 0) expect(failed.stderr).not.toContain('example.com');
    },
    30_000,
  );

  test('holds against a change that was under way', async () => {
    const { browser, email, user_id } = await join(server);
    const csrf = await browser.csrf();
    const held = await holdUser(user_id);
    const resetting = reset(email);
    await held.waiting(1);
    const changing = change(browser, { csrf });
    await held.waiting(2);
    await held.letGo();
    const password = await resetting;
    refusedWith(await changing, 'This is not your password.');
    expect(await statusOfSignIn(email, NEW)).toBe(422);
    expect(await statusOfSignIn(email, password)).toBe(303);
  }, 30_000);
});

test('no password, address or secret stands in the log', async () => {
  const { browser, email, secret } = await join(server, { email: 'password-canary@example.com' });
  await change(browser, { current: 'canary of a password' });
  await change(browser, { next: 'short canary'.slice(0, 11) });
  await change(browser);
  const lines = server.logLines.join('');
  const secrets = [secret, browser.cookies.get(COOKIE) as string];
  for (const text of [email, PASSWORD, NEW, 'canary of a password', 'short canar', ...secrets])
    expect(lines).not.toContain(text);
});
