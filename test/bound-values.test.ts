// A value that is bound to a destination: it goes there and nowhere else, and no route shows it.
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { codeOf, makeReactor, react, type SharedReactorServer, tokenOf, useReactorServer } from './support/reactors.ts';
import type { Answer, RequestOptions } from './support/server.ts';
import { askProxy, makeApplication, makeProxy, changeProxy } from './support/stored-proxies.ts';

let fixture: SharedReactorServer;
beforeAll(async () => {
  fixture = await useReactorServer();
});
afterAll(() => fixture.close());

const HOST = 'upstream.test';
const CANARY = '4242424242424242';
const CARD = { number: CANARY, expiration_month: 12, expiration_year: 2030 };
const MASKED = 'XXXXXXXXXXXX4242';

const boundCard = (bound_to: object): Promise<string> => tokenOf(fixture.server, CARD, { type: 'card', bound_to });

/** The number alone, for places that hold no object. */
const boundNumber = (bound_to: object): Promise<string> =>
  tokenOf(fixture.server, CANARY, { type: 'card_number', bound_to });

const send = (url: string, method: string, path: string, options: RequestOptions = {}): Promise<Answer> =>
  fixture.server.request(method, path, { ...options, headers: { 'svc-proxy-url': url, ...options.headers } });

const sentWith = (text: string): number =>
  fixture.upstream.received.filter((each) =>
    JSON.stringify({ ...each, body: each.body.toString('latin1') }).includes(text),
  ).length;

beforeEach(() => {
  fixture.upstream.received.length = 0;
});

/** The key of an application that may change tokens, and reads so much of them. */
const keyWith = async (transform: 'reveal' | 'mask'): Promise<string> => {
  const rules = [{ priority: 1, container: '/', transform, permissions: ['token:read', 'token:search'] }];
  return (await fixture.server.newKey(fixture.server.tenant, { permissions: ['token:create', 'token:update'], rules }))
    .api_key;
};

/** Refused by an attribute of a bound, within the frame of the proxy or outside of it. */
const refusal = (answer: Answer, attribute: string, sentence?: string): void => {
  expect(answer.status, answer.text).toBe(403);
  const problem = answer.body.proxy_error ?? answer.body;
  expect(Object.keys(problem.errors), answer.text).toEqual([`bound_to.${attribute}`]);
  if (sentence !== undefined) expect(problem.errors[`bound_to.${attribute}`]).toEqual([sentence]);
  expect(answer.text).not.toContain(CANARY);
};

const gzipped = (json: object) => ({
  body: gzipSync(JSON.stringify(json)),
  headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
});

const multipart = (text: string) => ({
  body: `--x\r\ncontent-disposition: form-data; name="card"\r\n\r\n${text}\r\n--x--\r\n`,
  headers: { 'content-type': 'multipart/form-data; boundary=x' },
});

/** A request with an expression in one place. */
const ways: Record<string, (text: string) => [path: string, options: RequestOptions]> = {
  path: (text) => [`/proxy/charges/${encodeURIComponent(text)}`, {}],
  query: (text) => [`/proxy?card=${encodeURIComponent(text)}`, {}],
  header: (text) => ['/proxy', { headers: { 'x-card': text } }],
  JSON: (text) => ['/proxy', { json: { deep: [{ card: text }] } }],
  form: (text) => [
    '/proxy',
    { body: `card=${encodeURIComponent(text)}`, headers: { 'content-type': 'application/x-www-form-urlencoded' } },
  ],
  XML: (text) => ['/proxy', { body: `<card>${text}</card>`, headers: { 'content-type': 'application/xml' } }],
  text: (text) => ['/proxy', { body: `card ${text}`, headers: { 'content-type': 'text/plain' } }],
  multipart: (text) => ['/proxy', multipart(text)],
  gzip: (text) => ['/proxy', gzipped({ card: text })],
};
const placeOf: Record<string, string> = { path: 'path', query: 'query', header: 'header' };

