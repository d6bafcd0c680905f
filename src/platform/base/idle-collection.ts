// Gives memory back after a burst: V8 leaves garbage in an idle process, since it collects when something is allocated.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const LOOK_MS = 2_000;
/** Less garbage is not worth a collection: a busy server has as much between two of its own. */
const GROWTH_BYTES = 100 * 1024 * 1024;
/** Looks that are left out after a collection that freed little: what has grown is in use. */
const LOOKS_LEFT_OUT = 15;
/** A collection stops the process for some 50 ms. A server that works more than this collects of itself. */
const BUSY_SHARE_MAX = 0.1;

type Collect = (options: { type: 'major'; execution: 'async' }) => Promise<void>;

/**
 * Collects while memory is above its least and the process has nearly nothing to do.
 * @returns what stops it.
 */
export const collectWhenIdle = (): (() => void) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as Collect;
  setFlagsFromString('--no-expose-gc');
  const memory = (): number => process.memoryUsage.rss();
  let leastBytes = memory();
  let leftOut = 0;
  let before = performance.eventLoopUtilization();
  const look = async (): Promise<void> => {
    const busyShare = performance.eventLoopUtilization(before).utilization;
    before = performance.eventLoopUtilization();
    const bytes = memory();
    leastBytes = Math.min(leastBytes, bytes);
    leftOut -= 1;
    if (leftOut >= 0 || bytes - leastBytes < GROWTH_BYTES || busyShare > BUSY_SHARE_MAX) return;
    await collect({ type: 'major', execution: 'async' });
    if (bytes - memory() < GROWTH_BYTES) leftOut = LOOKS_LEFT_OUT;
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  timer.unref();
  return () => clearInterval(timer);
};
