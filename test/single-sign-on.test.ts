// Single sign-on in the console against a real OpenID Connect provider: the whole flow, its bounds, and what attackers try.
import { Secret, TOTP } from 'otpauth';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { digestOfAddress } from '../src/modules/people/address.ts';
import { bindDomain } from '../src/modules/people/sso/domains.ts';
import { inviteOwner } from '../src/modules/people/bootstrap.ts';
import { ssoDigest } from '../src/platform/crypto/digest.ts';
import { testCa } from './support/certificates.ts';
import { callCommand } from './support/command.ts';
import { type Browser, type ConsoleServer, startConsole, textOf } from './support/console.ts';
import { type Account, foreignKey, type OidcProvider, openProviderBrowser, startOidcProvider } from './support/oidc.ts';
import { COOKIE, invite, openBrowser, PASSWORD, signIn as signInByPassword, takeLink } from './support/people.ts';
import { type Answer, TEST_ROOT_KEY, type TestTenant } from './support/server.ts';

const MINUTE_MS = 60_000;
const DOMAIN = 'corp.example';
const HOST = 'login.sso.test';
const SETTINGS = '/console/single-sign-on';

let server: ConsoleServer;
let provider: OidcProvider;
let other: TestTenant;
let admin: Browser;
let count = 0;

/** The clock of the vault and of the provider, which run in this process. */
const pass = (ms: number): void => void vi.setSystemTime(Date.now() + ms);

const callbackOf = (tenant_id: string): string => `${server.base_url}/console/sso/${tenant_id}/callback`;

/** Where a page leads the browser at once. */
const refreshOf = (answer: Answer): string =>
  /^0; url=(.+)$/.exec(answer.headers.get('refresh') ?? '')?.[1] ??
  expect.fail(`no refresh: ${answer.status} ${answer.text}`);

/** Found by the time of creation: no two at one time. */
const newMember: ConsoleServer['signIn'] = (options) => {
  pass(1_000);
  return server.signIn(options);
};

const settings = (more: Record<string, string> = {}): Record<string, string> => ({
  issuer: provider.issuer,
  ...provider.client,
  default_role: 'DEVELOPER',
  trusts_second_factor: 'true',
  allows_passwords: 'true',
  ...more,
});

const save = async (more: Record<string, string> = {}, by: Pick<Browser, 'get' | 'post'> = admin): Promise<Answer> => {
  await by.get(SETTINGS);
  return by.post(SETTINGS, settings(more));
};

/** A person of the domain, who has not been seen before. */
const person = (more: Partial<Account> = {}): Account => {
  count += 1;
  const email = `person-${count}@${DOMAIN}`;
  return { sub: `subject-${count}`, email, email_verified: true, given_name: 'Grace', family_name: 'Hopper', ...more };
};

const open = () => ({ vault: openBrowser(server), provider: openProviderBrowser(provider) });

type Browsers = ReturnType<typeof open>;

/** From the page to sign in to the provider. */
const begin = async ({ vault }: Browsers, email: string, next = ''): Promise<string> => {
  const answer = await vault.post('/console/sign-in', { email, sso: '1', next });
  expect(answer.status, answer.text).toBe(200);
  return refreshOf(answer);
};

/** The callback that the provider leads to, as a path of the vault. */
const visitProvider = async (
  { provider: browser }: Browsers,
  url: string,
  who: Account | undefined,
): Promise<string> => {
  provider.person = who;
  const visited = await browser.follow(url);
  if (!('leftFor' in visited)) return expect.fail(`the provider kept the browser: ${visited.status} ${visited.text}`);
  expect(visited.leftFor.startsWith(server.base_url)).toBe(true);
  return visited.leftFor.slice(server.base_url.length);
};

/** The answer of the vault to the callback. */
const attempt = async (who: Account, browsers: Browsers = open(), email = who.email ?? ''): Promise<Answer> =>
  browsers.vault.get(await visitProvider(browsers, await begin(browsers, email), who));

const signIn = async (who: Account, browsers: Browsers = open()): Promise<Browsers & { email: string }> => {
  const answer = await attempt(who, browsers);
  expect(answer.status, textOf(answer.text)).toBe(200);
  expect(refreshOf(answer)).toBe('/console');
  expect(await browsers.vault.isSignedIn()).toBe(true);
  return { ...browsers, email: who.email ?? '' };
};