describe('hosts', () => {
  for (const [name, way] of Object.entries(ways))
    test(`by ${name}, a value goes to its host and to no other`, async () => {
      const id = await boundNumber({ hosts: [HOST] });
      const [path, options] = way(`{{ ${id} }}`);
      refusal(await send(fixture.otherUrl, 'POST', path, options), 'hosts', 'does not name this host');
      expect(fixture.upstream.received).toEqual([]);
      const passed = await send(fixture.url, 'POST', path, options);
      expect(passed.status, passed.text).toBe(200);
      expect(fixture.upstream.received).toHaveLength(1);
    });

  test('the refusal names token and host, and is one row of the log', async () => {
    const id = await boundCard({ hosts: [HOST] });
    const answer = await send(fixture.otherUrl, 'POST', '/proxy', { json: { card: `{{ ${id} }}` } });
    expect(answer.body.proxy_error.detail).toBe(`Token ${id} may not be sent to other.upstream.test.`);
    const rows = await fixture.server.sql(
      'SELECT operation, outcome, message, entity_type, disclosure, destination_host FROM audit_log WHERE entity_ids @> $1::text[] ORDER BY id',
      [[id]],
    );
    expect(rows.slice(1)).toEqual([
      {
        operation: 'use',
        outcome: 'refused',
        message: 'Refused: bound_to.hosts',
        entity_type: 'card',
        disclosure: 'none',
        destination_host: 'other.upstream.test',
      },
    ]);
  });

  test('a wildcard names the hosts below it', async () => {
    const id = await boundCard({ hosts: ['*.upstream.test'] });
    const json = { card: `{{ ${id} }}` };
    refusal(await send(fixture.url, 'POST', '/proxy', { json }), 'hosts');
    expect((await send(fixture.otherUrl, 'POST', '/proxy', { json })).status).toBe(200);
  });

  test('one bound token among others stops the request', async () => {
    const [free, bound] = [await tokenOf(fixture.server, 'free'), await boundCard({ hosts: [HOST] })];
    refusal(await send(fixture.otherUrl, 'POST', '/proxy', { json: [`{{ ${free} }}`, `{{ ${bound} }}`] }), 'hosts');
    expect(fixture.upstream.received).toEqual([]);
  });

  test('a reactor does not get the value', async () => {
    const id = await boundCard({ hosts: [HOST] });
    const reactor = await makeReactor(fixture.server, 'return { raw: args };');
    const answer = await react(fixture.server, reactor, { card: `{{ ${id} }}` });
    refusal(answer, 'reactors', 'does not name this reactor');
    expect(answer.body.detail).toBe(`Token ${id} may not be used by this reactor.`);
  });

  test('code of a proxy does not get the value; the built-in mask sends it nowhere', async () => {
    const id = await boundNumber({ hosts: [HOST] });
    const json = { card: `{{ ${id} }}` };
    for (const side of ['request_transform', 'response_transform']) {
      const proxy = await makeProxy(fixture.server, {
        destination_url: fixture.url,
        [side]: { code: 'module.exports = async ({ args }) => args;' },
      });
      refusal(await askProxy(fixture.server, proxy, { json }), 'proxies');
    }
    const masking = await makeProxy(fixture.server, {
      destination_url: fixture.url,
      response_transform: { type: 'mask', matcher: 'regex', expression: '[0-9]{16}', replacement: '*' },
    });
    const answer = await askProxy(fixture.server, masking, { json });
    expect(answer.status, answer.text).toBe(200);
    expect(sentWith(CANARY)).toBe(1);
  });

  test('svc.proxy, nested proxies and open proxies are held to it too', async () => {
    const id = await boundNumber({ hosts: [HOST] });
    const user = await makeApplication(fixture.server, { type: 'private', permissions: ['token:use'] });
    const open = await makeProxy(fixture.server, {
      destination_url: fixture.otherUrl,
      require_auth: false,
      application: { id: user.id },
    });
    refusal(await askProxy(fixture.server, open, { json: { card: `{{ ${id} }}` }, key: null }), 'hosts');
    const nested = await makeProxy(fixture.server, { destination_url: fixture.otherUrl });
    const byCode = async (headers: object): Promise<Answer> => {
      const call = `svc.proxy.post({ path: '/x', body: { card: svc.expression('${id}') }, headers: ${JSON.stringify(headers)} })`;
      const reactor = await makeReactor(fixture.server, {
        code: codeOf(`return { raw: (await ${call}).status };`),
        application: { application_id: user.id },
      });
      return react(fixture.server, reactor, {});
    };
    for (const headers of [{ 'SVC-PROXY-URL': fixture.otherUrl }, { 'SVC-PROXY-KEY': nested.key }]) {
      const answer = await byCode(headers);
      expect(answer.status, answer.text).not.toBe(200);
      expect(answer.text).toContain(`Token ${id} may not be sent to other.upstream.test.`);
      expect(answer.text).not.toContain(CANARY);
    }
    expect(fixture.upstream.received).toEqual([]);
    const passed = await byCode({ 'SVC-PROXY-URL': fixture.url });
    expect(passed.body.raw, passed.text).toBe(200);
    expect(sentWith(CANARY)).toBe(1);
  });
});

