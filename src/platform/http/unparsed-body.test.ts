// Bodies read piece by piece, over real connections of Node's own server: what is read, what is let through, what breaks off.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { discardBody, chunksOf } from './unparsed-body.ts';

const open: { server: Server; sockets: Socket[] }[] = [];

/** A server whose requests `answer` reads, and one connection to it. */
const start = async (answer: (request: IncomingMessage, reply: ServerResponse) => Promise<void>) => {
  const server = createServer((request, reply) => void answer(request, reply));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  open.push({ server, sockets: [socket] });
  await once(socket, 'connect');
  let got = '';
  socket.on('data', (piece) => (got += piece.toString('latin1')));
  socket.on('error', () => undefined);
  return {
    socket,
    /** All answers so far, once there are so many. */
    answers: (count: number) =>
      expect.poll(() => got.split('HTTP/1.1 200 OK').length - 1, { timeout: 5000 }).toBe(count),
  };
};

afterEach(() => {
  for (const { server, sockets } of open.splice(0)) {
    for (const socket of sockets) socket.destroy();
    server.closeAllConnections();
    server.close();
  }
});

const head = (bytes: number): string => `POST / HTTP/1.1\r\nhost: a\r\ncontent-length: ${bytes}\r\n\r\n`;

test('gives a body whole and in order, however it was cut', async () => {
  const read: string[] = [];
  const { socket, answers } = await start(async (request, reply) => {
    let text = '';
    for await (const piece of chunksOf(request)) text += Buffer.from(piece).toString();
    read.push(text);
    reply.end();
  });
  socket.write(`${head(10)}01234`);
  await pause(20);
  socket.write('5');
  await pause(20);
  socket.write(`6789${head(3)}abc`);
  await answers(2);
  expect(read).toEqual(['0123456789', 'abc']);
});

test('ending the iteration discards the rest of the body: the next request is read', async () => {
  const read: string[] = [];
  const { socket, answers } = await start(async (request, reply) => {
    for await (const piece of chunksOf(request)) {
      read.push(Buffer.from(piece).toString().slice(0, 3));
      break;
    }
    reply.end();
  });
  const rest = 'x'.repeat(4_000_000);
  socket.write(`${head(3 + rest.length)}one`);
  await expect.poll(() => read, { timeout: 5000 }).toEqual(['one']);
  socket.write(`${rest}${head(3)}two`);
  await answers(2);
  expect(read).toEqual(['one', 'two']);
});

test('discardBody discards an unread body and frees its chunks', async () => {
  const { socket, answers } = await start(async (request, reply) => {
    chunksOf(request)[Symbol.asyncIterator]();
    reply.on('finish', () => discardBody(request));
    reply.end();
  });
  const body = 'x'.repeat(1_000_000);
  socket.write(`${head(body.length)}${body}${head(0)}`);
  await answers(2);
});

test('a slow reader makes the caller wait', async () => {
  let readOn = (): void => {};
  const slow = new Promise<void>((resolve) => {
    readOn = resolve;
  });
  let bytes = 0;
  const { socket, answers } = await start(async (request, reply) => {
    for await (const piece of chunksOf(request)) {
      bytes += piece.byteLength;
      await slow;
    }
    reply.end();
  });
  // More than the buffers of both sockets hold.
  const length = 64 * 1024 * 1024;
  const piece = Buffer.alloc(1024 * 1024);
  socket.write(head(length));
  for (let sent = 0; sent < length; sent += piece.byteLength) socket.write(piece);
  await pause(500);
  const waiting = socket.writableLength;
  expect(waiting).toBeGreaterThan(length / 2);
  readOn();
  await answers(1);
  expect(bytes).toBe(length);
});

test('a disconnect is reported after the chunks that arrived', async () => {
  const read: string[] = [];
  const fault = Promise.withResolvers<unknown>();
  const { socket } = await start(async (request) => {
    try {
      for await (const piece of chunksOf(request)) read.push(Buffer.from(piece).toString());
    } catch (error) {
      fault.resolve(error);
    }
  });
  socket.write(`${head(10)}half`);
  await expect.poll(() => read, { timeout: 5000 }).toEqual(['half']);
  socket.destroy();
  expect(await fault.promise).toBeInstanceOf(Error);
});

test('a request that broke off before anybody read it breaks off for its reader', async () => {
  const fault = Promise.withResolvers<unknown>();
  const { socket } = await start(async (request) => {
    request.on('error', () => undefined);
    await new Promise<void>((closed) => {
      request.on('close', closed);
    });
    try {
      for await (const _ of chunksOf(request));
      fault.resolve(undefined);
    } catch (error) {
      fault.resolve(error);
    }
  });
  socket.write(`${head(10)}half`);
  await pause(50);
  socket.destroy();
  expect(await fault.promise).toBeInstanceOf(Error);
});
