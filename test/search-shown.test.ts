// Searches by what a mask shows: last4, brand and expires find what their caller sees by a search and by a read, and nothing else.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rightsOfRole, type Role } from '../src/modules/people/roles.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let tenant: TestTenant;
beforeAll(async () => {
  server = await startServer();
  tenant = await server.newTenant();
});
afterAll(() => server.close());

const NUMBERS = ['4242424242421881', '4000056655665556', '5555555555554444', '378282246310005'] as const;

const done = async (method: string, path: string, json: unknown, key = tenant.api_key): Promise<any> => {
  const headers: Record<string, string> = method === 'PATCH' ? { 'content-type': 'application/merge-patch+json' } : {};
  const answer = await server.request(method, path, { key, json, headers });
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return answer.body;
};

/** The check digit comes last: these numbers need not be valid. */
const asGeneric = (number: string, more: object = {}) => ({ type: 'token', data: { number }, ...more });
const asCard = (number: string, more: object = {}) => ({
  type: 'card',
  data: { number, expiration_month: 3, expiration_year: 2031 },
  ...more,
});

const create = async (json: object, of = tenant): Promise<string> =>
  (await done('POST', '/tokens', json, of.api_key)).id;

const askQuery = (query: string, key = tenant.api_key): Promise<Answer> =>
  server.request('POST', '/tokens/search', { key, json: { query, size: 100 } });

const found = async (query: string, key = tenant.api_key): Promise<string[]> => {
  const { status, text, body } = await askQuery(query, key);
  expect(status, `${query}: ${text}`).toBe(200);
  expect(body.pagination.total_items).toBe(body.data.length);
  return body.data.map(({ id }: { id: string }) => id).toSorted();
};

const keyWith = async (rules: readonly object[], permissions: readonly string[] = [], more: object = {}) =>
  (await done('POST', '/applications', { name: 'K', permissions, rules, ...more })).key as string;

const BOTH = ['token:search', 'token:read'];
const ruleOf = (transform: string, permissions: string[], container = '/', priority = 1) => ({
  priority,
  container,
  transform,
  permissions,
});

describe('a card', () => {
  test('is found by what its mask shows, and by nothing else of its number', async () => {
    const own = await server.newTenant();
    const [card, other] = [
      await create(asCard('5555555555554444'), own),
      await create(asCard('4000056655665556'), own),
    ];
    const find = (query: string) => found(query, own.api_key);
    expect(await find('last4:4444')).toEqual([card]);
    expect(await find('expires:2031-03')).toEqual([card, other].toSorted());
    expect(await find('expires:2031-03 AND type:card AND NOT last4:4444')).toEqual([other]);
    expect(await find('expires:2031-04 OR last4:"5556"')).toEqual([other]);
    for (const part of ['5555', '4000', '5665', '0566', '6655'])
      expect([part, await find(`last4:${part}`)]).toEqual([part, []]);
    expect(await find('brand:visa')).toEqual([]);
  });

  test('is found by its new number, and no more where its mask hides the end', async () => {
    const id = await create(asCard('5555555555554444'));
    const patch = (json: object) => done('PATCH', `/tokens/${id}`, json, revealing);
    const revealing = await keyWith([ruleOf('reveal', [...BOTH, 'token:update'])]);
    const finds = async (...queries: string[]) =>
      Promise.all(queries.map(async (query) => (await found(query)).includes(id)));
    await patch({ data: { number: '378282246310005', expiration_year: 2033 } });
    expect(await finds('last4:4444', 'last4:0005', 'expires:2031-03', 'expires:2033-03')).toEqual([
      false,
      true,
      false,
      true,
    ]);
    await patch({ metadata: { a: 'b' } });
    expect(await finds('last4:0005', 'metadata.a:b')).toEqual([true, true]);
    await patch({ mask: { number: '{{ data.number | card_bin }}', brand: 'Amex' } });
    expect(await finds('last4:0005', 'expires:2033-03', 'brand:AMEX', 'metadata.a:b')).toEqual([
      false,
      false,
      true,
      true,
    ]);
    await patch({ mask: null });
    expect(await finds('last4:0005', 'expires:2033-03', 'brand:amex')).toEqual([true, true, false]);
  });

  test('is found without a row about values, for no room of a daily limit, and deleted by it', async () => {
    const own = await server.newTenant();
    const id = await create(asCard('5555555555554444'), own);
    const json = { name: 'L', rules: [ruleOf('mask', BOTH)], daily_reveals: 1 };
    const { key, id: actor } = await done('POST', '/applications', json, own.api_key);
    for (let count = 0; count < 3; count += 1) expect(await found('last4:4444', key)).toEqual([id]);
    const rows = await server.sql('SELECT message, disclosure FROM audit_log WHERE actor_id = $1', [actor]);
    expect(rows.map(({ disclosure }) => disclosure)).toEqual(['masked', 'masked', 'masked']);
    const body = { query: 'last4:4444', expected_count: 1 };
    await done('POST', '/tokens/delete-by-search', body, own.api_key);
    expect(await found('last4:4444', own.api_key)).toEqual([]);
  });
});

