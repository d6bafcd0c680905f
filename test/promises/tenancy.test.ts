// Every route: without a key, without its permission, with another tenant's ids, with ids that are none, with rules that
// reach elsewhere, and rightly. A route that this file does not list fails it.
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { permissions } from '../../src/modules/access/permissions.ts';
import { acceptInvitation } from '../../src/modules/people/acceptance.ts';
import { invite, PASSWORD } from '../support/people.ts';
import { type ReactorServer, startReactorServer } from '../support/reactors.ts';
import type { Answer, TestServer, TestTenant } from '../support/server.ts';

/**
 * What a tenant has: a parent with a child, a token beside them, a session, an application, a formula with a reactor and one without,
 * a proxy, a member and somebody who is invited.
 */
type World = {
  tenant: TestTenant;
  token_id: string;
  parent_id: string;
  child_id: string;
  intent_id: string;
  session_id: string;
  application_id: string;
  /** Of that application. */
  key_id: string;
  formula_id: string;
  unused_formula_id: string;
  reactor_id: string;
  proxy_id: string;
  webhook_id: string;
  delivery_id: string;
  /** Of the reactor. */
  run_id: string;
  /** Of a request with an idempotency key. */
  forward_id: string;
  member_id: string;
  user_id: string;
  invitation_id: string;
};

/** How to call a route rightly. */
type Row = {
  path: (world: World) => string;
  json?: unknown;
  /** A body that names records. */
  jsonOf?: (world: World) => unknown;
  contentType?: string;
  headers?: () => Record<string, string>;
  permission: string | null;
  status: number;
  /** Kinds of records that the path or the body names; each is tried as a stranger's. */
  names?: (keyof World)[];
};

const session = { allowed_origins: ['https://shop.example.com'], types: ['card'] };
const application = { name: 'Made', permissions: ['token:create'] };
const code = 'module.exports = ({ args }) => ({ raw: Object.keys(args) });';
const formula = { name: 'Made', type: 'private', code };
const proxy = { name: 'Made', destination_url: 'https://api.example.com', request_transform: { code } };

const webhook = { name: 'Made', url: 'https://hooks.example.com/', events: ['*'] };

/** Mails to one address are counted over all tenants. */
const newAddress = (): string => `${crypto.randomUUID()}@example.com`;

/** Requests through the proxy, which answers in a frame of its own. */
const forwarded = Object.fromEntries(
  ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].flatMap((method) =>
    ['/proxy', '/proxy/*'].map((url): [string, Row] => [
      `${method} ${url}`,
      {
        path: () => url.replace('*', 'v1/charges'),
        headers: () => ({ 'svc-proxy-url': fixture.url }),
        permission: 'token:use',
        status: 200,
      },
    ]),
  ),
);

/** Versions and drafts of one kind of resource. */
const versionRows = (path: string, area: string, name: 'formula_id' | 'reactor_id' | 'proxy_id', draft: object) => {
  const row = (rest: string, operation: string, more: Partial<Row> = {}): Row => ({
    path: (world) => `/${path}/${world[name]}/${rest}`,
    permission: `${area}:${operation}`,
    status: 200,
    names: [name],
    ...more,
  });
  return {
    [`GET /${path}/:id/versions`]: row('versions', 'read'),
    [`GET /${path}/:id/versions/:number`]: row('versions/1', 'read'),
    [`POST /${path}/:id/versions/:number/restore`]: row('versions/1/restore', 'update', { json: {} }),
    [`GET /${path}/:id/draft`]: row('draft', 'read'),
    [`PUT /${path}/:id/draft`]: row('draft', 'update', { json: draft }),
    [`DELETE /${path}/:id/draft`]: row('draft', 'update', { status: 204 }),
  };
};

/** What one webhook has, by the rest of the path. */
const webhookRows = (rows: [method: string, rest: string, permission: string, status: number, json?: object][]) =>
  Object.fromEntries(
    rows.map(([method, rest, permission, status, json]): [string, Row] => [
      `${method} /webhooks/:id${rest}`,
      {
        path: ({ webhook_id }) => `/webhooks/${webhook_id}${rest}`,
        permission,
        status,
        names: ['webhook_id'],
        ...(json && { json }),
      },
    ]),
  );

