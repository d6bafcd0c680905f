// A server whose root key is split: sealed until enough operators gave their shares, and sealed again on request.
import { spawn } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { askUnsealSocket, openUnsealSocket, type UnsealRequest } from '../../src/unseal-socket.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import {
  killIfAlive,
  READY_TIMEOUT_MS,
  root,
  type ServerProcess,
  sourceEnvironment,
  spawnServer,
  untilReady,
  workersOf,
} from '../support/process.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-unseal-'));
const ROOT_KEY = Buffer.from(Array.from({ length: 32 }, (_, at) => (at * 37 + 11) % 251));
let database: TestDatabase;
let server: ServerProcess;
let environment: Record<string, string>;
let shares: string[];
let foreign: string[];

type Ended = { code: number | null; out: string };

/** Runs a command. @param input its standard input. @returns all that it said. */
const run = (args: string[], input = '', extra: Record<string, string> = {}): Promise<Ended> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, [join(root, 'src/cli/main.ts'), ...args], {
      cwd: root,
      env: { ...sourceEnvironment, ...environment, ...extra },
    });
    let out = '';
    child.stdout.on('data', (chunk) => (out += chunk));
    child.stderr.on('data', (chunk) => (out += chunk));
    child.once('close', (code) => resolve({ code, out }));
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
  });

const socketPath = join(dataDir, 'unseal.sock');

/** As the commands ask the server, without the second that each takes to start. @returns the state, or the fault. */
const ask = (request: UnsealRequest, share?: string): Promise<unknown> =>
  askUnsealSocket(socketPath, request, share === undefined ? undefined : Buffer.from(share)).catch(
    (error: Error) => error.message,
  );
const give = (share: string | undefined) => ask('share', share);
const given = (count: number) => ({ state: 'sealed', sets: [expect.objectContaining({ given: count, needed: 2 })] });

const get = (path: string) => fetch(server.base_url + path);

const statusOfVault = async (): Promise<unknown> => (await get('/readyz')).json();

/** Waits until the server says that it is sealed. */
const untilSealed = async (): Promise<void> => {
  for (const end = Date.now() + READY_TIMEOUT_MS; Date.now() < end; await pause(20)) {
    const state = await statusOfVault().catch(() => undefined);
    if (JSON.stringify(state) === '{"status":"sealed"}') return;
  }
  throw new Error(`the server is not sealed: ${server.output()}`);
};

const tokenize = (data: string) =>
  fetch(`${server.base_url}/tokenize`, {
    method: 'POST',
    headers: { 'svc-api-key': server.credentials().api_key, 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'token', data }),
  });

const readToken = async (id: string): Promise<unknown> => {
  const response = await fetch(`${server.base_url}/tokens/${id}`, {
    headers: { 'svc-api-key': server.credentials().api_key },
  });
  return response.json();
};

/** Whether the memory of a process has these bytes, as an attacker with a dump of it would look. */
const hasInMemory = async (pid: number, wanted: Buffer): Promise<boolean> => {
  const memory = await open(`/proc/${pid}/mem`);
  try {
    for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
      const [, from = '', to = '', rights = ''] = /^([0-9a-f]+)-([0-9a-f]+) (\S+)/.exec(line) ?? [];
      if (!rights.startsWith('rw')) continue;
      const bytes = Buffer.alloc(parseInt(to, 16) - parseInt(from, 16));
      const { bytesRead } = await memory
        .read(bytes, 0, bytes.length, parseInt(from, 16))
        .catch(() => ({ bytesRead: 0 }));
      if (bytes.subarray(0, bytesRead).includes(wanted)) return true;
    }
    return false;
  } finally {
    await memory.close();
  }
};

beforeAll(async () => {
  database = await createDatabase();
  environment = { DATA_DIR: dataDir, DATABASE_URL: database.url };
  const split = async (args: string[], extra: Record<string, string>) => {
    const { code, out } = await run(
      ['keys', 'split', '--shares', '3', '--threshold', '2', '--json', ...args],
      '',
      extra,
    );
    expect(code, out).toBe(0);
    return JSON.parse(out).shares as string[];
  };
  const key = { MASTER_KEY: ROOT_KEY.toString('base64') };
  [shares, foreign] = await Promise.all([split([], key), split(['--new'], {})]);
  environment = { ...environment, MASTER_KEY_SHARES: '2/3' };
  server = await spawnServer(dataDir, { ...environment, WORKERS: '2' });
  await untilSealed();
});

