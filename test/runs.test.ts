// What happened to each run of code and each proxied request: each way in which one ends, in GET /runs and in the second row of the log.
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { endDeadRuns, RUN_UNKNOWN_AFTER_MS } from '../src/modules/runs/sweep.ts';
import { sweep, sweepInTurn } from '../src/modules/tokens/sweep.ts';
import { seeingAllTenants } from './support/database.ts';
import { codeOf, makeReactor, react, type ReactorServer, startReactorServer, tokenOf } from './support/reactors.ts';
import type { TestServer } from './support/server.ts';
import { askProxy, makeApplication, makeProxy } from './support/stored-proxies.ts';

let fixture: ReactorServer;
let server: TestServer;
/** The host that upstream.test is, with its port. */
let host: string;

const SDK = `const sdk = require('@svc/reactor-formulas-sdk');`;
const CARD_NUMBER = '4242424242424242';

beforeAll(async () => {
  fixture = await startReactorServer({ SANDBOX_WALL_MS: '4000', SANDBOX_CPU_MS: '2000', SANDBOX_MEMORY_MB: '64' });
  ({ server } = fixture);
  ({ host } = new URL(fixture.url));
  fixture.routes.set('/fails', (_, response) => void response.writeHead(503).end('{}'));
  fixture.routes.set('/missing', (_, response) => void response.writeHead(404).end('{}'));
  fixture.routes.set('/cut', (request) => void request.socket.destroy());
});
afterAll(() => fixture.close());

let traces = 0;
const newTrace = (): string => `run-${(traces += 1)}`;

/** The runs of a request, by kind. They are written after the response. */
const runsOf = async (trace_id: string, kinds: readonly string[]): Promise<Record<string, any>> => {
  const found = await vi.waitFor(
    async () => {
      const { status, text, body } = await server.request('GET', '/runs?size=100');
      expect(status, text).toBe(200);
      const own = body.data.filter((run: { trace_id: string }) => run.trace_id === trace_id);
      expect(own.map(({ kind }: { kind: string }) => kind).toSorted()).toEqual(kinds.toSorted());
      return own;
    },
    { timeout: 10_000 },
  );
  return Object.fromEntries(found.map((run: { kind: string }) => [run.kind, run]));
};

/** The outcomes of the rows about an entity in the log, oldest first. */
const outcomesOf = async (trace_id: string, entity_id: string): Promise<string[]> =>
  (
    await server.sql(
      `SELECT outcome FROM audit_log WHERE trace_id = $1 AND operation = 'use' AND entity_ids = ARRAY[$2]
         AND message <> 'Request sent by code' ORDER BY id`,
      [trace_id, entity_id],
    )
  ).map(({ outcome }) => outcome);

const FAILED = ['success', 'failed'];

