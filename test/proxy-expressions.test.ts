// Expressions in forwarded requests: a value stays a value in every place, and a refused request sends no byte.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { watchMemory } from './support/memory.ts';
import { XMLParser } from 'fast-xml-parser';
import {
  makeProxy,
  type Message,
  nothingReaches,
  OK,
  proxyErrorIn,
  proxyErrorOf,
  receiving,
  type SharedProxyFixture,
  statusOf,
  useProxyFixture,
  valuesOf,
} from './support/proxy.ts';
import { tokenOf as tokenOn, usesOf, withoutLog } from './support/reactors.ts';
import type { Answer, RequestOptions } from './support/server.ts';
import { withoutDrawn } from './support/text.ts';

let fixture: SharedProxyFixture;
beforeAll(async () => {
  fixture = await useProxyFixture();
});
afterAll(() => fixture.close());
afterEach(() => {
  fixture.destination.script = receiving(fixture.destination, OK);
});

const CARD = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };
const UNKNOWN = '00000000-0000-4000-8000-000000000000';

const tokenOf = (data: unknown, more: object = {}): Promise<string> => tokenOn(fixture.server, data, more);

const forward = (path: string, options: RequestOptions = {}, method = 'POST'): Promise<Answer> =>
  fixture.forward(method, path, options);

const typed = (type: string, body: string | Uint8Array<ArrayBuffer>): RequestOptions => ({
  headers: { 'content-type': type },
  body,
});

/** Forwards it, and says what arrived. */
const arriving = async (path: string, options: RequestOptions = {}, method = 'POST'): Promise<Message> => {
  const before = fixture.destination.received.length;
  const answer = await forward(path, options, method);
  expect(answer.status, answer.text).toBe(200);
  expect(fixture.destination.received).toHaveLength(before + 1);
  return fixture.last();
};

const arrivingBody = async (options: RequestOptions): Promise<string> => {
  const { body, headers } = await arriving('/proxy', options);
  expect(valuesOf({ headers }, 'content-length')).toEqual([String(body.byteLength)]);
  return body.toString();
};

const targetOf = ({ start }: Message): string => start.split(' ')[1] as string;

/** The problem that a request is refused with; nothing of it left, and no value is in the answer or the log. */
const refusalOf = async (ask: () => Promise<Answer>, values: string[] = []) => {
  const linesBefore = fixture.server.logLines.length;
  const answer = await nothingReaches(fixture, ask);
  const lines = fixture.server.logLines.slice(linesBefore).join('');
  for (const value of values) {
    expect(answer.text).not.toContain(value);
    expect(lines).not.toContain(value);
  }
  return proxyErrorOf(answer);
};

const BOUNDARY = 'boundary';
const multipart = (headers: string, content: string): string =>
  `--${BOUNDARY}\r\n${headers}\r\n\r\n${content}\r\n--${BOUNDARY}--\r\n`;
const multipartType = `multipart/form-data; boundary=${BOUNDARY}`;

/** Each place with a text in it, and what the place is called. Bodies are in the ways that expand differently. */
const places: { where: string; place: string; with(text: string): [path: string, options: RequestOptions] }[] = [
  { where: 'the path', place: 'path', with: (text) => [`/proxy/a/${encodeURIComponent(text)}`, {}] },
  { where: 'the query', place: 'query.q', with: (text) => [`/proxy?q=${encodeURIComponent(text)}`, {}] },
  { where: 'a header', place: 'headers.X-Value', with: (text) => ['/proxy', { headers: { 'X-Value': text } }] },
  { where: 'JSON', place: 'body.a[1].b', with: (text) => ['/proxy', { json: { a: [0, { b: text }] } }] },
  {
    where: 'lines of JSON',
    place: 'body[1].a',
    with: (text) => ['/proxy', typed('application/x-ndjson', `{"a":1}\n${JSON.stringify({ a: text })}\n`)],
  },
  {
    where: 'a form',
    place: 'body.q',
    with: (text) => ['/proxy', typed('application/x-www-form-urlencoded', `a=b&q=${encodeURIComponent(text)}`)],
  },
  { where: 'XML', place: 'body', with: (text) => ['/proxy', typed('application/xml', `<a>${text}</a>`)] },
  { where: 'text', place: 'body', with: (text) => ['/proxy', typed('text/plain', `say ${text}`)] },
  { where: 'a body without a type', place: 'body', with: (text) => ['/proxy', { body: Buffer.from(`say ${text}`) }] },
  {
    where: 'a part of a multipart body',
    place: 'body.one',
    with: (text) => ['/proxy', typed(multipartType, multipart('Content-Disposition: form-data; name="one"', text))],
  },
];

