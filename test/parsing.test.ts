// No request blocks the event loop: bodies are parsed in linear time.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { JSON_SLICE_CHARACTERS } from '../src/platform/json/json-parser.ts';
import { startServer, type TestServer } from './support/server.ts';

let server: TestServer;
/** Large enough for many slices. */
const BODY_BYTES_MAX = 4 * 1024 * 1024;

beforeAll(async () => {
  server = await startServer({ BODY_BYTES_MAX: String(BODY_BYTES_MAX) });
});
afterAll(() => server.close());

/** As deep as 400 characters can nest it. A parser that goes back would need longer than the universe is old. */
const deepPaths = [
  `$[?${'length('.repeat(55)}@.a`,
  `$[?${'count('.repeat(60)}@`,
  `$[?${'('.repeat(390)}@`,
  `$${'[?@'.repeat(130)}`,
];

test('a name in place of a path of the filter json is told the path', async () => {
  const { id } = (await server.tokenize({ type: 'token', data: { number: '1' } })).body;
  for (const name of ['number', 'a.number']) {
    const answer = await server.request('POST', '/detokenize', { json: { a: `{{ ${id} | json: '${name}' }}` } });
    expect([answer.status, answer.body.errors]).toEqual([
      400,
      { a: [`must give the filter json a valid JSONPath (RFC 9535), such as \`$.${name}\``] },
    ]);
  }
});

describe('a path of the filter json is parsed in linear time, however it nests', () => {
  test.each(deepPaths)('in a mask: %s', async (path) => {
    expect(path.length).toBeLessThanOrEqual(400);
    const answer = await server.tokenize({ type: 'token', data: 'v', mask: `{{ data | json: '${path}' }}` });
    expect(answer.status).toBe(400);
    expect(answer.body.errors).toEqual({ mask: ['must give the filter json a valid JSONPath (RFC 9535)'] });
  });

  test.each(deepPaths)('in an expression of a request: %s', async (path) => {
    const id = (await server.tokenize('value')).body as string;
    const answer = await server.request('POST', '/detokenize', { json: { a: `{{ ${id} | json: '${path}' }}` } });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain('must give the filter json a valid JSONPath (RFC 9535)');
  });
});

/** Turns of the server's event loop from the last byte of a request to its answer. */
const turnsOf = async (ask: () => ReturnType<TestServer['request']>) => {
  let turns = 0;
  let isAnswered = false;
  server.app.server.once('request', (request: IncomingMessage, response: ServerResponse) => {
    const countTurn = (): void => {
      turns += 1;
      if (!isAnswered) setImmediate(countTurn);
    };
    request.once('end', countTurn);
    response.once('finish', () => (isAnswered = true));
  });
  const answer = await ask();
  return { turns, status: answer.status, errors: (answer.body?.proxy_error ?? answer.body)?.errors as unknown };
};

/** A turn does as many slices as end within a millisecond: on a fast machine several. */
const SLICES_OF_TURN_MAX = 10;

const leastTurns = (body: string): number =>
  Math.floor(body.length / (JSON_SLICE_CHARACTERS + 100) / SLICES_OF_TURN_MAX);

const turnsToAnswer = (body: string) =>
  turnsOf(() => server.request('POST', '/tokenize', { headers: { 'content-type': 'application/json' }, body }));

describe('a large body is parsed in slices, with turns of the event loop between them', () => {
  const brokenAt = (column: number) => `the body must be valid JSON in UTF-8: see line 1, column ${column}`;
  const items = '1,'.repeat(BODY_BYTES_MAX / 2 - 10);
  test.each([
    ['no JSON at its end', `[${items}`, { body: [brokenAt(items.length + 2)] }],
    ['one key twice at its end', `{"a":[${items}0],"a":1}`, { a: ['must not be there twice in one object'] }],
    [
      'a number that a double does not hold at its end',
      `[${items}1e400]`,
      { [`[${items.length / 2}]`]: ['must be a number that a double holds exactly, or a string'] },
    ],
    ['nesting', '['.repeat(BODY_BYTES_MAX - 10), { body: [brokenAt(BODY_BYTES_MAX - 9)] }],
  ])('%s', async (_, body, errors) => {
    const answer = await turnsToAnswer(body);
    expect(answer).toMatchObject({ status: 400, errors });
    expect(answer.turns).toBeGreaterThanOrEqual(leastTurns(body));
  });

  test('a small one is parsed in the turn in which it came', async () => {
    expect((await turnsToAnswer('{"a":1,"a":2}')).turns).toBeLessThan(10);
  });
});

describe('the body of a forwarded request', () => {
  const destination = 'https://example.com';
  const objects = '{"a":{}},'.repeat(200_000);
  const turnsForwarding = (type: string, body: string, proxyKey?: string) =>
    turnsOf(() =>
      server.request('POST', '/proxy', {
        ...(proxyKey && { key: null }),
        headers: {
          'content-type': type,
          ...(proxyKey ? { 'svc-proxy-key': proxyKey } : { 'svc-proxy-url': destination }),
        },
        body,
      }),
    );
  const openProxy = async (): Promise<string> => {
    const json = { name: 'open', destination_url: destination, require_auth: false };
    return (await server.request('POST', '/proxies', { json })).body.key;
  };

  test.each([
    ['application/json', (body: string) => body],
    [
      'multipart/form-data; boundary=b',
      (body: string) => `--b\r\ncontent-type: application/json\r\n\r\n${body}\r\n--b--`,
    ],
  ])('is parsed in slices: %s', async (type, wrap) => {
    const body = wrap(`["{{ id }}",${objects}`);
    const answer = await turnsForwarding(type, body);
    expect(answer.status).toBe(400);
    expect(answer.turns).toBeGreaterThanOrEqual(leastTurns(body));
  });

  test.each([
    ['application/x-www-form-urlencoded', 'a=b&'.repeat(500_000), 'x={{ id }}'],
    ['application/xml', '<b c="d">e</b>'.repeat(150_000), '{{ id }}'],
    ['text/csv', '"a","b"\n'.repeat(250_000), '{{ id }}'],
    ['application/yaml', 'a: "b"\n'.repeat(250_000), 'x: {{ id }}'],
    ['application/graphql', '{ a(b: "c") }\n'.repeat(150_000), '{ x(y: "{{ id }}") }'],
  ])('is followed in slices: %s', async (type, before, last) => {
    const body = before + last;
    const answer = await turnsForwarding(type, body);
    expect(answer).toMatchObject({ status: 400 });
    expect(answer.turns).toBeGreaterThanOrEqual(leastTurns(body));
  });

  test('that no token may be used for is refused at the first that it refers to', async () => {
    const answer = await turnsForwarding('application/json', `["{{ id }}",${objects}1]`, await openProxy());
    expect(answer.status).toBe(403);
    expect(answer.turns).toBeLessThan(20);
  });

  test('that is nested too deep is refused before it is parsed, with any content type', async () => {
    const body = `["{{ id }}",${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}]`;
    const answer = await turnsForwarding('text/plain', body);
    expect(answer).toMatchObject({ status: 400, errors: { body: ['must not be nested deeper than 64 levels'] } });
    expect(answer.turns).toBeLessThan(20);
  });
});