describe('a reactor', () => {
  test.each<[string, code: () => string, status: number, run: () => object]>([
    ['returns', () => 'return { raw: 1 };', 200, () => ({ outcome: 'success' })],
    [
      'catches what its destination says',
      () => `const { status } = await fetch('${fixture.url}/fails'); return { raw: status };`,
      200,
      () => ({ outcome: 'success', destination_host: host, destination_status: 503 }),
    ],
    [
      'catches that its destination is not there',
      () => `try { await fetch('${fixture.url}/cut'); } catch { return { raw: null }; }`,
      200,
      () => ({ outcome: 'success', destination_host: host }),
    ],
    [
      'throws a class of the SDK',
      () => `${SDK} throw new sdk.InvalidPaymentMethodError();`,
      402,
      () => ({ outcome: 'refused', error: 'InvalidPaymentMethodError' }),
    ],
    [
      'throws another error',
      () => `const { card } = null;`,
      500,
      () => ({ outcome: 'crashed', error: 'TypeError', line: 1 }),
    ],
    [
      'throws an error that has a value as its name',
      () => `throw Object.assign(new Error('x'), { name: '${CARD_NUMBER}' });`,
      500,
      () => ({ outcome: 'crashed', error: 'Error' }),
    ],
    [
      'throws a class of the SDK that is a failure',
      () => `${SDK} throw new sdk.ReactorRuntimeError();`,
      500,
      () => ({ outcome: 'crashed', error: 'ReactorRuntimeError' }),
    ],
    ['returns no result', () => 'return 5;', 500, () => ({ outcome: 'crashed', error: 'code_failed' })],
    ['takes too much CPU time', () => 'for (;;);', 408, () => ({ outcome: 'timed_out', error: 'TIMEOUT_CPU' })],
    [
      'waits too long',
      () => 'await new Promise((resolve) => setTimeout(resolve, 60_000));',
      408,
      () => ({ outcome: 'timed_out', error: 'TIMEOUT_WALL' }),
    ],
    [
      'takes too much memory',
      () => 'const all = []; for (;;) all.push(new Array(1e6).fill(all.length));',
      500,
      () => ({ outcome: 'out_of_memory', error: 'OUT_OF_MEMORY' }),
    ],
    [
      'does not catch that its destination breaks off',
      () => `await fetch('${fixture.url}/cut');`,
      500,
      () => ({ outcome: 'failed', error: 'TypeError', line: 1, destination_host: host }),
    ],
    [
      'does not catch that a host has no address',
      () => `await fetch('https://moving.upstream.test');`,
      500,
      () => ({ outcome: 'failed', error: 'TypeError' }),
    ],
  ])('that %s', async (_, code, status, expected) => {
    const id = await tokenOf(server, 'value');
    const reactor = await makeReactor(server, code());
    const trace_id = newTrace();
    const answer = await react(server, reactor, { value: `{{ ${id} }}` }, { headers: { 'svc-trace-id': trace_id } });
    expect(answer.status, answer.text).toBe(status);
    const { reactor: run } = await runsOf(trace_id, ['reactor']);
    const wanted = expected() as { outcome: string };
    expect(run).toMatchObject({
      ...wanted,
      tenant_id: server.tenant.tenant_id,
      resource_id: reactor.id,
      version: expect.stringMatching(/^\d+\.\d+$/),
      actor_id: server.tenant.application_id,
      actor_type: 'application',
      status,
      duration_ms: expect.any(Number),
      cpu_ms: expect.any(Number),
      token_ids: [id],
    });
    const hasFailed = !['success', 'refused'].includes(wanted.outcome);
    for (const entity of [reactor.id, id])
      await expect.poll(() => outcomesOf(trace_id, entity)).toEqual(hasFailed ? FAILED : ['success']);
    expect((await server.request('GET', `/runs/${run.id}`)).body).toEqual(run);
  });

  test('whose caller leaves is cancelled', async () => {
    const reactor = await makeReactor(server, `await fetch('${fixture.url}/slow');`);
    const trace_id = newTrace();
    const leaving = new AbortController();
    fixture.routes.set('/slow', () => leaving.abort());
    const headers = { 'svc-api-key': server.tenant.api_key, 'svc-trace-id': trace_id };
    const asked = fetch(`${server.base_url}/reactors/${reactor.id}/react`, {
      method: 'POST',
      headers,
      signal: leaving.signal,
    });
    await expect(asked).rejects.toThrow();
    const { reactor: run } = await runsOf(trace_id, ['reactor']);
    expect(run).toMatchObject({ outcome: 'cancelled', error: 'CANCELLED', token_ids: [] });
    expect(run).not.toHaveProperty('status');
    await expect.poll(() => outcomesOf(trace_id, reactor.id)).toEqual(FAILED);
  });

  test('that is refused before its code runs has a run, and no row of a use', async () => {
    const reactor = await makeReactor(server, {
      code: codeOf('return {};'),
      request_parameters: [{ name: 'a', type: 'string' }],
    });
    const [missing, unknown] = [newTrace(), newTrace()];
    await react(server, reactor, {}, { headers: { 'svc-trace-id': missing } });
    await react(server, reactor, { a: '{{ nothing }}' }, { headers: { 'svc-trace-id': unknown } });
    expect((await runsOf(missing, ['reactor']))['reactor']).toMatchObject({
      outcome: 'refused',
      error: 'invalid_input',
      status: 400,
    });
    expect((await runsOf(unknown, ['reactor']))['reactor']).toMatchObject({
      outcome: 'refused',
      error: 'bad_request',
      status: 400,
    });
    expect(await outcomesOf(unknown, reactor.id)).toEqual([]);
  });
});

