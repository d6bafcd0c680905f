// A bound with an allowance: what a request may charge with a value, read from the request as it leaves.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { codeOf, makeReactor, react, type SharedReactorServer, tokenOf, useReactorServer } from './support/reactors.ts';
import type { Answer, RequestOptions } from './support/server.ts';
import { askProxy, changeProxy, makeProxy, type StoredProxy } from './support/stored-proxies.ts';

const CANARY = '4242424242424242';
const CARD = { number: CANARY, expiration_month: 12, expiration_year: 2030 };
const AMOUNT = { value: '$.amount', currency: '$.currency', unit: 'minor' };

let fixture: SharedReactorServer;
let proxy: StoredProxy;
let major: StoredProxy;
beforeAll(async () => {
  fixture = await useReactorServer();
  proxy = await makeProxy(fixture.server, { destination_url: fixture.url, amount: AMOUNT });
  major = await makeProxy(fixture.server, {
    destination_url: fixture.url,
    amount: { value: '$.amount.value', currency: '$.amount.currency', unit: 'major', merchant: '$.merchantAccount' },
  });
});
afterAll(() => fixture.close());
beforeEach(() => {
  fixture.upstream.received.length = 0;
});

const allowed = (allowance: object = {}, bound: object = {}): Promise<string> =>
  tokenOf(fixture.server, CARD, {
    type: 'card',
    bound_to: {
      proxies: [proxy.id, major.id],
      allowance: { max_amount: 2000, currency: 'usd', ...allowance },
      ...bound,
    },
  });

const charge = (id: string, json: object, options: RequestOptions = {}): Promise<Answer> =>
  askProxy(fixture.server, proxy, { json: { source: `{{ ${id} | json: '$.number' }}`, ...json }, ...options });

const refused = (answer: Answer, sentence?: string | RegExp, bound = 'allowance'): void => {
  expect(answer.status, answer.text).toBe(403);
  const { errors } = answer.body.proxy_error ?? answer.body;
  expect(Object.keys(errors), answer.text).toEqual([`bound_to.${bound}`]);
  const [text] = errors[`bound_to.${bound}`];
  if (sentence !== undefined) expect(text).toMatch(sentence);
  expect(answer.text).not.toContain(CANARY.slice(0, 6));
  expect(fixture.upstream.received).toEqual([]);
};

const passed = (answer: Answer, times = 1): void => {
  expect(answer.status, answer.text).toBe(200);
  expect(fixture.upstream.received).toHaveLength(times);
};

const keyWith = async (transform: 'reveal' | 'mask'): Promise<string> => {
  const rules = [{ priority: 1, container: '/', transform, permissions: ['token:read'] }];
  return (await fixture.server.newKey(fixture.server.tenant, { permissions: ['token:update'], rules })).api_key;
};

/** Refused as the use after the last one is. */
const isSpent = (answer: Answer): void => {
  expect(answer.status).toBe(403);
  expect(Object.keys(answer.body.proxy_error.errors)).toEqual(['bound_to.max_uses']);
};

const rowsOf = (id: string) =>
  fixture.server.sql(
    "SELECT outcome, message FROM audit_log WHERE entity_ids @> $1::text[] AND operation = 'use' ORDER BY id",
    [[id]],
  );

