// What reveals, uses, asks for or deletes values, and what changes grants, people, code or settings, needs a second factor of the last ten minutes in the
// console, whichever page does it.
import { Secret, TOTP } from 'otpauth';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { permissions, sensitivePermissions } from '../../src/modules/access/permissions.ts';
import { type Browser, type ConsoleServer, startConsole, textOf } from '../support/console.ts';
import { PASSWORD } from '../support/people.ts';
import type { Answer } from '../support/server.ts';

const MINUTE_MS = 60_000;
const NO_ID = '00000000-0000-4000-8000-000000000000';
const CODE_PATH = '/console/second-factor';
const SECRET = '4111111111111111';

let server: ConsoleServer;
let atMs = Date.now();
/** A member with a device, whose second factor is twelve minutes old. */
let stale: Browser;
let key = '';

const giveCode = async (browser: Pick<Browser, 'get' | 'post'>): Promise<void> => {
  atMs += MINUTE_MS;
  const code = new TOTP({ secret: Secret.fromBase32(key) }).generate({ timestamp: atMs });
  await browser.get(CODE_PATH);
  expect((await browser.post(CODE_PATH, { code })).status).toBe(303);
};

const becomeStale = async (): Promise<void> => {
  await giveCode(stale);
  atMs += 12 * MINUTE_MS;
};

beforeAll(async () => {
  server = await startConsole({}, { now: () => new Date(atMs), resolve: async () => ['127.0.0.1'] });
  stale = await server.signIn();
  await stale.get('/console/account');
  await stale.post('/console/account/second-factor', { current_password: PASSWORD });
  key = /data-key>([A-Z2-7]{32})</.exec((await stale.get('/console/account')).text)?.[1] ?? '';
  const code = new TOTP({ secret: Secret.fromBase32(key) }).generate({ timestamp: atMs });
  expect((await stale.post('/console/account/second-factor/confirm', { code })).status).toBe(200);
  await becomeStale();
});
afterAll(() => server.close());

/**
 * Each form of the console. `code`: it needs the second factor. `operation`: what it does at the API may need it. `plain`: it changes
 * nothing of these. `session`: it begins, proves or ends a session.
 */
