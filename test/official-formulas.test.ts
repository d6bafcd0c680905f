// Official formulas: installed, used by reactors, and run on cards and against a payment API on a real TLS server.
import { createHash, createHmac } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { installOfficialFormulas } from '../src/modules/code/official.ts';
import { type Answer, startServerBefore, type TestServer } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

const HOST = 'payments.upstream.test';

let server: TestServer;
let upstream: Upstream;
/** What the payment API answers next. */
let next: { status: number; body: string };

beforeAll(async () => {
  upstream = await startUpstream({
    answer: (_, response) => {
      response.writeHead(next.status, { 'content-type': 'application/json' });
      response.end(next.body);
    },
  });
  server = await startServerBefore({ [HOST]: upstream.port });
  await installOfficialFormulas(server.ctx);
});
afterAll(async () => {
  await server.close();
  await upstream.close();
});

/** A reactor of the formula of that name, and what it makes of args. */
const reactorOf = async (name: string, configuration: object = {}) => {
  const found = await server.request('GET', `/reactor-formulas?name=${encodeURIComponent(name)}`);
  expect(found.body.data).toMatchObject([{ name, type: 'official', status: 'verified' }]);
  const json = { name, formula: { id: found.body.data[0].id }, configuration };
  const made = await server.request('POST', '/reactors', { json });
  expect(made.status, made.text).toBe(201);
  return (args: unknown): Promise<Answer> =>
    server.request('POST', `/reactors/${made.body.id}/react`, { json: { args } });
};

const cardToken = async (data: object): Promise<string> => {
  const made = await server.tokenize({ type: 'card', data });
  expect(made.status, made.text).toBe(200);
  return made.body.id;
};

const visa = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 };

describe('card check', () => {
  let check: (args: unknown) => Promise<Answer>;
  beforeAll(async () => {
    check = await reactorOf('Card check');
  });
  const rawOf = async (args: unknown) => {
    const answer = await check(args);
    expect(answer.status, answer.text).toBe(200);
    return answer.body.raw;
  };

  test('returns the public fields of a card token, and no more of its number', async () => {
    const id = await cardToken(visa);
    const answer = await check({ card: `{{ ${id} }}`, date: '2026-11-20' });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body).toEqual({
      raw: {
        bin: '424242',
        bin_8: '42424242',
        last4: '4242',
        length: 16,
        brand: 'visa',
        luhn_valid: true,
        expired: false,
        valid: true,
      },
    });
    expect(answer.text).not.toContain(visa.number);
  });

  test.each([
    ['2030-12-31', false],
    ['2031-01-01', true],
  ])('lets a card be good until the end of its month: at %s expired is %s', async (date, expired) => {
    expect(await rawOf({ card: visa, date })).toMatchObject({ expired, valid: !expired });
  });

  test.each([
    ['5555 5555 5555 4444', 'mastercard', true],
    ['2223-0031-2200-3222', 'mastercard', true],
    ['378282246310005', 'american_express', true],
    ['6011111111111117', 'discover', true],
    ['3566002020360505', 'jcb', true],
    ['30569309025904', 'diners_club', true],
    ['6200000000000005', 'unionpay', true],
    ['4242424242424241', 'visa', false],
    ['9999999999999995', 'unknown', true],
  ])('knows %s as %s, its check digit %s', async (number, brand, luhn_valid) => {
    expect(await rawOf({ card: { number } })).toMatchObject({ brand, luhn_valid, valid: luhn_valid, expired: null });
  });

  test('refuses what is no card, by its place and without a word of it', async () => {
    for (const [args, place] of [
      [{ card: { number: '4242 secret' } }, 'card.number'],
      [{ card: visa, date: 'secret' }, 'date'],
      [{ card: { ...visa, expiration_month: 13 } }, 'card.expiration_month'],
    ] as const) {
      const answer = await check(args);
      expect(answer.status).toBe(400);
      expect(answer.body.detail).toBe('Bad Request');
      expect(Object.keys(answer.body.errors)).toEqual([place]);
      expect(answer.text).not.toContain('secret');
    }
    const missing = await check({});
    expect(missing.status).toBe(400);
    expect(Object.keys(missing.body.errors)).toEqual(['args.card.number']);
  });
});

