// Shared tests of what every resource of the API does alike: create, read, list, replace, delete, its log rows, its kept
// answers. Knows nothing of what a single resource is for: that is tested in the file of its chapter.
import { beforeAll, describe, expect, test } from 'vitest';
import { sweep } from '../../src/modules/tokens/sweep.ts';
import { hearNotices } from './notices.ts';
import type { Answer, SharedServer, TestTenant } from './server.ts';

export const UNKNOWN_ID = '7d6f1f5e-0000-4000-8000-000000000000';

type Attributes = Record<string, unknown>;

/** A body, and what answers show of the record beside `id`, `created_by` and `created_at`. */
export type Example = { body: Attributes; shown: Attributes };

type Made = { id: string } & Attributes;

export type Resource = {
  /** Path of the list; each record is below it. */
  path: string;
  table: string;
  entity_type: string;
  /** First words of its log messages. */
  title: string;
  /** The shortest body that creates one. Absent where no single request creates one. */
  least?: (server: SharedServer, owner: TestTenant) => Example | Promise<Example>;
  /** A body with every attribute. */
  most?: (server: SharedServer, owner: TestTenant) => Example | Promise<Example>;
  /** Creates one where `least` is absent. */
  make?: (server: SharedServer, owner: TestTenant) => Promise<Made>;
  /** Attributes of the body that may be absent: null says the same. */
  optional?: string[];
  /** Attributes that only the server sets, beside those of all records. */
  setByServer?: Attributes;
  /** Attributes that each creation draws. */
  drawn?: string[];
  /** Attributes that only the answer to the creation has. */
  shownOnce?: string[];
  /** What PUT sends for one made of `most`; absent where there is no PUT. */
  change?: (created: Made) => Example;
  /** Attributes that PUT never changes. */
  unchanging?: string[];
  /** Absent: a record can be read by its id. */
  isListOnly?: boolean;
  /** The attribute by which the list finds one record: absent, it cannot. */
  filter?: 'id' | 'user_id';
  isNamed?: boolean;
  /** The list has a filter by name. */
  isSearched?: boolean;
  /** The client may choose the id of a new one. */
  mayChooseId?: boolean;
  sizeMax?: number;
  /** What other processes hear of a change and of a deletion. */
  notice?: (record: Made, owner: TestTenant) => string;
  /** An answer with secrets is kept no longer than a security code. */
  hasSecrets?: boolean;
};

const idsOf = ({ body }: Answer): string[] => body.data.map(({ id }: { id: string }) => id);

const without = (record: Attributes, names: string[]): Attributes =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)));

const nulls = (names: string[] = []): Attributes => Object.fromEntries(names.map((name) => [name, null]));

/** Requests of one tenant to one resource. */
const clientOf = (server: SharedServer, resource: Resource) => {
  const send = (owner: TestTenant, method: string, suffix = '', json?: unknown, headers = {}): Promise<Answer> =>
    server.request(method, resource.path + suffix, {
      key: owner.api_key,
      headers,
      ...(json === undefined ? {} : { json }),
    });
  const create = async (owner: TestTenant, given: Attributes = {}): Promise<Made> => {
    if (!resource.least) return (resource.make as NonNullable<Resource['make']>)(server, owner);
    const { body } = await resource.least(server, owner);
    const answer = await send(owner, 'POST', '', { ...body, ...given });
    expect(answer.status, answer.text).toBe(201);
    return answer.body;
  };
  return { send, create };
};

