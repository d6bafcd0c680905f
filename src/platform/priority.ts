// Sets the CPU priority (niceness) of processes. Linux keeps one for each thread.
import { readdirSync } from 'node:fs';
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