describe('places', () => {
  for (const [name, way] of Object.entries(ways)) {
    const place = placeOf[name] ?? 'body';
    test(`${name} counts as ${place}`, async () => {
      const others = ['body', 'header', 'path', 'query'].filter((each) => each !== place);
      const [path, options] = way(`{{ ${await boundNumber({ places: others })} }}`);
      refusal(await send(fixture.url, 'POST', path, options), 'places', `does not name this place: ${place}`);
      expect(fixture.upstream.received).toEqual([]);
      const [allowed, more] = way(`{{ ${await boundNumber({ places: [place] })} }}`);
      expect((await send(fixture.url, 'POST', allowed, more)).status).toBe(200);
    });
  }
});

describe('until', () => {
  test('ends uses, and not the token', async () => {
    const id = await boundCard({ until: '2020-01-01' });
    refusal(await send(fixture.url, 'POST', '/proxy', { json: { card: `{{ ${id} }}` } }), 'until');
    const reactor = await makeReactor(fixture.server, 'return { raw: args };');
    refusal(await react(fixture.server, reactor, { card: `{{ ${id} }}` }), 'until');
    expect((await fixture.server.request('GET', `/tokens/${id}`)).status).toBe(200);
    expect(fixture.upstream.received).toEqual([]);
  });
});

describe('proxies and reactors', () => {
  const ECHO = 'module.exports = async ({ args }) => args;';

  test('the named proxy sends the value, its transform gets it, and no other does', async () => {
    const wanted = { destination_url: fixture.url, request_transform: { code: ECHO } };
    const [named, other] = [await makeProxy(fixture.server, wanted), await makeProxy(fixture.server, wanted)];
    const id = await boundNumber({ proxies: [named.id] });
    const json = { card: `{{ ${id} }}` };
    refusal(await askProxy(fixture.server, other, { json }), 'proxies', 'does not name this proxy');
    refusal(await send(fixture.url, 'POST', '/proxy', { json }), 'proxies');
    expect(fixture.upstream.received).toEqual([]);
    expect((await askProxy(fixture.server, named, { json })).status).toBe(200);
    expect(sentWith(CANARY)).toBe(1);
  });

  test('a proxy that has changed sends nothing until the bound is confirmed', async () => {
    const before = { destination_url: fixture.url, request_transform: { code: ECHO }, configuration: { a: 'b' } };
    const proxy = await makeProxy(fixture.server, before);
    const bound_to = { proxies: [proxy.id] };
    const id = await boundNumber(bound_to);
    const ask = () => askProxy(fixture.server, proxy, { json: { card: `{{ ${id} }}` } });
    const revealing = await keyWith('reveal');
    const updating = await keyWith('mask');
    for (const changed of [
      { ...before, destination_url: fixture.otherUrl },
      { ...before, request_transform: { code: `${ECHO}//` } },
      { ...before, configuration: { a: 'c' } },
    ]) {
      await changeProxy(fixture.server, proxy, changed);
      refusal(await ask(), 'proxies', 'changed');
      const patch = (key: string) => fixture.server.request('PATCH', `/tokens/${id}`, { json: { bound_to }, key });
      expect((await patch(updating)).status).toBe(403);
      refusal(await ask(), 'proxies', 'changed');
      expect((await patch(revealing)).status).toBe(200);
      expect((await ask()).status).toBe(200);
    }
    await changeProxy(fixture.server, proxy, { ...before, configuration: { a: 'c' }, name: 'Another name' });
    expect((await ask()).status).toBe(200);
  });

  test('the named reactor gets the value until its code changes, and no proxy sends it', async () => {
    const reactor = await makeReactor(fixture.server, 'return { raw: { length: args.card.length } };');
    const id = await boundNumber({ reactors: [reactor.id] });
    const args = { card: `{{ ${id} }}` };
    expect((await react(fixture.server, reactor, args)).body.raw).toEqual({ length: 16 });
    refusal(await send(fixture.url, 'POST', '/proxy', { json: args }), 'reactors', 'names reactors only, and no proxy');
    expect((await fixture.server.request('GET', `/tokens/${id}`)).text).not.toContain(CANARY);
    const formula = await fixture.server.request('GET', `/reactor-formulas/${reactor.formula_id}`);
    const { name, type, configuration, request_parameters } = formula.body;
    const json = { name, type, configuration, request_parameters, code: codeOf('return { raw: args };') };
    expect((await fixture.server.request('PUT', `/reactor-formulas/${reactor.formula_id}`, { json })).status).toBe(200);
    refusal(await react(fixture.server, reactor, args), 'reactors', 'changed');
  });

  test('an id that names nothing of the tenant is a 400 at its place', async () => {
    const mine = await makeProxy(fixture.server, { destination_url: fixture.url });
    const other = await fixture.server.newTenant();
    for (const [attribute, ids] of [
      ['proxies', [mine.id, '6f1c3c8e-3f0c-4f0e-9d3e-0d8f3c1b2a4d']],
      ['reactors', ['6f1c3c8e-3f0c-4f0e-9d3e-0d8f3c1b2a4d']],
    ] as const) {
      const json = { type: 'token', data: 'x', bound_to: { [attribute]: ids } };
      const answer = await fixture.server.request('POST', '/tokens', { json });
      expect(answer.status, answer.text).toBe(400);
      expect(Object.keys(answer.body.errors)).toEqual([`bound_to.${attribute}[${ids.length - 1}]`]);
    }
    const json = { type: 'token', data: 'x', bound_to: { proxies: [mine.id] } };
    const foreign = await fixture.server.request('POST', '/tokens', { json, key: other.api_key });
    expect(foreign.body.errors).toEqual({ 'bound_to.proxies[0]': ['must be the id of a stored proxy'] });
  });
});