const table: Record<string, Row> = {
  ...forwarded,
  'POST /tokenize': { path: () => '/tokenize', json: 'x', permission: 'token:create', status: 200 },
  'POST /tokens': { path: () => '/tokens', json: { data: 'x' }, permission: 'token:create', status: 201 },
  'GET /tokens': { path: () => '/tokens', permission: 'token:read', status: 200 },
  'POST /tokens/search': {
    path: () => '/tokens/search',
    json: { query: 'type:token' },
    permission: 'token:search',
    status: 200,
  },
  'POST /token-intents': {
    path: () => '/token-intents',
    json: { type: 'token', data: 'x' },
    permission: 'token:create',
    status: 201,
  },
  'GET /token-intents/:id': {
    path: ({ intent_id }) => `/token-intents/${intent_id}`,
    permission: 'token:read',
    status: 200,
    names: ['intent_id'],
  },
  'DELETE /token-intents/:id': {
    path: ({ intent_id }) => `/token-intents/${intent_id}`,
    permission: 'token:delete',
    status: 204,
    names: ['intent_id'],
  },
  'GET /v2/tokens': { path: () => '/v2/tokens', permission: 'token:read', status: 200 },
  'POST /v2/tokens/search': {
    path: () => '/v2/tokens/search',
    json: { query: 'type:token' },
    permission: 'token:search',
    status: 200,
  },
  'POST /tokens/delete-by-search': {
    path: () => '/tokens/delete-by-search',
    // It finds nothing.
    json: { query: 'id:nothing', expected_count: 1 },
    permission: 'token:delete',
    status: 409,
  },
  'GET /tokens/:id': {
    path: ({ token_id }) => `/tokens/${token_id}`,
    permission: 'token:read',
    status: 200,
    names: ['token_id'],
  },
  'GET /tokens/:id/timeline': {
    path: ({ token_id }) => `/tokens/${token_id}/timeline`,
    permission: 'token:read',
    status: 200,
    names: ['token_id'],
  },
  'PATCH /tokens/:id': {
    path: ({ token_id }) => `/tokens/${token_id}`,
    json: { metadata: { a: 'b' } },
    contentType: 'application/merge-patch+json',
    permission: 'token:update',
    status: 200,
    names: ['token_id'],
  },
  'DELETE /tokens/:id': {
    path: ({ token_id }) => `/tokens/${token_id}`,
    permission: 'token:delete',
    status: 204,
    names: ['token_id'],
  },
  'POST /tokens/:parent_id/children/:child_id': {
    path: ({ parent_id, token_id }) => `/tokens/${parent_id}/children/${token_id}`,
    permission: 'token:read',
    status: 204,
    names: ['parent_id', 'token_id'],
  },
  'DELETE /tokens/:parent_id/children/:child_id': {
    path: ({ parent_id, child_id }) => `/tokens/${parent_id}/children/${child_id}`,
    permission: 'token:delete',
    status: 204,
    names: ['parent_id', 'child_id'],
  },
  'POST /tokens/:parent_id/children': {
    path: ({ parent_id }) => `/tokens/${parent_id}/children`,
    json: { data: 'x' },
    permission: 'token:create',
    status: 201,
    names: ['parent_id'],
  },
  'GET /tokens/:parent_id/children': {
    path: ({ parent_id }) => `/tokens/${parent_id}/children`,
    permission: 'token:read',
    status: 200,
    names: ['parent_id'],
  },
  'POST /detokenize': { path: () => '/detokenize', json: 'x', permission: 'token:read', status: 200 },
  'GET /logs': { path: () => '/logs', permission: 'log:read', status: 200 },
  'GET /runs': { path: () => '/runs', permission: 'log:read', status: 200 },
  'GET /runs/:id': { path: ({ run_id }) => `/runs/${run_id}`, permission: 'log:read', status: 200, names: ['run_id'] },
  'GET /forwards': { path: () => '/forwards', permission: 'forward:read', status: 200 },
  'GET /forwards/:id': {
    path: ({ forward_id }) => `/forwards/${forward_id}?include=bodies`,
    permission: 'forward:read',
    status: 200,
    names: ['forward_id'],
  },
  'POST /forwards/:id/replay': {
    path: ({ forward_id }) => `/forwards/${forward_id}/replay`,
    json: {},
    permission: 'forward:replay',
    status: 201,
    names: ['forward_id'],
  },
  'GET /logs/entity-types': { path: () => '/logs/entity-types', permission: 'log:read', status: 200 },
  'POST /sessions': { path: () => '/sessions', json: session, permission: 'session:create', status: 201 },
  'GET /sessions/:id': {
    path: ({ session_id }) => `/sessions/${session_id}`,
    permission: 'session:read',
    status: 200,
    names: ['session_id'],
  },
  // The keys of applications have no card: that of its session is the only one that works (test/security-codes.test.ts).
  'POST /sessions/:session_id/cvc': {
    path: ({ session_id }) => `/sessions/${session_id}/cvc`,
    json: { cvc: '123' },
    permission: 'token:update',
    status: 403,
  },
  'POST /applications': {
    path: () => '/applications',
    json: application,
    permission: 'application:create',
    status: 201,
  },
  'GET /applications': { path: () => '/applications', permission: 'application:read', status: 200 },
  'GET /applications/key': { path: () => '/applications/key', permission: 'authenticated', status: 200 },
  'GET /applications/:id': {
    path: ({ application_id }) => `/applications/${application_id}`,
    permission: 'application:read',
    status: 200,
    names: ['application_id'],
  },
  'PUT /applications/:id': {
    path: ({ application_id }) => `/applications/${application_id}`,
    json: application,
    permission: 'application:update',
    status: 200,
    names: ['application_id'],
  },
  'DELETE /applications/:id': {
    path: ({ application_id }) => `/applications/${application_id}`,
    permission: 'application:delete',
    status: 204,
    names: ['application_id'],
  },
  'POST /applications/:id/regenerate': {
    path: ({ application_id }) => `/applications/${application_id}/regenerate`,
    permission: 'application:update',
    status: 200,
    names: ['application_id'],
  },
  'POST /applications/:id/keys': {
    path: ({ application_id }) => `/applications/${application_id}/keys`,
    json: {},
    permission: 'application:update',
    status: 201,
    names: ['application_id'],
  },
  'GET /applications/:id/keys': {
    path: ({ application_id }) => `/applications/${application_id}/keys`,
    permission: 'application:read',
    status: 200,
    names: ['application_id'],
  },
  'GET /applications/:id/keys/:key_id': {
    path: ({ application_id, key_id }) => `/applications/${application_id}/keys/${key_id}`,
    permission: 'application:read',
    status: 200,
    names: ['application_id', 'key_id'],
  },
  'PUT /applications/:id/keys/:key_id': {
    path: ({ application_id, key_id }) => `/applications/${application_id}/keys/${key_id}`,
    json: {},
    permission: 'application:update',
    status: 200,
    names: ['application_id', 'key_id'],
  },
  'DELETE /applications/:id/keys/:key_id': {
    path: ({ application_id, key_id }) => `/applications/${application_id}/keys/${key_id}`,
    permission: 'application:update',
    status: 204,
    names: ['application_id', 'key_id'],
  },
  'POST /reactor-formulas': {
    path: () => '/reactor-formulas',
    json: formula,
    permission: 'reactor:create',
    status: 201,
  },
  'GET /reactor-formulas': { path: () => '/reactor-formulas', permission: 'reactor:read', status: 200 },
  'GET /reactor-formulas/:id': {
    path: ({ formula_id }) => `/reactor-formulas/${formula_id}`,
    permission: 'reactor:read',
    status: 200,
    names: ['formula_id'],
  },
  'PUT /reactor-formulas/:id': {
    path: ({ formula_id }) => `/reactor-formulas/${formula_id}`,
    json: formula,
    permission: 'reactor:update',
    status: 200,
    names: ['formula_id'],
  },
  'DELETE /reactor-formulas/:id': {
    path: ({ unused_formula_id }) => `/reactor-formulas/${unused_formula_id}`,
    permission: 'reactor:delete',
    status: 204,
    names: ['unused_formula_id'],
  },
  'POST /reactors': {
    path: () => '/reactors',
    jsonOf: ({ formula_id, application_id }) => ({
      name: 'Made',
      formula: { id: formula_id },
      application: { id: application_id },
    }),
    permission: 'reactor:create',
    status: 201,
    names: ['formula_id', 'application_id'],
  },
  'GET /reactors': { path: () => '/reactors', permission: 'reactor:read', status: 200 },
  'GET /reactors/:id': {
    path: ({ reactor_id }) => `/reactors/${reactor_id}`,
    permission: 'reactor:read',
    status: 200,
    names: ['reactor_id'],
  },
  'PUT /reactors/:id': {
    path: ({ reactor_id }) => `/reactors/${reactor_id}`,
    jsonOf: ({ application_id }) => ({ name: 'Renamed', application: { id: application_id } }),
    permission: 'reactor:update',
    status: 200,
    names: ['reactor_id', 'application_id'],
  },
  'PATCH /reactors/:id': {
    path: ({ reactor_id }) => `/reactors/${reactor_id}`,
    jsonOf: ({ application_id }) => ({ name: 'Renamed', application: { id: application_id } }),
    permission: 'reactor:update',
    status: 200,
    names: ['reactor_id', 'application_id'],
  },
  'DELETE /reactors/:id': {
    path: ({ reactor_id }) => `/reactors/${reactor_id}`,
    permission: 'reactor:delete',
    status: 204,
    names: ['reactor_id'],
  },
  'POST /reactors/:id/react': {
    path: ({ reactor_id }) => `/reactors/${reactor_id}/react`,
    jsonOf: ({ token_id }) => ({ args: { value: `{{ ${token_id} }}` } }),
    permission: 'token:use',
    status: 200,
    names: ['reactor_id'],
  },
  'POST /reactors/:id/test': {
    path: ({ reactor_id }) => `/reactors/${reactor_id}/test`,
    json: { code, args: { value: 'sample' } },
    permission: 'reactor:update',
    status: 200,
    names: ['reactor_id'],
  },
  ...versionRows('reactor-formulas', 'reactor', 'formula_id', { code }),
  ...versionRows('reactors', 'reactor', 'reactor_id', { code }),
  ...versionRows('proxies', 'proxy', 'proxy_id', { request_transform: { code } }),
  'POST /proxies': {
    path: () => '/proxies',
    jsonOf: ({ application_id }) => ({ ...proxy, application: { id: application_id } }),
    permission: 'proxy:create',
    status: 201,
    names: ['application_id'],
  },
  'GET /proxies': { path: () => '/proxies', permission: 'proxy:read', status: 200 },
  'GET /proxies/:id': {
    path: ({ proxy_id }) => `/proxies/${proxy_id}`,
    permission: 'proxy:read',
    status: 200,
    names: ['proxy_id'],
  },
  'PUT /proxies/:id': {
    path: ({ proxy_id }) => `/proxies/${proxy_id}`,
    jsonOf: ({ application_id }) => ({ ...proxy, application: { id: application_id } }),
    permission: 'proxy:update',
    status: 200,
    names: ['proxy_id', 'application_id'],
  },
  'PATCH /proxies/:id': {
    path: ({ proxy_id }) => `/proxies/${proxy_id}`,
    jsonOf: ({ application_id }) => ({ name: 'Renamed', application: { id: application_id } }),
    permission: 'proxy:update',
    status: 200,
    names: ['proxy_id', 'application_id'],
  },
  'POST /proxies/:id/rotate-key': {
    path: ({ proxy_id }) => `/proxies/${proxy_id}/rotate-key`,
    json: {},
    permission: 'proxy:update',
    status: 200,
    names: ['proxy_id'],
  },
  'DELETE /proxies/:id': {
    path: ({ proxy_id }) => `/proxies/${proxy_id}`,
    permission: 'proxy:delete',
    status: 204,
    names: ['proxy_id'],
  },
  'POST /webhooks': { path: () => '/webhooks', json: webhook, permission: 'webhook:create', status: 201 },
  'GET /webhooks': { path: () => '/webhooks', permission: 'webhook:read', status: 200 },
  'GET /webhooks/event-types': { path: () => '/webhooks/event-types', permission: 'webhook:read', status: 200 },
  ...webhookRows([
    ['GET', '', 'webhook:read', 200],
    ['PUT', '', 'webhook:update', 200, webhook],
    ['PATCH', '', 'webhook:update', 200, { name: 'Renamed' }],
    ['GET', '/deliveries', 'webhook:read', 200],
    ['POST', '/rotate-secret', 'webhook:update', 200],
    ['POST', '/ping', 'webhook:update', 200],
  ]),
  'POST /webhooks/:id/deliveries/:delivery_id/replay': {
    path: ({ webhook_id, delivery_id }) => `/webhooks/${webhook_id}/deliveries/${delivery_id}/replay`,
    permission: 'webhook:update',
    status: 200,
    names: ['webhook_id', 'delivery_id'],
  },
  ...webhookRows([['DELETE', '', 'webhook:delete', 204]]),
  'GET /permissions': { path: () => '/permissions', permission: 'authenticated', status: 200 },
  'GET /roles': { path: () => '/roles', permission: 'authenticated', status: 200 },
  // The operator has named none.
  'GET /tenants/self/owner': { path: () => '/tenants/self/owner', permission: 'tenant:member:read', status: 404 },
  'GET /tenants/self': { path: () => '/tenants/self', permission: 'tenant:read', status: 200 },
  'PUT /tenants/self': {
    path: () => '/tenants/self',
    json: { name: 'Renamed' },
    permission: 'tenant:update',
    status: 200,
  },
  'DELETE /tenants/self': { path: () => '/tenants/self', permission: 'tenant:delete', status: 204 },
  'POST /access/explain': {
    path: () => '/access/explain',
    jsonOf: ({ token_id }) => ({ permission: 'token:read', token_id }),
    permission: 'access:read',
    status: 200,
    names: ['token_id'],
  },
  'POST /access/simulate': {
    path: () => '/access/simulate',
    jsonOf: ({ application_id }) => ({ application_id, days: 1 }),
    permission: 'access:read',
    status: 200,
    names: ['application_id'],
  },
  'GET /access/review': { path: () => '/access/review', permission: 'access:read', status: 200 },
  'POST /access/review/attestations': {
    path: () => '/access/review/attestations',
    json: { digest: 'a'.repeat(64) },
    permission: 'access:read',
    status: 200,
  },
  'GET /tenants/self/reports/usage': {
    path: () => '/tenants/self/reports/usage',
    permission: 'report:read',
    status: 200,
  },
  'GET /tenants/self/members': { path: () => '/tenants/self/members', permission: 'tenant:member:read', status: 200 },
  'PUT /tenants/self/members/:id': {
    path: ({ member_id }) => `/tenants/self/members/${member_id}`,
    json: { role: 'SUPPORT' },
    permission: 'tenant:member:update',
    status: 200,
    names: ['member_id'],
  },
  'DELETE /tenants/self/members/:id': {
    path: ({ member_id }) => `/tenants/self/members/${member_id}`,
    permission: 'tenant:member:delete',
    status: 204,
    names: ['member_id'],
  },
  'POST /tenants/self/invitations': {
    path: () => '/tenants/self/invitations',
    jsonOf: () => ({ email: newAddress() }),
    permission: 'tenant:invitation:create',
    status: 201,
  },
  'POST /tenants/self/invitations/:id/resend': {
    path: ({ invitation_id }) => `/tenants/self/invitations/${invitation_id}/resend`,
    permission: 'tenant:invitation:create',
    status: 200,
    names: ['invitation_id'],
  },
  'GET /tenants/self/invitations': {
    path: () => '/tenants/self/invitations',
    permission: 'tenant:invitation:read',
    status: 200,
  },
  'GET /tenants/self/invitations/:id': {
    path: ({ invitation_id }) => `/tenants/self/invitations/${invitation_id}`,
    permission: 'tenant:invitation:read',
    status: 200,
    names: ['invitation_id'],
  },
  'DELETE /tenants/self/invitations/:id': {
    path: ({ invitation_id }) => `/tenants/self/invitations/${invitation_id}`,
    permission: 'tenant:invitation:delete',
    status: 204,
    names: ['invitation_id'],
  },
  'GET /healthz': { path: () => '/healthz', permission: null, status: 200 },
  'GET /readyz': { path: () => '/readyz', permission: null, status: 200 },
  'GET /': { path: () => '/', permission: null, status: 200 },
  'GET /openapi.json': { path: () => '/openapi.json', permission: null, status: 200 },
  'GET /docs': { path: () => '/docs', permission: null, status: 200 },
  'GET /docs/:chapter': { path: () => '/docs/tokens', permission: null, status: 200 },
  'GET /guides': { path: () => '/guides', permission: null, status: 200 },
  'GET /guides/*': { path: () => '/guides/start', permission: null, status: 200 },
  'GET /llms.txt': { path: () => '/llms.txt', permission: null, status: 200 },
};