/** Tests what a resource does alike with every other. @param getServer is called when tests run. */
export const describeResource = (name: string, getServer: () => SharedServer, resource: Resource): void => {
  const { least, most, change, notice, optional, shownOnce = [], drawn = [] } = resource;

  describe(name, () => {
    let server: SharedServer;
    let tenant: TestTenant;
    let send: ReturnType<typeof clientOf>['send'];
    let create: ReturnType<typeof clientOf>['create'];
    beforeAll(async () => {
      server = getServer();
      tenant = await server.newTenant();
      ({ send, create } = clientOf(server, resource));
    });

    const expected = (shown: Attributes) => ({
      ...shown,
      ...Object.fromEntries(drawn.map((each) => [each, expect.anything()])),
      id: expect.any(String),
      created_by: tenant.application_id,
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    });

    /** Creates one with every attribute. */
    const createFull = async (): Promise<Made> => {
      const { body } = (await most?.(server, tenant)) ?? { body: {} };
      return create(tenant, body);
    };

    const largest = most ?? least;
    if (largest)
      test('is created as it was sent, and is read and listed as the answer shows it', async () => {
        const { body, shown } = await largest(server, tenant);
        const answer = await send(tenant, 'POST', '', body);
        expect(answer.status, answer.text).toBe(201);
        const { id } = answer.body;
        expect(answer.body).toEqual(expected(shown));
        expect(answer.headers.get('location')).toBe(`${resource.path}/${id}`);
        const read = await send(tenant, 'GET', `/${id}`);
        expect(read.body).toEqual(without(answer.body, shownOnce));
        const listed = await send(tenant, 'GET', resource.filter ? `?${resource.filter}=${id}` : '');
        expect(listed.body.data.filter((each: Made) => each.id === id)).toEqual([read.body]);
      });

    if (least)
      test('takes null for what may be absent, and nothing that the server sets', async () => {
        const { body, shown } = await least(server, tenant);
        const chosen = {
          ...(!resource.mayChooseId && { id: UNKNOWN_ID }),
          tenant_id: UNKNOWN_ID,
          created_by: UNKNOWN_ID,
          created_at: '2020-01-01T00:00:00.000Z',
          ...resource.setByServer,
        };
        const answer = await send(tenant, 'POST', '', { ...body, ...nulls(optional), ...chosen });
        expect(answer.status, answer.text).toBe(201);
        expect(answer.body).toEqual(expected(shown));
        for (const [key, value] of Object.entries(chosen)) expect(answer.body[key], key).not.toBe(value);
      });

    if (change)
      test('is replaced as a whole by PUT, but for what cannot change', async () => {
        const created = await createFull();
        const { body, shown } = change(created);
        const answer = await send(tenant, 'PUT', `/${created.id}`, { ...body, created_by: UNKNOWN_ID });
        expect(answer.status, answer.text).toBe(200);
        const kept = ['id', 'created_by', 'created_at', ...(resource.unchanging ?? [])];
        expect(answer.body).toEqual({
          ...shown,
          ...Object.fromEntries(kept.map((each) => [each, created[each]])),
          modified_by: tenant.application_id,
          modified_at: expect.stringMatching(/Z$/),
        });
        expect((await send(tenant, 'GET', `/${created.id}`)).body).toEqual(answer.body);
      });

    test('is deleted with 204 and no body, and is gone then', async () => {
      const { id } = await create(tenant);
      const answer = await send(tenant, 'DELETE', `/${id}`);
      expect([answer.status, answer.text]).toEqual([204, '']);
      expect((await send(tenant, 'DELETE', `/${id}`)).status).toBe(404);
      if (!resource.isListOnly) expect((await send(tenant, 'GET', `/${id}`)).status).toBe(404);
      if (change) {
        const { body } = change({ id });
        expect((await send(tenant, 'PUT', `/${id}`, body)).status).toBe(404);
      }
      expect(idsOf(await send(tenant, 'GET'))).not.toContain(id);
      expect(await server.sql(`SELECT FROM ${resource.table} WHERE id = $1`, [id])).toEqual([]);
    });

    test('is deleted once: of two requests at the same time one answers 204, the other 404', async () => {
      const { id } = await create(tenant);
      const answers = await Promise.all([1, 2].map(() => send(tenant, 'DELETE', `/${id}`)));
      expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 404]);
      const [{ count }] = await server.sql(
        `SELECT count(*)::int FROM audit_log WHERE operation = 'delete' AND outcome = 'success' AND entity_ids = ARRAY[$1]`,
        [id],
      );
      expect(count).toBe(1);
    });

    if (!resource.isListOnly)
      test('is found by its id in capitals', async () => {
        const { id } = await create(tenant);
        expect((await send(tenant, 'GET', `/${id.toUpperCase()}`)).body.id).toBe(id);
      });

    test('is in the log with each operation and its actor', async () => {
      const owner = await server.newTenant();
      const created = await create(owner);
      const { id } = created;
      if (!resource.isListOnly) await send(owner, 'GET', `/${id}`);
      await send(owner, 'GET');
      if (change) await send(owner, 'PUT', `/${id}`, change(created).body);
      await send(owner, 'DELETE', `/${id}`);
      const rows = await server.sql(
        `SELECT operation, message, actor_id, actor_type, entity_type FROM audit_log
         WHERE tenant_id = $1 AND outcome = 'success' AND $2 = ANY(entity_ids) AND ($3 OR operation <> 'create')
         ORDER BY id`,
        [owner.tenant_id, id, least !== undefined],
      );
      const row = (operation: string, what: string) => ({
        operation,
        message: `${resource.title} ${what}`,
        actor_id: owner.application_id,
        actor_type: 'application',
        entity_type: resource.entity_type,
      });
      expect(rows).toEqual([
        ...(least ? [row('create', 'created')] : []),
        ...(resource.isListOnly ? [] : [row('read', 'retrieved')]),
        row('read', 'retrieved'),
        ...(change ? [row('update', 'updated')] : []),
        row('delete', 'deleted'),
      ]);
    });

    if (least)
      test('is created once under an idempotency key, and the kept answer has all of the first', async () => {
        const owner = await server.newTenant();
        const { body } = await least(server, owner);
        const count = async () => (await send(owner, 'GET')).body.pagination.total_items;
        const before = await count();
        const headers = { 'svc-idempotency-key': 'create' };
        const first = await send(owner, 'POST', '', body, headers);
        const again = await send(owner, 'POST', '', body, headers);
        expect([first.status, first.headers.get('svc-idempotent-replayed')]).toEqual([201, null]);
        expect([again.status, again.headers.get('svc-idempotent-replayed')]).toEqual([201, 'true']);
        expect(again.text).toBe(first.text);
        expect(again.headers.get('location')).toBe(first.headers.get('location'));
        expect(await count()).toBe(before + 1);
        if (!resource.hasSecrets) return;
        server.clock.offsetMs += server.ctx.config.cvcTtlMs;
        expect((await send(owner, 'POST', '', body, headers)).status).toBe(409);
        expect(await count()).toBe(before + 1);
      });

    if (change)
      test('is changed once under an idempotency key', async () => {
        const created = await createFull();
        const { body } = change(created);
        const put = (json: Attributes, headers = {}) => send(tenant, 'PUT', `/${created.id}`, json, headers);
        const headers = { 'svc-idempotency-key': crypto.randomUUID() };
        const first = await put(body, headers);
        const later = await put({ ...body, name: 'Changed since' });
        const again = await put(body, headers);
        expect([again.status, again.headers.get('svc-idempotent-replayed')]).toEqual([200, 'true']);
        expect(again.text).toBe(first.text);
        expect((await send(tenant, 'GET', `/${created.id}`)).body).toEqual(later.body);
      });

    if (notice)
      test('notifies every process of a change and of a deletion', async () => {
        const created = await createFull();
        const payload = notice(created, tenant);
        const heard = await hearNotices(server);
        try {
          if (change) {
            await send(tenant, 'PUT', `/${created.id}`, change(created).body);
            await heard.times(payload, 1);
          }
          await send(tenant, 'DELETE', `/${created.id}`);
          await heard.times(payload, change ? 2 : 1);
        } finally {
          await heard.close();
        }
      });

    test('is swept away with a deleted tenant', async () => {
      const gone = await server.newTenant();
      const { id } = await create(gone);
      expect((await server.request('DELETE', '/tenants/self', { key: gone.api_key })).status).toBe(204);
      await sweep(server.ctx);
      expect(await server.sql(`SELECT FROM ${resource.table} WHERE id = $1`, [id])).toEqual([]);
    });
  });
};

