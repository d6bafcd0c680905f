// Batches release their requests in several ticks of the event loop, in turns.
import { expect, test } from 'vitest';
import { releaseInTicks } from './release.ts';

const nextTick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const work = (ms: number): void => {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
};

/** Requests that work for so long after their release, and note in which tick. */
const batchOf = (name: string, size: number, ms: number, ticks: () => number, seen: [string, number][]) =>
  Array.from({ length: size }, () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    void promise.then(() => {
      work(ms);
      seen.push([name, ticks()]);
    });
    return resolve;
  });

/** Releases the batches, and counts ticks until all have worked. */
const release = async (...sizes: [name: string, size: number, ms: number][]): Promise<[string, number][]> => {
  const seen: [string, number][] = [];
  let ticks = 0;
  for (const [name, size, ms] of sizes)
    releaseInTicks(
      name,
      batchOf(name, size, ms, () => ticks, seen),
    );
  const all = sizes.reduce((sum, [, size]) => sum + size, 0);
  while (seen.length < all) {
    await nextTick();
    ticks += 1;
  }
  return seen;
};

test('requests whose work takes long go on in a tick each', async () => {
  const seen = await release(['a', 5, 2]);
  expect(new Set(seen.map(([, tick]) => tick)).size).toBe(5);
});

test('a small batch does not wait for a large one', async () => {
  const seen = await release(['large', 20, 1], ['small', 2, 1]);
  expect(seen.findLastIndex(([name]) => name === 'small')).toBeLessThan(6);
});

test('the order of a batch stays', async () => {
  const seen: number[] = [];
  releaseInTicks(
    'a',
    [1, 2, 3].map((number) => () => seen.push(number)),
  );
  await expect.poll(() => seen).toEqual([1, 2, 3]);
});
