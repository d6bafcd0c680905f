// Reads frames from pieces of any size, and nothing after a broken one.
import { expect, test } from 'vitest';
import { createFrameReader, encodeFrame, type Frame, frameKinds } from './frames.ts';

const listen = () => {
  const frames: (Omit<Frame, 'body'> & { body: string })[] = [];
  const errors: string[] = [];
  const reader = createFrameReader(
    (frame) => frames.push({ ...frame, body: frame.body.toString() }),
    (error) => errors.push(error.message),
  );
  return { reader, frames, errors };
};

const sent = [
  encodeFrame(frameKinds.CALL, 7, { kind: 'fetch' }, 'body'),
  encodeFrame(frameKinds.DONE, 8, {}, 'é'.repeat(3_000)),
  encodeFrame(frameKinds.READY, 0, {}),
];
const bytes = Buffer.concat(sent);

test.each([1, 3, 4, 5, 64, 4_096, bytes.length])('reads frames that arrive in pieces of %d bytes', (size) => {
  const { reader, frames, errors } = listen();
  for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
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
  const { reader, frames, errors } = listen();
  reader.push(Buffer.concat([sent[0] as Buffer, Buffer.from(length), bytes]));
  reader.push(bytes);
  expect(frames).toHaveLength(1);
  expect(errors).toEqual(['a frame has an invalid size']);
});

test('parts of a large frame are told from small ones', () => {
  const { reader, frames } = listen();
  const large = encodeFrame(frameKinds.CALL, 7, {}, 'x'.repeat(100_000));
  const parts = [bytes, large.subarray(0, 50_000), large.subarray(50_000), bytes];
  expect(parts.map((part) => reader.push(part))).toEqual([false, true, true, false]);
  expect(frames).toHaveLength(2 * sent.length + 1);
});
