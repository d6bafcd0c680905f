// Who has a member's password alone ends none of the member's sessions, and keeps no one out: neither by codes nor by passkeys.
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { newAuthenticator } from '../support/authenticator.ts';
import { type ConsoleServer, startConsole, textOf, unescaped } from '../support/console.ts';
import { invite, openBrowser, PASSWORD } from '../support/people.ts';
import type { Answer } from '../support/server.ts';

const MINUTE_MS = 60_000;
const ORIGIN = 'https://vault.example.com';
const CODE_PATH = '/console/second-factor';
const ACCOUNT = '/console/account';
const HOME = '203.0.113.7';
const ATTACKER = '198.51.100.9';

let server: ConsoleServer;
let atMs = Date.now();
let count = 0;
const pass = (ms: number): void => void (atMs += ms);

beforeAll(async () => {
  server = await startConsole(
    { RATE_LIMIT: 'on', PUBLIC_URL: ORIGIN, TRUSTED_PROXIES: '127.0.0.0/8' },
    { now: () => new Date(atMs) },
  );
});
afterAll(() => server.close());
// Counts of one test end before the next.
beforeEach(() => pass(25 * 60 * MINUTE_MS));

/** A browser at a place, whose pages bring the token of their forms along. */
const openAt = (ip: string) => {
  const browser = openBrowser(server);
  const from = { 'x-forwarded-for': ip };
  let csrf = '';
  const read = (answer: Answer): Answer => {
    csrf = /name="csrf" value="([^"]+)"/.exec(answer.text)?.[1] ?? csrf;
    return answer;
  };
  return {
    get: async (path: string) => read(await browser.get(path, from)),
    post: async (path: string, fields: Record<string, string> = {}) =>
      read(await browser.post(path, { ...(csrf !== '' && { csrf }), ...fields }, from)),
  };
};

type Pages = ReturnType<typeof openAt>;

const codeOf = (key: string): string =>
  new TOTP({ secret: Secret.fromBase32(key) }).generate({ timestamp: (pass(MINUTE_MS), atMs) });

const join = async (ip: string): Promise<{ email: string; browser: Pages }> => {
  count += 1;
  const email = `owner-${count}@example.com`;
  const { path } = await invite(server, email);
  const browser = openAt(ip);
  const joined = await browser.post(path, { first_name: 'Ada', last_name: '', password: PASSWORD });
  expect(joined.status, joined.text).toBe(303);
  return { email, browser };
};

/** A member with an app, who has given a code at home. */
const newOwner = async (): Promise<{ email: string; browser: Pages; key: string }> => {
  const { email, browser } = await join(HOME);
  await browser.get(ACCOUNT);
  await browser.post(`${ACCOUNT}/second-factor`, { current_password: PASSWORD });
  const [, key = ''] = /data-key>([A-Z2-7]{32})</.exec((await browser.get(ACCOUNT)).text) ?? [];
  const confirmed = await browser.post(`${ACCOUNT}/second-factor/confirm`, { code: codeOf(key) });
  expect(confirmed.status, confirmed.text).toBe(200);
  return { email, browser, key };
};

const trySignIn = async (
  email: string,
  ip: string,
  password = PASSWORD,
): Promise<{ browser: Pages; status: number }> => {
  const browser = openAt(ip);
  const { status } = await browser.post('/console/sign-in', { email, password });
  return { browser, status };
};

/** A browser in which the password was given. */
const passwordGiven = async (email: string, ip: string): Promise<Pages> => {
  const { browser, status } = await trySignIn(email, ip);
  expect(status).toBe(303);
  await browser.get(CODE_PATH);
  return browser;
};

const isWhole = async (browser: Pages): Promise<boolean> => (await browser.get('/console/tokens')).status === 200;

const tryCodes = async (browser: Pages, times: number): Promise<number[]> => {
  const statuses: number[] = [];
  for (let each = 0; each < times; each += 1) statuses.push((await browser.post(CODE_PATH, { code: '000000' })).status);
  return statuses;
};

