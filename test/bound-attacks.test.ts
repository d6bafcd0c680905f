// What an attacker tried against bounds: to read a bound value back, to move it elsewhere, to use it once more.
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { codeOf, makeReactor, react, type ReactorServer, startReactorServer, tokenOf } from './support/reactors.ts';
import type { Answer } from './support/server.ts';
import { askProxy, makeProxy } from './support/stored-proxies.ts';

let fixture: ReactorServer;
/** Reads every value that may be read, and changes tokens. */
let revealing: string;
beforeAll(async () => {
  fixture = await startReactorServer();
  const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:search'] }];
  const permissions = ['token:create', 'token:update', 'token:use', 'token:delete'];
  revealing = (await fixture.server.newKey(fixture.server.tenant, { permissions, rules } as never)).api_key;
});
afterAll(() => fixture.close());
beforeEach(() => {
  fixture.upstream.received.length = 0;
});

const CANARY = '4242424242424242';
const bound = (bound_to: object, more: object = {}): Promise<string> =>
  tokenOf(fixture.server, CANARY, { type: 'card_number', bound_to, ...more });

const post = (path: string, json: object, headers = {}, key = revealing): Promise<Answer> =>
  fixture.server.request('POST', path, { key, json, headers });

const elsewhere = (json: object, headers = {}): Promise<Answer> =>
  post('/proxy', json, { 'svc-proxy-url': fixture.otherUrl, ...headers });

const canaries = (): number =>
  fixture.upstream.received.filter((each) =>
    JSON.stringify({ ...each, body: each.body.toString('latin1') }).includes(CANARY),
  ).length;

describe('to read it back', () => {
  const filters = [
    "json: '$'",
    'reveal_last: 16',
    'last4',
    'stringify',
    'base64_encode',
    'card_mask',
    'slice: 0, 6',
    'to_json',
  ];
  test('no expression of a detokenization shows more than the mask', async () => {
    const id = await bound({ hosts: ['upstream.test'] });
    for (const expression of [
      id,
      `token: ${id}`,
      ...filters.flatMap((each) => [`${id} | ${each}`, `token: ${id} | ${each}`]),
    ])
      for (const path of ['/detokenize', '/v2/detokenize']) {
        const { text } = await post(path, { a: `{{ ${expression} }}`, b: [`x{{${expression}}}y`] });
        for (const part of [CANARY, CANARY.slice(0, 8), Buffer.from(CANARY).toString('base64')])
          expect(text, expression).not.toContain(part);
      }
  });

  test('nor does a partial detokenization, a child, a link, or a copy of the token', async () => {
    const id = await bound({ hosts: ['upstream.test'] });
    const parent = await tokenOf(fixture.server, 'parent');
    const answers = [
      await post('/detokenize', { a: `{{ ${id} }}` }, { prefer: 'handling=lenient' }),
      await post(`/tokens/${parent}/children/${id}`, {}),
      await fixture.server.request('GET', `/tokens/${parent}/children`, { key: revealing }),
      await post(`/tokens/${parent}/children`, { data: `{{ ${id} }}` }),
      await post('/tokenize', { copy: `{{ ${id} }}` }),
      await post('/tokens', { data: 'x', mask: `{{ ${id} }}` }),
      await post('/tokens', { data: 'x', metadata: { a: `{{ ${id} }}` } }),
      await fixture.server.request('GET', `/tokens/${id}/timeline`, { key: revealing }),
    ];
    for (const { text } of answers) expect(text).not.toContain(CANARY);
  });

  test('a kept answer from before the bound is not shown again', async () => {
    const id = await tokenOf(fixture.server, CANARY, { type: 'card_number' });
    const ask = () => post('/detokenize', { a: `{{ ${id} }}` }, { 'svc-idempotency-key': `read-${id}` });
    expect((await ask()).text).toContain(CANARY);
    await fixture.server.request('PATCH', `/tokens/${id}`, { json: { bound_to: { hosts: ['upstream.test'] } } });
    expect((await ask()).text).not.toContain(CANARY);
  });

  test('a kept run is shown again only while the bound names its reactor', async () => {
    const reactor = await makeReactor(fixture.server, 'return { raw: args };');
    const id = await bound({ reactors: [reactor.id] });
    const headers = { 'svc-idempotency-key': `run-${id}` };
    const ask = () => react(fixture.server, reactor, { a: `{{ ${id} }}` }, { headers });
    expect((await ask()).text).toContain(CANARY);
    expect((await ask()).text).toContain(CANARY);
    const json = { bound_to: { hosts: ['upstream.test'] } };
    expect((await fixture.server.request('PATCH', `/tokens/${id}`, { json, key: revealing })).status).toBe(200);
    const again = await ask();
    expect(again.status).not.toBe(200);
    expect(again.text).not.toContain(CANARY);
  });

  test('a row that a database writer unbinds, or binds to another host, is not opened', async () => {
    const id = await bound({ hosts: ['upstream.test'], max_uses: 1 });
    const row = JSON.stringify({ hosts: ['upstream.test'], max_uses: 1 });
    for (const written of [
      null,
      '{}',
      '{"hosts":["other.upstream.test"],"max_uses":1}',
      '{"hosts":["upstream.test"]}',
      '[]',
    ]) {
      await fixture.server.sql('UPDATE tokens SET bound_to = $2::jsonb WHERE id = $1', [id, written]);
      const read = await fixture.server.request('GET', `/tokens/${id}`, { key: revealing });
      expect([read.status, read.text.includes(CANARY)], String(written)).toEqual([500, false]);
      expect((await elsewhere({ a: `{{ ${id} }}` })).status).toBe(500);
    }
    expect(fixture.server.logLines.filter((line) => line.includes('"alarm":"tampered"')).length).toBeGreaterThan(9);
    await fixture.server.sql('UPDATE tokens SET bound_to = $2::jsonb WHERE id = $1', [id, row]);
    expect((await fixture.server.request('GET', `/tokens/${id}`)).status).toBe(200);
    expect(fixture.upstream.received).toEqual([]);
  });
});

