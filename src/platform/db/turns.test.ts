import { describe, expect, test, vi } from 'vitest';
import { createTurns, type Turns } from './turns.ts';

const FULL = 20;

/** Turns whose batches end when the test says so. */
const heldTurns = (batchesMax: number) => {
  const underWay: { size: number; end: () => Promise<void> }[] = [];
  const answered: number[] = [];
  const turns = createTurns<number>(
    batchesMax,
    (queue) => queue.splice(0, FULL),
    (batch) => {
      const { promise, resolve } = Promise.withResolvers<(() => void)[]>();
      const end = async (): Promise<void> => {
        resolve([() => answered.push(batch.length)]);
        await new Promise((done) => setImmediate(done));
      };
      underWay.push({ size: batch.length, end });
      return promise;
    },
  );
  return {
    turns,
    answered,
    sizes: () => underWay.map(({ size }) => size),
    /** Queues so many and waits until the tick of the event loop has ended. */
    add: async (lane: string, count: number): Promise<void> => {
      for (let item = 0; item < count; item += 1) turns.add(lane, item);
      await new Promise((resolve) => setImmediate(resolve));
    },
    endFirst: async (): Promise<void> => underWay.shift()?.end(),
  };
};

describe('turns', () => {
  test('items that arrive while a batch is under way go together in the next one', async () => {
    const { add, sizes, endFirst, turns, answered } = heldTurns(2);
    await add('a', 3);
    await add('a', 1);
    await add('a', 2);
    expect(sizes()).toEqual([3]);
    await endFirst();
    expect(sizes()).toEqual([3]);
    await endFirst();
    expect(sizes()).toEqual([]);
    expect(answered).toEqual([3, 3]);
    expect(turns.isIdle()).toBe(true);
  });

  test('a lane has one batch under way, also where more wait than a batch holds', async () => {
    const { add, sizes, endFirst } = heldTurns(2);
    await add('a', 2 * FULL + 5);
    expect(sizes()).toEqual([FULL]);
    await endFirst();
    expect(sizes()).toEqual([FULL]);
    await endFirst();
    expect(sizes()).toEqual([5]);
  });

  test('the next batch starts before the one before it is answered', async () => {
    const seen: string[] = [];
    const turns = createTurns<string>(
      1,
      (queue) => queue.splice(0, 1),
      async ([item]) => {
        seen.push(`start ${item}`);
        return [() => seen.push(`answer ${item}`)];
      },
    );
    turns.add('a', 'one');
    turns.add('a', 'two');
    await vi.waitFor(() => expect(turns.isIdle()).toBe(true));
    expect(seen).toEqual(['start one', 'start two', 'answer one', 'answer two']);
  });

  test('a batch that hangs does not hold up its lane', async () => {
    const { add, sizes } = heldTurns(2);
    await add('a', 1);
    await add('a', 2);
    expect(sizes()).toEqual([1]);
    await vi.waitFor(() => expect(sizes()).toEqual([1, 2]));
  });

  test('lanes do not wait for each other', async () => {
    const { add, sizes, endFirst } = heldTurns(3);
    await add('a', 4);
    await add('b', 2);
    await add('b', 6);
    expect(sizes()).toEqual([4, 2]);
    await endFirst();
    expect(sizes()).toEqual([2]);
    await endFirst();
    expect(sizes()).toEqual([6]);
  });

  test('lanes take turns where fewer batches may be under way than lanes wait', async () => {
    const { add, sizes, endFirst } = heldTurns(1);
    await Promise.all([add('a', FULL + 1), add('b', 2)]);
    expect(sizes()).toEqual([FULL]);
    await endFirst();
    expect(sizes()).toEqual([2]);
    await endFirst();
    expect(sizes()).toEqual([1]);
  });

  test('what released requests ask for next goes together in one batch, of their lane only', async () => {
    const sizes: Record<string, number[]> = { a: [], b: [] };
    const turns: Turns<string> = createTurns<string>(
      4,
      (queue) => queue.splice(0, FULL),
      async (batch) => {
        sizes[batch[0] as string]?.push(batch.length);
        if (sizes['a']?.length !== 1 || batch[0] !== 'a') return [];
        // Each takes longer than a tick releases for.
        return batch.map(() => () => {
          const endMs = performance.now() + 1.2;
          while (performance.now() < endMs);
          turns.add('a', 'a');
          turns.add('b', 'b');
        });
      },
    );
    for (let item = 0; item < 3; item += 1) turns.add('a', 'a');
    await vi.waitFor(() => expect(sizes['a']).toEqual([3, 3]));
    expect(sizes['b']?.length).toBeGreaterThan(1);
  });

  test('a lane waits for released requests for 50 ms at most', async () => {
    let batches = 0;
    const turns: Turns<string> = createTurns<string>(
      2,
      (queue) => queue.splice(0, FULL),
      async (batch) => {
        batches += 1;
        if (batches > 1) return [];
        return batch.map(() => () => {
          const endMs = performance.now() + 15;
          while (performance.now() < endMs);
          turns.add('a', 'later');
        });
      },
    );
    for (let item = 0; item < 6; item += 1) turns.add('a', 'first');
    await vi.waitFor(() => expect(turns.isIdle()).toBe(true));
    expect(batches).toBeGreaterThan(2);
  });
});
