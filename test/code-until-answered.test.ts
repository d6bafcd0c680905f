// Security codes that live until their destination has answered: which answers let them go, who may use them meanwhile.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from './support/process.ts';
import { type Answer, startServerBefore, type TestServer, upstreamOn } from './support/server.ts';
import { askProxy, makeProxy, type StoredProxy } from './support/stored-proxies.ts';
import { codeOf } from './support/reactors.ts';
import { type Received, startUpstream, type Upstream } from './support/upstream.ts';

const CODE = '737';

let server: TestServer;
let upstream: Upstream;
let destination_url: string;
/** Where nobody listens. */
let closedPort: number;
let reader: string;
/** Answers that the tests hold back, by path. */
const held = new Map<string, ServerResponse>();

/** `/STATUS` answers so; `/held...` waits for the test. */
const answer = ({ url = '' }: IncomingMessage, response: ServerResponse, received: Received): void => {
  if (url.startsWith('/held')) held.set(url, response);
  else if (url === '/reset') response.destroy();
  else if (url === '/cut') {
    response.writeHead(200, { 'content-length': '100' });
    response.write('begun');
    setTimeout(() => response.destroy(), 50);
  } else if (url === '/soft') {
    response.setHeader('content-type', 'application/json');
    response.end('{"decline":{"type":"soft"}}');
  } else if (url === '/large') {
    response.setHeader('content-type', 'application/json');
    response.end(`{"decline":{"type":"soft"},"more":"${'x'.repeat(300_000)}"}`);
  } else {
    response.writeHead(Number(/^\/(\d{3})/.exec(url)?.[1] ?? 200), { 'content-type': 'text/plain' });
    response.end(`${received.body.length} bytes`);
  }
};

beforeAll(async () => {
  upstream = await startUpstream({ answer });
  closedPort = await freePort();
  server = await startServerBefore({ ...upstreamOn(upstream.port), 'closed.test': closedPort });
  destination_url = `https://upstream.test:${upstream.port}`;
  const rule = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] };
  reader = (await server.newKey(server.tenant, { rules: [rule] })).api_key;
});
afterAll(async () => {
  await server.close();
  await upstream.close();
});

const makeCard = async (data: object = {}): Promise<string> => {
  const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2040, cvc: CODE, ...data };
  const made = await server.request('POST', '/tokens', { json: { type: 'card', data: card } });
  expect(made.status, made.text).toBe(201);
  return made.body.id;
};

const codeIn = async (id: string): Promise<string | undefined> =>
  (await server.request('GET', `/tokens/${id}`, { key: reader })).body.data.cvc;

const newProxy = (cvc: unknown, more: object = {}): Promise<StoredProxy> =>
  makeProxy(server, { destination_url, ...(cvc === undefined ? {} : { cvc }), ...more });

const send = (proxy: StoredProxy, id: string, path: string, text = `{{ ${id} | json: '$.cvc' }}`): Promise<Answer> =>
  askProxy(server, proxy, { path: `/proxy${path}`, json: { code: text } });

const answered = { until: 'answered' };
const soft = { until: 'answered', keep: { statuses: [], when: { path: '$.decline.type', equals: ['soft', 1] } } };

