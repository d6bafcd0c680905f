// Random access rules and changes: none lets its caller see or use more of a token than before.
import * as fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { codeOf, makeReactor } from '../support/reactors.ts';
import { type SharedServer, type TestTenant, useServer } from '../support/server.ts';

let server: SharedServer;
let tenant: TestTenant;

beforeAll(async () => {
  server = await useServer();
  tenant = await server.newTenant();
});

type Transform = 'redact' | 'mask' | 'reveal';
type Permission = 'token:create' | 'token:read' | 'token:update' | 'token:search' | 'token:use';

const create = async (request: object, key: TestTenant = tenant) => {
  const answer = await server.request('POST', '/tokens', { json: request, key: key.api_key });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const patch = (id: string, key: TestTenant, body: object) =>
  server.request('PATCH', `/tokens/${id}`, {
    key: key.api_key,
    headers: { 'content-type': 'application/merge-patch+json' },
    body: JSON.stringify(body),
  });

const ALL: Permission[] = ['token:read', 'token:search', 'token:use', 'token:update'];
const containers = ['/a/', '/a/deep/', '/b/'];

/** Marks of the value that are in what a caller can get of the token: by reading, by searching, and by code. */
const marksOf = async (id: string, key: TestTenant, reactorId: string): Promise<Set<string>> => {
  const read = await server.request('GET', `/tokens/${id}`, { key: key.api_key });
  const query = { query: `id:${id}` };
  const search = await server.request('POST', '/tokens/search', { key: key.api_key, json: query });
  const use = await server.request('POST', `/reactors/${reactorId}/react`, {
    key: key.api_key,
    json: { args: { value: `{{ ${id} }}` } },
  });
  const marks = new Set<string>();
  for (const [way, { text }] of Object.entries({ read, search, use }))
    for (const mark of ['SECRET-ONE', 'SECRET-TWO', 'note-in-the-clear'])
      if (text.includes(mark)) marks.add(`${way} ${mark}`);
  return marks;
};

test('a change lets its caller neither see nor use more of the token than before', async () => {
  const reactor = await makeReactor(server, {
    code: codeOf('return { raw: args.value ?? null };'),
    key: tenant.api_key,
  });
  const rules = fc.array(
    fc.record({
      container: fc.constantFrom('/', ...containers),
      transform: fc.constantFrom<Transform>('redact', 'mask', 'reveal'),
      permissions: fc.uniqueArray(fc.constantFrom<Permission>(...ALL), { minLength: 1 }),
    }),
    { maxLength: 4 },
  );
  const change = fc.oneof(
    fc.record({ containers: fc.constantFrom(...containers).map((container) => [container]) }),
    fc.record({ mask: fc.constantFrom(null, { one: '{{ data.one }}' }, '{{ data | stringify }}') }),
    fc.record({ search_indexes: fc.constant(['{{ data.one }}']), containers: fc.constant(['/b/']) }),
    fc.record({ fingerprint_expression: fc.constant('{{ data.one }}') }),
  );
  let changes = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...containers),
      fc.boolean(),
      fc.uniqueArray(fc.constantFrom<Permission>(...ALL)),
      rules,
      change,
      async (container, hasMask, permissions, given, body) => {
        const { id } = await create({
          data: { one: 'SECRET-ONE', two: 'SECRET-TWO' },
          ...(hasMask && { mask: { two: 'hidden' } }),
          metadata: { note: 'note-in-the-clear' },
          containers: [container],
        });
        const key = await server.newKey(tenant, {
          permissions: ['token:update', ...permissions],
          rules: given.map((each, index) => ({ ...each, priority: index + 1 })),
        });
        const before = await marksOf(id, key, reactor.id);
        const { status, text } = await patch(id, key, body);
        expect([200, 403], text).toContain(status);
        if (status === 200) changes += 1;
        const after = await marksOf(id, key, reactor.id);
        // A caller that saw the value may see it in other ways too; no caller gets to use a value that it could not use.
        const sawValue = before.has('read SECRET-ONE') || before.has('search SECRET-ONE');
        for (const mark of after)
          if (!before.has(mark)) expect([mark, sawValue && !mark.startsWith('use')]).toEqual([mark, true]);
      },
    ),
    { numRuns: 150 },
  );
  // Some are allowed: a server that refuses all would pass.
  expect(changes).toBeGreaterThan(10);
});
