// Sets the CPU priority (niceness) of processes. Linux keeps one for each thread.
import { readdirSync, readFileSync } from 'node:fs';
import { constants, getPriority, setPriority } from 'node:os';

/** The lowest priority that there is. */
export const NICENESS_MAX = constants.priority.PRIORITY_LOW;
const NICENESS_MIN = constants.priority.PRIORITY_HIGHEST;

const findThreads = (pid: number): number[] => {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    // The process has ended, or there is no /proc.
    return [];
  }
};

/** @returns whether the system allowed it. */
const setThread = (thread: number, niceness: number): boolean => {
  try {
    setPriority(thread, Math.min(niceness, NICENESS_MAX));
    return true;
  } catch {
    return false;
  }
};

/** Sets the niceness of all threads of a process. Has no effect where the system does not allow it. */
export const setNiceness = (pid: number, niceness: number): void => {
  for (const thread of findThreads(pid)) setThread(thread, niceness);
};

/** Whether this process may give a higher priority, which needs a privilege. It tries with its own. */
export const mayRaisePriority = (): boolean => {
  const own = getPriority();
  const may = setThread(0, Math.max(own - 1, NICENESS_MIN));
  if (may) setThread(0, own);
  return may;
};

/** Threads of V8 that mark and compile beside the main thread. Their name is Node's. */
const HELPER_NAME = 'V8Worker';

/** So much less weight that the main thread has three quarters of a core that both want. */
const HELPER_NICENESS = 5;

/**
 * Lets V8's helper threads yield to the main thread, where cores are few: with the same priority they took half of the core from it
 * while strings of megabytes passed. To be called once. Only Linux has a priority for each thread.
 */
export const lowerHelpers = (): void => {
  if (process.platform !== 'linux') return;
  const niceness = getPriority() + HELPER_NICENESS;
  for (const thread of findThreads(process.pid)) if (nameOf(thread) === HELPER_NAME) setThread(thread, niceness);
};

const nameOf = (thread: number): string => {
  try {
    return readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim();
  } catch {
    // The thread has ended.
    return '';
  }
};
