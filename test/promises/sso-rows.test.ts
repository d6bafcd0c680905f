// Rows of single sign-on that a writer of the database puts back after a change authorise nothing.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bindDomain, unbindDomain } from '../../src/modules/people/sso/domains.ts';
import { SIGNED_TABLES } from '../../src/platform/base/tables.ts';
import { testCa } from '../support/certificates.ts';
import { type Browser, type ConsoleServer, startConsole } from '../support/console.ts';
import { type Account, type OidcProvider, openProviderBrowser, startOidcProvider } from '../support/oidc.ts';
import { openBrowser } from '../support/people.ts';
import type { Answer } from '../support/server.ts';

const DOMAIN = 'corp.example';
const HOST = 'login.sso.test';
const SETTINGS = '/console/single-sign-on';
const TABLES = ['sso_providers', 'sso_domains', 'sso_identities', 'sso_sessions'] as const;
type Table = (typeof TABLES)[number];

let server: ConsoleServer;
let provider: OidcProvider;
let admin: Browser;
let count = 0;

const save = async (more: Record<string, string> = {}): Promise<void> => {
  await admin.get(SETTINGS);
  const fields = { issuer: provider.issuer, ...provider.client, default_role: 'ADMIN', trusts_second_factor: 'true' };
  const saved = await admin.post(SETTINGS, { ...fields, allows_passwords: 'true', ...more });
  expect(saved.status, saved.text).toBe(303);
};

beforeAll(async () => {
  provider = await startOidcProvider(HOST);
  server = await startConsole(
    { EGRESS_PRIVATE_HOSTS: `${HOST}:${provider.port}` },
    { ca: [testCa], resolve: async () => ['127.0.0.1'] },
  );
  const { tenant_id } = server.tenant;
  const callback = `${server.base_url}/console/sso/${tenant_id}/callback`;
  provider.register({ redirect: [callback], signOut: [`${server.base_url}/console/sign-in`] });
  admin = await server.signIn({ email: 'admin@elsewhere.example' });
  await bindDomain(server.ctx, tenant_id, DOMAIN);
  await save();
});
afterAll(async () => {
  await server?.close();
  await provider?.close();
});

const newPerson = (): Account => {
  count += 1;
  return { sub: `subject-${count}`, email: `person-${count}@${DOMAIN}`, email_verified: true, given_name: 'Grace' };
};

type Visitor = ReturnType<typeof openBrowser>;

const refreshOf = (answer: Answer): string | undefined =>
  /^0; url=(.+)$/.exec(answer.headers.get('refresh') ?? '')?.[1];

/** From the page to sign in to the end of the flow. Undefined where the page does not lead to a provider. */
const attempt = async (who: Account, vault: Visitor): Promise<Answer | undefined> => {
  const begun = refreshOf(await vault.post('/console/sign-in', { email: who.email ?? '', sso: '1', next: '' }));
  if (begun === undefined) return undefined;
  provider.person = who;
  const visited = await openProviderBrowser(provider).follow(begun);
  if (!('leftFor' in visited)) return undefined;
  return vault.get(visited.leftFor.slice(server.base_url.length));
};

const signIn = async (who: Account = newPerson()): Promise<{ who: Account; vault: Visitor }> => {
  const vault = openBrowser(server);
  expect((await attempt(who, vault))?.status).toBe(200);
  expect((await vault.get('/console/people')).status).toBe(200);
  return { who, vault };
};

const maySignIn = async (who: Account): Promise<boolean> => {
  const vault = openBrowser(server);
  await attempt(who, vault);
  return vault.isSignedIn();
};

type Snapshot = Record<Table, string>;

const takeRows = async (): Promise<Snapshot> => {
  const found = TABLES.map(async (table) => {
    const [{ rows }] = await server.sql(`SELECT coalesce(json_agg(to_jsonb(t)), '[]')::text AS rows FROM ${table} t`);
    return [table, rows] as const;
  });
  return Object.fromEntries(await Promise.all(found)) as Snapshot;
};