describe('max_uses', () => {
  test('a request is one use however often the token stands in it, and the last one is the last', async () => {
    const id = await boundNumber({ max_uses: 2 });
    const json = { a: `{{ ${id} }}`, b: `{{ ${id} }}` };
    const reactor = await makeReactor(fixture.server, 'return {};');
    expect((await fixture.server.request('GET', `/tokens/${id}`)).body.uses).toBe(0);
    expect((await send(fixture.url, 'POST', '/proxy', { json })).status).toBe(200);
    expect((await react(fixture.server, reactor, json)).status).toBe(200);
    refusal(await send(fixture.url, 'POST', '/proxy', { json }), 'max_uses');
    refusal(await react(fixture.server, reactor, json), 'max_uses');
    expect(fixture.upstream.received).toHaveLength(1);
    expect((await fixture.server.request('GET', `/tokens/${id}`)).body.uses).toBe(2);
    const listed = await fixture.server.request('GET', `/tokens?id=${id}`);
    expect(listed.body.data[0]).toMatchObject({ uses: 2, bound_to: { max_uses: 2 } });
  });

  test('a request that fails has used it; one that is refused has not', async () => {
    const id = await boundNumber({ max_uses: 1, hosts: [HOST, 'moving.upstream.test'] });
    const json = { card: `{{ ${id} }}` };
    refusal(await send(fixture.otherUrl, 'POST', '/proxy', { json }), 'hosts');
    expect((await send(fixture.movingUrl, 'POST', '/proxy', { json })).status).toBe(502);
    refusal(await send(fixture.url, 'POST', '/proxy', { json }), 'max_uses');
  });

  test('two tokens count together or not at all; the count goes with the token', async () => {
    const [spent, fresh] = [await boundNumber({ max_uses: 1 }), await boundNumber({ max_uses: 1 })];
    await send(fixture.url, 'POST', '/proxy', { json: [`{{ ${spent} }}`] });
    refusal(await send(fixture.url, 'POST', '/proxy', { json: [`{{ ${fresh} }}`, `{{ ${spent} }}`] }), 'max_uses');
    expect((await fixture.server.request('GET', `/tokens/${fresh}`)).body.uses).toBe(0);
    await fixture.server.request('DELETE', `/tokens/${spent}`);
    expect(await fixture.server.sql('SELECT 1 FROM token_uses WHERE token_id = $1', [spent])).toEqual([]);
  });
});

