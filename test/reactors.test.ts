// Reactors over HTTP: a formula with its sealed configuration, and an application for the permissions of the code.
// Args and results of invocations are in react.test.ts.
import { installFormulas } from '../src/modules/code/rows/formulas.ts';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Permission } from '../src/modules/access/permissions.ts';
import { installOfficialFormulas } from '../src/modules/code/official.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { type BadBody, describeBadBodies, UNKNOWN_ID } from './support/resource.ts';
import { type Answer, type SharedServer, type TestTenant, useServer } from './support/server.ts';

let server: SharedServer;
let tenant: TestTenant;
/** Of the tenant: one that wants a configuration, and one that wants none. */
let shop: { id: string };
let plain: { id: string };

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

beforeAll(async () => {
  server = await useServer();
  tenant = await server.newTenant();
  shop = await createFormula({ configuration: contract });
  plain = await createFormula({ name: 'Plain' });
});

describe('a reactor', () => {
  test('runs with its configuration, and with another one from the very next run on', async () => {
    const { id } = await create();
    const react = async () => (await send('POST', `/reactors/${id}/react`, { args: { a: 1 } })).body.raw;
    expect(await react()).toEqual({ args: { a: 1 }, configuration });
    const renewed = { API_KEY: 'sk_other', LIMIT: 0, LIVE: true };
    const answer = await send('PUT', `/reactors/${id}`, { name: 'Renamed', configuration: renewed });
    expect(answer.status, answer.text).toBe(200);
    expect(await react()).toEqual({ args: { a: 1 }, configuration: renewed });
  });

  test('is in the log when it runs', async () => {
    const { id } = await create();
    await send('POST', `/reactors/${id}/react`, {});
    const rows = await server.sql(
      `SELECT operation, message, entity_type FROM audit_log WHERE entity_ids = ARRAY[$1] AND operation = 'use'`,
      [id],
    );
    expect(rows).toEqual([{ operation: 'use', message: 'Reactor used', entity_type: 'reactor' }]);
  });

  test('keeps its formula: a change that names another is a 400, and one that names none passes', async () => {
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
    expect((await send('DELETE', `/reactors/${id}`)).status).toBe(204);
    expect((await send('POST', `/reactors/${id}/react`, {})).status).toBe(404);
    expect((await send('GET', `/reactor-formulas/${shop.id}`)).status).toBe(200);
    expect((await send('GET', `/applications/${application.application_id}`)).status).toBe(200);
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
  const cases: BadBody[] = [
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
  const bodies = async ({ api_key }: TestTenant) => {
    const formula = await createFormula({ configuration: contract }, api_key);
    const put = { name: 'x', configuration };
    return { post: { ...put, formula: { id: formula.id } }, put };
  };
  describeBadBodies(() => server, '/reactors', bodies, cases);

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
    await installFormulas(server.ctx.db, [{ ...soon, configuration: [], request_parameters: [] }], now);
    const answer = await send('POST', '/reactors', { name: 'x', formula: { id } });
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual(['formula.id']);
    await server.sql('DELETE FROM official_formulas WHERE id = $1', [id]);
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

  test('is given only by a caller that holds all its permissions', async () => {
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
