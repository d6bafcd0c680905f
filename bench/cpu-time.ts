// CPU time of processes, as the kernel counts it for a process and all that it started.
import { readFileSync } from 'node:fs';

const TICKS_PER_SECOND = 100;

/** Empty for a process that has ended: its CPU time is then its parent's. */
const readProc = (path: string): string => {
  try {
    return readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    return '';
  }
};

/** The fields of /proc/PID/stat behind the name of the program, which may hold spaces. */
const statOf = (pid: number): string[] => readProc(`${pid}/stat`).split(') ').at(-1)?.split(' ') ?? [];

export const childrenOf = (pid: number): number[] =>
  readProc(`${pid}/task/${pid}/children`).trim().split(' ').filter(Boolean).map(Number);

/**
 * Seconds of CPU that a process, its children and those of them that have ended have used.
 * @param except a child that is not counted, with its own children.
 */
export const cpuSeconds = (pid: number, except?: number): number => {
  const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = statOf(pid).slice(11, 15).map(Number);
  let seconds = (user + system + endedUser + endedSystem) / TICKS_PER_SECOND;
  for (const child of childrenOf(pid)) if (child !== except) seconds += cpuSeconds(child, except);
  return seconds;
};
