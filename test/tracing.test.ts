// Traces: one tree of spans for a request, from the client's `traceparent` to the destination, exported by OTLP over HTTP, without
// values, keys and ids of tokens. An endpoint that hangs costs spans, not requests.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../src/platform/config/config.ts';
import { type CollectedSpan, type Collector, newParent, startCollector } from './support/collector.ts';
import { codeOf, makeReactor, rawOf, react, type ReactorServer, startReactorServer } from './support/reactors.ts';
import { type Answer, type TestServer } from './support/server.ts';
import { makeProxy } from './support/stored-proxies.ts';

const WAIT = { timeout: 30_000 };
const CARD = '4916338506082832';

describe('with a collector', () => {
  let collector: Collector;
  let fixture: ReactorServer;
  let server: TestServer;

  beforeAll(async () => {
    collector = await startCollector();
    fixture = await startReactorServer({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-collector-key=of%20the%20operator',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=live',
      TRACEPARENT_HOSTS: 'other.upstream.test',
    });
    ({ server } = fixture);
  });
  afterAll(async () => {
    await fixture.close();
    await collector.close();
  });

  const spansOf = (trace_id: string): CollectedSpan[] => collector.spans().filter((span) => span.trace_id === trace_id);
  /** All spans of a trace. The span of the request ends last. */
  const tree = async (trace_id: string): Promise<CollectedSpan[]> => {
    await expect.poll(() => spansOf(trace_id).some(({ kind }) => kind === 'server'), WAIT).toBe(true);
    return spansOf(trace_id);
  };
  const rootOf = (spans: CollectedSpan[]): CollectedSpan => {
    const roots = spans.filter(({ kind }) => kind === 'server');
    expect(roots).toHaveLength(1);
    return roots[0] as CollectedSpan;
  };
  /** Each span as its name below the names of its parents. */
  const pathsOf = (spans: CollectedSpan[]): string[] => {
    const byId = new Map(spans.map((span) => [span.id, span]));
    const pathOf = ({ name, parent }: CollectedSpan): string => {
      const above = byId.get(parent);
      return above ? `${pathOf(above)} > ${name}` : name;
    };
    return spans.map(pathOf).toSorted();
  };
  const traced = (header: string, more: Record<string, string> = {}) => ({ traceparent: header, ...more });

  test('a request is a span below that of its client, and its statements are spans below it', async () => {
    const { trace_id, id, header } = newParent();
    const answer = await server.request('POST', '/tokenize', {
      json: { card: { type: 'card_number', data: CARD } },
      headers: traced(header, { 'svc-trace-id': 'order-4711' }),
    });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.headers.get('svc-trace-id')).toBe('order-4711');
    const spans = await tree(trace_id);
    const root = rootOf(spans);
    expect(root).toMatchObject({ name: 'POST /tokenize', parent: id, isError: false });
    expect(root.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/tokenize',
      'http.response.status_code': 200,
      'strongroom.tenant_id': server.tenant.tenant_id,
    });
    expect(root.resource).toMatchObject({
      'service.name': 'strongroom',
      'deployment.environment.name': 'live',
      'process.pid': process.pid,
    });
    expect(pathsOf(spans)).toContain('POST /tokenize > insert-tokens');
    const insert = spans.find(({ name }) => name === 'insert-tokens');
    expect(insert).toMatchObject({
      parent: root.id,
      kind: 'client',
      attributes: { 'db.system.name': 'postgresql', 'db.query.summary': 'insert-tokens' },
    });
    expect(collector.paths.every((path) => path === 'POST /v1/traces')).toBe(true);
    expect(collector.headers[0]?.['x-collector-key']).toBe('of the operator');
  });

  test('up to 200 values are one statement; more are groups in a transaction, with one log row', async () => {
    const namesOf = async (values: string[]): Promise<string[]> => {
      const { trace_id, header } = newParent();
      const { status, body } = await server.request('POST', '/tokenize', { json: values, headers: traced(header) });
      expect(status).toBe(200);
      expect(new Set(body).size).toBe(values.length);
      const text = 'SELECT entity_ids FROM audit_log WHERE tenant_id = $1 AND $2 = ANY (entity_ids)';
      const logs = (await server.ctx.db.statements.ask(text, [server.tenant.tenant_id, body.at(-1)])) as any[];
      expect(logs.map(({ entity_ids }) => entity_ids.toSorted())).toEqual([body.toSorted()]);
      const opened = await server.request('POST', '/detokenize', { json: `{{ ${body.at(-1)} }}` });
      expect(opened.body).toBe(values.at(-1));
      // Keys that caches have forgotten are found again.
      return (await tree(trace_id))
        .filter(({ kind, name }) => kind === 'client' && !/^find-|[.]find/.test(name))
        .map(({ name }) => name);
    };
    const some = (count: number): string[] => Array.from({ length: count }, (_, each) => `value ${each} of ${count}`);
    for (const count of [1, 20, 200]) expect(await namesOf(some(count))).toEqual(['insert-tokens']);
    const groups = ['insert-tokens', 'insert-tokens', 'insert-tokens'];
    expect((await namesOf(some(450))).toSorted()).toEqual(
      ['begin', ...groups, 'insert-logs', 'commit', 'transaction'].toSorted(),
    );
  });

  test('a run of code is a span, with what it calls below it', async () => {
    const reactor = await makeReactor(server, {
      code: codeOf(
        `const made = await svc.tokenize({ type: 'token', data: args.data });
         const answer = await fetch('${fixture.url}/sent/${CARD}?card=${CARD}', { method: 'POST', body: args.data });
         return { raw: { id: made.id, status: answer.status } };`,
      ),
      request_parameters: [{ name: 'data', type: 'string' }],
      application: await server.newKey(server.tenant, { permissions: ['token:create'] }),
    });
    const { trace_id, header } = newParent();
    const made = await rawOf(react(server, reactor, { data: CARD }, { headers: traced(header) }));
    expect(made.status).toBe(200);
    const spans = await tree(trace_id);
    const paths = pathsOf(spans);
    expect(paths).toContain('POST /reactors/:id/react > run');
    for (const name of ['insert-tokens', 'insert-logs', 'POST'])
      expect(paths).toContain(`POST /reactors/:id/react > run > ${name}`);
    const run = spans.find(({ name }) => name === 'run');
    expect(run?.attributes['strongroom.run.result']).toBe('ok');
  });

  test('runs and calls of requests at the same time keep to their traces', async () => {
    const reactor = await makeReactor(
      server,
      `await fetch('${fixture.url}/pause'); const answer = await fetch('${fixture.url}/' + args.n); return { raw: answer.status };`,
    );
    const parents = Array.from({ length: 6 }, () => newParent());
    await Promise.all(
      parents.map(({ header }, n) => rawOf(react(server, reactor, { n: String(n) }, { headers: traced(header) }))),
    );
    for (const { trace_id } of parents) {
      const spans = await tree(trace_id);
      const paths = pathsOf(spans);
      expect(paths.filter((path) => path === 'POST /reactors/:id/react > run > GET')).toHaveLength(2);
      expect(paths.every((path) => path.startsWith('POST /reactors/:id/react'))).toBe(true);
    }
  });

  test('a request to a destination is a span, of which the destination learns nothing', async () => {
    const { body } = await server.tokenize({ type: 'token', data: `canary-${CARD}` });
    const { trace_id, header } = newParent();
    const answer = await server.request('POST', `/proxy/path-${CARD}?query=${CARD}`, {
      json: { card: `{{ ${body.id} }}` },
      headers: traced(header, {
        'svc-proxy-url': fixture.url,
        tracestate: 'vendor=value',
        baggage: 'user=person',
        'x-own': `header-${CARD}`,
      }),
    });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body.body).toContain(`canary-${CARD}`);
    const names = answer.body.headers.map(([name]: [string]) => name.toLowerCase());
    for (const name of ['traceparent', 'tracestate', 'baggage']) expect(names).not.toContain(name);
    const spans = await tree(trace_id);
    const root = rootOf(spans);
    expect(root).toMatchObject({ name: 'POST /proxy/*' });
    const sent = spans.find(({ attributes }) => 'server.address' in attributes);
    expect(sent).toMatchObject({ name: 'POST', kind: 'client', parent: root.id });
    expect(sent?.attributes).toEqual({
      'http.request.method': 'POST',
      'server.address': 'upstream.test',
      'server.port': Number(new URL(fixture.url).port),
      'http.response.status_code': 200,
    });
  });

  test('a destination of TRACEPARENT_HOSTS gets the span of its request as its parent', async () => {
    const { trace_id, header } = newParent();
    const answer = await server.request('POST', '/proxy/', {
      json: {},
      headers: traced(header, { 'svc-proxy-url': fixture.otherUrl }),
    });
    expect(answer.status, answer.text).toBe(200);
    const spans = await tree(trace_id);
    const sent = spans.find(({ attributes }) => 'server.address' in attributes);
    const result = answer.body.headers.filter(([name]: [string]) => name.toLowerCase() === 'traceparent');
    expect(result).toEqual([['traceparent', `00-${trace_id}-${sent?.id}-01`]]);
  });

  test('a stored proxy with code is one tree', async () => {
    const proxy = await makeProxy(server, {
      destination_url: fixture.url,
      request_transform: { code: codeOf('return { body: args.body, headers: args.headers };') },
    });
    const { trace_id, header } = newParent();
    const answer = await server.request('POST', '/proxy/', {
      json: { a: 1 },
      headers: traced(header, { 'svc-proxy-key': proxy.key }),
    });
    expect(answer.status, answer.text).toBe(200);
    const paths = pathsOf(await tree(trace_id));
    for (const name of ['run', 'insert-logs', 'POST']) expect(paths).toContain(`POST /proxy > ${name}`);
    expect(paths.every((path) => path.startsWith('POST /proxy'))).toBe(true);
  });

  test('the id of the trace is in the problem, the row of the log and the line of the log', async () => {
    const { trace_id, header } = newParent();
    const missing = await server.request('GET', '/tokens/no-such-token', { headers: traced(header) });
    expect(missing.status).toBe(404);
    expect(missing.body.otel_trace_id).toBe(trace_id);
    const other = newParent();
    const proxied = await server.request('GET', '/proxy/', {
      headers: traced(other.header, { 'svc-proxy-url': 'https://no-such-host.test' }),
    });
    expect(proxied.body.proxy_error.otel_trace_id).toBe(other.trace_id);
    const made = newParent();
    const { body } = await server.request('POST', '/tokens', {
      json: { type: 'token', data: 'x' },
      headers: traced(made.header),
    });
    const read = newParent();
    await server.request('GET', `/tokens/${body.id}`, { headers: traced(read.header) });
    const unique = newParent();
    const deduplicated = await server.request('POST', '/tokens', {
      json: { type: 'token', data: 'unique', deduplicate_token: true },
      headers: traced(unique.header),
    });
    const logsOf = async (id: string) => (await server.request('GET', `/logs?entity_id=${id}`)).body.data;
    expect(await logsOf(body.id)).toMatchObject([
      { operation: 'read', otel_trace_id: read.trace_id },
      { operation: 'create', otel_trace_id: made.trace_id },
    ]);
    expect(await logsOf(deduplicated.body.id)).toMatchObject([{ otel_trace_id: unique.trace_id }]);
    const csv = await server.request('GET', `/logs?entity_id=${body.id}`, { headers: { accept: 'text/csv' } });
    expect(csv.text).toContain(made.trace_id);
    await expect
      .poll(() => server.logLines.map((line) => JSON.parse(line)), WAIT)
      .toContainEqual(expect.objectContaining({ msg: 'request', route: '/tokens', otel_trace_id: made.trace_id }));
  });

  test('a traceparent that is not valid is none, and a request without one begins a trace', async () => {
    const ask = (headers: Record<string, string>): Promise<Answer> =>
      server.request('GET', '/tokens/no-such-token', { headers });
    const zeros = '0'.repeat(32);
    for (const traceparent of [
      '',
      'x',
      `00-${zeros}-00f067aa0ba902b7-01`,
      '00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01',
      'ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more',
      '00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01',
      `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01${'x'.repeat(5_000)}`,
    ]) {
      const { body } = await ask({ traceparent });
      expect(body.otel_trace_id).toMatch(/^[0-9a-f]{32}$/);
      expect(body.otel_trace_id).not.toMatch(/^(?:0+|4bf92f3577b34da6a3ce929d0e0e4736)$/);
    }
    const later = '01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more';
    expect((await ask({ traceparent: later })).body.otel_trace_id).toBe('4bf92f3577b34da6a3ce929d0e0e4736');
    const own = await ask({});
    const root = rootOf(await tree(own.body.otel_trace_id));
    expect(root).toMatchObject({ name: 'GET /tokens/:id', parent: '', isError: false });
  });

  test('a client cannot keep a request out of the traces, or have it traced, by its flag', async () => {
    const { trace_id, header } = newParent('00');
    await server.request('GET', '/tokens/no-such-token', { headers: traced(header) });
    expect(rootOf(await tree(trace_id)).name).toBe('GET /tokens/:id');
  });

  test('no exported byte holds a value, a key, an id of a token, a path or a header', async () => {
    const planted = `planted-${crypto.randomUUID()}`;
    const { body } = await server.tokenize({ note: planted, card: { type: 'card_number', data: CARD } });
    const { trace_id, header } = newParent();
    await server.request('GET', `/tokens/${body.note}?${planted}=1`, { headers: { 'svc-trace-id': planted } });
    await server.request('GET', `/${planted}`);
    await server.request('POST', '/tokens', {
      body: `{"type":"token","data":"${planted}"`,
      headers: { 'content-type': 'application/json' },
    });
    const fails = await makeReactor(
      server,
      `await fetch('https://${CARD}.upstream.test/${planted}', { method: '${planted.slice(0, 20)}' }).catch(() => 0);
       const error = new Error('${planted}'); error.name = '${planted}'; throw error`,
    );
    expect((await react(server, fails, { planted })).status).toBe(500);
    await server.request('PATCH', `/tokens/${body.note}`, {
      json: { data: planted, metadata: { planted } },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    await server.request('GET', '/tokens/no-such-token', { headers: traced(header) });
    await tree(trace_id);
    const text = collector.text();
    expect(text.length).toBeGreaterThan(10_000);
    for (const secret of [
      planted,
      planted.slice(0, 20),
      CARD,
      body.note,
      body.card.id,
      fails.id,
      server.tenant.api_key,
      server.tenant.api_key.slice(-30),
      'no-such-token',
    ])
      expect(text).not.toContain(secret);
    const keys = new Set(collector.spans().flatMap(({ attributes }) => Object.keys(attributes)));
    expect([...keys].toSorted()).toEqual([
      'db.query.summary',
      'db.system.name',
      'error.type',
      'http.request.method',
      'http.response.status_code',
      'http.route',
      'server.address',
      'server.port',
      'strongroom.run.cpu_ms',
      'strongroom.run.result',
      'strongroom.tenant_id',
    ]);
  });
});

