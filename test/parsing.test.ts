// No request holds the event loop: what it brings is parsed in linear time.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { JSON_SLICE_CHARACTERS } from '../src/vault/json-parser.ts';
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
const turnsToAnswer = async (body: string): Promise<{ turns: number; status: number; errors: unknown }> => {
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
  const headers = { 'content-type': 'application/json' };
  const answer = await server.request('POST', '/tokenize', { headers, body });
  return { turns, status: answer.status, errors: answer.body?.errors };
};

describe('a large body is parsed in slices, with turns of the event loop between them', () => {
  const items = '1,'.repeat(BODY_BYTES_MAX / 2 - 10);
  test.each([
    ['no JSON at its end', `[${items}`, { '': ['the body must be valid JSON in UTF-8'] }],
    ['one key twice at its end', `{"a":[${items}0],"a":1}`, { a: ['must not be there twice in one object'] }],
    [
      'a number that a double does not hold at its end',
      `[${items}1e400]`,
      { [`[${items.length / 2}]`]: ['must be a number that a double holds exactly, or a string'] },
    ],
    ['nesting', '['.repeat(BODY_BYTES_MAX - 10), { '': ['the body must be valid JSON in UTF-8'] }],
  ])('%s', async (_, body, errors) => {
    const answer = await turnsToAnswer(body);
    expect(answer).toMatchObject({ status: 400, errors });
    expect(answer.turns).toBeGreaterThanOrEqual(Math.floor(body.length / (JSON_SLICE_CHARACTERS + 100)));
  });

  test('a small one is parsed in the turn in which it came', async () => {
    expect((await turnsToAnswer('{"a":1,"a":2}')).turns).toBeLessThan(10);
  });
});
