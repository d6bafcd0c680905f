// What the server serves for the fields library: headers, digests, unknown paths, and the host of FIELDS_ORIGIN.
import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../src/platform/config/config.ts';
import { type Message, type ProxyFixture, startProxyFixture, statusOf } from './support/proxy.ts';
import { UNKNOWN_ID } from './support/resource.ts';
import { type Answer, type SharedServer, useServer } from './support/server.ts';

const SHOP = 'https://shop.example.com';
const OTHER_SHOP = 'https://other.example.com:8443';

/** What the loader may weigh, and the script and style of a frame together. */
const LOADER_BYTES_MAX = 6 * 1024;
const FRAME_BYTES_MAX = 15 * 1024;

const sessionOf = async (server: SharedServer, more: object = {}): Promise<{ [name: string]: any }> => {
  const json = { allowed_origins: [SHOP, OTHER_SHOP], types: ['card'], ...more };
  return (await server.request('POST', '/sessions', { json })).body;
};

describe('the files', () => {
  let server: SharedServer;
  let version: string;
  let versions: Record<string, Record<string, string>>;
  const get = (path: string): Promise<Answer> => server.request('GET', path, { key: null });

  beforeAll(async () => {
    server = await useServer();
    ({ current: version, versions } = (await get('/fields/integrity.json')).body);
  });

  test('have the digests of integrity.json, are immutable, and may be loaded by any page', async () => {
    expect(Object.keys(versions[version] ?? {})).toEqual(['fields.js', 'frame.css', 'frame.js']);
    for (const [of, digests] of Object.entries(versions))
      for (const [name, digest] of Object.entries(digests)) {
        const { status, text, headers } = await get(`/fields/${of}/${name}`);
        expect(status).toBe(200);
        expect(`sha384-${createHash('sha384').update(text).digest('base64')}`).toBe(digest);
        expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
        expect(headers.get('access-control-allow-origin')).toBe('*');
        expect(headers.get('cross-origin-resource-policy')).toBe('cross-origin');
      }
    const { headers } = await get('/fields/integrity.json');
    expect([headers.get('access-control-allow-origin'), headers.get('cache-control')]).toEqual(['*', 'no-cache']);
  });

  test('are small', async () => {
    const weigh = async (name: string) => gzipSync((await get(`/fields/${version}/${name}`)).text).byteLength;
    expect(await weigh('fields.js')).toBeLessThan(LOADER_BYTES_MAX);
    expect((await weigh('frame.js')) + (await weigh('frame.css'))).toBeLessThan(FRAME_BYTES_MAX);
  });

  test('a frame loads its own files only, and is framed by the origins of its session only', async () => {
    const { id, session_key } = await sessionOf(server);
    const { status, headers, text } = await get(`/fields/${version}/frame/${id}/number`);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(headers.get('content-security-policy')).toBe(
      `default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors ${SHOP} ${OTHER_SHOP}; require-trusted-types-for 'script'; trusted-types 'none'`,
    );
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('set-cookie')).toBeNull();
    expect(headers.get('x-frame-options')).toBeNull();
    expect(headers.get('access-control-allow-origin')).toBeNull();
    expect(text).toContain(`data-origins="${SHOP} ${OTHER_SHOP}"`);
    expect(text).not.toContain('data-expired');
    expect(text).not.toContain(session_key);
  });

  test('a frame of a session that is over says so', async () => {
    const { id } = await sessionOf(server, { expires_in: '1m' });
    server.clock.offsetMs = 60_000;
    const { status, text } = await get(`/fields/${version}/frame/${id}/number`);
    server.clock.offsetMs = 0;
    expect([status, text.includes(' data-expired=""')]).toEqual([200, true]);
  });

  test('unknown versions, sessions and fields look the same', async () => {
    const { id } = await sessionOf(server);
    const shapeOf = async (path: string) => {
      const { status, text } = await get(path);
      return [path, status, text.replace(/"trace_id":"[^"]+"/, '')];
    };
    const [, , unknown] = await shapeOf(`/fields/9.9.9/frame/${id}/number`);
    for (const path of [
      `/fields/toString/frame/${id}/number`,
      `/fields/${version}/frame/${UNKNOWN_ID}/number`,
      `/fields/${version}/frame/x/number`,
      `/fields/${version}/frame/${id}/pin`,
      `/fields/${version}/frame/${id}/toString`,
    ])
      expect(await shapeOf(path)).toEqual([path, 404, unknown]);
    const [, , noPath] = await shapeOf('/unknown');
    for (const path of [
      `/fields/${version}/frame/${id}`,
      '/fields/9.9.9/fields.js',
      `/fields/${version}/other.js`,
      '/fields',
    ])
      expect(await shapeOf(path)).toEqual([path, 404, noPath]);
  });

  test.each(['https://*.example.com', 'https://a;script-src', 'https://a,b.example', "https://a'b.example"])(
    'an origin that is more than one in a policy is refused: %s',
    async (origin) => {
      const json = { allowed_origins: [origin], types: ['card'] };
      expect((await server.request('POST', '/sessions', { json })).status).toBe(400);
    },
  );
});