afterAll(async () => {
  server.child.kill();
  await server.exited;
  await database.drop();
  rmSync(dataDir, { recursive: true, force: true });
});

test('a sealed server says so and nothing more', async () => {
  const ready = await get('/readyz');
  expect(ready.status).toBe(503);
  expect(await ready.json()).toEqual({ status: 'sealed' });
  expect((await get('/healthz')).status).toBe(200);
  for (const path of ['/', '/tokens', '/console', '/docs', '/metrics', '/openapi.json', '/healthz/x', '//readyz']) {
    const refused = await get(path);
    expect(refused.status, path).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('10');
    expect(refused.headers.get('content-type')).toBe('application/problem+json');
    expect(await refused.json()).toMatchObject({ status: 503, detail: expect.stringContaining('sealed') });
  }
});

test('the socket is for the user of the server alone', async () => {
  expect(statSync(socketPath).mode & 0o777).toBe(0o600);
  // What is no request, or too long, changes nothing.
  for (const text of ['GET / HTTP/1.1\n', 'share \n', `share ${'a'.repeat(5_000)}\n`, 'x'.repeat(5_000)]) {
    const answer = await new Promise<string>((resolve) => {
      let said = '';
      const client = connect(socketPath, () => client.write(text));
      client.on('data', (chunk) => (said += chunk));
      client.on('error', () => undefined);
      client.once('close', () => resolve(said));
    });
    expect(answer).not.toContain('a'.repeat(10));
  }
  expect(await ask('status')).toEqual(given(0));
});

test('a socket that another user could have made is refused, and no other file is removed', async () => {
  const directory = join(dataDir, 'sockets');
  mkdirSync(directory);
  const path = join(directory, 'unseal.sock');
  const listen = () => openUnsealSocket(path, async () => ({ state: 'unsealed' }));
  for (const mode of [0o770, 0o707, 0o1777]) {
    chmodSync(directory, mode);
    await expect(listen(), mode.toString(8)).rejects.toThrow('Other users may write the directory');
  }
  chmodSync(directory, 0o755);
  const close = await listen();
  expect(await askUnsealSocket(path, 'status')).toEqual({ state: 'unsealed' });
  chmodSync(directory, 0o1777);
  await expect(askUnsealSocket(path, 'status')).rejects.toThrow('Other users may write the directory');
  chmodSync(directory, 0o755);
  if (process.getuid?.() === 0) {
    chownSync(path, 65_534, 65_534);
    await expect(askUnsealSocket(path, 'status')).rejects.toThrow('belongs to another user');
  }
  await close();
  await expect(askUnsealSocket(path, 'status')).rejects.toThrow('ENOENT');
  writeFileSync(path, 'kept');
  await expect(listen()).rejects.toThrow('is no socket');
  expect(readFileSync(path, 'utf8')).toBe('kept');
});

test('shares that are changed, repeated or of another set are named; enough of them unseal', async () => {
  const [first = '', second = ''] = shares;
  const changed = first.replace(/-(.)/, (_, it) => `-${it === 'q' ? 'r' : 'q'}`);
  expect(await give(changed)).toMatch(/checksum of the share is wrong/);
  expect(await give(first.slice(0, -3))).toMatch(/no share of a root key/);
  expect((await run(['unseal'])).code).toBe(1);
  // Copied with line ends, blanks and capitals.
  expect(await run(['unseal'], `  ${first.toUpperCase().replaceAll('-', ' ')} \n`)).toEqual({
    code: 0,
    out: expect.stringMatching(/^The vault is sealed: 1 of 2 shares of set [0-9a-f]{8}\.\n$/),
  });
  expect(await give(first)).toMatch(/Share 1 of set [0-9a-f]{8} was given already/);
  expect(await give(foreign[1])).toMatch(/Share 2 is of set [0-9a-f]{8}, and set [0-9a-f]{8} is collected/);
  expect(await statusOfVault()).toEqual({ status: 'sealed' });
  expect((await run(['unseal', '--drop'])).out).toContain('0 of 2 shares');
  expect(await give(second)).toEqual(given(1));
  expect(await give(first)).toEqual({ state: 'unsealed' });
  await untilReady(server);
  expect(await give(shares[2])).toContain('needs no share');
  expect(await ask('drop')).toContain('no share waits');
});