/** Pages for people know nobody by a key: pages.test.ts has a table of its own. */
const isPage = (url: string) => /^\/(?:console|join|collect|assets|fields)(?:\/|$)/.test(url);

const UNKNOWN_ID = '7d6f1f5e-0000-4000-8000-000000000000';

let fixture: ReactorServer;
let server: TestServer;
let anonymous: World;
/** For routes that change nothing of what a tenant has. */
let caller: World;

const makeWorld = async (): Promise<World> => {
  const tenant = await server.newTenant();
  const [token_id, parent_id, child_id] = (await server.tokenize(['a', 'b', 'c'], tenant.api_key)).body;
  const linked = await server.request('POST', `/tokens/${parent_id}/children/${child_id}`, { key: tenant.api_key });
  expect(linked.status).toBe(204);
  const { application_id } = await server.newKey(tenant, { permissions: ['token:create'] });
  const make = async (path: string, json: object): Promise<string> => {
    const made = await server.request('POST', path, { key: tenant.api_key, json });
    expect(made.status, made.text).toBe(201);
    return made.body.id;
  };
  const key_id = await make(`/applications/${application_id}/keys`, {});
  const session_id = await make('/sessions', session);
  const intent_id = await make('/token-intents', { type: 'token', data: 'x' });
  const formula_id = await make('/reactor-formulas', formula);
  const unused_formula_id = await make('/reactor-formulas', formula);
  const reactor_id = await make('/reactors', { name: 'Made', formula: { id: formula_id } });
  const proxy_id = await make('/proxies', proxy);
  const webhook_id = await make('/webhooks', webhook);
  const { body: pinged } = await server.request('POST', `/webhooks/${webhook_id}/ping`, { key: tenant.api_key });
  const delivery_id = pinged.id;
  // It is replayed where it does not wait.
  await server.sql(`UPDATE webhook_deliveries SET state = 'dead' WHERE tenant_id = $1 AND id = $2`, [
    tenant.tenant_id,
    delivery_id,
  ]);
  for (const [path, json] of [
    [`/reactor-formulas/${formula_id}`, { code }],
    [`/proxies/${proxy_id}`, { request_transform: { code } }],
  ] as const) {
    const saved = await server.request('PUT', `${path}/draft`, { key: tenant.api_key, json });
    expect(saved.status, saved.text).toBe(200);
  }
  const reacted = await server.request('POST', `/reactors/${reactor_id}/react`, { key: tenant.api_key, json: {} });
  expect(reacted.status, reacted.text).toBe(200);
  const run_id = await vi.waitFor(async () => {
    const { body } = await server.request('GET', '/runs', { key: tenant.api_key });
    expect(body.data).toHaveLength(1);
    return body.data[0].id as string;
  });
  const headers = { 'svc-proxy-url': fixture.url, 'svc-idempotency-key': 'order' };
  const sent = await server.request('POST', '/proxy', { key: tenant.api_key, json: { id: token_id }, headers });
  const forward_id = sent.headers.get('svc-forward-id') as string;
  const person = { first_name: 'Ada', last_name: '', password: PASSWORD };
  const accepted = await acceptInvitation(server.ctx, (await invite(server, newAddress(), tenant)).secret, person);
  if (accepted.kind !== 'accepted') throw new Error('no member was made');
  const { member_id, user_id } = accepted.member;
  const { id: invitation_id } = await invite(server, newAddress(), tenant);
  const people = { member_id, user_id, invitation_id };
  const code_ids = { formula_id, unused_formula_id, reactor_id, proxy_id, webhook_id, delivery_id, run_id, forward_id };
  return {
    tenant,
    token_id,
    parent_id,
    child_id,
    intent_id,
    session_id,
    application_id,
    key_id,
    ...code_ids,
    ...people,
  };
};

