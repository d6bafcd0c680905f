// Runs Vitest with a temporary directory of its own, which it removes. A process that is left behind is killed, and fails the run.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { cleanUp, killProcesses, type LeftProcess } from './support/left-behind.ts';

/** The exit code of a program that a signal ended is this and the signal's number, as in a shell. */
const SIGNAL_EXIT_CODE = 128;

/** Vitest ends a few seconds after its last test. It waits without end for a process that holds the output of one of its workers. */
const END_MS = 20_000;

const directory = mkdtempSync(join(tmpdir(), 'strongroom-test-'));
const fromHere = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

// Detached, so that no signal of the terminal reaches it. It hears the end of this process as the end of its input.
const guard = spawn(process.execPath, [fromHere('support/left-behind.ts'), directory], {
  detached: true,
  stdio: ['pipe', 'ignore', 'inherit'],
});

const vitest = spawn(
  process.execPath,
  [fromHere('../node_modules/vitest/vitest.mjs'), 'run', ...process.argv.slice(2)],
  {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, TMPDIR: directory },
  },
);
// A terminal sends its signals to both; a supervisor of jobs to this one alone.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => vitest.kill(signal));

const left: LeftProcess[] = [];
// The reporter sends it after the last test.
vitest.once('message', () => {
  void (async () => {
    await sleep(END_MS, undefined, { ref: false });
    left.push(...killProcesses(directory, [vitest.pid]));
    await sleep(END_MS, undefined, { ref: false });
    vitest.kill('SIGKILL');
  })();
});
const [code] = (await once(vitest, 'exit')) as [number | null, NodeJS.Signals | null];
left.push(...(await cleanUp(directory)));
for (const { pid, command } of left) console.error(`Left behind and killed: process ${pid}: ${command}`);
console.log(`Processes left behind: ${left.length}`);
guard.stdin.end();
// A test that leaves a process behind has not ended what it started, even if all of its assertions hold.
process.exitCode = code === 0 && left.length > 0 ? 1 : (code ?? SIGNAL_EXIT_CODE);
