// A bag returns the items that were not removed, in any order of removal.
import { expect, test } from 'vitest';
import { createBag } from './bag.ts';

test('holds what was added and not taken out again', () => {
  const bag = createBag<number>();
  const leave = [0, 1, 2, 3].map((item) => bag.add(item));
  leave[1]?.();
  expect([...bag].toSorted()).toEqual([0, 2, 3]);
  leave[3]?.();
  leave[0]?.();
  bag.add(4);
  expect([...bag].toSorted()).toEqual([2, 4]);
});

test('removes no other item when an item is removed twice', () => {
  const bag = createBag<string>();
  const leave = bag.add('first');
  bag.add('second');
  leave();
  leave();
  expect([...bag]).toEqual(['second']);
});

test('is looked through as it was when that began: what is met may leave', () => {
  const bag = createBag<() => void>();
  let met = 0;
  for (let count = 0; count < 3; count += 1) {
    const leave = bag.add(() => {
      met += 1;
      leave();
    });
  }
  for (const item of bag) item();
  expect([met, [...bag]]).toEqual([3, []]);
});
