// Reactors through the front door: a formula with its configuration, which is sealed, and an application whose
// permissions the code may use. What an invocation does with args and results is in react.test.ts.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Permission, permissions } from '../src/access/permissions.ts';
import { installOfficialFormulas } from '../src/runtime/official.ts';
import { sweep } from '../src/vault/sweep.ts';
import { hearNotices } from './support/notices.ts';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let tenant: TestTenant;
let stranger: TestTenant;
/** Of the tenant: one that wants a configuration, and one that wants none. */
let shop: { id: string };
let plain: { id: string };

const UNKNOWN_ID = '7d6f1f5e-0000-4000-8000-000000000000';

const code = 'module.exports = async ({ args, configuration }) => ({ raw: { args, configuration } });\n';
const contract = [
  { name: 'API_KEY', type: 'string' },
  { name: 'LIMIT', type: 'number' },
  { name: 'LIVE', type: 'boolean' },
];
const configuration = { API_KEY: 'sk_live_secret', LIMIT: 12.5, LIVE: false };

const send = (method: string, path: string, json?: unknown, key = tenant.api_key, headers = {}): Promise<Answer> =>
  server.request(method, path, { key, headers, ...(json === undefined ? {} : { json }) });

const made = async (path: string, json: object, key?: string) => {
  const answer = await send('POST', path, json, key);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const createFormula = (json: object = {}, key?: string) =>
  made('/reactor-formulas', { name: 'Formula', type: 'private', code, ...json }, key);

const create = (json: object = {}, key?: string) =>
  made('/reactors', { name: 'Reactor', formula: { id: shop.id }, configuration, ...json }, key);

/** A key of the tenant with these permissions and no others, made by the operator. */
const keyWith = async (...held: Permission[]): Promise<string> =>
  (await server.newKey(tenant, { permissions: held })).api_key;

const idsOf = ({ body }: Answer): string[] => body.data.map(({ id }: { id: string }) => id);

beforeAll(async () => {
  server = await startServer();
  tenant = await server.newTenant();
  stranger = await server.newTenant();
  shop = await createFormula({ configuration: contract });
  plain = await createFormula({ name: 'Plain' });
});
afterAll(() => server.close());

describe('a reactor', () => {
  test('is made and told with its formula, its configuration and its application', async () => {
    const application = await server.newKey(tenant, { permissions: ['token:read'] });
    const answer = await send('POST', '/reactors', {
      name: 'Shop',
      formula: { id: shop.id.toUpperCase(), name: 'is not looked at' },
      configuration,
      application: { id: application.application_id.toUpperCase() },
    });
    expect(answer.status, answer.text).toBe(201);
    const { id, created_at, ...rest } = answer.body;
    expect(answer.headers.get('location')).toBe(`/reactors/${id}`);
    expect(new Date(created_at).toISOString()).toBe(created_at);
    expect(rest).toEqual({
      tenant_id: tenant.tenant_id,
      name: 'Shop',
      formula: shop,
      configuration,
      application: {
        id: application.application_id,
        tenant_id: tenant.tenant_id,
        name: 'First application',
        type: 'private',
      },
      created_by: tenant.application_id,
    });
    expect((await send('GET', `/reactors/${id}`)).body).toEqual(answer.body);
    expect((await send('GET', `/reactors?id=${id}`)).body.data).toEqual([answer.body]);
    const run = await send('POST', `/reactors/${id}/react`, { args: { a: 1 } });
    expect(run.status, run.text).toBe(200);
    expect(run.body.raw).toEqual({ args: { a: 1 }, configuration });
  });

  test('takes null for what may be left out, and nothing that is not its to choose', async () => {
    const reactor = await create({
      formula: { id: plain.id },
      configuration: null,
      application: null,
      id: UNKNOWN_ID,
      tenant_id: stranger.tenant_id,
      created_by: UNKNOWN_ID,
    });
    expect(reactor).toEqual({
      id: expect.not.stringContaining(UNKNOWN_ID),
      tenant_id: tenant.tenant_id,
      name: 'Reactor',
      formula: plain,
      configuration: {},
      created_by: tenant.application_id,
      created_at: expect.any(String),
    });
    expect(await create({ formula: { id: plain.id }, configuration: undefined, application: { id: null } })).toEqual({
      ...reactor,
      id: expect.any(String),
      created_at: expect.any(String),
    });
  });

  test('is replaced as a whole, but for its formula, and runs so at once', async () => {
    const application = await server.newKey(tenant, { permissions: ['token:read'] });
    const reactor = await create({ application: { id: application.application_id } });
    const react = async () => (await send('POST', `/reactors/${reactor.id}/react`, {})).body.raw.configuration;
    expect(await react()).toEqual(configuration);
    const renewed = { API_KEY: 'sk_other', LIMIT: 0, LIVE: true };
    const answer = await send('PUT', `/reactors/${reactor.id}`, {
      name: 'Renamed',
      formula: { id: shop.id.toUpperCase() },
      configuration: renewed,
    });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body).toEqual({
      id: reactor.id,
      tenant_id: tenant.tenant_id,
      name: 'Renamed',
      formula: shop,
      configuration: renewed,
      created_by: tenant.application_id,
      created_at: reactor.created_at,
      modified_by: tenant.application_id,
      modified_at: expect.any(String),
    });
    expect(await react()).toEqual(renewed);
    expect((await send('GET', `/reactors/${reactor.id}`)).body).toEqual(answer.body);
  });

  test('keeps its formula: a change that names another one is a 400, and one that names none is fine', async () => {
    const { id, modified_at } = await create();
    for (const other of [plain.id, UNKNOWN_ID]) {
      const answer = await send('PUT', `/reactors/${id}`, { name: 'Changed', formula: { id: other }, configuration });
      expect([answer.status, answer.body.errors], answer.text).toEqual([
        400,
        { 'formula.id': ['must be the formula that the reactor is made of: it cannot change'] },
      ]);
    }
    for (const formula of [UNKNOWN_ID, {}, { id: 'x' }])
      expect((await send('PUT', `/reactors/${id}`, { name: 'Changed', formula, configuration })).status).toBe(400);
    expect((await send('GET', `/reactors/${id}`)).body).toMatchObject({ name: 'Reactor', formula: shop });
    expect(modified_at).toBeUndefined();
    for (const formula of [undefined, null, shop])
      expect((await send('PUT', `/reactors/${id}`, { name: 'Changed', formula, configuration })).status).toBe(200);
  });

  test('is deleted, at once, and its formula and application stay', async () => {
    const application = await server.newKey(tenant, { permissions: ['token:read'] });
    const { id } = await create({ application: { id: application.application_id } });
    expect((await send('POST', `/reactors/${id}/react`, {})).status).toBe(200);
    const answer = await send('DELETE', `/reactors/${id}`);
    expect(answer.status).toBe(204);
    expect(answer.text).toBe('');
    for (const [method, path] of [
      ['GET', `/reactors/${id}`],
      ['DELETE', `/reactors/${id}`],
      ['POST', `/reactors/${id}/react`],
    ] as const)
      expect((await send(method, path)).status).toBe(404);
    expect(await server.sql('SELECT * FROM reactors WHERE id = $1', [id])).toEqual([]);
    expect((await send('GET', `/reactor-formulas/${shop.id}`)).status).toBe(200);
    expect((await send('GET', `/applications/${application.application_id}`)).status).toBe(200);
  });

  test('is in the log with every deed, and with who did it', async () => {
    const { id } = await create();
    await send('GET', `/reactors/${id}`);
    await send('GET', `/reactors?id=${id}`);
    await send('PUT', `/reactors/${id}`, { name: 'x', configuration });
    await send('POST', `/reactors/${id}/react`, {});
    await send('DELETE', `/reactors/${id}`);
    const rows = await server.sql(
      `SELECT operation, message, actor_id, actor_type, entity_type FROM audit_log
       WHERE tenant_id = $1 AND entity_ids = ARRAY[$2] ORDER BY id`,
      [tenant.tenant_id, id],
    );
    const deed = (operation: string, message: string) => ({
      operation,
      message,
      actor_id: tenant.application_id,
      actor_type: 'application',
      entity_type: 'reactor',
    });
    expect(rows).toEqual([
      deed('create', 'Reactor created'),
      deed('read', 'Reactor retrieved'),
      deed('read', 'Reactor retrieved'),
      deed('update', 'Reactor updated'),
      deed('use', 'Reactor used'),
      deed('delete', 'Reactor deleted'),
    ]);
  });

  test('is made once under an idempotency key, whose answer is kept no longer than a security code', async () => {
    const headers = { 'svc-idempotency-key': 'reactor-once' };
    const json = { name: 'Once', formula: { id: shop.id }, configuration };
    const first = await send('POST', '/reactors', json, tenant.api_key, headers);
    const second = await send('POST', '/reactors', json, tenant.api_key, headers);
    expect(second.headers.get('svc-idempotent-replayed')).toBe('true');
    expect(second.status).toBe(201);
    expect(second.headers.get('location')).toBe(first.headers.get('location'));
    expect(second.text).toBe(first.text);
    expect(idsOf(await send('GET', '/reactors?name=Once'))).toEqual([first.body.id]);
    server.clock.offsetMs += server.ctx.config.cvcTtlMs;
    const late = await send('POST', '/reactors', json, tenant.api_key, headers);
    expect(late.status, late.text).toBe(409);
    expect(idsOf(await send('GET', '/reactors?name=Once'))).toEqual([first.body.id]);
  });

  test('tells every process of a change and of its end, so that none runs what was', async () => {
    const { id } = await create();
    const heard = await hearNotices(server);
    try {
      const notice = `runnable ${tenant.tenant_id}`;
      await send('PUT', `/reactors/${id}`, { name: 'x', configuration });
      await heard.times(notice, 1);
      await send('DELETE', `/reactors/${id}`);
      await heard.times(notice, 2);
    } finally {
      await heard.close();
    }
  });
});

