// CONSOLE_HOST: which routes answer on it and elsewhere, and where links lead.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inviteOwner } from '../src/modules/people/bootstrap.ts';
import { loadConfig } from '../src/platform/config/config.ts';
import { type Message, type ProxyFixture, startProxyFixture, statusOf, valuesOf } from './support/proxy.ts';

const CONSOLE = 'Host: console.test';

let fixture: ProxyFixture;
beforeAll(async () => {
  fixture = await startProxyFixture({ CONSOLE_HOST: 'Console.test', PUBLIC_URL: 'https://vault.test' });
});
afterAll(() => fixture.close());

/** The whole answer, but for what differs between any two. */
const shapeOf = ({ start, headers, body }: Message) => ({
  start,
  names: headers.map(([name]) => name.toLowerCase()),
  values: headers.filter(([name]) => !['date', 'svc-trace-id'].includes(name.toLowerCase())),
  body: body.toString().replace(/"trace_id":"[^"]+"/, ''),
});

const ask = (start: string, ...lines: string[]): Promise<Message> =>
  fixture.ask(fixture.head(start, 'Connection: close', ...lines));

const consolePaths = ['/console', '/console/', '/console/sign-in', '/console/tokens', '/join/x', '/%63onsole'];
const otherPaths = [
  '/',
  '/tokens',
  '/tokens/x',
  '/healthz',
  '/readyz',
  '/docs',
  '/docs/tokens',
  '/guides',
  '/guides/start.md',
  '/openapi.json',
  '/proxy',
  '/proxy/x',
  '/proxy/..',
  '/proxy/%zz',
];

describe.each(['GET', 'HEAD', 'POST', 'PUT', 'OPTIONS', 'PROPFIND'])('%s', (method) => {
  test.each(otherPaths)('%s on the host of the console answers as an unknown path', async (path) => {
    const unknown = path.endsWith('%zz') ? '/unknown/%zz' : '/unknown';
    const expected = shapeOf(await ask(`${method} ${unknown}`, CONSOLE));
    expect(shapeOf(await ask(`${method} ${path}`, CONSOLE))).toEqual(expected);
    expect(fixture.destination.received).toEqual([]);
  });

  test.each(consolePaths)('%s on another host answers as an unknown path', async (path) => {
    for (const more of [[], ['Sec-Fetch-Dest: document', 'Sec-Fetch-Site: none'], ['Content-Type: x/y']])
      expect(shapeOf(await ask(`${method} ${path}`, ...more))).toEqual(
        shapeOf(await ask(`${method} /unknown`, ...more)),
      );
  });
});

test('the console, and all that its pages load, is on its host, however that is spelled', async () => {
  for (const host of ['console.test', 'CONSOLE.TEST', 'console.test:8443', 'console.test.']) {
    const page = await ask('GET /console/sign-in', `Host: ${host}`);
    expect(statusOf(page), host).toBe(200);
    const loads = [...page.body.toString().matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, path]) => path);
    expect(loads.length).toBeGreaterThanOrEqual(3);
    for (const path of loads) expect(statusOf(await ask(`GET ${path}`, `Host: ${host}`))).toBe(200);
    for (const path of loads) expect(statusOf(await ask(`GET ${path}`))).toBe(200);
  }
  expect(statusOf(await ask('GET /join/unknown', CONSOLE))).toBe(410);
  expect(valuesOf(await ask('GET /console', CONSOLE), 'location')).toEqual(['/console/sign-in?next=%2Fconsole']);
});

test('no header but Host chooses between them', async () => {
  const lines = ['X-Forwarded-Host: console.test', 'Forwarded: host=console.test'];
  expect(statusOf(await ask('GET /console/sign-in', ...lines))).toBe(404);
});

test('the API and the proxy are on all other hosts', async () => {
  expect(statusOf(await ask('GET /tokens'))).toBe(200);
  expect(statusOf(await ask('GET /proxy'))).toBe(200);
  expect(statusOf(await ask('GET /healthz', 'Host: 10.0.0.1:8080'))).toBe(200);
  fixture.destination.received.length = 0;
});

test('links lead to the host of the console', async () => {
  const { tenant_id } = fixture.server.tenant;
  const made = await inviteOwner(fixture.server.ctx, tenant_id, 'ada@example.com');
  expect(made.link.reveal()).toMatch(/^https:\/\/console\.test\/join\/\w+$/);
});

test('no request leaves for the host of the console', () => {
  expect(loadConfig({ CONSOLE_HOST: 'Console.Example.com.' })).toMatchObject({
    consoleHost: 'console.example.com',
    egress: { ownHosts: ['console.example.com'] },
  });
  expect(() => loadConfig({ CONSOLE_HOST: 'vault.example.com', PUBLIC_URL: 'https://vault.example.com' })).toThrow(
    'CONSOLE_HOST: must not be the host of PUBLIC_URL',
  );
  expect(() => loadConfig({ CONSOLE_HOST: 'https://console.example.com' })).toThrow(
    'CONSOLE_HOST: must be a host name',
  );
});