beforeAll(async () => {
  // Each route is asked without a key: more failures than one address has in a minute.
  fixture = await startReactorServer({ RATE_LIMIT: 'off' });
  ({ server } = fixture);
  anonymous = await makeWorld();
  caller = await makeWorld();
});
afterAll(() => fixture.close());

test('every route of the app is in the table, and the table has no other', () => {
  // Its errors are those of a published interface: test/delegated-payments.test.ts asks it about other tenants.
  const ofOthers = '/agentic_commerce/delegate_payment';
  const real = server.routes
    .filter(({ config, url }) => !config?.methodGuard && !isPage(url) && url !== ofOthers)
    .flatMap(({ method, url }) => [method].flat().map((each) => `${each} ${url}`));
  const gets = real.filter((route) => !route.startsWith('HEAD '));
  expect(gets.toSorted()).toEqual(Object.keys(table).toSorted());
  // HEAD stands beside each GET, with the same permission.
  for (const { method, url, config } of server.routes)
    if ([method].flat().includes('HEAD') && !config?.methodGuard && !isPage(url))
      expect(config?.permission, `HEAD ${url}`).toBe(
        table[`GET ${url}`]?.permission as NonNullable<typeof config>['permission'],
      );
});

const send = (route: string, row: Row, key: string | null, world: World): Promise<Answer> => {
  const json = row.jsonOf ? row.jsonOf(world) : row.json;
  return server.request(route.split(' ')[0] as string, row.path(world), {
    key,
    headers: {
      'svc-trace-id': 'the-same',
      ...(row.contentType && { 'content-type': row.contentType }),
      ...row.headers?.(),
    },
    ...(json === undefined ? {} : { json }),
  });
};

