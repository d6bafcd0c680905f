// Keeps memory flat while bodies pass. Each piece is garbage as soon as it has gone on, but its bytes lie outside of V8's heap,
// which lets some 60 MB of them gather before it looks (measured; 10 MB with this). Costs a millisecond every few megabytes.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** What may have passed since garbage was last collected. */
const PASSED_BYTES_MAX = 4 * 1024 * 1024;

type CollectGarbage = (options: { type: 'minor' }) => void;

/** V8's own, which only contexts made after the flag was set have. */
const findCollector = (): CollectGarbage => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as CollectGarbage;
  setFlagsFromString('--no-expose-gc');
  return collect;
};

/** @returns what is to be told of the bytes of each piece that passes. */
export const createPassing = (): ((bytes: number) => void) => {
  const collectGarbage = findCollector();
  let passedBytes = 0;
  return (bytes) => {
    passedBytes += bytes;
    if (passedBytes < PASSED_BYTES_MAX) return;
    passedBytes = 0;
    collectGarbage({ type: 'minor' });
  };
};
