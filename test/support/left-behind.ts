// Finds and ends the processes that a test run left behind, and removes its temporary directory.
// As a program it waits for the end of the process that started it: a run that is killed cleans up nothing by itself.
import { readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

export type LeftProcess = { pid: number; command: string };

/** Processes that end because their parent has ended, such as executors, need a moment. */
const GRACE_MS = 3_000;
const STEP_MS = 50;

const readOrEmpty = (read: () => string): string => {
  try {
    return read();
  } catch {
    // The process has ended, or belongs to another user.
    return '';
  }
};

/** The processes whose environment, command line or working directory names the run's directory. */
export const findProcesses = (directory: string): LeftProcess[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      const command = readOrEmpty(() => readFileSync(`/proc/${pid}/cmdline`, 'latin1'));
      const isOfRun =
        command.includes(directory) ||
        readOrEmpty(() => readFileSync(`/proc/${pid}/environ`, 'latin1')).includes(directory) ||
        readOrEmpty(() => readlinkSync(`/proc/${pid}/cwd`)).startsWith(directory);
      const isGuard = command.includes('left-behind.ts');
      // A process without a command line has ended, and its parent has not taken note of it yet.
      return isOfRun && !isGuard && command !== ''
        ? [{ pid: Number(pid), command: command.replaceAll('\0', ' ') }]
        : [];
    });

/** @returns the processes of the run that it killed: all but those with the ids `spared`. */
export const killProcesses = (directory: string, spared: readonly (number | undefined)[] = []): LeftProcess[] => {
  const killed = findProcesses(directory).filter(({ pid }) => !spared.includes(pid));
  for (const { pid } of killed) readOrEmpty(() => String(process.kill(pid, 'SIGKILL')));
  return killed;
};

/** Waits for processes that are about to end, kills the others, and removes the directory. @returns those that were killed. */
export const cleanUp = async (directory: string): Promise<LeftProcess[]> => {
  let left = findProcesses(directory);
  for (let waitedMs = 0; left.length > 0 && waitedMs < GRACE_MS; waitedMs += STEP_MS) {
    await sleep(STEP_MS);
    left = findProcesses(directory);
  }
  while (killProcesses(directory).length > 0) await sleep(STEP_MS);
  rmSync(directory, { recursive: true, force: true });
  return left;
};

if (import.meta.main) {
  const directory = process.argv[2];
  if (directory === undefined) throw new Error('usage: left-behind.ts DIRECTORY');
  process.stdin.on('end', () => void cleanUp(directory)).resume();
}
