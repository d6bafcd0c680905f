// SVC-DRY-RUN: the answer is the request that would leave, with masks in place of values, and nothing is opened, counted, run or sent.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeReactor, react, type SharedReactorServer, tokenOf, useReactorServer } from './support/reactors.ts';
import type { Answer, RequestOptions } from './support/server.ts';
import { makeApplication, makeProxy } from './support/stored-proxies.ts';

let fixture: SharedReactorServer;
beforeAll(async () => {
  fixture = await useReactorServer();
});
afterAll(() => fixture.close());

const DRY = { 'svc-dry-run': 'true' };

const send = (path: string, { headers, ...options }: RequestOptions): Promise<Answer> =>
  fixture.server.request('POST', path, { ...options, headers: { 'svc-proxy-url': fixture.url, ...headers } });

const dry = async (path: string, { headers, ...options }: RequestOptions) => {
  const before = fixture.upstream.received.length;
  const answer = await send(path, { ...options, headers: { ...headers, ...DRY } });
  expect(answer.status, answer.text).toBe(200);
  expect(answer.headers.get('svc-proxy-destination-status')).toBeNull();
  expect(fixture.upstream.received.length).toBe(before);
  return answer.body;
};

const numbersFrom = (seed: number) => {
  let state = seed;
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
};

describe('of random requests', () => {
  test('the sent body with masks put back is the body of the dry run, 300 times', async () => {
    const next = numbersFrom(9);
    const tokens: { id: string; value: string; mask: string }[] = [];
    for (let index = 0; index < 8; index += 1) {
      const value = `VALUE-<&"'>-${index}-é%+ END`;
      const mask = `mask ${index} <&> "ü"`;
      tokens.push({ value, mask, id: await tokenOf(fixture.server, value, { mask }) });
    }
    const one = <T>(values: readonly T[]): T => values[next(values.length)] as T;
    const text = () => {
      const { id } = one(tokens);
      return one([`{{ ${id} }}`, `a {{ ${id} | upcase }} b`, 'plain', `{{${id}}}{{ ${one(tokens).id} }}`]);
    };
    const upper = (each: string) => each.toUpperCase();
    /** Values of a text as masks, also where a filter has changed them. */
    const masked = (sent: string): string =>
      tokens.reduce(
        (before, { value, mask }) => before.replaceAll(value, mask).replaceAll(upper(value), upper(mask)),
        sent,
      );
    const maskedJson = (node: any): unknown => {
      if (typeof node === 'string') return masked(node);
      if (Array.isArray(node)) return node.map(maskedJson);
      return typeof node === 'object' && node !== null
        ? Object.fromEntries(Object.entries(node).map(([name, each]) => [name, maskedJson(each)]))
        : node;
    };
    const bodies: Record<string, () => { type: string; body: string; read: (sent: string) => unknown }> = {
      json: () => ({
        type: 'application/json',
        body: JSON.stringify({ a: text(), list: [text(), 1, null, { deep: text() }], flag: true }),
        read: (sent) => maskedJson(JSON.parse(sent)),
      }),
      form: () => ({
        type: 'application/x-www-form-urlencoded',
        body: new URLSearchParams({ a: text(), b: text() }).toString(),
        read: (sent) => [...new URLSearchParams(sent)].map(([name, each]) => [name, masked(each)]),
      }),
      text: () => ({ type: 'text/plain', body: `x ${text()} y`, read: (sent) => masked(sent) }),
    };
    for (let round = 0; round < 300; round += 1) {
      const { type, body, read } = (bodies[one(Object.keys(bodies))] as (typeof bodies)['json'])();
      const options = { body, headers: { 'content-type': type, 'x-more': 'plain' } };
      const shown = await dry('/proxy/v1/charges?q=1', options);
      const sent = await send('/proxy/v1/charges?q=1', options);
      expect(sent.status, sent.text).toBe(200);
      const received = fixture.upstream.received.at(-1) as (typeof fixture.upstream.received)[number];
      expect(shown.decision).toBe('allowed');
      expect(shown.request).toMatchObject({ method: 'POST', path: received.url, is_before_transform: false });
      expect(read(shown.request.body), body).toEqual(read(received.body.toString()));
      expect(shown.request.body).not.toContain('VALUE');
      expect(JSON.stringify(shown)).not.toMatch(/fingerprint/);
      const names = received.headers.map(([name]) => name.toLowerCase());
      expect(names).toEqual(
        expect.arrayContaining(shown.request.header_names.filter((each: string) => each !== 'host')),
      );
    }
  });
});