test('a sampler that follows the client traces what its flag says', async () => {
  const collector = await startCollector();
  const fixture = await startReactorServer({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_TRACES_SAMPLER: 'parentbased_always_off',
  });
  const [flagged, unflagged] = [newParent('01'), newParent('00')];
  for (const { header } of [unflagged, flagged]) {
    const { body } = await fixture.server.request('GET', '/tokens/x', { headers: { traceparent: header } });
    expect(body.otel_trace_id).toBe(header.slice(3, 35));
  }
  await fixture.server.request('GET', '/tokens/x');
  await fixture.close();
  expect(new Set(collector.spans().map(({ trace_id }) => trace_id))).toEqual(new Set([flagged.trace_id]));
  await collector.close();
});

test('without an endpoint nothing is traced, and nothing has an id of a trace', async () => {
  const fixture = await startReactorServer();
  const { server } = fixture;
  expect(server.ctx.tracing).toBeUndefined();
  const { header } = newParent();
  const missing = await server.request('GET', '/tokens/x', { headers: { traceparent: header } });
  expect(missing.body).not.toHaveProperty('otel_trace_id');
  expect(await server.sql('SELECT otel_trace_id FROM audit_log WHERE otel_trace_id IS NOT NULL')).toEqual([]);
  const proxied = await server.request('POST', '/proxy/', {
    json: {},
    headers: { traceparent: header, 'svc-proxy-url': fixture.url },
  });
  expect(proxied.body.headers.map(([name]: [string]) => name.toLowerCase())).not.toContain('traceparent');
  await fixture.close();
});