describe('where expressions stand', () => {
  for (const each of places) {
    test(`a value arrives in ${each.where}`, async () => {
      const [path, options] = each.with(`{{ ${await tokenOf('the-value')} }}`);
      const message = await arriving(path, options);
      expect(targetOf(message) + message.headers.join() + message.body.toString()).toContain('the-value');
      expect(JSON.stringify(message) + message.body.toString()).not.toContain('{{');
    });

    test(`filters work in ${each.where}`, async () => {
      const id = await tokenOf(CARD, { type: 'card' });
      const [path, options] = each.with(`{{ ${id} | json: '$.number' | last4 }}`);
      const message = await arriving(path, options);
      const text = targetOf(message) + message.headers.join() + message.body.toString();
      expect(text).toContain('4242');
      expect(withoutDrawn(text)).not.toContain('42424');
    });
  }

  test('several in one request are opened together, and each use is logged once', async () => {
    const [one, two] = [await tokenOf('one'), await tokenOf('two')];
    const message = await arriving(`/proxy/{{ ${one} }}?q={{ ${two} }}`, {
      headers: { 'x-value': `{{${one}}}-{{${two}}}` },
      json: [`{{${two}}}`],
    });
    expect(targetOf(message)).toBe('/one?q=two');
    expect(valuesOf(message, 'x-value')).toEqual(['one-two']);
    expect(message.body.toString()).toBe('["two"]');
    const uses = await usesOf(fixture.server, one, two);
    expect(uses.flatMap(({ entity_ids }) => entity_ids).toSorted()).toEqual([one, two].toSorted());
  });

  test('a value becomes one segment of the path', async () => {
    const id = await tokenOf('a/b?c#d%2e&e=f;g h"é');
    const message = await arriving(`/proxy/v1/{{ ${id} }}/x`, {}, 'GET');
    expect(targetOf(message)).toBe('/v1/a%2Fb%3Fc%23d%252e%26e%3Df%3Bg%20h%22%C3%A9/x');
  });

  test('a value does not lead out of its path', async () => {
    for (const data of ['.', '..', '../..', './x', '..\\x', '..;x', '%2e%2e', '%252E.']) {
      const id = await tokenOf(data);
      const problem = await refusalOf(() => forward(`/proxy/a/{{ ${id} }}/b`));
      expect(problem.errors, data).toEqual({ path: ['must not have the segments . or ..'] });
    }
    const half = await tokenOf('.');
    expect(await refusalOf(() => forward(`/proxy/a/.{{ ${half} }}/b`))).toMatchObject({ status: 400 });
    const encoded = await tokenOf('%2e%2e');
    expect(await refusalOf(() => forward(`/proxy/a/{{ ${encoded} }}/b`))).toMatchObject({ status: 400 });
    const longer = await tokenOf('%2e%2ex');
    expect(targetOf(await arriving(`/proxy/a/{{ ${longer} }}/b`))).toBe('/a/%252e%252ex/b');
  });

  test('a value becomes the value of one query parameter', async () => {
    const id = await tokenOf('a&b=c#d+e f%"é');
    const message = await arriving(`/proxy/x?a=1+2&q=x{{${id}}}y&c=%20%zz&d`, {}, 'GET');
    expect(targetOf(message)).toBe('/x?a=1+2&q=xa%26b%3Dc%23d%2Be%20f%25%22%C3%A9y&c=%20%zz&d');
  });

  test('a value that makes the URL too long is refused under the name of its place', async () => {
    const id = await tokenOf('long '.repeat(8_000));
    const sentence = 'must leave the URL of the destination at most 32768 characters';
    for (const [path, place] of [
      [`/proxy/{{ ${id} }}?q=short`, 'path'],
      [`/proxy/short?q={{ ${id} }}`, 'query'],
    ] as const) {
      const problem = await refusalOf(() => forward(path));
      expect(problem, path).toMatchObject({ status: 400, errors: { [place]: [sentence] } });
    }
  });

  test('names are never expanded: of parameters, of members and of fields', async () => {
    const name = `{{${UNKNOWN}}}`;
    for (const [path, options, place] of [
      [`/proxy?${name}=1`, {}, 'query'],
      ['/proxy', typed('application/json', `{"${name}":1}`), 'body'],
      ['/proxy', typed('application/x-www-form-urlencoded', `${name}=1`), 'body'],
    ] as const)
      expect(await refusalOf(() => forward(path, options)), place).toMatchObject({
        errors: { [place]: ['must have no {{ in names: expressions stand in values only'] },
      });
  });

  test('a JSON text that is one expression takes the type of the value, a longer one stays text', async () => {
    const values = [{ a: [1, null] }, [true, 'x'], 12.5, false, 'text', ''];
    const ids = await Promise.all(values.map((value) => tokenOf(value)));
    const body = { whole: ids.map((id) => `{{ ${id} }}`), mixed: ids.map((id) => `<{{ ${id} }}>`) };
    const sent = await arrivingBody({ json: body });
    expect(JSON.parse(sent)).toEqual({
      whole: values,
      mixed: values.map((value) => `<${typeof value === 'object' ? JSON.stringify(value) : String(value)}>`),
    });
  });

  test('what stands around an expression in JSON arrives byte for byte', async () => {
    const id = await tokenOf('x"y');
    const around = (value: string) =>
      `\r\n{ "n":1.0,"big":12345678901234567890, "e":1E5, "n":2,\t"k":[${value} , "\\u00e9\\/"] }\n`;
    expect(await arrivingBody(typed('application/json', around(`"{{ ${id} }}"`)))).toBe(around('"x\\"y"'));
    const escaped = `"\\u007b\\u007B ${id} }\\u007d"`;
    expect(await arrivingBody(typed('application/vnd.api+json', around(escaped)))).toBe(around('"x\\"y"'));
  });

  test('files pass unchanged, even with expressions; formats that are not known pass without', async () => {
    const bytes = Buffer.concat([Buffer.from(`{{ ${UNKNOWN} }}{{`), Buffer.from([0, 255, 254, 10])]);
    for (const type of ['application/octet-stream', 'image/png', 'application/pdf'])
      expect((await arriving('/proxy', typed(type, bytes))).body, type).toEqual(bytes);
    const coded = { headers: { 'content-type': 'image/png', 'content-encoding': 'gzip' }, body: bytes };
    expect((await arriving('/proxy', coded)).body).toEqual(bytes);
    const braces = bytes.subarray(bytes.lastIndexOf('{{'));
    for (const type of ['nonsense', 'application/cbor'])
      expect((await arriving('/proxy', typed(type, braces))).body, type).toEqual(braces);
    expect((await arriving('/proxy', { body: braces })).body).toEqual(braces);
  });

  test('a part that is not text passes as it is beside one that is', async () => {
    const id = await tokenOf('the-value');
    const file = 'Content-Disposition: form-data; name="f"; filename="{ x }"\r\nContent-Type: image/png';
    const body = (value: string) =>
      `--${BOUNDARY}\r\n${file}\r\n\r\n\x89PNG{{ x }}\r\n${multipart('Content-Disposition: form-data; name="t"', value)}`;
    const bytes = Buffer.from(body(`{{${id}}}`), 'latin1');
    const { body: sent } = await arriving('/proxy', typed(multipartType, bytes));
    expect(sent.toString('latin1')).toBe(body('the-value'));
  });

  test('a body in another charset keeps its bytes, and takes the values that it can hold', async () => {
    const [id, far] = [await tokenOf('ü'), await tokenOf('€')];
    const latin1 = (text: string) => typed('text/plain; charset=ISO-8859-1', Buffer.from(text, 'latin1'));
    const { body } = await arriving('/proxy', latin1(`\xe9{{ ${id} }}`));
    expect(body).toEqual(Buffer.from('\xe9ü', 'latin1'));
    const problem = await refusalOf(() => forward('/proxy', latin1(`\xe9{{ ${far} }}`)), ['€']);
    expect(Object.keys(problem.errors)).toEqual(['body']);
  });
});