describe('a proxied request', () => {
  const proxied = async (path: string, trace_id: string, json: unknown = {}) =>
    server.request('POST', '/proxy', {
      json,
      headers: { 'svc-proxy-url': `${fixture.url}${path}`, 'svc-trace-id': trace_id },
    });

  test.each<[string, path: string, json: unknown, status: number, run: object]>([
    ['is answered', '/there', {}, 200, { outcome: 'success', destination_status: 200 }],
    ['is answered below 500', '/missing', {}, 404, { outcome: 'success', destination_status: 404 }],
    ['is answered from 500 on', '/fails', {}, 503, { outcome: 'failed', destination_status: 503 }],
    ['is broken off', '/cut', {}, 502, { outcome: 'failed', error: 'RESET' }],
    ['has a bad expression', '/there', ['{{ nothing | none }}'], 400, { outcome: 'refused', error: 'invalid_input' }],
    ['has an unknown token', '/there', ['{{ nothing }}'], 400, { outcome: 'refused', error: 'bad_request' }],
  ])('that %s', async (_, path, json, status, wanted) => {
    const trace_id = newTrace();
    const answer = await proxied(path, trace_id, json);
    expect(answer.status, answer.text).toBe(status);
    const { proxy: run } = await runsOf(trace_id, ['proxy']);
    expect(run).toMatchObject({ ...wanted, destination_host: host, status, token_ids: [] });
    for (const absent of ['resource_id', 'version', 'cpu_ms', 'line']) expect(run).not.toHaveProperty(absent);
    const { outcome } = wanted as { outcome: string };
    const rows = { success: ['success'], failed: FAILED, refused: [] }[outcome];
    await expect.poll(() => outcomesOf(trace_id, server.tenant.tenant_id)).toEqual(rows);
  });

  test('has the digits of its host masked, and is refused where the host is not allowed', async () => {
    const trace_id = newTrace();
    const headers = { 'svc-proxy-url': `https://c${CARD_NUMBER}.upstream.test`, 'svc-trace-id': trace_id };
    await server.request('POST', '/proxy', { json: {}, headers });
    const { proxy: run } = await runsOf(trace_id, ['proxy']);
    expect(run.outcome).toBe('failed');
    expect(run.destination_host).toBe('cXXXXXXXXXXXX4242.upstream.test');

    const allowed = { permissions: ['token:use'], allowed_hosts: ['api.example.com'] };
    const { key } = await makeApplication(server, allowed);
    const refused = newTrace();
    const toUpstream = { 'svc-proxy-url': fixture.url, 'svc-trace-id': refused };
    await server.request('POST', '/proxy', { key, json: {}, headers: toUpstream });
    expect((await runsOf(refused, ['proxy']))['proxy']).toMatchObject({
      outcome: 'refused',
      error: 'invalid_input',
      status: 400,
    });
  });

  test('ends as its transform does, which has a run of its own', async () => {
    const proxy = await makeProxy(server, {
      destination_url: fixture.url,
      request_transform: { code: 'module.exports = async ({ args }) => ({ body: args.body, headers: args.headers });' },
      response_transform: { code: '\nmodule.exports = async ({ args }) => { args.body.none.of(); };' },
    });
    const id = await tokenOf(server, 'value');
    const trace_id = newTrace();
    const answer = await askProxy(server, proxy, { json: [`{{ ${id} }}`], headers: { 'svc-trace-id': trace_id } });
    expect(answer.status).toBe(500);
    const found = await vi.waitFor(async () => {
      const { body } = await server.request('GET', `/runs?resource_id=${proxy.id}`);
      expect(body.data).toHaveLength(3);
      return body.data as Record<string, any>[];
    });
    const of = (kind: string) => found.filter((run) => run['kind'] === kind);
    const crash = { outcome: 'crashed', error: 'TypeError', line: 2 };
    expect(of('proxy')).toMatchObject([
      { ...crash, destination_host: host, destination_status: 200, token_ids: [id], status: 500 },
    ]);
    expect(
      of('transform')
        .map(({ outcome }) => outcome)
        .toSorted(),
    ).toEqual(['crashed', 'success']);
    expect(of('transform').find(({ outcome }) => outcome === 'crashed')).toMatchObject({
      ...crash,
      status: 500,
      cpu_ms: expect.any(Number),
    });
    for (const entity of [proxy.id, id]) await expect.poll(() => outcomesOf(trace_id, entity)).toEqual(FAILED);
  });

  test('that code sends by svc.proxy has a run of its own, of the application of the code', async () => {
    const application = server.tenant;
    const code = codeOf(
      `const { status } = await svc.proxy.post({ path: '/x', headers: { 'SVC-PROXY-URL': '${fixture.url}' }, body: {} }); return { raw: status };`,
    );
    const reactor = await makeReactor(server, { code, application });
    const trace_id = newTrace();
    const answer = await react(server, reactor, {}, { headers: { 'svc-trace-id': trace_id } });
    expect(answer.status, answer.text).toBe(200);
    const runs = await runsOf(trace_id, ['reactor', 'proxy']);
    expect(runs['proxy']).toMatchObject({
      outcome: 'success',
      destination_host: host,
      actor_id: application.application_id,
    });
  });
});