/** Signs in once more. @returns where the vault leads to instead of the page of tokens. */
const signInPending = async (who: Account, browsers: Browsers): Promise<string | null> => {
  await attempt(who, browsers);
  return (await browsers.vault.get('/console/tokens')).headers.get('location');
};

const memberOf = async (sub: string): Promise<{ id: string; user_id: string; role: string } | undefined> => {
  const digest = ssoDigest(server.ctx.pepper, 'subject', server.tenant.tenant_id, provider.issuer, sub);
  const rows = await server.sql(
    'SELECT m.id, m.user_id, m.role FROM sso_identities i JOIN members m ON m.id = i.member_id WHERE i.digest = $1',
    [digest],
  );
  return rows[0];
};

const logsOf = async (entity_id: string): Promise<string[]> => {
  const { body } = await server.request('GET', `/logs?entity_id=${entity_id}&size=50`);
  return body.data.map(({ message }: { message: string }) => message);
};

/** Failed sign-ins of the tenant so far, once the rows in the background are written. */
const failures = async (): Promise<number> => {
  await server.ctx.refusals.finishBackground();
  const sql = "SELECT count(*)::int AS n FROM audit_log WHERE tenant_id = $1 AND message = 'Sign-in failed'";
  return (await server.sql(sql, [server.tenant.tenant_id]))[0].n;
};

/** A callback that must not open a session, and must be in the log. */
const expectRefused = async (
  browsers: Browsers,
  path: string,
  sentence: string | RegExp,
  status = 403,
): Promise<Answer> => {
  const before = await failures();
  const answer = await browsers.vault.get(path);
  expect([answer.status, textOf(answer.text)]).toEqual([status, expect.stringMatching(sentence)]);
  expect(answer.headers.getSetCookie().filter((line) => line.startsWith(`${COOKIE}=`))).toEqual([]);
  expect(browsers.vault.cookies.has(COOKIE)).toBe(false);
  await expect.poll(failures).toBe(before + 1);
  return answer;
};

/** The operator's command. */
const cli = (...args: string[]) =>
  callCommand(['sso', ...args], {
    env: { NODE_ENV: 'test', DATABASE_URL: server.databaseUrl, MASTER_KEY: TEST_ROOT_KEY, DATA_DIR: '/tmp/none' },
  });

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
  provider = await startOidcProvider(HOST);
  server = await startConsole(
    { EGRESS_PRIVATE_HOSTS: `${HOST}:${provider.port}` },
    { ca: [testCa], resolve: async () => ['127.0.0.1'], now: () => new Date(), egressTimeouts: { wholeMs: 1_500 } },
  );
  other = await server.newTenant({ name: 'Other' });
  provider.register({
    redirect: [callbackOf(server.tenant.tenant_id), callbackOf(other.tenant_id)],
    signOut: [`${server.base_url}/console/sign-in`],
  });
  admin = await newMember({ email: 'admin@elsewhere.example' });
  await bindDomain(server.ctx, server.tenant.tenant_id, DOMAIN);
  const saved = await save();
  expect([saved.status, saved.headers.get('location')]).toEqual([303, `${SETTINGS}?done=saved`]);
});
afterAll(async () => {
  vi.useRealTimers();
  await server.close();
  await provider.close();
});
afterEach(() => {
  provider.faults = {};
});