/** Rows of the log of all tenants about what was done. */
const countLogs = async (): Promise<string> =>
  (await server.sql("SELECT count(*) FROM audit_log WHERE outcome = 'success'"))[0].count;

/** The stranger's records as the stranger reads them. */
const readStranger = async (): Promise<string[]> => {
  const { token_id, parent_id, child_id, application_id, formula_id, reactor_id, proxy_id, invitation_id } = anonymous;
  const paths = [
    ...[token_id, parent_id, child_id].map((id) => `/tokens/${id}`),
    `/tokens/${parent_id}/children`,
    `/applications/${application_id}`,
    `/reactor-formulas/${formula_id}`,
    `/reactors/${reactor_id}`,
    `/proxies/${proxy_id}`,
    `/tenants/self/invitations/${invitation_id}`,
    '/tenants/self/members',
  ];
  const texts: string[] = [];
  for (const path of paths) {
    const answer = await server.request('GET', path, { key: anonymous.tenant.api_key });
    expect(answer.status, path).toBe(200);
    texts.push(answer.text);
  }
  return texts;
};

let strangerBefore: string[];
beforeAll(async () => {
  strangerBefore = await readStranger();
});

describe.each(Object.entries(table))('%s', (route, row) => {
  let own: World;
  beforeAll(async () => {
    // What ends a record has records of its own.
    own = /^DELETE |regenerate$/.test(route) ? await makeWorld() : caller;
  });
  const isPrivate = row.permission !== null && row.permission !== 'authenticated';

  test.runIf(row.permission !== null)('refuses no key', async () => {
    expect((await send(route, row, null, own)).status).toBe(401);
  });

  test.runIf(isPrivate)('refuses a caller with every permission but this one', async () => {
    const others = permissions.filter((permission) => permission !== row.permission);
    const { api_key } = await server.newKey(own.tenant, { permissions: others });
    const before = await countLogs();
    const answer = await send(route, row, api_key, own);
    expect(answer.status, answer.text).toBe(403);
    expect((answer.body.proxy_error ?? answer.body).detail).toContain(row.permission);
    expect(await countLogs()).toBe(before);
  });

  test.runIf(isPrivate && row.names !== undefined && row.permission?.startsWith('token:'))(
    'refuses a caller whose rule reaches another container',
    async () => {
      const rule = { priority: 1, container: '/elsewhere/', transform: 'reveal', permissions: [row.permission] };
      const { api_key } = await server.newKey(own.tenant, { permissions: [], rules: [rule] });
      const answer = await send(route, row, api_key, own);
      expect(answer.status, answer.text).toBe(403);
    },
  );

  test.each(row.names ?? [])(
    "answers another tenant's %s byte for byte like an unknown one, and logs nothing",
    async (name) => {
      const before = await countLogs();
      const key = own.tenant.api_key;
      const foreign = await send(route, row, key, { ...own, [name]: anonymous[name] });
      const missing = await send(route, row, key, { ...own, [name]: UNKNOWN_ID });
      expect(foreign.status, foreign.text).toBe(404);
      expect(foreign.text).toBe(missing.text);
      expect([...foreign.headers.keys()].toSorted()).toEqual([...missing.headers.keys()].toSorted());
      expect(await countLogs()).toBe(before);
    },
  );

  // The id of a token may be any text, that of an intent too.
  test.runIf(/:id/.test(route) && !/ \/token(?:s|-intents)\//.test(route))(
    'refuses an id that is no UUID, by its name',
    async () => {
      const world = Object.fromEntries(Object.keys(own).map((name) => [name, 'not-an-id']));
      const path = row.path(world as unknown as World);
      const answer = await send(route, { ...row, path: () => path }, own.tenant.api_key, own);
      expect(answer.status, answer.text).toBe(400);
      expect(Object.keys(answer.body.errors)[0]).toBe('id');
    },
  );

  test('works for its caller', async () => {
    const key = row.permission === null ? null : own.tenant.api_key;
    const answer = await send(route, row, key, own);
    expect(answer.status, answer.text).toBe(row.status);
  });
});