describe('a value is a value', () => {
  test('one that looks like an expression is sent as it is', async () => {
    const other = await tokenOf('the-other');
    const value = `{{${other}}}`;
    const id = await tokenOf(value);
    const message = await arriving(`/proxy/{{${id}}}?q={{${id}}}`, {
      headers: { 'x-value': `{{${id}}}` },
      json: { whole: `{{${id}}}`, mixed: `a{{${id}}}` },
    });
    expect(targetOf(message)).toBe(`/${encodeURIComponent(value)}?q=${encodeURIComponent(value)}`);
    expect(valuesOf(message, 'x-value')).toEqual([value]);
    expect(JSON.parse(message.body.toString())).toEqual({ whole: value, mixed: `a${value}` });
    for (const type of ['text/plain', 'application/xml', 'application/x-www-form-urlencoded'])
      expect(decodeURIComponent(await arrivingBody(typed(type, `a={{${id}}}`)))).toBe(`a=${value}`);
    expect(await usesOf(fixture.server, other)).toEqual([]);
  });

  const awkward = 'a"b\'c\\d<e>&f]]>g\r\nh\ti{{j}}k=l&m;n%26o+p--q?>r\u2028s\u{1f600}é';

  test('one with quotes and line ends does not end the text it stands in: JSON', async () => {
    const id = await tokenOf(awkward);
    const sent = await arrivingBody({ json: { whole: `{{${id}}}`, mixed: `<{{${id}}}>`, after: 1 } });
    expect(JSON.parse(sent)).toEqual({ whole: awkward, mixed: `<${awkward}>`, after: 1 });
    const lines = await arrivingBody(typed('application/x-ndjson', `"{{${id}}}"\n{"a":"{{${id}}}"}\n`));
    expect(
      lines
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([awkward, { a: awkward }]);
  });

  test('nor does it end a field of a form', async () => {
    const id = await tokenOf(awkward);
    const sent = await arrivingBody(typed('application/x-www-form-urlencoded', `a=1&q={{${id}}}&z=2`));
    expect([...new URLSearchParams(sent)]).toEqual([
      ['a', '1'],
      ['q', awkward],
      ['z', '2'],
    ]);
  });

  test('nor an element, an attribute or a section of XML', async () => {
    const id = await tokenOf(awkward);
    const xml = `<r><a b="{{${id}}}" c='{{${id}}}'>{{${id}}}</a><d><![CDATA[{{${id}}}]]></d><e>1</e></r>`;
    const sent = await arrivingBody(typed('application/soap+xml', xml));
    const parser = new XMLParser({
      ignoreAttributes: false,
      attributeNamePrefix: '@',
      trimValues: false,
      htmlEntities: true,
    });
    const whole = awkward;
    expect(parser.parse(sent)).toEqual({ r: { a: { '@b': whole, '@c': whole, '#text': whole }, d: whole, e: 1 } });
  });

  test('nor the quotes, comments and tags of XML where it cannot be escaped', async () => {
    const id = await tokenOf(awkward);
    for (const xml of [`<!-- {{${id}}} -->`, `<?php {{${id}}} ?>`, `<a b={{${id}}}>`, `<{{${id}}}>`]) {
      const problem = await refusalOf(() => forward('/proxy', typed('text/xml', xml)), [awkward.slice(0, 5)]);
      expect(Object.keys(problem.errors), xml).toEqual(['body']);
    }
  });

  test('nor a part of a multipart body', async () => {
    const id = await tokenOf(awkward);
    const part = 'Content-Disposition: form-data; name="one"';
    const sent = await arrivingBody(typed(multipartType, multipart(part, `{{${id}}}`)));
    expect(sent).toBe(multipart(part, awkward));
    for (const data of [`x\r\n--${BOUNDARY}--\r\n`, `x\n--${BOUNDARY}\n`, `--${BOUNDARY}`]) {
      const evil = await tokenOf(data);
      const body = multipart(part, `{{${evil}}}`);
      const problem = await refusalOf(() => forward('/proxy', typed(multipartType, body)));
      expect([problem.status, Object.keys(problem.errors)]).toEqual([400, ['body.one']]);
    }
  });

  test('one that a header cannot hold is refused before anything is sent', async () => {
    const bad = { CRLF: 'evil\r\nX-Evil: 1', LF: 'evil\nX: 1', CR: 'evil\rX', escape: 'evil\u001bX', wide: 'evil€' };
    for (const [name, data] of Object.entries(bad)) {
      const id = await tokenOf(data);
      const headers = { 'X-Value': `Bearer {{ ${id} }}` };
      const problem = await refusalOf(() => forward('/proxy', { headers }), ['evil']);
      expect(problem.errors, name).toEqual({
        'headers.X-Value': ['must insert only characters that a header can hold'],
      });
    }
  });

  test('100 KB of it in a header are refused before anything is sent', async () => {
    const id = await tokenOf('long-value'.repeat(10_240));
    const problem = await refusalOf(() => forward('/proxy', { headers: { 'x-value': `{{${id}}}` } }), ['long-value']);
    expect(problem.status).toBe(400);
  });

  test('line ends in the path and in the query are encoded, once', async () => {
    const id = await tokenOf('a\r\nHost: evil\r\n\r\nb');
    const message = await arriving(`/proxy/{{${id}}}?q={{${id}}}`, {}, 'GET');
    const encoded = 'a%0D%0AHost%3A%20evil%0D%0A%0D%0Ab';
    expect(targetOf(message)).toBe(`/${encoded}?q=${encoded}`);
    expect(valuesOf(message, 'host')).toEqual([new URL(fixture.url).host]);
  });

  test('a complex one goes into a header as compact JSON', async () => {
    const id = await tokenOf({ a: [1, 'x'] });
    const message = await arriving('/proxy', { headers: { 'x-value': `{{${id}}}` } });
    expect(valuesOf(message, 'x-value')).toEqual(['{"a":[1,"x"]}']);
  });
});

describe('a value that would change the structure around it', () => {
  const value = 'x","amount":0,"admin":"yes';

  test.each([
    ['headers.x-value', { headers: { 'x-value': 'a; name={{ID}}' } }],
    ['headers.x-value', { headers: { 'x-value': 'a; name="{{ID}}"' } }],
    ['body', typed('text/csv', 'a,{{ID}}')],
    ['body', typed('application/yaml', 'note: {{ID}}')],
    ['body', typed('application/graphql', '{ note(text: "{{ID}}") }')],
  ])('is a 400 at %s, which does not repeat it: %j', async (place, options) => {
    const id = await tokenOf(value);
    const filled = JSON.parse(JSON.stringify(options).replaceAll('ID', id)) as RequestOptions;
    const answer = await forward('/proxy', filled);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.proxy_error.errors)).toEqual([place]);
    expect(answer.text).not.toContain('admin');
  });

  test('is escaped in JSON by the name of text/plain, and quoted by the quote filters', async () => {
    const id = await tokenOf(value);
    expect(await arrivingBody(typed('text/plain', `{"note":"{{${id}}}"}`))).toBe(JSON.stringify({ note: value }));
    expect(await arrivingBody(typed('text/csv', `a,{{${id} | quote_csv}}`))).toBe(`a,"${value.replaceAll('"', '""')}"`);
    const yaml = await arrivingBody(typed('application/yaml', `note: {{${id} | quote_yaml}}`));
    expect(yaml).toBe(`note: ${JSON.stringify(value)}`);
  });
});

