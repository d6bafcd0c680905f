import { type ChildProcess, spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { coreClock } from './core-time.ts';

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