test("another tenant's records are what they were before all of these requests", async () => {
  expect(await readStranger()).toEqual(strangerBefore);
});

test("another tenant's tokens are in no list, search or count, and no expression reaches them", async () => {
  const own = await makeWorld();
  const key = own.tenant.api_key;
  const own_ids = [own.token_id, own.parent_id, own.child_id, own.intent_id].toSorted();
  const listed = await server.request('GET', '/tokens', { key });
  expect(listed.body.data.map(({ id }: { id: string }) => id).toSorted()).toEqual(own_ids);
  expect(listed.body.pagination.total_items).toBe(4);
  const byId = await server.request('GET', `/tokens?id=${anonymous.token_id}`, { key });
  expect(byId.body).toMatchObject({ data: [], pagination: { total_items: 0 } });
  const found = await server.request('POST', '/tokens/search', { key, json: { query: `id:"${anonymous.token_id}"` } });
  expect(found.body.data).toEqual([]);
  const expanded = await server.request('POST', '/detokenize', { key, json: `{{ ${anonymous.token_id} }}` });
  const unknown = await server.request('POST', '/detokenize', { key, json: '{{ unknown-token }}' });
  expect(expanded.status).toBe(400);
  expect(expanded.body.detail.replace(anonymous.token_id, 'x')).toBe(unknown.body.detail.replace('unknown-token', 'x'));
  const usage = await server.request('GET', '/tenants/self/reports/usage', { key });
  expect(usage.body.token_report.metrics_by_type.token.count).toBe(4);
  const children = await server.request('GET', `/tokens/${own.parent_id}/children?id=${anonymous.child_id}`, { key });
  expect(children.body.data).toEqual([]);
  const logs = await server.request('GET', `/logs?entity_id=${anonymous.token_id}`, { key });
  expect(logs.body.data).toEqual([]);
  const react = (id: string) =>
    server.request('POST', `/reactors/${own.reactor_id}/react`, { key, json: { args: { a: `{{ ${id} }}` } } });
  const used = await react(anonymous.token_id);
  const unknownUsed = await react('unknown-token');
  expect(used.status, used.text).toBe(400);
  expect(used.body.detail.replace(anonymous.token_id, 'x')).toBe(unknownUsed.body.detail.replace('unknown-token', 'x'));
  const arrived = fixture.upstream.received.length;
  const forward = (id: string) =>
    server.request('POST', '/proxy', { key, json: { a: `{{ ${id} }}` }, headers: { 'svc-proxy-url': fixture.url } });
  const sent = await forward(anonymous.token_id);
  const unknownSent = await forward('unknown-token');
  expect(sent.status, sent.text).toBe(400);
  expect(sent.body.proxy_error.detail.replace(anonymous.token_id, 'x')).toBe(
    unknownSent.body.proxy_error.detail.replace('unknown-token', 'x'),
  );
  expect(fixture.upstream.received).toHaveLength(arrived);
});