describe('what is no expression', () => {
  const id = UNKNOWN;
  const malformed: Record<string, string> = {
    'an opening alone': '{{',
    'an empty one': '{{ }}',
    'one without an end': `{{${id}`,
    'one that ends halfway': `{{ ${id} }`,
    'three braces': `{{{${id}}}}`,
    'a brace within': `{{ ${id} {{ ${id} }} }}`,
    'a filter that is none': `{{ ${id} | nonsense }}`,
    'a filter without a name': `{{ ${id} | }}`,
    'a soft hyphen within': `{{ ${id}\u00ad }}`,
  };
  for (const each of places)
    test(`is refused in ${each.where}, with its place and whole`, async () => {
      const good = await tokenOf('the-value');
      for (const [name, text] of Object.entries(malformed)) {
        const [path, options] = each.with(`{{ ${good} }} ${text}`);
        const problem = await refusalOf(() => forward(path, options), ['the-value']);
        expect(problem, name).toMatchObject({ status: 400, title: 'One or more validation errors occurred.' });
        expect(Object.keys(problem.errors), name).toEqual([each.place]);
        expect(JSON.stringify(problem)).not.toContain(id);
      }
    });

  test('is refused with hidden characters and line ends within, where these can be sent', async () => {
    for (const hidden of ['\u200b', '\u200d', '\ufeff', '\u2060', '\n', '\r\n', '\t'])
      for (const each of places.filter(({ where }) => where !== 'a header')) {
        const [path, options] = each.with(`{{${id.slice(0, 8)}${hidden}${id.slice(8)}}}`);
        const problem = await refusalOf(() => forward(path, options));
        expect(Object.keys(problem.errors), `${escape(hidden)} in ${each.where}`).toEqual([each.place]);
      }
  });

  test('with and without spaces it is the same token', async () => {
    const known = await tokenOf('v');
    const sent = await arrivingBody({ json: [`{{${known}}}`, `{{ ${known} }}`, `{{  ${known}}}`] });
    expect(JSON.parse(sent)).toEqual(['v', 'v', 'v']);
  });

  test('a body that is not the JSON it says to be is refused without a word of it', async () => {
    const body = `{"number":"4242424242424242" "x":"{{ ${id} }}"}`;
    const problem = await refusalOf(() => forward('/proxy', typed('application/json', body)), ['4242424242424242']);
    expect(problem.errors).toEqual({ body: [expect.stringMatching(/^must be valid JSON: see line \d+, column \d+$/)] });
  });

  test('JSON that opens no expression passes, valid or not', async () => {
    for (const body of ['{"a":}', '{', '{"a":{"b":{}}}', '{"a":"{ {"}', ''])
      expect((await arriving('/proxy', typed('application/json', body))).body.toString()).toBe(body);
  });

  test('JSON that is nested too deep is refused where it has expressions', async () => {
    const deep = `${'['.repeat(100_000)}"{{ ${id} }}"${']'.repeat(100_000)}`;
    expect(await refusalOf(() => forward('/proxy', typed('application/json', deep)))).toMatchObject({ status: 400 });
  });
});

