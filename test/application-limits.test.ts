// Limits of applications: requests per second, and distinct tokens revealed and used in a day, exact over all processes.
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { newApiKey } from '../src/modules/access/api-keys.ts';
import { rateIdOfSessions } from '../src/modules/access/rows/limits.ts';
import { createApplication } from '../src/modules/people/bootstrap.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { makeReactor, react, type ReactorServer, startReactorServer, tokenOf } from './support/reactors.ts';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';

const DAY_MS = 86_400_000;
/** Noon of some day, so that no test passes midnight by itself. */
const NOON_MS = Date.UTC(2031, 4, 5, 12);

let fixture: ReactorServer;
let server: TestServer;
/** Another process on the database. */
let other: TestServer;

const standAt = (ms: number): void => {
  server.clock.stoppedAtMs = ms;
  other.clock.stoppedAtMs = ms;
};

beforeAll(async () => {
  fixture = await startReactorServer();
  server = fixture.server;
  other = await startServer({ DATABASE_URL: server.databaseUrl });
});
let day = 0;
beforeAll(() => standAt(NOON_MS));
/** Each test has a day of its own. */
afterEach(() => {
  day += 10;
  standAt(NOON_MS + day * DAY_MS);
});
afterAll(async () => {
  await other.close();
  await fixture.close();
});

type Key = TestTenant & { id: string };

const rule = { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:search'] };
const revealing = { permissions: ['token:use'], rules: [rule] };

const make = async (limits: object, grants: object = revealing, key = server.tenant.api_key): Promise<Key> => {
  const answer = await server.request('POST', '/applications', {
    key,
    json: { name: 'Limited', ...grants, ...limits },
  });
  expect(answer.status, answer.text).toBe(201);
  const { id, key: api_key } = answer.body;
  return { id, application_id: id, tenant_id: server.tenant.tenant_id, api_key };
};

const read = (id: string, { api_key }: Pick<Key, 'api_key'>, by = server): Promise<Answer> =>
  by.request('GET', `/tokens/${id}`, { key: api_key });

const detokenize = ({ api_key }: Key, json: unknown, by = server): Promise<Answer> =>
  by.request('POST', '/detokenize', { key: api_key, json });

const tokens = (count: number): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => tokenOf(server, `value-${index}`)));

const cardOf = async (): Promise<string> =>
  (await server.request('POST', '/tokens', { json: { type: 'card', data: { number: '4242424242424242' } } })).body.id;

const expectRefused = (answer: Answer, limit: string): void => {
  expect(answer.status, answer.text).toBe(429);
  expect((answer.body.proxy_error ?? answer.body).detail).toContain(limit);
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(answer.headers.get('ratelimit')).toContain(`"${limit}";r=`);
  expect(answer.headers.get('ratelimit-policy')).toContain(`"${limit}";q=`);
};

const statusesOf = (answers: Answer[]): number[] => answers.map(({ status }) => status);

const logged = (ids: string[], operation: string) =>
  server.sql(
    `SELECT id FROM audit_log WHERE operation = $2 AND entity_ids && $1::text[] AND outcome = 'success' ORDER BY id`,
    [ids, operation],
  );