describe('a sign-in', () => {
  test('makes a member by the claims of the provider, and finds them again by the subject', async () => {
    const grace = person();
    const first = await signIn(grace);
    const member = await memberOf(grace.sub);
    expect(member?.role).toBe('DEVELOPER');
    const account = await first.vault.get('/console/account');
    expect(account.status).toBe(200);
    const { body } = await server.request('GET', '/tenants/self/members');
    expect(body.data.find(({ id }: { id: string }) => id === member?.id).user).toMatchObject({
      email: grace.email,
      first_name: 'Grace',
      last_name: 'Hopper',
    });
    const asked = provider.authorizations.at(-1);
    expect(asked?.get('code_challenge_method')).toBe('S256');
    expect(asked?.get('login_hint')).toBe(grace.email);
    // Another address of the domain: the subject counts.
    await signIn({ ...grace, email: `married-${grace.email}` });
    expect(await memberOf(grace.sub)).toEqual(member);
    const messages = await logsOf(member?.id ?? '');
    expect(messages.filter((each) => each === 'Tenant member signed in')).toHaveLength(2);
    expect(messages).toEqual(expect.arrayContaining(['Tenant member created', 'Single sign-on account bound']));
  });

  test('binds a member who has a password already, and leads to the page that was wanted', async () => {
    const email = `ada@${DOMAIN}`;
    const { member_id } = await newMember({ email });
    const browsers = open();
    const url = await begin(browsers, ` ${email.toUpperCase()} `, '/console/logs?page=2');
    const answer = await browsers.vault.get(await visitProvider(browsers, url, person({ sub: 'ada', email })));
    expect(refreshOf(answer)).toBe('/console/logs?page=2');
    expect((await memberOf('ada'))?.id).toBe(member_id);
  });

  test('takes the role of an invitation, which is then accepted, but never makes an owner', async () => {
    await save({ default_role: '' });
    const anonymous = person();
    const browsers = open();
    const path = await visitProvider(browsers, await begin(browsers, anonymous.email ?? ''), anonymous);
    await expectRefused(browsers, path, 'not a member of this tenant');
    const invited = await server.request('POST', '/tenants/self/invitations', {
      json: { email: anonymous.email, role: 'SUPPORT' },
    });
    await signIn(anonymous);
    expect((await memberOf(anonymous.sub))?.role).toBe('SUPPORT');
    expect(await logsOf(invited.body.id)).toContain('Tenant invitation accepted');
    const owner = person();
    await inviteOwner(server.ctx, server.tenant.tenant_id, owner.email ?? '');
    const ofOwner = open();
    const ownerPath = await visitProvider(ofOwner, await begin(ofOwner, owner.email ?? ''), owner);
    await expectRefused(ofOwner, ownerPath, 'not a member of this tenant');
    await save();
  });

  test('opens a session of this tenant alone', async () => {
    const email = `both@${DOMAIN}`;
    await newMember({ email });
    const invited = await server.request('POST', '/tenants/self/invitations', { json: { email }, key: other.api_key });
    const link = await takeLink(server, invited.body.id);
    await openBrowser(server).post(link.path, { first_name: 'B', last_name: '', password: PASSWORD });
    const { vault } = await signIn(person({ sub: 'both', email }));
    const page = await vault.get('/console/people');
    expect(page.text).not.toContain('Other');
    const csrf = /name="csrf" value="([^"]+)"/.exec((await vault.get('/console/account')).text)?.[1] ?? '';
    const switched = await vault.post('/console/tenant', { csrf, tenant_id: other.tenant_id });
    expect(switched.status).toBe(404);
    // Neither may it change what the other tenant relies on.
    const device = await vault.post('/console/account/second-factor', { csrf, current_password: PASSWORD });
    expect([device.status, textOf(device.text)]).toEqual([422, expect.stringContaining('Sign in with your password')]);
    const [user] = await server.sql(
      'SELECT second_factor FROM users u JOIN members m ON m.user_id = u.id WHERE m.id = $1',
      [(await memberOf('both'))?.id],
    );
    expect(user.second_factor).toBe(null);
  });

  test('takes the part of nobody who has an account elsewhere in the vault', async () => {
    const email = `elsewhere@${DOMAIN}`;
    await newMember({ email, tenant: other });
    const browsers = open();
    const path = await visitProvider(browsers, await begin(browsers, email), person({ email }));
    await expectRefused(browsers, path, 'has an account in this vault already');
  });
});

