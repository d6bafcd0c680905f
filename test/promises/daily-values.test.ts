// With a daily limit of n, all answers to an application, and what its changes let others see, hold at most n distinct values.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeReactor, react, type ReactorServer, startReactorServer, tokenOf } from '../support/reactors.ts';
import type { Answer, TestServer } from '../support/server.ts';

const MOST = 3;
const TOKENS = 9;

let house: ReactorServer;
let server: TestServer;
beforeAll(async () => {
  house = await startReactorServer();
  server = house.server;
});
afterAll(() => house.close());

/** Routes that read, search, use or change tokens, and what shows a value by them. Others show none. */
const ROUTES: Record<string, string> = {
  'GET /tokens': 'list',
  'GET /tokens/:id': 'read',
  'PATCH /tokens/:id': 'changes',
  'POST /tokens/search': 'search',
  'POST /detokenize': 'expressions',
  'GET /tokens/:parent_id/children': 'list of children',
  'POST /tokens/:parent_id/children/:child_id': 'nothing: it links',
  'POST /reactors/:id/react': 'args',
  'ANY /proxy': 'requests',
  'ANY /proxy/*': 'requests',
};
const PERMISSIONS = ['token:read', 'token:search', 'token:update', 'token:use'];

test('each route that reads, searches, uses or changes tokens is tried', () => {
  const found = server.routes.flatMap(({ method, url, config }) => {
    const { permission, forwards, methodGuard } = (config ?? {}) as Record<string, unknown>;
    if (methodGuard || !PERMISSIONS.includes(String(permission))) return [];
    const methods = forwards ? ['ANY'] : [method].flat().filter((each) => each !== 'HEAD');
    return methods.map((each) => `${each} ${url}`);
  });
  expect([...new Set(found)].toSorted()).toEqual(Object.keys(ROUTES).toSorted());
});

/** Numbers from 0 to below `below`, the same in each run. */
const numbersFrom = (seed: number) => {
  let state = seed;
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
};

type Subject = { id: string; secret: string };

const newSubjects = async (seed: number): Promise<Subject[]> => {
  const subjects: Subject[] = [];
  for (let index = 0; index < TOKENS; index += 1) {
    const secret = `SECRET-${seed}-${index}-END`;
    const data = index % 3 === 0 ? secret : { part: secret, other: 'plain' };
    const mask = index % 3 === 0 ? 'masked' : { part: 'masked' };
    subjects.push({ id: await tokenOf(server, data, { mask, metadata: { seed: String(seed) } }), secret });
  }
  const [parent, ...children] = subjects as [Subject, ...Subject[]];
  for (const { id } of children)
    expect((await server.request('POST', `/tokens/${parent.id}/children/${id}`)).status).toBeLessThan(300);
  return subjects;
};

const makeKey = async (json: object): Promise<string> => {
  const made = await server.request('POST', '/applications', { json: { name: 'Limited', ...json } });
  expect(made.status, made.text).toBe(201);
  return made.body.key;
};

const rulesOf = (transform: string, permissions: string[]) => ({
  rules: [{ priority: 1, container: '/', transform, permissions }],
});

type Try = (subject: Subject, next: (below: number) => number) => Promise<Answer>;

const shownIn = (texts: readonly string[], subjects: readonly Subject[]): string[] =>
  subjects.filter(({ secret }) => texts.some((text) => text.includes(secret))).map(({ secret }) => secret);

const patchesOf = (subject: Subject): object[] => [
  { mask: '{{ data }}' },
  { mask: { part: '{{ data.part }}', other: 'x' } },
  { mask: "{{ data | json: '$.part' }}" },
  { mask: null },
  { fingerprint_expression: '{{ data }}' },
  { fingerprint_expression: '{{ data.part }}' },
  { search_indexes: ['{{ data }}'] },
  { search_indexes: ['{{ data.part }}'] },
  { data: { other: 'changed' } },
  { data: { part: null } },
  { mask: '{{ data }}', metadata: { more: subject.id.slice(0, 8) } },
  { metadata: { plain: 'text' } },
];

