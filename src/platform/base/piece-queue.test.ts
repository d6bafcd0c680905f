// The queue of body pieces: order, end, errors, and the limit.
import { expect, test } from 'vitest';
import { createPieceQueue } from './piece-queue.ts';

const create = () => {
  const said: string[] = [];
  const queue = createPieceQueue({ pause: () => said.push('pause'), resume: () => said.push('resume') });
  return { queue, said };
};

const piece = (bytes: number): Uint8Array => new Uint8Array(bytes);

test('gives pieces in order, then the end, however they come', async () => {
  const { queue } = create();
  const first = queue.next();
  queue.push(piece(1));
  queue.push(piece(2));
  queue.end();
  expect([await first, await queue.next(), await queue.next(), await queue.next()]).toEqual([
    { done: false, value: piece(1) },
    { done: false, value: piece(2) },
    { done: true, value: undefined },
    { done: true, value: undefined },
  ]);
});

test('gives what came before a fault, then the first fault', async () => {
  const { queue } = create();
  queue.push(piece(1));
  queue.fail(new Error('first'));
  queue.fail(new Error('second'));
  expect(await queue.next()).toEqual({ done: false, value: piece(1) });
  await expect(queue.next()).rejects.toThrow('first');
});

test('wakes a reader with a fault', async () => {
  const { queue } = create();
  const next = queue.next();
  queue.fail(new Error('broken'));
  await expect(next).rejects.toThrow('broken');
});

test('pauses the sender once when 64 KB wait, and resumes it once', async () => {
  const { queue, said } = create();
  queue.push(piece(40_000));
  expect(said).toEqual([]);
  queue.push(piece(40_000));
  queue.push(piece(40_000));
  expect(said).toEqual(['pause']);
  await queue.next();
  expect(said).toEqual(['pause']);
  await queue.next();
  expect(said).toEqual(['pause', 'resume']);
});

test('counts what pieces of a byte take beside it', () => {
  const { queue, said } = create();
  for (let count = 0; count < 1000; count += 1) queue.push(piece(1));
  expect(said).toEqual(['pause']);
});

test('all is taken only when the end has come, and has none left', async () => {
  const { queue } = create();
  queue.push(piece(1));
  expect(queue.takeAll()).toBeUndefined();
  queue.end();
  expect(queue.takeAll()).toEqual([piece(1)]);
  expect(await queue.next()).toEqual({ done: true, value: undefined });
});

test('all is not taken where something went wrong', async () => {
  const { queue } = create();
  queue.push(piece(1));
  queue.end();
  queue.fail(new Error('late'));
  expect(queue.takeAll()).toBeUndefined();
  expect(await queue.next()).toEqual({ done: false, value: piece(1) });
  await expect(queue.next()).rejects.toThrow('late');
});

test('what is let go of is counted no more', async () => {
  const { queue, said } = create();
  queue.push(piece(70_000));
  queue.clear();
  queue.push(piece(40_000));
  expect(said).toEqual(['pause']);
  expect(await queue.next()).toEqual({ done: false, value: piece(40_000) });
  queue.push(piece(70_000));
  expect(said).toEqual(['pause', 'pause']);
});