describe('a callback', () => {
  test('works once, in its browser, for its tenant and in time', async () => {
    const browsers = open();
    const path = await visitProvider(browsers, await begin(browsers, `x@${DOMAIN}`), person());
    const anonymous = open();
    await begin(anonymous, `y@${DOMAIN}`);
    await expectRefused(anonymous, path, 'began in another browser');
    await expectRefused(open(), path, 'began in another browser');
    await expectRefused(browsers, path.replace(/state=[^&]+/, `state=${'a'.repeat(43)}`), 'has expired');
    const wrongTenant = path.replace(server.tenant.tenant_id, other.tenant_id);
    expect((await browsers.vault.get(wrongTenant)).status).toBe(403);
    // None of them has used it up.
    expect((await browsers.vault.get(path)).status).toBe(200);
    browsers.vault.cookies.delete(COOKIE);
    await expectRefused(browsers, path, 'was finished before');
    const late = open();
    const latePath = await visitProvider(late, await begin(late, `x@${DOMAIN}`), person());
    pass(11 * MINUTE_MS);
    await expectRefused(late, latePath, 'has expired');
    admin = await newMember();
  });

  test('of a person who cancels is a page that shows nothing of the provider', async () => {
    const browsers = open();
    const path = await visitProvider(browsers, await begin(browsers, `x@${DOMAIN}`), undefined);
    expect(path).toContain('error=access_denied');
    const { text } = await expectRefused(browsers, path, 'you cancelled it there');
    expect(text).not.toContain('the person');
  });

  test('is refused where the database was changed: a flow, an account, a domain', async () => {
    const browsers = open();
    const path = await visitProvider(browsers, await begin(browsers, `x@${DOMAIN}`), person());
    await server.sql("UPDATE sso_flows SET next = '/console/people'");
    await expectRefused(browsers, path, 'has expired');
    const victim = person();
    await signIn(victim);
    const attacker = person();
    await signIn(attacker);
    const row = await memberOf(victim.sub);
    const digest = ssoDigest(server.ctx.pepper, 'subject', server.tenant.tenant_id, provider.issuer, attacker.sub);
    await server.sql('DELETE FROM sso_identities WHERE member_id = $1', [row?.id]);
    await server.sql('UPDATE sso_identities SET member_id = $1 WHERE digest = $2', [row?.id, digest]);
    const again = open();
    await expectRefused(
      again,
      await visitProvider(again, await begin(again, `x@${DOMAIN}`), attacker),
      'cannot sign in',
    );
    expect(server.logLines.join('')).toContain('"alarm":"tampered"');
    // The address of the attacker at another member, whom no account is bound to yet.
    const { member_id } = await newMember({ email: 'no-account@elsewhere.example' });
    const late = person();
    const address_digest = digestOfAddress(server.ctx, late.email ?? '');
    await server.sql('UPDATE members SET address_digest = $2 WHERE id = $1', [member_id, address_digest]);
    const third = open();
    await expectRefused(third, await visitProvider(third, await begin(third, `x@${DOMAIN}`), late), 'cannot sign in');
    // A domain that the operator has not bound.
    await server.sql(
      `INSERT INTO sso_domains (domain, tenant_id, mac, created_at)
       SELECT 'victim.example', tenant_id, mac, created_at FROM sso_domains LIMIT 1`,
    );
    const unbound = await open().vault.post('/console/sign-in', { email: 'a@victim.example', sso: '1' });
    expect([unbound.status, unbound.text]).toEqual([422, expect.stringContaining('No tenant of this vault')]);
    expect((await cli('list')).stdout).toContain('victim.example  (changed in the database: it does not count)');
    expect(await cli('unbind', 'victim.example')).toMatchObject({ code: 0 });
  });
});

describe('tokens that do not hold are refused:', () => {
  const bad: [string, Partial<Account>, NonNullable<OidcProvider['faults']['idToken']> | undefined, string][] = [
    ['another nonce', {}, ({ claims }) => void (claims['nonce'] = 'another'), 'could not be verified'],
    ['no nonce', {}, ({ claims }) => void delete claims['nonce'], 'could not be verified'],
    ['another issuer', {}, ({ claims }) => void (claims['iss'] = 'https://evil.example'), 'could not be verified'],
    ['another audience', {}, ({ claims }) => void (claims['aud'] = 'someone'), 'could not be verified'],
    ['an end in the past', {}, ({ claims }) => void (claims['exp'] -= 7_200), 'could not be verified'],
    ['a key of no one', {}, () => ({ key: foreignKey }), 'could not be verified'],
    ['an unknown key', {}, ({ header }) => void (header['kid'] = 'second'), 'could not be verified'],
    ['no signature', {}, ({ header }) => void (header['alg'] = 'none'), 'could not be verified'],
    ['an address that is not verified', { email_verified: false }, undefined, 'no verified e-mail address'],
    ['no address', { email: undefined as never }, undefined, 'no verified e-mail address'],
    ['an address beyond ASCII', { email: `größe@${DOMAIN}` }, undefined, 'only ASCII characters before the @'],
    ['another domain', { email: 'x@gmail.example' }, undefined, 'does not belong to this tenant'],
    ['a domain below', { email: `x@sub.${DOMAIN}` }, undefined, 'does not belong to this tenant'],
  ];
  test.each(bad)('%s', async (_, account, idToken, sentence) => {
    const browsers = open();
    const who = person(account);
    const path = await visitProvider(browsers, await begin(browsers, `x@${DOMAIN}`), who);
    if (idToken) provider.faults = { idToken };
    await expectRefused(browsers, path, sentence);
    expect(await memberOf(who.sub)).toBe(undefined);
    for (const value of [who.sub, who.email ?? who.sub]) expect(server.logLines.join('')).not.toContain(value);
  });

  test('the address of a member who has another account at the provider', async () => {
    const ada = person();
    await signIn(ada);
    const browsers = open();
    const path = await visitProvider(
      browsers,
      await begin(browsers, `x@${DOMAIN}`),
      person({ email: ada.email ?? '' }),
    );
    await expectRefused(browsers, path, 'signs in by another account');
  });

  test('an error of another provider at this callback', async () => {
    const browsers = open();
    const path = await visitProvider(browsers, await begin(browsers, `x@${DOMAIN}`), person());
    await expectRefused(browsers, path.replace(/iss=[^&]+/, 'iss=https%3A%2F%2Fevil.example'), 'could not be verified');
  });
});

