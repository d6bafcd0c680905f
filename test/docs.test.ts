// The API reference page loads from the server's own origin only, under a strict content security policy.
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildApp } from '../src/app.ts';
import { loadConfig } from '../src/platform/config/config.ts';
import type { Context } from '../src/modules.ts';
import type { App } from '../src/platform/http/app-type.ts';
import { createAccounts } from '../src/platform/base/accounts.ts';
import { createHeldOperations } from '../src/platform/base/held-operations.ts';
import { createLog } from '../src/platform/base/log.ts';

let app: App;

beforeAll(async () => {
  // No page of these asks the database.
  const parts: Partial<Context> = {
    config: loadConfig({}),
    log: createLog('silent'),
    newUuid: () => 'trace',
    heldOperations: createHeldOperations(() => new Date()),
    accounts: createAccounts(),
  };
  app = await buildApp(parts as Context);
});

afterAll(() => app.close());

const referencesOf = (html: string): string[] =>
  [...html.matchAll(/<(?:script|link)\b[^>]*?\b(?:src|href)="([^"]*)"/g)].map(([, url]) => url as string);

test.each(['/docs', '/docs/'])('GET %s shows the reference, without a key, under a strict policy', async (url) => {
  const answer = await app.inject(url);
  expect(answer.statusCode).toBe(200);
  expect(answer.headers['content-type']).toBe('text/html; charset=utf-8');
  const policy = String(answer.headers['content-security-policy']);
  expect(policy).toContain("default-src 'none'");
  expect(policy).toMatch(/script-src 'self'(;|$)/);
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toMatch(/https?:|unsafe-eval|\*/);
  expect(answer.headers).toMatchObject({
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
  });
});

test('the page has no inline script, and what it loads is ours, answers and may be kept', async () => {
  const { body } = await app.inject('/docs');
  expect(body).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+=|javascript:/i);
  const references = referencesOf(body);
  expect(references.length).toBeGreaterThanOrEqual(4);
  for (const url of references) {
    expect(url).toMatch(/^\/docs\/[a-z-]+\.[0-9a-f]{8}\.(js|css|svg)$/);
    const plain = await app.inject(url);
    expect(plain.statusCode, url).toBe(200);
    expect(plain.headers['content-type']).toMatch(/^(text\/javascript|text\/css|image\/svg\+xml)/);
    expect(plain.headers['cache-control']).toBe('public, max-age=31536000, immutable');
    expect(plain.headers['content-security-policy']).toBeDefined();

    const packed = await app.inject({ url, headers: { 'accept-encoding': 'gzip, br' } });
    expect(packed.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(packed.rawPayload).equals(plain.rawPayload), url).toBe(true);
  }
});

test('GET /openapi.json answers without a key', async () => {
  const answer = await app.inject('/openapi.json');
  expect(answer.statusCode).toBe(200);
  expect(answer.json()).toMatchObject({ openapi: '3.1.0', info: { title: 'Strongroom' } });
});

test('GET / leads browsers to the reference and tells others where it is', async () => {
  const browser = await app.inject({ url: '/', headers: { accept: 'text/html,application/xhtml+xml' } });
  expect([browser.statusCode, browser.headers.location, browser.headers['vary']]).toEqual([302, '/docs', 'accept']);
  const client = await app.inject('/');
  expect(client.json()).toEqual({
    name: 'Strongroom',
    version: expect.any(String),
    docs: '/docs',
    openapi: '/openapi.json',
  });
});

test('other methods on the pages are refused with Allow', async () => {
  const answer = await app.inject({ method: 'POST', url: '/docs' });
  expect([answer.statusCode, answer.headers['allow']]).toEqual([405, 'GET, HEAD, OPTIONS']);
});
