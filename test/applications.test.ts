// Applications and permissions over HTTP: callers, what they may grant, and keys that are shown once.
import { CALLER_CACHE_MS, createCallerFinder } from '../src/modules/access/caller-finder.ts';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Announced, createChanges } from '../src/platform/base/cache.ts';
import { type Permission, permissions } from '../src/modules/access/permissions.ts';
import { updateApplication } from '../src/modules/access/rows/applications.ts';
import { operatorTransaction } from '../src/modules/access/work.ts';
import { deafen, hearChanges, hearNotices } from './support/notices.ts';
import { type BadBody, describeBadBodies, UNKNOWN_ID } from './support/resource.ts';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let tenant: TestTenant;

beforeAll(async () => {
  server = await startServer();
  tenant = await server.newTenant();
});
afterAll(() => server.close());

const send = (method: string, path: string, json?: unknown, key = tenant.api_key, headers = {}): Promise<Answer> =>
  server.request(method, path, { key, headers, ...(json === undefined ? {} : { json }) });

const create = async (json: object, key = tenant.api_key) => {
  const answer = await send('POST', '/applications', { name: 'Made', ...json }, key);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

/** A key of the tenant with these permissions and no others, made by the operator. */
const keyWith = async (...held: Permission[]): Promise<string> =>
  (await server.newKey(tenant, { permissions: held })).api_key;

const statusOf = async (key: string, at: TestServer = server): Promise<number> =>
  (await at.request('GET', '/applications/key', { key })).status;

const logsOf = (id: string) =>
  server.sql(
    `SELECT operation, message, actor_id, actor_type, entity_type FROM audit_log
     WHERE tenant_id = $1 AND entity_ids = ARRAY[$2] AND outcome = 'success' ORDER BY id`,
    [tenant.tenant_id, id],
  );

const rule = {
  description: 'Support',
  priority: 1,
  container: '/pci/',
  transform: 'reveal',
  permissions: ['token:read'],
};

describe('an application', () => {
  test('is made with its key, which works and is shown by this answer alone', async () => {
    const { key, ...shown } = await create({ type: 'management', permissions: ['token:create'] });
    expect(key).toMatch(/^svc_test_/);
    expect((await server.tokenize('x', key)).status).toBe(200);
    expect((await send('GET', '/applications/key', undefined, key)).body).toEqual(shown);
    const changed = await send('PUT', `/applications/${shown.id}`, { name: 'Checkout', permissions: ['token:create'] });
    expect(changed.text).not.toContain('svc_');
    expect(await server.sql('SELECT * FROM applications').then(JSON.stringify)).not.toContain(key);
    expect(server.logLines.join('')).not.toContain(key);
  });

  test('that is changed has its new permissions at once', async () => {
    const made = await create({ type: 'management', permissions: ['log:read', 'proxy:read'], rules: [rule] });
    expect((await server.tokenize('x', made.key)).status).toBe(403);
    const answer = await send('PUT', `/applications/${made.id}`, {
      name: 'Renamed',
      type: 'public',
      permissions: ['token:create'],
    });
    expect(answer.status).toBe(200);
    expect((await server.tokenize('x', made.key)).status).toBe(200);
  });

  test('is deleted with its key, on the very next request', async () => {
    const made = await create({ permissions: ['token:create'] });
    expect(await statusOf(made.key)).toBe(200);
    const answer = await send('DELETE', `/applications/${made.id}`);
    expect(answer.status).toBe(204);
    expect(await statusOf(made.key)).toBe(401);
    expect(await server.sql('SELECT * FROM api_keys WHERE application_id = $1', [made.id])).toEqual([]);
  });
});

describe('a bad body', () => {
  const cases: BadBody[] = [
    ['a permission that is none', { permissions: ['log:read', 'token:everything'] }, 'permissions[1]'],
    ['permissions that are no list', { permissions: 'log:read' }, 'permissions'],
    ['too many permissions', { permissions: Array(51).fill('log:read') }, 'permissions'],
    ['neither permissions nor rules', { permissions: undefined }, 'permissions'],
    ['nothing in either', { permissions: [], rules: [] }, 'permissions'],
    ['rules that are no list', { rules: {} }, 'rules'],
    ['too many rules', { rules: Array.from({ length: 51 }, () => rule) }, 'rules'],
    ['a rule without a priority', { rules: [{ ...rule, priority: undefined }] }, 'rules[0].priority'],
    ['a rule on a bad container', { rules: [rule, { ...rule, container: 'pci' }] }, 'rules[1].container'],
    ['a rule on nothing', { rules: [{ ...rule, container: undefined }] }, 'rules[0]'],
    ['a rule for no token', { rules: [{ ...rule, permissions: ['log:read'] }] }, 'rules[0].permissions[0]'],
    ['hosts that are no list', { allowed_hosts: 'a.example' }, 'allowed_hosts'],
    ['no host among its hosts', { allowed_hosts: [] }, 'allowed_hosts'],
    ['a host with a path', { allowed_hosts: ['a.example', 'b.example/'] }, 'allowed_hosts[1]'],
    ['a rule with NUL', { rules: [{ ...rule, description: '\0' }] }, 'rules[0].description'],
    [
      'a condition with half a character',
      {
        rules: [
          {
            ...rule,
            container: undefined,
            conditions: [{ attribute: 'id', operator: 'equals', value: '\ud800' }],
          },
        ],
      },
      'rules[0].conditions[0].value',
    ],
  ];
  const base = { name: 'x', permissions: ['log:read'] };
  describeBadBodies(
    () => server,
    '/applications',
    async () => ({ post: base, put: base }),
    cases,
  );

  test('is refused for every field at once, without a word of what was sent', async () => {
    const answer = await send('POST', '/applications', {
      name: '',
      type: 'secret-type',
      permissions: ['secret:thing'],
      rules: [{ transform: 'x' }],
    });
    expect(answer.status).toBe(400);
    const fields = Object.keys(answer.body.errors);
    for (const field of ['name', 'type', 'permissions[0]', 'rules[0].transform', 'rules[0].priority'])
      expect(fields).toContain(field);
    expect(answer.text).not.toContain('secret');
    const empty = await send('POST', '/applications', { name: '' });
    expect(Object.keys(empty.body.errors)).toEqual(['name', 'permissions']);
  });
});

test('a misspelt permission is told the nearest one, in a rule too', async () => {
  const rules = [{ priority: 1, container: '/', transform: 'mask', permissions: ['token:raed'] }];
  const json = { name: 'A', permissions: ['token:craete'], rules };
  const answer = await server.request('POST', '/applications', { json });
  expect([answer.status, answer.body.errors]).toEqual([
    400,
    {
      'permissions[0]': ['must be a permission; GET /permissions lists them; did you mean `token:create`?'],
      'rules[0].permissions[0]': ['must be a permission on tokens; did you mean `token:read`?'],
    },
  ]);
});

test('any key may read its own application, and no key none', async () => {
  const key = await keyWith('proxy:read');
  const answer = await send('GET', '/applications/key', undefined, key);
  expect(answer.status).toBe(200);
  expect(answer.body.permissions).toEqual(['proxy:read']);
  expect(answer.text).not.toContain('svc_');
  expect((await server.request('GET', '/applications/key', { key: null })).status).toBe(401);
});

describe('a new key', () => {
  test('ends the old one on the very next request', async () => {
    const made = await create({ permissions: ['token:create'], rules: [rule] });
    expect(await statusOf(made.key)).toBe(200);
    const answer = await send('POST', `/applications/${made.id}/regenerate`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('location')).toBeNull();
    const { key, modified_by, modified_at, keys_ended, ...rest } = answer.body;
    expect({ ...rest, key: made.key }).toEqual(made);
    expect(keys_ended).toBe(1);
    expect(modified_by).toBe(tenant.application_id);
    expect(modified_at).toMatch(/Z$/);
    expect(key).not.toBe(made.key);
    expect(await statusOf(made.key)).toBe(401);
    expect(await statusOf(key)).toBe(200);
    expect(await server.sql('SELECT * FROM api_keys WHERE application_id = $1', [made.id])).toHaveLength(1);
  });

  test('is in the log, and every process hears of it', async () => {
    const { id } = await create({ permissions: ['log:read'] });
    const heard = await hearNotices(server);
    try {
      await send('POST', `/applications/${id}/regenerate`);
      await heard.times(`application ${id}`, 1);
    } finally {
      await heard.close();
    }
    expect((await logsOf(id)).at(-1)).toMatchObject({ operation: 'update', message: 'Application key regenerated' });
  });

  test('can be read by the application itself with any permissions', async () => {
    const rules = [
      { ...rule, transform: 'redact' },
      { ...rule, priority: 2, container: '/' },
      {
        priority: 3,
        conditions: [{ attribute: 'id', operator: 'starts_with', value: 'a' }],
        transform: 'mask',
        permissions: ['token:use'],
      },
    ];
    const made = await create({ permissions: ['application:update', 'token:read'], rules });
    const answer = await send('POST', `/applications/${made.id}/regenerate`, undefined, made.key);
    expect(answer.status).toBe(200);
    expect(await statusOf(answer.body.key)).toBe(200);
  });

  test('of a stronger application is refused, and the old key lives on', async () => {
    const weak = await keyWith('application:update', 'log:read');
    const byPermission = await create({ permissions: ['log:read', 'proxy:delete'] });
    const byRule = await create({ permissions: ['log:read'], rules: [rule] });
    for (const [{ id, key }, missing] of [
      [byPermission, 'proxy:delete'],
      [byRule, 'token:read'],
    ] as const) {
      const answer = await send('POST', `/applications/${id}/regenerate`, undefined, weak);
      expect(answer.status).toBe(403);
      expect(answer.body.detail).toContain(missing);
      expect(await statusOf(key)).toBe(200);
    }
  });

  test('waits for a change under way: what the application gets by it counts', async () => {
    const weak = await keyWith('application:update', 'log:read');
    const { id } = await create({ permissions: ['log:read'] });
    const change = operatorTransaction(server.ctx, tenant.tenant_id, async (tx) => {
      const permissions = ['log:read', 'proxy:delete'];
      await updateApplication(tx, id, { permissions, modified_at: new Date(), modified_by: id });
      await tx.query(undefined, 'SELECT pg_sleep(0.5)::text', []);
    });
    const asleep = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
    await expect.poll(() => server.sql(asleep), { timeout: 10_000, interval: 10 }).toHaveLength(1);
    const answer = await send('POST', `/applications/${id}/regenerate`, undefined, weak);
    expect(answer.status).toBe(403);
    expect(answer.body.detail).toContain('proxy:delete');
    await change;
  });

  test('is one, however many ask at once', async () => {
    const made = await create({ permissions: ['log:read'] });
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => send('POST', `/applications/${made.id}/regenerate`)),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    const statuses = await Promise.all(answers.map(({ body }) => statusOf(body.key)));
    expect(statuses.toSorted()).toEqual([200, ...Array(7).fill(401)]);
  });
});

