// Data of a typed token at every door: unknown attributes are refused by name, null is absence, and cards have 12 to 19 digits.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { passesLuhn } from '../../src/modules/tokens/token-types.ts';
import { codeOf, makeReactor, react, type SharedReactorServer, useReactorServer } from '../support/reactors.ts';
import { askProxy, makeProxy } from '../support/stored-proxies.ts';
import type { SharedServer } from '../support/server.ts';

let server: SharedServer;
let fixture: SharedReactorServer;
let session_key = '';
const reactors = new Map<string, string>();

const reactorOf = async (name: string, body: string): Promise<void> => {
  const application = await server.newKey(server.tenant, {
    permissions: ['token:create', 'token:read', 'token:update'],
  });
  reactors.set(name, (await makeReactor(server, { code: codeOf(body), application })).id);
};

let inboundKey = '';
beforeAll(async () => {
  fixture = await useReactorServer();
  ({ server } = fixture);
  await reactorOf('svc.tokenize', 'return { raw: await svc.tokenize(args.request) };');
  await reactorOf('svc.tokens.create', 'return { raw: await svc.tokens.create(args.request) };');
  await reactorOf('tokenize of a result', 'return { raw: {}, tokenize: args.request };');
  const application = await server.newKey(server.tenant, { permissions: ['token:create', 'token:read'] });
  const proxy = await makeProxy(server, {
    destination_url: fixture.url,
    require_auth: false,
    application: { id: application.application_id },
    request_transform: { code: codeOf('return { body: await svc.tokenize(args.body), headers: args.headers };') },
  });
  inboundKey = proxy.key;
  const opened = await server.request('POST', '/sessions', { json: { types: ['card', 'bank'] } });
  session_key = opened.body.session_key;
});
afterAll(() => fixture.close());

type Sent = { status: number; text: string };
type Door = (request: object) => Promise<Sent>;

const post =
  (path: string): Door =>
  (json) =>
    server.request('POST', path, { json });

const throughCode =
  (name: string): Door =>
  (request) =>
    react(server, reactors.get(name) as string, { request });

const doors: [string, Door][] = [
  ['POST /tokens', post('/tokens')],
  ['POST /tokenize', post('/tokenize')],
  ['POST /tokenize, within a structure', (request) => server.tokenize({ a: [request] })],
  ['the key of a session', (json) => server.request('POST', '/tokens', { json, key: session_key })],
  ['svc.tokenize', throughCode('svc.tokenize')],
  ['svc.tokens.create', throughCode('svc.tokens.create')],
  ['tokenize of a result', throughCode('tokenize of a result')],
  ['an open proxy that tokenizes', (json) => askProxy(server, { key: inboundKey }, { json, key: null })],
];

const countTokens = async (): Promise<number> => {
  const [row] = await server.sql('SELECT count(*)::int AS n FROM tokens WHERE tenant_id = $1', [
    server.tenant.tenant_id,
  ]);
  return row.n;
};

const NUMBER = '4242424242424242';

describe.each(doors)('%s', (_name, send) => {
  test.each([
    ['card', { number: NUMBER, exp_month: 12, expiration_year: 2030 }, 'exp_month', 'did you mean `expiration_month`?'],
    ['card', { number: NUMBER, card_number: NUMBER }, 'card_number', 'did you mean `number`?'],
    ['card', { pan: NUMBER }, 'pan', 'known are `number`, `expiration_month`'],
    ['bank', { routing_number: '110000000', account_number: '1', name: 'x' }, 'name', 'known are `routing_number`'],
  ])('refuses %s data with an unknown attribute', async (type, data, name, sentence) => {
    const before = await countTokens();
    const { status, text } = await send({ type, data });
    expect([status >= 400, text]).toEqual([true, expect.stringContaining(name)]);
    expect(text.replaceAll('\\"', '"')).toContain(sentence);
    expect(text).not.toContain(NUMBER);
    expect(await countTokens()).toBe(before);
  });

  test('takes null in an optional attribute as its absence', async () => {
    const data = { number: NUMBER, expiration_month: null, expiration_year: null, cvc: null, cardholder_name: null };
    const { status, text } = await send({ type: 'card', data });
    expect([200, 201], text).toContain(status);
  });
});

const doorsOfStatus = doors.filter(([name]) => ['POST /tokens', 'POST /tokenize'].includes(name));

test.each(doorsOfStatus)('%s stores data with nulls as data without them', async (_name, send) => {
  const whole = JSON.parse(
    (await send({ type: 'card', data: { number: NUMBER, cvc: null, expiration_year: null } })).text,
  );
  const key = (await server.newKey(server.tenant, { rules: [reveal] })).api_key;
  const { body } = await server.request('GET', `/tokens/${whole.id}`, { key });
  expect(body.data).toEqual({ number: NUMBER });
});

const reveal = {
  description: 'all',
  priority: 1,
  container: '/',
  transform: 'reveal',
  permissions: ['token:read'],
};

test('PATCH refuses an unknown attribute of data, and null removes an optional one', async () => {
  const { body: made } = await server.request('POST', '/tokens', {
    json: { type: 'card', data: { number: NUMBER, expiration_month: 1, expiration_year: 2031 } },
  });
  const patch = (data: object) =>
    server.request('PATCH', `/tokens/${made.id}`, {
      headers: { 'content-type': 'application/merge-patch+json' },
      body: JSON.stringify({ data }),
    });
  const refused = await patch({ exp_month: 2 });
  expect([refused.status, refused.body.errors]).toEqual([
    400,
    { 'data.exp_month': ['is not known here; did you mean `expiration_month`?'] },
  ]);
  expect((await patch({ expiration_month: null })).body.data).toEqual({
    number: 'XXXXXXXXXXXX4242',
    expiration_year: 2031,
  });
});

test('a generic token keeps any attributes and nulls', async () => {
  const data = { exp_month: null, anything: { number: NUMBER } };
  const { body } = await server.request('POST', '/tokens', { json: { type: 'token', data } });
  const { body: read } = await server.request('GET', `/tokens/${body.id}`);
  expect(read.data).toEqual(data);
});

/** A number of so many digits with a valid check digit. */
const numberOf = (digits: number): string =>
  [...'0123456789'].map((last) => `50${'18'.repeat(9)}`.slice(0, digits - 1) + last).find(passesLuhn) as string;

test('numbers of 12 to 19 digits are cards, and of 11 or 20 are not', async () => {
  for (let digits = 11; digits <= 20; digits += 1) {
    const number = numberOf(digits);
    const isCard = digits >= 12 && digits <= 19;
    const mask = '{{ data | card_bin }}';
    for (const request of [
      { type: 'card', data: { number } },
      { type: 'card_number', data: number, mask },
    ]) {
      const { status, body, text } = await server.request('POST', '/tokens', { json: request });
      expect([digits, status], text).toEqual([digits, isCard ? 201 : 400]);
      if (isCard && request.mask) expect(body.data).toBe(number.slice(0, digits >= 16 ? 8 : 6));
      if (isCard && !request.mask) expect(body.data.number).toBe(`${'X'.repeat(digits - 4)}${number.slice(-4)}`);
    }
  }
});

test('the OpenAPI document says that cards and bank accounts have no other attributes', async () => {
  const { body } = await server.request('GET', '/openapi.json');
  const { CardData, BankData } = body.components.schemas;
  expect([CardData.additionalProperties, BankData.additionalProperties]).toEqual([false, false]);
});
