import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';

/** In a process of its own: this one keeps its priorities. */
const PROGRAM = `
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { lowerHelpers } from '${new URL('priority.ts', import.meta.url).href}';
lowerHelpers();
const own = getPriority();
const threads = readdirSync('/proc/self/task').map(Number);
console.log(JSON.stringify(threads.map((thread) => ({
  name: readFileSync('/proc/self/task/' + thread + '/comm', 'utf8').trim(),
  isMain: thread === process.pid,
  more: getPriority(thread) - own,
}))));`;

test.runIf(process.platform === 'linux')(
  'helper threads of V8 yield to the main thread, which keeps its priority',
  () => {
    const output = execFileSync(process.execPath, ['--input-type=module', '-e', PROGRAM], { encoding: 'utf8' });
    const threads = JSON.parse(output) as { name: string; isMain: boolean; more: number }[];
    expect(threads.filter(({ isMain }) => isMain)).toMatchObject([{ more: 0 }]);
    const helpers = threads.filter(({ name }) => name === 'V8Worker');
    expect(helpers.length).toBeGreaterThan(0);
    for (const { more } of helpers) expect(more).toBe(5);
  },
);