describe('a charge', () => {
  test('within the allowance passes, with the value', async () => {
    passed(await charge(await allowed(), { amount: 2000, currency: 'USD' }));
    expect(fixture.upstream.received[0]?.body.toString()).toContain(CANARY);
  });

  test('above it is refused with both amounts, is logged, and is no use', async () => {
    const id = await allowed({}, { max_uses: 1 });
    const answer = await charge(id, { amount: 2500, currency: 'usd' });
    refused(answer, /^max_amount is 2000 usd, the request has 2500$/);
    expect(answer.body.proxy_error.detail).toBe(`Token ${id} may not be sent to upstream.test.`);
    const refusals = (await rowsOf(id)).filter(({ outcome }) => outcome === 'refused');
    expect(refusals).toEqual([{ outcome: 'refused', message: 'Refused: bound_to.allowance' }]);
    passed(await charge(id, { amount: 2000, currency: 'usd' }));
    isSpent(await charge(id, { amount: 1, currency: 'usd' }));
  });

  test('of which the destination declines with 402 is a use', async () => {
    const id = await allowed({}, { max_uses: 1 });
    fixture.routes.set('/declined', (_, response) => void response.writeHead(402).end('{}'));
    const json = { amount: 5, currency: 'usd', card: `{{ ${id} }}` };
    expect((await askProxy(fixture.server, proxy, { json, path: '/proxy/declined' })).status).toBe(402);
    isSpent(await charge(id, { amount: 5, currency: 'usd' }));
  });

  test('that is answered so that the code is kept gives one use back, once', async () => {
    const when = { path: '$.decline', equals: ['soft'] };
    const keeping = await makeProxy(fixture.server, {
      destination_url: fixture.url,
      amount: AMOUNT,
      cvc: { until: 'answered', keep: { when } },
    });
    fixture.routes.set('/busy', (_, response) => void response.writeHead(503).end('{}'));
    fixture.routes.set('/soft', (_, response) => void response.end('{"decline":"soft"}'));
    const json = (id: string) => ({ amount: 1500, currency: 'usd', card: `{{ ${id} | json: '$.number' }}` });
    const shown = async (id: string) => (await fixture.server.request('GET', `/tokens/${id}`)).body;
    for (const path of ['/busy', '/soft']) {
      const id = await allowed({ max_total: 2000 }, { proxies: [keeping.id, proxy.id], max_uses: 1 });
      const ask = (to: string) => askProxy(fixture.server, keeping, { json: json(id), path: `/proxy${to}` });
      await ask(path);
      expect(await shown(id)).toMatchObject({ uses: 0, spent: 0 });
      await ask(path);
      expect(await shown(id)).toMatchObject({ uses: 1, spent: 1500 });
      isSpent(await ask('/charged'));
    }
    const other = await allowed({}, { max_uses: 1 });
    expect((await askProxy(fixture.server, proxy, { json: json(other), path: '/proxy/busy' })).status).toBe(503);
    expect((await shown(other)).uses).toBe(1);
  });

  test('by 20 requests at once is made once', async () => {
    const id = await allowed({}, { max_uses: 1 });
    const answers = await Promise.all(Array.from({ length: 20 }, () => charge(id, { amount: 5, currency: 'usd' })));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array<number>(19).fill(403)]);
    expect(fixture.upstream.received).toHaveLength(1);
  });

  test('in major units has the decimals of its currency', async () => {
    const usd = await allowed();
    const ask = (id: string, value: unknown, currency: string): Promise<Answer> =>
      askProxy(fixture.server, major, {
        json: { amount: { value, currency }, merchantAccount: 'acme', card: `{{ ${id} }}` },
      });
    for (const value of [20, 19.99, '20.00', '0.01']) expect((await ask(usd, value, 'USD')).status).toBe(200);
    fixture.upstream.received.length = 0;
    refused(await ask(usd, 20.01, 'usd'), /has 2001$/);
    refused(await ask(usd, '1.234', 'usd'), /plain decimal/);
    const yen = await allowed({ currency: 'JPY' });
    refused(await ask(yen, 19.5, 'jpy'), /plain decimal/);
    passed(await ask(yen, 2000, 'jpy'));
    fixture.upstream.received.length = 0;
    refused(await ask(await allowed({ currency: 'xxx' }), 1, 'xxx'), /plain decimal/);
  });

  test('of another currency, without one, or of another merchant is refused', async () => {
    const id = await allowed({ merchant_id: 'acme' });
    refused(await charge(id, { amount: 5, currency: 'eur' }), /^currency is usd, the request has another$/);
    refused(await charge(id, { amount: 5 }), /three letters/);
    refused(await charge(id, { amount: 5, currency: '\u212aes' }), /three letters/);
    const ask = (merchantAccount: unknown): Promise<Answer> =>
      askProxy(fixture.server, major, {
        json: { amount: { value: 1, currency: 'usd' }, merchantAccount, card: `{{ ${id} }}` },
      });
    refused(await ask('other'), /merchant_id/);
    refused(await ask(undefined), /merchant/);
    passed(await ask('acme'));
  });

  test('by a proxy that does not say where its amount is, by a reactor or past a proxy is refused', async () => {
    const silent = await makeProxy(fixture.server, { destination_url: fixture.url });
    const reactor = await makeReactor(fixture.server, 'return { raw: args };');
    const id = await allowed({}, { proxies: [proxy.id, silent.id], reactors: [reactor.id] });
    const json = { amount: 1, currency: 'usd', card: `{{ ${id} }}` };
    refused(await askProxy(fixture.server, silent, { json }), /needs a proxy/);
    refused(await react(fixture.server, reactor, { card: `{{ ${id} }}` }), /needs a proxy/);
    const open = await fixture.server.request('POST', '/proxy', { json, headers: { 'svc-proxy-url': fixture.url } });
    refused(open, undefined, 'proxies');
    const read = await fixture.server.request('GET', `/tokens/${id}`);
    expect(JSON.stringify(read.body.data)).not.toContain(CANARY);
    expect(read.body.bound_to.allowance).toEqual({ max_amount: 2000, currency: 'usd' });
  });

  test('is read after the request transform', async () => {
    const code = codeOf('return { ...args, body: { ...args.body, amount: args.body.cents } };');
    const coded = await makeProxy(fixture.server, {
      destination_url: fixture.url,
      amount: AMOUNT,
      request_transform: { code },
    });
    const id = await allowed({}, { proxies: [coded.id] });
    const ask = (json: object) =>
      askProxy(fixture.server, coded, { json: { currency: 'usd', card: `{{ ${id} }}`, ...json } });
    refused(await ask({ amount: 5, cents: 5000 }), /^max_amount is 2000 usd, the request has more$/);
    refused(await ask({ cents: 5, currency: `{{ ${id} | json: '$.number' }}` }));
    passed(await ask({ amount: 5000, cents: 5 }));
  });

  test('of a repeated request that its destination knows is one use, and one amount', async () => {
    const repeating = await makeProxy(fixture.server, {
      destination_url: fixture.url,
      amount: AMOUNT,
      idempotency_header: 'Idempotency-Key',
    });
    const id = await allowed({ max_total: 2000 }, { proxies: [repeating.id], max_uses: 1 });
    const json = { amount: 1500, currency: 'usd', card: `{{ ${id} | json: '$.number' }}` };
    const ask = () =>
      askProxy(fixture.server, repeating, { json, path: '/proxy/lost', headers: { 'svc-idempotency-key': 'one' } });
    fixture.routes.set('/lost', (request) => void request.socket.destroy());
    expect((await ask()).status).toBe(502);
    fixture.routes.delete('/lost');
    passed(await ask(), 2);
    expect((await fixture.server.request('GET', `/tokens/${id}`)).body).toMatchObject({ uses: 1, spent: 1500 });
  });
});

