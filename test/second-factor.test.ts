// The second factor of members in the console: setting up, signing in, recovery, requirement, reset, and asking again.
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { resetSecondFactor } from '../src/modules/people/members.ts';
import { type Browser, type ConsoleServer, fieldIn, startConsole, textOf } from './support/console.ts';
import { PASSWORD } from './support/people.ts';

const MINUTE_MS = 60_000;
const CODE_PATH = '/console/second-factor';
const ACCOUNT = '/console/account';

let server: ConsoleServer;
let atMs = Date.now();
const pass = (ms: number): void => void (atMs += ms);

beforeAll(async () => {
  server = await startConsole({ RATE_LIMIT: 'on' }, { now: () => new Date(atMs) });
});
afterAll(() => server.close());

/** Found by the time of creation: no two at one time. */
const newMember: ConsoleServer['signIn'] = (options) => {
  pass(1_000);
  return server.signIn(options);
};

const codeOf = (key: string, afterMs = 0): string =>
  new TOTP({ secret: Secret.fromBase32(key) }).generate({ timestamp: atMs + afterMs });

const wrongOf = (code: string): string => String((Number(code) + 500_000) % 1_000_000).padStart(6, '0');

type Enrolled = Browser & { key: string; recovery: string[] };

/** A key that the account page offers, after the password. */
const offer = async (browser: Pick<Browser, 'get' | 'post' | 'follow'>): Promise<string> => {
  await browser.get(ACCOUNT);
  const page = await browser.follow(await browser.post(`${ACCOUNT}/second-factor`, { current_password: PASSWORD }));
  expect(page.text).toContain('<svg role="img"');
  return /data-key>([A-Z2-7]{32})</.exec(page.text)?.[1] ?? '';
};

const confirm = async (browser: Pick<Browser, 'post'>, key: string): Promise<string[]> => {
  const { status, text } = await browser.post(`${ACCOUNT}/second-factor/confirm`, { code: codeOf(key) });
  expect(status, text).toBe(200);
  return textOf(text).match(/[A-Z2-7]{4}(?:-[A-Z2-7]{4}){3}/g) ?? [];
};

const enrol = async (browser: Browser): Promise<Enrolled> => {
  const key = await offer(browser);
  return { ...browser, key, recovery: await confirm(browser, key) };
};

/** Another browser, in which the password was given. */
const passwordGiven = async ({ email }: Pick<Browser, 'email'>) => {
  const browser = server.anonymous();
  const answer = await browser.post('/console/sign-in', { email, password: PASSWORD });
  expect(answer.status, answer.text).toBe(303);
  const console = await browser.get('/console/tokens');
  return { ...browser, location: console.headers.get('location'), status: console.status };
};

/** What the settings page does, without its other fields. */
const setRequired = async (member: Pick<Browser, 'get' | 'post'>, require_second_factor: string) => {
  const { text } = await member.get('/console/settings');
  const fields = { name: fieldIn(text, 'name') ?? '', seen: fieldIn(text, 'seen') ?? '' };
  return member.post('/console/settings', { ...fields, require_second_factor });
};

const placeOf = (answer: { headers: Headers }): string | null => answer.headers.get('location');

const toCode = (next: string): string => `${CODE_PATH}?next=${encodeURIComponent(next)}`;

const messagesOf = async (member_id: string): Promise<string[]> => {
  const { body } = await server.request('GET', `/logs?entity_id=${member_id}&size=50`);
  return body.data.map(({ message }: { message: string }) => message);
};