test.each([
  ['last4:42', 'last4'],
  ['last4:42424', 'last4'],
  ['last4:XXXX', 'last4'],
  ['last4:"4 24"', 'last4'],
  ['expires:2031', 'expires'],
  ['expires:2031-13', 'expires'],
  ['expires:03/31', 'expires'],
  [`brand:${'x'.repeat(41)}`, 'brand'],
  ['bin:424242', 'last4'],
  ['last4:[1000 TO 2000]', 'created_at'],
  ['last4:424*', 'container'],
])('%s is a 400 that says what it must be', async (query, named) => {
  const { status, body } = await askQuery(query);
  expect([status, body.errors]).toEqual([400, { query: [expect.stringContaining(named)] }]);
});

describe('the sweep', () => {
  const empty = (id: string, more = '') =>
    server.sql(`UPDATE tokens SET digests_due = true, search_digests = NULL ${more} WHERE id = $1`, [id]);
  const dueOf = async (id: string) =>
    (await server.sql('SELECT digests_due FROM tokens WHERE id = $1', [id]))[0].digests_due;

  test('makes the digests of tokens that have none, with all that they were found by', async () => {
    const id = await create(
      asCard('5555555555554444', { metadata: { order: '7' }, search_indexes: ['{{ data.number }}'] }),
    );
    const revealing = await keyWith([ruleOf('reveal', BOTH)]);
    const queries = ['last4:4444', 'metadata.order:7', 'data:5555555555554444', 'expires:2031-03'];
    const finds = () => Promise.all(queries.map(async (query) => (await found(query, revealing)).includes(id)));
    expect([await finds(), await dueOf(id)]).toEqual([[true, true, true, true], false]);
    await empty(id);
    expect(await finds()).toEqual([false, false, false, false]);
    await sweep(server.ctx);
    expect([await finds(), await dueOf(id)]).toEqual([[true, true, true, true], false]);
  });

  test('leaves a token that does not open as it is, and goes on', async () => {
    const [broken, whole] = [await create(asCard('5555555555554444')), await create(asCard('5555555555554444'))];
    await empty(broken, ", container = '/moved/'");
    await empty(whole);
    await sweep(server.ctx);
    expect([await dueOf(broken), await dueOf(whole)]).toEqual([false, false]);
    const rows = await server.sql('SELECT search_digests FROM tokens WHERE id = $1', [broken]);
    expect(rows).toEqual([{ search_digests: null }]);
    expect((await found('last4:4444')).includes(whole)).toBe(true);
    expect(server.logLines.some((line) => line.includes('"tampered"') && line.includes(broken))).toBe(true);
    await server.sql('DELETE FROM tokens WHERE id = $1', [broken]);
  });
});

/** Numbers from 0 to below `below`, the same in each run. */
const numbersFrom = (seed: number) => {
  let state = seed;
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
};