describe('reading', () => {
  const bounds: [string, () => Promise<object>][] = [
    ['hosts', async () => ({ hosts: [HOST] })],
    ['proxies', async () => ({ proxies: [(await makeProxy(fixture.server, { destination_url: fixture.url })).id] })],
    ['reactors', async () => ({ reactors: [(await makeReactor(fixture.server, 'return {};')).id] })],
  ];
  for (const [name, make] of bounds)
    test(`with ${name}, every route shows the mask, also to a rule that reveals`, async () => {
      const key = await keyWith('reveal');
      const [card, text] = [
        await boundCard(await make()),
        await tokenOf(fixture.server, `no mask ${CANARY}`, { bound_to: await make() }),
      ];
      const asks: [method: string, path: string, json?: object][] = [
        ['GET', `/tokens/${card}`],
        ['GET', `/tokens/${text}`],
        ['GET', `/tokens?id=${card}&id=${text}`],
        ['GET', `/v2/tokens?id=${card}&id=${text}`],
        ['POST', '/tokens/search', { query: `id:"${card}" OR id:"${text}"` }],
        ['POST', '/v2/tokens/search', { query: `id:"${card}" OR id:"${text}"` }],
        ['POST', '/detokenize', { a: `{{ ${card} }}`, b: `{{ token: ${card} }}`, c: `{{ token: ${text} }}` }],
      ];
      for (const [method, path, json] of asks) {
        const answer = await fixture.server.request(method, path, { key, ...(json && { json }) });
        expect([200, 404], answer.text).toContain(answer.status);
        expect(answer.text, path).not.toContain(CANARY);
      }
      const shown = await fixture.server.request('GET', `/tokens/${card}`, { key });
      expect(shown.body.data.number).toBe(MASKED);
      expect((await fixture.server.request('GET', `/tokens/${text}`, { key })).body).not.toHaveProperty('data');
      const part = { a: `{{ ${card} | json: '$.number' }}`, b: `{{ ${card} | json: '$.expiration_year' }}` };
      const parts = await fixture.server.request('POST', '/detokenize', { key, json: part });
      expect(parts.body).toEqual({ a: MASKED, b: 2030 });
    });

  test('a search by value and a filter by fingerprint do not confirm a guess', async () => {
    const key = await keyWith('reveal');
    const id = await boundCard({ hosts: [HOST] });
    const { fingerprint } = (await fixture.server.request('GET', `/tokens/${id}`, { key })).body;
    const found = async (query: string) => {
      const answer = await fixture.server.request('POST', '/tokens/search', { key, json: { query } });
      return answer.body.data.map((token: { id: string }) => token.id) as string[];
    };
    expect(await found(`data:${CANARY}`)).not.toContain(id);
    expect(await found(`fingerprint:${fingerprint}`)).not.toContain(id);
    expect(await found('type:card')).toContain(id);
  });

  test('code reads the mask by svc', async () => {
    const id = await boundCard({ hosts: [HOST] });
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:search'] }];
    const user = await makeApplication(fixture.server, { type: 'private', permissions: [], rules });
    const reactor = await makeReactor(fixture.server, {
      code: codeOf(
        `return { raw: [await svc.tokens.retrieve('${id}'), await svc.detokenize({ a: '{{ ${id} }}' }), await svc.tokens.search({ query: 'id:${id}' })] };`,
      ),
      application: { application_id: user.id },
    });
    const answer = await react(fixture.server, reactor, {});
    expect(answer.status, answer.text).toBe(200);
    expect(answer.text).not.toContain(CANARY);
    expect(answer.text).toContain(MASKED);
  });

  test('without a destination, a bound limits uses, and rules decide who reads', async () => {
    const key = await keyWith('reveal');
    const id = await boundCard({ max_uses: 1, places: ['body'], until: '2090-01-01' });
    expect((await fixture.server.request('GET', `/tokens/${id}`, { key })).body.data.number).toBe(CANARY);
  });
});

