// A writer of the database has neither the root key nor the pepper: rows that it changes, makes or puts back give it no rights.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { join, type Joined, openBrowser, PASSWORD, signIn, invite } from './support/people.ts';
import { startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let victim: TestTenant;
beforeAll(async () => {
  server = await startServer();
  victim = await server.newTenant();
});
afterAll(() => server.close());

const alarms = (of: TestServer = server): { table: string }[] =>
  of.logLines.map((line) => JSON.parse(line)).filter(({ alarm }) => alarm === 'tampered');

const tamperedIn = (table: string): number => alarms().filter((alarm) => alarm.table === table).length;

const statusOf = async (key: string, of: TestServer = server, path = '/applications/key'): Promise<number> =>
  (await of.request('GET', path, { key })).status;

/** Caches of callers live for a second, and a writer of the database sends no notice. */
const forget = (...servers: TestServer[]): void => {
  for (const each of servers.length > 0 ? servers : [server]) each.ctx.changes.announce('anything');
};

/** Rows of a table as text that can be put back. */
const copy = async (table: string, where: string, values: unknown[]): Promise<string> => {
  const [{ rows }] = await server.sql(`SELECT json_agg(to_json(t)) AS rows FROM ${table} t WHERE ${where}`, values);
  expect(rows, `${table} has the row`).not.toBe(null);
  return JSON.stringify(rows);
};

const putBack = (table: string, rows: string): Promise<unknown[]> =>
  server.sql(`INSERT INTO ${table} SELECT * FROM json_populate_recordset(NULL::${table}, $1::json)`, [rows]);

describe('a key', () => {
  test('is pointed to an application of another tenant', async () => {
    const mine = await server.newTenant();
    await server.sql('UPDATE api_keys SET tenant_id = $2, application_id = $3 WHERE application_id = $1', [
      mine.application_id,
      victim.tenant_id,
      victim.application_id,
    ]);
    const before = tamperedIn('api_keys');
    expect(await statusOf(mine.api_key)).toBe(401);
    expect(tamperedIn('api_keys')).toBe(before + 1);
    expect(await statusOf(victim.api_key)).toBe(200);
  });

  test('that has ended gets a later end', async () => {
    const { tenant_id, api_key, application_id } = await server.newTenant();
    await server.sql("UPDATE api_keys SET expires_at = now() + interval '9 years' WHERE application_id = $1", [
      application_id,
    ]);
    forget();
    expect(await statusOf(api_key)).toBe(401);
    expect(alarms().at(-1)).toMatchObject({ table: 'api_keys', tenant_id });
  });

  test('that was revoked is put back: in each process', async () => {
    const other = await startServer({ DATABASE_URL: server.databaseUrl }, {}, { database: shared() });
    try {
      const { application_id } = victim;
      const json = { name: 'Second' };
      const made = await server.request('POST', `/applications/${application_id}/keys`, { key: victim.api_key, json });
      expect(made.status, made.text).toBe(201);
      const { key, id } = made.body;
      expect([await statusOf(key), await statusOf(key, other)]).toEqual([200, 200]);
      const row = await copy('api_keys', 'public_id = $1', [id]);
      const path = `/applications/${application_id}/keys/${id}`;
      expect((await server.request('DELETE', path, { key: victim.api_key })).status).toBe(204);
      await putBack('api_keys', row);
      forget(server, other);
      expect([await statusOf(key), await statusOf(key, other)]).toEqual([401, 401]);
      expect([await statusOf(victim.api_key), await statusOf(victim.api_key, other)]).toEqual([200, 200]);
      expect(alarms(other)).toMatchObject([{ table: 'api_keys', row_id: id }]);
      const metrics = await server.ctx.metricsText();
      expect(metrics).toMatch(/strongroom_tampered_rows_total\{table="api_keys"\} [1-9]/);
    } finally {
      await other.close();
    }
  });

  test('and its tenant are put back with their former version', async () => {
    const tenant = await server.newTenant();
    const weak = await server.newKey(tenant, { permissions: ['application:read'] });
    expect(await statusOf(weak.api_key)).toBe(200);
    const rows = await Promise.all(
      ['api_keys', 'applications'].map((table) => copy(table, 'tenant_id = $1', [tenant.tenant_id])),
    );
    const [{ auth_version, mac }] = await server.sql('SELECT auth_version, mac FROM tenants WHERE id = $1', [
      tenant.tenant_id,
    ]);
    const gone = await server.request('DELETE', `/applications/${weak.application_id}`, { key: tenant.api_key });
    expect(gone.status).toBe(204);
    expect(await statusOf(tenant.api_key)).toBe(200);
    await server.sql('DELETE FROM api_keys WHERE tenant_id = $1', [tenant.tenant_id]);
    await server.sql('DELETE FROM applications WHERE tenant_id = $1', [tenant.tenant_id]);
    await putBack('applications', rows[1] as string);
    await putBack('api_keys', rows[0] as string);
    await server.sql('UPDATE tenants SET auth_version = $2, mac = $3 WHERE id = $1', [
      tenant.tenant_id,
      auth_version,
      mac,
    ]);
    forget();
    expect(await statusOf(weak.api_key)).toBe(401);
    expect(alarms().at(-1)).toMatchObject({ table: 'tenants', row_id: tenant.tenant_id });
  });
});

/** A database that the server which opens it second does not drop. */
const shared = () => ({ url: server.databaseUrl, drop: async () => undefined }) as never;

describe('an application', () => {
  test.each([
    ['permissions', "permissions || '{token:delete}'"],
    ['rules', `'[{"description":"","priority":1,"container":"/","permissions":["token:read"],"transform":"reveal"}]'`],
    ['allowed_hosts', "'{evil.example}'"],
    ['daily_reveals', '1000000'],
    ['rate_limit', `'{"requests_per_second":1000,"burst":1000}'`],
    ['type', "'public'"],
  ])('with other %s is refused', async (column, value) => {
    const tenant = await server.newTenant({ permissions: ['application:read'] });
    expect(await statusOf(tenant.api_key)).toBe(200);
    await server.sql(`UPDATE applications SET ${column} = ${value} WHERE id = $1`, [tenant.application_id]);
    forget();
    const before = tamperedIn('applications');
    expect(await statusOf(tenant.api_key)).toBe(401);
    expect(tamperedIn('applications')).toBe(before + 1);
  });

  test('is refused with its former permissions', async () => {
    const strong = await server.newKey(victim, { permissions: ['application:read', 'token:read'] });
    const row = await copy('applications', 'id = $1', [strong.application_id]);
    const path = `/applications/${strong.application_id}`;
    const json = { name: 'Less', permissions: ['application:read'] };
    expect((await server.request('PUT', path, { key: victim.api_key, json })).status).toBe(200);
    expect(await statusOf(strong.api_key)).toBe(200);
    await server.sql('DELETE FROM applications WHERE id = $1', [strong.application_id]);
    await putBack('applications', row);
    forget();
    expect(await statusOf(strong.api_key)).toBe(401);
  });

  test('that was changed is not made valid by a later change or a new key', async () => {
    const weak = await server.newKey(victim, { permissions: ['application:read'] });
    await server.sql("UPDATE applications SET permissions = '{token:read}' WHERE id = $1", [weak.application_id]);
    const path = `/applications/${weak.application_id}`;
    const json = { name: 'Renamed', permissions: ['token:read'] };
    expect((await server.request('PUT', path, { key: victim.api_key, json })).status).toBe(404);
    const asked = { key: victim.api_key, json: { name: 'Key' } };
    expect((await server.request('POST', `${path}/keys`, asked)).status).toBe(404);
    // A revocation elsewhere signs the rows of the tenant anew: not this one.
    const other = await server.newKey(victim, {});
    await server.request('DELETE', `/applications/${other.application_id}`, { key: victim.api_key });
    forget();
    expect(await statusOf(weak.api_key)).toBe(401);
    expect(await statusOf(victim.api_key)).toBe(200);
  });
});

describe('a tenant', () => {
  test('whose settings were changed is refused', async () => {
    const tenant = await server.newTenant();
    await server.sql(`UPDATE tenants SET settings = '{"require_second_factor":"false"}' WHERE id = $1`, [
      tenant.tenant_id,
    ]);
    forget();
    expect(await statusOf(tenant.api_key)).toBe(401);
  });

  test('keeps its keys through many changes at once', async () => {
    const tenant = await server.newTenant();
    const ask = (at: number) =>
      server.request('POST', '/applications', {
        key: tenant.api_key,
        json: { name: `${at}`, type: 'private', permissions: ['log:read'] },
      });
    const made = await Promise.all(Array.from({ length: 6 }, (_, at) => ask(at)));
    expect(made.map(({ status }) => status)).toEqual(Array(6).fill(201));
    const change = ({ body }: { body: { id: string } }, at: number) =>
      at % 2 === 0
        ? server.request('DELETE', `/applications/${body.id}`, { key: tenant.api_key })
        : server.request('POST', `/applications/${body.id}/regenerate`, { key: tenant.api_key });
    const changed = await Promise.all([...made.map(change), ...[7, 8, 9].map(ask)]);
    expect(changed.map(({ status }) => status).toSorted()).toEqual([200, 200, 200, 201, 201, 201, 204, 204, 204]);
    forget();
    for (const { body } of changed) if (body?.key) expect(await statusOf(body.key, server, '/')).not.toBe(401);
    expect(await statusOf(tenant.api_key)).toBe(200);
    expect(alarms().filter((alarm) => JSON.stringify(alarm).includes(tenant.tenant_id))).toEqual([]);
  });
});

describe('a proxy, a reactor and a formula', () => {
  const make = async (path: string, json: object): Promise<{ id: string; key: string }> => {
    const answer = await server.request('POST', path, { key: victim.api_key, json });
    expect(answer.status, answer.text).toBe(201);
    return answer.body;
  };
  const makeProxy = () => make('/proxies', { name: 'P', destination_url: 'https://example.com', require_auth: true });
  const askProxy = ({ key }: { key: string }) =>
    server.request('POST', '/proxy', { key: null, headers: { 'svc-proxy-key': key }, body: '' });

  test('a proxy that asks for no API key any more, or sends elsewhere, is refused', async () => {
    const known = (await askProxy(await makeProxy())).status;
    expect(known).toBe(401);
    const proxy = await makeProxy();
    const former = await copy('proxies', 'id = $1', [proxy.id]);
    await server.sql('UPDATE proxies SET require_auth = false WHERE id = $1', [proxy.id]);
    const before = tamperedIn('proxies');
    await askProxy(proxy);
    expect(tamperedIn('proxies')).toBe(before + 1);
    await server.sql('UPDATE proxies SET require_auth = true WHERE id = $1', [proxy.id]);
    const json = { name: 'P', destination_url: 'https://other.example', require_auth: true };
    const changed = await server.request('PUT', `/proxies/${proxy.id}`, { key: victim.api_key, json });
    expect(changed.status, changed.text).toBe(200);
    await server.sql('DELETE FROM proxies WHERE id = $1', [proxy.id]);
    await putBack('proxies', former);
    forget();
    await askProxy(proxy);
    expect(tamperedIn('proxies')).toBe(before + 2);
  });

  test('a reactor with another application or formula, and former code, do not run', async () => {
    const code = (result: number) => `module.exports = async () => ({ raw: ${result} });`;
    const formulaOf = (result: number) => ({
      name: 'F',
      type: 'private',
      code: code(result),
      configuration: [],
      request_parameters: [],
    });
    const one = await make('/reactor-formulas', formulaOf(1));
    const two = await make('/reactor-formulas', formulaOf(2));
    const reactor = await make('/reactors', { name: 'R', formula: { id: one.id }, configuration: {} });
    const react = async () => {
      forget();
      const { status, body } = await server.request('POST', `/reactors/${reactor.id}/react`, {
        key: victim.api_key,
        json: { args: {} },
      });
      return status === 200 ? body.raw : status;
    };
    expect(await react()).toBe(1);
    const attacks = [`formula_id = '${two.id}'`, `application_id = '${victim.application_id}'`];
    const back = [`formula_id = '${one.id}'`, 'application_id = NULL'];
    for (const [at, attack] of attacks.entries()) {
      await server.sql(`UPDATE reactors SET ${attack} WHERE id = $1`, [reactor.id]);
      expect(await react(), attack).toBe(404);
      await server.sql(`UPDATE reactors SET ${back[at]} WHERE id = $1`, [reactor.id]);
      expect(await react()).toBe(1);
    }
    const former = await copy('reactor_formulas', 'id = $1', [one.id]);
    const changed = await server.request('PUT', `/reactor-formulas/${one.id}`, {
      key: victim.api_key,
      json: formulaOf(3),
    });
    expect(changed.status, changed.text).toBe(200);
    expect(await react()).toBe(3);
    await server.sql('DELETE FROM reactor_formulas WHERE id = $1', [one.id]);
    await putBack('reactor_formulas', former);
    expect(await react()).toBe(404);
    expect(tamperedIn('reactor_formulas')).toBeGreaterThan(0);
  });
});

describe('a session of a public page', () => {
  const start = async (): Promise<{ id: string; session_key: string }> => {
    const json = { allowed_origins: ['https://shop.example'], types: ['card'] };
    const answer = await server.request('POST', '/sessions', { key: victim.api_key, json });
    expect(answer.status, answer.text).toBe(201);
    return answer.body;
  };
  const collect = async (key: string): Promise<number> => {
    forget();
    const json = { type: 'card', data: { number: '4242424242424242' } };
    const headers = { origin: 'https://shop.example' };
    return (await server.request('POST', '/tokens', { key, json, headers })).status;
  };

  test('is refused when it was changed, and after its application has other keys', async () => {
    const strong = await server.newKey(victim, {});
    const { id, session_key } = await start();
    expect(await collect(session_key)).toBe(201);
    for (const change of ["expires_at = now() + interval '1 year'", "types = '{card,token}'", 'max_tokens = 1000']) {
      const row = await copy('collect_sessions', 'id = $1', [id]);
      await server.sql(`UPDATE collect_sessions SET ${change} WHERE id = $1`, [id]);
      expect(await collect(session_key), change).toBe(401);
      await server.sql('DELETE FROM collect_sessions WHERE id = $1', [id]);
      await putBack('collect_sessions', row);
      expect(await collect(session_key)).toBe(201);
    }
    const row = await copy('api_keys', 'application_id = $1', [victim.application_id]);
    const path = `/applications/${victim.application_id}/regenerate`;
    const regenerated = await server.request('POST', path, { key: strong.api_key });
    expect(regenerated.status, regenerated.text).toBe(200);
    victim = { ...victim, api_key: regenerated.body.key };
    expect(await collect(session_key)).toBe(401);
    expect(tamperedIn('collect_sessions')).toBe(3);
    const before = tamperedIn('api_keys');
    await putBack('api_keys', row);
    expect(await collect(session_key)).toBe(401);
    expect(tamperedIn('api_keys')).toBe(before + 1);
  });
});

describe('people', () => {
  let owner: Joined;
  beforeAll(async () => {
    owner = await join(server, { tenant: victim });
  });
  const isIn = async ({ browser }: Pick<Joined, 'browser'>): Promise<boolean> => {
    forget();
    return (await browser.get('/console')).headers.get('location') === '/console/home';
  };
  const trySignIn = async (email: string, password = PASSWORD): Promise<number> =>
    (await openBrowser(server).post('/console/sign-in', { email, password })).status;

  test('a session that is pointed to another tenant, member or user is refused', async () => {
    const attacker = await join(server, { tenant: await server.newTenant() });
    expect(await isIn(attacker)).toBe(true);
    const [{ tenant_id, member_id, user_id }] = await server.sql('SELECT * FROM sessions WHERE user_id = $1', [
      owner.user_id,
    ]);
    await server.sql('UPDATE sessions SET tenant_id = $2, member_id = $3, user_id = $4 WHERE user_id = $1', [
      attacker.user_id,
      tenant_id,
      member_id,
      user_id,
    ]);
    const before = tamperedIn('sessions');
    expect(await isIn(attacker)).toBe(false);
    expect(tamperedIn('sessions')).toBeGreaterThan(before);
    expect(await isIn(owner)).toBe(true);
  });

  test.each(["expires_at = expires_at + interval '1 year'", 'second_factor_at = now()'])(
    'a session with %s is refused',
    async (change) => {
      const person = await join(server, { tenant: victim });
      await server.sql(`UPDATE sessions SET ${change} WHERE user_id = $1`, [person.user_id]);
      expect(await isIn(person)).toBe(false);
    },
  );

  test('a session that has ended is put back', async () => {
    const person = await join(server, { tenant: victim });
    const second = await signIn(server, person.email);
    const row = await copy('sessions', 'user_id = $1', [person.user_id]);
    const csrf = await person.browser.csrf('/console/account');
    expect((await person.browser.post('/console/sign-out', { csrf })).status).toBe(303);
    expect(await isIn({ browser: second })).toBe(true);
    await server.sql('DELETE FROM sessions WHERE user_id = $1', [person.user_id]);
    await putBack('sessions', row);
    expect(await isIn({ browser: second })).toBe(false);
    expect(await trySignIn(person.email)).toBe(303);
  });

  test('a copied password hash opens nothing, and neither does a removed second factor', async () => {
    const mine = await join(server, { tenant: await server.newTenant(), password: 'a passphrase of my own' });
    expect(mine.email).not.toBe(owner.email);
    await server.sql('UPDATE users SET password_hash = (SELECT password_hash FROM users WHERE id = $2) WHERE id = $1', [
      owner.user_id,
      mine.user_id,
    ]);
    const before = tamperedIn('users');
    expect(await trySignIn(owner.email, 'a passphrase of my own')).not.toBe(303);
    expect(tamperedIn('users')).toBeGreaterThan(before);
    const other = await join(server, { tenant: victim });
    await server.sql('UPDATE users SET second_factor_since = now() WHERE id = $1', [other.user_id]);
    expect(await isIn(other)).toBe(false);
    owner = await join(server, { tenant: victim });
  });

  test('a former password hash opens nothing', async () => {
    const person = await join(server, { tenant: victim });
    const former = await copy('users', 'id = $1', [person.user_id]);
    const csrf = await person.browser.csrf('/console/account');
    const next = 'quite another passphrase';
    const fields = { csrf, current_password: PASSWORD, new_password: next };
    const changed = await person.browser.post('/console/password', fields);
    expect(changed.status, changed.text).toBe(303);
    expect(await trySignIn(person.email, next)).toBe(303);
    await server.sql('DELETE FROM users WHERE id = $1', [person.user_id]);
    await putBack('users', former);
    expect(await trySignIn(person.email)).not.toBe(303);
  });

  test('a role that was changed, and a former role, are refused', async () => {
    const person = await join(server, { tenant: victim });
    const former = await copy('members', 'id = $1', [person.member_id]);
    const path = `/tenants/self/members/${person.member_id}`;
    const answer = await server.request('PUT', path, { key: victim.api_key, json: { role: 'SUPPORT' } });
    expect(answer.status, answer.text).toBe(200);
    expect(await isIn(person)).toBe(true);
    await server.sql("UPDATE members SET role = 'DEVELOPER' WHERE id = $1", [person.member_id]);
    expect(await isIn(person)).toBe(false);
    await server.sql("UPDATE members SET role = 'SUPPORT' WHERE id = $1", [person.member_id]);
    expect(await isIn(person)).toBe(true);
    await server.sql('DELETE FROM members WHERE id = $1', [person.member_id]);
    await putBack('members', former);
    expect(await isIn(person)).toBe(false);
  });

  test('a membership that was made or put back is none', async () => {
    const person = await join(server, { tenant: victim });
    const home = await server.newTenant();
    const second = await invite(server, person.email, home);
    expect((await person.browser.post(second.path, { password: PASSWORD, first_name: 'A' })).status).toBe(303);
    const kept = await Promise.all(
      ['members', 'memberships'].map((table) =>
        copy(table, 'tenant_id = $1 AND user_id = $2', [victim.tenant_id, person.user_id]),
      ),
    );
    const path = `/tenants/self/members/${person.member_id}`;
    expect((await server.request('DELETE', path, { key: victim.api_key })).status).toBe(204);
    await putBack('members', kept[0] as string);
    await putBack('memberships', kept[1] as string);
    const browser = await signIn(server, person.email);
    const page = await browser.get('/console/account');
    expect(page.text).not.toContain(victim.tenant_id);
    const csrf = await browser.csrf('/console/account');
    const switched = await browser.post('/console/tenant', { csrf, tenant_id: victim.tenant_id });
    expect(switched.status).not.toBe(303);
  });

  test('an invitation with another role, and a link to another invitation, are dead', async () => {
    const tenant = await server.newTenant();
    const changed = await invite(server, 'one@example.com', tenant);
    await server.sql("UPDATE invitations SET role = 'OWNER' WHERE id = $1", [changed.id]);
    expect((await openBrowser(server).get(changed.path)).status).toBe(410);
    const mine = await invite(server, 'attacker@example.com', await server.newTenant());
    const theirs = await invite(server, 'two@example.com', tenant);
    await server.sql('DELETE FROM invitation_secrets WHERE invitation_id = $1', [theirs.id]);
    await server.sql('UPDATE invitation_secrets SET tenant_id = $2, invitation_id = $3 WHERE invitation_id = $1', [
      mine.id,
      tenant.tenant_id,
      theirs.id,
    ]);
    expect((await openBrowser(server).get(mine.path)).status).toBe(410);
  });
});

test('a row without a MAC is refused, and so is all that belongs to a tenant without one', async () => {
  const tenant = await server.newTenant();
  const weak = await server.newKey(tenant, { permissions: ['application:read'] });
  const other = await startServer({}, {}, { database: shared() });
  const statuses = async () => {
    forget(server, other);
    return [await statusOf(tenant.api_key), await statusOf(weak.api_key), await statusOf(weak.api_key, other)];
  };
  try {
    await server.sql('UPDATE applications SET mac = NULL WHERE id = $1', [weak.application_id]);
    expect(await statuses()).toEqual([200, 401, 401]);
    await server.sql('UPDATE tenants SET mac = NULL, auth_version = 0 WHERE id = $1', [tenant.tenant_id]);
    expect(await statuses()).toEqual([401, 401, 401]);
  } finally {
    await other.close();
  }
});
