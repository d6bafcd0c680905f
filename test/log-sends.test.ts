// The log names the destination, and the reactor or proxy, of every request that leaves the vault.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { URL_CHARACTERS_MAX } from '../src/platform/egress/destination.ts';
import {
  codeOf,
  makeReactor,
  rawOf,
  react,
  type SharedReactorServer,
  tokenOf,
  useReactorServer,
} from './support/reactors.ts';
import { askProxy, makeProxy } from './support/stored-proxies.ts';
import type { SharedServer } from './support/server.ts';

let fixture: SharedReactorServer;
let server: SharedServer;
let host: string;
let otherHost: string;

beforeAll(async () => {
  fixture = await useReactorServer();
  ({ server } = fixture);
  host = new URL(fixture.url).host;
  otherHost = new URL(fixture.otherUrl).host;
});
afterAll(() => fixture.close());

type Row = Record<string, unknown>;

/** All uses in the order of the log that this request made. */
const usesWith = (trace_id: string): Promise<Row[]> =>
  server.sql(
    `SELECT actor_id, entity_type, entity_ids, message, outcome, disclosure, destination_host, reactor_id, proxy_id, ip
     FROM audit_log WHERE trace_id = $1 AND operation IN ('use', 'read') ORDER BY id`,
    [trace_id],
  );

/** By kind of entity: rows of one moment have ids in no order. */
const byKind = (rows: Row[], entity_type: string): Row[] => rows.filter((row) => row['entity_type'] === entity_type);

const traced = (trace_id: string, more: Record<string, string> = {}) => ({ 'svc-trace-id': trace_id, ...more });

describe('a proxied request', () => {
  test('to a destination of its own without expressions is logged with the host', async () => {
    const headers = traced('plain-send', { 'svc-proxy-url': `${fixture.url}/x` });
    expect((await server.request('POST', '/proxy/y', { json: { a: 1 }, headers })).status).toBe(200);
    expect(await usesWith('plain-send')).toMatchObject([
      {
        entity_type: 'proxy',
        entity_ids: [server.tenant.tenant_id],
        message: 'Proxy used',
        destination_host: host,
        outcome: 'success',
      },
    ]);
  });

  test('with a value is logged with the host in the row of the token', async () => {
    const id = await tokenOf(server, 'value');
    const headers = traced('value-send', { 'svc-proxy-url': fixture.url });
    await server.request('POST', '/proxy', { json: { a: `{{ ${id} }}` }, headers });
    expect(await usesWith('value-send')).toMatchObject([
      { entity_type: 'token', entity_ids: [id], disclosure: 'used', destination_host: host, proxy_id: null },
    ]);
  });

  test('through a stored proxy names the proxy in each row, and the application of an open one', async () => {
    const id = await tokenOf(server, 'value');
    const proxy = await makeProxy(server, {
      destination_url: fixture.url,
      require_auth: false,
      application: { id: server.tenant.application_id },
    });
    await askProxy(server, proxy, { key: null, json: [`{{ ${id} }}`], headers: traced('open-send') });
    const rows = await usesWith('open-send');
    expect(rows).toHaveLength(2);
    for (const row of rows)
      expect(row).toMatchObject({
        actor_id: server.tenant.application_id,
        destination_host: host,
        proxy_id: proxy.id,
        ip: '127.0.0.1',
      });
    expect(byKind(rows, 'proxy')).toMatchObject([{ entity_ids: [proxy.id] }]);
    expect(byKind(rows, 'token')).toMatchObject([{ entity_ids: [id], disclosure: 'used' }]);
  });

  test('that could not be sent has a second row for the same token, which says so', async () => {
    const id = await tokenOf(server, 'value');
    fixture.routes.set('/cut', (request) => void request.socket.destroy());
    const headers = traced('cut-send', { 'svc-proxy-url': `${fixture.url}/cut` });
    const { status } = await server.request('POST', '/proxy', { json: { a: `{{ ${id} }}` }, headers });
    expect(status).toBe(502);
    expect(await usesWith('cut-send')).toMatchObject([
      { entity_ids: [id], outcome: 'success', destination_host: host },
      { entity_ids: [id], outcome: 'failed', destination_host: host },
    ]);
  });

  test.each([
    ['whose value does not fit its place', 'a\nb', () => '/proxy', (id: string) => ({ 'x-a': `{{ ${id} }}` })],
    [
      'whose value leads out of the path',
      '..',
      (id: string) => `/proxy/${encodeURIComponent(`{{ ${id} }}`)}/x`,
      () => ({}),
    ],
    [
      'whose URL becomes too long',
      'x'.repeat(URL_CHARACTERS_MAX),
      (id: string) => `/proxy?a=${encodeURIComponent(`{{ ${id} }}`)}`,
      () => ({}),
    ],
  ])('%s has a second row, which says that nothing was sent', async (what, value, pathOf, headersOf) => {
    const id = await tokenOf(server, value);
    const trace = what.replaceAll(' ', '-');
    const headers = traced(trace, { 'svc-proxy-url': fixture.url, ...headersOf(id) });
    const { status } = await server.request('POST', pathOf(id), { headers });
    expect(status).toBe(400);
    expect(await usesWith(trace)).toMatchObject([
      { entity_ids: [id], outcome: 'success', destination_host: host },
      { entity_ids: [id], outcome: 'failed', destination_host: host },
    ]);
  });

  test.each([
    ['throws', `throw new Error('no');`],
    [
      'answers itself',
      `const { CustomHttpResponseError } = require('@svc/reactor-formulas-sdk'); throw new CustomHttpResponseError({ status: 200, body: 'x' });`,
    ],
  ])('whose request transform %s has a second row, which says that nothing was sent', async (name, code) => {
    const id = await tokenOf(server, 'value');
    const proxy = await makeProxy(server, {
      destination_url: fixture.url,
      request_transform: { code: `module.exports = async () => { ${code} };` },
    });
    const trace = `stopped-send-${name.replaceAll(' ', '-')}`;
    await askProxy(server, proxy, { json: [`{{ ${id} }}`], headers: traced(trace) });
    const rows = await usesWith(trace);
    for (const kind of ['token', 'proxy'])
      expect(byKind(rows, kind).map(({ outcome }) => outcome)).toEqual(['success', 'failed']);
  });

  test('of an open proxy whose application may not use the token is a refusal in the log', async () => {
    const id = await tokenOf(server, 'value');
    const weak = await server.newKey(server.tenant, { permissions: ['token:create'] });
    const proxy = await makeProxy(server, {
      destination_url: fixture.url,
      require_auth: false,
      application: { id: weak.application_id },
    });
    const { status } = await askProxy(server, proxy, {
      key: null,
      json: [`{{ ${id} }}`],
      headers: traced('refused-send'),
    });
    expect(status).toBe(403);
    expect(await usesWith('refused-send')).toMatchObject([
      { actor_id: weak.application_id, outcome: 'refused', message: 'Refused: token:use', proxy_id: proxy.id },
    ]);
  });
});