const FORMS: Record<string, 'code' | 'operation' | 'plain' | 'session'> = {
  '/console/sign-in': 'session',
  '/console/sign-in/forgotten': 'session',
  '/console/sign-in/reset/:secret': 'session',
  '/console/sign-out': 'session',
  '/console/tenant': 'session',
  '/console/sso/again': 'session',
  '/console/second-factor': 'session',
  '/console/second-factor/passkey': 'session',
  '/console/password': 'plain',
  '/console/account/second-factor': 'code',
  '/console/account/second-factor/confirm': 'code',
  '/console/account/second-factor/remove': 'code',
  '/console/account/passkeys': 'code',
  '/console/account/passkeys/new': 'code',
  '/console/account/passkeys/:id/remove': 'code',
  '/console/applications/new': 'code',
  // Says in words what typed rights mean.
  '/console/applications/check': 'plain',
  '/console/applications/:id': 'code',
  '/console/applications/:id/key': 'code',
  '/console/applications/:id/delete': 'code',
  '/console/applications/:id/keys': 'code',
  '/console/applications/:id/keys/:key_id': 'code',
  '/console/applications/:id/keys/:key_id/rotate': 'code',
  '/console/applications/:id/keys/:key_id/revoke': 'code',
  // Writes to the log what a member says of a file.
  '/console/access/review': 'plain',
  '/console/people/invitations': 'code',
  '/console/people/invitations/:id/resend': 'code',
  '/console/people/invitations/:id/delete': 'code',
  '/console/people/members/:id/role': 'code',
  '/console/people/members/:id/remove': 'code',
  '/console/people/members/:id/second-factor/reset': 'code',
  '/console/settings': 'code',
  '/console/single-sign-on': 'code',
  '/console/single-sign-on/remove': 'code',
  '/console/reactors': 'code',
  '/console/reactors/:id': 'code',
  '/console/reactors/:id/delete': 'code',
  '/console/reactors/:id/restore': 'code',
  '/console/proxies/test': 'operation',
  '/console/proxies/:id': 'operation',
  '/console/proxies/:id/key': 'code',
  '/console/formulas/:id/restore': 'code',
  '/console/formulas/:id/edit': 'code',
  '/console/formulas/:id/delete': 'code',
  '/console/settings/delete': 'code',
  '/console/proxies/new': 'code',
  '/console/proxies/:id/edit': 'code',
  '/console/proxies/:id/restore': 'code',
  '/console/proxies/:id/delete': 'code',
  '/console/webhooks/new': 'code',
  '/console/webhooks/:id/edit': 'code',
  '/console/webhooks/:id/ping': 'code',
  '/console/webhooks/:id/pause': 'code',
  '/console/webhooks/:id/resume': 'code',
  '/console/webhooks/:id/replay': 'code',
  '/console/webhooks/:id/secret': 'code',
  '/console/webhooks/:id/delete': 'code',
  '/console/forwards/:id/replay': 'code',
  '/console/tokens/search': 'operation',
  '/console/tokens/search/delete': 'code',
  // By last four digits alone, which the mask shows.
  '/console/find': 'plain',
  '/console/tokens/:id/reveal': 'code',
  // A link changes what no one sees of a token: who lists children sees of each what they may read of it.
  '/console/tokens/:id/bound': 'code',
  '/console/tokens/:id/bound/remove': 'code',
  '/console/tokens/:id/link': 'plain',
  '/console/tokens/:id/unlink': 'code',
  '/console/tokens/:id/edit': 'code',
  '/console/tokens/:id/delete': 'code',
};

const PAYMENT_KEY = 'payment-key-of-another-service';
const CONFIGURED_CODE = 'module.exports = async () => ({ raw: {} });';

/** A reactor whose configuration has a key of another service. */
const configuredReactor = async (): Promise<string> => {
  const contract = [{ name: 'PAYMENT_KEY', type: 'string' }];
  const formula = await server.request('POST', '/reactor-formulas', {
    json: { name: 'Paying', type: 'private', code: CONFIGURED_CODE, configuration: contract },
  });
  const { body } = await server.request('POST', '/reactors', {
    json: { name: 'Paying', formula: { id: formula.body.id }, configuration: { PAYMENT_KEY } },
  });
  return body.id;
};

const consoleRoutes = (wanted: string): string[] =>
  server.routes.flatMap(({ method, url, config }) =>
    url.startsWith('/console') && !config?.methodGuard && [method].flat().includes(wanted) ? [url] : [],
  );

const filled = (url: string): string => url.replaceAll(/:\w+/g, NO_ID);

/** Whether an answer leads to the second factor, at once or from a page with what was typed. */
const leadsToCode = ({ status, headers, text }: Answer): boolean =>
  (status === 303 && (headers.get('location') ?? '').startsWith(`${CODE_PATH}?`)) ||
  (status === 403 && text.includes(`href="${CODE_PATH}?`));

test('each form of the console has its class here', () => {
  expect([...new Set(consoleRoutes('POST'))].toSorted()).toEqual(Object.keys(FORMS).toSorted());
});

test('each permission is sensitive, or is one of these', () => {
  const others = permissions.filter((permission) => !sensitivePermissions.has(permission));
  expect(others.toSorted()).toEqual(
    [
      'access:read',
      'delegation:create',
      'forward:read',
      'application:read',
      'log:read',
      'proxy:read',
      'reactor:read',
      'report:read',
      'session:read',
      'tenant:invitation:read',
      'tenant:member:read',
      'tenant:read',
      'webhook:read',
      'token:create',
      'token:read',
      'token:search',
    ].toSorted(),
  );
});

