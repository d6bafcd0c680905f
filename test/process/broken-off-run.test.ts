// A test run that is killed leaves neither a process nor a directory behind; one that ends names what its tests left, and fails.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { findProcesses } from '../support/left-behind.ts';
import { root } from '../support/process.ts';

/** The runs of this file have their temporary directories, and their tests, in it. */
let directory: string;
let runs: ChildProcess[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'strongroom-broken-off-'));
});
afterEach(() => {
  for (const run of runs) run.kill('SIGKILL');
  runs = [];
  rmSync(directory, { recursive: true, force: true });
});

/** A test whose child ignores signals and lives in a process group of its own, as a database does. */
const ENDLESS = `
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { test } from 'vitest';
test('waits', async () => {
  const child = spawn('sh', ['-c', "trap '' TERM HUP INT; echo > STARTED; while :; do sleep 1; done"], {
    detached: true,
    stdio: 'ignore',
  });
  await new Promise(() => child);
}, 600_000);
`;

/** A test that passes, and does not end what it started. */
const leaving = (stdio: string): string => `
import { spawn } from 'node:child_process';
import { test } from 'vitest';
test('passes', () => {
  spawn('sleep', ['4711'], { detached: true, stdio: '${stdio}' }).unref();
});
`;

/** Arguments of a run whose only test file is this text, in a temporary directory. */
const runOf = (temporary: string, text: string): string[] => {
  mkdirSync(join(temporary, 'tests'));
  writeFileSync(join(temporary, 'tests', 'only.test.ts'), text);
  const options = ['--config', join(root, 'test/support/bare.config.ts'), '--root', join(temporary, 'tests')];
  return [join(root, 'test/run.ts'), ...options];
};

/** Begins a run of a test that never ends, and waits until its process is there. */
const begin = async (): Promise<{ run: ChildProcess; temporary: string }> => {
  const temporary = mkdtempSync(join(directory, 'run-'));
  const started = join(temporary, 'started');
  const run = spawn(process.execPath, runOf(temporary, ENDLESS.replace('STARTED', started)), {
    cwd: root,
    env: { PATH: process.env['PATH'], TMPDIR: temporary },
    stdio: 'ignore',
  });
  runs.push(run);
  await vi.waitFor(() => expect(existsSync(started)).toBe(true), { timeout: 30_000, interval: 50 });
  return { run, temporary };
};

test.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)('%s', async (signal) => {
  const { run, temporary } = await begin();
  expect(findProcesses(temporary)).not.toEqual([]);
  const ended = once(run, 'exit');
  run.kill(signal);
  await ended;
  await expect.poll(() => findProcesses(temporary), { timeout: 20_000 }).toEqual([]);
  // The directory goes after its processes.
  await expect.poll(() => readdirSync(temporary).toSorted(), { timeout: 20_000 }).toEqual(['started', 'tests']);
});

// Vitest waits without end for one that holds the output of a worker.
test.each(['ignore', 'inherit'])('a process left behind is named and killed, and fails the run: %s', async (stdio) => {
  const temporary = mkdtempSync(join(directory, 'run-'));
  const { status, stderr } = spawnSync(process.execPath, runOf(temporary, leaving(stdio)), {
    cwd: root,
    env: { PATH: process.env['PATH'], TMPDIR: temporary },
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([1, expect.stringMatching(/Left behind and killed: process \d+: sleep 4711/)]);
  expect(findProcesses(temporary)).toEqual([]);
});

test('two runs at once do not disturb each other', async () => {
  const [first, second] = await Promise.all([begin(), begin()]);
  const ended = once(first.run, 'exit');
  first.run.kill('SIGKILL');
  await ended;
  await expect.poll(() => findProcesses(first.temporary), { timeout: 20_000 }).toEqual([]);
  expect(findProcesses(second.temporary)).not.toEqual([]);
});
