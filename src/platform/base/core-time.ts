// Measures the time that this thread had a core: no account pays for time in which other processes of the machine had it.
// The system's CPU time of a thread would not do: Linux counts it in ticks of some milliseconds, but waits for a core exactly.
import { openSync, readSync } from 'node:fs';

/** Waits are read so often at most, as a read takes 1.5 us. Shorter work is measured by the clock alone. */
const LOOK_MS = 1;

/** Three numbers: nanoseconds on a core, nanoseconds of waiting for one, and how often it had one. */
const FILE = '/proc/thread-self/schedstat';
const SPACE = 0x20;
const ZERO = 0x30;

const bytes = Buffer.alloc(64);
/** Null where the system does not tell it. */
let descriptor: number | null | undefined;
let waitedMs = 0;
let readAtMs = -Infinity;

const open = (): number | null => {
  try {
    return openSync(FILE, 'r');
  } catch {
    return null;
  }
};

const readWaited = (now: number): number => {
  descriptor ??= open();
  if (descriptor === null) return 0;
  const length = readSync(descriptor, bytes, 0, bytes.length, 0);
  let nanoseconds = 0;
  for (let at = bytes.indexOf(SPACE) + 1; at < length && bytes[at] !== SPACE; at += 1)
    nanoseconds = nanoseconds * 10 + (bytes[at] as number) - ZERO;
  readAtMs = now;
  return (waitedMs = nanoseconds / 1e6);
};

export type CoreClock = {
  /** How long this thread has waited for a core so far, in ms, as it was up to LOOK_MS ago. @param now by `performance.now()`. */
  lastWaitedMs(now: number): number;
  /**
   * Time in ms that this thread had a core in a piece of work.
   * @param beganMs its beginning, by `performance.now()`. @param waited `lastWaitedMs` then. @param now its end.
   */
  usedSince(beganMs: number, waited: number, now: number): number;
};

export const coreClock: CoreClock = {
  lastWaitedMs: (now) => (now - readAtMs < LOOK_MS ? waitedMs : readWaited(now)),
  usedSince: (beganMs, waited, now) => {
    const elapsedMs = now - beganMs;
    return elapsedMs < LOOK_MS ? elapsedMs : Math.max(0, elapsedMs - (readWaited(now) - waited));
  },
};