/** As a writer of the database does. */
const putBack = async (snapshot: Snapshot, tables: readonly Table[] = TABLES): Promise<void> => {
  for (const table of tables) {
    await server.sql(`DELETE FROM ${table}`);
    await server.sql(`INSERT INTO ${table} SELECT * FROM json_populate_recordset(NULL::${table}, $1::json)`, [
      snapshot[table],
    ]);
  }
};

const refusedRows = async (table: Table): Promise<number> => {
  const text = await server.ctx.metricsText();
  return Number(new RegExp(`strongroom_tampered_rows_total\\{table="${table}"\\} (\\d+)`).exec(text)?.[1] ?? 0);
};

test('each table of single sign-on that outlives a sign-in is bound to the version of its tenant', async () => {
  const found = await server.sql("SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relname LIKE 'sso_%'");
  const names = found.map(({ name }) => name).filter((name) => name !== 'sso_flows');
  expect(names.toSorted()).toEqual([...TABLES].toSorted());
  for (const name of TABLES) expect(SIGNED_TABLES[name].versionOf).toBe('tenants');
});

test('rows that were taken away and put back without a change work again', async () => {
  const { who, vault } = await signIn();
  const rows = await takeRows();
  for (const table of TABLES) await server.sql(`DELETE FROM ${table}`);
  expect(await maySignIn(who)).toBe(false);
  await putBack(rows);
  expect(await maySignIn(who)).toBe(true);
  await expect.poll(() => vault.isSignedIn()).toBe(true);
});

describe('rows that are put back authorise nothing', () => {
  test('after another provider was set: settings, accounts and sessions', async () => {
    const { who, vault } = await signIn();
    const rows = await takeRows();
    await save({ client_id: 'another', client_secret: 'another-secret' });
    expect(await maySignIn(who)).toBe(false);
    await putBack(rows, ['sso_providers', 'sso_identities', 'sso_sessions']);
    expect(await maySignIn(who)).toBe(false);
    expect(await refusedRows('sso_providers')).toBeGreaterThan(0);
    await expect
      .poll(async () => [await vault.isSignedIn(), (await refusedRows('sso_sessions')) > 0])
      .toEqual([false, true]);
    // The administrator sets the provider anew, in place of the row that is refused.
    await save();
    await putBack(rows, ['sso_identities', 'sso_sessions']);
    expect(await maySignIn(who)).toBe(false);
    expect(await refusedRows('sso_identities')).toBeGreaterThan(0);
    expect(await vault.isSignedIn()).toBe(false);
    expect(await maySignIn(newPerson())).toBe(true);
  });

  test('after the settings alone were changed', async () => {
    const rows = await takeRows();
    await save({ default_role: '' });
    expect(await maySignIn(newPerson())).toBe(false);
    await putBack(rows, ['sso_providers']);
    expect(await maySignIn(newPerson())).toBe(false);
    await save();
    expect(await maySignIn(newPerson())).toBe(true);
  });

  test('after the operator unbound a domain', async () => {
    const { tenant_id } = server.tenant;
    const { who } = await signIn();
    const rows = await takeRows();
    await unbindDomain(server.ctx, DOMAIN);
    expect(await maySignIn(who)).toBe(false);
    await putBack(rows, ['sso_domains']);
    expect(await maySignIn(who)).toBe(false);
    expect(await refusedRows('sso_domains')).toBeGreaterThan(0);
    await unbindDomain(server.ctx, DOMAIN);
    await bindDomain(server.ctx, tenant_id, DOMAIN);
    expect(await maySignIn(who)).toBe(true);
  });

  test('after a member was removed', async () => {
    await save({ default_role: '' });
    const invited = newPerson();
    const json = { email: invited.email, role: 'ADMIN' };
    expect((await server.request('POST', '/tenants/self/invitations', { json })).status).toBe(201);
    await signIn(invited);
    const rows = await takeRows();
    const [{ member_id }] = await server.sql('SELECT member_id FROM sso_identities ORDER BY created_at DESC LIMIT 1');
    expect((await server.request('DELETE', `/tenants/self/members/${member_id}`)).status).toBe(204);
    await putBack(rows, ['sso_identities', 'sso_sessions']);
    expect(await maySignIn(invited)).toBe(false);
  });
});