describe('a second process on the same database', () => {
  let other: TestServer;
  beforeAll(async () => {
    other = await startServer({ DATABASE_URL: server.databaseUrl });
  });
  afterAll(() => other.close());

  test.each([
    ['POST', '/regenerate'],
    ['DELETE', ''],
  ])('forgets a key by the notice that %s of the application%s gives', async (method, suffix) => {
    const { id, key } = await create({ permissions: ['log:read'] });
    expect(await statusOf(key, other)).toBe(200);
    const changes = hearChanges(other);
    await send(method, `/applications/${id}${suffix}`);
    await changes.of({ subject: 'application', id });
    expect(await statusOf(key, other)).toBe(401);
  });

  test('knows a new key at once', async () => {
    const made = await create({ permissions: ['log:read'] });
    const { key } = (await send('POST', `/applications/${made.id}/regenerate`)).body;
    expect(await statusOf(key, other)).toBe(200);
  });
});

describe('what a process remembers of a key', () => {
  let clockMs = 1_000;
  /** One that hears no notices: what it forgets, this test has told it. */
  const changes = createChanges();
  const newFinder = () => createCallerFinder({ ...server.ctx, changes, monotonicMs: () => clockMs });

  test('is not what a look-up finds that began before a change of it', async () => {
    const made = await server.newKey(tenant, { permissions: ['log:read'] });
    const own: Announced = { subject: 'application', id: made.application_id };
    const other: Announced = { subject: 'application', id: UNKNOWN_ID };
    for (const [change, isRemembered] of [
      [own, false],
      ['anything', false],
      [other, true],
    ] as const) {
      const callers = newFinder();
      const looking = callers.findCallerBeforeCaller(made.api_key);
      changes.announce(change);
      expect(await looking).toBeDefined();
      expect(callers.recallCaller(made.api_key) !== undefined).toBe(isRemembered);
    }
    const callers = newFinder();
    const before = callers.findCallerBeforeCaller(made.api_key);
    changes.announce(other);
    const after = callers.findCallerBeforeCaller(made.api_key);
    expect(after).not.toBe(before);
    await Promise.all([before, after]);
  });

  test('is forgotten by application, by tenant, and all of it', async () => {
    const callers = newFinder();
    const one = await server.newKey(tenant, { permissions: ['log:read'] });
    const other = await server.newKey(server.tenant, { permissions: ['log:read'] });
    const remember = async () => {
      for (const { api_key } of [one, other]) await callers.findCallerBeforeCaller(api_key);
    };
    const known = () => [one, other].map(({ api_key }) => callers.recallCaller(api_key) !== undefined);
    await remember();
    expect(known()).toEqual([true, true]);
    changes.announce({ subject: 'application', id: one.application_id });
    expect(known()).toEqual([false, true]);
    await remember();
    changes.announce({ subject: 'tenant', id: server.tenant.tenant_id });
    expect(known()).toEqual([true, false]);
    await remember();
    changes.announce('anything');
    expect(known()).toEqual([false, false]);
  });

  test('is as old as the start of its look-up, and a second old at most', async () => {
    expect(CALLER_CACHE_MS).toBeLessThanOrEqual(1_000);
    const key = await keyWith('log:read');
    const callers = newFinder();
    const looking = callers.findCallerBeforeCaller(key);
    clockMs += CALLER_CACHE_MS + 1;
    expect(await looking).toBeDefined();
    expect(callers.recallCaller(key)).toBeUndefined();
  });
});