describe('where no expression is looked for', () => {
  test('host, method, destination, the key of a proxy, and headers that are not forwarded', async () => {
    const id = await tokenOf('upstream.test');
    const proxy = await makeProxy(fixture);
    const keyToken = await tokenOf(proxy.key);
    const { port } = new URL(fixture.url);
    const urls = [`https://{{${id}}}:${port}`, `https://{{ ${id} }}/`, `https://upstream.test:{{${id}}}/`, `{{${id}}}`];
    for (const url of urls) {
      const problem = await refusalOf(() => forward('/proxy', { headers: { 'svc-proxy-url': url } }));
      expect([problem.status, Object.keys(problem.errors)], url).toEqual([400, ['SVC-PROXY-URL']]);
    }
    expect(await refusalOf(() => forward('/proxy', { headers: { 'svc-proxy-key': `{{${keyToken}}}` } }))).toMatchObject(
      { status: 404 },
    );
    expect(await refusalOf(() => forward(`/proxy?svc-proxy-key={{${keyToken}}}`))).toMatchObject({ status: 404 });

    const used = await usesOf(fixture.server, id, keyToken);
    const answer = await fixture.ask(
      fixture.head(
        'GET /proxy',
        `Host: {{${UNKNOWN}}}`,
        `SVC-TRACE-ID: {{${UNKNOWN}}}`,
        'Connection: x-own',
        `X-Own: {{${UNKNOWN}}}`,
        `Proxy-Authorization: {{${UNKNOWN}}}`,
      ),
    );
    expect(statusOf(answer)).toBe(200);
    expect(valuesOf(fixture.last(), 'host')).toEqual([new URL(fixture.url).host]);
    expect(used).toEqual([]);
    const method = await nothingReaches(fixture, () => fixture.ask(fixture.head(`{{${id}}} /proxy`)));
    expect(statusOf(method)).toBe(400);
  });

  test('the path and query of a destination with a path and query of its own', async () => {
    const base = `${fixture.url}/base/%7B%7B${UNKNOWN}%7D%7D?a=%7B%7B${UNKNOWN}%7D%7D`;
    const message = await arriving('/proxy/x?b=1', { headers: { 'svc-proxy-url': base } });
    expect(targetOf(message)).toBe(`/base/%7B%7B${UNKNOWN}%7D%7D/x?a=%7B%7B${UNKNOWN}%7D%7D&b=1`);
  });
});

