// The command line for developers: reactors, proxies, applications and API keys.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useCli } from './support/developer-cli.ts';
import { type SharedServer, useEgressServer } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

let server: SharedServer;
let upstream: Upstream;
beforeAll(async () => {
  const egress = await useEgressServer();
  server = egress.server;
  upstream = await startUpstream({ port: egress.port });
});
afterAll(() => upstream.close());
const { directory, run, json } = useCli(() => ({ base_url: server.base_url, api_key: server.tenant.api_key }));

const origin = (): string => `https://upstream.test:${upstream.port}`;

const write = (name: string, text: string): string => {
  writeFileSync(join(directory, name), text);
  return name;
};
const returning = (value: string): string =>
  `module.exports = async (req) => ({ raw: { is: ${value}, args: req.args } });\n`;

const createCard = async (): Promise<string> => {
  const data = JSON.stringify({ number: '4242424242424242', expiration_month: 12, expiration_year: 2040, cvc: '123' });
  return (await json(['token', 'create', '--type', 'card'], { stdin: data }))[0].id;
};

test('reactors: run, test code without deploying it, deploy it, list versions, go back', async () => {
  const first = { name: 'Ends', code: returning('1'), configuration: {} };
  const { body } = await server.request('POST', '/reactors', { json: first });
  const id = await createCard();
  const args = ['--args', JSON.stringify({ ends: `{{ ${id} | json: '$.number' | last4 }}` })];
  expect(await json(['reactor', 'run', 'Ends', ...args])).toMatchObject([{ raw: { is: 1, args: { ends: '4242' } } }]);
  const file = write('ends.js', returning('2'));
  expect(await json(['reactor', 'test', 'Ends', '--code', file])).toMatchObject([{ raw: { is: 2 } }]);
  expect(await json(['reactor', 'run', body.id])).toMatchObject([{ raw: { is: 1 } }]);
  expect(await json(['reactor', 'deploy', 'Ends', file])).toMatchObject([{ id: body.id, version: 2 }]);
  expect(await json(['reactor', 'run', 'Ends', '--args', '@-'], { stdin: '{"a":1}' })).toMatchObject([
    { raw: { is: 2, args: { a: 1 } } },
  ]);
  expect((await json(['reactor', 'versions', 'Ends'])).map(({ number }) => number)).toEqual([2, 1]);
  expect(await json(['reactor', 'restore', 'Ends', '1', '--note', 'why'])).toMatchObject([{ version: 3 }]);
  expect(await json(['reactor', 'run', 'Ends'])).toMatchObject([{ raw: { is: 1 } }]);
  const wrong = write('wrong.js', 'module.exports = async (req) => {');
  expect(await run(['reactor', 'deploy', 'Ends', wrong])).toMatchObject({
    code: 1,
    err: expect.stringContaining('422'),
  });
  expect((await run(['reactor', 'run', 'Endz'])).err).toBe(
    'There is no reactor with the name "Endz". Did you mean "Ends"?\n',
  );
  expect((await run(['reactor', 'run', 'Ends', '--args', '{'])).err).toBe('--args must be JSON.\n');
  const throwing = write('throws.js', 'module.exports = async () => {\n  throw new TypeError("no");\n};\n');
  const failed = await run(['reactor', 'test', 'Ends', '--code', throwing]);
  expect(failed).toMatchObject({
    code: 1,
    err: expect.stringMatching(/500 code_failed: .* \(TypeError in line 2, trace /),
  });
  expect((await run(['reactor', 'restore', 'Ends', 'x'])).err).toBe(
    'VERSION must be a number of reactor versions, such as 3.\n',
  );
});

test('code of a formula that other reactors have needs --shared', async () => {
  const formula = { name: 'Shared', type: 'private', code: returning('1'), configuration: [], request_parameters: [] };
  const { body } = await server.request('POST', '/reactor-formulas', { json: formula });
  for (const name of ['One', 'Two'])
    await server.request('POST', '/reactors', { json: { name, formula: { id: body.id }, configuration: {} } });
  const file = write('shared.js', returning('2'));
  const refused = await run(['reactor', 'deploy', 'One', file]);
  expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('1 other reactor has too') });
  expect(await json(['reactor', 'run', 'Two'])).toMatchObject([{ raw: { is: 1 } }]);
  await json(['reactor', 'deploy', 'One', file, '--shared', '--note', 'Two']);
  expect(await json(['reactor', 'run', 'Two'])).toMatchObject([{ raw: { is: 2 } }]);
  expect(await json(['reactor', 'versions', 'Two'])).toMatchObject([{ number: 2, note: 'Two' }, { number: 1 }]);
});

test('two records of one name are an error that names their ids', async () => {
  for (const _ of [1, 2])
    await server.request('POST', '/reactors', { json: { name: 'Twin', code: returning('1'), configuration: {} } });
  const { code, err } = await run(['reactor', 'run', 'Twin']);
  expect([code, err]).toEqual([1, expect.stringMatching(/^2 records .*: [0-9a-f-]{36}, [0-9a-f-]{36}\.\n$/)]);
});