describe('max_total', () => {
  test('counts down over requests, and is shown', async () => {
    const id = await allowed({ max_total: 3000 });
    const shown = async () => (await fixture.server.request('GET', `/tokens/${id}`)).body.spent;
    expect(await shown()).toBe(0);
    passed(await charge(id, { amount: 2000, currency: 'usd' }));
    fixture.upstream.received.length = 0;
    refused(await charge(id, { amount: 1001, currency: 'usd' }), /^max_total is 3000 usd, and less is left/);
    passed(await charge(id, { amount: 1000, currency: 'usd' }));
    expect(await shown()).toBe(3000);
    const listed = await fixture.server.request('GET', `/tokens?id=${id}`);
    expect(listed.body.data[0].spent).toBe(3000);
  });

  test('is held by 20 requests at once', async () => {
    const id = await allowed({ max_total: 3000 });
    const answers = await Promise.all(Array.from({ length: 20 }, () => charge(id, { amount: 900, currency: 'usd' })));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3);
    expect(fixture.upstream.received).toHaveLength(3);
  });

  test('of an access rule counts for its application alone', async () => {
    const bound_to = { proxies: [proxy.id], allowance: { max_amount: 900, currency: 'usd', max_total: 1000 } };
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:use'], bound_to }];
    const { key } = (
      await fixture.server.request('POST', '/applications', {
        json: { name: 'Agent', type: 'private', permissions: [], rules },
      })
    ).body;
    const id = await tokenOf(fixture.server, CARD, { type: 'card' });
    passed(await charge(id, { amount: 900, currency: 'usd' }, { key }));
    fixture.upstream.received.length = 0;
    refused(await charge(id, { amount: 901, currency: 'usd' }, { key }), /^max_amount is 900/);
    refused(await charge(id, { amount: 101, currency: 'usd' }, { key }), /^max_total is 1000/);
    passed(await charge(id, { amount: 5000, currency: 'usd' }));
  });
});