describe('the settings', () => {
  test('are absent by default, and nothing is counted or announced then', async () => {
    const key = await make({});
    const { body } = await server.request('GET', `/applications/${key.id}`);
    expect(body).not.toHaveProperty('rate_limit');
    expect(body).not.toHaveProperty('daily_reveals');
    expect(body).not.toHaveProperty('daily_uses');
    const [id = ''] = await tokens(1);
    const answer = await read(id, key);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('ratelimit')).toBeNull();
    expect(answer.headers.get('ratelimit-policy')).toBeNull();
    expect(await server.sql('SELECT id FROM daily_budgets WHERE application_id = $1', [key.id])).toEqual([]);
    expect(await server.sql('SELECT id FROM request_rates WHERE id = $1', [key.id])).toEqual([]);
  });

  test('are returned as they were set; a change replaces them all, and null is none', async () => {
    const limits = { rate_limit: { requests_per_second: 50, burst: 80 }, daily_reveals: 0, daily_uses: 7 };
    const key = await make(limits);
    const path = `/applications/${key.id}`;
    expect((await server.request('GET', path)).body).toMatchObject(limits);
    const change = { name: 'Limited', ...revealing };
    const rate_limit = { requests_per_second: 5 };
    const changed = await server.request('PUT', path, { json: { ...change, rate_limit, daily_uses: null } });
    expect(changed.status, changed.text).toBe(200);
    expect(changed.body.rate_limit).toEqual({ requests_per_second: 5, burst: 5 });
    expect(changed.body).not.toHaveProperty('daily_reveals');
    expect(changed.body).not.toHaveProperty('daily_uses');
    const without = await server.request('PUT', path, { json: change });
    expect(without.body).not.toHaveProperty('rate_limit');
    expect((await server.request('GET', path)).body).not.toHaveProperty('rate_limit');
  });

  test.each([
    ['rate_limit', 5],
    ['rate_limit', {}],
    ['rate_limit.requests_per_second', { rate_limit: { requests_per_second: 0 } }],
    ['rate_limit.requests_per_second', { rate_limit: { requests_per_second: 10_001 } }],
    ['rate_limit.burst', { rate_limit: { requests_per_second: 1, burst: 1.5 } }],
    ['daily_reveals', { daily_reveals: -1 }],
    ['daily_reveals', { daily_reveals: 1_000_001 }],
    ['daily_uses', { daily_uses: '5' }],
  ])('are refused where they are not valid: %s', async (place, given) => {
    const limits = typeof given === 'number' || Object.keys(given).length === 0 ? { [place]: given } : given;
    const answer = await server.request('POST', '/applications', { json: { name: 'Bad', ...revealing, ...limits } });
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors).every((each) => each.startsWith(place))).toBe(true);
  });

  test('are given by the operator, who hears of an invalid one', async () => {
    const { tenant_id } = server.tenant;
    const operatorMakes = (limits: unknown) => createApplication(server.ctx, tenant_id, { name: 'Key', limits });
    const { application_id } = await operatorMakes({ daily_reveals: 3, rate_limit: { requests_per_second: 9 } });
    expect((await server.request('GET', `/applications/${application_id}`)).body).toMatchObject({
      daily_reveals: 3,
      rate_limit: { requests_per_second: 9, burst: 9 },
    });
    await expect(operatorMakes({ daily_reveals: -1 })).rejects.toThrow(/daily_reveals: must be a whole number/);
    await expect(operatorMakes({ reveals: 1 })).rejects.toThrow(/limits are not valid/);
  });

  test('come from the configuration for applications that name none', async () => {
    const environment = { RATE_LIMIT_DEFAULT: '10:20', DAILY_REVEALS_DEFAULT: '1', DAILY_USES_DEFAULT: '3' };
    const strict = await startServer({ ...environment, DATABASE_URL: server.databaseUrl });
    try {
      const [one = '', two = ''] = await tokens(2);
      const key = await make({ daily_uses: 5 });
      const first = await read(one, key, strict);
      expect(first.headers.get('ratelimit-policy')).toBe(
        '"rate_limit";q=20;w=2, "daily_reveals";q=1;w=86400, "daily_uses";q=5;w=86400',
      );
      expectRefused(await read(two, key, strict), 'daily_reveals');
      expect((await read(two, key)).status).toBe(200);
    } finally {
      await strict.close();
    }
  });
});