describe('changing', () => {
  const patch = (id: string, bound_to: object | null, key: string) =>
    fixture.server.request('PATCH', `/tokens/${id}`, { json: { bound_to }, key });

  test('token:update narrows, and a rule that reveals widens and removes', async () => {
    const [updating, revealing] = [await keyWith('mask'), await keyWith('reveal')];
    const id = await boundCard({ hosts: [HOST, 'other.upstream.test'] });
    expect((await patch(id, { hosts: [HOST], max_uses: 3 }, updating)).status).toBe(200);
    for (const wider of [
      null,
      { max_uses: 3 },
      { hosts: [HOST] },
      { hosts: [HOST], max_uses: 4 },
      { hosts: ['*.upstream.test'], max_uses: 3 },
    ]) {
      const answer = await patch(id, wider, updating);
      expect(answer.status, JSON.stringify(wider)).toBe(403);
      expect(answer.body.errors).toEqual({ bound_to: ['must be within the bound of the token'] });
    }
    const widened = await patch(id, { hosts: [HOST, 'other.upstream.test'] }, revealing);
    expect(widened.status, widened.text).toBe(200);
    expect(widened.body.bound_to).toEqual({ hosts: ['other.upstream.test', HOST] });
    expect((await patch(id, null, revealing)).body).not.toHaveProperty('bound_to');
    expect((await fixture.server.request('GET', `/tokens/${id}`, { key: revealing })).body.data.number).toBe(CANARY);
    expect((await patch(id, { hosts: [HOST] }, updating)).status).toBe(200);
    expect((await fixture.server.request('GET', `/tokens/${id}`, { key: revealing })).body.data.number).toBe(MASKED);
  });

  test('a patch of another attribute keeps the bound, and uses stay counted', async () => {
    const revealing = await keyWith('reveal');
    const id = await boundCard({ hosts: [HOST], max_uses: 5 });
    await send(fixture.url, 'POST', '/proxy', { json: { card: `{{ ${id} }}` } });
    const answer = await fixture.server.request('PATCH', `/tokens/${id}`, { json: { metadata: { a: 'b' } } });
    expect(answer.body).toMatchObject({ bound_to: { hosts: [HOST], max_uses: 5 }, uses: 1 });
    await patch(id, null, revealing);
    expect((await patch(id, { max_uses: 5 }, revealing)).body).toMatchObject({ uses: 1 });
  });

  test('deduplication finds a token with an equal bound only', async () => {
    const number = '5555555555554444';
    const make = async (bound_to: object | undefined, more: object = {}) => {
      const json = {
        type: 'card',
        data: { ...CARD, number },
        deduplicate_token: true,
        ...(bound_to && { bound_to }),
        ...more,
      };
      const answer = await fixture.server.request('POST', '/tokens', { json });
      expect(answer.status, answer.text).toBe(201);
      return answer.body.id as string;
    };
    const free = await make(undefined);
    const bound = await make({ hosts: [HOST, 'b.test'] });
    expect(bound).not.toBe(free);
    expect(await make({ hosts: ['b.test', HOST] })).toBe(bound);
    expect(await make(undefined)).toBe(free);
    expect(await make({ hosts: [HOST] })).not.toBe(bound);
    const many = {
      a: { type: 'card', data: { ...CARD, number }, deduplicate_token: true, bound_to: { hosts: ['b.test', HOST] } },
    };
    const all = await fixture.server.request('POST', '/tokenize', {
      json: { ...many, ...Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`x${at}`, many.a])) },
    });
    expect(new Set(Object.values<{ id: string }>(all.body).map(({ id }) => id))).toEqual(new Set([bound]));
  });
});

describe('what a bound may be', () => {
  const wrong: [string, unknown, string][] = [
    ['nothing', {}, 'bound_to'],
    ['no object', 'upstream.test', 'bound_to'],
    ['an empty list', { hosts: [] }, 'bound_to.hosts'],
    ['an address', { hosts: ['127.0.0.1'] }, 'bound_to.hosts[0]'],
    ['a port', { hosts: ['a.test:443'] }, 'bound_to.hosts[0]'],
    ['too many hosts', { hosts: Array.from({ length: 21 }, (_, at) => `a${at}.test`) }, 'bound_to.hosts'],
    ['no UUID', { proxies: ['x'] }, 'bound_to.proxies[0]'],
    ['another place', { places: ['cookie'] }, 'bound_to.places[0]'],
    ['no use', { max_uses: 0 }, 'bound_to.max_uses'],
    ['too many uses', { max_uses: 1001 }, 'bound_to.max_uses'],
    ['half a use', { max_uses: 1.5 }, 'bound_to.max_uses'],
    ['no time', { until: 'soon' }, 'bound_to.until'],
    ['an unknown name', { host: ['a.test'] }, 'bound_to.host'],
    ['pins', { hosts: ['a.test'], pins: { a: 'b' } }, 'bound_to.pins'],
  ];
  for (const [name, bound_to, path] of wrong)
    test(`${name} is a 400 at its place, for a new token and for a patch`, async () => {
      const made = await fixture.server.request('POST', '/tokens', { json: { type: 'token', data: 'x', bound_to } });
      expect(made.status, made.text).toBe(400);
      expect(Object.keys(made.body.errors), made.text).toEqual([path]);
      const id = await tokenOf(fixture.server, 'x');
      const patched = await fixture.server.request('PATCH', `/tokens/${id}`, { json: { bound_to } });
      expect([patched.status, Object.keys(patched.body.errors)]).toEqual([400, [path]]);
    });
});

