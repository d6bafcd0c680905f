// Measures the time that this thread had a core: no account pays for time in which other processes of the machine had it.
// The system's CPU time of a thread would not do: Linux counts it in ticks of some milliseconds, but waits for a core exactly.
import { openSync, readSync } from 'node:fs';

/** Waits are read so often at most, as a read takes 1.5 us. Shorter work is measured by the clock alone. */
const LOOK_MS = 1;

/** Three numbers: nanoseconds on a core, nanoseconds of waiting for one, and how often it had one. */
const FILE = '/proc/thread-self/schedstat';
const SPACE = 0x20;
const ZERO = 0x30;

export type CoreClock = {
  /** How long this thread has waited for a core so far, in ms, as it was up to LOOK_MS ago. @param now by `performance.now()`. */
  lastWaitedMs(now: number): number;
  /**
   * Time in ms that this thread had a core in a piece of work.
   * @param beganMs its beginning, by `performance.now()`. @param waited `lastWaitedMs` then. @param now its end.
   */
  usedSince(beganMs: number, waited: number, now: number): number;
};

/** @param file of the form of FILE. Where it cannot be opened or read, all times are those of the clock from then on. */
export const createCoreClock = (file: string): CoreClock => {
  const bytes = Buffer.alloc(64);
  /** Null after the first failure. */
  let descriptor: number | null | undefined;
  let waitedMs = 0;
  let readAtMs = -Infinity;

  const readWaited = (now: number): number => {
    if (descriptor === null) return waitedMs;
    readAtMs = now;
    try {
      descriptor ??= openSync(file, 'r');
      const length = readSync(descriptor, bytes, 0, bytes.length, 0);
      let nanoseconds = 0;
      for (let at = bytes.indexOf(SPACE) + 1; at < length && bytes[at] !== SPACE; at += 1)
        nanoseconds = nanoseconds * 10 + (bytes[at] as number) - ZERO;
      waitedMs = nanoseconds / 1e6;
    } catch {
      // Waits no longer grow, so that nothing is subtracted.
      descriptor = null;
    }
    return waitedMs;
  };

  return {
    lastWaitedMs: (now) => (now - readAtMs < LOOK_MS ? waitedMs : readWaited(now)),
    usedSince: (beganMs, waited, now) => {
      const elapsedMs = now - beganMs;
      return elapsedMs < LOOK_MS ? elapsedMs : Math.max(0, elapsedMs - (readWaited(now) - waited));
    },
  };
};

export const coreClock = createCoreClock(FILE);