describe('the rate', () => {
  test('refuses beyond the burst, in all processes together, and recovers with the clock', async () => {
    const key = await make({ rate_limit: { requests_per_second: 2, burst: 4 } });
    const ask = (by: TestServer) => by.request('GET', '/applications/key', { key: key.api_key });
    const first = await ask(server);
    expect(first.headers.get('ratelimit-policy')).toBe('"rate_limit";q=4;w=2');
    expect(first.headers.get('ratelimit')).toBe('"rate_limit";r=3;t=1');
    const more = await Promise.all([server, other, server, other, server, other].map(ask));
    expect(statusesOf(more).toSorted()).toEqual([200, 200, 200, 429, 429, 429]);
    for (const answer of more.filter(({ status }) => status === 429)) expectRefused(answer, 'rate_limit');
    expect((await ask(server)).headers.get('retry-after')).toBe('1');
    standAt((server.clock.stoppedAtMs ?? 0) + 499);
    expect(statusesOf([await ask(other), await ask(server)])).toEqual([429, 429]);
    standAt((server.clock.stoppedAtMs ?? 0) + 1);
    expect(statusesOf([await ask(other), await ask(server)])).toEqual([200, 429]);
    standAt((server.clock.stoppedAtMs ?? 0) + 2_000);
    const again = await Promise.all(Array.from({ length: 6 }, () => ask(server)));
    expect(statusesOf(again).filter((status) => status === 200)).toHaveLength(4);
  });

  test('restarts when the limit changes, or when the clock of a process was wrong', async () => {
    const key = await make({ rate_limit: { requests_per_second: 1, burst: 1000 } });
    const ask = () => server.request('GET', '/applications/key', { key: key.api_key });
    await Promise.all(Array.from({ length: 30 }, ask));
    const json = { name: 'Limited', ...revealing, rate_limit: { requests_per_second: 10, burst: 2 } };
    expect((await server.request('PUT', `/applications/${key.id}`, { json })).status).toBe(200);
    expect(statusesOf([await ask(), await ask(), await ask()])).toEqual([200, 200, 429]);
  });

  test('is one of an application: others and the routes without a key are not held up', async () => {
    const one = await make({ rate_limit: { requests_per_second: 1, burst: 1 } });
    const two = await make({ rate_limit: { requests_per_second: 1, burst: 1 } });
    const ask = ({ api_key }: Key) => server.request('GET', '/applications/key', { key: api_key });
    expect(statusesOf([await ask(one), await ask(one), await ask(two)])).toEqual([200, 429, 200]);
    expect((await server.request('GET', '/healthz', { key: one.api_key })).status).toBe(200);
  });

  test('is one of all sessions of an application, beside its own', async () => {
    const key = await make(
      { rate_limit: { requests_per_second: 1, burst: 4 } },
      { permissions: ['session:create', 'token:create'] },
    );
    const json = { allowed_origins: ['https://shop.test'], types: ['token'], max_tokens: 50 };
    const sessions: string[] = [];
    for (let made = 0; made < 2; made += 1) {
      const answer = await server.request('POST', '/sessions', { json, key: key.api_key });
      expect(answer.status, answer.text).toBe(201);
      sessions.push(answer.body.session_key);
    }
    const store = (by: TestServer, session: string | undefined) =>
      by.request('POST', '/tokens', {
        key: session ?? null,
        headers: { origin: 'https://shop.test' },
        json: { type: 'token', data: 'x' },
      });
    const [one, two] = sessions;
    const answers = [];
    for (const [by, session] of [
      [server, one],
      [other, two],
      [server, two],
      [other, one],
      [server, one],
      [other, two],
    ] as const)
      answers.push(await store(by, session));
    expect(statusesOf(answers)).toEqual([201, 201, 201, 201, 429, 429]);
    expectRefused(answers[4] as Answer, 'rate_limit');
    // What pages have used up, the servers of the tenant have not.
    const own = () => server.request('GET', '/applications/key', { key: key.api_key });
    expect(statusesOf([await own(), await own(), await own()])).toEqual([200, 200, 429]);
    standAt((server.clock.stoppedAtMs ?? 0) + 1_000);
    expect(statusesOf([await store(other, one), await own()])).toEqual([201, 200]);
    expect((await server.request('DELETE', `/applications/${key.id}`)).status).toBe(204);
    const left = await server.sql('SELECT FROM request_rates WHERE tenant_id = $1 AND id = ANY($2)', [
      server.tenant.tenant_id,
      [key.id, rateIdOfSessions(key.id)],
    ]);
    expect(left).toEqual([]);
  });

  test('is checked before the permission and before anything is stored', async () => {
    const grants = { permissions: ['token:create'] };
    const key = await make({ rate_limit: { requests_per_second: 1, burst: 1 } }, grants);
    const create = () => server.request('POST', '/tokens', { key: key.api_key, json: { type: 'token', data: 'x' } });
    expect(statusesOf([await create(), await create()])).toEqual([201, 429]);
    expect(await server.sql('SELECT id FROM tokens WHERE created_by = $1', [key.id])).toHaveLength(1);
  });
});

