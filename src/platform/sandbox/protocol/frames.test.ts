// Reads frames from pieces of any size, and nothing after a broken one.
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { encodeFrame, type Frame, frameKinds, readFrames } from './frames.ts';

const listen = () => {
  const stream = new PassThrough();
  const frames: Frame[] = [];
  const errors: string[] = [];
  readFrames(
    stream as unknown as Socket,
    (frame) => frames.push(frame),
    (error) => errors.push(error.message),
  );
  return { stream, frames, errors };
};

const sent = [
  encodeFrame(frameKinds.CALL, 7, { kind: 'fetch' }, 'body'),
  encodeFrame(frameKinds.DONE, 8, {}, 'é'.repeat(3_000)),
  encodeFrame(frameKinds.READY, 0, {}),
];
const bytes = Buffer.concat(sent);

test.each([1, 3, 4, 5, 64, 4_096, bytes.length])('reads frames that arrive in pieces of %d bytes', (size) => {
  const { stream, frames, errors } = listen();
  for (let at = 0; at < bytes.length; at += size) stream.write(bytes.subarray(at, at + size));
  expect(frames).toEqual([
    { kind: frameKinds.CALL, id: 7, head: '{"kind":"fetch"}', body: 'body' },
    { kind: frameKinds.DONE, id: 8, head: '{}', body: 'é'.repeat(3_000) },
    { kind: frameKinds.READY, id: 0, head: '{}', body: '' },
  ]);
  expect(errors).toEqual([]);
});

test.each([
  ['a length that is too small', [8, 0, 0, 0]],
  ['a length that is too large', [1, 0, 128, 0]],
])('nothing is read after %s', (_, length) => {
  const { stream, frames, errors } = listen();
  stream.write(Buffer.concat([sent[0] as Buffer, Buffer.from(length), bytes]));
  stream.write(bytes);
  expect(frames).toHaveLength(1);
  expect(errors).toEqual(['a frame has an invalid size']);
});