test('settings that cannot be meant end the start with what to set, without their values', () => {
  const OTEL_EXPORTER_OTLP_ENDPOINT = 'http://127.0.0.1:4318';
  const refused =
    (environment: Record<string, string>): (() => unknown) =>
    () =>
      loadConfig({ OTEL_EXPORTER_OTLP_ENDPOINT, ...environment });
  expect(refused({ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' })).toThrow(
    /OTEL_EXPORTER_OTLP_ENDPOINT: must be like/,
  );
  expect(refused({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://user:secret@collector' })).toThrow(/without user, password/);
  expect(refused({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })).toThrow(/OTEL_EXPORTER_OTLP_PROTOCOL: must be http\/json/);
  expect(refused({ OTEL_TRACES_SAMPLER: 'sometimes' })).toThrow(/OTEL_TRACES_SAMPLER/);
  for (const OTEL_TRACES_SAMPLER_ARG of ['2', '-1', 'half', '1e-3'])
    expect(refused({ OTEL_TRACES_SAMPLER_ARG })).toThrow(/OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1/);
  expect(refused({ TRACEPARENT_HOSTS: 'https://api.example.com' })).toThrow(/TRACEPARENT_HOSTS: must be host names/);
  for (const OTEL_EXPORTER_OTLP_HEADERS of ['secret', 'a=b%0d%0asecret', 'a b=secret', 'a=secret%']) {
    expect(refused({ OTEL_EXPORTER_OTLP_HEADERS })).toThrow(/OTEL_EXPORTER_OTLP_HEADERS: must be like/);
    expect(refused({ OTEL_EXPORTER_OTLP_HEADERS })).not.toThrow('secret');
  }
});