describe('a dry run', () => {
  test('shows a mask only to who may read it, and never the value of a token without one', async () => {
    const { server } = fixture;
    const masked = await tokenOf(server, 'SECRET-1', { mask: 'mask-1' });
    const bare = await tokenOf(server, 'SECRET-2');
    const json = { masked: `{{ ${masked} }}`, bare: `{{ ${bare} }}`, whole: `{{ token: ${masked} | json: '$.data' }}` };
    const rule = (transform: string, name: string) => ({
      priority: 1,
      container: '/',
      transform,
      permissions: [name],
    });
    const bodyFor = async (wanted: object) => {
      const { key } = await makeApplication(server, wanted);
      const { request } = await dry('/proxy', { key, json });
      return JSON.parse(request.body);
    };
    const hidden = { masked: 'XXXX', bare: 'XXXX', whole: 'XXXX' };
    const shown = { masked: 'mask-1', bare: 'XXXX', whole: 'mask-1' };
    expect(await bodyFor({ permissions: ['token:use'] })).toEqual(hidden);
    expect(await bodyFor({ permissions: ['token:use', 'token:read'] })).toEqual(shown);
    expect(await bodyFor({ permissions: ['token:use'], rules: [rule('redact', 'token:read')] })).toEqual(hidden);
    expect(await bodyFor({ permissions: ['token:use'], rules: [rule('mask', 'token:read')] })).toEqual(shown);
    expect(await bodyFor({ permissions: ['token:use'], rules: [rule('reveal', 'token:read')] })).toEqual(shown);
  });

  test('names what refuses: the rule of a token, a list of hosts, a daily limit', async () => {
    const { server, url } = fixture;
    const id = await tokenOf(server, 'SECRET', { containers: ['/pci/high/'] });
    const options = { json: { x: `{{ ${id} }}` } };
    const rules = [{ priority: 1, container: '/general/', transform: 'reveal', permissions: ['token:use'] }];
    const other = await makeApplication(server, { rules });
    const byRule = await dry('/proxy', { ...options, key: other.key });
    expect(byRule.request).toBeUndefined();
    expect(byRule).toMatchObject({
      decision: 'refused',
      tokens: [{ id, decision: 'refused', by: { kind: 'nothing' }, skipped: [{ rule_index: 0, why: 'container' }] }],
    });
    const bound = await makeApplication(server, { permissions: ['token:use'], allowed_hosts: ['api.example.com'] });
    const byHost = await dry('/proxy', { ...options, key: bound.key });
    expect(byHost.decision).toBe('refused');
    expect(byHost.checks).toContainEqual({
      name: 'application.allowed_hosts',
      ok: false,
      detail: 'The host is not on the list of the application.',
    });
    const limited = await makeApplication(server, { permissions: ['token:use'], daily_uses: 1 });
    for (let turn = 0; turn < 3; turn += 1)
      expect((await dry('/proxy', { ...options, key: limited.key })).decision).toBe('allowed');
    const second = await tokenOf(server, 'other');
    expect((await send('/proxy', { json: `{{ ${second} }}`, key: limited.key })).status).toBe(200);
    const byLimit = await dry('/proxy', { ...options, key: limited.key });
    expect([byLimit.decision, byLimit.checks.at(-1)]).toEqual([
      'refused',
      { name: 'daily_uses', ok: false, detail: '1 of 1 tokens are counted today (UTC).' },
    ]);
    expect(url).toContain('upstream.test');
  });

  test('asks the bounds of tokens, and uses none of their uses', async () => {
    const { server } = fixture;
    const make = (bound_to: object) => tokenOf(server, 'SECRET', { mask: 'mask', bound_to });
    const elsewhere = await make({ hosts: ['api.example.com'] });
    const byHost = await dry('/proxy', { json: `{{ ${elsewhere} }}` });
    expect([byHost.decision, byHost.tokens[0].checks.at(-1)]).toEqual([
      'refused',
      { name: 'bound_to', ok: false, detail: 'bound_to.hosts does not name this host.' },
    ]);
    const once = await make({ max_uses: 1 });
    const json = `{{ ${once} }}`;
    for (let turn = 0; turn < 3; turn += 1) expect((await dry('/proxy', { json })).decision).toBe('allowed');
    expect((await send('/proxy', { json })).status).toBe(200);
    const used = await dry('/proxy', { json });
    expect([used.decision, used.tokens[0].checks.at(-1).detail]).toEqual(['refused', 'bound_to.max_uses is used up.']);
    const reactor = await makeReactor(server, 'return { raw: 1 };');
    const run = await react(server, reactor, { a: `{{ ${elsewhere} }}` }, { headers: DRY });
    expect(run.body.decision).toBe('refused');
  });

  test('runs no transform, writes no run and no use, and says that it is before the transform', async () => {
    const { server, url } = fixture;
    const id = await tokenOf(server, 'SECRET', { mask: 'mask' });
    const code = 'module.exports = async () => { throw new Error("it ran"); };';
    const proxy = await makeProxy(server, { destination_url: `${url}/base?secret=1`, request_transform: { code } });
    const { key, id: actor_id } = await makeApplication(server, { permissions: ['token:use', 'token:read'] });
    const headers = { 'svc-proxy-key': proxy.key };
    const shown = await dry('/proxy/a?b=c', { key, headers, json: { x: `{{ ${id} }}` } });
    expect(shown.request).toMatchObject({ path: '/a?b=c', is_before_transform: true });
    expect(JSON.parse(shown.request.body)).toEqual({ x: 'mask' });
    const reader = await makeApplication(server, { permissions: ['token:use', 'proxy:read'] });
    const whole = await dry('/proxy/a?b=c', { key: reader.key, headers, json: {} });
    expect(whole.request.path).toBe('/base/a?secret=1&b=c');
    const rows = await server.sql(
      'SELECT operation, message, disclosure FROM audit_log WHERE actor_id = $1 ORDER BY message',
      [actor_id],
    );
    expect(rows).toEqual([
      { operation: 'read', message: 'Dry run', disclosure: 'none' },
      { operation: 'read', message: 'Token retrieved', disclosure: 'masked' },
    ]);
    expect(await server.sql('SELECT id FROM runs WHERE actor_id = $1', [actor_id])).toEqual([]);
  });

  test('of a reactor shows args with masks, and runs no code', async () => {
    const { server } = fixture;
    const id = await tokenOf(server, 'SECRET', { mask: 'mask' });
    const reactor = await makeReactor(server, 'throw new Error("it ran");');
    const idempotent = { ...DRY, 'svc-idempotency-key': crypto.randomUUID() };
    const answer = await react(server, reactor, { a: `{{ ${id} }}`, b: 1 }, { headers: idempotent });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body).toMatchObject({ decision: 'allowed', args: { a: 'mask', b: 1 }, tokens: [{ id }] });
    const real = await react(server, reactor, {}, { headers: { ...idempotent, 'svc-dry-run': '' } });
    expect(real.status, real.text).toBe(400);
    const { 'svc-idempotency-key': own } = idempotent;
    const later = await react(server, reactor, {}, { headers: { 'svc-idempotency-key': own } });
    expect([later.status, later.headers.get('svc-idempotent-replayed')]).toEqual([500, null]);
  });

  test('finds no token of another tenant, byte for byte as a token that is none', async () => {
    const foreign = await fixture.server.newTenant();
    const theirs = await tokenOf(fixture.server, 'SECRET', { mask: 'mask' }, foreign.api_key);
    const none = crypto.randomUUID();
    const problems = [];
    for (const id of [theirs, none]) {
      const answer = await send('/proxy', { json: `{{ ${id} }}`, headers: DRY });
      const { trace_id: _, ...problem } = answer.body.proxy_error;
      problems.push([answer.status, JSON.stringify(problem).replaceAll(id, 'ID')]);
    }
    expect(problems[0]?.[0]).toBe(400);
    expect(problems[0]).toEqual(problems[1]);
  });

  test('is refused to a stranger, also at an open proxy, and with a value that is not true', async () => {
    const { server, url } = fixture;
    const open = await makeProxy(server, { destination_url: url, require_auth: false });
    const headers = { 'svc-proxy-key': open.key, ...DRY };
    const before = fixture.upstream.received.length;
    expect((await send('/proxy', { key: null, headers, json: {} })).status).toBe(401);
    expect((await send('/proxy', { headers: { ...headers, 'svc-dry-run': 'yes' }, json: {} })).status).toBe(400);
    expect((await send('/proxy', { headers: { ...headers, 'svc-dry-run': 'false' }, json: {} })).status).toBe(400);
    expect(fixture.upstream.received.length).toBe(before);
  });

  test.each([
    ['POST', '/tokens', { data: 'DRY' }],
    ['POST', '/tokenize', 'DRY'],
    ['POST', '/applications', { name: 'DRY', permissions: ['log:read'] }],
    ['DELETE', '/tokens/DRY', undefined],
  ])('is refused by %s %s, which does nothing', async (method, path, json) => {
    const answer = await fixture.server.request(method, path, { headers: DRY, ...(json !== undefined && { json }) });
    expect([answer.status, answer.body.detail]).toEqual([
      400,
      'SVC-DRY-RUN is for /proxy and for invocations of reactors: nothing was done.',
    ]);
  });
});