describe('tokens out of reach', () => {
  test('unknown and deleted ones are named, and nothing of the others is sent or logged', async () => {
    const [good, gone] = [await tokenOf('the-value'), await tokenOf('gone')];
    expect((await fixture.server.request('DELETE', `/tokens/${gone}`)).status).toBe(204);
    for (const each of places) {
      const [path, options] = each.with(`{{${good}}} {{${gone}}} {{${UNKNOWN}}}`);
      const problem = await refusalOf(() => forward(path, options), ['the-value']);
      expect(problem, each.where).toEqual({
        title: 'Invalid proxy request',
        status: 400,
        detail: `Failed to detokenize some tokens: ${gone}, ${UNKNOWN}`,
        errors: {},
      });
    }
    expect(await usesOf(fixture.server, good, gone)).toEqual([]);
  });

  test('expired ones are as good as gone', async () => {
    const { clock } = fixture.server;
    const id = await tokenOf('the-value', { expires_at: new Date(Date.now() + 3_600_000).toISOString() });
    await arriving('/proxy', { json: `{{${id}}}` });
    clock.offsetMs += 3_600_001;
    try {
      const problem = await refusalOf(() => forward('/proxy', { json: `{{${id}}}` }), ['the-value']);
      expect(problem.detail).toBe(`Failed to detokenize some tokens: ${id}`);
    } finally {
      clock.offsetMs -= 3_600_001;
    }
  });

  test('a security code that is out of time is not in the card any more', async () => {
    const { clock, ctx } = fixture.server;
    const id = await tokenOf(CARD, { type: 'card' });
    expect(JSON.parse(await arrivingBody({ json: `{{${id}}}` }))).toEqual(CARD);
    clock.offsetMs += ctx.config.cvcTtlMs;
    try {
      const { cvc: _, ...rest } = CARD;
      const sent = await arrivingBody({ json: { card: `{{${id}}}`, cvc: `{{${id} | json: '$.cvc' | default: nil}}` } });
      expect(JSON.parse(sent)).toEqual({ card: rest, cvc: null });
      const { errors } = await refusalOf(() => forward('/proxy', { json: { cvc: `{{${id} | json: '$.cvc'}}` } }));
      expect(errors).toEqual({
        'body.cvc': [
          'The token has no security code, or it has expired: `| default: nil` gives null in its place. CVC_TTL of the server says how long codes are kept.',
        ],
      });
    } finally {
      clock.offsetMs -= ctx.config.cvcTtlMs;
    }
  });

  test('without token:use on the container of one of them it is 403, and nothing is sent', async () => {
    const { server } = fixture;
    const [low, high] = [
      await tokenOf('the-low', { containers: ['/general/low/'] }),
      await tokenOf('the-high', { containers: ['/general/high/'] }),
    ];
    const rules = [
      { description: 'low', priority: 1, container: '/general/low/', transform: 'reveal', permissions: ['token:use'] },
    ];
    const narrow = await server.newKey(server.tenant, { rules });
    const reader = await server.newKey(server.tenant, { permissions: ['token:read'] });
    const one = { json: [`{{${low}}}`], key: narrow.api_key };
    expect(await arrivingBody(one)).toBe('["the-low"]');
    for (const each of places) {
      const [path, options] = each.with(`{{${low}}} {{${high}}}`);
      for (const { api_key } of [narrow, reader]) {
        const problem = await refusalOf(() => forward(path, { ...options, key: api_key }), ['the-low', 'the-high']);
        expect(problem.status, each.where).toBe(403);
        expect(problem.detail).toContain('token:use');
      }
    }
    expect(await usesOf(server, high)).toEqual([]);
  });

  test("another tenant's are unknown in every place, to the byte, and are not in its log", async () => {
    const { server } = fixture;
    const other = await server.newTenant();
    const theirs = await tokenOn(server, 'the-value', {}, other.api_key);
    const logOf = () => server.sql('SELECT id FROM audit_log WHERE tenant_id = $1 ORDER BY id', [other.tenant_id]);
    const before = await logOf();
    for (const each of places) {
      const textOf = async (id: string): Promise<string> => {
        const [path, options] = each.with(`{{${id}}}`);
        const headers = { ...options.headers, 'svc-trace-id': 'trace' };
        const answer = await nothingReaches(fixture, () => forward(path, { ...options, headers }));
        expect(answer.status).toBe(400);
        return answer.text.replaceAll(id, 'ID');
      };
      expect(await textOf(theirs), each.where).toBe(await textOf(UNKNOWN));
    }
    expect(await logOf()).toEqual(before);
    expect(await usesOf(server, theirs)).toEqual([]);
  });

  test('while the log cannot be written nothing leaves, from any place', async () => {
    const id = await tokenOf('the-value');
    await withoutLog(fixture.server, async () => {
      for (const each of places) {
        const [path, options] = each.with(`{{${id}}}`);
        const problem = await refusalOf(() => forward(path, options), ['the-value']);
        expect(problem.status, each.where).toBe(503);
      }
    });
    await arriving('/proxy', { json: `{{${id}}}` });
  });
});