describe('to move it elsewhere', () => {
  test('no spelling of the host, no header and no second destination moves it', async () => {
    const id = await bound({ hosts: ['upstream.test'] });
    const { port } = fixture.upstream;
    const urls = [
      fixture.otherUrl,
      `https://upstream.test.other.upstream.test:${port}`,
      `https://upstream.test@other.upstream.test:${port}`,
      `https://other.upstream.test:${port}/upstream.test`,
      `https://other.upstream.test:${port}?upstream.test`,
      `https://other.upstream.test:${port}#upstream.test`,
      `https://OTHER.upstream.test.:${port}`,
      `https://xupstream.test:${port}`,
    ];
    for (const url of urls) {
      const answer = await elsewhere({ a: `{{ ${id} }}` }, { 'svc-proxy-url': url });
      expect([400, 403], url).toContain(answer.status);
    }
    for (const headers of [
      { host: 'upstream.test' },
      { 'x-forwarded-host': 'upstream.test' },
      { 'svc-proxy-host': 'upstream.test' },
    ])
      expect([400, 403]).toContain((await elsewhere({ a: `{{ ${id} }}` }, headers)).status);
    expect(fixture.upstream.received).toEqual([]);
  });

  test('a redirect of the bound host is not followed', async () => {
    const id = await bound({ hosts: ['upstream.test'] });
    fixture.routes.set('/away', (_, response) => {
      response.writeHead(307, { location: `${fixture.otherUrl}/stolen` });
      response.end();
    });
    const answer = await fixture.server.request('POST', '/proxy/away', {
      json: { a: `{{ ${id} }}` },
      headers: { 'svc-proxy-url': fixture.url },
      redirect: 'manual',
    } as never);
    expect(answer.status).toBe(307);
    expect(fixture.receivedAt('/stolen')).toEqual([]);
  });

  test('no other code gets it: a trial of a draft, another reactor, a formula that is shared', async () => {
    const reactor = await makeReactor(fixture.server, 'return { raw: 1 };');
    const id = await bound({ reactors: [reactor.id] });
    const twin = await fixture.server.request('POST', '/reactors', {
      json: { name: 'Twin', formula: { id: reactor.formula_id }, configuration: {} },
    });
    expect((await react(fixture.server, twin.body.id, { a: `{{ ${id} }}` })).status).toBe(403);
    const draft = await fixture.server.request('PUT', `/reactor-formulas/${reactor.formula_id}/draft`, {
      json: { code: codeOf('return { raw: args };') },
    });
    const tried = await post(
      `/reactors/${reactor.id}/test`,
      { args: { a: `{{ ${id} }}` } },
      {},
      fixture.server.tenant.api_key,
    );
    expect(draft.text + tried.text).not.toContain(CANARY);
  });

  test('a proxy of another tenant with the same destination is none of its proxies', async () => {
    const other = await fixture.server.newTenant();
    const foreign = await makeProxy(fixture.server, { destination_url: fixture.url }, other.api_key);
    const own = await makeProxy(fixture.server, { destination_url: fixture.url });
    const id = await bound({ proxies: [own.id] });
    expect([403, 404]).toContain((await askProxy(fixture.server, foreign, { json: { a: `{{ ${id} }}` } })).status);
    expect(canaries()).toBe(0);
  });

  test('a change of the value, the type or the mask leaves the bound', async () => {
    const id = await bound({ hosts: ['upstream.test'] });
    for (const json of [{ data: '5555555555554444' }, { metadata: { a: 'b' } }, { containers: ['/general/high/'] }]) {
      const answer = await fixture.server.request('PATCH', `/tokens/${id}`, { json, key: revealing });
      expect([200, 403], answer.text).toContain(answer.status);
      expect((await fixture.server.request('GET', `/tokens/${id}`)).body.bound_to).toEqual({
        hosts: ['upstream.test'],
      });
    }
    expect((await elsewhere({ a: `{{ ${id} }}` })).status).toBe(403);
  });
});