describe('access rules', () => {
  const ruled = async (bound_to: object): Promise<{ key: string; id: string }> => {
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:use'], bound_to }];
    const json = { name: 'Ruled', type: 'private', permissions: ['token:create', 'token:update'], rules };
    const made = await fixture.server.request('POST', '/applications', { json });
    expect(made.status, made.text).toBe(201);
    expect(made.body.rules[0].bound_to).toEqual(bound_to);
    return made.body;
  };

  test('bind all tokens of a caller, and show the bound without its pins', async () => {
    const proxy = await makeProxy(fixture.server, { destination_url: fixture.url });
    const { key } = await ruled({ proxies: [proxy.id] });
    const id = await tokenOf(fixture.server, CANARY, { type: 'card_number' });
    const json = { card: `{{ ${id} }}` };
    refusal(await send(fixture.url, 'POST', '/proxy', { json, key }), 'proxies');
    expect((await askProxy(fixture.server, proxy, { json, key })).status).toBe(200);
    await changeProxy(fixture.server, proxy, { destination_url: fixture.otherUrl });
    refusal(await askProxy(fixture.server, proxy, { json, key }), 'proxies', 'changed');
    expect((await send(fixture.url, 'POST', '/proxy', { json })).status).toBe(200);
  });

  test('an application says which of its rules a change has suspended, until it is saved', async () => {
    const proxy = await makeProxy(fixture.server, { destination_url: fixture.url });
    const reactor = await makeReactor(fixture.server, 'return { raw: 1 };');
    const { id, key } = await ruled({ proxies: [proxy.id], reactors: [reactor.id] });
    const read = async (path = id, options = {}) =>
      (await fixture.server.request('GET', `/applications/${path}`, options)).body;
    expect((await read()).suspended_rules).toBeUndefined();
    await changeProxy(fixture.server, proxy, { destination_url: fixture.otherUrl });
    expect((await read()).suspended_rules).toEqual([{ rule: 0, proxies: [proxy.id] }]);
    expect((await read('key', { key })).suspended_rules).toEqual([{ rule: 0, proxies: [proxy.id] }]);
    expect((await fixture.server.request('DELETE', `/reactors/${reactor.id}`)).status).toBe(204);
    expect((await read()).suspended_rules).toEqual([{ rule: 0, proxies: [proxy.id], reactors: [reactor.id] }]);
    const { rules, ...rest } = await read();
    const { reactors: _, ...bound_to } = rules[0].bound_to;
    const json = { ...rest, rules: [{ ...rules[0], bound_to }] };
    const saved = await fixture.server.request('PUT', `/applications/${id}`, { json });
    expect(saved.status, saved.text).toBe(200);
    expect((await read()).suspended_rules).toBeUndefined();
  });

  test('and the bound of the token both hold; uses count for each token and application', async () => {
    const [one, other] = [await ruled({ max_uses: 1 }), await ruled({ max_uses: 1 })];
    const [first, second] = [await boundNumber({ hosts: [HOST] }), await boundNumber({ max_uses: 3 })];
    const ask = (id: string, { key }: { key: string }, url = fixture.url) =>
      send(url, 'POST', '/proxy', { json: { card: `{{ ${id} }}` }, key });
    refusal(await ask(first, one, fixture.otherUrl), 'hosts');
    for (const each of [one, other]) {
      for (const id of [first, second]) {
        expect((await ask(id, each)).status).toBe(200);
        refusal(await ask(id, each), 'max_uses');
      }
    }
    expect((await fixture.server.request('GET', `/tokens/${second}`)).body.uses).toBe(2);
  });

  test('are for token:use alone, and nobody hands on more than its own bound', async () => {
    const rule = { priority: 1, container: '/', transform: 'reveal', bound_to: { hosts: [HOST] } };
    const make = (rules: object[], permissions: string[], key?: string) =>
      fixture.server.request('POST', '/applications', {
        json: { name: 'A', type: 'private', permissions, rules },
        ...(key !== undefined && { key }),
      });
    const wrong = await make([{ ...rule, permissions: ['token:use', 'token:read'] }], []);
    expect([wrong.status, wrong.body.errors]).toEqual([
      400,
      { 'rules[0].bound_to': ['is for rules whose only permission is token:use'] },
    ]);
    const uses = { ...rule, permissions: ['token:use'] };
    const granting = await make([uses], ['application:create']);
    expect(granting.status, granting.text).toBe(201);
    const { key } = granting.body;
    expect((await make([uses], [], key)).status).toBe(201);
    expect((await make([{ ...uses, bound_to: { hosts: [HOST], max_uses: 1 } }], [], key)).status).toBe(201);
    for (const wider of [
      [{ ...uses, bound_to: undefined }],
      [{ ...uses, bound_to: { hosts: ['*.upstream.test'] } }],
      [{ ...uses, bound_to: { max_uses: 1 } }],
    ])
      expect((await make(wider, [], key)).status, JSON.stringify(wider)).toBe(403);
    expect((await make([], ['token:use'], key)).status).toBe(403);
  });

  test('a token is not moved to where its caller may use it more freely', async () => {
    const use = { transform: 'reveal', permissions: ['token:use'] };
    const rules = [
      { ...use, priority: 1, container: '/bound/', bound_to: { hosts: [HOST] } },
      { ...use, priority: 2, container: '/free/' },
    ];
    const json = { name: 'Mover', type: 'private', permissions: ['token:create', 'token:update'], rules };
    const { key } = (await fixture.server.request('POST', '/applications', { json })).body;
    const move = async (from: string, to: string) => {
      const id = await tokenOf(fixture.server, 'x', { containers: [from] }, key);
      return (await fixture.server.request('PATCH', `/tokens/${id}`, { json: { containers: [to] }, key })).status;
    };
    expect([await move('/bound/', '/free/'), await move('/free/', '/bound/')]).toEqual([403, 200]);
  });
});