describe('HMAC request signing', () => {
  const configuration = { KEY_ID: 'key-1', SECRET: 'a secret of the destination' };
  let sign: (args: unknown) => Promise<Answer>;
  beforeAll(async () => {
    sign = await reactorOf('HMAC request signing', configuration);
  });

  const signatureOf = (timestamp: number, method: string, path: string, body: string): string => {
    const digest = createHash('sha256').update(body).digest('hex');
    const text = `${timestamp}\n${method}\n${path}\n${digest}`;
    return `v1=${createHmac('sha256', configuration.SECRET).update(text).digest('hex')}`;
  };

  test.each<[name: string, body: unknown, text: string]>([
    ['text', 'größe', 'größe'],
    ['JSON', { amount: 1250 }, '{"amount":1250}'],
    ['nothing', undefined, ''],
  ])('signs a body that is %s, as its receiver checks it', async (_name, body, text) => {
    const path = '/v1/charges?expand=card';
    const answer = await sign({ method: 'post', path, timestamp: 1_790_000_000, body });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body.raw.headers).toEqual({
      'X-Key-Id': 'key-1',
      'X-Timestamp': '1790000000',
      'X-Signature': signatureOf(1_790_000_000, 'POST', path, text),
    });
    expect(answer.text).not.toContain(configuration.SECRET);
  });

  test('signs the value of a token, and at this moment unless another is named', async () => {
    const id = (await server.tokenize('body with a secret')).body;
    const before = Math.floor(Date.now() / 1000);
    const answer = await sign({ method: 'PUT', path: '/', body: `{{ ${id} }}` });
    expect(answer.status, answer.text).toBe(200);
    const { headers } = answer.body.raw;
    const timestamp = Number(headers['X-Timestamp']);
    expect(timestamp).toBeGreaterThanOrEqual(before);
    expect(timestamp).toBeLessThanOrEqual(Date.now() / 1000);
    expect(headers['X-Signature']).toBe(signatureOf(timestamp, 'PUT', '/', 'body with a secret'));
  });

  test.each([
    ['method', { method: 'PO ST', path: '/' }],
    ['path', { method: 'POST', path: 'v1/charges' }],
    ['path', { method: 'POST', path: '/a\n/b' }],
  ])('refuses a bad %s', async (place, args) => {
    const answer = await sign(args);
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([place]);
  });
});