describe.each([1, 2, 3, 4])('a mixture of all routes, number %d,', (seed) => {
  test('reveals no more values than daily_reveals says, to whomever', async () => {
    const next = numbersFrom(seed);
    const subjects = await newSubjects(seed);
    const key = await makeKey({
      ...rulesOf('reveal', ['token:read', 'token:search', 'token:update']),
      daily_reveals: MOST,
    });
    const masked = await makeKey(rulesOf('mask', ['token:read', 'token:search']));
    const ask = (method: string, path: string, json?: object) =>
      server.request(method, path, { key, ...(json && { json }) });
    const tries: Try[] = [
      ({ id }) => ask('GET', `/tokens/${id}`),
      ({ id }) => ask('GET', `/tokens?id=${id}`),
      () => ask('GET', `/tokens?metadata.seed=${seed}&size=${1 + next(4)}`),
      () => ask('GET', `/tokens/${subjects[0]?.id}/children?size=${1 + next(3)}`),
      ({ id }) => ask('POST', '/tokens/search', { query: `id:${id}` }),
      ({ secret }) => ask('POST', '/tokens/search', { query: `data:${JSON.stringify(secret)}` }),
      ({ id }) => ask('POST', '/detokenize', { a: `{{ ${id} }}`, b: `{{ ${id} | json: '$.part' }}` }),
      ({ id }) => ask('POST', '/detokenize', { a: `{{ ${id} }}` }),
    ];
    const change: Try = (subject) => {
      const patches = patchesOf(subject);
      return ask('PATCH', `/tokens/${subject.id}`, patches[next(patches.length)]);
    };
    const texts: string[] = [];
    let refused = 0;
    for (let step = 0; step < 80; step += 1) {
      const subject = subjects[next(subjects.length)] as Subject;
      const attempt = next(2) === 0 ? change : (tries[next(tries.length)] as Try);
      const answer = await attempt(subject, next);
      expect([200, 400, 403, 429], answer.text).toContain(answer.status);
      if (answer.status === 429) refused += 1;
      texts.push(answer.text);
    }
    // What later readers see who have the masks alone.
    for (const { id } of subjects) texts.push((await server.request('GET', `/tokens/${id}`, { key: masked })).text);
    expect(shownIn(texts, subjects).length).toBeLessThanOrEqual(MOST);
    expect(refused).toBeGreaterThan(0);
    const ids = subjects.map(({ id }) => id);
    const shown = subjects.filter(({ secret }) => texts.some((text) => text.includes(secret)));
    for (const { id } of shown) {
      const rows = await server.sql("SELECT id FROM audit_log WHERE entity_ids @> $1 AND disclosure = 'revealed'", [
        [id],
      ]);
      expect(rows.length).toBeGreaterThan(0);
    }
    const revealed = await server.sql(
      "SELECT DISTINCT unnest(entity_ids) AS id FROM audit_log WHERE entity_ids && $1 AND disclosure = 'revealed'",
      [ids],
    );
    expect(revealed.length).toBeLessThanOrEqual(MOST);
  });

  test('uses no more values than daily_uses says, in code and in requests', async () => {
    const next = numbersFrom(seed + 100);
    const subjects = await newSubjects(seed + 100);
    const key = await makeKey({ permissions: ['token:use'], daily_uses: MOST, daily_reveals: 0 });
    const { id: reactor } = await makeReactor(server, "return { raw: JSON.stringify(args).split('').join('') };");
    const run = (args: object) => react(server, reactor, args, { key });
    const forward = (path: string, body: string, headers: Record<string, string> = {}) =>
      server.request('POST', `/proxy/used${path}`, {
        key,
        headers: { 'svc-proxy-url': house.url, 'content-type': 'text/plain', ...headers },
        body,
      });
    const tries: Try[] = [
      ({ id }) => run({ value: `{{ ${id} }}` }),
      ({ id }) => run({ value: `{{ ${id} | json: '$.part' }}` }),
      ({ id }) => forward('', `{{ ${id} }}`),
      ({ id }) => forward('', 'x', { 'x-value': `{{ ${id} | json: '$.part' }}` }),
      ({ id }) => forward('', `{{ ${id} }}{{ ${subjects[next(subjects.length)]?.id} }}`),
    ];
    const texts: string[] = [];
    let refused = 0;
    for (let step = 0; step < 30; step += 1) {
      const attempt = tries[next(tries.length)] as Try;
      const answer = await attempt(subjects[next(subjects.length)] as Subject, next);
      if (answer.status === 429) refused += 1;
      texts.push(answer.text);
    }
    expect(shownIn(texts, subjects).length).toBeGreaterThan(0);
    expect(shownIn(texts, subjects).length).toBeLessThanOrEqual(MOST);
    expect(refused).toBeGreaterThan(0);
  });
});

test('a change that shows a value counts before it is tried, also where it then fails', async () => {
  const key = await makeKey({ ...rulesOf('reveal', ['token:read', 'token:update']), daily_reveals: 1 });
  const [one, two] = [await tokenOf(server, 'first'), await tokenOf(server, 'second')];
  const patch = (id: string, json: object) => server.request('PATCH', `/tokens/${id}`, { key, json });
  expect((await patch(one, { mask: '{{ data | nothing }}' })).status).toBe(400);
  expect((await server.request('GET', `/tokens/${two}`, { key })).status).toBe(429);
  expect((await patch(two, { mask: '{{ data }}' })).status).toBe(429);
  expect((await patch(two, { metadata: { a: 'b' } })).status).toBe(200);
  expect((await patch(one, { mask: '{{ data }}' })).body.data).toBe('first');
});