describe('the list', () => {
  test('is filtered, goes on from a cursor, and has nothing of another tenant', async () => {
    const tenant = await server.newTenant();
    const key = tenant.api_key;
    const get = (query: string) => server.request('GET', `/runs${query}`, { key });
    const paths = ['/there', '/missing', '/fails', '/there', '/missing'];
    for (const path of paths)
      await server.request('POST', '/proxy', { key, json: {}, headers: { 'svc-proxy-url': `${fixture.url}${path}` } });
    await expect.poll(async () => (await get('')).body.data.length).toBe(5);
    const all = (await get('')).body.data as { id: string; created_at: string; destination_status: number }[];
    expect(all.map((run) => run.destination_status)).toEqual([404, 200, 503, 404, 200]);

    const statusesOf = async (query: string) => {
      const { status, text, body } = await get(query);
      expect(status, text).toBe(200);
      return body.data.map((run: { destination_status: number }) => run.destination_status);
    };
    expect(await statusesOf('?destination_status=4xx')).toEqual([404, 404]);
    expect(await statusesOf('?destination_status=5xx')).toEqual([503]);
    expect(await statusesOf('?destination_status=200')).toEqual([200, 200]);
    expect(await statusesOf('?destination_status=418')).toEqual([]);
    expect(await statusesOf('?outcome=failed')).toEqual([503]);
    expect(await statusesOf('?outcome=unknown')).toEqual([]);
    expect(await statusesOf('?kind=proxy')).toHaveLength(5);
    expect(await statusesOf('?kind=reactor')).toEqual([]);
    expect(await statusesOf(`?actor_id=${tenant.application_id.toUpperCase()}`)).toHaveLength(5);
    expect(await statusesOf(`?actor_id=${server.tenant.application_id}`)).toEqual([]);
    expect(await statusesOf(`?resource_id=${server.tenant.application_id}`)).toEqual([]);
    const since = encodeURIComponent((all[2] as { created_at: string }).created_at);
    expect((await statusesOf(`?start_date=${since}`)).length).toBeGreaterThanOrEqual(3);
    expect(await statusesOf(`?end_date=2026-01-01`)).toEqual([]);

    const first = (await get('?size=2')).body;
    expect(first.pagination).toMatchObject({ total_items: 5, page_size: 2 });
    const second = (await get(`?size=2&start=${first.pagination.next}`)).body;
    expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(all.slice(0, 4).map(({ id }) => id));

    const foreign = await server.request('GET', `/runs/${(all[0] as { id: string }).id}`);
    expect([foreign.status, foreign.body.detail]).toEqual([404, 'The run was not found.']);
  });

  test.each([
    'outcome=lost',
    'kind=x',
    'destination_status=6xx',
    'destination_status=4x',
    'resource_id=x',
    'actor_id=x',
    'status=200',
    'start=x',
    'start_date=2026-02-01&end_date=2026-01-01',
  ])('refuses %s', async (query) => {
    expect((await server.request('GET', `/runs?${query}`)).status).toBe(400);
  });

  test('is read by a key with log:read alone, and each reading is a row of the kind `log`', async () => {
    const { api_key } = await server.newKey(server.tenant, { permissions: ['log:read'] });
    expect((await server.request('GET', '/runs', { key: api_key })).status).toBe(200);
    const logs = await server.request('GET', '/logs?entity_type=log&size=1', { key: api_key });
    expect(logs.body.data).toMatchObject([{ message: 'Runs retrieved', operation: 'read' }]);
    const other = await server.newKey(server.tenant, { permissions: ['token:use'] });
    expect((await server.request('GET', '/runs', { key: other.api_key })).status).toBe(403);
  });
});

