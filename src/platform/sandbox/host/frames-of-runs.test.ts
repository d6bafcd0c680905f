// The server's time for the frames of a run: large ones in slices, each counted on the run.
import { describe, expect, test } from 'vitest';
import { ProtocolError } from '../protocol/frames.ts';
import { runAtOnce, type Slices } from '../../json/slices.ts';
import { parseBodyInSlices as parseBytesInSlices } from './heads.ts';
import { charged, CpuSpent, type Run } from './run.ts';

const slicesOf = <T>(work: Slices<T>): { slices: number; value: T } => {
  for (let slices = 0; ; slices += 1) {
    const step = work.next();
    if (step.done) return { slices, value: step.value };
  }
};

const parseBodyInSlices = (text: string) => parseBytesInSlices(Buffer.from(text));

const filler = (bytes: number): string => '"x",'.repeat(bytes / 4);

describe('a large text of an executor', () => {
  test('is parsed in slices, a small one at once', () => {
    expect(slicesOf(parseBodyInSlices(`[${filler(4000)}1]`)).slices).toBe(0);
    const { slices, value } = slicesOf(parseBodyInSlices(`[${filler(300_000)}1]`));
    expect(slices).toBeGreaterThan(5);
    expect((value as { value: unknown[] }).value).toHaveLength(75_001);
    expect(slicesOf(parseBodyInSlices(`["${String.raw`\"`.repeat(1_200_000)}"]`)).slices).toBeGreaterThan(50);
  });

  test.for([
    ['{"__proto__":1}', 'must not have the key __proto__'],
    ['{"constructor":{"prototype":1}}', 'must not have the key constructor.prototype'],
    [`${'['.repeat(600)}${']'.repeat(600)}`, 'must not be nested'],
  ] as const)('is refused for %j as a small one is', ([part, problem]) => {
    for (const text of [`[${part}]`, `[${filler(200_000)}${part}]`])
      expect((runAtOnce(parseBodyInSlices(text)) as { problem: string }).problem).toContain(problem);
  });

  test('that is no JSON breaks the protocol, and one with too many values is not parsed', () => {
    for (const text of ['[', `[${filler(200_000)}`])
      expect(() => runAtOnce(parseBodyInSlices(text))).toThrow(ProtocolError);
    expect(runAtOnce(parseBodyInSlices(`[${filler(2_000_000)}1]`))).toEqual({
      problem: 'must not hold more than 100000 values',
    });
  });
});

test('the time for the frames of a run counts on its CPU limit, and ends it there', () => {
  const run = { serverMs: 0, cpuMsMax: 20 } as Run;
  function* endless(): Slices<never> {
    for (;;) {
      const began = performance.now();
      while (performance.now() - began < 3);
      yield;
    }
  }
  const work = charged(run, endless());
  let before = 0;
  const error = (() => {
    for (;;) {
      before = run.serverMs;
      try {
        work.next();
      } catch (thrown) {
        return thrown;
      }
    }
  })();
  expect(error).toBeInstanceOf(CpuSpent);
  // The slice that passes the limit is the last one, however long the machine lets it take.
  expect(before).toBeLessThanOrEqual(20);
  expect(run.serverMs).toBeGreaterThan(20);
});
