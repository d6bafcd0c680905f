// Resident memory depends on the machine and on what ran before: `npm run drill:memory` looks at it, the suite does not.
import { expect } from 'vitest';

const MEGABYTE = 1024 * 1024;
const LOOKS_MS = 10;

/** Looks at the memory of this process until `end`, which fails a drill where it has grown by more. */
export const watchMemory = (growthMax: { megabytes: number }): { end(): void } => {
  if (!process.env['DRILL_MEMORY']) return { end: () => undefined };
  const before = process.memoryUsage.rss();
  let most = before;
  const look = (): void => void (most = Math.max(most, process.memoryUsage.rss()));
  const timer = setInterval(look, LOOKS_MS);
  return {
    end: () => {
      clearInterval(timer);
      look();
      expect((most - before) / MEGABYTE).toBeLessThan(growthMax.megabytes);
    },
  };
};
