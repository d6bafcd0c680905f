// Real sockets: how much is read in one turn of the event loop, who pays for it, and that nothing is read during a rest.
import { rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createFrameReader, encodeFrame, frameKinds } from '../protocol/frames.ts';
import { type Pace, READ_BYTES_OF_TURN, readPaced, unpaid } from './paced-reads.ts';

/** What libuv reads at once. */
const CHUNK_BYTES = 65_536;
const path = join(tmpdir(), `paced-${process.pid}.sock`);
let server: Server;
beforeAll(() => new Promise<void>((resolve) => (server = createServer().listen(path, resolve))));
afterAll(() => {
  server.close();
  rmSync(path, { force: true });
});

/** Sends bytes and reads them with the pace, until as many frames are there. @returns the bytes of each turn of the event loop. */
const read = async (sent: Buffer, frames: number, pace: Pace): Promise<number[]> => {
  const { promise: receiving, resolve: accept } = Promise.withResolvers<Socket>();
  server.once('connection', accept);
  const sender = connect(path);
  const receiver = await receiving;
  const { promise: end, resolve } = Promise.withResolvers<void>();
  let left = frames;
  const reader = createFrameReader(
    () => (left -= 1) === 0 && resolve(),
    () => resolve(),
  );
  const turns: number[] = [];
  let bytes = 0;
  const push = (chunk: Uint8Array): boolean => {
    if (bytes === 0)
      setImmediate(() => {
        turns.push(bytes);
        bytes = 0;
      });
    bytes += chunk.length;
    return reader.push(chunk);
  };
  readPaced(receiver, { push }, pace);
  sender.write(sent);
  await end;
  await new Promise(setImmediate);
  sender.destroy();
  receiver.destroy();
  return turns;
};

const large = encodeFrame(frameKinds.DONE, 1, {}, 'x'.repeat(6_000_000));

test('a large frame is read in parts, which its tenant pays for', async () => {
  let paidMs = 0;
  const turns = await read(large, 1, { ...unpaid, charge: (usedMs) => (paidMs += usedMs) });
  expect(turns.reduce((sum, bytes) => sum + bytes)).toBe(large.length);
  expect(Math.max(...turns)).toBeLessThan(READ_BYTES_OF_TURN + CHUNK_BYTES);
  expect(paidMs).toBeGreaterThan(11);
  expect(paidMs).toBeLessThan(13);
});

test('small frames cost nothing', async () => {
  const small = encodeFrame(frameKinds.DONE, 1, {}, 'x'.repeat(1_000));
  const charge = () => expect.unreachable();
  await read(Buffer.concat(Array.from({ length: 50 }, () => small)), 50, { ...unpaid, charge });
});

test('nothing more is read while the tenant rests', async () => {
  let restsUntil = 0;
  let rests = 0;
  await read(large, 1, {
    begin: () => expect(performance.now()).toBeGreaterThanOrEqual(restsUntil - 1),
    charge: () => undefined,
    restMs: () => {
      rests += 1;
      restsUntil = performance.now() + 5;
      return 5;
    },
  });
  expect(rests).toBeGreaterThanOrEqual(large.length / CHUNK_BYTES);
});