describe('a provider that', () => {
  const answers: [string, NonNullable<OidcProvider['faults']['answer']>][] = [
    ['closes the connection', (request) => void request.socket.destroy()],
    ['does not answer', () => undefined],
    [
      'answers rubbish',
      (_, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello'),
    ],
    ['fails', (_, response) => void response.writeHead(503).end()],
    [
      'answers without an end',
      (_, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(`{"issuer":"${'x'.repeat(300_000)}"}`);
      },
    ],
  ];
  test.each(answers)('%s gets a clear page, at the beginning and at the end', async (_, answer) => {
    const browsers = open();
    const path = await visitProvider(browsers, await begin(browsers, `x@${DOMAIN}`), person());
    provider.faults = { answer };
    await expectRefused(browsers, path, 'does not respond as it should', 502);
    await save();
    const begun = await open().vault.post('/console/sign-in', { email: `x@${DOMAIN}`, sso: '1' });
    expect([begun.status, textOf(begun.text)]).toEqual([502, expect.stringContaining('does not respond as it should')]);
    // Passwords do not depend on it.
    expect(await (await signInByPassword(server, admin.email)).isSignedIn()).toBe(true);
  });

  test('names another issuer is not used', async () => {
    provider.faults = {
      answer: (_, response) =>
        void response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ issuer: 'https://evil.example', authorization_endpoint: 'https://evil.example/auth' })),
    };
    await save();
    const begun = await open().vault.post('/console/sign-in', { email: `x@${DOMAIN}`, sso: '1' });
    expect([begun.status, textOf(begun.text)]).toEqual([403, expect.stringContaining('could not be verified')]);
  });
});

