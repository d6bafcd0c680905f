// A request body must arrive within 30 seconds, on every route.
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startServer, type TestServer } from './support/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server.clock.stoppedAtMs = undefined;
});

/** Several looks at the bodies that are on their way. */
const LOOKS_MS = 600;

type Sender = { socket: Socket; text(): string; ended: Promise<void> };

/** Sends the headers of a request and the first byte of its body, and waits until the server has them. */
const begin = async (path: string, framing: string): Promise<Sender> => {
  const socket = connect(Number(new URL(server.base_url).port), '127.0.0.1');
  sockets.push(socket);
  let text = '';
  socket.on('data', (piece) => (text += piece.toString()));
  const ended = new Promise<void>((resolve) => {
    socket.on('close', () => resolve());
    socket.on('error', () => undefined);
  });
  const headers = [
    `POST ${path} HTTP/1.1`,
    'Host: vault.test',
    `SVC-API-KEY: ${server.tenant.api_key}`,
    'Content-Type: application/json',
    framing,
  ];
  const arrived = new Promise((resolve) => server.app.server.once('request', resolve));
  socket.write(`${headers.join('\r\n')}\r\n\r\n${framing.startsWith('Content') ? '"' : '1\r\n"\r\n'}`);
  await arrived;
  return { socket, text: () => text, ended };
};

describe.each(['Content-Length: 3', 'Transfer-Encoding: chunked'])('a body with %s', (framing) => {
  const rest = framing.startsWith('Content') ? 'x"' : '2\r\nx"\r\n0\r\n\r\n';

  test('is taken a millisecond before its time is over', async () => {
    const from = Date.now();
    server.clock.stoppedAtMs = from;
    const { socket, text } = await begin('/tokenize', framing);
    server.clock.stoppedAtMs = from + 29_999;
    await pause(LOOKS_MS);
    expect(text()).toBe('');
    socket.write(rest);
    await expect.poll(text).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('is cut with a 408 when its time is over', async () => {
    const from = Date.now();
    server.clock.stoppedAtMs = from;
    const { text, ended } = await begin('/tokenize', framing);
    await pause(LOOKS_MS);
    expect(text()).toBe('');
    server.clock.stoppedAtMs = from + 30_000;
    await ended;
    expect(text()).toMatch(/^HTTP\/1\.1 408 /);
    expect(text()).toContain('The request did not arrive in time.');
  });

  test('is cut below /proxy as well', async () => {
    const from = Date.now();
    server.clock.stoppedAtMs = from;
    const { socket, ended } = await begin('/proxy', `${framing}\r\nSVC-PROXY-URL: https://upstream.test`);
    await pause(LOOKS_MS);
    expect(socket.closed).toBe(false);
    server.clock.stoppedAtMs = from + 30_000;
    await ended;
  });
});

test('a connection whose request has come whole is left alone', async () => {
  const from = Date.now();
  server.clock.stoppedAtMs = from;
  const { socket, text } = await begin('/tokenize', 'Content-Length: 3');
  socket.write('x"');
  await expect.poll(text).toMatch(/^HTTP\/1\.1 200 /);
  server.clock.stoppedAtMs = from + 60_000;
  await pause(LOOKS_MS);
  expect(socket.destroyed).toBe(false);
});