describe('a configuration', () => {
  test('is sealed at rest, under the tenant, the reactor and the field', async () => {
    const value = crypto.randomUUID();
    const [one, two] = [
      await create({ configuration: { ...configuration, API_KEY: value } }),
      await create({ configuration: { ...configuration, API_KEY: value } }),
    ];
    const rows = await server.sql('SELECT * FROM reactors WHERE id = ANY($1::uuid[])', [[one.id, two.id]]);
    expect(rows).toHaveLength(2);
    expect(rows[0].sealed.equals(rows[1].sealed)).toBe(false);
    for (const row of rows)
      for (const column of Object.values(row)) {
        const bytes = Buffer.isBuffer(column) ? column : Buffer.from(JSON.stringify(column));
        expect(bytes.includes(value)).toBe(false);
        expect(bytes.includes('API_KEY')).toBe(false);
      }
    const { sealed } = rows.find(({ id }) => id === two.id);
    await server.sql('UPDATE reactors SET sealed = $2 WHERE id = $1', [one.id, sealed]);
    const moved = await send('GET', `/reactors/${one.id}`);
    expect(moved.status).toBe(500);
    expect(moved.text).not.toContain(value);
    await server.sql('DELETE FROM reactors WHERE id = $1', [one.id]);
  });

  test('that a changed formula no longer takes is found by the next invocation and the next change', async () => {
    const own = await createFormula({ configuration: contract });
    const { id } = await create({ formula: { id: own.id } });
    const changed = { name: 'Formula', type: 'private', code, configuration: [{ name: 'OTHER', type: 'string' }] };
    expect((await send('PUT', `/reactor-formulas/${own.id}`, changed)).status).toBe(200);
    const run = await send('POST', `/reactors/${id}/react`, {});
    expect(run.status).toBe(400);
    expect(Object.keys(run.body.errors).toSorted()).toEqual(
      ['configuration.API_KEY', 'configuration.LIMIT', 'configuration.LIVE', 'configuration.OTHER'].toSorted(),
    );
    expect((await send('PUT', `/reactors/${id}`, { name: 'x', configuration })).status).toBe(400);
    const fitting = { name: 'x', configuration: { OTHER: 'y' } };
    expect((await send('PUT', `/reactors/${id}`, fitting)).status).toBe(200);
    expect((await send('POST', `/reactors/${id}/react`, {})).status).toBe(200);
  });
});