describe('an allowance', () => {
  test('is suspended while its proxy keeps codes for other answers', async () => {
    const cvc = { until: 'answered' };
    const changed = await makeProxy(fixture.server, { destination_url: fixture.url, amount: AMOUNT, cvc });
    const id = await allowed({}, { proxies: [changed.id] });
    const ask = () =>
      askProxy(fixture.server, changed, {
        json: { amount: 5, currency: 'usd', card: `{{ ${id} | json: '$.number' }}` },
      });
    const to = (keep: object) =>
      changeProxy(fixture.server, changed, {
        destination_url: fixture.url,
        amount: AMOUNT,
        cvc: { ...cvc, ...keep },
      });
    await to({ keep: { statuses: [200] } });
    refused(await ask(), 'changed', 'proxies');
    await to({});
    passed(await ask());
  });

  test('is suspended while its proxy says another place', async () => {
    const wanted = { destination_url: fixture.url, amount: AMOUNT };
    const moved = await makeProxy(fixture.server, wanted);
    const bound_to = { proxies: [moved.id], allowance: { max_amount: 2000, currency: 'usd' } };
    const id = await allowed({}, bound_to);
    const free = await tokenOf(fixture.server, CARD, { type: 'card', bound_to: { proxies: [moved.id] } });
    const json = { amount: 5, fee: 1, currency: 'usd', card: `{{ ${id} }}` };
    await changeProxy(fixture.server, moved, { ...wanted, amount: { ...AMOUNT, value: '$.fee' } });
    refused(await askProxy(fixture.server, moved, { json }), /^changed$/, 'proxies');
    // A bound without an allowance does not ask for it.
    passed(await askProxy(fixture.server, moved, { json: { card: `{{ ${free} }}` } }));
    const confirmed = await fixture.server.request('PATCH', `/tokens/${id}`, {
      json: { bound_to },
      key: await keyWith('reveal'),
    });
    expect(confirmed.status, confirmed.text).toBe(200);
    passed(await askProxy(fixture.server, moved, { json }), 2);
  });

  test('is widened by who may reveal the token, and narrowed by who may change it', async () => {
    const key = await keyWith('mask');
    const id = await allowed({ max_total: 5000, merchant_id: 'acme' });
    const patch = async (allowance: object | undefined, more: object = {}): Promise<number> => {
      const bound_to = { proxies: [proxy.id, major.id], ...(allowance && { allowance }) };
      return (await fixture.server.request('PATCH', `/tokens/${id}`, { json: { bound_to }, ...more })).status;
    };
    const now = { max_amount: 1000, currency: 'usd', max_total: 4000, merchant_id: 'acme' };
    expect(await patch(now, { key })).toBe(200);
    const wider = [
      { ...now, max_amount: 1001 },
      { ...now, currency: 'eur' },
      { ...now, max_total: 4001 },
      { max_amount: 1000, currency: 'usd', merchant_id: 'acme' },
      { max_amount: 1000, currency: 'usd', max_total: 4000 },
      undefined,
    ];
    for (const each of wider) expect(await patch(each, { key }), JSON.stringify(each)).toBe(403);
    expect(await patch({ ...now, checkout_session_id: 'csn_1' }, { key })).toBe(200);
    expect(await patch(undefined, { key: await keyWith('reveal') })).toBe(200);
  });

  test('is in dry runs and explanations', async () => {
    const id = await allowed({ max_total: 1500 });
    const dry = async (amount: unknown) =>
      (await charge(id, { amount, currency: 'usd' }, { headers: { 'svc-dry-run': 'true' } })).body;
    expect((await dry(1000)).decision).toBe('allowed');
    expect((await dry(2001)).checks.at(-1)).toEqual({
      name: 'bound_to',
      ok: false,
      detail: 'bound_to.allowance: max_amount is 2000 usd, the request has 2001.',
    });
    expect((await dry(1600)).decision).toBe('refused');
    expect(fixture.upstream.received).toEqual([]);
    const silent = await makeProxy(fixture.server, { destination_url: fixture.url });
    const other = await allowed({}, { proxies: [silent.id] });
    const json = { permission: 'token:use', token_id: other, proxy_id: silent.id };
    const explained = await fixture.server.request('POST', '/access/explain', { json });
    expect(explained.body.checks.find(({ name }: { name: string }) => name === 'bound_to')).toMatchObject({
      ok: false,
    });
  });

  const wrong: [name: string, allowance: unknown, path: string][] = [
    ['no amount', { currency: 'usd' }, 'max_amount'],
    ['half a cent', { currency: 'usd', max_amount: 0.5 }, 'max_amount'],
    ['nothing', { currency: 'usd', max_amount: 0 }, 'max_amount'],
    ['an amount as text', { currency: 'usd', max_amount: '20' }, 'max_amount'],
    ['no currency', { max_amount: 1 }, 'currency'],
    ['a currency of four letters', { max_amount: 1, currency: 'usdt' }, 'currency'],
    ['an unknown name', { max_amount: 1, currency: 'usd', max: 1 }, 'max'],
    ['a total of nothing', { max_amount: 1, currency: 'usd', max_total: 0 }, 'max_total'],
  ];
  for (const [name, allowance, path] of wrong)
    test(`with ${name} is a 400 at its place`, async () => {
      const bound_to = { proxies: [proxy.id], allowance };
      const made = await fixture.server.request('POST', '/tokens', { json: { type: 'card', data: CARD, bound_to } });
      expect(made.status, made.text).toBe(400);
      expect(Object.keys(made.body.errors)).toEqual([`bound_to.allowance.${path}`]);
    });

  test('without proxies is a 400', async () => {
    const bound_to = { hosts: ['upstream.test'], allowance: { max_amount: 1, currency: 'usd' } };
    const made = await fixture.server.request('POST', '/tokens', { json: { type: 'card', data: CARD, bound_to } });
    expect([made.status, Object.keys(made.body.errors)]).toEqual([400, ['bound_to.allowance']]);
  });
});

describe('where a proxy has its amount', () => {
  test('is shown, patched and removed', async () => {
    const made = await makeProxy(fixture.server, { destination_url: fixture.url, amount: AMOUNT });
    const ask = async (method: string, json?: object) =>
      (await fixture.server.request(method, `/proxies/${made.id}`, json && { json })).body.amount;
    expect(await ask('GET')).toEqual(AMOUNT);
    expect(await ask('PATCH', { name: 'Other' })).toEqual(AMOUNT);
    expect(await ask('PATCH', { amount: { ...AMOUNT, unit: 'major' } })).toEqual({ ...AMOUNT, unit: 'major' });
    expect(await ask('PATCH', { amount: null })).toBeUndefined();
  });

  for (const value of ['$', '$..amount', '$.items[*].amount', '$.a[-1]', '$.a,$.b', 'amount'])
    test(`is one place: ${value} is a 400`, async () => {
      const json = { name: 'Proxy', destination_url: fixture.url, amount: { ...AMOUNT, value } };
      const made = await fixture.server.request('POST', '/proxies', { json });
      expect([made.status, Object.keys(made.body.errors)]).toEqual([400, ['amount.value']]);
    });
});
