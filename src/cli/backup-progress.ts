// Reports the progress of a backup or restore on standard error, a line now and then.
import type { Progress } from '../platform/db/backup/dump.ts';

/** Often enough to see that it goes on, and seldom enough for a log. */
const REPORT_EVERY_MS = 5_000;

const MEBIBYTE = 1024 * 1024;

/** A number of bytes as an operator reads it. */
export const mebibytes = (bytes: number): string => `${(bytes / MEBIBYTE).toFixed(1)} MiB`;

const VERBS = { counting: 'Counting', writing: 'Writing', restoring: 'Restoring' } as const;

/** @returns a function that prints how far it is: each phase at its start, then every few seconds. */
export const createProgress = (print: (line: string) => void): Progress => {
  let phase: string | undefined;
  let dueMs = 0;
  return (current, bytes, ofBytes) => {
    const nowMs = performance.now();
    if (current === phase && nowMs < dueMs) return;
    phase = current;
    dueMs = nowMs + REPORT_EVERY_MS;
    print(`${VERBS[current]}: ${mebibytes(bytes)}${ofBytes === undefined ? '' : ` of ${mebibytes(ofBytes)}`}`);
  };
};
