// Joins, charges and refuses small chunks: the rule by the clock, the order of chunks, and the pause while in debt.
import { setImmediate as tick } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ChunkJoiner } from './small-chunks.ts';

let clockMs = 0;
beforeEach(() => {
  vi.spyOn(performance, 'now').mockImplementation(() => clockMs);
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** @param debt what the account owes: the joiner waits for it. */
const create = (debt?: Promise<void>) => {
  const seen = { pieces: [] as string[], calls: [] as string[], chargedMs: 0 };
  const accounts = {
    charge: (_: string, usedMs: number) => void (seen.chargedMs += usedMs),
    whenPaid: () => debt,
  };
  const joiner = new ChunkJoiner(accounts, {
    account: () => 'tenant',
    take: (piece) => seen.pieces.push(Buffer.from(piece).toString()),
    pause: () => seen.calls.push('pause'),
    resume: () => seen.calls.push('resume'),
    refuse: () => seen.calls.push('refuse'),
  });
  /** @param everyMs the time from one chunk to the next. */
  const push = (count: number, bytes: number, everyMs = 0): void => {
    for (let index = 0; index < count; index += 1) {
      joiner.push(Buffer.alloc(bytes, 'x'));
      clockMs += everyMs;
    }
  };
  return { joiner, push, seen };
};

test('joins the small chunks of a tick, and passes on a large one after those before it', async () => {
  const { joiner, seen } = create();
  for (const text of ['a', 'b', 'c'.repeat(2_000), 'd', 'e']) joiner.push(Buffer.from(text));
  expect(seen.pieces).toEqual(['ab', 'c'.repeat(2_000)]);
  await tick();
  expect(seen.pieces.at(-1)).toBe('de');
  joiner.push(Buffer.from('f'));
  joiner.flush();
  joiner.flush();
  await tick();
  expect(seen.pieces.slice(3)).toEqual(['f']);
  expect(seen.chargedMs).toBe(0);
});

test.each([
  [2_000, 1, 0, []],
  [2_020, 1, 0, ['refuse']],
  // 2,000 a second for ten seconds.
  [20_000, 1, 0.5, []],
  [20_000, 1, 0.3, ['refuse']],
  // The bytes are as many as the rule asks for on average.
  [50_000, 128, 0, []],
  [5_000, 64, 0, ['refuse']],
  [3_500, 64, 0, []],
])('%d chunks of %d bytes each %d ms: %j', (count, bytes, everyMs, calls) => {
  const { push, seen } = create();
  push(count, bytes, everyMs);
  expect(seen.calls).toEqual(calls);
});

test('refuses only above 2,000 chunks in one second that have less than 128 bytes on average', () => {
  for (const everyMs of [0, 0.05, 0.2, 0.4])
    for (const bytes of [1, 40, 100]) {
      const { joiner, seen } = create();
      const times: number[] = [];
      while (seen.calls.length === 0 && times.length < 30_000) {
        times.push(clockMs);
        joiner.push(Buffer.alloc(bytes));
        clockMs += everyMs;
      }
      const lastSecond = times.filter((at) => at > (times.at(-1) as number) - 1_000).length;
      if (seen.calls.length > 0) expect(lastSecond).toBeGreaterThan(2_000);
    }
});

test('large chunks make up for small ones, and a pause for those before it', () => {
  const { push, seen } = create();
  push(1_900, 1);
  push(1, 300_000);
  push(1_900, 1);
  clockMs += 1_000;
  push(1_900, 1);
  expect(seen.calls).toEqual([]);
  push(300, 1);
  expect(seen.calls).toEqual(['refuse']);
});

test('after a refusal nothing is passed on, joined or charged', async () => {
  const { joiner, push, seen } = create();
  push(3_000, 1);
  const { chargedMs } = seen;
  push(1_000, 5_000);
  joiner.flush();
  await tick();
  expect(seen).toEqual({ pieces: [], calls: ['refuse'], chargedMs });
  // A client that connects again has to rest.
  expect(chargedMs).toBe(100);
});

test('charges the time of many chunks of a read, and of few none', async () => {
  const { push, seen } = create();
  push(63, 1, 0.25);
  await tick();
  expect(seen.chargedMs).toBe(0);
  push(128, 1, 0.25);
  await tick();
  // The pause between the two reads is nobody's.
  expect(seen.chargedMs).toBe(127 * 0.25);
});

test('pauses the sender until the debt is paid', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { push, seen } = create(promise);
  push(64, 1);
  await tick();
  expect(seen.calls).toEqual(['pause']);
  resolve();
  await tick();
  expect(seen.calls).toEqual(['pause', 'resume']);
});