describe('to use it once more', () => {
  test('by a repeat, a narrower or wider bound, an association, or many at once: no', async () => {
    const id = await bound({ max_uses: 1 });
    const send = () => post('/proxy', { a: `{{ ${id} }}` }, { 'svc-proxy-url': fixture.url });
    const many = await Promise.all(Array.from({ length: 20 }, send));
    expect(many.filter(({ status }) => status === 200)).toHaveLength(1);
    for (const bound_to of [{ max_uses: 1, places: ['body'] }, null, { max_uses: 1 }])
      await fixture.server.request('PATCH', `/tokens/${id}`, { json: { bound_to }, key: revealing });
    expect((await send()).status).toBe(403);
    expect(canaries()).toBe(1);
  });

  test('one request with two counted tokens of which one is used up counts neither', async () => {
    const [one, two] = [await bound({ max_uses: 1 }), await bound({ max_uses: 1 })];
    const send = (...ids: string[]) =>
      post(
        '/proxy',
        ids.map((id) => `{{ ${id} }}`),
        { 'svc-proxy-url': fixture.url },
      );
    expect((await send(one)).status).toBe(200);
    const pairs = await Promise.all([send(one, two), send(two, one), send(one, two)]);
    expect(pairs.map(({ status }) => status)).toEqual([403, 403, 403]);
    expect((await send(two)).status).toBe(200);
  });
});

describe('statements', () => {
  const statementsOf = async (id: string): Promise<string[]> => {
    const sent = vi.spyOn(Client.prototype, 'query');
    expect((await post('/proxy', { a: `{{ ${id} }}` }, { 'svc-proxy-url': fixture.url })).status).toBe(200);
    const names = sent.mock.calls.map(([config]) => String((config as unknown as { name?: string }).name ?? config));
    sent.mockRestore();
    return names.filter((name) => name !== 'insert-runs');
  };

  test('are as ever without max_uses; with it the log row is written in a transaction that counts', async () => {
    const free = await tokenOf(fixture.server, 'x');
    await statementsOf(free);
    const usual = await statementsOf(free);
    expect(usual).toEqual(['find-values', 'insert-logs-and-runs']);
    expect(await statementsOf(await bound({ hosts: ['upstream.test'], places: ['body'] }))).toEqual(usual);
    const counted = await statementsOf(await bound({ max_uses: 1 }));
    expect(counted.map((name) => name.toLowerCase().split(/[ ;]/)[0])).toEqual([
      'find-values',
      'begin',
      'count-uses',
      'insert-logs-and-runs',
      'commit',
    ]);
  });
});