describe('how many', () => {
  const ids: string[] = [];
  beforeAll(async () => {
    const answer = await fixture.server.tokenize(Array.from({ length: 101 }, (_, index) => `v${index}`));
    expect(answer.status).toBe(200);
    ids.push(...(answer.body as string[]));
  });
  const all = (count: number): string[] => ids.slice(0, count).map((id) => `{{${id}}}`);

  test('100 tokens in one request pass, 101 do not', async () => {
    expect(JSON.parse(await arrivingBody({ json: all(100) }))).toEqual(ids.slice(0, 100).map((_, at) => `v${at}`));
    const problem = await refusalOf(() => forward('/proxy', { json: all(101) }));
    expect(problem).toMatchObject({ status: 400, errors: { 'body[100]': ['must refer to at most 100 tokens'] } });
  });

  test('the places of a request count together', async () => {
    const [first, second, third, ...rest] = all(101);
    const path = `/proxy/${first}?q=${second}`;
    const headers = { 'x-value': third as string };
    expect(await refusalOf(() => forward(path, { headers, json: rest }))).toMatchObject({ status: 400 });
    await arriving(path, { headers, json: rest.slice(1) });
  });

  test('1,000 expressions of one token pass, 1,001 do not', async () => {
    const one = all(1)[0] as string;
    expect(await arrivingBody(typed('text/plain', one.repeat(1000)))).toBe('v0'.repeat(1000));
    for (const options of [typed('text/plain', one.repeat(1001)), { json: Array.from({ length: 1001 }, () => one) }])
      expect(await refusalOf(() => forward('/proxy', options))).toMatchObject({ status: 400 });
  });

  test('1,000 expressions of 1 MB each are refused before there is memory for them', async () => {
    const id = await tokenOf('large-value'.repeat(90_000));
    // It would be a gigabyte.
    const memory = watchMemory({ megabytes: 200 });
    for (const type of ['text/plain', 'application/xml', 'application/x-www-form-urlencoded']) {
      const body = `a=${`{{${id}}}`.repeat(1000)}`;
      const problem = await refusalOf(() => forward('/proxy', typed(type, body)), ['large-value']);
      expect(problem.status, type).toBe(413);
    }
    const json = Array.from({ length: 1000 }, () => `{{${id}}}`);
    expect((await refusalOf(() => forward('/proxy', { json }), ['large-value'])).status).toBe(413);
    // As it is written, not as it is stored.
    const escaped = await tokenOf('"'.repeat(400_000));
    for (const type of ['application/xml', 'application/x-www-form-urlencoded'])
      expect((await refusalOf(() => forward('/proxy', typed(type, `a=${`{{${escaped}}}`.repeat(10)}`)))).status).toBe(
        413,
      );
    memory.end();
  });

  test('10 MB of braces are refused, or pass where they open nothing', async () => {
    const megabytes = 10 * 1024 * 1024;
    const types = [
      'application/json',
      'application/x-www-form-urlencoded',
      'application/xml',
      'text/plain',
      multipartType,
    ];
    for (const type of types)
      expect((await refusalOf(() => forward('/proxy', typed(type, '{'.repeat(megabytes))))).status, type).toBe(400);
    const single = '{ '.repeat(megabytes / 2);
    for (const type of types) {
      const { body } = await arriving('/proxy', typed(type, single));
      expect(body.equals(Buffer.from(single)), type).toBe(true);
    }
  });
});