test("another tenant's formulas, reactors and proxies are in no list and no count by any name", async () => {
  const own = await makeWorld();
  const key = own.tenant.api_key;
  const ids = ({ body }: Answer): string[] => body.data.map(({ id }: { id: string }) => id).toSorted();
  for (const query of ['', '?name=Made', '?name=*']) {
    const formulas = await server.request('GET', `/reactor-formulas${query}`, { key });
    expect(ids(formulas)).toEqual([own.formula_id, own.unused_formula_id].toSorted());
    expect(formulas.body.pagination.total_items).toBe(2);
    const reactors = await server.request('GET', `/reactors${query}`, { key });
    expect(ids(reactors)).toEqual([own.reactor_id]);
    expect(reactors.body.pagination.total_items).toBe(1);
    const proxies = await server.request('GET', `/proxies${query}`, { key });
    expect(ids(proxies)).toEqual([own.proxy_id]);
    expect(proxies.body.pagination.total_items).toBe(1);
  }
  for (const one of [`/reactors?id=${anonymous.reactor_id}`, `/proxies?id=${anonymous.proxy_id}`])
    expect((await server.request('GET', one, { key })).body).toMatchObject({
      data: [],
      pagination: { total_items: 0 },
    });
});

test("another tenant's people are in no list and no count; one person can be two members", async () => {
  const own = await makeWorld();
  const key = own.tenant.api_key;
  const ids = ({ body }: Answer): string[] => body.data.map(({ id }: { id: string }) => id);
  const members = await server.request('GET', '/tenants/self/members', { key });
  expect(ids(members)).toEqual([own.member_id]);
  expect(members.body.pagination.total_items).toBe(1);
  const invitations = await server.request('GET', '/tenants/self/invitations', { key });
  expect(ids(invitations)).toEqual([own.invitation_id]);
  expect(invitations.body.pagination.total_items).toBe(1);
  const byUser = `/tenants/self/members?user_id=${anonymous.user_id}`;
  expect((await server.request('GET', byUser, { key })).body).toMatchObject({
    data: [],
    pagination: { total_items: 0 },
  });
  const [{ user }] = members.body.data;
  const invited = await invite(server, user.email, anonymous.tenant);
  const person = { first_name: 'Other', last_name: '', password: PASSWORD };
  expect((await acceptInvitation(server.ctx, invited.secret, person)).kind).toBe('accepted');
  const there = await server.request('GET', `/tenants/self/members?user_id=${user.id}`, {
    key: anonymous.tenant.api_key,
  });
  expect(there.body.data).toMatchObject([{ user: { id: user.id, first_name: 'Other' } }]);
  expect(ids(there)).not.toEqual([own.member_id]);
  expect((await server.request('GET', '/tenants/self/members', { key })).body).toEqual(members.body);
});
