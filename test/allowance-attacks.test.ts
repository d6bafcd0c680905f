// Ways to charge more than an allowance: bodies and headers that a destination could read as another amount than the vault does.
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { codeOf, type SharedReactorServer, tokenOf, useReactorServer } from './support/reactors.ts';
import { askProxy, makeProxy, type StoredProxy } from './support/stored-proxies.ts';
import type { Answer } from './support/server.ts';

const CANARY = '4242424242424242';
const CARD = { number: CANARY, expiration_month: 12, expiration_year: 2030 };
const JSON_TYPE = 'application/json';
const FORM = 'application/x-www-form-urlencoded';

let fixture: SharedReactorServer;
let proxy: StoredProxy;
let deep: StoredProxy;
let id: string;
beforeAll(async () => {
  fixture = await useReactorServer();
  const amount = { value: '$.amount', currency: '$.currency', unit: 'minor' };
  proxy = await makeProxy(fixture.server, { destination_url: fixture.url, amount });
  const below = { value: '$.items[0].amount', currency: '$.currency', unit: 'minor' };
  deep = await makeProxy(fixture.server, { destination_url: fixture.url, amount: below });
  id = await tokenOf(fixture.server, CARD, {
    type: 'card',
    bound_to: { proxies: [proxy.id, deep.id], allowance: { max_amount: 2000, currency: 'usd' } },
  });
});
afterAll(() => fixture.close());
beforeEach(() => {
  fixture.upstream.received.length = 0;
});

type Sent = {
  body: string | Uint8Array<ArrayBuffer>;
  type?: string | undefined;
  headers?: Record<string, string>;
  path?: string;
};

/** CARD stands for the expression of the number. */
const send = ({ body, type = JSON_TYPE, headers, path = '/proxy' }: Sent, through = proxy): Promise<Answer> =>
  askProxy(fixture.server, through, {
    body: typeof body === 'string' ? body.replace('CARD', `{{ ${id} | json: '$.number' }}`) : body,
    headers: { ...(type !== '' && { 'content-type': type }), ...headers },
    path,
  });

const notSent = (answer: Answer): void => {
  expect(answer.status, answer.text).toBeGreaterThanOrEqual(400);
  expect(answer.text).not.toContain(CANARY.slice(0, 6));
  expect(fixture.upstream.received).toEqual([]);
};

const form = (text: string): Sent => ({ body: `card=CARD&currency=usd&${text}`, type: FORM });
const json = (members: string): Sent => ({ body: `{"card":"CARD","currency":"usd",${members}}` });