test('a proxy is made and called, and a preview has masks and sends nothing', async () => {
  const id = await createCard();
  const [proxy] = await json(['proxy', 'create', 'Charges', '--url', origin(), '--seconds', '5']);
  expect(proxy).toMatchObject({ name: 'Charges', require_auth: true, timeout_seconds: 5, key: expect.any(String) });
  const plain = await json(['token', 'create', '--type', 'token'], { stdin: 'secret of Ada' });
  const data = JSON.stringify({
    number: `{{ ${id} | json: '$.number' }}`,
    end: `{{ ${id} | json: '$.number' | last4 }}`,
    cvc: `{{ ${id} | json: '$.cvc' }}`,
    name: `{{ ${plain[0].id} }}`,
  });
  const words = ['/charges', '--proxy', 'Charges', '-d', data, '-H', 'x-order: 4711'];
  const sent = upstream.received.length;
  const [preview] = await json(['proxy', 'preview', ...words]);
  expect(preview).toMatchObject({
    method: 'POST',
    url: `${origin()}/charges`,
    body: { number: 'XXXXXXXXXXXX4242', end: '4242', cvc: 'XXXX', name: 'XXXX' },
    tokens: [{ id }, { id: plain[0].id }],
  });
  const text = await run(['proxy', 'preview', ...words]);
  expect(text.out).toMatch(/^POST \S+\/charges\nx-order: 4711\n[\s\S]*Nothing was sent\. 2 tokens/);
  expect(text.out).not.toMatch(/424242|secret|123/);
  expect(upstream.received.length).toBe(sent);
  const [response] = await json(['proxy', 'call', ...words]);
  expect(JSON.parse(JSON.parse(response.body).body)).toMatchObject({
    number: '4242424242424242',
    name: 'secret of Ada',
  });
  expect((await run(['proxy', 'call', `${origin()}/x`, '-i'])).out).toMatch(/^HTTP 200\n/);
  expect((await run(['proxy', 'call', '/charges'])).err).toContain('a path such as /charges with --proxy NAME');
  expect((await run(['proxy', 'call', origin(), '--proxy', 'Charges'])).err).toContain(
    'With --proxy the URL is a path',
  );
  // The vault answered: its destination did not.
  expect((await run(['proxy', 'call', 'https://nothing.invalid/'])).code).toBe(1);
});

test('a preview says what the proxy would refuse, and a token that is not there', async () => {
  const url = 'https://upstream.test/x';
  for (const [data, code] of [
    ['{"a":"{{ x | no_such_filter }}"}', 1],
    ['{"a":"{{ x"}', 1],
    ['{"a":"{{ no-such-token }}"}', 5],
  ] as const) {
    const result = await run(['proxy', 'preview', url, '-d', data]);
    expect([result.code, result.out, result.err.split('\n').length], data).toEqual([code, '', 2]);
  }
  expect((await run(['proxy', 'preview', 'charges', '--proxy', 'Charges'])).code).toBe(2);
});

test('an application is made, and its key goes to standard output alone', async () => {
  const made = await run(['applications', 'create', 'Reader', '--permission', 'token:read']);
  expect(made.out).toMatch(/^svc_[a-z]+_\S+\n$/);
  expect(made.err).not.toContain(made.out.trim());
  const key = made.out.trim();
  expect((await run(['token', 'search', 'type:card'], { env: { STRONGROOM_API_KEY: key } })).code).toBe(4);
  const { out } = await run(['applications', 'show', 'Reader']);
  expect(out).toContain('can     read the masks of all tokens');
  expect(out).not.toContain(key.slice(-20));
  const [none] = await json(['applications', 'create', 'No key', '--permission', 'token:read', '--no-key']);
  expect(none.key).toBeUndefined();
  expect((await run(['applications', 'delete', 'No key'])).code).toBe(0);
  expect((await json(['applications', 'list'])).map(({ name }) => name)).not.toContain('No key');
});

test('API keys are added, rotated at once and after a time, and revoked', async () => {
  await json(['applications', 'create', 'Rotates', '--permission', 'token:read', '--no-key']);
  const add = async (...words: string[]) => (await run(['api-keys', 'add', 'Rotates', ...words])).out.trim();
  const isValid = async (key: string): Promise<boolean> =>
    (await run(['token', 'get', 'x'], { env: { STRONGROOM_API_KEY: key } })).code === 5;
  const first = await add('--name', 'Frankfurt', '--address', '127.0.0.0/8');
  expect(await isValid(first)).toBe(true);
  const second = (await run(['api-keys', 'rotate', first])).out.trim();
  expect([await isValid(first), await isValid(second)]).toEqual([false, true]);
  const [third] = await json(['api-keys', 'rotate', second, '--after', '15m']);
  expect(third).toMatchObject({ name: 'Frankfurt', allowed_addresses: ['127.0.0.0/8'] });
  expect([await isValid(second), await isValid(third.key)]).toEqual([true, true]);
  const listed = await json(['api-keys', 'list', 'Rotates']);
  expect(listed.filter(({ expires_at }) => expires_at !== undefined)).toHaveLength(1);
  expect(await run(['api-keys', 'revoke', third.id])).toMatchObject({
    code: 0,
    err: expect.not.stringContaining('login'),
  });
  const { api_key } = await server.newKey(server.tenant, { permissions: ['application:read', 'application:update'] });
  const own = await run(['api-keys', 'revoke', api_key], { env: { STRONGROOM_API_KEY: api_key } });
  expect(own).toMatchObject({ code: 0, err: expect.stringContaining('This command used that key') });
  expect(await isValid(third.key)).toBe(false);
  expect((await run(['api-keys', 'revoke', third.id])).code).toBe(5);
  expect((await run(['api-keys', 'rotate', second, '--after', 'soon'])).code).toBe(2);
});
