// Attempts to learn a value, another tenant's record or a hidden id by explaining, dry runs, reviews and simulations.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeReactor, type SharedReactorServer, tokenOf, useReactorServer } from './support/reactors.ts';
import type { Answer, TestTenant } from './support/server.ts';
import { makeApplication, makeProxy } from './support/stored-proxies.ts';

const SECRET = 'CANARY-7Q';
const NUMBER = '4242424242424242';
const DRY = { 'svc-dry-run': 'true' };

let fixture: SharedReactorServer;
let foreign: TestTenant;
/** Of this tenant: without a mask, with one, and a card. Of the other: one of each kind. */
const ids = { bare: '', masked: '', card: '', theirs: '', application: '', proxy: '' };
let user: { id: string; key: string };
beforeAll(async () => {
  fixture = await useReactorServer();
  const { server } = fixture;
  foreign = await server.newTenant();
  ids.bare = await tokenOf(server, { part: SECRET, list: [SECRET] });
  ids.masked = await tokenOf(server, SECRET, { mask: 'mask', metadata: { kind: 'plain' } });
  ids.card = await tokenOf(server, { number: NUMBER }, { type: 'card' });
  ids.theirs = await tokenOf(server, SECRET, { mask: SECRET }, foreign.api_key);
  ids.application = foreign.application_id;
  ids.proxy = (await makeProxy(server, { destination_url: `https://${SECRET}.example.com` }, foreign.api_key)).id;
  user = await makeApplication(server, { permissions: ['token:use', 'token:read', 'access:read', 'application:read'] });
});
afterAll(() => fixture.close());

const encodings = (): string[] => {
  const all = [SECRET, NUMBER].flatMap((text) => {
    const bytes = Buffer.from(text);
    return [text, bytes.toString('base64').replace(/=+$/, ''), bytes.toString('hex'), text.toLowerCase()];
  });
  return all.flatMap((text) => [text, [...text].toReversed().join('')]);
};

const expectNothing = ({ text }: Answer): void => {
  for (const each of encodings()) expect(text).not.toContain(each);
  expect(text).not.toMatch(/"fingerprint"\s*:/);
};

