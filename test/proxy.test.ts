// The proxy from the caller to a real TLS server and back: routes, callers, forwarded data, log rows.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type SharedReactorServer, tokenOf, useReactorServer, usesOf, withoutLog } from './support/reactors.ts';
import type { Answer } from './support/server.ts';
import type { Received } from './support/upstream.ts';

let fixture: SharedReactorServer;
beforeAll(async () => {
  fixture = await useReactorServer();
});
afterAll(() => fixture.close());

type Options = { key?: string | null; headers?: Record<string, string>; json?: unknown; body?: string };

const forward = (method: string, path: string, options: Options = {}): Promise<Answer> =>
  fixture.server.request(method, path, { ...options, headers: { 'svc-proxy-url': fixture.url, ...options.headers } });

/** What the destination received last. */
const last = (): Received => fixture.upstream.received.at(-1) as Received;

const headerOf = (received: Received, wanted: string): string[] =>
  received.headers.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value);

const CARD = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' };

describe('a destination that the caller names', () => {
  test('a card reaches it raw, in the JSON of a body', async () => {
    const id = await tokenOf(fixture.server, CARD, { type: 'card' });
    const answer = await forward('POST', '/proxy/v1/charges', {
      json: { amount: 100, source: `{{ ${id} }}`, number: `{{ ${id} | json: '$.number' }}` },
    });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.headers.get('svc-proxy-destination-status')).toBe('200');
    expect(last().url).toBe('/v1/charges');
    expect(JSON.parse(last().body.toString())).toEqual({ amount: 100, source: CARD, number: CARD.number });
  });

  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'])
    test(`${method} goes on as ${method}`, async () => {
      const answer = await forward(method, '/proxy/a?b=c');
      expect(answer.status, answer.text).toBe(200);
      expect([last().method, last().url]).toEqual([method, '/a?b=c']);
    });

  test('the use of a token is in the log', async () => {
    const id = await tokenOf(fixture.server, 'x');
    await forward('POST', '/proxy', { json: { x: `{{ ${id} }}` } });
    expect(await usesOf(fixture.server, id)).toEqual([
      { actor_id: fixture.server.tenant.application_id, entity_type: 'token', entity_ids: [id] },
    ]);
  });

  test('nothing is sent when the log cannot be written', async () => {
    const id = await tokenOf(fixture.server, 'x');
    const before = fixture.upstream.received.length;
    await withoutLog(fixture.server, async () => {
      const answer = await forward('POST', '/proxy', { json: { x: `{{ ${id} }}` } });
      expect(answer.status).toBe(503);
      expect(answer.body.proxy_error.status).toBe(503);
    });
    expect(fixture.upstream.received).toHaveLength(before);
  });

  test('headers of the caller go on, and none of ours', async () => {
    await forward('GET', '/proxy', {
      headers: { authorization: 'Bearer abc', 'x-own': '1', 'svc-trace-id': 'trace', cookie: 'a=b' },
    });
    expect(headerOf(last(), 'authorization')).toEqual(['Bearer abc']);
    expect(headerOf(last(), 'x-own')).toEqual(['1']);
    expect(headerOf(last(), 'cookie')).toEqual(['a=b']);
    expect(last().headers.filter(([name]) => /^svc-/i.test(name))).toEqual([]);
    expect(headerOf(last(), 'host')).toEqual([new URL(fixture.url).host]);
  });

  test('other methods are refused in the frame of the proxy', async () => {
    for (const method of ['HEAD', 'OPTIONS', 'PROPFIND']) {
      const answer = await forward(method, '/proxy/x');
      expect(answer.status, method).toBe(405);
      expect(answer.headers.get('allow')).toBe('GET, POST, PUT, PATCH, DELETE');
    }
  });
});
