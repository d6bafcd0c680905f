// First digits, last four and a fingerprint together are the card number. No answer has all three.
import { readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { type Answer, type SharedServer, type TestTenant, useServer } from '../support/server.ts';

const NUMBER = '4111117812343226';
const MASKS: Record<string, unknown> = {
  'of the filter card_mask': '{{ data.number | card_mask: true, true }}',
  'in two members': { first: '{{ data.number | card_bin }}', ending: ['{{ data.number | last4 }}'] },
  'in one text': 'from {{ data.number | slice: 0, 6 }} to {{ data.number | last4 }}',
  'with separators': '{{ data.number | slice: 0, 4 }} {{ data.number | slice: 4, 4 }} XXXX {{ data.number | last4 }}',
  'of ten other digits': 'XX{{ data.number | slice: 2, 10 }}XXXX',
  'that is the number': '{{ data.number }}',
  'of the first eleven': '{{ data.number | slice: 0, 11 }}',
  'of the first twelve': { first12: '{{ data.number | slice: 0, 12 }}' },
  'of the digits 5 to 14': '{{ data.number | slice: 4, 10 }}',
  'of the last ten': '{{ data.number | slice: 6, 10 }}',
  'in three members': {
    a: '{{ data.number | slice: 0, 3 }}',
    b: '{{ data.number | slice: 3, 3 }}',
    c: '{{ data.number | last4 }}',
  },
  'in three members with texts between them': {
    a: 'A{{ data.number | slice: 4, 3 }}',
    b: 'b{{ data.number | slice: 7, 3 }}',
    c: 'c{{ data.number | last4 }}',
  },
  'in pieces of six, two and two': {
    a: '{{ data.number | slice: 0, 6 }}',
    b: '{{ data.number | slice: 12, 2 }}',
    c: '{{ data.number | slice: 14, 2 }}',
  },
  'with a dot in the BIN': '{{ data.number | slice: 0, 4 }}.{{ data.number | slice: 4, 2 }} {{ data.number | last4 }}',
  'with an apostrophe in the BIN':
    "{{ data.number | slice: 0, 3 }}'{{ data.number | slice: 3, 3 }} {{ data.number | last4 }}",
  'of a list of digits': [4, 1, 1, 1, 1, 1, '{{ data.number | last4 }}'],
  'with the BIN as a name': { 411111: '{{ data.number | last4 }}' },
  'of a literal in full-width digits': '\uff14\uff11\uff11\uff11\uff11\uff11 {{ data.number | last4 }}',
};

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

/** A caller of a tenant of its own, in which no other token has the number. */
type Caller = (tenant: TestTenant) => Promise<TestTenant>;

const byRule =
  (transform: string): Caller =>
  (tenant) =>
    server.newKey(tenant, {
      rules: [
        {
          description: transform,
          priority: 1,
          container: '/',
          transform,
          permissions: ['token:read', 'token:create', 'token:update', 'token:search'],
        },
      ],
    });

const owner: Caller = async (tenant) => tenant;
const masked = byRule('mask');

const printOf = async (id: string): Promise<string> => {
  const [row] = await server.sql('SELECT fingerprint FROM tokens WHERE id = $1', [id]);
  return row.fingerprint;
};

const card = (mask: unknown, more: object = {}) => ({
  type: 'card',
  data: { number: NUMBER, expiration_month: 12, expiration_year: 2030 },
  mask,
  ...more,
});

/** Every way to get a token, by the operation of the API or by its name. */
const answersWith = async (caller: Caller, mask: unknown, more: object = {}): Promise<Map<string, Answer>> => {
  const { api_key: key } = await caller(await server.newTenant());
  const send = (method: string, path: string, json?: unknown) => server.request(method, path, { key, json });
  const answers = new Map<string, Answer>();
  const body = card(mask, { metadata: { order: crypto.randomUUID() }, ...more });
  const created = await server.request('POST', '/tokens', { key, json: body });
  expect(created.status, created.text).toBe(201);
  const { id } = created.body;
  answers.set('post /tokens', created);
  answers.set('get /tokens', await send('GET', `/tokens?id=${id}`));
  answers.set('post /tokens/search', await send('POST', '/tokens/search', { query: `id:${id}` }));
  answers.set('get /v2/tokens', await send('GET', `/v2/tokens?id=${id}`));
  answers.set('post /v2/tokens/search', await send('POST', '/v2/tokens/search', { query: `id:${id}` }));
  answers.set('get /tokens/{id}', await send('GET', `/tokens/${id}`));
  answers.set('post /tokens/{parent_id}/children', await send('POST', `/tokens/${id}/children`, body));
  answers.set('get /tokens/{parent_id}/children', await send('GET', `/tokens/${id}/children`));
  answers.set('patch /tokens/{id}', await send('PATCH', `/tokens/${id}`, { metadata: { paid: 'yes' } }));
  answers.set('tokenize', await send('POST', '/tokenize', { one: body }));
  answers.set('detokenize', await send('POST', '/detokenize', `{{ ${id} | json: '$' }}`));
  answers.set('an existing token', await send('POST', '/tokens', { ...body, deduplicate_token: true }));
  answers.set('id', created);
  return answers;
};

test('the test tries every operation whose answer has a token', async () => {
  const document = JSON.parse(readFileSync('openapi/openapi.json', 'utf8')) as {
    paths: Record<string, Record<string, { responses?: unknown }>>;
  };
  const withTokens = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, { responses }]) => /schemas\/Token(?:Page)?"/.test(JSON.stringify(responses ?? {})))
      .map(([method]) => `${method} ${path}`),
  );
  expect(withTokens.length).toBeGreaterThan(5);
  const tried = await answersWith(owner, '{{ data.number | last4 }}');
  expect(withTokens.filter((operation) => !tried.has(operation))).toEqual([]);
});

