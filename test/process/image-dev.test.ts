// The image for development, as far as it can be tried without Docker: a directory with what its stages copy serves in an empty
// place, with the environment that it sets. `npm run drill:docker` builds and runs the real one.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { apiKeysIn } from '../../src/modules/access/api-keys.ts';
import { entrypointOf, environmentOf, makeImage } from '../support/image.ts';
import { knownKey } from '../support/known-keys.ts';
import { freePort, READY_TIMEOUT_MS, type ServerProcess, spawnServer, untilReady } from '../support/process.ts';

/** To copy 120 MB of packages, and to make a database. */
const START_TIMEOUT_MS = 180_000;

describe('a container of the image for development', () => {
  let app: string;
  let dataDir: string;
  let server: ServerProcess;
  let port: string;

  /** What `docker run -p 127.0.0.1:PORT:8080` gives it, on a port of the test's. */
  const environment = (): Record<string, string> => ({
    ...environmentOf('dev'),
    DATA_DIR: dataDir,
    PORT: port,
    PUBLIC_URL: `http://127.0.0.1:${port}`,
  });
  const start = async (variables: Record<string, string> = {}): Promise<void> => {
    server = await spawnServer(dataDir, { ...environment(), ...variables }, entrypointOf('dev', app));
  };
  const stop = async (): Promise<void> => {
    server.child.kill('SIGTERM');
    expect(await server.exited).toBe(0);
  };
  const printed = async (text: string): Promise<string> => {
    await expect.poll(() => server.output(), { timeout: READY_TIMEOUT_MS }).toContain(text);
    return server.output();
  };
  const statusOf = async (key: string): Promise<number> => {
    const response = await fetch(`${server.base_url}/tokens`, { headers: { 'svc-api-key': key } });
    return response.status;
  };

  beforeAll(async () => {
    app = makeImage('dev');
    dataDir = mkdtempSync(join(tmpdir(), 'strongroom-image-data-'));
    port = String(await freePort());
    await start();
    await untilReady(server);
  }, START_TIMEOUT_MS);
  afterAll(async () => {
    await stop();
    for (const directory of [app, dataDir]) rmSync(directory, { recursive: true, force: true });
  });

  test('it sets development mode, and listens where Docker can reach it', () => {
    expect(environmentOf('dev')).toEqual({
      NODE_ENV: 'development',
      ALLOW_DEV_ON_NETWORK: '1',
      HOST: '0.0.0.0',
      PORT: '8080',
      DATA_DIR: '/data',
      PUBLIC_URL: 'http://127.0.0.1:8080',
      STRONGROOM_COMMAND: 'docker exec CONTAINER strongroom',
    });
  });

  test('its log has the key, the console and a curl command that works', async () => {
    const text = await printed('Try it:');
    const [key = ''] = apiKeysIn(text);
    expect(key).toBe(server.credentials().api_key);
    expect(server.credentials().base_url).toBe(`http://127.0.0.1:${port}`);
    expect(text).toContain(`http://127.0.0.1:${port}/console `);
    expect(text).toContain('docker exec CONTAINER strongroom admin owner invite --email you@example.com');
    expect(text).not.toContain('npm run');
    const [, curl = ''] = /(curl [\s\S]*?}}?')\n/.exec(text) ?? [];
    const { stdout } = await promisify(execFile)('sh', ['-c', curl], {
      env: { PATH: process.env['PATH'], SVC_API_KEY: key },
    });
    expect(JSON.parse(stdout)).toMatchObject({ card: { data: { number: 'XXXXXXXXXXXX4242' } } });
  });

  test('a command beside it makes the link for the console', async () => {
    const args = [join(app, 'bin/strongroom.cjs'), 'owner', 'invite', '--email', 'ada@example.com', '--json'];
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      cwd: tmpdir(),
      env: { PATH: process.env['PATH'], ...environment() },
    });
    expect(JSON.parse(stdout).owner_link).toMatch(new RegExp(`^http://127\\.0\\.0\\.1:${port}/join/`));
  });

  test('code of tenants runs, behind the isolation that this machine allows', async () => {
    const headers = { 'svc-api-key': server.credentials().api_key, 'content-type': 'application/json' };
    const post = async (path: string, json: unknown): Promise<any> =>
      (await fetch(server.base_url + path, { method: 'POST', headers, body: JSON.stringify(json) })).json();
    const code = 'module.exports = async ({ args }) => ({ raw: args.n + 1 });';
    const parameters = { configuration: [], request_parameters: [{ name: 'n', type: 'number' }] };
    const formula = await post('/reactor-formulas', { name: 'Plus', type: 'private', code, ...parameters });
    const reactor = await post('/reactors', { name: 'Plus', formula: { id: formula.id }, configuration: {} });
    expect(await post(`/reactors/${reactor.id}/react`, { args: { n: 1 } })).toMatchObject({ raw: 2 });
  });

  test('with TEST_ENDPOINTS tests in any language have its clock and its processor', async () => {
    await stop();
    await start({ TEST_ENDPOINTS: 'on' });
    await untilReady(server);
    const headers = { 'svc-api-key': server.credentials().api_key, 'content-type': 'application/json' };
    const send = async (
      method: string,
      path: string,
      json?: unknown,
      more: Record<string, string> = {},
    ): Promise<any> => {
      const body = json === undefined ? {} : { body: JSON.stringify(json) };
      const response = await fetch(server.base_url + path, { method, headers: { ...headers, ...more }, ...body });
      return { http: response.status, ...((await response.json()) as object) };
    };
    const { now } = await send('POST', '/test/clock', { advance: '30d' });
    expect(Math.round((Date.parse(now) - Date.now()) / 86_400_000)).toBe(30);
    expect(await send('POST', '/test/tenants', {})).toMatchObject({ http: 201 });
    const { processor_url } = await send('GET', '/test/requests');
    const charge = { card: '4000000000000002' };
    expect(await send('POST', '/proxy', charge, { 'svc-proxy-url': `${processor_url}/charges` })).toMatchObject({
      http: 402,
      code: 'card_declined',
    });
    expect(await send('GET', '/test/requests')).toMatchObject({ data: [{ path: '/charges', body: charge }] });
  });

  test('it has the destination of the guides', async () => {
    const echo = spawn(process.execPath, [join(app, 'test/support/echo.ts')], {
      env: { DATA_DIR: dataDir, PORT: String(await freePort()) },
    });
    const [text] = await once(echo.stdout, 'data');
    expect(String(text)).toContain('answers with what it receives');
    echo.kill();
    await once(echo, 'exit');
  });

  test('started again on its volume it prints the same key, and takes a key that scripts know', async () => {
    const { api_key } = server.credentials();
    await stop();
    await start();
    expect(apiKeysIn(await printed('Try it:'))).toEqual([api_key]);
    await stop();
    const known = knownKey('test', 'k');
    for (let starts = 0; starts < 2; starts += 1) {
      await start({ STRONGROOM_DEV_KEY: known });
      expect(apiKeysIn(await printed('Try it:'))).toEqual([known]);
      expect([await statusOf(known), await statusOf(api_key)]).toEqual([200, 200]);
      if (starts === 0) await stop();
    }
  });
});