test('the process that made a change needs no notice of it', async () => {
  const permissionsNow = async (key: string) =>
    (await send('GET', '/applications/key', undefined, key)).body.permissions as string[];
  const [one, other] = [await create({ permissions: ['log:read'] }), await create({ permissions: ['log:read'] })];
  await deafen(server);
  expect(await permissionsNow(one.key)).toEqual(['log:read']);
  await send('PUT', `/applications/${one.id}`, { name: 'x', permissions: ['proxy:read'] });
  expect(await permissionsNow(one.key)).toEqual(['proxy:read']);
  await send('POST', `/applications/${one.id}/regenerate`);
  expect(await statusOf(one.key)).toBe(401);
  expect(await statusOf(other.key)).toBe(200);
  await send('DELETE', `/applications/${other.id}`);
  expect(await statusOf(other.key)).toBe(401);
});

describe('a caller cannot grant permissions that it does not hold', () => {
  test('a permission that the creator lacks is refused by its name, and nothing is made', async () => {
    const key = await keyWith('application:create', 'log:read');
    const count = () => server.sql('SELECT count(*) FROM applications');
    const before = await count();
    const answer = await send('POST', '/applications', { name: 'x', permissions: ['log:read', 'proxy:read'] }, key);
    expect(answer.status).toBe(403);
    expect(answer.body.detail).toContain('proxy:read');
    expect(await count()).toEqual(before);
    expect((await send('POST', '/applications', { name: 'x', permissions: ['log:read'] }, key)).status).toBe(201);
  });

  test('a rule that shows more than the creator sees is refused', async () => {
    const key = await keyWith('application:create', 'token:read');
    const asked = (transform: string) =>
      send('POST', '/applications', { name: 'x', rules: [{ ...rule, transform }] }, key);
    expect((await asked('mask')).status).toBe(201);
    const refused = await asked('reveal');
    expect(refused.status).toBe(403);
    expect(refused.body.detail).toContain('token:read');
  });

  test('a change gives nothing new, and leaves alone what was there', async () => {
    const weak = await keyWith('application:update', 'log:read');
    const { id } = await create({ permissions: ['proxy:read', 'tenant:read'], rules: [rule] });
    const put = (json: object) => send('PUT', `/applications/${id}`, { name: 'Renamed', ...json }, weak);
    expect((await put({ permissions: ['proxy:read', 'log:read'], rules: [rule] })).status).toBe(200);
    const more = await put({ permissions: ['proxy:read', 'tenant:read'], rules: [rule] });
    expect(more.status).toBe(403);
    expect(more.body.detail).toContain('tenant:read');
    const wider = await put({ permissions: ['proxy:read'], rules: [{ ...rule, container: '/' }] });
    expect(wider.status).toBe(403);
    expect(wider.body.detail).toContain('token:read');
    const { permissions: left, rules } = (await send('GET', `/applications/${id}`)).body;
    expect(left).toEqual(['proxy:read', 'log:read']);
    expect(rules).toEqual([rule]);
  });

  test('an application cannot take away the rule that holds it back', async () => {
    const back = { ...rule, transform: 'redact' };
    const rest = { ...rule, priority: 2, container: '/' };
    const made = await create({ permissions: ['application:update'], rules: [back, rest] });
    const put = (rules: object[]) =>
      send('PUT', `/applications/${made.id}`, { name: 'x', permissions: ['application:update'], rules }, made.key);
    expect((await put([rest])).status).toBe(403);
    expect((await put([{ ...back, priority: 3 }, rest])).status).toBe(403);
    expect((await put([back, rest])).status).toBe(200);
    expect((await put([back])).status).toBe(200);
  });
});