describe('daily reveals', () => {
  test('count each token once, and refuse the next one without a log row of it', async () => {
    const key = await make({ daily_reveals: 2 });
    const [one = '', two = '', three = ''] = await tokens(3);
    expect((await read(one, key)).headers.get('ratelimit')).toBe('"daily_reveals";r=1;t=43200');
    expect((await read(one, key)).headers.get('ratelimit')).toBe('"daily_reveals";r=1;t=43200');
    expect((await read(two, key)).headers.get('ratelimit')).toBe('"daily_reveals";r=0;t=43200');
    const refused = await read(three, key);
    expectRefused(refused, 'daily_reveals');
    expect(refused.headers.get('retry-after')).toBe('43200');
    expect(refused.text).not.toContain('value-2');
    expect(await logged([three], 'read')).toEqual([]);
    const [row] = await server.sql('SELECT outcome, operation FROM audit_log WHERE message = $1 AND actor_id = $2', [
      'Refused: daily_reveals',
      key.id,
    ]);
    expect(row).toEqual({ outcome: 'refused', operation: 'use' });
    expect(statusesOf([await read(one, key, other), await read(two, key, other)])).toEqual([200, 200]);
  });

  test('do not count what is masked or redacted', async () => {
    const masking = { ...rule, transform: 'mask' };
    const id = await cardOf();
    for (const grants of [{ permissions: ['token:read'] }, { rules: [masking] }]) {
      const key = await make({ daily_reveals: 0 }, grants);
      expect((await read(id, key)).status).toBe(200);
      expect((await detokenize(key, `{{ ${id} }}`)).status).toBe(200);
    }
    const redacting = await make({ daily_reveals: 0 }, { rules: [{ ...rule, transform: 'redact' }] });
    const [one = ''] = await tokens(1);
    expect((await read(one, redacting)).status).toBe(200);
    const plain = await make({ daily_reveals: 0 }, { permissions: ['token:read'] });
    expectRefused(await read(one, plain), 'daily_reveals');
  });

  test('count the tokens of lists, searches and detokenized bodies, all of a request or none', async () => {
    const key = await make({ daily_reveals: 5 });
    const metadata = { batch: 'of-lists' };
    const ids = await Promise.all(Array.from({ length: 6 }, () => tokenOf(server, 'listed', { metadata })));
    const list = (size: number) =>
      server.request('GET', `/tokens?metadata.batch=of-lists&size=${size}`, { key: key.api_key });
    const search = (size: number) =>
      server.request('POST', '/tokens/search', { key: key.api_key, json: { query: 'metadata.batch:of-lists', size } });
    expectRefused(await list(6), 'daily_reveals');
    expect((await list(2)).headers.get('ratelimit')).toContain('"daily_reveals";r=3;');
    expect((await search(3)).headers.get('ratelimit')).toContain('"daily_reveals";r=2;');
    const all = Object.fromEntries(ids.map((id, index) => [`at${index}`, `{{ ${id} }}`]));
    expectRefused(await detokenize(key, all), 'daily_reveals');
    expectRefused(await search(6), 'daily_reveals');
    const { at0: _, ...five } = all;
    const opened = await detokenize(key, five);
    expect([200, 429]).toContain(opened.status);
    expect((await list(3)).status).toBe(200);
  });

  test('are exact over two processes and concurrent requests', async () => {
    const key = await make({ daily_reveals: 10 });
    const ids = await tokens(24);
    const asked = ids.flatMap((id) => [read(id, key), read(id, key, other), detokenize(key, [`{{ ${id} }}`], other)]);
    const pairs = ids.slice(0, 12).map((id, index) => detokenize(key, [`{{ ${id} }}`, `{{ ${ids[index + 12]} }}`]));
    const answers = await Promise.all([...asked, ...pairs]);
    const shown = new Set<string>();
    for (const { status, text } of answers) {
      expect([200, 429]).toContain(status);
      if (status === 200) for (const [value] of text.matchAll(/value-\d+/g)) shown.add(value);
    }
    expect(shown.size).toBe(10);
    const [row] = await server.sql(
      `SELECT b.counted, count(*)::int AS tokens FROM daily_budgets b JOIN daily_tokens t ON t.budget_id = b.id
       WHERE b.application_id = $1 GROUP BY 1`,
      [key.id],
    );
    expect(row).toEqual({ counted: 10, tokens: 10 });
  });

  test('restart at midnight (UTC), and the sweep removes the rows of past days', async () => {
    const key = await make({ daily_reveals: 1 });
    const [one = '', two = ''] = await tokens(2);
    const noon = server.clock.stoppedAtMs ?? 0;
    standAt(noon + DAY_MS / 2 - 1);
    expect((await read(one, key)).status).toBe(200);
    const refused = await read(two, key);
    expect(refused.headers.get('retry-after')).toBe('1');
    standAt(noon + DAY_MS / 2);
    expect(statusesOf([await read(two, key, other), await read(one, key)])).toEqual([200, 429]);
    const rows = () =>
      server.sql(
        `SELECT b.day::text FROM daily_budgets b JOIN daily_tokens t ON t.budget_id = b.id
         WHERE b.application_id = $1 ORDER BY 1`,
        [key.id],
      );
    await sweep(server.ctx);
    expect(await rows()).toHaveLength(2);
    standAt(noon + 1.5 * DAY_MS);
    await sweep(server.ctx);
    expect(await rows()).toHaveLength(1);
    standAt(noon + 3 * DAY_MS);
    await sweep(server.ctx);
    expect(await server.sql('SELECT id FROM daily_budgets WHERE application_id = $1', [key.id])).toEqual([]);
  });

  test('leave nothing when the application or the tenant is deleted', async () => {
    const key = await make({ daily_reveals: 1, rate_limit: { requests_per_second: 10 } });
    const [one = ''] = await tokens(1);
    expect((await read(one, key)).status).toBe(200);
    expect((await server.request('DELETE', `/applications/${key.id}`)).status).toBe(204);
    const tenant = await server.newTenant();
    const limits = { daily_reveals: 1, rate_limit: { requests_per_second: 10 } };
    const theirs = await make(limits, revealing, tenant.api_key);
    const id = await tokenOf(server, 'theirs', {}, tenant.api_key);
    expect((await read(id, theirs)).status).toBe(200);
    expect((await server.request('DELETE', '/tenants/self', { key: tenant.api_key })).status).toBe(204);
    await sweep(server.ctx);
    const keys = [[key.id, theirs.id]];
    expect(await server.sql('SELECT id FROM daily_budgets WHERE application_id = ANY($1)', keys)).toEqual([]);
    expect(await server.sql('SELECT id FROM request_rates WHERE id = ANY($1)', keys)).toEqual([]);
    expect(await server.sql('SELECT * FROM daily_tokens WHERE token_id = ANY($1)', [[one, id]])).toEqual([]);
  });
});