describe('a bad body', () => {
  const cases: [name: string, change: unknown, ...fields: string[]][] = [
    ['none', undefined, ''],
    ['no object', [], ''],
    ['no name', { name: undefined }, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a name too long', { name: 'x'.repeat(201) }, 'name'],
    ['a name with NUL', { name: 'a\0b' }, 'name'],
    ['a configuration that is no object', { configuration: 'x' }, 'configuration'],
    ['a configuration that is a list', { configuration: [] }, 'configuration'],
    ['no configuration', { configuration: null }, 'configuration.API_KEY', 'configuration.LIMIT', 'configuration.LIVE'],
    ['a name missing', { configuration: { ...configuration, LIVE: undefined } }, 'configuration.LIVE'],
    ['a value that is null', { configuration: { ...configuration, LIVE: null } }, 'configuration.LIVE'],
    ['a name too much', { configuration: { ...configuration, MORE: 1 } }, 'configuration.MORE'],
    ['a text in place of a number', { configuration: { ...configuration, LIMIT: '12' } }, 'configuration.LIMIT'],
    ['a number in place of a text', { configuration: { ...configuration, API_KEY: 12 } }, 'configuration.API_KEY'],
    ['a text in place of a boolean', { configuration: { ...configuration, LIVE: 'true' } }, 'configuration.LIVE'],
    ['an object in place of a text', { configuration: { ...configuration, API_KEY: {} } }, 'configuration.API_KEY'],
    ['a text too long', { configuration: { ...configuration, API_KEY: 'x'.repeat(4_001) } }, 'configuration.API_KEY'],
    ['a text with NUL', { configuration: { ...configuration, API_KEY: '\0' } }, 'configuration.API_KEY'],
    ['half a character', { configuration: { ...configuration, API_KEY: '\ud800' } }, 'configuration.API_KEY'],
    ['an application that is no object', { application: UNKNOWN_ID }, 'application'],
    ['an application with a bad id', { application: { id: 'x' } }, 'application.id'],
  ];
  const merged = (change: unknown, base: object) =>
    typeof change === 'object' && !Array.isArray(change) ? { ...base, ...change } : change;
  test.each(cases)('with %s is refused by the name of the field', async (_name, change, ...fields) => {
    const { id } = await create();
    const base = { name: 'x', configuration };
    for (const [method, path, body] of [
      ['POST', '/reactors', merged(change, { ...base, formula: { id: shop.id } })],
      ['PUT', `/reactors/${id}`, merged(change, base)],
    ] as const) {
      const answer = await send(method, path, body);
      expect(answer.status, answer.text).toBe(400);
      // Without a body to look into, nothing of it is said to be missing.
      expect(Object.keys(answer.body.errors)).toEqual(fields);
    }
  });

  test.each([
    ['no formula', undefined, 'formula'],
    ['a formula that is no object', UNKNOWN_ID, 'formula'],
    ['a formula without an id', {}, 'formula.id'],
    ['a formula with a bad id', { id: 'x' }, 'formula.id'],
  ])('with %s makes no reactor', async (_name, formula, field) => {
    const answer = await send('POST', '/reactors', { name: 'x', configuration, formula });
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([field]);
  });

  test('is refused without a word of what was sent', async () => {
    const answer = await send('POST', '/reactors', {
      name: 'x',
      formula: { id: shop.id },
      configuration: { API_KEY: { secret: 1 }, LIMIT: 'secret', LIVE: 'secret' },
    });
    expect(answer.status).toBe(400);
    expect(answer.text).not.toContain('secret');
  });

  test('names a formula that is not there yet', async () => {
    const id = crypto.randomUUID();
    const now = server.ctx.now();
    const soon = { id, name: 'Soon', description: null, icon: null, status: 'coming_soon', code };
    await server.ctx.db.installFormulas([{ ...soon, configuration: [], request_parameters: [] }], now);
    const answer = await send('POST', '/reactors', { name: 'x', formula: { id } });
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual(['formula.id']);
    await server.sql('DELETE FROM official_formulas WHERE id = $1', [id]);
  });
});

describe('a formula or application that is not the tenant’s', () => {
  const trace = { 'svc-trace-id': 'the-same' };
  test.each(['formula', 'application'] as const)('is a 404 like an unknown %s, byte for byte', async (kind) => {
    const theirs = kind === 'formula' ? (await createFormula({}, stranger.api_key)).id : stranger.application_id;
    const base = { name: 'x', formula: { id: plain.id } };
    const { id } = await create({ formula: { id: plain.id }, configuration: {} });
    const ask = (method: string, path: string, named: string) =>
      send(method, path, { ...base, [kind]: { id: named } }, tenant.api_key, trace);
    const logs = async () => (await server.sql("SELECT count(*) FROM audit_log WHERE outcome = 'success'"))[0].count;
    const before = await logs();
    const foreign = await ask('POST', '/reactors', theirs);
    expect(foreign.status).toBe(404);
    expect(foreign.text).toBe((await ask('POST', '/reactors', UNKNOWN_ID)).text);
    if (kind === 'application') {
      const changed = await ask('PUT', `/reactors/${id}`, theirs);
      expect(changed.status).toBe(404);
      expect(changed.text).toBe((await ask('PUT', `/reactors/${id}`, UNKNOWN_ID)).text);
    }
    expect(await logs()).toBe(before);
  });
});

describe('an application of a reactor (docs/decisions/0018)', () => {
  const strongest: Permission[] = ['token:read', 'proxy:delete'];
  let strong: TestTenant;
  let weak: string;
  let equal: string;
  const body = (application_id?: string) => ({
    name: 'x',
    formula: { id: plain.id },
    configuration: {},
    ...(application_id !== undefined && { application: { id: application_id } }),
  });
  beforeAll(async () => {
    strong = await server.newKey(tenant, { permissions: strongest });
    weak = await keyWith('reactor:create', 'reactor:update', 'token:read');
    equal = await keyWith('reactor:create', 'reactor:update', ...strongest);
  });

  test('is given by whoever holds all that it has, and by nobody else', async () => {
    const refused = await send('POST', '/reactors', body(strong.application_id), weak);
    expect(refused.status, refused.text).toBe(403);
    expect(refused.body.detail).toContain('proxy:delete');
    expect((await send('POST', '/reactors', body(strong.application_id), equal)).status).toBe(201);
    const ruled = await server.newKey(tenant, {
      permissions: [],
      rules: [{ priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:read'] }],
    });
    const byRule = await send('POST', '/reactors', body(ruled.application_id), weak);
    // A plain token:read shows less than a rule that reveals.
    expect(byRule.status, byRule.text).toBe(403);
    expect(byRule.body.detail).toContain('token:read');
  });

  test('binds every change: the caller must hold what it may, before the change and after it', async () => {
    const without = await create(body());
    const refused = await send('PUT', `/reactors/${without.id}`, body(strong.application_id), weak);
    expect(refused.status).toBe(403);
    expect(refused.body.detail).toContain('proxy:delete');
    expect((await send('GET', `/reactors/${without.id}`)).body).toEqual(without);
    const having = await create(body(strong.application_id));
    for (const json of [{ ...body(strong.application_id), name: 'y' }, body(strong.application_id), body()]) {
      const answer = await send('PUT', `/reactors/${having.id}`, json, weak);
      expect(answer.status, answer.text).toBe(403);
      expect(answer.body.detail).toContain('proxy:delete');
    }
    expect((await send('GET', `/reactors/${having.id}`)).body).toEqual(having);
    const changed = await send('PUT', `/reactors/${having.id}`, { ...body(strong.application_id), name: 'y' }, equal);
    expect(changed.status, changed.text).toBe(200);
    const gone = await send('PUT', `/reactors/${having.id}`, body(), equal);
    expect(gone.status).toBe(200);
    expect(gone.body).not.toHaveProperty('application');
    expect((await send('PUT', `/reactors/${having.id}`, { ...body(), name: 'z' }, weak)).status).toBe(200);
  });

  test('that is deleted is gone from its reactors at once, and `svc` with it', async () => {
    const asks = await createFormula({ code: 'module.exports = ({ svc }) => ({ raw: svc === null })' });
    const doomed = await server.newKey(tenant, { permissions: ['token:read'] });
    const { id } = await create({ ...body(doomed.application_id), formula: { id: asks.id }, configuration: {} });
    const react = async () => (await send('POST', `/reactors/${id}/react`, {})).body.raw;
    expect(await react()).toBe(false);
    expect((await send('DELETE', `/applications/${doomed.application_id}`)).status).toBe(204);
    expect(await react()).toBe(true);
    expect((await send('GET', `/reactors/${id}`)).body).not.toHaveProperty('application');
    const again = await send('PUT', `/reactors/${id}`, body(doomed.application_id));
    expect(again.status).toBe(404);
  });
});

describe('the list', () => {
  let owner: TestTenant;
  const ids: string[] = [];
  const names = ['100% sure', '100_percent', 'back\\slash', 'Größe', 'Shop one', 'shop TWO', 'a*b'];
  const list = (query: string) => send('GET', `/reactors${query}`, undefined, owner.api_key);
  beforeAll(async () => {
    owner = await server.newTenant();
    const formula = await createFormula({}, owner.api_key);
    for (const name of names) {
      server.clock.offsetMs += 1_000;
      ids.unshift((await create({ name, formula: { id: formula.id }, configuration: {} }, owner.api_key)).id);
    }
  });

  test('has pages, newest first, of this tenant alone', async () => {
    const all = await list('');
    expect(idsOf(all)).toEqual(ids);
    expect(all.body.pagination).toEqual({ total_items: 7, page_number: 1, page_size: 20, total_pages: 1 });
    const second = await list('?page=2&size=3');
    expect(idsOf(second)).toEqual(ids.slice(3, 6));
    expect(second.body.pagination).toEqual({ total_items: 7, page_number: 2, page_size: 3, total_pages: 3 });
    expect((await list('?page=9')).body).toMatchObject({ data: [], pagination: { total_items: 7 } });
    const theirs = await create();
    const some = await list(`?id=${ids[0]}&id=${ids[2]?.toUpperCase()}&id=${theirs.id}&id=${UNKNOWN_ID}`);
    expect(idsOf(some)).toEqual([ids[0], ids[2]]);
    expect(some.body.pagination.total_items).toBe(2);
    expect(idsOf(await list(`?id=${ids[0]}&id=${ids[2]}&name=${names[6]}`))).toEqual([ids[0]]);
  });

  const searches: [name: string, found: string[]][] = [
    ['100%25 sure', ['100% sure']],
    ['100%25*', ['100% sure']],
    ['100_*', ['100_percent']],
    ['100*', ['100% sure', '100_percent']],
    ['_00*', []],
    ['%25', []],
    ['back\\slash', ['back\\slash']],
    ['back\\*', ['back\\slash']],
    ['shop*', ['Shop one', 'shop TWO']],
    ['SHOP TWO', ['shop TWO']],
    ['*one', ['Shop one']],
    ['shop', []],
    ['gr%C3%B6%C3%9Fe', ['Größe']],
    ['*', names],
  ];
  test.each(searches)('searched for %s finds what it says, all else literal', async (name, found) => {
    const answer = await list(`?name=${name}`);
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body.data.map((each: { name: string }) => each.name).toSorted()).toEqual(found.toSorted());
    expect(answer.body.pagination.total_items).toBe(found.length);
  });

  test.each(['page=0', 'page=x', 'size=0', 'size=101', 'id=x', 'name=', 'name=%00', 'name=a&name=b'])(
    'refuses ?%s by its name',
    async (query) => {
      const answer = await list(`?${query}`);
      expect(answer.status).toBe(400);
      expect(Object.keys(answer.body.errors)[0]).toMatch(new RegExp(`^${query.split('=', 1)[0]}`));
    },
  );
});

const routes: [method: string, path: string, permission: Permission, json?: () => unknown][] = [
  ['POST', '/reactors', 'reactor:create', () => ({ name: 'x', formula: { id: plain.id } })],
  ['GET', '/reactors', 'reactor:read'],
  ['GET', '/reactors/ID', 'reactor:read'],
  ['PUT', '/reactors/ID', 'reactor:update', () => ({ name: 'x', configuration })],
  ['DELETE', '/reactors/ID', 'reactor:delete'],
  ['POST', '/reactors/ID/react', 'token:use', () => ({ args: {} })],
];

describe.each(routes)('%s %s', (method, path, permission, bodyOf) => {
  const at = (id: string) => path.replace('ID', id);

  test('refuses no key, and a key without its permission', async () => {
    const { id } = await create();
    expect((await server.request(method, at(id), { key: null, json: bodyOf?.() })).status).toBe(401);
    const others = await keyWith(...permissions.filter((each) => each !== permission));
    const answer = await send(method, at(id), bodyOf?.(), others);
    expect(answer.status).toBe(403);
    expect(answer.body.detail).toContain(permission);
    expect((await send('GET', `/reactors/${id}`)).status).toBe(200);
  });

  test.runIf(path.includes('ID'))(
    "answers a stranger's id byte for byte like an unknown one, and a bad one by its name",
    async () => {
      const trace = { 'svc-trace-id': 'the-same' };
      const formula = await createFormula({}, stranger.api_key);
      const theirs = await create({ formula: { id: formula.id }, configuration: {} }, stranger.api_key);
      const logs = async () => (await server.sql("SELECT count(*) FROM audit_log WHERE outcome = 'success'"))[0].count;
      const before = await logs();
      const foreign = await send(method, at(theirs.id), bodyOf?.(), tenant.api_key, trace);
      const unknown = await send(method, at(UNKNOWN_ID), bodyOf?.(), tenant.api_key, trace);
      expect(foreign.status).toBe(404);
      expect(foreign.text).toBe(unknown.text);
      expect(await logs()).toBe(before);
      expect((await send('GET', `/reactors/${theirs.id}`, undefined, stranger.api_key)).body).toEqual(theirs);
      const bad = await send(method, at('not-an-id'), bodyOf?.());
      expect(bad.status).toBe(400);
      expect(Object.keys(bad.body.errors)).toEqual(['id']);
    },
  );
});

test('reactors of an official formula and of a deleted tenant are no exception to the sweep', async () => {
  await installOfficialFormulas(server.ctx);
  const gone = await server.newTenant();
  const cardCheck = '5f0c2f4e-6b1d-4f36-9a54-0d8a3c1e7b01';
  const { id } = await create({ formula: { id: cardCheck }, configuration: {} }, gone.api_key);
  expect((await send('DELETE', '/tenants/self', undefined, gone.api_key)).status).toBe(204);
  await sweep(server.ctx);
  expect(await server.sql('SELECT * FROM reactors WHERE id = $1', [id])).toEqual([]);
  expect(await server.sql('SELECT id FROM official_formulas WHERE id = $1', [cardCheck])).toHaveLength(1);
});
