// A mailbox alone opens no tenant that requires a second factor or accepts only single sign-on, and no response tells who has an account.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { bindDomain } from '../../src/modules/people/sso/domains.ts';
import { saveSettings } from '../../src/modules/people/sso/provider.ts';
import { resetMemberSecondFactor, resetSecondFactor } from '../../src/modules/people/members.ts';
import { type Browser, invite, join, openBrowser, PASSWORD } from '../support/people.ts';
import {
  addDevice,
  ASK_PATH,
  NEW_PASSWORD,
  requireDevice,
  resetBy,
  type ResetServer,
  startResetServer,
  statusOfSignIn,
} from '../support/password-resets.ts';
import type { TestTenant } from '../support/server.ts';

let server: ResetServer;
let count = 0;
beforeAll(async () => {
  server = await startResetServer();
});
afterAll(() => server.close());
afterEach(async () => {
  await server.sql('DELETE FROM attempts');
});

type Kind = 'open' | 'requires a device' | 'only single sign-on';

const nextDomain = (): string => `corp-${(count += 1)}.example`;

/** A tenant without any of it; `restrict` sets it after people have joined. */
const restrict = async (tenant: TestTenant, kind: Kind, domain: string): Promise<void> => {
  const { tenant_id } = tenant;
  if (kind === 'requires a device') await requireDevice(server, tenant, true);
  if (kind !== 'only single sign-on') return;
  const settings = { client_id: 'vault', default_role: '', trusts_second_factor: false };
  const actor = { actor_id: null, actor_type: 'operator' } as const;
  await bindDomain(server.ctx, tenant_id, domain);
  for (const allows_passwords of [true, false])
    await saveSettings(
      server.ctx,
      { tenant_id, actor, hasSignedInBySso: true },
      { ...settings, issuer: 'https://login.example.com', client_secret: 'of-the-vault', allows_passwords },
    );
};

/** A member of tenants of these kinds. */
const memberOf = async (kinds: readonly Kind[], hasDevice: boolean) => {
  const domain = nextDomain();
  const tenants: TestTenant[] = [];
  for (const name of kinds) tenants.push(await server.newTenant({ name: `Tenant that is ${name}` }));
  const [first, ...others] = tenants as [TestTenant, ...TestTenant[]];
  const member = await join(server, { email: `grace@${domain}`, tenant: first });
  for (const tenant of others) {
    const { path } = await invite(server, member.email, tenant);
    expect((await openBrowser(server).post(path, { first_name: 'Ada', password: PASSWORD })).status).toBe(303);
  }
  const code = hasDevice ? await addDevice(server, member.browser) : undefined;
  for (const [at, tenant] of tenants.entries()) await restrict(tenant, kinds[at] as Kind, domain);
  return { ...member, tenants, code };
};

/** Tenants whose pages the browser opens, on its own and by changing the tenant. */
const openedBy = async (browser: Browser, tenants: readonly TestTenant[]): Promise<number> => {
  let opened = 0;
  for (const { tenant_id } of tenants) {
    const { text } = await browser.get('/console/account');
    const [, csrf = ''] = /name="csrf" value="([^"]+)"/.exec(text) ?? [];
    if (csrf !== '') await browser.post('/console/tenant', { csrf, tenant_id });
    if ((await browser.get('/console/tokens')).status === 200) opened += 1;
  }
  return opened;
};

