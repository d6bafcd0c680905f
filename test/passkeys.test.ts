// Passkeys of members in the console: adding, signing in, asking again, removal, reset, and what attackers try.
// An authenticator in software answers the pages; at the end Chromium does, with one of its own.
import { Secret, TOTP } from 'otpauth';
import type { Browser as Chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { resetSecondFactor } from '../src/modules/people/members.ts';
import { type Authenticator, type Lies, newAuthenticator } from './support/authenticator.ts';
import { launchChromium, openPerson } from './support/chromium.ts';
import { isInstalled } from './support/programs.ts';
import { type Browser, type ConsoleServer, startConsole, textOf, unescaped } from './support/console.ts';
import { createDatabase, type TestDatabase } from './support/database.ts';
import { openBrowser, PASSWORD } from './support/people.ts';
import type { Answer } from './support/server.ts';

const MINUTE_MS = 60_000;
const ORIGIN = 'https://vault.example.com';
const CODE_PATH = '/console/second-factor';
const PASSKEY_PATH = `${CODE_PATH}/passkey`;
const ACCOUNT = '/console/account';
const PASSKEYS = `${ACCOUNT}/passkeys`;

let server: ConsoleServer;
let database: TestDatabase;
let atMs = Date.now();
const pass = (ms: number): void => void (atMs += ms);

beforeAll(async () => {
  database = await createDatabase();
  server = await startProcess();
});
afterAll(async () => {
  await server.close();
  await database.drop();
});

/** A process of the vault. */
const startProcess = (): Promise<ConsoleServer> =>
  startConsole(
    { RATE_LIMIT: 'on', PUBLIC_URL: ORIGIN },
    { now: () => new Date(atMs) },
    { database: { ...database, drop: async () => undefined } },
  );

type Pages = Pick<Browser, 'get' | 'post'>;

const newMember: ConsoleServer['signIn'] = (options) => {
  pass(1_000);
  return server.signIn(options);
};

const optionsIn = ({ text }: Answer): string => {
  const [, options = ''] = /data-options="([^"]+)"/.exec(text) ?? [];
  expect(options, text).not.toBe('');
  return unescaped(options);
};

const placeOf = (answer: Answer): string | null => answer.headers.get('location');
const codesIn = ({ text }: Answer): string[] => textOf(text).match(/[A-Z2-7]{4}(?:-[A-Z2-7]{4}){3}/g) ?? [];
const toCode = (next: string): string => `${CODE_PATH}?next=${encodeURIComponent(next)}`;

const start = async (browser: Pages, name = 'Phone'): Promise<Answer> => {
  await browser.get(ACCOUNT);
  return browser.post(`${PASSKEYS}/new`, { name, current_password: PASSWORD });
};

/** Adds a passkey. @returns the recovery codes that are shown with the first device. */
const add = async (browser: Pages, key: Authenticator, name = 'Phone'): Promise<string[]> => {
  const options = optionsIn(await start(browser, name));
  const answer = await browser.post(PASSKEYS, { name, answer: key.create(options) });
  expect([200, 303], answer.text).toContain(answer.status);
  return codesIn(answer);
};

type Member = Browser & { key: Authenticator; recovery: string[] };

const enrol = async (options?: {
  counts?: boolean;
  tenant?: { api_key: string; tenant_id: string };
}): Promise<Member> => {
  const browser = await newMember(options?.tenant && { tenant: { ...options.tenant, application_id: '' } });
  const key = newAuthenticator(ORIGIN, options);
  return { ...browser, key, recovery: await add(browser, key) };
};

/** Another browser, in which the password was given. */
const passwordGiven = async ({ email }: Pick<Browser, 'email'>): Promise<Pages> => {
  const browser = server.anonymous();
  const answer = await browser.post('/console/sign-in', { email, password: PASSWORD });
  expect(answer.status, answer.text).toBe(303);
  return browser;
};

const ask = async (browser: Pages): Promise<string> => optionsIn(await browser.get(CODE_PATH));

const give = (browser: Pages, answer: string, next = '/console/people'): Promise<Answer> =>
  browser.post(PASSKEY_PATH, { answer, next });

const giveKey = async (browser: Pages, key: Authenticator, lies?: Lies): Promise<number> =>
  (await give(browser, key.use(await ask(browser), lies))).status;