describe('a device', () => {
  test('is set up by the password and a first code, and other sessions then ask for a code', async () => {
    const browser = await newMember();
    const other = await passwordGiven(browser);
    expect(other.location).toBe(null);
    await browser.get(ACCOUNT);
    const refused = await browser.post(`${ACCOUNT}/second-factor`, { current_password: 'not my password' });
    expect([refused.status, refused.text]).toEqual([422, expect.stringContaining('not your password')]);
    const key = await offer(browser);
    const wrong = await browser.post(`${ACCOUNT}/second-factor/confirm`, { code: wrongOf(codeOf(key)) });
    expect([wrong.status, wrong.text]).toEqual([422, expect.stringContaining('This code is wrong')]);
    expect(placeOf(await other.get('/console/tokens'))).toBe(null);
    const recovery = await confirm(browser, key);
    expect(new Set(recovery).size).toBe(10);
    expect(placeOf(await other.get('/console/tokens'))).toBe(toCode('/console/tokens'));
    expect((await browser.get('/console/tokens')).status).toBe(200);
    const account = await browser.get(ACCOUNT);
    for (const secret of [key, ...recovery]) expect(account.text).not.toContain(secret);
    const [row] = await server.sql('SELECT * FROM users WHERE id = $1', [browser.user_id]);
    const secretBytes = Buffer.from(Secret.fromBase32(key).buffer);
    expect(row.second_factor.includes(secretBytes)).toBe(false);
    expect(row.recovery_digests).toHaveLength(10);
    expect(await messagesOf(browser.member_id)).toContain('Second factor added');
  });

  test('asks for its code after the password, and lets nothing else through before', async () => {
    const member = await enrol(await newMember());
    const browser = await passwordGiven(member);
    expect(browser.location).toBe(toCode('/console/tokens'));
    for (const path of [ACCOUNT, '/console/people', '/console/password'])
      expect(placeOf(await browser.get(path))).toBe(toCode(path));
    await browser.get(CODE_PATH);
    const form = await browser.post('/console/people/invitations', { email: 'more@example.com' });
    expect(placeOf(form)).toBe(toCode('/console/people/invitations'));
    pass(MINUTE_MS);
    const wrong = await browser.post(CODE_PATH, { code: wrongOf(codeOf(member.key)), next: '/console/people' });
    expect([wrong.status, wrong.text]).toEqual([422, expect.stringContaining('wrong')]);
    expect(placeOf(await browser.get('/console/people'))).toBe(toCode('/console/people'));
    const right = await browser.post(CODE_PATH, {
      code: ` ${codeOf(member.key).replace(/^.{3}/, '$& ')}`,
      next: '/console/people',
    });
    expect([right.status, placeOf(right)]).toEqual([303, '/console/people']);
    expect((await browser.get('/console/people')).status).toBe(200);
    await server.ctx.refusals.finishBackground();
    const messages = await messagesOf(member.member_id);
    expect(messages).toContain('Second factor given');
    expect(messages).toContain('Sign-in failed');
  });

  test('may be off by one step of 30 seconds, and each code works once', async () => {
    const member = await enrol(await newMember());
    pass(5 * MINUTE_MS);
    const browser = await passwordGiven(member);
    await browser.get(CODE_PATH);
    const give = async (code: string) => (await browser.post(CODE_PATH, { code })).status;
    expect(await give(codeOf(member.key, -60_000))).toBe(422);
    expect(await give(codeOf(member.key, 60_000))).toBe(422);
    const early = codeOf(member.key, -30_000);
    expect(await give(early)).toBe(303);
    expect(await give(early)).toBe(422);
    expect(await give(codeOf(member.key))).toBe(303);
    expect(await give(codeOf(member.key, 30_000))).toBe(303);
    expect(await give(codeOf(member.key))).toBe(422);
    // At once, in two browsers: one of them is let in.
    pass(5 * MINUTE_MS);
    const code = codeOf(member.key);
    const others = await Promise.all([passwordGiven(member), passwordGiven(member)]);
    const answers = await Promise.all(
      others.map(async (each) => {
        await each.get(CODE_PATH);
        return (await each.post(CODE_PATH, { code })).status;
      }),
    );
    expect(answers.toSorted()).toEqual([303, 422]);
  });

  test('is replaced by a recovery code, once', async () => {
    const member = await enrol(await newMember());
    const [first = '', second = ''] = member.recovery;
    const one = await passwordGiven(member);
    await one.get(CODE_PATH);
    expect((await one.post(CODE_PATH, { code: first.toLowerCase().replaceAll('-', ' ') })).status).toBe(303);
    expect((await one.get(ACCOUNT)).text).toContain('9 recovery codes');
    const other = await passwordGiven(member);
    await other.get(CODE_PATH);
    expect((await other.post(CODE_PATH, { code: first })).status).toBe(422);
    expect((await other.post(CODE_PATH, { code: second })).status).toBe(303);
    expect(await messagesOf(member.member_id)).toContain('Recovery code used');
  });

  test('counts wrong codes of an account in all browsers, and refuses more than ten', async () => {
    const member = await enrol(await newMember());
    pass(5 * MINUTE_MS);
    const browser = await passwordGiven(member);
    await browser.get(CODE_PATH);
    const statuses: number[] = [];
    for (let count = 0; count < 11; count += 1)
      statuses.push((await browser.post(CODE_PATH, { code: wrongOf(codeOf(member.key)) })).status);
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 422), 429]);
    const other = await passwordGiven(member);
    await other.get(CODE_PATH);
    expect((await other.post(CODE_PATH, { code: codeOf(member.key) })).status).toBe(429);
    pass(31 * MINUTE_MS);
    const later = await passwordGiven(member);
    await later.get(CODE_PATH);
    expect((await later.post(CODE_PATH, { code: codeOf(member.key) })).status).toBe(303);
  });

  test('is not of another user: a secret that was moved does not open', async () => {
    const [one, other] = [await enrol(await newMember()), await enrol(await newMember())];
    await server.sql('UPDATE users SET second_factor = (SELECT second_factor FROM users WHERE id = $2) WHERE id = $1', [
      one.user_id,
      other.user_id,
    ]);
    // As if its row were signed: the seal of the secret alone refuses it.
    await server.sign(one.user_id, 'users');
    pass(5 * MINUTE_MS);
    const browser = await passwordGiven(one);
    await browser.get(CODE_PATH);
    expect((await browser.post(CODE_PATH, { code: codeOf(other.key) })).status).toBe(500);
    expect(placeOf(await browser.get('/console/tokens'))).toBe(toCode('/console/tokens'));
  });
});

