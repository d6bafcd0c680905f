// With a daily limit of n, all answers to an application, and what its changes let others see, hold at most n distinct values. A question
// whether a value is stored is one of them, whatever its answer shows.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeReactor, react, type ReactorServer, startReactorServer, tokenOf } from '../support/reactors.ts';
import type { Answer, TestServer } from '../support/server.ts';
import { withoutDrawn } from '../support/text.ts';

const MOST = 3;
const TOKENS = 9;

let fixture: ReactorServer;
let server: TestServer;
beforeAll(async () => {
  fixture = await startReactorServer();
  server = fixture.server;
});
afterAll(() => fixture.close());

/** Routes that read, search, use or change tokens, and what shows a value by them. Others show none. */
const ROUTES: Record<string, string> = {
  'GET /tokens': 'list',
  'GET /tokens/:id': 'read',
  'GET /tokens/:id/timeline': 'nothing: it shows entries of the log',
  'PATCH /tokens/:id': 'changes',
  'POST /tokens/search': 'search',
  'GET /token-intents/:id': 'the first digits of a card, counted as a read',
  'GET /v2/tokens': 'list by a cursor',
  'POST /v2/tokens/search': 'search by a cursor',
  'POST /detokenize': 'expressions',
  'GET /tokens/:parent_id/children': 'list of children',
  'POST /tokens/:parent_id/children/:child_id': 'nothing: it links',
  'POST /sessions/:session_id/cvc': 'nothing: it takes a security code',
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

type Made = { id: string; key: string };

const makeApplication = async (json: object): Promise<Made> => {
  const made = await server.request('POST', '/applications', { json: { name: 'Limited', ...json } });
  expect(made.status, made.text).toBe(201);
  return made.body;
};

const makeKey = async (json: object): Promise<string> => (await makeApplication(json)).key;

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
      ({ id }) => ask('GET', `/v2/tokens?id=${id}&container=/general/high/`),
      ({ id }) => ask('GET', `/v2/tokens?fingerprint=${id}`),
      ({ id }) => ask('POST', '/v2/tokens/search', { query: `id:${id}` }),
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
        headers: { 'svc-proxy-url': fixture.url, 'content-type': 'text/plain', ...headers },
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

describe('a search about values', () => {
  const VALUE = 'ASKED-FOR-4711';
  let id = '';
  let fingerprint = '';
  beforeAll(async () => {
    id = await tokenOf(server, VALUE, { search_indexes: ['{{ data }}'] });
    ({ fingerprint } = (await server.request('GET', `/tokens/${id}`)).body);
  });

  /** Queries that ask for one value, by the guess. */
  const questions = (): Record<string, (isRight: boolean) => string> => {
    const data = (isRight: boolean) => `data:"${isRight ? VALUE : 'OTHER-4711'}"`;
    const print = (isRight: boolean) => `fingerprint:"${isRight ? fingerprint : 'x'}"`;
    return {
      'a value': data,
      'a fingerprint': print,
      'a negation': (isRight) => `id:"${id}" AND NOT ${data(isRight)}`,
      'a term below others': (isRight) =>
        `type:token AND (metadata.a:b OR (id:x OR NOT (type:bank OR ${data(isRight)})))`,
      'a term beside a token that is known': (isRight) => `id:"${id}" OR ${print(isRight)}`,
    };
  };
  const search = (key: string, query: string, more: object = {}) =>
    server.request('POST', '/tokens/search', { key, json: { query, ...more } });
  /** What was answered. Rows of refusals have a limit of their own. */
  const rowsOf = ({ id: actor_id }: Made) =>
    server.sql(
      "SELECT message, l::text AS text FROM audit_log l WHERE actor_id = $1 AND outcome = 'success' ORDER BY id",
      [actor_id],
    );
  const grants = { revealing: rulesOf('reveal', ['token:search']), plain: { permissions: ['token:search'] } };

  test.each(Object.entries(grants))('tells nothing where no value may be revealed: %s', async (_, grant) => {
    const application = await makeApplication({ ...grant, daily_reveals: 0 });
    for (const [name, query] of Object.entries(questions()))
      for (const isRight of [true, false])
        for (const more of [{}, { page: 2 }, { size: 1, start: 'x' }]) {
          const { status } = await search(application.key, query(isRight), more);
          expect([name, isRight, more, status]).toEqual([name, isRight, more, 429]);
        }
    expect(await rowsOf(application)).toEqual([]);
    expect((await search(application.key, 'type:bank')).status).toBe(200);
  });

  test('counts, and is a row of the log without the value, also where it shows nothing', async () => {
    for (const [name, query] of Object.entries(questions())) {
      const application = await makeApplication({ ...grants.revealing, daily_reveals: 4 });
      const wrong = (page: number) => search(application.key, query(false), { page });
      const right = await search(application.key, query(true), { page: 1_000 });
      expect([name, right.status, right.body.data]).toEqual([name, 200, []]);
      expect(right.headers.get('ratelimit')).toContain('"daily_reveals";r=3;');
      for (const page of [1_000, 1_001, 1_000]) expect([name, (await wrong(page)).status]).toEqual([name, 200]);
      expect([name, (await wrong(1_000)).status]).toEqual([name, 429]);
      expect([name, (await search(application.key, query(true))).status]).toEqual([name, 429]);
      const rows = await rowsOf(application);
      expect(rows.map(({ message }) => message)).toEqual(Array.from({ length: 4 }, () => 'Tokens searched by value'));
      for (const { text } of rows) expect(withoutDrawn(text)).not.toMatch(/4711/);
    }
  });

  test('counts the values of many terms, and the tokens that it shows', async () => {
    const key = await makeKey({ ...grants.plain, daily_reveals: 6 });
    const left = async (query: string) => (await search(key, query)).headers.get('ratelimit');
    expect(await left('data:one OR data:two AND NOT (fingerprint:three OR data:four)')).toContain(
      '"daily_reveals";r=2;',
    );
    expect(await left(`data:"${VALUE}"`)).toContain('"daily_reveals";r=0;');
  });

  test('without such terms counts the tokens that it shows', async () => {
    const application = await makeApplication({ ...grants.plain, daily_reveals: 1 });
    for (const query of ['metadata.none:data', `id:"data:${VALUE}"`, `id:"${id}"`, `id:"${id}"`])
      expect((await search(application.key, query)).status).toBe(200);
    expect((await rowsOf(application)).map(({ message }) => message)).toEqual(['Token revealed', 'Token revealed']);
  });

  test('counts in code as a use, and is a row of the log', async () => {
    const application = await makeApplication({ ...grants.plain, daily_uses: 2 });
    const { id: reactor } = await makeReactor(server, {
      code: `module.exports = async ({ args, svc }) => {
        try { return { raw: { total: (await svc.tokens.search({ query: args.query, page: 9 })).pagination.total_items } }; }
        catch (error) { return { raw: { status: error.status } }; }
      };`,
      application: { application_id: application.id },
    });
    const ask = async (value: string) => (await react(server, reactor, { query: `data:"${value}"` })).body.raw;
    expect([await ask(VALUE), await ask('OTHER'), await ask(VALUE)]).toEqual([
      { total: 1 },
      { total: 0 },
      { status: 429 },
    ]);
    expect((await rowsOf(application)).map(({ message }) => message)).toEqual([
      'Tokens searched by value',
      'Tokens searched by value',
    ]);
  });
});
