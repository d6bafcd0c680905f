import { describe, expect, test } from 'vitest';
import { createTurns } from './turns.ts';

const FULL = 20;

/** Turns whose batches end when the test says so. */
const heldTurns = (batchesMax: number) => {
  const underWay: { size: number; leave: () => void }[] = [];
  const turns = createTurns<number>(
    FULL,
    batchesMax,
    (queue, most) => queue.splice(0, Math.min(FULL, most)),
    (batch, leave) => underWay.push({ size: batch.length, leave }),
  );
  return {
    turns,
    sizes: () => underWay.map(({ size }) => size),
    /** Puts so many in line and waits until the round of the event loop has ended. */
    add: async (lane: string, count: number): Promise<void> => {
      for (let item = 0; item < count; item += 1) turns.add(lane, item);
      await new Promise((resolve) => setImmediate(resolve));
    },
    endFirst: (): void => underWay.shift()?.leave(),
  };
};

describe('turns', () => {
  test('what comes while a batch is under way goes together in the next', async () => {
    const { add, sizes, endFirst, turns } = heldTurns(2);
    await add('a', 3);
    await add('a', 1);
    await add('a', 2);
    expect(sizes()).toEqual([3]);
    endFirst();
    expect(sizes()).toEqual([3]);
    endFirst();
    expect(sizes()).toEqual([]);
    expect(turns.isIdle()).toBe(true);
  });

  test('a large group behind a small one is halved, so that both are even; nobody is left behind', async () => {
    const { add, sizes, endFirst, turns } = heldTurns(2);
    await add('a', 2);
    await add('a', 14);
    endFirst();
    expect(sizes()).toEqual([8]);
    await add('a', 2);
    endFirst();
    expect(sizes()).toEqual([8]);
    endFirst();
    expect(turns.isIdle()).toBe(true);
  });

  test('what is left of a halved group goes when the half has ended, whether or not more come', async () => {
    const { add, sizes, endFirst, turns } = heldTurns(2);
    await add('a', 1);
    await add('a', 9);
    const seen: number[] = [];
    while (!turns.isIdle()) {
      endFirst();
      seen.push(...sizes());
    }
    expect(seen).toEqual([5, 4]);
  });

  test('a full batch holds up nobody: another goes beside it', async () => {
    const { add, sizes } = heldTurns(2);
    await add('a', FULL + 5);
    expect(sizes()).toEqual([FULL, 5]);
    await add('a', 3);
    expect(sizes()).toEqual([FULL, 5]);
  });

  test('so does a full one that follows another', async () => {
    const { add, sizes, endFirst } = heldTurns(2);
    await add('a', 10);
    await add('a', 3 * FULL);
    endFirst();
    expect(sizes()).toEqual([FULL, FULL]);
  });

  test('more than a batch holds are not halved behind a small one', async () => {
    const { add, sizes, endFirst } = heldTurns(2);
    await add('a', 1);
    await add('a', FULL + 10);
    endFirst();
    expect(sizes()).toEqual([FULL, 10]);
  });

  test('a lane is not halved when the batch of another has ended', async () => {
    const { add, sizes, endFirst } = heldTurns(1);
    await add('a', 2);
    await add('b', 10);
    endFirst();
    expect(sizes()).toEqual([10]);
  });

  test('lanes do not wait for each other', async () => {
    const { add, sizes, endFirst } = heldTurns(3);
    await add('a', 4);
    await add('b', 2);
    await add('b', 6);
    expect(sizes()).toEqual([4, 2]);
    endFirst();
    expect(sizes()).toEqual([2]);
    endFirst();
    expect(sizes()).toEqual([4]);
  });
});