const attacks: Record<string, Sent> = {
  'JSON that says it is a form, with a form behind it': {
    body: '{"amount":9999,"currency":"usd","a":"=","card":"CARD"}&amount=1&currency=usd',
    type: FORM,
  },
  'JSON with a form in one of its texts': json('"amount":1,"x":"&amount=9999&currency=usd&y="'),
  'JSON with a form in percent-encoding': json('"amount":1,"x":"&%61mount=9999&y="'),
  'JSON with a form of a list': json('"amount":1,"x":"&amount[]=9999&%=%y"'),
  'a name twice, small last': json('"amount":9999,"amount":5'),
  'a name twice, small first': json('"amount":5,"amount":9999'),
  'a name twice, one in escapes': json('"amount":5,"\\u0061mount":9999'),
  'a name twice, far from the amount': json('"amount":5,"x":{"a":1,"a":2}'),
  'a name in capitals beside': json('"amount":5,"Amount":9999'),
  'a name with the long s and the sign of Kelvin': {
    body: '{"card":"CARD","amount":5,"currency":"usd","CURRENCY":"kwd"}',
  },
  'a name in full width': json('"amount":5,"\uff41mount":9999'),
  'a name with an underscore': json('"amount":5,"a_mount":9999'),
  'a name that ends in NUL': json('"amount":5,"amount\\u0000":9999'),
  'a name with NUL within': json('"amount":5,"amount\\u0000x":9999'),
  'a name with a soft hyphen': json('"amount":5,"amo\u00adunt":9999'),
  'a prototype': json('"amount":5,"__proto__":{"amount":9999}'),
  'a list in place of the amount': json('"amount":[5,9999]'),
  'an object in place of the amount': json('"amount":{"value":5}'),
  'true in place of the amount': json('"amount":true'),
  'no amount': json('"sum":5'),
  'null in place of the amount': json('"amount":null'),
  'comments of JSON5': json('"amount":5/*,*/,"b":1'),
  hexadecimal: json('"amount":0x5'),
  'hexadecimal as text': json('"amount":"0x5"'),
  'an exponent as text': json('"amount":"5e3"'),
  'underscores as text': json('"amount":"5_000"'),
  'a comma as text': json('"amount":"5,000"'),
  'a dot as text': json('"amount":"5.000"'),
  'a leading zero as text': json('"amount":"0100"'),
  'blanks as text': json('"amount":" 5"'),
  'unicode digits': json('"amount":"\u0665"'),
  'digits in full width': json('"amount":"\uff15"'),
  'a sign': json('"amount":"+5"'),
  'a negative amount': json('"amount":-5'),
  'negative zero': json('"amount":-0'),
  'half a cent': json('"amount":5.5'),
  'a very long number': json(`"amount":${'9'.repeat(400)}`),
  'a very long number that rounds down': json('"amount":2000.00000000000000001'),
  'an exponent above': json('"amount":2001e0'),
  'two values after each other': { body: '{"card":"CARD","currency":"usd","amount":5}{"amount":9999}' },
  'two values in lines': {
    body: '{"card":"CARD","currency":"usd","amount":5}\n{"amount":9999}',
    type: 'application/x-ndjson',
  },
  'a byte order mark': { body: '\ufeff{"card":"CARD","currency":"usd","amount":5}' },
  'UTF-7': { ...json('"amount":5'), type: 'application/json; charset=utf-7' },
  'another charset': { ...json('"amount":5'), type: 'application/json; charset=ibm500' },
  latin1: { ...json('"amount":5'), type: 'application/json; charset=iso-8859-1' },
  'two charsets': { ...json('"amount":5'), type: 'application/json; charset=utf-8; charset=utf-16' },
  'no type': { ...json('"amount":5'), type: '' },
  text: { ...json('"amount":5'), type: 'text/plain' },
  XML: { body: '<a><card>CARD</card><amount>5</amount><currency>usd</currency></a>', type: 'application/xml' },
  YAML: { body: 'card: CARD\namount: 5\ncurrency: usd', type: 'application/yaml' },
  multipart: {
    body: '--x\r\ncontent-disposition: form-data; name="amount"\r\n\r\n5\r\n--x\r\ncontent-disposition: form-data; name="card"\r\n\r\nCARD\r\n--x--\r\n',
    type: 'multipart/form-data; boundary=x',
  },
  'a header in place of the type': { ...json('"amount":5'), headers: { 'x-http-content-type-override': FORM } },
  'a header in place of the method': { ...json('"amount":5'), headers: { 'x-http-method-override': 'GET' } },
  'the query beside JSON': { ...json('"amount":5'), path: '/proxy?amount=9999' },
  'the query beside a form': { ...form('amount=5'), path: '/proxy?%61mount=9999' },
  'the query with brackets': { ...form('amount=5'), path: '/proxy?amount[]=9999' },
  'the query after a semicolon': { ...form('amount=5'), path: '/proxy?a=1;amount=9999' },
  'a form with the amount twice': form('amount=5&amount=9999'),
  'a form with a list': form('amount=5&amount[]=9999'),
  'a form with brackets in percent': form('amount=5&amount%5B0%5D=9999'),
  'a form with a name in percent': form('amount=5&%61mount=9999'),
  'a form with a name in capitals': form('amount=5&AMOUNT=9999'),
  'a form with a blank before the name': form('amount=5&+amount=9999'),
  'a form with a semicolon': form('amount=5&note=a;amount=9999'),
  'a form with overlong UTF-8': form('amount=5&%c1%a1mount=9999'),
  'a form with the percent signs of IIS': form('amount=5&%u0061mount=9999'),
  'a form with NUL': form('amount=5&amount%00x=9999'),
  'a form with a charset of its own': form('amount=5&_charset_=utf-7'),
  'a form with an amount in percent of UTF-8': form('amount=%EF%BC%95'),
  'a form with an exponent': form('amount=1e3'),
  'a form with a decimal comma': form('amount=5%2C0'),
};