describe('daily uses', () => {
  const forward = (key: Key, body: string) =>
    server.request('POST', '/proxy/used', {
      key: key.api_key,
      headers: { 'svc-proxy-url': fixture.url, 'content-type': 'text/plain' },
      body,
    });

  test('count the tokens of args and of proxied requests; nothing is run or sent beyond them', async () => {
    const key = await make({ daily_uses: 2, daily_reveals: 0 });
    const [one = '', two = '', three = ''] = await tokens(3);
    const reactor = await makeReactor(server, `await fetch('${fixture.url}/ran'); return { raw: 'ran' };`);
    const run = (id: string) => react(server, reactor, { value: `{{ ${id} }}` }, { key: key.api_key });
    expect((await run(one)).headers.get('ratelimit')).toBe('"daily_uses";r=1;t=43200');
    expect((await forward(key, `{{ ${one} }}{{ ${two} }}`)).status).toBe(200);
    expectRefused(await forward(key, `{{ ${one} }}{{ ${three} }}`), 'daily_uses');
    expectRefused(await run(three), 'daily_uses');
    expect(fixture.receivedAt('/ran')).toHaveLength(1);
    expect(fixture.receivedAt('/used')).toHaveLength(1);
    expect(await logged([three], 'use')).toEqual([]);
    expect((await run(two)).status).toBe(200);
  });

  test('a forwarded response has the RateLimit headers of its destination only', async () => {
    const key = await make({ daily_uses: 2 });
    fixture.routes.set('/used', (_, response) => {
      response.setHeader('RateLimit', '"theirs";r=1;t=1');
      response.end();
    });
    const [one = ''] = await tokens(1);
    const answer = await forward(key, `{{ ${one} }}`);
    fixture.routes.delete('/used');
    expect(answer.headers.get('ratelimit')).toBe('"theirs";r=1;t=1');
    expect(answer.headers.get('ratelimit-policy')).toBeNull();
  });

  test('count what code reads, detokenizes, finds and sends for its application', async () => {
    const key = await make({ daily_uses: 1, daily_reveals: 0 });
    const [one = '', two = ''] = await tokens(2);
    const bodies = [
      'return { raw: await svc.tokens.retrieve(args.id) };',
      'return { raw: await svc.detokenize({ is: `{{ ${args.id} }}` }) };',
      'return { raw: await svc.tokens.search(`id:${args.id}`) };',
      `return { raw: await svc.proxy.post({ headers: { 'svc-proxy-url': '${fixture.url}/by-code' }, body: { value: svc.expression(args.id) } }) };`,
    ];
    for (const [index, body] of bodies.entries()) {
      const caught = `try { ${body} } catch (error) { return { raw: { status: error.status, message: error.message } }; }`;
      const reactor = await makeReactor(server, {
        code: `module.exports = async ({ args, svc }) => { ${caught} };`,
        application: key,
      });
      const allowed = await react(server, reactor, { id: one });
      expect(allowed.body.raw.status, `${index} ${allowed.text}`).not.toBe(429);
      expect(allowed.headers.get('ratelimit')).toBeNull();
      const refused = await react(server, reactor, { id: two });
      expect(refused.body.raw, String(index)).toMatchObject({
        status: 429,
        message: expect.stringContaining('daily_uses'),
      });
    }
    expect(fixture.receivedAt('/by-code')).toHaveLength(1);
    const budgets = await server.sql('SELECT limit_name, counted FROM daily_budgets WHERE application_id = $1', [
      key.id,
    ]);
    expect(budgets).toEqual([{ limit_name: 'daily_uses', counted: 1 }]);
  });

  test('a replay of a kept answer counts for its day, or is refused', async () => {
    const key = await make({ daily_uses: 1 });
    const [one = '', two = ''] = await tokens(2);
    const reactor = await makeReactor(server, 'return { raw: args };');
    const run = (id: string, name: string) =>
      react(server, reactor, { value: `{{ ${id} }}` }, { key: key.api_key, headers: { 'svc-idempotency-key': name } });
    const midnight = (server.clock.stoppedAtMs ?? 0) + DAY_MS / 2;
    standAt(midnight - 60_000);
    expect((await run(one, 'one')).status).toBe(200);
    expect((await run(one, 'one')).headers.get('svc-idempotent-replayed')).toBe('true');
    standAt(midnight + 60_000);
    expect((await run(two, 'two')).status).toBe(200);
    const replayed = await run(one, 'one');
    expectRefused(replayed, 'daily_uses');
    expect(replayed.text).not.toContain('value-0');
  });
});