describe('card payment', () => {
  let pay: (args: unknown) => Promise<Answer>;
  let card_id: string;
  const args = () => ({ card: `{{ ${card_id} }}`, amount: 1250, currency: 'EUR', reference: 'order-1' });
  beforeAll(async () => {
    const url = `https://${HOST}:${upstream.port}/v1/payments`;
    pay = await reactorOf('Card payment', { url, api_key: 'sk_live_of_the_shop' });
  });
  beforeEach(async () => {
    next = { status: 200, body: '{}' };
    upstream.received.length = 0;
    card_id = await cardToken({ ...visa, cvc: '123' });
  });

  test('posts the card, its code and the amount, and hands on the answer without the number', async () => {
    next.body = JSON.stringify({ id: 'pay_1', status: 'paid', echo: `card ${visa.number}`, last4: '4242' });
    const answer = await pay(args());
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body).toEqual({
      raw: { id: 'pay_1', status: 'paid', echo: 'card XXXXXXXXXXXX4242', last4: '4242' },
    });
    expect(upstream.received).toHaveLength(1);
    const [{ method, url, headers, body, servername }] = upstream.received as [Upstream['received'][number]];
    expect([method, url, servername]).toEqual(['POST', '/v1/payments', HOST]);
    expect(JSON.parse(body.toString())).toEqual({
      card: { ...visa, cvc: '123' },
      amount: 1250,
      currency: 'EUR',
      reference: 'order-1',
    });
    const sent = Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));
    expect(sent).toMatchObject({
      authorization: 'Bearer sk_live_of_the_shop',
      'content-type': 'application/json',
      'idempotency-key': 'order-1',
    });
  });

  test('keeps a network token in the vault', async () => {
    next.body = JSON.stringify({ id: 'pay_2', network_token: '4895370012003478' });
    const answer = await pay(args());
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body.raw).toEqual({ id: 'pay_2' });
    expect(answer.text).not.toContain('4895370012003478');
    const { id } = answer.body.tokens.network_token;
    const opened = await server.request('POST', '/detokenize', { json: `{{ ${id} }}` });
    expect(opened.body).toBe('4895370012003478');
  });

  test.each([
    [401, { error: { code: 'bad_key' } }, 401, 'Authentication Failed', 'bad_key'],
    [403, {}, 401, 'Authentication Failed', 'status_403'],
    [402, { error: 'card_declined' }, 402, 'Invalid Payment Method', 'card_declined'],
    [422, { code: 'amount_too_small' }, 400, 'Bad Request', 'amount_too_small'],
    [429, {}, 429, 'Rate Limit Exceeded', 'status_429'],
    [500, { error: { code: 'oops' } }, 503, 'Service Unavailable', 'oops'],
  ])('says of a %s with %j what it is, by a code', async (status, body, result, detail, code) => {
    next = { status, body: JSON.stringify(body) };
    const answer = await pay(args());
    expect(answer.status, answer.text).toBe(result);
    expect(answer.body).toMatchObject({ detail, errors: { error: [code] } });
  });

  test('passes on no sentence of the API, which may repeat the card', async () => {
    const sentence = `the card ${visa.number} of 123 was declined`;
    next = { status: 402, body: JSON.stringify({ error: { code: sentence, message: sentence } }) };
    const answer = await pay(args());
    expect(answer.status).toBe(402);
    expect(answer.body.errors).toEqual({ error: ['status_402'] });
    expect(answer.text).not.toContain(visa.number);
  });

  test('calls an answer that is no JSON object unavailable', async () => {
    for (const body of ['<html>', '[]', 'null', '"4242424242424242"']) {
      next = { status: 200, body };
      const answer = await pay(args());
      expect(answer.status, answer.text).toBe(503);
      expect(answer.text).not.toContain(visa.number);
    }
  });

  test('is done once under an idempotency key, a refusal too', async () => {
    const { id } = (await server.request('GET', '/reactors?name=Card%20payment')).body.data[0];
    for (const [key, status] of [
      ['payment-once', 200],
      ['refusal-once', 402],
    ] as const) {
      upstream.received.length = 0;
      next = { status, body: JSON.stringify(status === 200 ? { id: 'pay_3' } : { error: 'card_declined' }) };
      const headers = { 'svc-idempotency-key': key };
      const ask = () => server.request('POST', `/reactors/${id}/react`, { headers, json: { args: args() } });
      const first = await ask();
      expect(first.status, first.text).toBe(status);
      const second = await ask();
      expect(second.text).toBe(first.text);
      expect(second.status).toBe(status);
      expect(second.headers.get('content-type')).toBe(first.headers.get('content-type'));
      expect(second.headers.get('svc-idempotent-replayed')).toBe('true');
      expect(upstream.received).toHaveLength(1);
    }
  });

  test('calls a destination that cannot be reached unavailable', async () => {
    const elsewhere = await reactorOf('Card payment', { url: 'https://127.0.0.1/', api_key: 'x' });
    const answer = await elsewhere(args());
    expect(answer.status).toBe(503);
    expect(answer.body.errors).toEqual({ error: ['the payment API cannot be reached'] });
    expect(upstream.received).toHaveLength(0);
  });
});