describe('a sensitive operation', () => {
  test('needs a sign-in at the provider of the last ten minutes, by the same person', async () => {
    await save({ default_role: 'ADMIN' });
    const boss = person();
    const browsers = await signIn(boss);
    const { vault } = browsers;
    const create = async () =>
      vault.post('/console/people/invitations', { csrf: await vault.csrf(), email: 'not an address' });
    expect((await create()).status).toBe(400);
    pass(11 * MINUTE_MS);
    const refused = await create();
    const again = '/console/sso/again?next=%2Fconsole%2Fpeople%2Finvitations';
    expect([refused.status, refused.headers.get('location')]).toEqual([303, again]);
    const begun = async () => {
      const csrf = await vault.csrf(again);
      return refreshOf(await vault.post('/console/sso/again', { csrf, next: '/console/people' }));
    };
    const url = await begun();
    expect(new URL(url).searchParams.get('prompt')).toBe('login');
    // Another person at the provider, or a provider that does not ask again, proves nothing.
    const byOther = await vault.get(
      await visitProvider({ ...browsers, provider: openProviderBrowser(provider) }, url, person()),
    );
    expect([byOther.status, textOf(byOther.text)]).toEqual([403, expect.stringContaining('as someone else')]);
    const stalePath = await visitProvider(browsers, await begun(), boss);
    provider.faults = { idToken: ({ claims }) => void (claims['auth_time'] -= 300) };
    expect((await vault.get(stalePath)).status).toBe(403);
    provider.faults = {};
    expect((await create()).status).toBe(303);
    const proven = await vault.get(await visitProvider(browsers, await begun(), boss));
    expect([proven.status, refreshOf(proven)]).toEqual([200, '/console/people']);
    expect((await create()).status).toBe(400);
    const member = await memberOf(boss.sub);
    expect(await logsOf(member?.id ?? '')).toContain('Single sign-on given again');
    admin = await newMember();
    await save();
  });

  test('asks for the device of the vault where the tenant does not trust the provider', async () => {
    await save({ trusts_second_factor: 'false' });
    const settingsOfTenant = { name: 'Test', settings: { require_second_factor: 'true' } };
    await server.request('PUT', '/tenants/self', { json: settingsOfTenant });
    const browsers = open();
    const who = person();
    await attempt(who, browsers);
    const page = await browsers.vault.get('/console/tokens');
    expect([page.status, page.headers.get('location')]).toEqual([303, '/console/account']);
    // The provider proves the member, who has no password.
    const csrf = await browsers.vault.csrf('/console/account');
    expect((await browsers.vault.post('/console/account/second-factor', { csrf })).status).toBe(303);
    const offered = /data-key>([A-Z2-7]{32})</.exec((await browsers.vault.get('/console/account')).text)?.[1] ?? '';
    const code = new TOTP({ secret: Secret.fromBase32(offered) }).generate();
    expect((await browsers.vault.post('/console/account/second-factor/confirm', { csrf, code })).status).toBe(200);
    expect((await browsers.vault.get('/console/tokens')).status).toBe(200);
    const next = await signInPending(who, browsers);
    expect(next).toBe('/console/second-factor?next=%2Fconsole%2Ftokens');
    // A key cannot take it away.
    await server.sql(`UPDATE tenants SET settings = '{}' WHERE id = $1`, [server.tenant.tenant_id]);
    await server.sign(server.tenant.tenant_id);
    await save();
    // A session that began meanwhile goes on asking; one that begins now does not.
    expect((await browsers.vault.get('/console/tokens')).status).toBe(303);
    await signIn(who);
  });
});

describe('sign-out', () => {
  test('ends the session in the vault and at the provider', async () => {
    const { vault, provider: browser } = await signIn(person());
    const csrf = await vault.csrf('/console/account');
    const answer = await vault.post('/console/sign-out', { csrf });
    expect(await vault.isSignedIn()).toBe(false);
    const url = new URL(refreshOf(answer));
    expect(url.searchParams.get('id_token_hint')).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/);
    const page = await browser.follow(url.href);
    if ('leftFor' in page) return expect.fail('the provider did not ask');
    const done = await browser.submit(page, { logout: 'yes' });
    expect(done.headers.location).toMatch(`${server.base_url}/console/sign-in`);
    expect(browser.cookies.has('_session')).toBe(false);
  });

  test('does not need the provider', async () => {
    const { vault } = await signIn(person());
    const csrf = await vault.csrf('/console/account');
    await save();
    provider.faults = { answer: (request) => void request.socket.destroy() };
    const answer = await vault.post('/console/sign-out', { csrf });
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/console/sign-in']);
    expect(await vault.isSignedIn()).toBe(false);
  });

  test('comes with the removal of the member, whose account is then forgotten', async () => {
    const who = person();
    const { vault } = await signIn(who);
    const member = await memberOf(who.sub);
    await server.request('DELETE', `/tenants/self/members/${member?.id}`);
    expect(await vault.isSignedIn()).toBe(false);
    expect(await server.sql('SELECT FROM sso_identities WHERE member_id = $1', [member?.id])).toEqual([]);
  });
});

