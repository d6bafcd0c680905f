// Links between tokens over HTTP: who may create them, what they show, and what removes them.
import { beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type SharedServer, type TestTenant, useServer } from './support/server.ts';
import { withoutDrawn } from './support/text.ts';

let server: SharedServer;
let other: TestTenant;
beforeAll(async () => {
  server = await useServer();
  other = await server.newTenant();
});

const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };
const masked = { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 };

const as = (key: string | undefined) => (key === undefined ? {} : { key });

const newToken = async (request: object = { data: 'x' }, key?: string): Promise<string> => {
  const answer = await server.request('POST', '/tokens', { json: request, ...as(key) });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

const link = (parent: string, child: string, key?: string) =>
  server.request('POST', `/tokens/${parent}/children/${child}`, as(key));
const unlink = (parent: string, child: string, key?: string) =>
  server.request('DELETE', `/tokens/${parent}/children/${child}`, as(key));
const createChild = (parent: string, request: unknown, key?: string) =>
  server.request('POST', `/tokens/${parent}/children`, { json: request, ...as(key) });
const list = (parent: string, query = '', key?: string) =>
  server.request('GET', `/tokens/${parent}/children${query}`, as(key));
const idsOf = (answer: Answer): string[] => answer.body.data.map(({ id }: { id: string }) => id);
const childrenOf = async (parent: string): Promise<string[]> => idsOf(await list(parent, '?size=100')).toSorted();

const linksOf = async (id: string): Promise<number> => {
  const text = 'SELECT count(*)::int AS count FROM token_associations WHERE parent_id = $1 OR child_id = $1';
  return (await server.sql(text, [id]))[0].count;
};

/** Everything that a refused request must leave as it was. */
const countRows = async () => {
  const [row] = await server.sql(
    `SELECT (SELECT count(*)::int FROM tokens) AS tokens, (SELECT count(*)::int FROM token_associations) AS links,
       (SELECT count(*)::int FROM audit_log WHERE outcome = 'success') AS logs, (SELECT sum(change)::int FROM token_counts) AS counted`,
  );
  return row;
};

const logsOf = async (entity_id: string): Promise<{ operation: string; message: string; actor_id: string }[]> =>
  (await server.request('GET', `/logs?size=100&entity_id=${entity_id}`)).body.data;

/** A problem without what is different in every answer. */
const faceOf = ({ status, body }: Answer) => ({ status, ...body, trace_id: undefined });

const onlyIn = (container: string, permissions: string[]) =>
  server.newKey(server.tenant, { rules: [{ priority: 1, container, transform: 'mask', permissions }] });

describe('a link', () => {
  test('is made with 204 and no body, and shows the child under the parent, not the reverse', async () => {
    const [parent, child] = [await newToken(), await newToken()];
    const answer = await link(parent, child);
    expect(answer.status, answer.text).toBe(204);
    expect(answer.text).toBe('');
    expect(await childrenOf(parent)).toEqual([child]);
    expect(await childrenOf(child)).toEqual([]);
  });

  test('is created with any content type and an empty body', async () => {
    const [parent, child] = [await newToken(), await newToken()];
    const headers = { 'content-type': 'text/plain' };
    expect((await server.request('POST', `/tokens/${parent}/children/${child}/`, { headers })).status).toBe(204);
    expect(await childrenOf(parent)).toEqual([child]);
  });

  test('needs token:read on both tokens', async () => {
    const [general, inPci] = [await newToken(), await newToken({ type: 'card', data: card })];
    const generalOnly = await onlyIn('/general/', ['token:read']);
    const creator = await server.newKey(server.tenant, { permissions: ['token:create', 'token:delete'] });
    for (const [parent, child] of [
      [general, inPci],
      [inPci, general],
    ] as const)
      for (const { api_key } of [generalOnly, creator]) {
        const refused = await link(parent, child, api_key);
        expect(refused.status).toBe(403);
        expect(refused.body.detail).toContain('token:read');
      }
    expect(await linksOf(general)).toBe(0);
    const reader = await server.newKey(server.tenant, { permissions: ['token:read'] });
    expect((await link(general, inPci, reader.api_key)).status).toBe(204);
  });

  test('from a token to itself is refused', async () => {
    const id = await newToken();
    const before = await countRows();
    const answer = await link(id, id);
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual(['child_id']);
    expect(await countRows()).toEqual(before);
  });

  test('is made once: the second time is a conflict and changes nothing', async () => {
    const [parent, child] = [await newToken(), await newToken()];
    expect((await link(parent, child)).status).toBe(204);
    const before = await countRows();
    expect((await link(parent, child)).status).toBe(409);
    expect(await countRows()).toEqual(before);
    expect(await childrenOf(parent)).toEqual([child]);
  });

  test('that twenty callers make at once is made by one of them', async () => {
    const [parent, child] = [await newToken(), await newToken()];
    const answers = await Promise.all(Array.from({ length: 20 }, () => link(parent, child)));
    expect(answers.map(({ status }) => status).toSorted()).toEqual([204, ...Array.from({ length: 19 }, () => 409)]);
    expect(await linksOf(parent)).toBe(1);
    expect((await logsOf(parent)).filter(({ message }) => message === 'Token association created')).toHaveLength(1);
  });

  test('is taken away with 204, once; the tokens stay', async () => {
    const [parent, child] = [await newToken(), await newToken()];
    await link(parent, child);
    const answer = await unlink(parent, child);
    expect([answer.status, answer.text]).toEqual([204, '']);
    expect((await unlink(parent, child)).status).toBe(404);
    expect(await childrenOf(parent)).toEqual([]);
    for (const id of [parent, child]) expect((await server.request('GET', `/tokens/${id}`)).status).toBe(200);
    expect((await link(parent, child)).status).toBe(204);
  });

  test('is taken away with token:delete on both tokens only', async () => {
    const [parent, child] = [await newToken(), await newToken({ type: 'card', data: card })];
    await link(parent, child);
    const reader = await server.newKey(server.tenant, { permissions: ['token:read', 'token:create', 'token:update'] });
    const generalOnly = await onlyIn('/general/', ['token:delete']);
    const pciOnly = await onlyIn('/pci/', ['token:delete']);
    for (const { api_key } of [reader, generalOnly, pciOnly]) {
      const refused = await unlink(parent, child, api_key);
      expect(refused.status).toBe(403);
      expect(refused.body.detail).toContain('token:delete');
    }
    expect(await linksOf(parent)).toBe(1);
  });

  test('is not taken away by its other direction', async () => {
    const [parent, child] = [await newToken(), await newToken()];
    await link(parent, child);
    expect((await unlink(child, parent)).status).toBe(404);
    expect(await childrenOf(parent)).toEqual([child]);
  });

  test('may stand in both directions, and each is taken away alone', async () => {
    const [one, two] = [await newToken(), await newToken()];
    expect([(await link(one, two)).status, (await link(two, one)).status]).toEqual([204, 204]);
    expect([await childrenOf(one), await childrenOf(two)]).toEqual([[two], [one]]);
    await unlink(one, two);
    expect([await childrenOf(one), await childrenOf(two)]).toEqual([[], [one]]);
  });

  test('may close a circle of three: each shows its own child and no more', async () => {
    const [one, two, three] = [await newToken(), await newToken(), await newToken()];
    for (const [parent, child] of [
      [one, two],
      [two, three],
      [three, one],
    ] as const)
      expect((await link(parent, child)).status).toBe(204);
    expect([await childrenOf(one), await childrenOf(two), await childrenOf(three)]).toEqual([[two], [three], [one]]);
    expect((await server.request('DELETE', `/tokens/${two}`)).status).toBe(204);
    expect([await childrenOf(one), await childrenOf(three)]).toEqual([[], [one]]);
  });
});

describe('a link to a token that goes meanwhile', () => {
  test('is made or is 404, and nothing of it stays', async () => {
    for (let round = 0; round < 30; round += 1) {
      const [parent, child] = [await newToken(), await newToken()];
      const going = round % 2 === 0 ? parent : child;
      const [linked, deleted] = await Promise.all([link(parent, child), server.request('DELETE', `/tokens/${going}`)]);
      expect([204, 404]).toContain(linked.status);
      expect(deleted.status).toBe(204);
      expect(await linksOf(going)).toBe(0);
    }
  });
});

describe('a token that is not there', () => {
  test('is the same 404 if unknown, expired, deleted or foreign, as parent and as child', async () => {
    const mine = await newToken();
    const foreign = await newToken({ data: 'theirs' }, other.api_key);
    const foreignChild = (await createChild(foreign, { data: 'theirs' }, other.api_key)).body.id;
    const expiring = await newToken({ data: 'x', expires_at: new Date(Date.now() + 60_000).toISOString() });
    const deleted = await newToken();
    await server.request('DELETE', `/tokens/${deleted}`);
    const foreignLogs = await server.sql('SELECT id FROM audit_log WHERE tenant_id = $1 ORDER BY id', [
      other.tenant_id,
    ]);
    server.clock.offsetMs = 120_000;
    try {
      const before = await countRows();
      const expected = faceOf(await list('no-such-token'));
      expect(expected.status).toBe(404);
      for (const gone of ['no-such-token', foreign, expiring, deleted, '%00', 'x'.repeat(500), '%F0%9F%92%B3'])
        for (const answer of [
          await link(mine, gone),
          await link(gone, mine),
          await unlink(mine, gone),
          await unlink(gone, mine),
          await createChild(gone, { data: 'x' }),
          await list(gone),
        ])
          expect(faceOf(answer), gone).toEqual(expected);
      expect(faceOf(await unlink(foreign, foreignChild))).toEqual(expected);
      expect(await countRows()).toEqual(before);
    } finally {
      server.clock.offsetMs = 0;
    }
    expect(await server.sql('SELECT id FROM audit_log WHERE tenant_id = $1 ORDER BY id', [other.tenant_id])).toEqual(
      foreignLogs,
    );
  });
});

describe('a child that is created', () => {
  test('is a token of its own, linked, with 201 and its Location', async () => {
    const parent = await newToken();
    const answer = await createChild(parent, { type: 'card', data: card, metadata: { order: '1' } });
    expect(answer.status, answer.text).toBe(201);
    expect(answer.headers.get('location')).toBe(`/tokens/${answer.body.id}`);
    expect(answer.body).toMatchObject({ type: 'card', data: masked, mask: masked, metadata: { order: '1' } });
    expect(Object.keys(answer.body.data)).not.toContain('cvc');
    expect(await childrenOf(parent)).toEqual([answer.body.id]);
    expect((await server.request('GET', `/tokens/${answer.body.id}`)).body.data).toEqual(masked);
  });

  test('that deduplication finds is linked once, and a parent is not found as its own child', async () => {
    const parent = await newToken();
    const data = `twin ${crypto.randomUUID()}`;
    const twin = (await server.tokenize(data)).body;
    for (let time = 0; time < 2; time += 1) {
      const answer = await createChild(parent, { data, deduplicate_token: true });
      expect(answer.body).toMatchObject({ id: twin, _extras: { deduplicated: true } });
      expect(await childrenOf(parent)).toEqual([twin]);
    }
    const before = await countRows();
    const own = await createChild(twin, { data, deduplicate_token: true });
    expect(own.status, own.text).toBe(409);
    expect(await countRows()).toEqual(before);
  });

  test('is a new token where its equal is out of reach of the caller', async () => {
    const data = `hidden ${crypto.randomUUID()}`;
    const hidden = await newToken({ data, containers: ['/hidden/'] });
    const parent = await newToken({ data: 'parent', containers: ['/open/'] });
    const { api_key } = await onlyIn('/open/', ['token:read', 'token:create']);
    const request = { data, containers: ['/open/'], deduplicate_token: true };
    const answer = await createChild(parent, request, api_key);
    expect(answer.status, answer.text).toBe(201);
    expect(answer.body._extras).toEqual({ deduplicated: false });
    expect(answer.text).not.toContain(hidden);
    expect(await childrenOf(parent)).toEqual([answer.body.id]);
  });

  test('is not there, and not linked, where the request is not valid', async () => {
    const parent = await newToken();
    const before = await countRows();
    for (const [request, path] of [
      [{ type: 'card', data: { number: '4242424242424241' } }, 'data.number'],
      [{ type: 'no_such_type', data: 'x' }, 'type'],
      [{ type: 'token' }, 'data'],
      ['a text', 'body'],
      [[{ data: 'x' }], 'body'],
    ] as const) {
      const answer = await createChild(parent, request);
      expect(answer.status, answer.text).toBe(400);
      expect(Object.keys(answer.body.errors)).toEqual([path]);
    }
    expect((await server.request('POST', `/tokens/${parent}/children`)).status).toBe(400);
    expect(await countRows()).toEqual(before);
  });

  test('is refused to a caller that cannot read the parent or create in its container', async () => {
    const parent = await newToken();
    const inPci = await newToken({ type: 'card', data: card });
    const rule = {
      priority: 1,
      container: '/general/',
      transform: 'mask',
      permissions: ['token:read', 'token:create'],
    };
    const generalOnly = await server.newKey(server.tenant, { rules: [rule] });
    const creator = await server.newKey(server.tenant, { permissions: ['token:create'] });
    const reader = await server.newKey(server.tenant, { permissions: ['token:read'] });
    const before = await countRows();
    for (const [answer, permission] of [
      [await createChild(inPci, { data: 'x' }, generalOnly.api_key), 'token:read'],
      [await createChild(parent, { type: 'card', data: card }, generalOnly.api_key), 'token:create'],
      [await createChild(parent, { data: 'x' }, creator.api_key), 'token:read'],
      [await createChild(parent, { data: 'x' }, reader.api_key), 'token:create'],
    ] as const) {
      expect(answer.status).toBe(403);
      expect(answer.body.detail).toContain(permission);
    }
    expect(await countRows()).toEqual(before);
    expect((await createChild(parent, { data: 'x' }, generalOnly.api_key)).status).toBe(201);
  });

  test('with an id that is taken is a conflict, and the token that has the id is not linked', async () => {
    const [parent, taken] = [await newToken(), await newToken({ id: 'taken-by-another', data: 'x' })];
    const before = await countRows();
    expect((await createChild(parent, { id: taken, data: 'y' })).status).toBe(409);
    expect(await countRows()).toEqual(before);
    expect((await createChild(parent, { id: parent, data: 'y' })).status).toBe(409);
    expect(await linksOf(parent)).toBe(0);
  });

  test('is there with its link or not at all while its parent is being deleted', async () => {
    for (let round = 0; round < 20; round += 1) {
      const parent = await newToken();
      const id = `raced-child-${round}`;
      const [created, deleted] = await Promise.all([
        createChild(parent, { id, data: 'x' }),
        server.request('DELETE', `/tokens/${parent}`),
      ]);
      expect([201, 404]).toContain(created.status);
      expect(deleted.status).toBe(204);
      expect((await server.request('GET', `/tokens/${id}`)).status).toBe(created.status === 201 ? 200 : 404);
      expect(await linksOf(id)).toBe(0);
    }
  });
});

describe('the list of children', () => {
  /** A parent of its own with so many children, made at one time: only their ids tell them apart. */
  const familyOf = async (size: number) => {
    const parent = await newToken();
    const { body } = await server.tokenize(Array.from({ length: size }, (_, index) => `child ${index}`));
    const waiting = [...(body as string[])];
    const linkNext = async (): Promise<void> => {
      for (let id = waiting.pop(); id !== undefined; id = waiting.pop())
        expect((await link(parent, id)).status).toBe(204);
    };
    await Promise.all(Array.from({ length: 8 }, linkNext));
    return { parent, ids: (body as string[]).toSorted() };
  };

  test('gives several hundred children page by page, with totals, each once', async () => {
    const { parent, ids } = await familyOf(330);
    const pages = await Promise.all([1, 2, 3, 4, 5].map((page) => list(parent, `?size=100&page=${page}`)));
    expect(pages.map(({ body }) => body.data.length)).toEqual([100, 100, 100, 30, 0]);
    for (const [index, { body }] of pages.entries())
      expect(body.pagination).toMatchObject({
        total_items: 330,
        page_number: index + 1,
        page_size: 100,
        total_pages: 4,
      });
    expect(pages.flatMap(idsOf).toSorted()).toEqual(ids);
    expect((await list(parent)).body.data).toHaveLength(20);
  });

  test('goes on by its cursor, each child once, while others are linked', async () => {
    const { parent, ids } = await familyOf(230);
    const seen: string[] = [];
    let query = '?size=50';
    for (let pages = 0; pages < 10; pages += 1) {
      const answer = await list(parent, query);
      seen.push(...idsOf(answer));
      const { next } = answer.body.pagination;
      if (pages > 0) expect(Object.keys(answer.body.pagination)).not.toContain('total_items');
      if (next === undefined) break;
      query = `?size=50&start=${encodeURIComponent(next)}`;
      // Newer than all of them: before the first page, and on none of those that follow.
      await createChild(parent, { data: 'late' });
    }
    expect(seen.toSorted()).toEqual(ids);
  });

  test('is newest first, by the time of the child', async () => {
    const [parent, oldest] = [await newToken(), await newToken()];
    const first = (await createChild(parent, { data: 1 })).body.id;
    const second = (await createChild(parent, { data: 2 })).body.id;
    await link(parent, oldest);
    expect(idsOf(await list(parent))).toEqual([second, first, oldest]);
  });

  test('filters by ids, types and metadata, alone and together', async () => {
    const parent = await newToken();
    const unlinked = await newToken({ data: 'x', metadata: { order: '1' } });
    const one = (await createChild(parent, { data: 'x', metadata: { order: '1' } })).body.id;
    const two = (await createChild(parent, { type: 'card', data: card, metadata: { order: '1' } })).body.id;
    const three = (await createChild(parent, { type: 'card_number', data: card.number })).body.id;
    for (const [query, expected] of [
      [`?id=${one}`, [one]],
      [`?id=${one}&id=${three}&id=${unlinked}`, [one, three]],
      ['?type=card', [two]],
      ['?type=card&type=card_number', [two, three]],
      ['?metadata.order=1', [one, two]],
      ['?type=card&metadata.order=1', [two]],
      [`?id=${one}&type=card`, []],
      [`?id=${unlinked}`, []],
      [`?id=${parent}`, []],
    ] as const) {
      const answer = await list(parent, query);
      expect(idsOf(answer).toSorted(), query).toEqual(expected.toSorted());
      expect(answer.body.pagination.total_items, query).toBe(expected.length);
    }
    for (const query of [
      '?type=no_such_type',
      '?page=0',
      '?size=101',
      '?size=',
      '?start=x',
      '?metadata.a=1&metadata.a=2',
    ])
      expect((await list(parent, query)).status, query).toBe(400);
  });

  test('holds and counts only children that the caller may read', async () => {
    const parent = await newToken();
    const plain = (await createChild(parent, { data: 'x' })).body.id;
    const inPci = (await createChild(parent, { type: 'card', data: card })).body.id;
    const generalOnly = await onlyIn('/general/', ['token:read']);
    const answer = await list(parent, '', generalOnly.api_key);
    expect(idsOf(answer)).toEqual([plain]);
    expect(answer.body.pagination).toMatchObject({ total_items: 1, total_pages: 1 });
    expect(idsOf(await list(parent, `?id=${inPci}`, generalOnly.api_key))).toEqual([]);
    const pciOnly = await onlyIn('/pci/', ['token:read']);
    expect((await list(parent, '', pciOnly.api_key)).status).toBe(403);
    expect(
      (await list(parent, '', (await server.newKey(server.tenant, { permissions: ['token:create'] })).api_key)).status,
    ).toBe(403);
  });

  test('shows cards masked, raw under a reveal rule, and no security code to anyone', async () => {
    const parent = await newToken();
    await createChild(parent, { type: 'card', data: card });
    const plain = await list(parent);
    expect(plain.body.data[0]).toMatchObject({ data: masked, mask: masked });
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }];
    const revealing = await list(parent, '', (await server.newKey(server.tenant, { rules })).api_key);
    expect(revealing.body.data[0].data).toEqual({ number: card.number, expiration_month: 12, expiration_year: 2030 });
    for (const { text } of [plain, revealing]) expect(withoutDrawn(text)).not.toContain('cvc');
  });

  test('forgets a child from the moment it expires', async () => {
    const parent = await newToken();
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    const stays = (await createChild(parent, { data: 'x' })).body.id;
    await createChild(parent, { data: 'x', expires_at });
    expect((await list(parent)).body.pagination.total_items).toBe(2);
    server.clock.offsetMs = 60_000;
    try {
      const answer = await list(parent);
      expect(idsOf(answer)).toEqual([stays]);
      expect(answer.body.pagination.total_items).toBe(1);
    } finally {
      server.clock.offsetMs = 0;
    }
  });

  test('loses its links with child and parent, and a later token of that id inherits none', async () => {
    const parent = await newToken({ id: 'a-parent-again', data: 'x' });
    const [one, two] = [await newToken(), await newToken()];
    await link(parent, one);
    await link(parent, two);
    await link(two, parent);
    expect((await server.request('DELETE', `/tokens/${one}`)).status).toBe(204);
    expect(await childrenOf(parent)).toEqual([two]);
    expect(await linksOf(one)).toBe(0);
    expect((await server.request('DELETE', `/tokens/${parent}`)).status).toBe(204);
    expect(await linksOf(parent)).toBe(0);
    expect((await server.request('GET', `/tokens/${two}`)).status).toBe(200);
    await newToken({ id: 'a-parent-again', data: 'y' });
    expect([await childrenOf('a-parent-again'), await childrenOf(two)]).toEqual([[], []]);
  });
});

describe('the log of links', () => {
  test('has the change of the parent for a link made and a link taken away, with who did it', async () => {
    const [parent, child] = [await newToken(), await newToken()];
    await link(parent, child);
    await unlink(parent, child);
    const actor_id = server.tenant.application_id;
    expect((await logsOf(parent)).slice(0, 2)).toMatchObject([
      { operation: 'update', entity_type: 'token', message: 'Token association deleted', actor_id },
      { operation: 'update', entity_type: 'token', message: 'Token association created', actor_id },
    ]);
  });

  test('has the creation of a child, and a read of every child that a list shows', async () => {
    const parent = await newToken();
    const one = (await createChild(parent, { data: 'x' })).body.id;
    expect((await logsOf(parent))[0]).toMatchObject({ operation: 'update', message: 'Token association created' });
    const two = (await createChild(parent, { type: 'card', data: card })).body.id;
    await list(parent);
    for (const id of [one, two])
      expect((await logsOf(id)).map(({ operation }) => operation)).toEqual(['read', 'create']);
  });
});