describe('a lost device', () => {
  test('is reset by the operator, which ends all sessions', async () => {
    const member = await enrol(await newMember());
    await resetSecondFactor(server.ctx, member.email);
    expect(placeOf(await member.get('/console/tokens'))).toContain('/console/sign-in');
    expect((await passwordGiven(member)).status).toBe(200);
    expect(await messagesOf(member.member_id)).toContain('Second factor removed');
    await expect(resetSecondFactor(server.ctx, member.email)).rejects.toThrow('No account with a second factor');
  });

  test('is reset by an administrator, but not of a member of other tenants, or for oneself', async () => {
    const [admin, member] = [await newMember(), await enrol(await newMember())];
    await admin.get('/console/people');
    const reset = (id: string) => admin.post(`/console/people/members/${id}/second-factor/reset`);
    expect((await reset(admin.member_id)).status).toBe(422);
    expect(placeOf(await reset(member.member_id))).toBe('/console/people?done=second-factor');
    expect((await passwordGiven(member)).status).toBe(200);
    expect((await reset(member.member_id)).status).toBe(422);

    const second = await server.newTenant();
    const shared = await enrol(await newMember());
    await server.signIn({ email: shared.email, tenant: second });
    const refused = await reset(shared.member_id);
    expect([refused.status, refused.text]).toEqual([422, expect.stringContaining('Only the operator')]);
    expect((await passwordGiven(shared)).location).toBe(toCode('/console/tokens'));
  });
});

