// Pages of lists over HTTP, by number and by cursor, with the list of tokens.
import { beforeAll, describe, expect, test } from 'vitest';
import { type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

const ask = (tenant: TestTenant, query: string) => server.request('GET', `/tokens${query}`, { key: tenant.api_key });

const list = async (tenant: TestTenant, query: string) => {
  const answer = await ask(tenant, query);
  expect(answer.status, `${query}: ${answer.text}`).toBe(200);
  return answer.body;
};

const idsOf = (page: { data: { id: string }[] }) => page.data.map(({ id }) => id);

/** Makes tokens in one request: all of them have one and the same time. */
const createMany = async (tenant: TestTenant, count: number): Promise<string[]> => {
  const answer = await server.tokenize(
    Array.from({ length: count }, (_, index) => `value ${index}`),
    tenant.api_key,
  );
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

const end = async (tenant: TestTenant, id: string) => {
  expect((await server.request('DELETE', `/tokens/${id}`, { key: tenant.api_key })).status).toBe(204);
};

/** No walk here is as long: a cursor that does not go on fails instead of going round. */
const PAGES_MAX = 100;

/** Reads a list to its end by its cursors. @param between runs before each further page. */
const walk = async (
  tenant: TestTenant,
  query: string,
  between: (page: { data: { id: string }[] }) => Promise<void> = async () => undefined,
): Promise<string[][]> => {
  const pages: string[][] = [];
  let page = await list(tenant, query);
  pages.push(idsOf(page));
  while (page.pagination.next !== undefined) {
    expect(pages.length).toBeLessThan(PAGES_MAX);
    await between(page);
    page = await list(tenant, `${query}&start=${encodeURIComponent(page.pagination.next)}`);
    pages.push(idsOf(page));
  }
  return pages;
};

const encode = (parts: unknown) => Buffer.from(JSON.stringify(parts)).toString('base64url');

describe('pages by number', () => {
  test('tokens of one time are ordered by id, and each page continues the one before', async () => {
    const tenant = await server.newTenant();
    const ids = (await createMany(tenant, 45)).toSorted();
    const times = await server.sql('SELECT DISTINCT created_at FROM tokens WHERE tenant_id = $1', [tenant.tenant_id]);
    expect(times).toHaveLength(1);
    const pages = [];
    for (const page of [1, 2, 3]) pages.push(await list(tenant, `?page=${page}`));
    expect(pages.flatMap(idsOf)).toEqual(ids);
    expect(pages.map((page) => page.data.length)).toEqual([20, 20, 5]);
    for (const [index, { pagination }] of pages.entries()) {
      const { next, ...rest } = pagination;
      expect(rest).toEqual({ total_items: 45, page_number: index + 1, page_size: 20, total_pages: 3 });
      expect(typeof next).toBe(index === 2 ? 'undefined' : 'string');
    }
    expect(idsOf(await list(tenant, '?size=100'))).toEqual(ids);
    expect(idsOf(await list(tenant, '?size=1&page=45'))).toEqual(ids.slice(44));
  });

  test('a last page that is full has no next', async () => {
    const tenant = await server.newTenant();
    await createMany(tenant, 4);
    expect((await list(tenant, '?size=2&page=2')).pagination.next).toBeUndefined();
    expect((await list(tenant, '?size=4')).pagination).toEqual({
      total_items: 4,
      page_number: 1,
      page_size: 4,
      total_pages: 1,
    });
    expect((await walk(tenant, '?size=2')).map((page) => page.length)).toEqual([2, 2]);
  });

  test('past the end there is an empty page with the same totals', async () => {
    const tenant = await server.newTenant();
    await createMany(tenant, 3);
    for (const page of [2, 1_000_000_000])
      expect(await list(tenant, `?page=${page}`)).toEqual({
        pagination: { total_items: 3, page_number: page, page_size: 20, total_pages: 1 },
        data: [],
      });
  });

  test.each([
    ['page', '0'],
    ['page', '-1'],
    ['page', '1.5'],
    ['page', ''],
    ['page', '0x10'],
    ['page', '1e9'],
    ['page', '1000000001'],
    ['page', '99999999999999999999'],
    ['page', ' 1'],
    ['page', '+1'],
    ['page', '١'],
    ['page', '1\u0000'],
    ['size', '0'],
    ['size', '-1'],
    ['size', '1.5'],
    ['size', ''],
    ['size', '0x10'],
    ['size', '101'],
  ])('%s=%j is a 400 that names the field', async (field, value) => {
    const answer = await ask(server.tenant, `?${field}=${encodeURIComponent(value)}`);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([field]);
    expect(answer.body.errors[field][0]).toMatch(/^must be a whole number from 1 to 1(00|000000000)$/);
  });

  test.each(['page=1&page=2', 'size=1&size=1', 'start=a&start=b'])('%s: given twice is a 400', async (query) => {
    const answer = await ask(server.tenant, `?${query}`);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([query.slice(0, query.indexOf('='))]);
  });

  test('all bad parameters are named at once', async () => {
    const answer = await ask(server.tenant, '?page=0&size=0&start=&type=x');
    expect(Object.keys(answer.body.errors).toSorted()).toEqual(['page', 'size', 'start', 'type']);
  });

  test('a page beyond what is counted off is refused in favour of the cursor', async () => {
    const tenant = await server.newTenant();
    await createMany(tenant, 1);
    // As if a hundred thousand were there: counts are kept as changes.
    await server.sql(
      `INSERT INTO token_counts (tenant_id, id, type, change) VALUES ($1, gen_random_uuid(), 'token', 150000)`,
      [tenant.tenant_id],
    );
    expect((await list(tenant, '?size=100&page=1001')).data).toEqual([]);
    const answer = await ask(tenant, '?size=100&page=1002');
    expect(answer.status).toBe(400);
    expect(answer.body.errors.page[0]).toContain('start');
    expect((await ask(tenant, '?size=100&page=1600')).status).toBe(200);
  });

  test('a filtered list of more than 10,000 says that it is not counted to its end', async () => {
    const tenant = await server.newTenant();
    const bulk = (count: number) =>
      server.sql(
        `INSERT INTO tokens (tenant_id, id, type, sealed, container, search_indexes, masked, created_at)
         SELECT $1, gen_random_uuid(), 'token', '', '/bulk/', '{}', false, now() FROM generate_series(1, $2)`,
        [tenant.tenant_id, count],
      );
    const rules = [{ priority: 1, container: '/bulk/', transform: 'mask', permissions: ['token:read'] }];
    const reader = await server.newKey(tenant, { rules });
    await bulk(10_000);
    const exact = await list(reader, '?size=100&page=101');
    expect(exact.pagination).toEqual({ total_items: 10_000, page_number: 101, page_size: 100, total_pages: 100 });
    await bulk(1);
    const capped = await list(reader, '?size=100&page=102');
    expect(capped).toEqual({
      pagination: {
        total_items: 10_000,
        page_number: 102,
        page_size: 100,
        total_pages: 100,
        total_is_capped: true,
      },
      data: [],
    });
  });
});

describe('pages by cursor', () => {
  test('250 tokens are each seen once, while others come and go', async () => {
    const tenant = await server.newTenant();
    const ids: string[] = [];
    // Five times of fifty: within a time the id decides.
    for (let batch = 0; batch < 5; batch += 1) ids.push(...(await createMany(tenant, 50)));
    const seen = new Set<string>();
    const gone = new Set<string>();
    const pages = await walk(tenant, '?size=17', async (page) => {
      for (const id of idsOf(page)) seen.add(id);
      await createMany(tenant, 3);
      const unseen = ids.find((id) => !seen.has(id) && !gone.has(id));
      // One that was seen, the one that the cursor names, and one that is still to come.
      for (const id of [page.data[0]?.id, page.data.at(-1)?.id, unseen])
        if (id !== undefined) {
          await end(tenant, id);
          gone.add(id);
        }
    });
    const walked = pages.flat();
    expect(new Set(walked).size).toBe(walked.length);
    const all = new Set(ids);
    for (const id of walked) expect(all.has(id)).toBe(true);
    for (const id of ids) if (!gone.has(id)) expect(walked).toContain(id);
    expect(gone.size).toBeGreaterThan(30);
    expect(pages.length).toBeGreaterThan(12);
  });

  test('a walk has the order of the numbered pages, of every size, under filters and rules', async () => {
    const tenant = await server.newTenant();
    for (let batch = 0; batch < 3; batch += 1) await createMany(tenant, 9);
    const body = { type: 'card_number', data: '4242424242424242', metadata: { k: 'v' } };
    await server.request('POST', '/tokens', { key: tenant.api_key, json: body });
    const all = idsOf(await list(tenant, '?size=100'));
    expect(all).toHaveLength(28);
    for (const size of [1, 5, 9, 27, 28, 100]) expect((await walk(tenant, `?size=${size}`)).flat()).toEqual(all);
    const generic = idsOf(await list(tenant, '?size=100&type=token'));
    expect(generic).toHaveLength(27);
    expect((await walk(tenant, '?size=4&type=token')).flat()).toEqual(generic);
    const some = all.filter((_, index) => index % 3 === 0);
    const filter = some.map((id) => `&id=${id}`).join('');
    expect((await walk(tenant, `?size=4${filter}`)).flat()).toEqual(some);
    const rules = [{ priority: 1, container: '/general/', transform: 'redact', permissions: ['token:read'] }];
    expect((await walk(await server.newKey(tenant, { rules }), '?size=4')).flat()).toEqual(generic);
  });

  test('with a cursor no totals are counted, and the page number does not count', async () => {
    const tenant = await server.newTenant();
    await createMany(tenant, 7);
    const { next } = (await list(tenant, '?size=3')).pagination;
    const page = await list(tenant, `?size=3&start=${next}&page=9`);
    expect(page.pagination).toEqual({ page_size: 3, next: expect.any(String) });
    expect(page).toEqual(await list(tenant, `?size=3&start=${next}`));
    const last = await list(tenant, `?size=3&start=${page.pagination.next}`);
    expect(last.pagination).toEqual({ page_size: 3 });
    expect(last.data).toHaveLength(1);
  });

  test.each([
    ['no base64', '%%%'],
    ['no JSON', Buffer.from('x').toString('base64url')],
    ['no list', encode({ 0: '1', 1: 'a' })],
    ['an empty list', encode([])],
    ['one part', encode(['1790000000000'])],
    ['a time that is a number', encode([1_790_000_000_000, 'a'])],
    ['a time that is none', encode(['yesterday', 'a'])],
    ['a negative time', encode(['-1', 'a'])],
    ['a time beyond all', encode(['9'.repeat(16), 'a'])],
    ['NUL in the id', encode(['1790000000000', 'a\u0000'])],
    ['half a surrogate pair in the id', encode(['1790000000000', '\ud800'])],
    ['a cursor of the log', encode(['0193a3f0-0000-7000-8000-000000000000', '1'])],
    ['nothing', ''],
    ['more than any cursor', 'a'.repeat(4001)],
  ])('%s is a 400 that names `start`', async (_, start) => {
    const answer = await ask(server.tenant, `?start=${encodeURIComponent(start)}`);
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body.errors).toEqual({ start: ['must be the `next` of an earlier page'] });
  });

  test('a cursor of another tenant, or one that was made up, shows only what its bearer may see', async () => {
    const tenant = await server.newTenant();
    const neighbour = await server.newTenant();
    const theirs = await createMany(neighbour, 5);
    const mine = await createMany(tenant, 5);
    const { next } = (await list(neighbour, '?size=2')).pagination;
    for (const start of [next, encode(['999999999999999', 'a']), encode(['0', 'a']), encode(['1', theirs[0]])]) {
      const page = await list(tenant, `?start=${start}`);
      for (const token of page.data) expect(token.tenant_id).toBe(tenant.tenant_id);
      for (const id of theirs) expect(JSON.stringify(page)).not.toContain(id);
    }
    expect(idsOf(await list(tenant, `?start=${encode(['999999999999999', 'a'])}`))).toEqual(mine.toSorted());
    expect((await list(tenant, `?start=${encode(['0', 'a'])}`)).data).toEqual([]);
    const rules = [{ priority: 1, container: '/none/', transform: 'mask', permissions: ['token:read'] }];
    const reader = await server.newKey(tenant, { rules });
    const own = (await list(tenant, '?size=2')).pagination.next;
    expect((await list(reader, `?start=${own}`)).data).toEqual([]);
  });

  test('a cursor holds ids of any spelling', async () => {
    const tenant = await server.newTenant();
    const ids = ['Größe 7: "ä"', '💳💳💳', "O'Hara; --", 'ÿ'.repeat(400), 'a b c'];
    for (const id of ids) {
      const answer = await server.request('POST', '/tokens', { key: tenant.api_key, json: { data: 'x', id } });
      expect(answer.status, answer.text).toBe(201);
    }
    const walked = (await walk(tenant, '?size=1')).flat();
    expect(walked.toSorted()).toEqual(ids.toSorted());
  });

  test('tokens of one time with ids of any spelling are walked in list order, none twice', async () => {
    const tenant = await server.newTenant();
    const ids = ['abc', 'ABC', 'aBc', 'a-b-c', 'a b c', 'a_b_c', 'äbc', 'zzz', 'ZZZ', '10a', '9aa', 'a.b.c'];
    const tokens = ids.map((id) => ({ type: 'token', data: 'x', id }));
    expect((await server.tokenize(tokens, tenant.api_key)).status).toBe(200);
    const whole = idsOf(await list(tenant, '?size=100'));
    expect(whole.toSorted()).toEqual(ids.toSorted());
    for (const size of [1, 2, 5]) expect((await walk(tenant, `?size=${size}`)).flat()).toEqual(whole);
  });
});

describe('lists of other things', () => {
  test('children are paged like tokens', async () => {
    const tenant = await server.newTenant();
    const [parent, ...children] = await createMany(tenant, 8);
    for (const child of children) {
      const path = `/tokens/${parent}/children/${child}`;
      expect((await server.request('POST', path, { key: tenant.api_key })).status).toBe(204);
    }
    const read = async (query: string) => {
      const answer = await server.request('GET', `/tokens/${parent}/children${query}`, { key: tenant.api_key });
      expect(answer.status, answer.text).toBe(200);
      return answer.body;
    };
    const first = await read('?size=4');
    expect(first.pagination).toMatchObject({ total_items: 7, page_number: 1, page_size: 4, total_pages: 2 });
    const rest = await read(`?size=4&start=${first.pagination.next}`);
    expect([...idsOf(first), ...idsOf(rest)]).toEqual(children.toSorted());
    expect(rest.pagination).toEqual({ page_size: 4 });
    // A cursor of one list is none of another parent's.
    const other = await server.request('GET', `/tokens/${children[0]}/children?start=${first.pagination.next}`, {
      key: tenant.api_key,
    });
    expect(other.body.data).toEqual([]);
  });
});