describe('an answer', () => {
  test.each<[path: string, cvc: object, outcome: string]>([
    ['/200', answered, 'consumed'],
    ['/402', answered, 'consumed'],
    ['/500', answered, 'consumed'],
    ['/429', answered, 'kept'],
    ['/502', answered, 'kept'],
    ['/504', answered, 'kept'],
    ['/504', { until: 'answered', keep: { statuses: [402] } }, 'consumed'],
    ['/402', { until: 'answered', keep: { statuses: [402] } }, 'kept'],
    ['/soft', soft, 'kept'],
    ['/soft', answered, 'consumed'],
    ['/large', soft, 'consumed'],
    ['/200', soft, 'consumed'],
  ])('of %s under %j: the code is %s', async (path, cvc, outcome) => {
    const [proxy, id] = [await newProxy(cvc), await makeCard()];
    const sent = await send(proxy, id, path);
    expect(sent.headers.get('svc-cvc')).toBe(outcome);
    expect(await codeIn(id)).toBe(outcome === 'kept' ? CODE : undefined);
  });

  test('that is read to decide arrives whole', async () => {
    const [proxy, id] = [await newProxy(soft), await makeCard()];
    expect((await send(proxy, id, '/large')).text).toHaveLength(300_037);
    expect((await send(proxy, await makeCard(), '/soft')).text).toBe('{"decline":{"type":"soft"}}');
  });

  test('keeps a code twice at most', async () => {
    const [proxy, id] = [await newProxy(answered), await makeCard()];
    const outcomes = [];
    for (let at = 0; at < 3; at += 1) outcomes.push((await send(proxy, id, '/503')).headers.get('svc-cvc'));
    expect(outcomes).toEqual(['kept', 'kept', 'consumed']);
    expect(await codeIn(id)).toBeUndefined();
  });

  test('to a request without a code changes none', async () => {
    const [proxy, id] = [await newProxy(answered), await makeCard()];
    for (const text of [`{{ ${id} | json: '$.number' }}`, `{{ ${id} | card_exp: 'MM/YY' }}`, 'none'])
      expect((await send(proxy, id, '/200', text)).headers.get('svc-cvc')).toBe('none');
    expect(await codeIn(id)).toBe(CODE);
  });

  test.each([
    '{{ ID }}',
    "{{ token: ID | json: '$.data' }}",
    "{{ ID | json: '$..cvc' }}",
    '{{ ID | json: "$[\'cvc\']" }}',
  ])('to a request with %s lets the code go', async (text) => {
    const [proxy, id] = [await newProxy(answered), await makeCard()];
    const sent = await send(proxy, id, '/200', text.replace('ID', id));
    expect(sent.headers.get('svc-cvc'), sent.text).toBe('consumed');
    expect(await codeIn(id)).toBeUndefined();
  });

  test('lets a code go that code of the proxy sends on', async () => {
    const code = codeOf('return { body: { again: args.body.code }, headers: args.headers };');
    const proxy = await newProxy(answered, {
      request_transform: { code },
      response_transform: { code: codeOf('return args;') },
    });
    const id = await makeCard();
    const sent = await send(proxy, id, '/200');
    expect([sent.status, sent.headers.get('svc-cvc')]).toEqual([200, 'consumed']);
    expect(await codeIn(id)).toBeUndefined();
  });

  test('is as it was where codes live to the end of their time', async () => {
    for (const cvc of [undefined, { until: 'ttl' }]) {
      const [proxy, id] = [await newProxy(cvc), await makeCard()];
      const sent = await send(proxy, id, '/200');
      expect([sent.status, sent.headers.has('svc-cvc'), await codeIn(id)]).toEqual([200, false, CODE]);
    }
  });
});

describe('without an answer', () => {
  test('a request that never reached its destination leaves the code', async () => {
    const id = await makeCard();
    const nowhere = await makeProxy(server, { destination_url: `https://closed.test:${closedPort}`, cvc: answered });
    expect((await send(nowhere, id, '/200')).status).not.toBe(200);
    const thrower = await newProxy(answered, { request_transform: { code: codeOf("throw new Error('no');") } });
    expect((await send(thrower, id, '/200')).status).toBeGreaterThanOrEqual(400);
    expect((await send(await newProxy(answered), id, '/200')).headers.get('svc-cvc')).toBe('consumed');
  });

  test('a reset holds the code for a minute; then it may be used', async () => {
    const [proxy, id] = [await newProxy(answered), await makeCard()];
    expect((await send(proxy, id, '/reset')).status).toBe(502);
    const meanwhile = await send(proxy, id, '/200');
    expect([meanwhile.status, meanwhile.headers.get('retry-after')]).toEqual([409, '1']);
    expect(await codeIn(id)).toBe(CODE);
    server.clock.offsetMs = 61_000;
    expect((await send(proxy, id, '/200')).headers.get('svc-cvc')).toBe('consumed');
    server.clock.offsetMs = 0;
  });

  test('a body that breaks off came after the head: the code is gone', async () => {
    for (const cvc of [answered, soft]) {
      const [proxy, id] = [await newProxy(cvc), await makeCard()];
      await send(proxy, id, '/cut').catch(() => undefined);
      expect(await codeIn(id)).toBeUndefined();
    }
  });
});

