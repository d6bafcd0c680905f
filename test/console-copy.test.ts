// What pages give people to copy: a request of the API as curl and as JavaScript, which runs as it is.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Browser, type SharedConsole, unescaped, useConsole } from './support/console.ts';
import { makeReactor, react } from './support/reactors.ts';
import type { TestTenant } from './support/server.ts';

const execute = promisify(execFile);

let server: SharedConsole;
let tenant: TestTenant;
let owner: Browser;
beforeAll(async () => {
  server = await useConsole();
  tenant = await server.newTenant();
  owner = await server.signIn({ tenant });
});

const CARD = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };

const make = async (path: string, json: unknown): Promise<{ id: string }> => {
  const { status, body, text } = await server.request('POST', path, { json, key: tenant.api_key });
  expect(status, text).toBe(201);
  return body;
};

/** The texts to copy of a page, by their labels. */
const copiesOf = (page: string): Record<string, string> =>
  Object.fromEntries(
    [...page.matchAll(/<code data-copy="Copy ([^"]+)">([^<]*)<\/code>/g)].map(([, label = '', text = '']) => [
      label,
      unescaped(text),
    ]),
  );

const open = async (path: string): Promise<Record<string, string>> => {
  const { status, text } = await owner.get(path);
  expect(status, text).toBe(200);
  return copiesOf(text);
};

const runs = async (file: string, args: string[]): Promise<unknown> => {
  const { stdout } = await execute(file, args, { env: { PATH: process.env['PATH'], SVC_API_KEY: tenant.api_key } });
  return JSON.parse(stdout);
};
const runCurl = (command = ''): Promise<unknown> => runs('sh', ['-c', command.replace('curl ', 'curl -sS ')]);
const runScript = (text = ''): Promise<unknown> => runs(process.execPath, ['--input-type=module', '-e', text]);

describe('a copied request runs as curl and as JavaScript', () => {
  test('of a token', async () => {
    const { id } = await make('/tokens', CARD);
    const copies = await open(`/console/tokens/${id}`);
    expect(copies['id']).toBe(id);
    expect(await runCurl(copies['curl'])).toMatchObject({ id, type: 'card' });
    expect(await runScript(copies['JavaScript'])).toMatchObject({ id, type: 'card' });
  });

  test('of a token whose id has what a shell and HTML read', async () => {
    const id = `it's $HOME; "$(id)" \`id\` !! é ~ *`;
    await make('/tokens', { ...CARD, id });
    const copies = await open(`/console/tokens/${encodeURIComponent(id)}`);
    expect(copies['id']).toBe(id);
    expect(await runCurl(copies['curl'])).toMatchObject({ id });
    expect(await runScript(copies['JavaScript'])).toMatchObject({ id });
  });

  test('of a reactor, its formula and its run', async () => {
    const made = await makeReactor(server, {
      code: 'module.exports = async ({ args }) => ({ raw: { args } });',
      key: tenant.api_key,
    });
    const copies = await open(`/console/reactors/${made.id}`);
    expect(copies['id']).toBe(made.id);
    expect(await runCurl(copies['curl'])).toEqual({ raw: { args: {} } });
    expect(await runScript(copies['JavaScript'])).toEqual({ raw: { args: {} } });
    expect(await runCurl(copies['formula curl'])).toMatchObject({ id: copies['formula id'] });
    await react(server, made, {}, { key: tenant.api_key });
    const [{ id }] = await vi.waitFor(async () => {
      const { data } = (await server.request('GET', '/runs', { key: tenant.api_key })).body;
      expect(data).toHaveLength(3);
      return data;
    });
    expect(await runCurl((await open(`/console/runs/${id}`))['curl'])).toMatchObject({ id, kind: 'reactor' });
  });

  test('of the first steps', async () => {
    const copies = await open('/console/home');
    expect(await runCurl(copies['curl'])).toMatchObject({ type: 'card' });
    expect(await runScript(copies['JavaScript'])).toMatchObject({ type: 'card' });
  });
});
