// A response that its client has not taken yet is under way: a server that stops waits for it.
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { watchUnanswered } from './answers-under-way.ts';

/** More than the buffers of both sockets hold. */
const BYTES = 32 * 1024 * 1024;

const server = createServer((_request, response) => response.end(Buffer.alloc(BYTES)));
const countUnanswered = watchUnanswered(server);
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterAll(() => server.close());

test('a response counts until its client has taken it, although it was ended at once', async () => {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  await once(socket, 'readable');
  expect(countUnanswered()).toBe(1);
  socket.resume();
  await once(socket, 'end');
  await expect.poll(countUnanswered).toBe(0);
});