describe('at the same time', () => {
  test('one of twenty requests sends the code', async () => {
    const [proxy, id] = [await newProxy(answered), await makeCard()];
    const sent = await Promise.all(Array.from({ length: 20 }, () => send(proxy, id, '/200')));
    const statuses = sent.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(new Set(statuses)).toEqual(new Set([200, ...statuses.filter((status) => status === 409 || status === 400)]));
    expect(await codeIn(id)).toBeUndefined();
  });

  test('a code that was collected again outlives the answer to the old one', async () => {
    const [proxy, id] = [await newProxy(answered), await makeCard()];
    const waiting = send(proxy, id, '/held-old');
    await expect.poll(() => held.has('/held-old')).toBe(true);
    const patched = await server.request('PATCH', `/tokens/${id}`, {
      json: { data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2040, cvc: '111' } },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    expect(patched.status, patched.text).toBe(200);
    held.get('/held-old')?.end('done');
    expect((await waiting).status).toBe(200);
    expect(await codeIn(id)).toBe('111');
    expect((await send(proxy, id, '/200')).headers.get('svc-cvc')).toBe('consumed');
  });

  test('the code is gone before the caller sees the first byte', async () => {
    const [proxy, id] = [await newProxy(answered), await makeCard()];
    const waiting = send(proxy, id, '/held-body');
    await expect.poll(() => held.has('/held-body')).toBe(true);
    const response = held.get('/held-body') as ServerResponse;
    response.write('first');
    await expect.poll(() => codeIn(id)).toBeUndefined();
    response.end();
    expect((await waiting).text).toBe('first');
  });
});

describe('a rule', () => {
  const made = {
    until: 'answered',
    keep: { statuses: [402], when: { path: '$.a[0].b', equals: ['x', 1, true, null] } },
  };

  test('is shown, replaced and removed', async () => {
    const { id } = await newProxy(made);
    const read = async () => (await server.request('GET', `/proxies/${id}`)).body.cvc;
    expect(await read()).toEqual(made);
    const patch = async (json: object) => (await server.request('PATCH', `/proxies/${id}`, { json })).status;
    expect(await patch({ name: 'Other' })).toBe(200);
    expect(await read()).toEqual(made);
    expect(await patch({ cvc: answered })).toBe(200);
    expect(await read()).toEqual(answered);
    expect(await patch({ cvc: null })).toBe(200);
    expect(await read()).toBeUndefined();
  });

  test.each<[unknown, string]>([
    [{}, 'cvc.until'],
    ['answered', 'cvc'],
    [{ until: 'later' }, 'cvc.until'],
    [{ until: 'ttl', keep: {} }, 'cvc.keep'],
    [{ until: 'answered', keep: { statuses: [100] } }, 'cvc.keep.statuses[0]'],
    [{ until: 'answered', keep: { statuses: [402.5] } }, 'cvc.keep.statuses[0]'],
    [{ until: 'answered', keep: { when: { path: '$..a', equals: [1] } } }, 'cvc.keep.when.path'],
    [{ until: 'answered', keep: { when: { path: 'a', equals: [1] } } }, 'cvc.keep.when.path'],
    [{ until: 'answered', keep: { when: { path: '$.a', equals: [] } } }, 'cvc.keep.when.equals'],
    [{ until: 'answered', keep: { when: { path: '$.a', equals: [{}] } } }, 'cvc.keep.when.equals[0]'],
    [{ until: 'answered', keeps: {} }, 'cvc.keeps'],
  ])('%j is a 400 at %s', async (cvc, place) => {
    const refused = await server.request('POST', '/proxies', { json: { name: 'Proxy', destination_url, cvc } });
    expect([refused.status, Object.keys(refused.body.errors)]).toEqual([400, [place]]);
  });
});