describe('a row', () => {
  test('that no server wrote is not shown, and is an alarm', async () => {
    const reactor = await makeReactor(server, 'throw new Error();');
    const trace_id = newTrace();
    await react(server, reactor, {}, { headers: { 'svc-trace-id': trace_id } });
    const { reactor: run } = await runsOf(trace_id, ['reactor']);
    await server.sql(`UPDATE runs SET outcome = 'success' WHERE id = $1`, [run.id]);
    expect((await server.request('GET', `/runs/${run.id}`)).status).toBe(404);
    expect((await server.request('GET', `/runs?resource_id=${reactor.id}`)).body.data).toEqual([]);
    expect(server.logLines.filter((line) => line.includes('"alarm":"tampered"') && line.includes(run.id))).not.toEqual(
      [],
    );
  });

  test('is gone after RUN_RETENTION_DAYS, and with its tenant', async () => {
    const tenant = await server.newTenant();
    const key = tenant.api_key;
    await server.request('POST', '/proxy', { key, json: {}, headers: { 'svc-proxy-url': fixture.url } });
    const count = async () =>
      (await server.sql('SELECT count(*)::int AS n FROM runs WHERE tenant_id = $1', [tenant.tenant_id]))[0].n;
    await expect.poll(count).toBe(1);
    const DAY_MS = 86_400_000;
    server.clock.offsetMs = 29 * DAY_MS;
    await sweep(server.ctx);
    expect(await count()).toBe(1);
    server.clock.offsetMs = 31 * DAY_MS;
    await sweep(server.ctx);
    expect(await count()).toBe(0);
    server.clock.offsetMs = 0;
    await server.request('POST', '/proxy', { key, json: {}, headers: { 'svc-proxy-url': fixture.url } });
    await expect.poll(count).toBe(1);
    expect((await server.request('DELETE', '/tenants/self', { key })).status).toBe(204);
    await sweep(server.ctx);
    expect(await count()).toBe(0);
  });

  test('has a partition for its month, and the sweep has the next ones made and empty ones joined', async () => {
    const names = async (): Promise<string[]> =>
      (
        await server.sql(
          `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'runs'::regclass ORDER BY 1`,
        )
      ).map(({ name }) => name);
    const before = await names();
    expect(before).toHaveLength(6);
    // As it was a month ago, and as it will be in a month.
    const [oldest, , second, last] = [before.at(-2), 0, before[0], before.at(-1)] as string[];
    expect([oldest, last, second]).toEqual([
      expect.stringMatching(/^runs_before_/),
      expect.stringMatching(/^runs_from_/),
      expect.stringMatching(/^runs_\d{4}_\d\d$/),
    ]);
    await server.sql(`DROP TABLE ${before[3]}, ${last}`);
    await server.sql(
      `SELECT make_month_partition('runs', 'runs_from_2020_01', log_id_at((SELECT date_trunc('month', now()) + interval '3 months')), NULL)`,
    );
    await server.sql(`DELETE FROM leases WHERE name = 'log-partitions'`);
    await expect.poll(() => sweepInTurn(server.ctx, server.ctx.newUuid()), { timeout: 15_000 }).toBe(true);
    expect(await names()).toEqual(before);
  });
});