describe('who may put values in', () => {
  const withKey = (key: string): RequestOptions => ({ key: null, headers: { 'svc-proxy-key': key } });

  test('with the key of a proxy that asks for an API key it is 401 without one', async () => {
    const { key } = await makeProxy(fixture, { require_auth: true });
    expect(await refusalOf(() => forward('/proxy', withKey(key)))).toMatchObject({ status: 401 });
  });

  test('without an API key and without an application, any expression is 403', async () => {
    const id = await tokenOf('the-value');
    const { key } = await makeProxy(fixture, { require_auth: false });
    await arriving('/proxy', { ...withKey(key), body: Buffer.from('no expression') });
    for (const each of places)
      for (const named of [id, UNKNOWN]) {
        const [path, options] = each.with(`{{${named}}}`);
        const headers = { ...options.headers, ...withKey(key).headers };
        const problem = await refusalOf(() => forward(path, { ...options, key: null, headers }), ['the-value']);
        expect(problem.status, each.where).toBe(403);
      }
    expect(await usesOf(fixture.server, id)).toEqual([]);
  });

  test('a proxy that is changed to require an API key requires it at the next request', async () => {
    const { id, key } = await makeProxy(fixture, { require_auth: false });
    await arriving('/proxy', withKey(key));
    const running = await fixture.connect();
    running.send(`POST /proxy HTTP/1.1\r\nHost: x\r\nSVC-PROXY-KEY: ${key}\r\nContent-Length: 4\r\n\r\n`);
    const changed = await fixture.server.request('PUT', `/proxies/${id}`, {
      json: { name: 'Proxy', destination_url: fixture.url, require_auth: true },
    });
    expect(changed.status, changed.text).toBe(200);
    expect(await refusalOf(() => forward('/proxy', withKey(key)))).toMatchObject({ status: 401 });
    // It was let in before.
    running.send('late');
    expect(statusOf(await running.message())).toBe(200);
    running.socket.destroy();
  });

  test('the keys of two proxies in one request are 400', async () => {
    const [one, two] = [await makeProxy(fixture), await makeProxy(fixture)];
    const headers = { 'svc-proxy-key': one.key };
    const problem = await refusalOf(() => forward(`/proxy?svc-proxy-key=${two.key}`, { headers }));
    expect([problem.status, Object.keys(problem.errors)]).toEqual([400, ['SVC-PROXY-KEY']]);
  });
});

test('errors of the proxy read from the wire have its frame and its place', async () => {
  const answer = await nothingReaches(fixture, () => fixture.ask(fixture.head('GET /proxy/{{')));
  expect(proxyErrorIn(answer)).toMatchObject({ status: 400, errors: { path: ['must close every {{ with }}'] } });
});
