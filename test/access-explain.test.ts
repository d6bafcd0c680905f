// POST /access/explain through the door: it says what the routes then do, and tells nothing of other tenants.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { codeOf, type SharedReactorServer, tokenOf, useReactorServer } from './support/reactors.ts';
import type { Answer, TestTenant } from './support/server.ts';
import { askProxy, makeApplication, makeProxy } from './support/stored-proxies.ts';

let fixture: SharedReactorServer;
let auditor: TestTenant;
beforeAll(async () => {
  fixture = await useReactorServer();
  auditor = await fixture.server.newKey(fixture.server.tenant, { permissions: ['access:read', 'application:read'] });
});
afterAll(() => fixture.close());

const ask = (json: object, key = auditor.api_key): Promise<Answer> =>
  fixture.server.request('POST', '/access/explain', { json, key });

const explain = async (json: object, key?: string) => {
  const answer = await ask(json, key);
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

const numbersFrom = (seed: number) => {
  let state = seed;
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
};

const CONTAINERS = ['/general/', '/general/high/', '/pci/high/'];
/** Names of one destination. */
const HOSTS = ['upstream.test', 'other.upstream.test', 'moving.upstream.test'];

describe('of random applications, rules, tokens and hosts', () => {
  const next = numbersFrom(6);
  const one = <T>(values: readonly T[]): T => values[next(values.length)] as T;
  const hostsOf = () =>
    next(2) === 0 ? {} : { allowed_hosts: [one([...HOSTS, '*.upstream.test', 'api.example.com'])] };
  const ruleOf = (ids: string[]) => ({
    priority: 1 + next(3),
    transform: one(['redact', 'mask', 'reveal']),
    ...one([
      { permissions: ['token:read'] },
      { permissions: ['token:use'] },
      { permissions: ['token:read', 'token:use'] },
      {
        permissions: ['token:use'],
        bound_to: one([{ hosts: ['upstream.test'] }, { max_uses: 2 }, { places: ['body'] }]),
      },
    ]),
    ...(next(3) === 0
      ? { conditions: [{ attribute: 'id', operator: 'equals', value: one(ids) }] }
      : { container: one(['/', ...CONTAINERS]) }),
  });

  test('each explanation is what reading and sending the token then do, 400 times', async () => {
    const { server, url } = fixture;
    const tokens: { id: string; value: string; mask: string | undefined }[] = [];
    for (let index = 0; index < 12; index += 1) {
      const value = `VALUE-${index}-END`;
      const mask = index % 2 === 0 ? `mask-${index}` : undefined;
      const bound_to = [undefined, { hosts: ['*.upstream.test'] }, { max_uses: 4 }, undefined][index % 4];
      const more = { ...(mask && { mask }), ...(bound_to && { bound_to }) };
      const id = await tokenOf(server, value, { containers: [one(CONTAINERS)], ...more });
      tokens.push({ id, value, mask });
    }
    const port = new URL(url).port;
    const ids = tokens.map(({ id }) => id);
    const found = { allowed: 0, refused: 0 };
    for (let round = 0; round < 40; round += 1) {
      const permissions = one([['log:read'], ['token:read'], ['token:use'], ['token:read', 'token:use']]);
      const rules = Array.from({ length: next(4) }, () => ruleOf(ids));
      const application = await makeApplication(server, { permissions, rules, ...hostsOf() });
      const proxy = await makeProxy(server, {
        destination_url: url,
        ...(next(2) === 0 && { allowed_hosts: ['upstream.test'] }),
      });
      for (let turn = 0; turn < 5; turn += 1) {
        const { id, value, mask } = one(tokens);
        const about = { application_id: application.id, token_id: id };
        const read = await explain({ ...about, permission: 'token:read' });
        const answer = await server.request('GET', `/tokens/${id}`, { key: application.key });
        expect([read.decision, answer.status]).toEqual(
          answer.status === 200 ? ['allowed', 200] : ['refused', answer.status],
        );
        const shown = { value, masked: mask, nothing: undefined }[read.shows as 'value'];
        expect(answer.status === 200 ? answer.body.data : undefined).toEqual(shown);
        const host = one(HOSTS);
        const named = { 'svc-proxy-url': `https://${host}:${port}` };
        const isStored = next(2) === 0;
        const use = await explain({
          ...about,
          permission: 'token:use',
          ...(isStored ? { proxy_id: proxy.id } : { host: `${host}:${port}` }),
        });
        const sent = await server.request('POST', '/proxy', {
          key: application.key,
          headers: isStored ? { 'svc-proxy-key': proxy.key } : named,
          json: { part: `{{ ${id} }}` },
        });
        // A name that is not resolved has passed the checks.
        const isSent = sent.status === 200 || sent.status === 502;
        expect([use.decision, isSent], sent.text).toEqual([isSent ? 'allowed' : 'refused', isSent]);
        if (sent.status === 200) {
          const received = fixture.upstream.received.at(-1)?.body.toString() ?? '';
          const part = { value, masked: mask, nothing: null }[use.shows as 'value'] ?? null;
          expect(JSON.parse(received)).toEqual({ part });
        }
        found[use.decision as 'allowed'] += 1;
        found[read.decision as 'allowed'] += 1;
      }
    }
    expect(found.allowed + found.refused).toBe(400);
    expect(Math.min(found.allowed, found.refused)).toBeGreaterThan(50);
  });
});

describe('an explanation', () => {
  test('names the rule as the record of the application has it, and the rules that were skipped', async () => {
    const rule = { transform: 'mask', permissions: ['token:read'] };
    const { id } = await makeApplication(fixture.server, {
      rules: [
        { ...rule, priority: 5, container: '/', description: 'The rest' },
        { ...rule, priority: 2, container: '/general/', permissions: ['token:use'] },
        { ...rule, priority: 2, container: '/pci/' },
        { ...rule, priority: 1, conditions: [{ attribute: 'id', operator: 'equals', value: 'order-1' }] },
      ],
    });
    const question = { application_id: id, permission: 'token:read', container: '/General/high/' };
    expect(await explain(question)).toEqual({
      decision: 'allowed',
      by: { kind: 'rule', rule_index: 0, priority: 5, description: 'The rest' },
      shows: 'masked',
      checks: [{ name: 'rule', ok: true, detail: 'An access rule allows it, and gives its mask.' }],
      skipped: [
        { rule_index: 3, why: 'condition' },
        { rule_index: 1, why: 'permission' },
        { rule_index: 2, why: 'container' },
      ],
    });
  });

  test('names the daily limit, which a counted token does not use again', async () => {
    const { server, url } = fixture;
    const { id, key } = await makeApplication(server, { permissions: ['token:use'], daily_uses: 1 });
    const [one, other] = [await tokenOf(server, 'one'), await tokenOf(server, 'other')];
    const question = { application_id: id, permission: 'token:use' };
    expect((await explain({ ...question, token_id: one })).decision).toBe('allowed');
    const sent = await server.request('POST', '/proxy', {
      key,
      headers: { 'svc-proxy-url': url },
      json: `{{ ${one} }}`,
    });
    expect(sent.status, sent.text).toBe(200);
    expect((await explain({ ...question, token_id: one })).decision).toBe('allowed');
    const refused = await explain({ ...question, token_id: other });
    expect([refused.decision, refused.shows]).toEqual(['refused', 'nothing']);
    expect(refused.checks.at(-1)).toEqual({
      name: 'daily_uses',
      ok: false,
      detail: '1 of 1 tokens are counted today (UTC).',
    });
  });

  test.each<object>([
    { idempotency_header: 'Idempotency-Key' },
    { request_transform: { code: codeOf('return args;') }, configuration: { A: 'a' } },
    { response_transform: { type: 'mask', expression: '[0-9]{12}' } },
  ])('of a token bound to a proxy with %j is what its use is', async (more) => {
    const { server, url } = fixture;
    const proxy = await makeProxy(server, { destination_url: url, ...more });
    const token_id = await tokenOf(server, 'x', { bound_to: { proxies: [proxy.id] } });
    const question = { application_id: server.tenant.application_id, permission: 'token:use', token_id };
    expect((await explain({ ...question, proxy_id: proxy.id })).decision).toBe('allowed');
    const sent = await askProxy(server, proxy, { json: `{{ ${token_id} }}` });
    expect(sent.status, sent.text).toBe(200);
    expect((await explain({ ...question, host: 'upstream.test' })).decision).toBe('refused');
  });

  test('says that a token has expired, which the routes do not find any more', async () => {
    const { server } = fixture;
    const token_id = await tokenOf(server, 'x');
    await server.sql('UPDATE tokens SET expires_at = now() WHERE tenant_id = $1 AND id = $2', [
      server.tenant.tenant_id,
      token_id,
    ]);
    const { api_key } = await server.newKey(server.tenant, { permissions: ['access:read', 'token:read'] });
    const { decision, checks } = await explain({ permission: 'token:read', token_id }, api_key);
    expect(decision).toBe('refused');
    expect(checks).toContainEqual({ name: 'expiry', ok: false, detail: 'The token has expired.' });
  });

  test('of a permission that is on no token, of the caller itself, and is one row of the log', async () => {
    const { server } = fixture;
    const { api_key, application_id } = await server.newKey(server.tenant, { permissions: ['access:read'] });
    expect(await explain({ permission: 'proxy:read' }, api_key)).toMatchObject({
      decision: 'refused',
      by: { kind: 'nothing' },
      shows: 'nothing',
    });
    expect((await explain({ permission: 'access:read' }, api_key)).by).toEqual({ kind: 'permission' });
    const { body } = await server.request('GET', `/logs?entity_id=${application_id}&operation=read`);
    expect(body.data.map((row: any) => [row.operation, row.message, row.actor_id])).toEqual([
      ['read', 'Access explained', application_id],
      ['read', 'Access explained', application_id],
    ]);
  });

  test('needs application:read about others, and finds nothing of another tenant', async () => {
    const { server } = fixture;
    const { api_key } = await server.newKey(server.tenant, { permissions: ['access:read'] });
    const { application_id } = auditor;
    const refused = await ask({ application_id, permission: 'log:read' }, api_key);
    expect([refused.status, refused.body.detail]).toEqual([403, 'The permission application:read is needed for this.']);
    const foreign = await server.newTenant();
    const token_id = await server
      .request('POST', '/tokens', { key: foreign.api_key, json: { data: 'x' } })
      .then(({ body }) => body.id);
    const proxy = await makeProxy(server, { destination_url: 'https://api.example.com' }, foreign.api_key);
    const none = crypto.randomUUID();
    const pairs: [object, object][] = [
      [
        { permission: 'token:read', token_id },
        { permission: 'token:read', token_id: none },
      ],
      [
        { permission: 'log:read', application_id: foreign.application_id },
        { permission: 'log:read', application_id: none },
      ],
      [
        { permission: 'token:use', container: '/', proxy_id: proxy.id },
        { permission: 'token:use', container: '/', proxy_id: none },
      ],
      [
        { permission: 'log:read', member_id: none },
        { permission: 'log:read', member_id: crypto.randomUUID() },
      ],
    ];
    for (const [theirs, unknown] of pairs) {
      const [one, other] = [await ask(theirs), await ask(unknown)];
      expect([one.status, one.body.detail]).toEqual([404, other.body.detail]);
    }
  });

  test.each<[string, object, string]>([
    ['two subjects', { application_id: crypto.randomUUID(), member_id: crypto.randomUUID() }, 'member_id'],
    ['neither a token nor a container', { permission: 'token:use' }, 'token_id'],
    ['a token and a container', { permission: 'token:use', token_id: 'x', container: '/' }, 'container'],
    ['a token of another permission', { token_id: 'x' }, 'token_id'],
    ['a host to read from', { permission: 'token:read', container: '/', host: 'a.example.com' }, 'host'],
    ['a host with a path', { permission: 'token:use', container: '/', host: 'a.example.com/x' }, 'host'],
    [
      'a host and a proxy',
      { permission: 'token:use', container: '/', host: 'a.example.com', proxy_id: crypto.randomUUID() },
      'host',
    ],
    ['a permission that is none', { permission: 'token:everything' }, 'permission'],
  ])('of %s is a 400 at its place', async (_, wrong, place) => {
    const { status, body } = await ask({ permission: 'log:read', ...wrong });
    expect([status, Object.keys(body.errors)]).toEqual([400, [place]]);
  });
});
