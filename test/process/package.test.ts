// The npm package: its file list, and a server that starts from these files in an empty directory, beside installed packages.
// `npm run drill:package` packs it, installs it from the registry and runs it by npx.
import { execFile, execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findRuntimePackages } from '../../release/sbom.ts';
import { version } from '../../src/platform/base/version.ts';
import { root, type ServerProcess, spawnServer, untilReady } from '../support/process.ts';

type Entry = { version: string };

const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, Entry>;
};
/** What npm installs with the package: its dependencies and optional packages. */
const installed = findRuntimePackages(true);

/** Beside the packages of this checkout no other Node is found. */
const systemPath = (process.env['PATH'] ?? '')
  .split(delimiter)
  .filter((path) => !path.includes('node_modules'))
  .join(delimiter);

let directory: string;
let files: string[];
let bin: string;

beforeAll(async () => {
  const pack = await promisify(execFile)('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: root });
  const [packed] = Object.values(JSON.parse(pack.stdout)) as { files: { path: string }[] }[];
  files = packed?.files.map(({ path }) => path) ?? [];
  directory = mkdtempSync(join(tmpdir(), 'strongroom-package-'));
  const modules = join(directory, 'node_modules');
  for (const file of files) cpSync(join(root, file), join(modules, 'strongroom', file));
  for (const path of installed.filter((each) => existsSync(join(root, each)))) {
    const to = join(directory, path);
    if (existsSync(to)) continue;
    mkdirSync(dirname(to), { recursive: true });
    // Links where the file system allows it: Node and PostgreSQL are 180 MB.
    execFileSync('sh', ['-c', 'cp -al "$0" "$1" 2>/dev/null || cp -a "$0" "$1"', join(root, path), to]);
  }
  bin = join(modules, '.bin');
  mkdirSync(bin);
  symlinkSync('../strongroom/bin/strongroom.cjs', join(bin, 'strongroom'));
  symlinkSync(`../node-linux-${process.arch}/bin/node`, join(bin, 'node'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Runs the command as npx does, in a directory where nothing is. */
const strongroom = (...args: string[]) =>
  promisify(execFile)(join(bin, 'strongroom'), args, { cwd: directory, env: { PATH: `${bin}:${systemPath}` } });

test('the package has what runs, and no tests, sources, secrets or data', () => {
  const folders = new Set(files.map((file) => file.split('/')[0]));
  expect([...folders].toSorted()).toEqual(
    [
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'SECURITY.md',
      'bin',
      'deploy',
      'dist',
      'docs',
      'formulas',
      'openapi',
      'package.json',
      'prisma',
    ].toSorted(),
  );
  expect(files).toEqual(expect.arrayContaining(['bin/strongroom.cjs', 'dist/main.js', 'deploy/postgres/roles.sql']));
  expect(
    files.filter((file) => file.startsWith('prisma/')).every((file) => file.startsWith('prisma/migrations/')),
  ).toBe(true);
  // Examples of a cluster, whose passwords are change-me.
  const examples = new Set(['deploy/high-availability/etcd.env', 'deploy/high-availability/patroni.env']);
  const unwanted = /\.test\.|\.ts$|\.env|secrets?\/|(?:^|\/)data\/|\.(?:key|pem|log|age|tgz)$/;
  expect(files.filter((file) => unwanted.test(file) && !examples.has(file))).toEqual([]);
});

test('the command runs, and names itself as it was called', async () => {
  expect((await strongroom('--version')).stdout).toBe(`strongroom ${version}\n`);
  expect((await strongroom('--help')).stdout).toContain('npx strongroom admin COMMAND');
  const wrong = await strongroom('version', '--now').catch((error: { code: number; stderr: string }) => error);
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('There is no option --now') });
});

test('version names what a report needs; an older Node hands over to the packaged one', async () => {
  const { stdout } = await promisify(execFile)(
    'node',
    [join(directory, 'node_modules/strongroom/bin/strongroom.cjs'), 'version', '--json'],
    {
      cwd: directory,
      env: { PATH: systemPath },
    },
  );
  const report = JSON.parse(stdout);
  expect(report).toMatchObject({ version, packages: { pg: packages['node_modules/pg']?.version } });
  expect(Number(report.node.split('.')[0])).toBeGreaterThanOrEqual(24);
  expect(report.embedded_postgresql).toMatch(/^18\./);
  expect((await strongroom('version')).stdout).toMatch(/^commit +(?:not known|[0-9a-f]{40}(?:\+changes)?)$/m);
});

test('the server starts in an empty directory, stores a value and returns it, and stops', async () => {
  const dataDir = join(directory, 'data');
  const server: ServerProcess = await spawnServer(dataDir, { PATH: `${bin}:${systemPath}` }, [
    join(bin, 'strongroom'),
    'start',
  ]);
  try {
    await untilReady(server);
    const { api_key } = server.credentials();
    const send = async (method: string, path: string, json?: unknown): Promise<any> => {
      const response = await fetch(server.base_url + path, {
        method,
        headers: { 'svc-api-key': api_key, 'content-type': 'application/json' },
        ...(json !== undefined && { body: JSON.stringify(json) }),
      });
      expect(response.status, await response.clone().text()).toBeLessThan(300);
      return response.json();
    };
    const { id } = await send('POST', '/tokens', { type: 'card', data: { number: '4242424242424242' } });
    expect((await send('GET', `/tokens/${id}`)).data.number).toBe('XXXXXXXXXXXX4242');
    for (const path of [
      '/docs',
      '/guides/proxy',
      '/assets/guides/proxy.svg',
      '/console/sign-in',
      '/openapi.json',
      '/fields/integrity.json',
    ])
      expect((await fetch(server.base_url + path)).status, path).toBe(200);
  } finally {
    server.child.kill('SIGTERM');
    expect(await server.exited, server.output()).toBe(0);
  }
});
