import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { coreClock, createCoreClock } from './core-time.ts';

const CPU_MS = 300;
const burners: ChildProcess[] = [];

/** More than there are cores, so that this thread waits for one. */
beforeAll(async () => {
  for (let each = 0; each < 3 * availableParallelism(); each += 1) {
    const program = 'process.stdout.write("x"); for (;;);';
    burners.push(spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'ignore'] }));
  }
  await Promise.all(burners.map(({ stdout }) => new Promise((resolve) => stdout?.once('data', resolve))));
});
afterAll(() => {
  for (const burner of burners) burner.kill('SIGKILL');
});

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

test('the time of a piece of work is that of its core, however long it waits for one', () => {
  const began = performance.now();
  const waitedMs = coreClock.lastWaitedMs(began);
  const before = cpuMs();
  while (cpuMs() - before < CPU_MS);
  const now = performance.now();
  const usedMs = coreClock.usedSince(began, waitedMs, now);
  expect(now - began - usedMs).toBeGreaterThan(CPU_MS / 4);
  expect(usedMs).toBeGreaterThan(CPU_MS * 0.9);
  expect(usedMs).toBeLessThan(CPU_MS * 1.2);
});

test('short work is measured by the clock alone', () => {
  const now = performance.now();
  expect(coreClock.usedSince(now - 0.5, 0, now)).toBeCloseTo(0.5);
});

test.for(['missing', 'unreadable'] as const)('where the file is %s, the clock decides, for good', (kind) => {
  const folder = mkdtempSync(join(tmpdir(), 'core-time-'));
  const file = join(folder, 'schedstat');
  // A directory can be opened, but not read.
  if (kind === 'unreadable') mkdirSync(file);
  const clock = createCoreClock(file);
  expect(clock.lastWaitedMs(0)).toBe(0);
  rmSync(file, { recursive: true, force: true });
  writeFileSync(file, '1 5000000 1');
  expect([clock.usedSince(0, 0, 10), clock.lastWaitedMs(20)]).toEqual([10, 0]);
  expect(createCoreClock(file).usedSince(0, 0, 10)).toBe(5);
  rmSync(folder, { recursive: true });
});