describe('hosts that an application may send to', () => {
  const grants = { permissions: ['token:use', 'application:create', 'application:update'] };
  const hosts = async (key: string) => (await server.ctx.callers.findCallerBeforeCaller(key))?.allowed_hosts;

  test('are told, replaced and left open again, and hold for its key at once', async () => {
    const made = await create({ ...grants, allowed_hosts: ['A.example', '*.b.example', 'a.example'] });
    expect(made.allowed_hosts).toEqual(['a.example', '*.b.example']);
    expect((await send('GET', `/applications/${made.id}`)).body.allowed_hosts).toEqual(made.allowed_hosts);
    expect((await send('GET', `/applications?id=${made.id}`)).body.data[0].allowed_hosts).toEqual(made.allowed_hosts);
    expect(await hosts(made.key)).toEqual(made.allowed_hosts);
    const caller = await server.ctx.callers.findCallerOfApplication(tenant, made.id);
    expect(caller?.allowed_hosts).toEqual(made.allowed_hosts);

    const put = (json: object) => send('PUT', `/applications/${made.id}`, { name: 'x', ...grants, ...json });
    expect((await put({ allowed_hosts: ['c.example'] })).body.allowed_hosts).toEqual(['c.example']);
    expect(await hosts(made.key)).toEqual(['c.example']);
    expect((await send('POST', `/applications/${made.id}/regenerate`)).body.allowed_hosts).toEqual(['c.example']);
    for (const allowed_hosts of [undefined, null]) {
      const open = await put({ allowed_hosts });
      expect(open.status, open.text).toBe(200);
      expect(open.body).not.toHaveProperty('allowed_hosts');
      expect((await send('GET', `/applications/${made.id}`)).body).toEqual(open.body);
      const again = (await send('POST', `/applications/${made.id}/regenerate`)).body;
      expect(await hosts(again.key)).toBeUndefined();
      await put({ allowed_hosts: ['c.example'] });
    }
  });

  test('do not exceed those of the caller that creates it, changes it or gives it a key', async () => {
    const narrow = await create({ ...grants, allowed_hosts: ['*.example.com'] });
    const asked = (method: string, path: string, allowed_hosts?: string[]) =>
      send(method, path, { name: 'x', ...grants, allowed_hosts }, narrow.key);
    expect((await asked('POST', '/applications', ['api.example.com'])).status).toBe(201);
    const open = await create(grants);
    for (const [method, path, hostsAsked] of [
      ['POST', '/applications', undefined],
      ['POST', '/applications', ['example.com']],
      ['POST', '/applications', ['api.example.com', 'example.org']],
      ['PUT', `/applications/${narrow.id}`, undefined],
      ['POST', `/applications/${open.id}/regenerate`, undefined],
    ] as const) {
      const refused = await asked(method, path, hostsAsked && [...hostsAsked]);
      expect(refused.status, `${method} ${path} ${refused.text}`).toBe(403);
      expect(refused.body.detail).toBe('The allowed_hosts of the application must be within those of the caller.');
    }
    expect(await statusOf(open.key)).toBe(200);
    // What it has already may stay.
    expect((await asked('PUT', `/applications/${open.id}`)).status).toBe(200);
    expect((await asked('PUT', `/applications/${open.id}`, ['api.example.com'])).status).toBe(200);
    expect((await asked('PUT', `/applications/${open.id}`)).status).toBe(403);
  });

  test('hold too where an application is lent to code', async () => {
    const narrow = await create({ permissions: ['token:use', 'proxy:create'], allowed_hosts: ['api.example.com'] });
    const open = await create({ permissions: ['token:use'] });
    const same = await create({ permissions: ['token:use'], allowed_hosts: ['api.example.com'] });
    const lend = (application: { id: string }) =>
      send(
        'POST',
        '/proxies',
        {
          name: 'x',
          destination_url: 'https://api.example.com',
          allowed_hosts: ['api.example.com'],
          application: { id: application.id },
        },
        narrow.key,
      );
    const refused = await lend(open);
    expect(refused.status).toBe(403);
    expect(refused.body.detail).toContain('allowed_hosts');
    expect((await lend(same)).status).toBe(201);
  });
});