export type BadBody = [name: string, given: unknown, ...fields: string[]];

const badNames: BadBody[] = [
  ['no name', { name: undefined }, 'name'],
  ['an empty name', { name: '' }, 'name'],
  ['a name too long', { name: 'x'.repeat(201) }, 'name'],
  ['a name that is no text', { name: 1 }, 'name'],
  ['a name with NUL', { name: 'a\0b' }, 'name'],
];

/**
 * Tests that POST, and PUT of a record that stays as it was, refuse a body by the names of exactly its bad attributes.
 * @param bodies the bodies that a bad attribute is put into, as both requests take them.
 */
export const describeBadBodies = (
  getServer: () => SharedServer,
  path: string,
  bodies: (owner: TestTenant) => Promise<{ post: Attributes; put?: Attributes }>,
  cases: BadBody[],
): void => {
  describe(`POST ${path} and PUT`, () => {
    let server: SharedServer;
    let tenant: TestTenant;
    let requests: [method: string, path: string, body: Attributes][];
    let id: string;
    const read = () => server.request('GET', `${path}/${id}`, { key: tenant.api_key });
    beforeAll(async () => {
      server = getServer();
      tenant = await server.newTenant();
      const { post, put } = await bodies(tenant);
      const made = await server.request('POST', path, { key: tenant.api_key, json: post });
      expect(made.status, made.text).toBe(201);
      ({ id } = made.body);
      requests = [['POST', path, post], ...(put ? ([['PUT', `${path}/${id}`, put]] as typeof requests) : [])];
    });

    const always: BadBody[] = [
      ['nothing', undefined, 'body'],
      ['no object', [], 'body'],
    ];
    const isNamed = !path.startsWith('/tenants') && path !== '/sessions';
    test.each([...always, ...(isNamed ? badNames : []), ...cases])(
      'refuse a body with %s by the names of exactly its bad attributes',
      async (_name, given, ...fields) => {
        const before = (await read()).body;
        const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
        for (const [method, at, body] of requests) {
          const json = isObject ? { ...body, ...given } : given;
          const answer = await server.request(method, at, {
            key: tenant.api_key,
            ...(json === undefined ? {} : { json }),
          });
          expect(answer.status, answer.text).toBe(400);
          expect(Object.keys(answer.body.errors).toSorted(), method).toEqual(fields.toSorted());
        }
        expect((await read()).body).toEqual(before);
      },
    );
  });
};

