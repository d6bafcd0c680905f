// Ordinary programs give the same result in the sandbox as in Node, to the byte.
import { expect, test } from 'vitest';
import { allPrograms, testPrograms } from '../support/programs-in-node.ts';

test('there are programs to compare', () => {
  expect(allPrograms.length).toBeGreaterThanOrEqual(45);
});

testPrograms(allPrograms);