const dry = (path: string, json: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  fixture.server.request('POST', path, {
    key: user.key,
    json,
    headers: { 'svc-proxy-url': fixture.url, ...DRY, ...headers },
  });

describe('a dry run', () => {
  const filters = [
    '',
    '| reveal',
    '| stringify',
    '| to_base64',
    '| to_base16',
    '| upcase',
    '| downcase',
    '| last4',
    '| reveal_last: 16',
    "| json: '$.part'",
    "| json: '$.list[0]'",
    "| json: '$.number'",
    '| card_bin',
    '| card_mask',
    '| split: "A"',
    '| slice: 0, 3',
    '| size',
    '| first',
    '| append: "x"',
    "| pad_left: 40, 'x'",
    "| replace: 'C', 'D'",
    "| remove: 'C'",
    "| hmac: 'sha256', 'k'",
  ];
  test.each(filters)('shows nothing of a value by the filter "%s"', async (filter) => {
    for (const id of [ids.bare, ids.masked, ids.card]) {
      expectNothing(await dry('/proxy', { x: `{{ ${id} ${filter} }}`, y: `a {{ ${id} ${filter} }} b` }));
      expectNothing(await dry('/proxy', { x: `{{ token: ${id} ${filter} }}` }));
    }
  });

  test.each([
    ['whole tokens', () => ['bare', 'masked', 'card'].map((name) => `{{ token: ${ids[name as 'bare']} }}`)],
    ['fingerprints', () => `{{ token: ${ids.card} | json: '$.fingerprint' }}`],
    ['deep values of whole tokens', () => `{{ token: ${ids.bare} | json: '$.data.part' }}`],
  ])('shows no value by %s', async (_, jsonOf) => expectNothing(await dry('/proxy', jsonOf())));

  test('shows no value in a path, a query, a header, a form, XML or a text', async () => {
    const { server, url } = fixture;
    const at = { 'svc-proxy-url': url, ...DRY };
    for (const id of [ids.bare, ids.masked]) {
      const placed = encodeURIComponent(`{{ ${id} }}`);
      const send = (path: string, type: string, body: string, headers = {}) =>
        server.request('POST', path, { key: user.key, body, headers: { ...at, 'content-type': type, ...headers } });
      for (const answer of [
        await send(`/proxy/${placed}`, 'text/plain', 'x'),
        await send(`/proxy?q=${placed}`, 'text/plain', 'x'),
        await send('/proxy', 'text/plain', 'x', { 'x-value': `{{ ${id} }}` }),
        await send('/proxy', 'application/x-www-form-urlencoded', `a=${placed}`),
        await send('/proxy', 'application/xml', `<a>{{ ${id} }}</a>`),
        await send('/proxy', 'text/plain', `{{ ${id} }}`),
      ])
        expectNothing(answer);
    }
  });

  test('of a reactor shows no value, and no configuration of it', async () => {
    const reactor = await makeReactor(fixture.server, {
      code: 'module.exports = async () => ({ raw: 1 });',
      contract: [{ name: 'secret', type: 'string' }],
      configuration: { secret: SECRET },
    });
    for (const id of [ids.bare, ids.masked, ids.card])
      expectNothing(
        await dry(`/reactors/${reactor.id}/react`, { args: { x: `{{ ${id} }}`, y: `{{ token: ${id} }}` } }),
      );
  });

  test('names a token of another tenant as one that is none, in a proxy and in a reactor', async () => {
    const reactor = await makeReactor(fixture.server, 'return { raw: 1 };');
    for (const path of ['/proxy', `/reactors/${reactor.id}/react`]) {
      const seen = [];
      for (const id of [ids.theirs, crypto.randomUUID()]) {
        const json = path === '/proxy' ? { x: `{{ ${id} }}` } : { args: { x: `{{ ${id} }}` } };
        const { status, text } = await dry(path, json);
        seen.push(`${status} ${text.replaceAll(id, 'ID').replace(/"trace_id":"[^"]*"/, '')}`);
      }
      expect(seen[0]).toBe(seen[1]);
    }
  });

  test('takes no proxy or reactor of another tenant, and shows no secret path of one of its own', async () => {
    const { server, url } = fixture;
    const theirs = await makeProxy(server, { destination_url: url }, foreign.api_key);
    expect((await dry('/proxy', {}, { 'svc-proxy-key': theirs.key })).status).toBe(404);
    const own = await makeProxy(server, { destination_url: `${url}/${SECRET}?k=${SECRET}` });
    expectNothing(await dry('/proxy/a', {}, { 'svc-proxy-key': own.key }));
    expect((await dry(`/reactors/${crypto.randomUUID()}/react`, {})).status).toBe(404);
  });
});

describe('answers about access', () => {
  const ask = (method: string, path: string, json?: object): Promise<Answer> =>
    fixture.server.request(method, path, { key: user.key, ...(json && { json }) });

  test('show no value, for every permission and kind of token', async () => {
    for (const permission of [
      'token:read',
      'token:use',
      'token:search',
      'token:update',
      'token:delete',
      'token:create',
    ])
      for (const token_id of [ids.bare, ids.masked, ids.card])
        expectNothing(await ask('POST', '/access/explain', { permission, token_id }));
    expectNothing(await ask('GET', '/access/review'));
    expectNothing(await ask('GET', '/access/review?format=csv'));
    expectNothing(
      await ask('POST', '/access/simulate', { application_id: user.id, days: 30, permissions: ['log:read'] }),
    );
  });

  test('find nothing of another tenant, by any id and in any combination', async () => {
    const use = { permission: 'token:use' };
    for (const [path, json] of [
      ['/access/explain', { ...use, token_id: ids.theirs }],
      ['/access/explain', { ...use, token_id: ids.theirs, proxy_id: ids.proxy }],
      ['/access/explain', { ...use, container: '/', proxy_id: ids.proxy }],
      ['/access/explain', { ...use, container: '/', application_id: ids.application }],
      ['/access/explain', { ...use, token_id: ids.theirs, application_id: ids.application }],
      ['/access/explain', { permission: 'log:read', member_id: ids.application }],
      ['/access/simulate', { application_id: ids.application, days: 30 }],
    ] as const) {
      const answer = await ask('POST', path, json);
      expect(answer.status, answer.text).toBe(404);
      expectNothing(answer);
    }
    const { text } = await ask('GET', '/access/review');
    for (const theirs of [foreign.tenant_id, ids.application, ids.proxy, ids.theirs])
      expect(text).not.toContain(theirs);
  });

  test.each(["x' OR '1'='1", '%', '../x', '\u0000', 'x\ny', '{{ x }}', '\ud800'])(
    'do not break on the id %j, and do not say it again',
    async (token_id) => {
      const { status, text } = await ask('POST', '/access/explain', { permission: 'token:read', token_id });
      expect([400, 404]).toContain(status);
      expect(text).not.toContain(SECRET);
    },
  );

  test('are refused to a session key, a public key and a caller without access:read', async () => {
    const { server } = fixture;
    const open = { type: 'public', permissions: ['token:create'] };
    const { key } = await makeApplication(server, open);
    const { key: weak } = await makeApplication(server, { permissions: ['token:use', 'token:read'] });
    for (const each of [key, weak, null])
      for (const [method, path, json] of [
        ['POST', '/access/explain', { permission: 'token:read', token_id: ids.masked }],
        ['GET', '/access/review', undefined],
        ['POST', '/access/simulate', { application_id: user.id, days: 1 }],
        ['POST', '/access/review/attestations', { digest: 'a'.repeat(64) }],
      ] as const) {
        const { status } = await server.request(method, path, { key: each, ...(json && { json }) });
        expect([401, 403]).toContain(status);
      }
  });
});