describe('code', () => {
  test('that fetches leaves a row for each host that it sends to, redirects included', async () => {
    fixture.routes.set('/moved', (_, response) => {
      response.writeHead(302, { location: `${fixture.otherUrl}/there` });
      response.end();
    });
    const id = await tokenOf(server, 'value');
    const reactor = await makeReactor(server, `await fetch('${fixture.url}/moved'); return { raw: args };`);
    await rawOf(react(server, reactor, `{{ ${id} }}`, { headers: traced('code-fetch') }));
    const rows = await usesWith('code-fetch');
    for (const row of rows) expect(row).toMatchObject({ reactor_id: reactor.id, outcome: 'success', ip: '127.0.0.1' });
    expect(byKind(rows, 'token')).toMatchObject([{ entity_ids: [id], disclosure: 'used' }]);
    expect(byKind(rows, 'reactor').map(({ message, destination_host }) => [message, destination_host])).toEqual([
      ['Reactor used', null],
      ['Request sent by code', host],
      ['Request sent by code', otherHost],
    ]);
  });

  test('whose fetch fails leaves a second row that says so', async () => {
    fixture.routes.set('/cut', (request) => void request.socket.destroy());
    const reactor = await makeReactor(server, `try { await fetch('${fixture.url}/cut'); } catch {} return { raw: 1 };`);
    await rawOf(react(server, reactor, {}, { headers: traced('code-cut') }));
    const sent = (await usesWith('code-cut')).filter(({ message }) => message === 'Request sent by code');
    expect(sent.map(({ outcome, destination_host }) => [outcome, destination_host])).toEqual([
      ['success', host],
      ['failed', host],
    ]);
  });

  test('of a transform is logged with its proxy', async () => {
    const proxy = await makeProxy(server, {
      destination_url: fixture.url,
      request_transform: {
        code: `module.exports = async (req) => { await fetch('${fixture.otherUrl}/side'); return req.args; };`,
      },
    });
    const { status, text } = await askProxy(server, proxy, { json: { a: 1 }, headers: traced('transform-fetch') });
    expect(status, text).toBe(200);
    const rows = await usesWith('transform-fetch');
    for (const row of rows) expect(row).toMatchObject({ entity_ids: [proxy.id], proxy_id: proxy.id });
    expect(rows.map(({ message, destination_host }) => [message, destination_host])).toEqual([
      ['Proxy used', host],
      ['Request sent by code', otherHost],
    ]);
  });

  test('that is refused something by svc leaves a refusal, once', async () => {
    const id = await tokenOf(server, 'value');
    const weak = await server.newKey(server.tenant, { permissions: ['token:create'] });
    const reactor = await makeReactor(server, {
      code: codeOf(`try { await svc.tokens.retrieve(args.id); } catch {} return { raw: 1 };`),
      application: weak,
    });
    await rawOf(react(server, reactor, { id }, { headers: traced('svc-refused') }));
    const refused = (await usesWith('svc-refused')).filter(({ outcome }) => outcome === 'refused');
    expect(refused).toMatchObject([
      { actor_id: weak.application_id, message: 'Refused: token:read', reactor_id: reactor.id },
    ]);
  });
});