describe('the settings', () => {
  test('are sealed, never show the secret, and are for administrators', async () => {
    const page = await admin.get(SETTINGS);
    expect(page.text).toContain(provider.issuer);
    expect(page.text).toContain(callbackOf(server.tenant.tenant_id));
    expect(page.text).not.toContain(provider.client.client_secret);
    const [row] = await server.sql('SELECT * FROM sso_providers');
    expect(row.sealed.includes(Buffer.from(provider.issuer))).toBe(false);
    await save({ default_role: 'SUPPORT' });
    const support = await signIn(person());
    for (const path of [SETTINGS, '/console/people']) expect((await support.vault.get(path)).status).toBe(403);
    await save();
    expect(server.logLines.join('')).not.toContain(provider.client.client_secret);
  });

  test('refuse what would give the secret away, lock everyone out, or make an owner', async () => {
    const refused: [Record<string, string>, string][] = [
      [{ issuer: `${provider.issuer}/tenant`, client_secret: '' }, 'given with another issuer'],
      [{ issuer: 'https://127.0.0.1/' }, 'not by an address'],
      [{ issuer: 'http://login.example.com' }, 'must be an https URL'],
      [{ issuer: 'https://login.example.com/?a=b' }, 'without a query'],
      [{ default_role: 'OWNER' }, 'role that members are given'],
      [{ allows_passwords: '' }, 'turned off by a member who is signed in by single sign-on'],
    ];
    for (const [more, sentence] of refused) {
      const answer = await save(more);
      expect([answer.status, textOf(answer.text)]).toEqual([422, expect.stringContaining(sentence)]);
    }
    expect((await save({ client_secret: '' })).status).toBe(303);
  });

  test('may refuse passwords of the domains, in this tenant alone', async () => {
    await save({ default_role: 'ADMIN' });
    const boss = await signIn(person());
    const here = `here@${DOMAIN}`;
    const twice = `twice@${DOMAIN}`;
    await newMember({ email: here });
    await newMember({ email: twice });
    const { path } = await invite(server, twice, other);
    await openBrowser(server).post(path, { first_name: 'T', last_name: '', password: PASSWORD });
    const csrf = await boss.vault.csrf(SETTINGS);
    const saved = await boss.vault.post(SETTINGS, { csrf, ...settings({ allows_passwords: '', client_secret: '' }) });
    expect(saved.status).toBe(303);
    const byPassword = (email: string) => server.anonymous().post('/console/sign-in', { email, password: PASSWORD });
    expect(textOf((await byPassword(here)).text)).toContain('asks you to sign in by single sign-on');
    expect((await server.anonymous().post('/console/sign-in', { email: here, password: 'wrong' })).text).toContain(
      'is wrong',
    );
    expect((await byPassword(admin.email)).status).toBe(303);
    const away = await signInByPassword(server, twice);
    const switched = await away.post('/console/tenant', {
      csrf: await away.csrf('/console/account'),
      tenant_id: server.tenant.tenant_id,
    });
    expect([switched.status, textOf(switched.text)]).toEqual([403, expect.stringContaining('single sign-on')]);
    await save();
    expect((await byPassword(here)).status).toBe(303);
  });

  test("of a domain are the operator's: one tenant at most, and not any more after it is unbound", async () => {
    await expect(bindDomain(server.ctx, other.tenant_id, DOMAIN.toUpperCase())).rejects.toThrow('is bound to tenant');
    await expect(bindDomain(server.ctx, other.tenant_id, 'a@b')).rejects.toThrow('not valid');
    const { tenant_id } = server.tenant;
    const listed = await cli('list', '--json');
    expect([listed.code, listed.stdout], listed.stderr).toEqual([
      0,
      `${JSON.stringify({ domain: DOMAIN, tenant_id })}\n`,
    ]);
    expect(await cli('unbind', DOMAIN)).toMatchObject({ code: 0, stdout: expect.stringContaining(DOMAIN) });
    expect(await cli('unbind', DOMAIN)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('bound to no tenant'),
    });
    const begun = await open().vault.post('/console/sign-in', { email: `x@${DOMAIN}`, sso: '1' });
    expect([begun.status, begun.text]).toEqual([422, expect.stringContaining('No tenant of this vault')]);
    expect(await cli('bind', 'exa%6dple.com', '--tenant', tenant_id)).toMatchObject({ code: 1 });
    expect(await cli('bind', DOMAIN, '--tenant', tenant_id)).toMatchObject({ code: 0 });
    const { vault } = await signIn(person());
    // The way back where a provider does not work any more.
    expect(await cli('remove', '--tenant', tenant_id)).toMatchObject({ code: 0 });
    await expect.poll(() => vault.isSignedIn()).toBe(false);
    const gone = await open().vault.post('/console/sign-in', { email: `x@${DOMAIN}`, sso: '1' });
    expect(gone.text).toContain('No tenant of this vault');
    expect(await logsOf(tenant_id)).toEqual(
      expect.arrayContaining([
        'Single sign-on domain bound',
        'Single sign-on domain unbound',
        'Single sign-on removed',
      ]),
    );
    await save();
  });
});