describe('with an idempotency key', () => {
  const named = (name: string) => ({ 'svc-idempotency-key': name });

  test('a key is replaced once', async () => {
    const made = await create({ permissions: ['log:read'] });
    const path = `/applications/${made.id}/regenerate`;
    const first = await send('POST', path, undefined, tenant.api_key, named('replace'));
    const again = await send('POST', path, undefined, tenant.api_key, named('replace'));
    expect(again.headers.get('svc-idempotent-replayed')).toBe('true');
    expect(again.text).toBe(first.text);
    expect(await statusOf(first.body.key)).toBe(200);
  });
});

describe('GET /permissions', () => {
  test('lists every permission with its description, for any key', async () => {
    const answer = await send('GET', '/permissions', undefined, await keyWith('log:read'));
    expect(answer.status).toBe(200);
    expect(answer.body.map(({ type }: { type: string }) => type)).toEqual(permissions);
    expect(answer.body[0]).toEqual({
      type: 'token:create',
      description: 'Create tokens and tokenize',
      application_types: ['private', 'public'],
    });
    expect((await server.request('GET', '/permissions', { key: null })).status).toBe(401);
  });

  test('filters by the type of application, and refuses one that is none', async () => {
    const typesOf = async (type: string) =>
      (await send('GET', `/permissions?application_type=${type}`)).body.map((each: { type: string }) => each.type);
    expect(await typesOf('public')).toEqual(['token:create']);
    expect(await typesOf('private')).toEqual(permissions.filter((each) => each.startsWith('token:')));
    expect(await typesOf('management')).toEqual(permissions.filter((each) => !each.startsWith('token:')));
    const answer = await send('GET', '/permissions?application_type=x');
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual(['application_type']);
  });
});

test('an operation that cannot be logged is a 503 and has no effect', async () => {
  const own = await server.newTenant();
  await server.sql('REVOKE INSERT ON audit_log FROM CURRENT_USER');
  try {
    const answer = await server.request('POST', '/applications', {
      key: own.api_key,
      json: { name: 'Unlogged', permissions: ['token:create'] },
    });
    expect(answer.status, answer.text).toBe(503);
    expect(answer.headers.get('retry-after')).toBe('1');
  } finally {
    await server.sql('GRANT INSERT ON audit_log TO CURRENT_USER');
  }
  expect(await server.sql('SELECT id FROM applications WHERE name = $1', ['Unlogged'])).toEqual([]);
});