describe('asking again', () => {
  test('comes before a value, people and keys when the code is older than ten minutes', async () => {
    const { body } = await server.request('POST', '/tokens', { json: { type: 'token', data: 'a value to reveal' } });
    const member = await enrol(await newMember());
    const page = `/console/tokens/${body.id}`;
    await member.get(page);
    expect((await member.post(`${page}/reveal`)).text).toContain('a value to reveal');
    pass(11 * MINUTE_MS);
    expect((await member.get(page)).status).toBe(200);
    const forms: [string, Record<string, string>][] = [
      [`${page}/reveal`, {}],
      ['/console/people/invitations', { email: 'late@example.com' }],
      [`/console/people/members/${member.member_id}/role`, { role: 'SUPPORT' }],
      ['/console/applications/new', {}],
      [`${ACCOUNT}/second-factor/remove`, {}],
    ];
    for (const [path, fields] of forms) {
      const answer = await member.post(path, fields);
      expect([answer.status, placeOf(answer)], path).toEqual([303, toCode(path)]);
    }
    await member.get(toCode(`${page}/reveal`));
    const given = await member.post(CODE_PATH, { code: codeOf(member.key), next: `${page}/reveal` });
    expect(placeOf(await member.get(placeOf(given) ?? ''))).toBe(page);
    expect((await member.post(`${page}/reveal`)).text).toContain('a value to reveal');
  });

  test('leaves members without a device alone, and ends when the device is removed', async () => {
    const without = await newMember();
    pass(11 * MINUTE_MS);
    await without.get('/console/people');
    const invited = await without.post('/console/people/invitations', { email: 'someone-new@example.com' });
    expect(placeOf(invited)).toContain('/console/people');
    const member = await enrol(await newMember());
    expect(placeOf(await member.post(`${ACCOUNT}/second-factor/remove`))).toBe(ACCOUNT);
    expect((await passwordGiven(member)).status).toBe(200);
  });
});

describe('a tenant that requires it', () => {
  const require = async (tenant: { api_key: string }, value: string) => {
    const { status, text } = await server.request('PUT', '/tenants/self', {
      key: tenant.api_key,
      json: { name: 'Strict', settings: { require_second_factor: value } },
    });
    expect(status, text).toBe(200);
  };

  test('lets a member set up a device first, and leaves API keys alone', async () => {
    const tenant = await server.newTenant();
    const member = await newMember({ tenant });
    await require(tenant, 'true');
    for (const path of ['/console', '/console/tokens', '/console/people'])
      expect(placeOf(await member.get(path))).toBe(ACCOUNT);
    const browser = await passwordGiven(member);
    expect(browser.location).toBe(ACCOUNT);
    await browser.get(ACCOUNT);
    expect(placeOf(await browser.post('/console/people/invitations', { email: 'x@example.com' }))).toBe(ACCOUNT);
    expect((await server.request('GET', '/tenants/self', { key: tenant.api_key })).status).toBe(200);
    await enrol(member);
    expect((await member.get('/console/tokens')).status).toBe(200);
    // A key makes it stricter alone.
    for (const settings of [{ require_second_factor: 'false' }, {}]) {
      const json = { name: 'Strict', settings };
      expect((await server.request('PUT', '/tenants/self', { key: tenant.api_key, json })).status).toBe(403);
    }
    expect(placeOf(await setRequired(member, 'false'))).toBe('/console/settings?done=saved');
    expect((await passwordGiven(await newMember({ tenant }))).status).toBe(200);
  });

  test('is every tenant where the server says it, unless its settings say otherwise', async () => {
    const strict = await startConsole({ REQUIRE_SECOND_FACTOR: 'on' }, { now: () => new Date(atMs) });
    try {
      const member = await strict.signIn();
      expect(placeOf(await member.get('/console/tokens'))).toBe(ACCOUNT);
      const json = { name: 'Lenient', settings: { require_second_factor: 'false' } };
      expect((await strict.request('PUT', '/tenants/self', { json })).status).toBe(403);
      await enrol(member);
      expect(placeOf(await setRequired(member, 'false'))).toBe('/console/settings?done=saved');
      pass(1_000);
      expect((await (await strict.signIn()).get('/console/tokens')).status).toBe(200);
    } finally {
      await strict.close();
    }
  });
});