describe('a mailbox alone', () => {
  // All pairs of tenants and devices: whether a mail is sent, and how many tenants the new password opens by itself.
  test.each<[Kind[], 'with' | 'without', boolean, number]>([
    [['open'], 'without', true, 1],
    [['open'], 'with', true, 0],
    [['requires a device'], 'without', false, 0],
    [['requires a device'], 'with', true, 0],
    [['only single sign-on'], 'without', false, 0],
    [['only single sign-on'], 'with', false, 0],
    [['open', 'open'], 'without', true, 2],
    [['open', 'requires a device'], 'without', false, 0],
    [['requires a device', 'open'], 'without', false, 0],
    [['open', 'requires a device'], 'with', true, 0],
    [['requires a device', 'requires a device'], 'with', true, 0],
    [['requires a device', 'only single sign-on'], 'without', false, 0],
    [['requires a device', 'only single sign-on'], 'with', true, 0],
    [['only single sign-on', 'open'], 'with', true, 0],
  ])('of a member of tenants %j %s a device: mail %s, opens %i', async (kinds, device, isMailed, most) => {
    const { email, tenants, code } = await memberOf(kinds, device === 'with');
    await server.ask(email);
    const mails = await server.mailsTo(email);
    expect(mails).toHaveLength(isMailed ? 1 : 0);
    if (!isMailed) return;
    const path = await server.linkFor(email);
    expect((await resetBy(server, path)).status).toBe(303);
    const browser = openBrowser(server);
    expect((await browser.post('/console/sign-in', { email, password: NEW_PASSWORD })).status).toBe(303);
    expect(await openedBy(browser, tenants)).toBe(most);
    if (!code) return;
    const pending = await browser.get('/console/tokens');
    expect(pending.headers.get('location')).toContain('/console/second-factor');
    const csrf = await browser.csrf('/console/second-factor');
    server.clock.offsetMs += 60_000;
    expect((await browser.post('/console/second-factor', { csrf, code: code() })).status).toBe(303);
    expect((await browser.get('/console/tokens')).status).toBe(200);
  });

  test('opens the open tenant only, beside one that accepts only single sign-on', async () => {
    const { email, tenants } = await memberOf(['only single sign-on', 'open'], false);
    expect((await resetBy(server, await server.linkFor(email))).status).toBe(303);
    const browser = openBrowser(server);
    await browser.post('/console/sign-in', { email, password: NEW_PASSWORD });
    const [closed, open] = tenants as [TestTenant, TestTenant];
    const csrf = await browser.csrf('/console/account');
    const switched = await browser.post('/console/tenant', { csrf, tenant_id: closed.tenant_id });
    expect(switched.status).toBe(403);
    expect(await openedBy(browser, [open])).toBe(1);
  });
});

describe('a link that was sent before resets nothing', () => {
  const expectDead = async (path: string, email: string): Promise<void> => {
    expect((await openBrowser(server).get(path)).status).toBe(410);
    expect((await resetBy(server, path)).status).toBe(410);
    expect(await statusOfSignIn(server, email, NEW_PASSWORD)).toBe(422);
  };

  test.each<Kind>(['requires a device', 'only single sign-on'])('once the tenant %s', async (kind) => {
    const { email, tenants } = await memberOf(['open'], false);
    const path = await server.linkFor(email);
    expect((await openBrowser(server).get(path)).status).toBe(200);
    await restrict(tenants[0] as TestTenant, kind, email.slice(email.indexOf('@') + 1));
    await expectDead(path, email);
  });

  test('once the member has joined a tenant that requires a device', async () => {
    const { email } = await memberOf(['open'], false);
    const path = await server.linkFor(email);
    const strict = await server.newTenant();
    await requireDevice(server, strict, true);
    const { path: invitation } = await invite(server, email, strict);
    await openBrowser(server).post(invitation, { first_name: 'Ada', password: PASSWORD });
    await expectDead(path, email);
  });

  test('once the operator or an administrator has removed the lost device', async () => {
    for (const by of ['operator', 'administrator']) {
      const { email, member_id, tenants } = await memberOf(['requires a device'], true);
      const [{ tenant_id }] = tenants as [TestTenant];
      const path = await server.linkFor(email);
      expect((await openBrowser(server).get(path)).status).toBe(200);
      if (by === 'operator') await resetSecondFactor(server.ctx, email);
      else {
        const admin = await join(server, { tenant: tenants[0] as TestTenant });
        const session = await server.ctx.sessions.find([...admin.browser.cookies.values()][0] ?? '');
        if (session?.tenant_id !== tenant_id) throw new Error('the administrator is signed in');
        await resetMemberSecondFactor(server.ctx, { session, secret: admin.secret, origin: {} }, member_id);
      }
      await expectDead(path, email);
      // Nor does another request send one.
      const before = (await server.mailsTo(email)).length;
      await server.ask(email);
      expect(await server.mailsTo(email)).toHaveLength(before);
    }
  });
});

test('a response tells nothing about an account: neither its text, nor its headers', async () => {
  const addresses = [
    (await memberOf(['open'], false)).email,
    (await memberOf(['requires a device'], false)).email,
    (await memberOf(['only single sign-on'], true)).email,
    'no-one@example.org',
    'not an address',
    '',
    `${'x'.repeat(300)}@example.org`,
  ];
  const answers: unknown[] = [];
  for (const email of addresses) {
    // The fourth request of the first account is answered as the first one.
    for (let round = 0; round < 4; round += 1) {
      const { status, text, headers } = await openBrowser(server).post(ASK_PATH, { email });
      answers.push({ status, text, headers: [...headers.keys()].toSorted() });
    }
  }
  expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
  expect((answers[0] as { status: number }).status).toBe(200);
  const lines = server.logLines.join('\n');
  for (const email of addresses.slice(0, 4)) expect(lines).not.toContain(email);
});
