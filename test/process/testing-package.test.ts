// The npm package for tests: its examples run in the test runners they are for, and a vault leaves nothing, however its test ends.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { root } from '../support/process.ts';

/** As it is built and published. */
const { cards, startVault } = (await import('@strongroom/testing')) as typeof import('@strongroom/testing');

const scratch = mkdtempSync(join(tmpdir(), 'strongroom-testing-'));
const cacheDirectory = join(scratch, 'cache/strongroom-testing');
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** Where the vaults of a test are. */
let directory: string;
let tests = 0;
beforeEach(() => {
  directory = join(scratch, `vaults-${(tests += 1)}`);
  mkdirSync(directory);
});

/** Processes that work below the directory of the test, or are told of it. */
const processes = (): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        return words.includes(directory) || readlinkSync(`/proc/${pid}/cwd`).startsWith(directory);
      } catch {
        return false;
      }
    });

const isServed = async (url: string): Promise<boolean> =>
  fetch(`${url}/healthz`).then(
    () => true,
    () => false,
  );

const expectNothingLeft = async (): Promise<void> => {
  await expect.poll(processes, { timeout: 10_000 }).toEqual([]);
  await expect.poll(() => readdirSync(directory)).toEqual([]);
};

test('the examples pass in node:test, vitest and Jest', async () => {
  const runners = {
    'node-test': ['--test'],
    vitest: [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--root', '.'],
    jest: [join(root, 'node_modules/jest/bin/jest.js')],
  };
  const environment = { PATH: process.env['PATH'], TMPDIR: directory, XDG_CACHE_HOME: join(scratch, 'cache') };
  const run = async ([name, args]: [string, string[]]) => {
    const cwd = join(root, 'packages/testing/examples', name);
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { cwd, env: environment });
    // oxlint-disable-next-line no-control-regex
    return `${stdout}${stderr}`.replaceAll(/\x1b\[\d*m/g, '');
  };
  // All at once: the first three starts make the prepared database together.
  const [node, vitest, jest] = await Promise.all(Object.entries(runners).map(run));
  expect(node).toMatch(/^. pass 2$/m);
  expect(vitest).toMatch(/Tests +3 passed/);
  expect(jest).toMatch(/Tests: +1 passed/);
  expect(readdirSync(cacheDirectory).toSorted()).toEqual(['compiled', expect.stringMatching(/^pg-\d/)]);
  expect(readdirSync(directory).filter((name) => name.startsWith('strongroom-vault-'))).toEqual([]);
});

test.each(['docs/test-your-code.md', 'packages/testing/README.md'])(
  'the program of %s prints what it shows',
  async (name) => {
    const page = readFileSync(join(root, name), 'utf8');
    const [, program = '', shown = ''] = /^```js\n([\s\S]*?)^```\n+```json\n([\s\S]*?)^```$/m.exec(page) ?? [];
    const args = ['--input-type=module', '-e', program];
    const env = { PATH: process.env['PATH'], TMPDIR: directory, XDG_CACHE_HOME: join(scratch, 'cache') };
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root, env });
    expect(JSON.parse(stdout)).toEqual(JSON.parse(shown));
    expect(readdirSync(directory)).toEqual([]);
  },
);

test('a vault has a clock and tenants of its own; stopped, it leaves nothing', async () => {
  const vault = await startVault({ directory, cacheDirectory, environment: { CVC_TTL: '5m' } });
  const advanced = await vault.clock.advance('2d');
  expect(Math.round((advanced.getTime() - Date.now()) / 3_600_000)).toBe(48);
  await expect(vault.clock.advance('soon')).rejects.toThrow('must be a time such as 90s, 15m, 1h or 30d');
  const other = await vault.newTenant('Other');
  expect(other.tenantId).not.toBe(vault.tenantId);
  const self = await fetch(`${vault.url}/tenants/self`, { headers: { 'svc-api-key': other.key } });
  expect(await self.json()).toMatchObject({ id: other.tenantId, name: 'Other' });
  await vault.stop();
  await vault.stop();
  expect(processes()).toEqual([]);
  expect(readdirSync(directory)).toEqual([]);
  expect(await isServed(vault.url)).toBe(false);
  await expect(fetch(vault.processorUrl)).rejects.toThrow();
});

test('the fake processor resets a connection, and does not close it as a server that ends', async () => {
  await using vault = await startVault({ directory, cacheDirectory });
  const asked = request(vault.processorUrl, { method: 'POST', rejectUnauthorized: false });
  asked.end(cards.resets);
  const [error] = await once(asked, 'error');
  expect(error).toMatchObject({ code: 'ECONNRESET' });
  expect(vault.requests).toMatchObject([{ method: 'POST', path: '/', body: Number(cards.resets) }]);
});

/** Starts a vault in a process of its own, as a test runner does. */
const startElsewhere = async () => {
  const program = `
    import { startVault } from '@strongroom/testing';
    const vault = await startVault(${JSON.stringify({ directory, cacheDirectory })});
    console.log(vault.url);
    setInterval(() => undefined, 1_000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [url] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, url: url.toString().trim() };
};

test('a killed test leaves nothing', async () => {
  const { child, url } = await startElsewhere();
  expect(await isServed(url)).toBe(true);
  child.kill('SIGKILL');
  await expectNothingLeft();
  expect(await isServed(url)).toBe(false);
});

test('a vault that is killed leaves no database', async () => {
  const vault = await startVault({ directory, cacheDirectory });
  const server = processes().find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('start.cjs'));
  expect(server).toBeDefined();
  const guarded = processes().filter((pid) => pid !== server);
  expect(guarded.length).toBeGreaterThan(2);
  process.kill(Number(server), 'SIGKILL');
  await expectNothingLeft();
  await vault.stop();
});

test('a start that cannot be says what is wrong and where, and leaves nothing', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as { port: number };
  const file = join(scratch, 'file');
  writeFileSync(file, '');
  const nowhere = join(scratch, 'nowhere');
  const cases: [Parameters<typeof startVault>[0] & Record<string, unknown>, string][] = [
    [{ port }, `Port ${port} on 127.0.0.1 is taken.`],
    [{ port: 70_000 }, 'startVault: port must be a whole number from 0 to 65535'],
    [{ prot: 1 }, 'startVault has no option prot.'],
    [{ directory: nowhere }, `No directory for the vault can be made in ${nowhere} (ENOENT).`],
    [{ directory: file }, `No directory for the vault can be made in ${file} (ENOTDIR).`],
    [{ cacheDirectory: file }, `the prepared database in ${file} cannot be made or copied`],
    [{ server: scratch }, `The directory ${scratch} has no server of Strongroom`],
    [{ environment: { CVC_TTL: 'soon' } }, 'CVC_TTL: must be a number of seconds'],
    [{ environment: { NODE_ENV: 'production' } }, 'TEST_ENDPOINTS: is for development only'],
  ];
  for (const [options, sentence] of cases) {
    await expect(startVault({ directory, cacheDirectory, ...options })).rejects.toThrow(sentence);
    expect(processes(), sentence).toEqual([]);
    expect(readdirSync(directory), sentence).toEqual([]);
  }
  taken.close();
});