const passkeyRows = (user_id: string): Promise<any[]> =>
  server.sql('SELECT * FROM passkeys WHERE user_id = $1 ORDER BY created_at', [user_id]);

const idIn = async (browser: Pages, name: string): Promise<string> => {
  const { text } = await browser.get(ACCOUNT);
  const [, id = ''] = new RegExp(`passkeys/([0-9a-f-]{36})/remove"(?:(?!</form>)[^])*Remove ${name}<`).exec(text) ?? [];
  expect(id, text).not.toBe('');
  return id;
};

const remove = async (browser: Pages, name: string): Promise<Answer> =>
  browser.post(`${PASSKEYS}/${await idIn(browser, name)}/remove`);

const messagesOf = async (member_id: string): Promise<string[]> => {
  const { body } = await server.request('GET', `/logs?entity_id=${member_id}&size=50`);
  return body.data.map(({ message, outcome }: { message: string; outcome: string }) =>
    outcome === 'success' ? message : `${message} (${outcome})`,
  );
};

/** An app beside what the member has. @returns its key. */
const addApp = async (browser: Pages): Promise<string> => {
  await browser.get(ACCOUNT);
  await browser.post(`${ACCOUNT}/second-factor`, { current_password: PASSWORD });
  const [, key = ''] = /data-key>([A-Z2-7]{32})</.exec((await browser.get(ACCOUNT)).text) ?? [];
  const confirmed = await browser.post(`${ACCOUNT}/second-factor/confirm`, { code: codeOf(key) });
  expect([200, 303], confirmed.text).toContain(confirmed.status);
  return key;
};

const codeOf = (key: string): string => new TOTP({ secret: Secret.fromBase32(key) }).generate({ timestamp: atMs });

