// How long a destination may take: `timeout_seconds` of a stored proxy until the head of a response, and more until its end. Calls of
// code end before their run. test/process/long-answers.test.ts waits for the long times.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { codeOf, makeReactor, rawOf, react } from './support/reactors.ts';
import { startServerBefore, type TestServer, upstreamOn } from './support/server.ts';
import { askProxy, makeProxy } from './support/stored-proxies.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

/** Longest run of code. */
const WALL_MS = 3_000;
const LATE = 'The destination did not answer in time. It may have acted on the request.';

let server: TestServer;
let upstream: Upstream;
let destination_url: string;
const waiting = new Set<ServerResponse>();

/** `/silent` has no response, that of `/slow-body` has its head two seconds before its end. */
const answer = ({ url }: IncomingMessage, response: ServerResponse): void => {
  waiting.add(response);
  if (url === '/silent') return;
  response.setHeader('content-type', 'text/plain');
  response.write('begun');
  setTimeout(() => response.end(' and ended'), 2_000);
};

beforeAll(async () => {
  upstream = await startUpstream({ answer });
  server = await startServerBefore(upstreamOn(upstream.port), { SANDBOX_WALL_MS: String(WALL_MS) });
  destination_url = `https://upstream.test:${upstream.port}`;
});
afterEach(() => {
  for (const response of waiting) response.destroy();
  waiting.clear();
});
afterAll(async () => {
  await server.close();
  await upstream.close();
});

const passing = { code: codeOf('return { body: args.body, headers: args.headers };') };

describe('timeout_seconds', () => {
  const send = (method: string, path: string, more: object) =>
    server.request(method, path, { json: { name: 'Slow', destination_url, ...more } });

  test('is 25 unless it is set, and again after a change without it', async () => {
    const { body: made } = await send('POST', '/proxies', {});
    expect(made.timeout_seconds).toBe(25);
    for (const [given, shown] of [
      [{ timeout_seconds: 1 }, 1],
      [{ timeout_seconds: 120 }, 120],
      [{ timeout_seconds: null }, 25],
      [{ timeout_seconds: 60 }, 60],
      [{}, 25],
    ] as const) {
      expect((await send('PUT', `/proxies/${made.id}`, given)).body.timeout_seconds).toBe(shown);
      expect((await server.request('GET', `/proxies/${made.id}`)).body.timeout_seconds).toBe(shown);
    }
  });

  test.each([0, 121, 1.5, -1, '5', true])('that is %j is a 400', async (timeout_seconds) => {
    const { status, body } = await send('POST', '/proxies', { timeout_seconds });
    expect([status, body.errors]).toEqual([400, { timeout_seconds: ['must be a whole number from 1 to 120'] }]);
  });

  test.each([
    ['as it is', {}],
    ['to a transform', { response_transform: passing }],
  ])('ends the wait for the head of a response that is passed on %s: 504', async (_, more) => {
    const proxy = await makeProxy(server, { destination_url, timeout_seconds: 1, ...more });
    const beganMs = performance.now();
    const { status, body } = await askProxy(server, proxy, { path: '/proxy/silent' });
    expect([status, body.proxy_error.detail]).toEqual([504, LATE]);
    expect(performance.now() - beganMs).toBeGreaterThan(990);
    expect(upstream.received.filter(({ url }) => url === '/silent').length).toBeGreaterThan(0);
  });

  test.each([
    ['as it is', {}],
    ['to a transform', { response_transform: passing }],
  ])('does not end a body that comes later and is passed on %s', async (_, more) => {
    const proxy = await makeProxy(server, { destination_url, timeout_seconds: 1, ...more });
    const { status, text } = await askProxy(server, proxy, { path: '/proxy/slow-body' });
    expect([status, text]).toEqual([200, 'begun and ended']);
  });
});

describe('code that waits for a destination hears that it was too slow before its run ends', () => {
  const caught = (call: string, more = '') =>
    codeOf(`${more} try { await ${call}; } catch (error) { return { raw: [error.message, error.cause?.code] }; }`);

  test('by fetch, also late in a run', async () => {
    for (const more of ['', `await new Promise((resolve) => setTimeout(resolve, ${WALL_MS / 2}));`]) {
      const reactor = await makeReactor(server, { code: caught(`fetch('${destination_url}/silent')`, more) });
      expect((await rawOf(react(server, reactor)))[1]).toBe('TIMEOUT');
    }
  });

  test('by svc.proxy, also where a transform of that proxy waits by fetch', async () => {
    const application = await server.newKey(server.tenant, { permissions: ['token:use'] });
    const waits = { code: codeOf(`await fetch('${destination_url}/silent'); return args;`) };
    for (const more of [{}, { request_transform: waits }]) {
      const proxy = await makeProxy(server, { destination_url, timeout_seconds: 120, ...more });
      const call = `svc.proxy.get({ path: '/silent', headers: { 'SVC-PROXY-KEY': '${proxy.key}' } })`;
      const reactor = await makeReactor(server, { code: caught(call), application });
      expect((await rawOf(react(server, reactor)))[0]).toMatch(/did not answer in time/);
    }
  });

  test('in a transform too, which has only the time that its caller has left', async () => {
    const application = await server.newKey(server.tenant, { permissions: ['token:use'] });
    const code = codeOf(`try { await fetch('${destination_url}/silent'); return args; } catch (error) {
      const { CustomHttpResponseError } = require('@svc/reactor-formulas-sdk');
      throw new CustomHttpResponseError({ status: 418, body: { caught: error.cause?.code } });
    }`);
    const proxy = await makeProxy(server, { destination_url, request_transform: { code } });
    const late = codeOf(`await new Promise((resolve) => setTimeout(resolve, ${WALL_MS / 3}));
      const { status, body } = await svc.proxy.get({ path: '/', headers: { 'SVC-PROXY-KEY': '${proxy.key}' } });
      return { raw: [status, body] };`);
    const reactor = await makeReactor(server, { code: late, application });
    expect(await rawOf(react(server, reactor))).toEqual([418, { caught: 'TIMEOUT' }]);
  });
});