describe('sessions', () => {
  test('that wait for the second factor end none that have it, and the newest of them wait', async () => {
    const { email, browser, key } = await newOwner();
    const waiting: Pages[] = [];
    for (let each = 0; each < 21; each += 1) {
      waiting.push(await passwordGiven(email, ATTACKER));
      pass(1_000);
    }
    expect(await isWhole(browser)).toBe(true);
    expect((await waiting.at(-1)?.get(CODE_PATH))?.status).toBe(200);
    // Sessions are remembered for a moment.
    await expect
      .poll(async () => String((await waiting[0]?.get(CODE_PATH))?.headers.get('location')))
      .toContain('/console/sign-in');
    const another = await passwordGiven(email, HOME);
    expect((await another.post(CODE_PATH, { code: codeOf(key) })).status).toBe(303);
    expect([await isWhole(another), await isWhole(browser)]).toEqual([true, true]);
  });

  test('that have the second factor are twenty at most', async () => {
    const { email, browser, key } = await newOwner();
    for (let each = 0; each < 20; each += 1) {
      const more = await passwordGiven(email, HOME);
      expect((await more.post(CODE_PATH, { code: codeOf(key) })).status).toBe(303);
    }
    expect((await browser.get('/console/tokens')).headers.get('location')).toContain('/console/sign-in');
  });
});

describe('wrong codes of others', () => {
  test('keep no one out where they have given the second factor before', async () => {
    const { email, key } = await newOwner();
    const attacker = await passwordGiven(email, ATTACKER);
    expect((await tryCodes(attacker, 11)).at(-1)).toBe(429);
    const home = await passwordGiven(email, HOME);
    expect((await home.post(CODE_PATH, { code: codeOf(key) })).status).toBe(303);
    // For those who only know the password, the account is closed wherever they are, also after the owner has signed in.
    for (const ip of ['198.51.100.10', '198.51.100.11'])
      expect(await tryCodes(await passwordGiven(email, ip), 1)).toEqual([429]);
    // The password alone has made no place known.
    expect(await tryCodes(attacker, 1)).toEqual([429]);
  });

  test('are ten in a while and fifty in a day, from all places together', async () => {
    const { email } = await newOwner();
    const tried: number[] = [];
    for (let round = 0; round < 8; round += 1) {
      const places = [0, 1, 2].map((each) => `198.51.${round}.${each}`);
      for (const ip of places) tried.push(...(await tryCodes(await passwordGiven(email, ip), 6)));
      pass(31 * MINUTE_MS);
    }
    expect(tried.filter((status) => status === 422)).toHaveLength(50);
    expect(new Set(tried)).toEqual(new Set([422, 429]));
  });

  test('at a known place count there', async () => {
    const { email, key } = await newOwner();
    const home = await passwordGiven(email, HOME);
    expect((await tryCodes(home, 11)).at(-1)).toBe(429);
    pass(31 * MINUTE_MS);
    const later = await passwordGiven(email, HOME);
    expect((await later.post(CODE_PATH, { code: codeOf(key) })).status).toBe(303);
  });
});

test('a passkey works at any place, whatever others have tried', async () => {
  const { email, browser } = await newOwner();
  const passkey = newAuthenticator(ORIGIN);
  const optionsIn = ({ text }: Answer): string => unescaped(/data-options="([^"]+)"/.exec(text)?.[1] ?? '');
  await browser.get(ACCOUNT);
  const started = await browser.post(`${ACCOUNT}/passkeys/new`, { name: 'Phone', current_password: PASSWORD });
  const added = await browser.post(`${ACCOUNT}/passkeys`, {
    name: 'Phone',
    answer: passkey.create(optionsIn(started)),
  });
  expect([200, 303], textOf(added.text)).toContain(added.status);
  const attacker = await passwordGiven(email, ATTACKER);
  expect((await tryCodes(attacker, 11)).at(-1)).toBe(429);
  for (let each = 0; each < 60; each += 1)
    expect((await attacker.post(`${CODE_PATH}/passkey`, { answer: '{}' })).status).toBe(422);
  for (const ip of [HOME, '192.0.2.77', ATTACKER]) {
    const own = await passwordGiven(email, ip);
    const answer = passkey.use(optionsIn(await own.get(CODE_PATH)));
    expect((await own.post(`${CODE_PATH}/passkey`, { answer })).status).toBe(303);
    expect(await isWhole(own)).toBe(true);
  }
});

test('who has joined at a place signs in there, whatever others have tried elsewhere', async () => {
  const { email } = await join(HOME);
  for (let place = 0; place < 11; place += 1)
    for (let each = 0; each < 10; each += 1) await trySignIn(email, `198.51.100.${place}`, 'not the password');
  expect((await trySignIn(email, '192.0.2.1')).status).toBe(429);
  expect((await trySignIn(email, HOME)).status).toBe(303);
});