describe('a session whose second factor is old', () => {
  test('is led to it by each form that needs it, and by no other', async () => {
    await stale.get('/console/tokens');
    for (const [url, kind] of Object.entries(FORMS)) {
      if (kind === 'session') continue;
      const answer = await stale.post(filled(url), { name: 'x' });
      expect([url, leadsToCode(answer)], textOf(answer.text)).toEqual([url, kind === 'code']);
    }
  });

  test('opens each page, none of which shows a value, a key or a configuration', async () => {
    const { body: proxy } = await server.request('POST', '/proxies', {
      json: {
        name: 'Open',
        destination_url: 'https://example.com',
        require_auth: false,
        configuration: { PAYMENT_KEY },
      },
    });
    const { body: token } = await server.request('POST', '/tokens', { json: { type: 'token', data: SECRET } });
    const reactor = await configuredReactor();
    const ids = [proxy.id, token.id, reactor, NO_ID];
    for (const url of new Set(consoleRoutes('GET'))) {
      if (url.includes('sso') || url.includes('*')) continue;
      for (const id of url.includes(':') ? ids : ['']) {
        const { text } = await stale.get(url.replaceAll(/:\w+/g, id));
        expect(text).not.toContain(SECRET);
        expect([url, text.includes(PAYMENT_KEY)]).toEqual([url, false]);
        expect([url, proxy.key !== undefined && text.includes(proxy.key)]).toEqual([url, false]);
      }
    }
  });

  test('sees the names of a configuration, and its values after the second factor', async () => {
    const reactor = await configuredReactor();
    const page = `/console/reactors/${reactor}`;
    const hidden = await stale.get(page);
    const link = /href="([^"]+)">Show the configuration/.exec(hidden.text)?.[1] ?? '';
    expect([hidden.text.includes('PAYMENT_KEY'), hidden.text.includes(PAYMENT_KEY)]).toEqual([true, false]);
    expect(link).toBe(`${CODE_PATH}?${new URLSearchParams({ next: page }).toString()}`);
    await giveCode(stale);
    expect((await stale.get(page)).text).toContain(PAYMENT_KEY);
    // The page that was open before hides the configuration: to save it changes the name alone.
    const seen = /name="seen" value="([^"]*)"/.exec(hidden.text)?.[1] ?? '';
    const [, hiding = ''] = /type="hidden" name="(hidden_configuration)" value="yes"/.exec(hidden.text) ?? [];
    const fields = { do: 'save', name: 'Renamed', code: CONFIGURED_CODE, args: '{}', seen, [hiding]: 'yes' };
    expect((await stale.post(page, fields)).status).toBe(200);
    const { body } = await server.request('GET', `/reactors/${reactor}`);
    expect([body.name, body.configuration]).toEqual(['Renamed', { PAYMENT_KEY }]);
    await becomeStale();
  });

  test('asks for no value by a search, and deletes no token', async () => {
    const { body: token } = await server.request('POST', '/tokens', {
      json: { type: 'token', data: 'LOOKED-FOR', search_indexes: ['{{ data }}'], metadata: { looked: 'for' } },
    });
    const search = async (query: string) => {
      await stale.get('/console/tokens');
      return stale.post('/console/tokens/search', { query });
    };
    const queries = [
      'LOOKED-FOR',
      'data:LOOKED-FOR',
      'type:token AND NOT (id:x OR data:OTHER)',
      `fingerprint:"${token.fingerprint}"`,
    ];
    for (const query of queries) expect([query, leadsToCode(await search(query))]).toEqual([query, true]);
    for (const query of [token.id, 'metadata.looked:for', 'type:token'])
      expect([query, (await search(query)).text.includes(token.id)]).toEqual([query, true]);
    const row = "SELECT id FROM audit_log WHERE actor_id = $1 AND message = 'Tokens searched by value'";
    expect(await server.sql(row, [stale.user_id])).toEqual([]);
    await stale.get(`/console/tokens/${token.id}`);
    expect(leadsToCode(await stale.post(`/console/tokens/${token.id}/delete`, { sure: 'yes' }))).toBe(true);
    await giveCode(stale);
    for (const query of queries) expect([query, (await search(query)).text.includes(token.id)]).toEqual([query, true]);
    expect(await server.sql(row, [stale.user_id])).toHaveLength(queries.length);
    await stale.get(`/console/tokens/${token.id}`);
    const deleted = await stale.post(`/console/tokens/${token.id}/delete`, { sure: 'yes' });
    expect(deleted.headers.get('location')).toContain('done=deleted');
    await becomeStale();
  });

  test('reads what became of a forwarded request, and no request or response', async () => {
    const headers = { 'svc-proxy-url': 'https://no-such-host.example/v1', 'svc-idempotency-key': 'stale' };
    const sent = await server.request('POST', '/proxy', { json: { note: 'in the body' }, headers });
    const page = `/console/forwards/${sent.headers.get('svc-forward-id')}`;
    const { status, text } = await stale.get(page);
    expect([status, text.includes('in the body')], text).toEqual([200, false]);
    const asked = await stale.get(`${page}?bodies=yes`);
    expect([leadsToCode(asked), asked.text.includes('in the body')]).toEqual([true, false]);
    await giveCode(stale);
    expect((await stale.get(`${page}?bodies=yes`)).text).toContain('in the body');
    await becomeStale();
  });

  test('runs no code, and sends no request', async () => {
    const { body: token } = await server.request('POST', '/tokens', { json: { type: 'token', data: SECRET } });
    const args = JSON.stringify({ n: `{{ ${token.id} }}` });
    await stale.get('/console/reactors');
    expect(leadsToCode(await stale.post('/console/reactors', { name: 'Steal' }))).toBe(true);
    const formula = await server.request('POST', '/reactor-formulas', {
      json: {
        name: 'F',
        type: 'private',
        code: 'module.exports = async ({ args }) => ({ raw: args.n.split("").join(".") });',
      },
    });
    const { body: reactor } = await server.request('POST', '/reactors', {
      json: { name: 'R', formula: { id: formula.body.id } },
    });
    for (const wanted of ['run', 'test', 'save', 'deploy']) {
      const answer = await stale.post(`/console/reactors/${reactor.id}`, { do: wanted, name: 'R', code: 'x', args });
      expect(leadsToCode(answer)).toBe(true);
      // What was typed is not lost.
      expect(textOf(answer.text)).toContain(args);
    }
    const typed = {
      destination: 'https://example.com',
      method: 'POST',
      path: '/',
      headers: '',
      body: `{{ ${token.id} }}`,
    };
    expect(leadsToCode(await stale.post('/console/proxies/test', { ...typed, do: 'preview' }))).toBe(false);
    const sent = await stale.post('/console/proxies/test', { ...typed, do: 'send', sure: 'yes' });
    expect([leadsToCode(sent), textOf(sent.text).includes(typed.body)]).toEqual([true, true]);
    const used = await server.sql("SELECT id FROM audit_log WHERE entity_ids @> $1 AND operation = 'use'", [
      [token.id],
    ]);
    expect(used).toEqual([]);
  });

  test('does all of it after the second factor', async () => {
    await giveCode(stale);
    await stale.get('/console/reactors');
    const made = await stale.post('/console/reactors', { name: 'Mine' });
    expect(made.headers.get('location')).toMatch(/^\/console\/reactors\/[0-9a-f-]{36}\?done=made$/);
    await becomeStale();
  });
});

test('a member without a device, and without single sign-on, is asked for nothing', async () => {
  const plain = await server.signIn();
  atMs += 12 * MINUTE_MS;
  await plain.get('/console/reactors');
  expect((await plain.post('/console/reactors', { name: 'Plain' })).headers.get('location')).toContain('?done=made');
});