test.each(Object.entries(MASKS))(
  'no answer whose mask shows the ends of the number has a fingerprint: %s',
  async (_, mask) => {
    for (const caller of [owner, masked]) {
      const answers = await answersWith(caller, mask);
      const print = await printOf(answers.get('id')?.body.id);
      for (const [name, { status, text }] of answers) {
        expect(status, `${name}: ${text}`).toBeLessThan(300);
        expect(text, name).not.toContain(print);
      }
    }
  },
);

/** Everything else that a client writes may hold the BIN beside a mask with the last four digits. */
const WRITTEN: Record<string, () => object> = {
  id: () => ({ id: `411111-${crypto.randomUUID()}` }),
  metadata: () => ({ metadata: { issuer: '411111' } }),
  'a metadata key': () => ({ metadata: { 'bin:411111': 'yes' } }),
  containers: () => ({ containers: ['/cards/411111/'] }),
  search_indexes: () => ({ search_indexes: ['411111 {{ data.number | last4 }}'] }),
  fingerprint_expression: () => ({ fingerprint_expression: '411111 {{ data.number }}' }),
};

test.each(Object.entries(WRITTEN))('%s counts as a part of the answer', async (name, more) => {
  const answers = await answersWith(owner, '{{ data.number | last4 }}', more());
  const print = await printOf(answers.get('id')?.body.id);
  expect(print).toBeTypeOf('string');
  for (const [operation, { status, text }] of answers) {
    // An id exists once.
    const isOther =
      name === 'id' && ['post /tokens/{parent_id}/children', 'tokenize', 'an existing token'].includes(operation);
    if (isOther) continue;
    expect(status, `${operation}: ${text}`).toBeLessThan(300);
    expect(text, operation).not.toContain(print);
  }
});

/** The number as other systems write it, in a token of no type. */
const SPELLINGS: Record<string, (number: string) => unknown> = {
  dots: (number) => number.replace(/\d{4}(?!$)/g, '$&.'),
  'no-break spaces': (number) => number.replace(/\d{4}(?!$)/g, '$&\u00a0'),
  'two blanks': (number) => number.replace(/\d{4}(?!$)/g, '$&  '),
  'full-width digits': (number) => number.replace(/\d/g, (digit) => String.fromCharCode(digit.charCodeAt(0) + 0xfee0)),
  'a list of digits': (number) => [...number].map(Number),
  'a number of JSON': (number) => Number(number),
};

test.each(Object.entries(SPELLINGS))('a number written with %s is one', async (_, spell) => {
  const body = { type: 'token', data: spell(NUMBER) };
  const mask = { issuer: '411111', ending: '3226' };
  const made = await server.request('POST', '/tokens', { json: { ...body, mask } });
  expect([made.status, made.body.fingerprint], made.text).toEqual([201, undefined]);
  const less = await server.request('POST', '/tokens', { json: { ...body, mask: { ending: '3226' } } });
  expect(less.body.fingerprint).toBe(await printOf(less.body.id));
});

