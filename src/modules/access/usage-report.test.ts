// Quantiles of the times of requests, from counts by bucket.
import { expect, test } from 'vitest';
import { LATENCY_BOUNDS_MS } from './rows/usage.ts';
import { quantileOf } from './usage-report.ts';

/** Counts by the upper bound of their bucket; undefined for the last. */
const counts = (...of: [bound: number | undefined, count: number][]): number[] =>
  [...LATENCY_BOUNDS_MS, undefined].map((bound) => of.find(([each]) => each === bound)?.[1] ?? 0);

test.each<[string, number[], share: number, expected: number | undefined]>([
  ['no requests', counts(), 0.5, undefined],
  ['one bucket, spread evenly', counts([10, 10]), 0.5, 7.5],
  ['the first bucket, from 0', counts([5, 100]), 0.95, 4.8],
  ['two buckets, at the border', counts([5, 50], [10, 50]), 0.5, 5],
  ['two buckets, in the second', counts([5, 90], [1_000, 10]), 0.95, 750],
  ['one request', counts([25, 1]), 0.95, 24.3],
  ['beyond the last bound', counts([undefined, 3]), 0.5, 10_000],
])('of %s', (_, latencies, share, expected) => {
  expect(quantileOf(latencies, share)).toBe(expected);
});