describe('more than the allowance', () => {
  for (const [name, sent] of Object.entries(attacks))
    test(`by ${name} is not sent`, async () => {
      notSent(await send(sent));
    });

  test('by the number in a header, beside a body that is not read', async () => {
    const card = { 'x-card': `{{ ${id} | json: '$.number' }}` };
    const body = gzipSync('{"amount":5,"currency":"usd"}');
    notSent(await send({ body, headers: { ...card, 'content-encoding': 'gzip' } }));
    notSent(await send({ body: Buffer.from('{"amount":5}'), type: 'application/octet-stream', headers: card }));
    notSent(await askProxy(fixture.server, proxy, { method: 'GET', headers: card }));
    notSent(await send({ body: '', headers: card }));
    const wide = new Uint8Array(Buffer.from('{"amount":5,"currency":"usd"}', 'utf16le'));
    notSent(await send({ body: wide, type: 'application/json; charset=utf-16le', headers: card }));
    const large = `{"amount":5,"currency":"usd","x":"${'x'.repeat(2_000_000)}"}`;
    notSent(await send({ body: large, headers: card }));
  });

  test('by the number in path or query', async () => {
    const card = encodeURIComponent(`{{ ${id} | json: '$.number' }}`);
    notSent(await send({ body: '{"amount":9999,"currency":"usd"}', path: `/proxy/charge/${card}` }));
    notSent(await send({ body: '{"amount":9999,"currency":"usd"}', path: `/proxy?card=${card}` }));
  });

  test('by an amount that is made of the value: no answer tells its digits', async () => {
    const part = `{{ ${id} | json: '$.number' | slice: 0, 3 }}`;
    for (const body of [`{"amount":"${part}","currency":"usd"}`, `{"amount":${part},"currency":"usd"}`])
      notSent(await send({ body }));
    notSent(await send({ body: `amount=${encodeURIComponent(part)}&currency=usd`, type: FORM }));
    notSent(await send({ body: `{"amount":5,"currency":"${part}","card":"CARD"}` }));
  });

  test('by items that the path does not name is not sent where one name is there twice', async () => {
    const body = (items: string) => ({ body: `{"card":"CARD","currency":"usd","items":${items}}` });
    notSent(await send(body('[{"amount":5,"Amount":9999}]'), deep));
    notSent(await send(body('{"0":{"amount":5}}'), deep));
    notSent(await send(body('[]'), deep));
    // Java compares names without case by their capitals, and the dotless i has an I.
    notSent(await send({ body: '{"card":"CARD","currency":"usd","items":[{"amount":5}],"\u0131tems":[]}' }, deep));
    expect((await send(body('[{"amount":5}]'), deep)).status).toBe(200);
  });

  test('by code of the proxy that answers with another type, body or coding', async () => {
    const amount = { value: '$.amount', currency: '$.currency', unit: 'minor' };
    const made = async (body: string): Promise<Answer> => {
      const coded = await makeProxy(fixture.server, {
        destination_url: fixture.url,
        amount,
        request_transform: { code: codeOf(body) },
      });
      const token = await tokenOf(fixture.server, CARD, {
        type: 'card',
        bound_to: { proxies: [coded.id], allowance: { max_amount: 2000, currency: 'usd' } },
      });
      return askProxy(fixture.server, coded, { json: { amount: 5, currency: 'usd', card: `{{ ${token} }}` } });
    };
    notSent(await made('return { ...args, body: { ...args.body, amount: 9999 } };'));
    notSent(await made('return { ...args, body: JSON.stringify({ amount: 5, currency: "usd" }) + "{}" };'));
    notSent(await made('return { ...args, headers: { ...args.headers, "content-type": "text/plain" } };'));
    notSent(await made('return { ...args, headers: { ...args.headers, "content-encoding": "gzip" } };'));
    notSent(await made('return { ...args, body: null };'));
    notSent(await made('return { ...args, headers: { ...args.headers, "x-method-override": "GET" } };'));
    expect((await made('return args;')).status).toBe(200);
  });

  test('by a header under which a destination shall know repetitions: the bound is suspended', async () => {
    const amount = { value: '$.amount', currency: '$.currency', unit: 'minor' };
    const changed = await makeProxy(fixture.server, { destination_url: fixture.url, amount });
    const bound_to = { proxies: [changed.id], max_uses: 1 };
    const token = await tokenOf(fixture.server, CARD, { type: 'card', bound_to });
    const patch = { json: { idempotency_header: 'X-Ignored' } };
    expect((await fixture.server.request('PATCH', `/proxies/${changed.id}`, patch)).status).toBeLessThan(300);
    const answer = await askProxy(fixture.server, changed, { json: { card: `{{ ${token} | json: '$.number' }}` } });
    notSent(answer);
    expect(answer.text).toContain('changed');
  });

  test('is not what honest bodies are refused for', async () => {
    const honest: Sent[] = [
      json('"amount":2000'),
      json('"amount":"2000"'),
      json('"amount":2e3'),
      json('"amount":2000.0'),
      json('"amount":5,"metadata":{"amount":9999},"description":"Bücher; amount=9"'),
      json('"amount":5,"description":"this & that = all"'),
      form('amount=2000'),
      form('amount=5&description=B%C3%BCcher+und+mehr'),
      { ...json('"amount":5'), type: 'application/json; charset=UTF-8' },
      { ...json('"amount":5'), path: '/proxy?expand=charges' },
    ];
    for (const sent of honest) {
      const answer = await send(sent);
      expect(answer.status, `${answer.text} ${String(sent.body)}`).toBe(200);
    }
    expect(fixture.upstream.received).toHaveLength(honest.length);
  });
});