test('a worker that ends is replaced without another ceremony', async () => {
  // The process that answered for the sealed vault ends a moment after it was unsealed.
  await expect.poll(() => workersOf(server).length, { timeout: 30_000 }).toBe(2);
  const before = workersOf(server);
  killIfAlive(before[0] as number);
  await expect.poll(() => workersOf(server).filter((pid) => !before.includes(pid)).length, { timeout: 30_000 }).toBe(1);
  await expect.poll(() => server.output(), { timeout: 30_000 }).toContain('a worker took its place');
  for (let times = 0; times < 4; times += 1) expect((await tokenize('kept')).status).toBe(200);
});

test('sealed again, no process has the root key, and shares of another key are dropped', async () => {
  const made: any = await (await tokenize('4711')).json();
  await expect.poll(() => workersOf(server).length, { timeout: 30_000 }).toBe(2);
  const serving = workersOf(server);
  const pid = server.child.pid as number;
  expect(await hasInMemory(pid, ROOT_KEY)).toBe(true);
  expect((await run(['seal'])).out).toContain('The vault is sealed: 0 of 2 shares');
  expect(await statusOfVault()).toEqual({ status: 'sealed' });
  expect((await tokenize('x')).status).toBe(503);
  const left = workersOf(server);
  expect(left.filter((worker) => serving.includes(worker))).toEqual([]);
  for (const process of [pid, ...left])
    for (const form of [ROOT_KEY, Buffer.from(ROOT_KEY.toString('base64')), Buffer.from(ROOT_KEY.toString('hex'))])
      expect(await hasInMemory(process, form)).toBe(false);
  // The vault exists, so another key does not open it, however well its shares fit.
  await give(foreign[0]);
  expect(await give(foreign[1])).toContain('The root key does not open this vault');
  expect(await ask('status')).toEqual(given(0));
  await give(shares[2]);
  expect(await give(shares[0])).toEqual({ state: 'unsealed' });
  await untilReady(server);
  expect(await readToken(made.id)).toMatchObject({ data: '4711' });
});

test('the vault is sealed also where the process that answers for it does not start', async () => {
  await expect.poll(() => workersOf(server).length, { timeout: 30_000 }).toBe(2);
  const serving = workersOf(server);
  const sealing = ask('seal');
  const newOnes = () => workersOf(server).filter((pid) => !serving.includes(pid));
  let found: number[] = [];
  await expect.poll(() => (found = newOnes()), { timeout: 30_000, interval: 2 }).toHaveLength(1);
  killIfAlive(found[0] as number);
  expect(await sealing).toEqual(given(0));
  // Its answer may come before the lines of its log.
  await expect.poll(() => server.output()).toContain('the vault is sealed before anything answers for it');
  expect(workersOf(server).filter((pid) => serving.includes(pid))).toEqual([]);
  expect(await hasInMemory(server.child.pid as number, ROOT_KEY)).toBe(false);
  await untilSealed();
});

test('commands ask for the shares, and the log has none of them', async () => {
  const refused = await run(['tenants', 'list']);
  expect(refused).toMatchObject({ code: 1, out: expect.stringContaining('0 of 2 shares') });
  expect(await run(['tenants', 'list'], `${shares[1]}\n${shares[2]}\n`)).toMatchObject({
    code: 0,
    out: expect.stringContaining('Development'),
  });
  expect((await run(['keys', 'combine'], shares.join('\n'))).out).toBe(`${ROOT_KEY.toString('base64')}\n`);
  expect(server.output()).toContain('a share of the root key was given');
  for (const share of shares)
    for (const group of share.split('-').slice(1, -1)) expect(server.output()).not.toContain(group);
  expect(server.output()).not.toContain(ROOT_KEY.toString('base64'));
});

test('a server that is stopped while it is being unsealed closes what it has opened', async () => {
  await give(shares[0]);
  const unsealing = give(shares[1]);
  await expect.poll(() => ask('status'), { timeout: 30_000, interval: 5 }).toEqual({ state: 'unsealing' });
  server.child.kill();
  expect(await server.exited, server.output()).toBe(0);
  await unsealing;
  expect(server.output()).toMatch(/the vault is unsealed[^]*"stopped"/);
});