test('digits that repeat count once, and those of ids and hashes not at all', async () => {
  const hash = '5f3226a1117812344111178e411111aa81234322699d4111178123432260abcdef';
  const metadata = { order: '41111178-1234-4226-8111-111178123432', hash };
  for (const number of ['4242424242424242', '4111111111111111', NUMBER]) {
    const data = { number, expiration_month: 12, expiration_year: 2030 };
    const mask = { number: '{{ data.number | card_mask: true, false }}' };
    const made = await server.request('POST', '/tokens', { json: { type: 'card', data, mask, metadata } });
    expect(made.body.fingerprint, made.text).toBe(await printOf(made.body.id));
  }
});

test('a fingerprint stays where the mask shows less, and where the value is shown', async () => {
  for (const mask of ['{{ data.number | last4 }}', '{{ data.number | card_mask: true, false }}', undefined]) {
    const answers = await answersWith(masked, mask);
    const print = await printOf(answers.get('id')?.body.id);
    for (const [name, { text }] of answers) if (name !== 'detokenize') expect(text, name).toContain(print);
  }
  const made = await server.request('POST', '/tokens', { json: card('{{ data.number | card_mask: true, true }}') });
  const read = await server.request('GET', `/tokens/${made.body.id}`, {
    key: (await byRule('reveal')(server.tenant)).api_key,
  });
  expect(read.body.data.number).toBe(NUMBER);
  expect(read.body.fingerprint).toBe(await printOf(made.body.id));
  // A generic token without a mask hides nothing.
  const plain = await server.request('POST', '/tokens', { json: { type: 'token', data: NUMBER } });
  expect(plain.body.fingerprint).toBe(await printOf(plain.body.id));
});

/** A number whose check digit is right. */
const numberAround = (digits: string): string => {
  const sum = [...`${digits}0`].toReversed().reduce((total, digit, at) => {
    const twice = Number(digit) * (at % 2 === 1 ? 2 : 1);
    return total + (twice > 9 ? twice - 9 : twice);
  }, 0);
  return `${digits}${(10 - (sum % 10)) % 10}`;
};

test('every card with the default mask has its fingerprint, of 10,000 and those that repeat', async () => {
  const { api_key: key } = await byRule('mask')(await server.newTenant());
  /** Few digits, so that runs repeat, and often those of the expiry. */
  const draw = (_: unknown, at: number) => {
    const [month, year] = [1 + (at % 12), 2027 + (at % 20)];
    const pieces = [`${month}${year}`, String(year), `0${month}`, '222', '20', '3', '0', '2'];
    let digits = at % 3 === 0 ? '' : '2223';
    for (let piece = at; digits.length < 15; piece = (piece * 7 + 3) % 8_191)
      digits += at % 3 === 0 ? String(piece % 10) : pieces[piece % 8];
    return { number: numberAround(digits.slice(0, 15)), expiration_month: month, expiration_year: year };
  };
  const known = { number: '2223003122003222', expiration_month: 8, expiration_year: 2031 };
  const cards = [known, ...Array.from({ length: 10_000 }, draw)];
  let made = 0;
  for (let from = 0; from < cards.length; from += 1_000) {
    const json = cards.slice(from, from + 1_000).map((data) => ({ type: 'card', data }));
    const answer = await server.request('POST', '/tokenize', { key, json });
    expect(answer.status, answer.text.slice(0, 500)).toBe(200);
    for (const [at, { fingerprint }] of (answer.body as { fingerprint?: string }[]).entries())
      expect(fingerprint, JSON.stringify(cards[from + at])).toBeTypeOf('string');
    made += answer.body.length;
  }
  expect(made).toBe(10_001);
  const listed = await server.request('GET', '/tokens?size=100', { key });
  for (const { fingerprint } of listed.body.data) expect(fingerprint).toBeTypeOf('string');
});

test('digits beside the default mask count as before, and the expiry in a mask of its own', async () => {
  const data = { number: numberAround('555512203155444'), expiration_month: 12, expiration_year: 2031 };
  const printOfCard = async (more: object) => {
    const made = await server.request('POST', '/tokens', { json: { type: 'card', data, ...more } });
    expect(made.status, made.text).toBe(201);
    return made.body.fingerprint;
  };
  expect(await printOfCard({})).toBeTypeOf('string');
  expect(await printOfCard({ metadata: { part: '122031' } })).toBeUndefined();
  const mask = {
    number: '{{ data.number | last4 }}',
    expiration_month: '{{ data.expiration_month }}',
    expiration_year: '{{ data.expiration_year }}',
  };
  expect(await printOfCard({ mask })).toBeUndefined();
});