const names = ['100% sure', '100_percent', 'back\\slash', 'Größe', 'Shop one', 'shop TWO', 'a*b'];

const searches: [name: string, found: string[]][] = [
  ['100% sure', ['100% sure']],
  ['100%*', ['100% sure']],
  ['100_*', ['100_percent']],
  ['100*', ['100% sure', '100_percent']],
  ['_00*', []],
  ['%', []],
  ['back\\slash', ['back\\slash']],
  ['back\\*', ['back\\slash']],
  ['*\\slash', ['back\\slash']],
  ['shop*', ['Shop one', 'shop TWO']],
  ['SHOP TWO', ['shop TWO']],
  ['*one', ['Shop one']],
  ['shop', []],
  ['GRÖSSE', []],
  ['größe', ['Größe']],
  ['gro\u0308ß*', ['Größe']],
  ['*', names],
  ['a*b', ['a*b']],
  ['*s*o*', ['Shop one', 'shop TWO']],
];

/** Tests the list of a resource: its order, its pages, its filters. */
export const describeList = (name: string, getServer: () => SharedServer, resource: Resource): void => {
  const { path, filter, isNamed, isSearched, sizeMax = 100 } = resource;

  describe(`the list of ${name}`, () => {
    let server: SharedServer;
    let owner: TestTenant;
    /** Newest first. */
    let ids: string[];
    /** What the filter finds each by, in the same order. */
    let keys: string[];
    const list = (query = '') => server.request('GET', path + query, { key: owner.api_key });

    beforeAll(async () => {
      server = getServer();
      owner = await server.newTenant();
      const { create } = clientOf(server, resource);
      ids = idsOf(await list());
      keys = [...ids];
      for (const each of isNamed ? names : names.slice(0, 5)) {
        server.clock.offsetMs += 1_000;
        const made = await create(owner, isNamed ? { name: each } : {});
        ids.unshift(made.id);
        keys.unshift(String(made[filter ?? 'id']));
      }
    });

    test('has pages, newest first, with totals', async () => {
      const total_items = ids.length;
      const all = await list();
      expect(idsOf(all)).toEqual(ids);
      expect(all.body.pagination).toEqual({ total_items, page_number: 1, page_size: 20, total_pages: 1 });
      const second = await list('?page=2&size=3');
      expect(idsOf(second)).toEqual(ids.slice(3, 6));
      const total_pages = Math.ceil(total_items / 3);
      expect(second.body.pagination).toEqual({ total_items, page_number: 2, page_size: 3, total_pages });
      expect((await list('?page=9')).body).toMatchObject({ data: [], pagination: { total_items } });
      expect(idsOf(await list(`?size=${sizeMax}`))).toEqual(ids);
    });

    if (filter)
      test('has those of some ids, in any case, and none of another tenant', async () => {
        const otherTenant = await server.newTenant();
        const theirs = await clientOf(server, resource).create(otherTenant);
        const asked = [keys[0], keys[2]?.toUpperCase(), String(theirs[filter ?? 'id']), UNKNOWN_ID];
        const some = await list(`?${asked.map((each) => `${filter}=${each}`).join('&')}`);
        expect(idsOf(some)).toEqual([ids[0], ids[2]]);
        expect(some.body.pagination.total_items).toBe(2);
        if (isSearched) expect(idsOf(await list(`?id=${ids[0]}&id=${ids[2]}&name=${names.at(-1)}`))).toEqual([ids[0]]);
      });

    if (isSearched)
      test.each(searches)('searched for %j takes all but * literally', async (searched, found) => {
        const answer = await list(`?name=${encodeURIComponent(searched)}`);
        expect(answer.status, answer.text).toBe(200);
        const shown: string[] = answer.body.data.map((each: Made) => each['name']);
        // The tenant may have had a record before.
        expect(shown.filter((each) => names.includes(each)).toSorted()).toEqual(found.toSorted());
        expect(answer.body.pagination.total_items).toBe(shown.length);
      });

    const refused = [
      ['page=0', 'page'],
      ['page=x', 'page'],
      ['size=0', 'size'],
      [`size=${sizeMax + 1}`, 'size'],
      ...(filter
        ? [
            [`${filter}=x`, filter],
            [`${filter}=${UNKNOWN_ID}&${filter}=x`, `${filter}[1]`],
          ]
        : []),
      ...(isSearched
        ? [
            ['name=', 'name'],
            [`name=${'x'.repeat(401)}`, 'name'],
            ['name=%00', 'name'],
            ['name=a&name=b', 'name'],
          ]
        : []),
    ];
    test.each(refused)('refuses ?%s by its name', async (query, field) => {
      const answer = await list(`?${query}`);
      expect(answer.status).toBe(400);
      expect(Object.keys(answer.body.errors)).toEqual([field]);
    });
  });
};