describe('CSV to JSON', () => {
  let convert: (args: unknown) => Promise<Answer>;
  beforeAll(async () => {
    convert = await reactorOf('CSV to JSON');
  });

  test('reads quotes, breaks and blanks as RFC 4180 has them', async () => {
    const csv = '\uFEFFname,note,age\r\n"Ada ""L""","one,\r\ntwo",36\r\n\r\nBob,,\n';
    const answer = await convert({ csv });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body).toEqual({
      raw: {
        rows: [
          { name: 'Ada "L"', note: 'one,\r\ntwo', age: '36' },
          { name: 'Bob', note: null, age: null },
        ],
      },
    });
  });

  test('keeps the named columns in the vault, in the order of the rows', async () => {
    const cell = (await server.tokenize('of a token')).body;
    const answer = await convert({
      csv: `name;ssn\nAda;111-11-1111\nBob;{{ ${cell} }}\n`,
      tokenize: ' ssn ',
      delimiter: ';',
    });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body.raw).toEqual({ rows: [{ name: 'Ada' }, { name: 'Bob' }] });
    expect(answer.text).not.toContain('111-11-1111');
    const ids = answer.body.tokens.rows.map(({ ssn }: { ssn: string }) => ssn);
    const json = ids.map((id: string) => `{{ ${id} }}`);
    const opened = await server.request('POST', '/detokenize', { json });
    expect(opened.body).toEqual(['111-11-1111', 'of a token']);
  });

  test.each([
    ['a quote that is not closed', { csv: 'a,b\nx,"secret' }, 'csv', 'line 2'],
    ['text behind a quote', { csv: 'a\n"x"secret' }, 'csv', 'line 2'],
    ['a quote within a cell', { csv: 'a\nsec"ret' }, 'csv', 'line 2'],
    ['a row of another length', { csv: 'a,b\nsecret' }, 'csv', 'line 2'],
    ['a column twice', { csv: 'a,a\n1,2' }, 'csv', 'line 1'],
    ['a column that is a prototype', { csv: '__proto__\nx' }, 'csv', 'line 1'],
    ['no header', { csv: '' }, 'csv', 'header'],
    ['a column that is not there', { csv: 'a\nx', tokenize: 'secret' }, 'tokenize', 'columns'],
    ['a delimiter of two', { csv: 'a\nx', delimiter: ';;' }, 'delimiter', 'one character'],
  ])('refuses %s by its line, and never what stands there', async (_name, args, place, word) => {
    const answer = await convert(args);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([place]);
    expect(answer.body.errors[place]).toEqual([expect.stringContaining(word)]);
    expect(answer.text).not.toContain('secret');
  });
});

describe('a row of an official formula that differs from the release', () => {
  test.each([
    ['its code', `code = 'module.exports = ({ args }) => ({ raw: { stolen: args } })'`],
    ['its contract for args', `request_parameters = '[]'`],
  ])('does not run, by %s: 409, no value is opened for it, and the next installation mends it', async (_, change) => {
    const check = await reactorOf('Card check');
    const id = await cardToken(visa);
    const args = { card: `{{ ${id} }}`, date: '2026-11-20' };
    expect((await check(args)).status).toBe(200);
    await server.sql(`UPDATE official_formulas SET ${change} WHERE name = 'Card check'`);
    server.ctx.changes.announce('anything');
    const refused = await check(args);
    expect(refused.status, refused.text).toBe(409);
    expect(refused.body.detail).toContain('official formula');
    expect(refused.text).not.toContain(visa.number);
    const uses = `SELECT id FROM audit_log WHERE operation = 'use' AND $1 = ANY(entity_ids)`;
    expect(await server.sql(uses, [id])).toHaveLength(1);
    await installOfficialFormulas(server.ctx);
    server.ctx.changes.announce('anything');
    expect((await check(args)).status).toBe(200);
  });
});