describe('a passkey', () => {
  test('is added after the password, with recovery codes; other sessions then ask for it', async () => {
    const browser = await newMember();
    const other = await passwordGiven(browser);
    await browser.get(ACCOUNT);
    const wrong = await browser.post(`${PASSKEYS}/new`, { name: 'Phone', current_password: 'not my password' });
    expect([wrong.status, wrong.text]).toEqual([422, expect.stringContaining('not your password')]);
    expect(wrong.text).toContain('value="Phone"');
    const key = newAuthenticator(ORIGIN);
    const recovery = await add(browser, key, 'Ada’s <phone>');
    expect(new Set(recovery).size).toBe(10);
    expect(placeOf(await other.get('/console/tokens'))).toBe(toCode('/console/tokens'));
    expect((await browser.get('/console/tokens')).status).toBe(200);
    const account = textOf((await browser.get(ACCOUNT)).text);
    expect(account).toContain('Ada’s <phone>');
    expect(account).toContain('10 recovery codes are left');
    const [row] = await passkeyRows(browser.user_id);
    expect(row.sealed.includes(Buffer.from('phone'))).toBe(false);
    expect(row.sealed.includes(Buffer.from(key.id, 'base64url'))).toBe(false);
    expect(await messagesOf(browser.member_id)).toContain('Passkey added');
  });

  test('opens the console after the password, and lets nothing else through before', async () => {
    const member = await enrol();
    const browser = await passwordGiven(member);
    for (const path of [ACCOUNT, PASSKEYS, '/console/people'])
      expect(placeOf(await browser.get(path))).toBe(toCode(path));
    const page = await browser.get(CODE_PATH);
    expect(page.text).toContain('One of your recovery codes.');
    const started = await browser.post(`${PASSKEYS}/new`, { name: 'Second', current_password: PASSWORD });
    expect(placeOf(started)).toBe(toCode(`${PASSKEYS}/new`));
    const given = await give(browser, member.key.use(optionsIn(page)));
    expect([given.status, placeOf(given)]).toEqual([303, '/console/people']);
    expect((await browser.get('/console/people')).status).toBe(200);
    expect((await browser.get(ACCOUNT)).text).not.toContain('never');
    expect(await messagesOf(member.member_id)).toContain('Passkey used');
  });

  test('is asked for again before people are changed, after ten minutes', async () => {
    const member = await enrol();
    pass(11 * MINUTE_MS);
    await member.get('/console/people');
    const invite = () => member.post('/console/people/invitations', { email: `late-${atMs}@example.com` });
    expect(placeOf(await invite())).toBe(toCode('/console/people/invitations'));
    for (const path of [`${PASSKEYS}/new`, `${ACCOUNT}/second-factor`])
      expect(placeOf(await member.post(path, { name: 'x', current_password: PASSWORD }))).toBe(toCode(path));
    expect(await giveKey(member, member.key)).toBe(303);
    await member.get('/console/people');
    expect(placeOf(await invite())).toBe('/console/people?done=invited');
  });

  test('stands beside an authenticator app and recovery codes: each of them is enough', async () => {
    const member = await enrol();
    const key = await addApp(member);
    pass(MINUTE_MS);
    const byCode = await passwordGiven(member);
    expect((await byCode.get(CODE_PATH)).text).toContain('Six digits from your authenticator app');
    expect((await byCode.post(CODE_PATH, { code: codeOf(key) })).status).toBe(303);
    expect(await giveKey(await passwordGiven(member), member.key)).toBe(303);
    const byRecovery = await passwordGiven(member);
    await byRecovery.get(CODE_PATH);
    expect((await byRecovery.post(CODE_PATH, { code: member.recovery[0] ?? '' })).status).toBe(303);
    // Without the app its codes end, and the passkey goes on.
    expect(placeOf(await member.post(`${ACCOUNT}/second-factor/remove`))).toBe(ACCOUNT);
    pass(MINUTE_MS);
    const later = await passwordGiven(member);
    await later.get(CODE_PATH);
    expect((await later.post(CODE_PATH, { code: codeOf(key) })).status).toBe(422);
    expect(await giveKey(later, member.key)).toBe(303);
  });

  test('an app that is being set up beside it opens nothing before its first code', async () => {
    const member = await enrol();
    await member.get(ACCOUNT);
    await member.post(`${ACCOUNT}/second-factor`, { current_password: PASSWORD });
    const [, key = ''] = /data-key>([A-Z2-7]{32})</.exec((await member.get(ACCOUNT)).text) ?? [];
    const browser = await passwordGiven(member);
    await browser.get(CODE_PATH);
    expect((await browser.post(CODE_PATH, { code: codeOf(key) })).status).toBe(422);
  });

  test('has a name of visible characters, and a member has ten at most', async () => {
    const browser = await newMember();
    await browser.get(ACCOUNT);
    for (const name of ['', ' ', 'x'.repeat(61), 'a\u202eb']) {
      const answer = await browser.post(`${PASSKEYS}/new`, { name, current_password: PASSWORD });
      expect(answer.status, name).toBe(422);
      expect((await browser.post(PASSKEYS, { name, answer: '{}' })).status, name).toBe(422);
    }
    const key = newAuthenticator(ORIGIN);
    await add(browser, key, 'Number 1');
    const twice = await browser.post(PASSKEYS, { name: 'Twice', answer: key.create(optionsIn(await start(browser))) });
    expect(twice.status).toBe(422);
    for (let number = 2; number <= 10; number += 1) await add(browser, newAuthenticator(ORIGIN), `Number ${number}`);
    expect((await browser.get(ACCOUNT)).text).toContain('as many as possible');
    expect((await start(browser)).status).toBe(422);
    expect(await passkeyRows(browser.user_id)).toHaveLength(10);
  });
});