describe('a process that dies', () => {
  test('leaves a run that becomes unknown, whatever it says later', async () => {
    const id = await tokenOf(server, 'value');
    const reactor = await makeReactor(server, `await fetch('${fixture.url}/held'); return { raw: 1 };`);
    const trace_id = newTrace();
    let release: () => void = () => undefined;
    const arrived = new Promise<void>((resolve) => {
      fixture.routes.set('/held', (_, response) => {
        resolve();
        return new Promise<void>((go) => (release = () => go(void response.end('{}'))));
      });
    });
    const asked = react(server, reactor, { value: `{{ ${id} }}` }, { headers: { 'svc-trace-id': trace_id } });
    await arrived;
    await endDeadRuns(server.ctx, async () => true);
    server.clock.offsetMs = RUN_UNKNOWN_AFTER_MS + 1_000;
    await endDeadRuns(server.ctx, async () => true);
    server.clock.offsetMs = 0;
    const { reactor: run } = await runsOf(trace_id, ['reactor']);
    expect(run).toMatchObject({ outcome: 'unknown', resource_id: reactor.id, token_ids: [id] });
    for (const absent of ['status', 'duration_ms', 'error']) expect(run).not.toHaveProperty(absent);
    for (const entity of [reactor.id, id])
      expect((await outcomesOf(trace_id, entity)).toSorted()).toEqual(FAILED.toSorted());
    release();
    expect((await asked).status).toBe(200);
    await server.ctx.db.for(server.tenant).query(undefined, 'SELECT 1', []);
    expect((await runsOf(trace_id, ['reactor']))['reactor']).toEqual(run);
  });

  test('after the end of a run leaves that end, and adds nothing to the log', async () => {
    const reactor = await makeReactor(server, 'throw new Error();');
    const trace_id = newTrace();
    await react(server, reactor, {}, { headers: { 'svc-trace-id': trace_id } });
    const { reactor: run } = await runsOf(trace_id, ['reactor']);
    await expect.poll(() => outcomesOf(trace_id, reactor.id)).toEqual(FAILED);
    const { tenant_id } = server.tenant;
    const { db } = server.ctx;
    const [row] = await server.sql('SELECT * FROM runs WHERE id = $1', [run.id]);
    const { tenant_id: _tenant, mac: _mac, ...begun } = row;
    const logs = await server.sql(`SELECT id FROM audit_log WHERE trace_id = $1 AND outcome = 'success'`, [trace_id]);
    const signed = db.logMacs.signBegun(tenant_id, { run: begun, log_ids: logs.map(({ id }) => id) });
    // The second one is a copy of the beginning under another id.
    const copy = server.ctx.newLogId(new Date(Date.now() - 2 * RUN_UNKNOWN_AFTER_MS));
    for (const id of [run.id, copy])
      await server.sql('INSERT INTO begun_runs VALUES ($1, $2, $3, $4)', [tenant_id, id, signed.run, signed.mac]);
    server.clock.offsetMs = RUN_UNKNOWN_AFTER_MS + 1_000;
    await endDeadRuns(server.ctx, async () => true);
    server.clock.offsetMs = 0;
    expect(await server.sql('SELECT id FROM begun_runs WHERE id = ANY($1)', [[run.id, copy]])).toEqual([]);
    expect((await runsOf(trace_id, ['reactor']))['reactor']).toEqual(run);
    expect(await outcomesOf(trace_id, reactor.id)).toEqual(FAILED);
  });

  test('adds no rows like one that no server wrote', async () => {
    const { tenant_id } = server.tenant;
    const { db } = server.ctx;
    const trace_id = newTrace();
    const reactor = await makeReactor(server, 'return {};');
    await react(server, reactor, {}, { headers: { 'svc-trace-id': trace_id } });
    const { reactor: run } = await runsOf(trace_id, ['reactor']);
    const [row] = await server.sql('SELECT * FROM runs WHERE id = $1', [run.id]);
    const { tenant_id: _tenant, mac: _mac, ...begun } = row;
    const id = server.ctx.newLogId(new Date(Date.now() - 2 * RUN_UNKNOWN_AFTER_MS));
    const [forged] = await server.sql(
      `INSERT INTO audit_log SELECT (jsonb_populate_record(l, jsonb_build_object('id', $2::text, 'message', 'Forged'))).*
       FROM audit_log l WHERE trace_id = $1 AND outcome = 'success' LIMIT 1 RETURNING id`,
      [trace_id, id],
    );
    const signed = db.logMacs.signBegun(tenant_id, {
      run: { ...begun, id, trace_id: null, outcome: 'unknown' },
      log_ids: [forged.id],
    });
    await server.sql('INSERT INTO begun_runs VALUES ($1, $2, $3, $4)', [tenant_id, id, signed.run, signed.mac]);
    await endDeadRuns(server.ctx, async () => true);
    const forgeries = `SELECT id FROM audit_log WHERE tenant_id = $1 AND message LIKE '%Forged%'`;
    expect(await server.sql(forgeries, [tenant_id])).toEqual([{ id }]);
    expect(await server.sql('SELECT outcome FROM runs WHERE id = $1', [id])).toEqual([{ outcome: 'unknown' }]);
  });

  test('leaves no beginning that somebody else wrote', async () => {
    const { tenant_id } = server.tenant;
    const id = server.ctx.newLogId(new Date(Date.now() - 2 * RUN_UNKNOWN_AFTER_MS));
    await server.sql(`INSERT INTO begun_runs VALUES ($1, $2, '{"run":{}}', $2)`, [tenant_id, id]);
    await endDeadRuns(server.ctx, async () => true);
    expect(
      await server.sql('SELECT id FROM begun_runs WHERE id = $1 UNION SELECT id FROM runs WHERE id = $1', [id]),
    ).toEqual([]);
  });
});