describe('with FIELDS_ORIGIN', () => {
  const FIELDS = 'https://fields.test';
  let fixture: ProxyFixture;
  beforeAll(async () => {
    fixture = await startProxyFixture({
      FIELDS_ORIGIN: FIELDS,
      CONSOLE_HOST: 'console.test',
      PUBLIC_URL: 'https://vault.test',
    });
  });
  afterAll(() => fixture.close());

  const ask = (start: string, host: string | undefined, ...lines: string[]): Promise<Message> =>
    fixture.ask(fixture.head(start, 'Connection: close', ...(host === undefined ? [] : [`Host: ${host}`]), ...lines));

  test('its host serves frames, collect pages and the two creates, and nothing else', async () => {
    const found = ['GET /fields/integrity.json', 'GET /collect/x', 'POST /tokens', 'POST /tokenize', 'OPTIONS /tokens'];
    for (const start of found) {
      const status = statusOf(await ask(start, 'fields.test:8443'));
      expect([start, status === 404]).toEqual([start, false]);
    }
    const missing = [
      '/',
      '/tokens',
      '/tokens/x',
      '/docs',
      '/guides/start',
      '/openapi.json',
      '/healthz',
      '/console',
      '/join/x',
      '/proxy',
      '/proxy/x',
      '/sessions',
    ].map((path) => `GET ${path}`);
    for (const start of [...missing, 'POST /detokenize', 'POST /sessions', 'POST /proxy', 'DELETE /tokens'])
      expect([start, statusOf(await ask(start, 'fields.test'))]).toEqual([start, 404]);
  });

  test('its host is the same in every spelling, and other forms of a path reach nothing else', async () => {
    for (const host of ['FIELDS.test', 'fields.test.', 'fields.test:443', 'Fields.Test.:8443']) {
      expect([host, statusOf(await ask('GET /fields/integrity.json', host))]).toEqual([host, 200]);
      for (const start of ['GET /proxy', 'GET /healthz', 'HEAD /tokens', 'GET /console'])
        expect([host, start, statusOf(await ask(start, host))]).toEqual([host, start, 404]);
    }
    for (const start of [
      'HEAD /tokens',
      'OPTIONS /sessions',
      'OPTIONS /proxy',
      'GET /%70roxy',
      'GET /fields/../proxy',
      'GET /collect/%2e%2e/healthz',
      'GET //proxy',
      'GET https://fields.test/healthz',
      'GET https://fields.test/proxy',
    ])
      expect([start, statusOf(await ask(start, 'fields.test'))]).toEqual([start, 404]);
    for (const start of ['GET https://vault.test/healthz', 'GET https://fields.test@vault.test/healthz'])
      expect([start, statusOf(await ask(start, 'fields.test'))]).toEqual([start, 400]);
    expect(statusOf(await ask('GET https://fields.test/fields/integrity.json', 'vault.test'))).toBe(400);
    expect(statusOf(await ask('HEAD /fields/integrity.json', 'fields.test'))).toBe(200);
  });

  test('other hosts serve no frames and no collect pages', async () => {
    for (const host of [undefined, 'console.test'])
      for (const path of ['/fields/integrity.json', '/collect/x'])
        expect([host, path, statusOf(await ask(`GET ${path}`, host))]).toEqual([host, path, 404]);
    expect(statusOf(await ask('GET /proxy', undefined))).toBe(200);
    expect(statusOf(await ask('GET /console', 'console.test'))).toBe(303);
  });

  test('collect pages have its address, and their style is served there', async () => {
    const { collect_url } = await sessionOf(fixture.server, { return_url: `${SHOP}/paid` });
    expect(collect_url).toMatch(/^https:\/\/fields\.test\/collect\/\w{33}$/);
    const page = await ask(`GET ${new URL(collect_url).pathname}`, 'fields.test');
    expect(statusOf(page)).toBe(200);
    const [, style] = /href="(\/assets\/[^"]+\.css)"/.exec(page.body.toString()) ?? [];
    expect(statusOf(await ask(`GET ${style}`, 'fields.test'))).toBe(200);
  });

  test('a key of a session is taken from it, and from no other origin of the vault', async () => {
    const { session_key, id } = await sessionOf(fixture.server);
    const json = { type: 'card', data: { number: '4242424242424242' } };
    const create = (origin: string) =>
      fixture.server.request('POST', '/tokens', {
        key: session_key,
        json,
        headers: { origin, 'svc-fields-session': id },
      });
    expect((await create(FIELDS)).status).toBe(201);
    expect((await create(fixture.server.base_url)).status).toBe(403);
  });
});

describe('FIELDS_ORIGIN in production', () => {
  const production = {
    NODE_ENV: 'production',
    MASTER_KEY: 'A'.repeat(43),
    DATABASE_URL: 'postgresql://u:p@127.0.0.1:9/d',
  };

  test.each([
    ['an origin without TLS', { FIELDS_ORIGIN: 'http://fields.example.com' }, 'must begin with https://'],
    [
      'the host of the console',
      { FIELDS_ORIGIN: 'https://console.example.com', CONSOLE_HOST: 'console.example.com' },
      'must not have the host of CONSOLE_HOST',
    ],
    [
      'the host of the API',
      { FIELDS_ORIGIN: 'https://vault.example.com:8443', PUBLIC_URL: 'https://vault.example.com' },
      'must not have the host of PUBLIC_URL',
    ],
    ['a path', { FIELDS_ORIGIN: 'https://fields.example.com/fields' }, 'must be an origin'],
  ])('is not %s', (_what, variables, sentence) => {
    expect(() => loadConfig({ ...production, ...variables })).toThrow(`FIELDS_ORIGIN: ${sentence}`);
  });

  test('is no host that the proxy reaches', () => {
    expect(loadConfig({ ...production, FIELDS_ORIGIN: 'https://Fields.Example.com/' })).toMatchObject({
      fieldsOrigin: 'https://fields.example.com',
      egress: { ownHosts: ['fields.example.com'] },
    });
  });
});