describe('an answer that is refused', () => {
  test('has another origin, host, challenge, type, user or session, or is no answer at all', async () => {
    const [member, anonymous] = [await enrol(), await enrol()];
    const browser = await passwordGiven(member);
    const another = await passwordGiven(member);
    const lies: Lies[] = [
      { origin: 'https://evil.example' },
      { rp_id: 'evil.example' },
      { challenge: Buffer.alloc(56, 1).toString('base64url') },
      { type: 'webauthn.create' },
    ];
    const answers = [
      ...lies.map((each) => async () => member.key.use(await ask(browser), each)),
      async () => member.key.use(await ask(another)),
      async () => anonymous.key.use(await ask(browser)),
      async () => member.key.use(optionsIn(await start(member))),
      async () => member.key.create(await ask(browser)),
      async () => '',
      async () => 'null',
      async () => '{"id":',
      async () => `${member.key.use(await ask(browser))}${' '.repeat(20_000)}`,
      async () => member.key.use(await ask(browser)).replace(/"signature":"./, '"signature":"!'),
      async () => member.key.use(await ask(browser)).replace(/"signature":"......../, '"signature":"AAAAAAAA'),
      async () => member.key.use(await ask(browser)).replace(member.key.id, anonymous.key.id),
    ];
    for (const [index, make] of answers.entries()) {
      const text = await make();
      const answer = await give(browser, text);
      expect(answer.status, `${index}`).toBe(422);
      expect(textOf(answer.text), `${index}`).toMatch(/refused|open for more than five minutes/);
      for (const value of ['evil.example', member.key.id.slice(4, 20)])
        expect(answer.text.replaceAll(/data-options="[^"]*"/g, '')).not.toContain(value);
      expect(placeOf(await browser.get('/console/tokens')), `${index}`).toBe(toCode('/console/tokens'));
      // A right one in between, in another browser: it forgets the failures.
      expect(await giveKey(another, member.key), `${index}`).toBe(303);
    }
  });

  test('is repeated, comes late, or answers a page of a session that has ended', async () => {
    const member = await enrol();
    const browser = await passwordGiven(member);
    const answer = member.key.use(await ask(browser));
    expect((await give(browser, answer)).status).toBe(303);
    expect((await give(browser, answer)).status).toBe(422);
    const late = member.key.use(await ask(browser));
    pass(5 * MINUTE_MS + 1);
    const refused = await give(browser, late);
    expect([refused.status, refused.text]).toEqual([422, expect.stringContaining('more than five minutes')]);
    const before = member.key.use(await ask(browser));
    await browser.post('/console/sign-out');
    const after = await passwordGiven(member);
    await after.get(CODE_PATH);
    expect((await give(after, before)).status).toBe(422);
  });

  test('is repeated at another process, which would take a new one', async () => {
    const member = await enrol();
    const other = await startProcess();
    try {
      const [here, there] = [openBrowser(server), openBrowser(other)];
      await here.post('/console/sign-in', { email: member.email, password: PASSWORD });
      for (const [name, value] of here.cookies) there.cookies.set(name, value);
      const csrf = await here.csrf(CODE_PATH);
      const send = async (browser: typeof here, answer: string) =>
        (await browser.post(PASSKEY_PATH, { csrf, answer })).status;
      const answer = member.key.use(optionsIn(await here.get(CODE_PATH)));
      expect(await send(there, answer)).toBe(303);
      expect([await send(here, answer), await send(there, answer)]).toEqual([422, 422]);
      expect(await send(there, member.key.use(optionsIn(await here.get(CODE_PATH))))).toBe(303);
    } finally {
      await other.close();
    }
  });

  test('is not counted: after ten wrong codes and answers that fail, the right passkey works', async () => {
    const member = await enrol();
    const browser = await passwordGiven(member);
    await browser.get(CODE_PATH);
    const statuses: number[] = [];
    for (let count = 0; count < 22; count += 1)
      statuses.push((await browser.post(count % 2 ? CODE_PATH : PASSKEY_PATH, { answer: '{}', code: '1' })).status);
    expect(statuses).toEqual([...Array.from({ length: 21 }, () => 422), 429]);
    await server.ctx.refusals.finishBackground();
    expect(await messagesOf(member.member_id)).toContain('Sign-in failed (refused)');
    expect(await giveKey(browser, member.key)).toBe(303);
  });

  test('shows that the passkey exists twice: its counter went back', async () => {
    const member = await enrol();
    const browser = await passwordGiven(member);
    expect(await giveKey(browser, member.key, { counter: 40 })).toBe(303);
    for (const counter of [40, 3, 0]) {
      const answer = await give(browser, member.key.use(await ask(browser), { counter }));
      expect([answer.status, answer.text]).toEqual([422, expect.stringContaining('a copy of it was used')]);
    }
    expect(server.logLines.join('')).toContain('passkey_cloned');
    expect(await messagesOf(member.member_id)).toContain('Passkey refused: its counter went back (refused)');
    // A false signature raises no alarm.
    const alarms = server.logLines.filter((line) => line.includes('passkey_cloned')).length;
    const forged = member.key
      .use(await ask(browser), { counter: 1 })
      .replace(/"signature":"[^"]{20}/, `"signature":"${'A'.repeat(20)}`);
    expect((await give(browser, forged)).status).toBe(422);
    expect(server.logLines.filter((line) => line.includes('passkey_cloned')).length).toBe(alarms);
    expect(await giveKey(browser, member.key, { counter: 41 })).toBe(303);
    const without = await enrol({ counts: false });
    const other = await passwordGiven(without);
    for (let count = 0; count < 3; count += 1) expect(await giveKey(other, without.key)).toBe(303);
  });

  test('adds no passkey: another origin, host or challenge, certificates, or too late', async () => {
    const browser = await newMember();
    const key = newAuthenticator(ORIGIN);
    const lies: Lies[] = [
      { origin: 'https://evil.example' },
      { rp_id: 'evil.example' },
      { challenge: Buffer.alloc(56).toString('base64url') },
      { certificates: [Buffer.alloc(40)] },
    ];
    for (const lie of lies) {
      const options = optionsIn(await start(browser));
      const answer = await browser.post(PASSKEYS, { name: 'Phone', answer: key.create(options, lie) });
      expect(answer.status).toBe(422);
    }
    const late = key.create(optionsIn(await start(browser)));
    pass(5 * MINUTE_MS + 1);
    expect((await browser.post(PASSKEYS, { name: 'Phone', answer: late })).status).toBe(422);
    expect(await passkeyRows(browser.user_id)).toEqual([]);
    expect((await browser.get('/console/tokens')).status).toBe(200);
  });
});

describe('a writer of the database', () => {
  test('gains nothing by moving a passkey to another user', async () => {
    const [victim, attacker] = [await enrol(), await enrol()];
    const [row] = await passkeyRows(attacker.user_id);
    await server.sql('UPDATE passkeys SET sealed = $2 WHERE user_id = $1', [victim.user_id, row.sealed]);
    const browser = await passwordGiven(victim);
    const page = await browser.get(CODE_PATH);
    expect(page.text).not.toContain('data-options');
    expect(server.logLines.join('')).toContain('seal_broken');
    await server.sql('DELETE FROM passkeys WHERE user_id = $1', [victim.user_id]);
    await server.sql('UPDATE passkeys SET user_id = $2 WHERE id = $1', [row.id, victim.user_id]);
    const attackers = await passwordGiven(attacker);
    await attackers.get(CODE_PATH);
    expect((await browser.get(CODE_PATH)).text).not.toContain('data-options');
    expect((await browser.post(CODE_PATH, { code: victim.recovery[0] ?? '' })).status).toBe(303);
  });

  test('gains nothing by putting a removed passkey back, nor by deleting what was used', async () => {
    const member = await enrol();
    const second = newAuthenticator(ORIGIN);
    pass(1_000);
    await add(member, second, 'Second');
    pass(1_000);
    const [stolen] = await passkeyRows(member.user_id);
    expect(placeOf(await remove(member, 'Phone'))).toBe(ACCOUNT);
    await server.sql('INSERT INTO passkeys (id, user_id, sealed, created_at) VALUES ($1, $2, $3, $4)', [
      stolen.id,
      stolen.user_id,
      stolen.sealed,
      stolen.created_at,
    ]);
    const browser = await passwordGiven(member);
    const options = await ask(browser);
    expect(options).not.toContain(member.key.id);
    expect((await give(browser, member.key.use(options))).status).toBe(422);
    const answer = second.use(await ask(browser), { counter: 0 });
    expect((await give(browser, second.use(await ask(browser)))).status).toBe(303);
    await server.sql('DELETE FROM attempts');
    pass(5 * MINUTE_MS + 1);
    expect((await give(browser, answer)).status).toBe(422);
  });
});

describe('devices end', () => {
  test('with the last one: a tenant that requires one has another set up at the next page', async () => {
    const tenant = await server.newTenant();
    const member = await enrol({ tenant });
    const json = { name: 'Strict', settings: { require_second_factor: 'true' } };
    expect((await server.request('PUT', '/tenants/self', { key: tenant.api_key, json })).status).toBe(200);
    expect((await member.get('/console/tokens')).status).toBe(200);
    expect(placeOf(await remove(member, 'Phone'))).toBe(ACCOUNT);
    expect(placeOf(await member.get('/console/tokens'))).toBe(ACCOUNT);
    const [user] = await server.sql('SELECT * FROM users WHERE id = $1', [member.user_id]);
    expect([user.second_factor_since, user.recovery_digests]).toEqual([null, []]);
    expect(await add(member, newAuthenticator(ORIGIN))).toHaveLength(10);
    expect((await member.get('/console/tokens')).status).toBe(200);
    const key = { key: tenant.api_key };
    const { body } = await server.request('GET', `/logs?entity_id=${member.member_id}&size=50`, key);
    expect(body.data.map(({ message }: { message: string }) => message)).toContain('Passkey removed');
  });

  test('with a reset, also where a writer of the database puts the rows back', async () => {
    const member = await enrol();
    await resetSecondFactor(server.ctx, member.email);
    expect(await passkeyRows(member.user_id)).toEqual([]);
    expect(placeOf(await member.get('/console/tokens'))).toContain('/console/sign-in');
    expect((await (await passwordGiven(member)).get('/console/tokens')).status).toBe(200);

    const other = await enrol();
    await server.sql(
      `UPDATE users SET second_factor = NULL, second_factor_since = NULL, second_factor_step = NULL, recovery_digests = '{}' WHERE id = $1`,
      [other.user_id],
    );
    await server.sign(other.user_id, 'users');
    await server.sql('DELETE FROM sessions WHERE user_id = $1', [other.user_id]);
    const browser = await passwordGiven(other);
    expect((await browser.get('/console/tokens')).status).toBe(200);
    pass(1_000);
    await addApp(browser);
    const later = await passwordGiven(other);
    expect((await later.get(CODE_PATH)).text).not.toContain('data-options');
    expect((await browser.get(ACCOUNT)).text).not.toContain('Remove Phone');
  });

  test('with the user: no row is left', async () => {
    const [admin, member] = [await newMember(), await enrol()];
    await admin.get('/console/people');
    expect((await admin.post(`/console/people/members/${member.member_id}/remove`)).status).toBe(303);
    expect(await passkeyRows(member.user_id)).toEqual([]);
  });
});

describe.skipIf(!isInstalled('chromium'))('in Chromium, at http://localhost', () => {
  let local: ConsoleServer;
  let chromium: Chromium;
  beforeAll(async () => {
    local = await startConsole();
    chromium = await launchChromium();
  });
  afterAll(async () => {
    await chromium?.close();
    await local?.close();
  });

  test('a member adds a passkey, signs in with it, and gives it again', async () => {
    const { email, member_id } = await local.signIn();
    const person = await openPerson(chromium, local.base_url.replace('127.0.0.1', 'localhost'));
    const { page } = person;
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('WebAuthn.enable');
    await devtools.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
      },
    });
    const signIn = async (): Promise<void> => {
      await page.goto('/console/account');
      await page.getByLabel('E-mail address').fill(email);
      await page.getByLabel('Password').fill(PASSWORD);
      await page.keyboard.press('Enter');
    };
    const start = async (): Promise<void> => {
      await page.getByLabel('Name of the passkey').fill('Laptop');
      await page.locator('form', { hasText: 'Add a passkey' }).getByLabel('Your password').fill(PASSWORD);
      await page.getByRole('button', { name: 'Continue' }).click();
      await page.getByRole('button', { name: 'Create the passkey' }).click();
    };
    await signIn();
    await start();
    await page.getByRole('heading', { name: 'Recovery codes' }).waitFor();
    await page.goto('/console/account');
    await page.getByRole('cell', { name: 'Laptop' }).waitFor();
    await person.picture('account-passkey');
    // The authenticator has one already.
    await start();
    await page.getByText('has a passkey of your account already').waitFor();

    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL('**/console/sign-in');
    await signIn();
    await page.waitForURL('**/console/second-factor?*');
    await person.picture('second-factor');
    await page.getByRole('button', { name: 'Use a passkey' }).click();
    await page.waitForURL('**/console/account');

    local.clock.offsetMs = 11 * MINUTE_MS;
    await page.goto('/console/people');
    await page.getByLabel('E-mail address').fill('someone@example.com');
    await page.getByRole('button', { name: 'Invite' }).click();
    await page.waitForURL('**/console/second-factor?*');
    await page.getByRole('button', { name: 'Use a passkey' }).focus();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/console/people');
    await page.getByLabel('E-mail address').fill('someone@example.com');
    await page.getByRole('button', { name: 'Invite' }).click();
    await page.getByText('The invitation was sent.').waitFor();
    const { body } = await local.request('GET', `/logs?entity_id=${member_id}&size=50`);
    const messages = body.data.map(({ message }: { message: string }) => message);
    expect(messages.filter((message: string) => message === 'Passkey used')).toHaveLength(2);
    expect(person.faults).toEqual([]);
    await person.close();
  });
});
