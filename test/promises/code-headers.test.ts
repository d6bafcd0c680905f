// Tenants' code gives no commands to web servers in front of the server, and no policies to browsers.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeReactor, react, type ReactorServer, startReactorServer } from '../support/reactors.ts';
import { askOnWire, makeProxy, type WireAnswer } from '../support/stored-proxies.ts';

const COMMANDS = [
  'X-Accel-Redirect',
  'X-Accel-Buffering',
  'X-Accel-Expires',
  'X-Sendfile',
  'X-Lighttpd-Send-File',
  'X-LiteSpeed-Location',
  'X-Reproxy-URL',
  'X-Original-URL',
];
const POLICIES = [
  'Refresh',
  'Link',
  'NEL',
  'Report-To',
  'Reporting-Endpoints',
  'WWW-Authenticate',
  'Clear-Site-Data',
  'Permissions-Policy',
  'Service-Worker-Allowed',
  'Strict-Transport-Security',
  'X-Frame-Options',
  'X-XSS-Protection',
  'Age',
  'Unheard-Of',
];
const OWN = ['X-Own', 'X-Request-Id', 'Retry-After', 'Location', 'ETag', 'Content-Disposition'];

const headers = Object.fromEntries([...COMMANDS, ...POLICIES, ...OWN].map((name) => [name, '7']));
const THROWN = `throw new (require('@svc/reactor-formulas-sdk').CustomHttpResponseError)({ status: 200, headers: ${JSON.stringify(headers)}, body: '<p>' });`;

let fixture: ReactorServer;
beforeAll(async () => {
  fixture = await startReactorServer();
});
afterAll(() => fixture.close());

const expectAllowed = (sent: Iterable<string>): void => {
  const names = new Set([...sent].map((name) => name.toLowerCase()));
  expect([...COMMANDS, ...POLICIES].filter((name) => names.has(name.toLowerCase()))).toEqual([]);
  expect(OWN.filter((name) => !names.has(name.toLowerCase()))).toEqual([]);
};

test('a response that a reactor throws has headers of the list, and runs no script', async () => {
  const answer = await react(fixture.server, await makeReactor(fixture.server, THROWN));
  expect([answer.status, answer.text]).toEqual([200, '<p>']);
  expectAllowed(answer.headers.keys());
  expect(answer.headers.get('content-security-policy')).toBe("sandbox; default-src 'none'");
});

const askProxyOf = async (transforms: object): Promise<WireAnswer> => {
  const { key } = await makeProxy(fixture.server, { destination_url: fixture.url, ...transforms });
  return askOnWire(fixture.server, 'POST', '/proxy/plain', { headers: { 'svc-proxy-key': key }, body: 'x' });
};

const thrown = `module.exports = async () => { ${THROWN} };`;
const returned = `module.exports = async ({ args }) => ({ body: 'x', headers: { ...args.headers, ...${JSON.stringify(headers)} } });`;

test.each([
  ['a response that a request transform throws', { request_transform: { code: thrown } }],
  ['a response that a response transform throws', { response_transform: { code: thrown } }],
  ['the result of a response transform', { response_transform: { code: returned } }],
])('%s has headers of the list', async (_, transforms) => {
  const answer = await askProxyOf(transforms);
  expect(answer.status, answer.body.toString()).toBe(200);
  expectAllowed(Object.keys(answer.headers));
});

test('a destination gives no commands to web servers, and its other headers pass a transform', async () => {
  fixture.routes.set('/plain', (_, response) => {
    for (const name of [...COMMANDS, 'Link', 'Unheard-Of', 'WWW-Authenticate']) response.setHeader(name, '7');
    response.end('ok');
  });
  const code = 'module.exports = async ({ args }) => ({ body: args.body, headers: args.headers });';
  for (const transforms of [{}, { response_transform: { code } }]) {
    const answer = await askProxyOf(transforms);
    const names = Object.keys(answer.headers);
    expect(COMMANDS.filter((name) => names.includes(name.toLowerCase()))).toEqual([]);
    expect(names).toEqual(expect.arrayContaining(['link', 'unheard-of', 'www-authenticate']));
  }
  fixture.routes.delete('/plain');
});