describe('no response waits', () => {
  /** The statements of a request until its response, by their names. */
  const statementsOf = async (work: () => Promise<unknown>): Promise<string[]> => {
    const names: string[] = [];
    const query = Client.prototype.query;
    const spy = vi.spyOn(Client.prototype, 'query').mockImplementation(function (this: Client, ...given: any[]) {
      const name = given[0]?.name as string | undefined;
      if (name !== undefined) names.push(name);
      return (query as any).apply(this, given);
    });
    try {
      await work();
      return names.filter((name) => !name.startsWith('name-') && name !== 'insert-runs');
    } finally {
      spy.mockRestore();
    }
  };

  test('for more statements than those that find tokens and write the log', async () => {
    const id = await tokenOf(server, 'a long value');
    const reactor = await makeReactor(server, 'return { raw: args };');
    const headers = { 'svc-proxy-url': fixture.url };
    const reactTo = () => react(server, reactor, { value: `{{ ${id} }}` });
    const plainReact = () => react(server, reactor, {});
    const proxyTo = () => server.request('POST', '/proxy', { json: [`{{ ${id} }}`], headers });
    // The echo guard asks no database, unless it finds a value.
    const guardedProxyTo = () =>
      server.request('POST', '/proxy', { json: [`{{ ${id} }}`], headers: { ...headers, 'svc-echo-guard': 'mask' } });
    for (const work of [reactTo, plainReact, proxyTo, guardedProxyTo]) {
      const tokens = work === plainReact ? [] : ['find-values'];
      // The caller and the reactor are in caches, for a second.
      await expect.poll(() => statementsOf(work), { timeout: 10_000 }).toEqual([...tokens, 'insert-logs-and-runs']);
    }
  });

  test('for two more commits than a forwarded request has with an idempotency key', async () => {
    const id = await tokenOf(server, 'value');
    let count = 0;
    const forward = () => {
      const headers = { 'svc-proxy-url': fixture.url, 'svc-idempotency-key': `key-${(count += 1)}` };
      return server.request('POST', '/proxy', { json: [`{{ ${id} }}`], headers });
    };
    const named = ['find-forward-by-key', 'find-values', 'claim-forward', 'insert-forward'];
    const written = ['insert-logs-and-runs', 'commit', 'note-forward-sending', 'note-forward-answered'];
    await expect.poll(() => statementsOf(forward), { timeout: 10_000 }).toEqual([...named, ...written]);
  });

  test('for the end of a run, which may be refused or wait for a lock', async () => {
    const reactor = await makeReactor(server, 'return { raw: 1 };');
    const count = async () => (await server.request('GET', `/runs?resource_id=${reactor.id}`)).body.data.length;
    await react(server, reactor, {});
    await expect.poll(count).toBe(1);
    const holder = new Client({ connectionString: server.databaseUrl, ...seeingAllTenants });
    await holder.connect();
    await holder.query('BEGIN; LOCK TABLE runs');
    try {
      for (let index = 0; index < 3; index += 1) expect((await react(server, reactor, {})).status).toBe(200);
      expect(
        (await holder.query('SELECT count(*)::int AS n FROM runs WHERE resource_id = $1', [reactor.id])).rows,
      ).toEqual([{ n: 1 }]);
    } finally {
      await holder.query('COMMIT');
      await holder.end();
    }
    await expect.poll(count).toBe(4);
    await server.sql('REVOKE INSERT ON runs FROM CURRENT_USER');
    try {
      expect((await react(server, reactor, {})).status).toBe(200);
      await expect.poll(() => server.logLines.join('\n')).toContain('the end of a run could not be written');
    } finally {
      await server.sql('GRANT INSERT ON runs TO CURRENT_USER');
    }
  });
});