const MASKS = [
  undefined,
  '{{ data.number | last4 }}',
  '{{ data.number | slice: 0, 4 }}',
  { number: '{{ data.number | reveal: 4, 0 }}' },
  { number: '{{ data.number | reveal: 0, 5 }}', brand: 'Visa' },
  { number: '{{ data.number | reveal: 0, 3 }}' },
  { part: '{{ data.number | slice: 4, 4 }}' },
  { number: '{{ data.number }}' },
] as const;
const CONTAINERS = ['/a/', '/a/b/', '/c/'];
const TRANSFORMS = ['redact', 'mask', 'reveal'];

type Made = { id: string; number: string };

describe('what is not shown to a caller is not found by it', () => {
  let tokens: Made[];
  beforeAll(async () => {
    tenant = await server.newTenant();
    tokens = [];
    for (const [index, mask] of [...MASKS, ...MASKS].entries()) {
      const number = NUMBERS[index % NUMBERS.length] as string;
      const made =
        index % 3 === 0 ? asGeneric(number) : asCard(index % 3 === 1 ? '5555555555554444' : '378282246310005');
      const json = { ...made, ...(mask !== undefined && { mask }), containers: [CONTAINERS[index % 3]] };
      tokens.push({ id: await create(json), number: (made.data as { number: string }).number });
    }
  });

  /** What an answer shows of the data, as the texts that it has. */
  const textsIn = (value: unknown): string[] =>
    typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [String(value ?? '')];

  const dataBy = async (key: string): Promise<[read: Map<string, string[]>, searched: Map<string, string[]>]> => {
    const listed = await Promise.all([
      server.request('GET', '/tokens?size=100', { key }),
      server.request('POST', '/tokens/search', { key, json: { size: 100 } }),
    ]);
    return listed.map(
      ({ body }) => new Map((body.data ?? []).map(({ id, data }: any) => [id, textsIn(data)] as const)),
    ) as [Map<string, string[]>, Map<string, string[]>];
  };

  /** Asks for each four digits of each number. */
  const expectNoMore = async (key: string): Promise<number> => {
    const [read, searched] = await dataBy(key);
    const asked = new Set(
      tokens.flatMap(({ number }) =>
        [0, 2, 4, 8, number.length - 5, number.length - 4].map((at) => number.slice(at, at + 4)),
      ),
    );
    let matched = 0;
    for (const four of asked) {
      const { status, body } = await askQuery(`last4:${four}`, key);
      if (status === 403) continue;
      for (const { id } of body.data) {
        matched += 1;
        for (const shown of [read, searched])
          expect([four, id, shown.get(id)?.some((text) => text.endsWith(four))], JSON.stringify(shown.get(id))).toEqual(
            [four, id, true],
          );
        // Of the number itself, and no other part of it.
        expect(tokens.find((token) => token.id === id)?.number.endsWith(four)).toBe(true);
      }
      const others = await found(`NOT last4:${four}`, key);
      expect(new Set([...others, ...body.data.map(({ id }: Made) => id)])).toEqual(new Set(searched.keys()));
    }
    return matched;
  };

  test.each<[Role, boolean]>([
    ['OWNER', true],
    ['ADMIN', true],
    ['SUPPORT', true],
    ['DEVELOPER', false],
  ])('in the role %s', async (role, isShown) => {
    const { permissions, rules } = rightsOfRole(role);
    const both = [...permissions].filter((each) => BOTH.includes(each));
    expect((await expectNoMore(await keyWith(rules, both))) > 0).toBe(isShown);
  });

  test('by plain permissions, of which a search alone finds nothing', async () => {
    expect(await expectNoMore(tenant.api_key)).toBeGreaterThan(0);
    expect(await expectNoMore(await keyWith([], ['token:search']))).toBe(0);
  });

  test.each(Array.from({ length: 16 }, (_, seed) => [seed]))('under random rules, number %i', async (seed) => {
    const next = numbersFrom(seed * 7919 + 1);
    const rules = Array.from({ length: 1 + next(4) }, (_, index) =>
      ruleOf(
        TRANSFORMS[next(3)] as string,
        [BOTH, BOTH, ['token:search'], ['token:read']][next(4)] as string[],
        ['/', ...CONTAINERS][next(4)],
        index + 1,
      ),
    );
    await expectNoMore(await keyWith(rules, [[], ['token:search'], ['token:read'], BOTH][next(4)]));
  });
});
