// No request holds the event loop: what it brings is parsed in linear time.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startServer, type TestServer } from './support/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
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
