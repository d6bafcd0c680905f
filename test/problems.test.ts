// Problems of every operation: codes for programs, a path for each error, and the place of a syntax error.
import { beforeAll, describe, expect, test } from 'vitest';
import { examplesOf, nameOf, operations, PARENT_ID, UNKNOWN_ID } from './support/operations.ts';
import { checkProblem } from './support/problem.ts';
import { type SharedServer, useServer } from './support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
  await server.request('POST', '/tokens', { json: { id: PARENT_ID, data: 'x' } });
});

const post = (path: string, body: string) =>
  server.request('POST', path, { headers: { 'content-type': 'application/json' }, body });

describe('a body that is no object', () => {
  const withBodies = operations
    .filter(({ method }) => method !== 'GET')
    .map((operation) => ({
      ...operation,
      path: operation.path.replace(`/tokens/${UNKNOWN_ID}`, `/tokens/${PARENT_ID}`),
    }));

  test.each(withBodies.filter(({ method }) => method !== 'DELETE').map((each) => [nameOf(each), each] as const))(
    'of %s has an error with a path and a code',
    async (_name, operation) => {
      const { type } = examplesOf(operation);
      let refused = 0;
      for (const body of ['7', '"text"', '[1]', 'null', '[', ''])
        for (const { status, body: problem } of [
          await server.request(operation.method, operation.path, { headers: { 'content-type': type }, body }),
        ]) {
          if (status < 400) continue;
          refused += 1;
          checkProblem(problem);
        }
      // Anything can be tokenized, but what is not JSON.
      expect(refused).toBeGreaterThan(0);
    },
  );

  test('is named body', async () => {
    for (const body of ['7', '"text"', '[1]', 'null'])
      expect((await post('/tokens', body)).body, body).toMatchObject({
        code: 'invalid_input',
        errors: { body: ['the body must be an object with `data`'] },
        codes: { body: ['wrong_type'] },
      });
    const nothing = await server.request('POST', '/detokenize');
    expect(nothing.body).toMatchObject({ errors: { body: ['a JSON body is needed'] }, codes: { body: ['required'] } });
  });
});

test.each([
  ['{"a": 1,\n "b": tru}', 'line 2, column 7'],
  ['{"a": 1,}', 'line 1, column 9'],
  ['[1 2]', 'line 1, column 4'],
  ['{"a"\r\n:\r\n"never shown\n"}', 'line 3, column 13'],
  ['["\\q"]', 'line 1, column 3'],
  ['{"a": "broken', 'line 1, column 14'],
  ['[1]]', 'line 1, column 4'],
])('the syntax error of %j is found at its %s', async (body, place) => {
  const answer = await post('/tokenize', body);
  expect(answer.body.errors).toEqual({ body: [`the body must be valid JSON in UTF-8: see ${place}`] });
  expect(answer.body.codes).toEqual({ body: ['not_json'] });
  expect(answer.text).not.toContain('never shown');
});

test('bytes that are no UTF-8 have no place', async () => {
  const answer = await server.request('POST', '/tokenize', {
    headers: { 'content-type': 'application/json' },
    body: new Uint8Array([0x22, 0xff, 0x22]),
  });
  expect(answer.body.errors).toEqual({ body: ['the body must be valid JSON in UTF-8'] });
});

describe('codes tell causes apart', () => {
  test.each<[what: string, json: unknown, codes: Record<string, string[]>]>([
    [
      'a number without its check digit',
      { type: 'card', data: { number: '4242424242424241' } },
      { 'data.number': ['check_digit'] },
    ],
    [
      'a month',
      { type: 'card', data: { number: '4242424242424242', expiration_month: 13 } },
      { 'data.expiration_month': ['too_large'] },
    ],
    ['a missing value', { type: 'card', data: {} }, { 'data.number': ['required'] }],
    ['a type', { type: 'cart', data: 'x' }, { type: ['not_allowed'] }],
    ['a name', { data: 'x', contianers: [] }, { contianers: ['unknown_name'] }],
    ['an unsupported name', { data: 'x', encryption: {} }, { encryption: ['not_supported'] }],
    ['an end', { data: 'x', expires_at: '2020-01-01T00:00:00Z' }, { expires_at: ['in_the_past'] }],
    ['an expression', { data: 'x', mask: '{{ data | no_filter }}' }, { mask: ['bad_expression'] }],
    ['a text', { data: 'x', metadata: { a: '\u0000' } }, { 'metadata.a': ['not_storable'] }],
  ])('%s', async (_what, json, codes) => {
    const { body } = await server.request('POST', '/tokens', { json });
    expect([body.code, body.codes]).toEqual(['invalid_input', codes]);
  });

  test('a chosen id the second time, a permission, a key in another header', async () => {
    const codeOf = async (...sent: Parameters<SharedServer['request']>) => (await server.request(...sent)).body.code;
    const again = { json: { id: PARENT_ID, data: 'x' } };
    expect(await codeOf('POST', '/tokens', again)).toBe('already_exists');
    const { api_key } = await server.newKey(server.tenant, { permissions: ['token:create'] });
    expect(await codeOf('GET', '/tokens', { key: api_key })).toBe('permission_missing');
    const headers = { authorization: `Bearer ${api_key}` };
    expect(await codeOf('GET', '/tokens', { key: null, headers })).toBe('misplaced_key');
    expect(await codeOf('GET', '/tokens', { key: null })).toBe('unauthorized');
    expect(await codeOf('GET', '/tokens', { key: 'svc_test_malformed' })).toBe('unauthorized');
  });
});