test('a replay also counts for the application whose permissions the code had', async () => {
  const lent = await make({ daily_uses: 1 });
  const caller = await make({});
  const [one = '', two = ''] = await tokens(2);
  const code = `module.exports = async ({ args, svc }) => ({ raw: await svc.tokens.retrieve(args.id) });`;
  const reactor = await makeReactor(server, { code, application: lent });
  const run = (id: string, name: string) =>
    react(server, reactor, { id }, { key: caller.api_key, headers: { 'svc-idempotency-key': name } });
  const midnight = (server.clock.stoppedAtMs ?? 0) + DAY_MS / 2;
  standAt(midnight - 60_000);
  expect((await run(one, 'one')).status).toBe(200);
  standAt(midnight + 60_000);
  expect((await run(two, 'two')).status).toBe(200);
  const replayed = await run(one, 'one');
  expect(replayed.status, replayed.text).toBe(429);
  expect(replayed.text).not.toContain('value-0');
});

describe('a caller with limits', () => {
  const all = { permissions: ['application:create', 'application:update', 'application:read', 'token:create'] };
  const limits = { rate_limit: { requests_per_second: 100, burst: 200 }, daily_reveals: 10, daily_uses: 10 };
  const put = (key: Key, id: string, json: object) =>
    server.request('PUT', `/applications/${id}`, { key: key.api_key, json: { name: 'Changed', ...json } });
  const create = (key: Key, json: object) =>
    server.request('POST', '/applications', { key: key.api_key, json: { name: 'Made', ...json } });

  test.each([
    ['no limits', {}],
    ['a wider rate', { ...limits, rate_limit: { requests_per_second: 101, burst: 200 } }],
    ['a wider burst', { ...limits, rate_limit: { requests_per_second: 100, burst: 201 } }],
    ['more reveals', { ...limits, daily_reveals: 11 }],
    ['any number of uses', { ...limits, daily_uses: null }],
  ])('gives neither itself nor another application %s', async (_, wider) => {
    const key = await make(limits, all);
    for (const answer of [
      await put(key, key.id, { ...all, ...wider }),
      await create(key, { permissions: ['token:create'], ...wider }),
      await put(key, (await make(limits, all)).id, { ...all, ...wider }),
    ]) {
      expect(answer.status, answer.text).toBe(403);
      expect(answer.body.detail).toContain('limits');
    }
  });

  test('may narrow itself, keep the limits of another, and create within its own', async () => {
    const key = await make(limits, all);
    const wide = await make({ daily_reveals: 5000 }, { permissions: ['token:create'] });
    const kept = await put(key, wide.id, { permissions: ['token:create'], daily_reveals: 5000 });
    expect(kept.status, kept.text).toBe(200);
    expect((await create(key, { permissions: ['token:create'], ...limits })).status).toBe(201);
    expect((await put(key, key.id, { ...all, ...limits, daily_uses: 9 })).body.daily_uses).toBe(9);
    expect((await put(key, key.id, { ...all, ...limits })).status).toBe(403);
  });

  test('cannot multiply a daily limit by applications or their keys; its own key it may regenerate', async () => {
    const grants = { permissions: [...all.permissions, 'token:use', 'reactor:create'], rules: [rule] };
    const key = await make(limits, grants);
    for (const [given, permission] of [
      [{ permissions: ['token:use'] }, 'token:use'],
      [{ rules: [rule] }, 'token:read'],
    ] as const) {
      const made = await create(key, { ...given, ...limits });
      expect(made.status, made.text).toBe(403);
      expect(made.body.detail).toContain(permission);
      const twin = await make(limits, given);
      const path = `/applications/${twin.id}/regenerate`;
      expect((await server.request('POST', path, { key: key.api_key })).status).toBe(403);
      const reactor = { name: 'R', formula: { id: twin.id }, application: { id: twin.id } };
      const lent = await server.request('POST', '/reactors', { key: key.api_key, json: reactor });
      expect(lent.status).not.toBe(201);
    }
    const own = await server.request('POST', `/applications/${key.id}/regenerate`, { key: key.api_key });
    expect(own.status, own.text).toBe(200);
  });

  test('cannot invite people with a daily limit, because members have none', async () => {
    const permissions = ['tenant:invitation:create'];
    const invite = ({ api_key }: Key) =>
      server.request('POST', '/tenants/self/invitations', { key: api_key, json: { email: 'new@example.com' } });
    const refused = await invite(await make({ daily_reveals: 5 }, { permissions }));
    expect(refused.status).toBe(403);
    expect(refused.body.detail).toContain('daily limit');
    expect((await invite(await make({}, { permissions }))).status).toBe(201);
  });

  test('without daily limits passes on what it holds, at its rate or less', async () => {
    const { rate_limit } = limits;
    const key = await make({ rate_limit }, { permissions: [...all.permissions, 'token:use'], rules: [rule] });
    expect((await create(key, { ...revealing, rate_limit })).status).toBe(201);
    expect((await create(key, revealing)).status).toBe(403);
  });
});