describe('sessions', () => {
  const origin = 'https://shop.example.com';
  const session = async (more: object): Promise<Answer> =>
    fixture.server.request('POST', '/sessions', { json: { allowed_origins: [origin], types: ['card'], ...more } });
  const create = (key: string, more: object = {}) =>
    fixture.server.request('POST', '/tokens', {
      key,
      json: { type: 'card', data: CARD, ...more },
      headers: { origin },
    });

  test('bind all their tokens, and the page sends no other bound', async () => {
    const proxy = await makeProxy(fixture.server, { destination_url: fixture.url });
    const made = await session({ bound_to: { proxies: [proxy.id], max_uses: 1 } });
    expect(made.status, made.text).toBe(201);
    expect(made.body.bound_to).toEqual({ proxies: [proxy.id], max_uses: 1 });
    const key = made.body.session_key;
    const refused = await create(key, { bound_to: { max_uses: 9 } });
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      { bound_to: ['must not be sent: the session says it'] },
    ]);
    const { id } = (await create(key)).body;
    const json = { card: `{{ ${id} | json: '$.number' }}` };
    refusal(await send(fixture.url, 'POST', '/proxy', { json }), 'proxies');
    expect((await askProxy(fixture.server, proxy, { json })).status).toBe(200);
    refusal(await askProxy(fixture.server, proxy, { json }), 'max_uses');
  });

  test('without a bound, a page may send one; a wrong one is refused when the session is made', async () => {
    const key = (await session({})).body.session_key;
    const { id } = (await create(key, { bound_to: { hosts: [HOST] } })).body;
    refusal(await send(fixture.otherUrl, 'POST', '/proxy', { json: { card: `{{ ${id} }}` } }), 'hosts');
    const wrong = await session({ bound_to: { hosts: [] } });
    expect([wrong.status, Object.keys(wrong.body.errors)]).toEqual([400, ['bound_to.hosts']]);
  });
});