describe('failed authentications', () => {
  const fail = (by: TestServer) => by.request('GET', '/tokens', { key: 'svc_test_wrong' });

  test('of one address count for all processes together, and the minute ends with the clock', async () => {
    const answers: number[] = [];
    for (let index = 0; index < 51; index += 1)
      answers.push(...statusesOf(await Promise.all([fail(server), fail(other)])));
    expect(answers.filter((status) => status === 401)).toHaveLength(100);
    const refused = await fail(other);
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBe(60);
    const count = () => server.sql('SELECT max(failures) AS most FROM attempts');
    const [before] = await count();
    await Promise.all([fail(server), fail(other), fail(server)]);
    expect(await count()).toEqual([before]);
    expect((await server.request('GET', '/applications/key')).status).toBe(200);
    standAt((server.clock.stoppedAtMs ?? 0) + 60_000);
    expect(statusesOf([await fail(server), await fail(other)])).toEqual([401, 401]);
  });

  test('with a broken checksum count too, without a look-up of the key and a row in a log', async () => {
    const { api_key } = await server.newTenant();
    const broken = api_key.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
    const unknown = newApiKey(server.ctx).key.reveal();
    const state = async () => {
      const [{ failures }] = await server.sql('SELECT coalesce(max(failures), 0) AS failures FROM attempts');
      const [{ rows }] = await server.sql('SELECT count(*) AS rows FROM audit_log');
      return { failures: Number(failures), rows: Number(rows) };
    };
    const lookups = vi.spyOn(server.ctx.db.statements, 'query');
    const lookupsOf = async (key: string): Promise<number> => {
      lookups.mockClear();
      expect((await server.request('GET', '/tokens', { key })).status).toBe(401);
      return lookups.mock.calls.filter(([name]) => name === 'find-api-key').length;
    };
    try {
      // Begins the window of this test.
      expect(await lookupsOf(unknown)).toBe(1);
      const before = await state();
      expect(await lookupsOf(broken)).toBe(0);
      expect(await state()).toEqual({ failures: before.failures + 1, rows: before.rows });
    } finally {
      lookups.mockRestore();
    }
  });

  test('of an IPv6 network are counted together', async () => {
    const balanced = await startServer({ TRUSTED_PROXIES: '127.0.0.0/8' });
    try {
      const failFrom = (ip: string) =>
        balanced.request('GET', '/tokens', { key: null, headers: { 'x-forwarded-for': ip } });
      const addresses = Array.from({ length: 100 }, (_, index) => `2001:db8:1:${index}::1`);
      expect(new Set(statusesOf(await Promise.all(addresses.map(failFrom))))).toEqual(new Set([401]));
      expect((await failFrom('2001:db8:1:ffff::1')).status).toBe(429);
      expect((await failFrom('2001:db8:2::1')).status).toBe(401);
    } finally {
      await balanced.close();
    }
  });
});
