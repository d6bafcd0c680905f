// The parser stops within a read where a body is refused, and an address in debt is read later.
import { once } from 'node:events';
import { createServer, ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { type Accounts, anonymousAccount, createAccounts } from '../base/accounts.ts';
import { meterBodies, parseInParts } from './metered-bodies.ts';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

const listen = async (accounts: Accounts) => {
  const counted = { chunks: 0, requests: 0 };
  const classes = meterBodies(accounts, () => server, ServerResponse);
  const counting = class extends classes.IncomingMessage {
    override push(chunk: Uint8Array | null): boolean {
      counted.chunks += 1;
      return super.push(chunk);
    }
  };
  const server = createServer({ ...classes, IncomingMessage: counting }, (_request, response) => {
    counted.requests += 1;
    response.end('ok');
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => socket.end(String(error.code)));
  parseInParts(server, accounts);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  closing.push(() => {
    socket.destroy();
    server.closeAllConnections();
    server.close();
  });
  let text = '';
  socket.on('data', (piece) => (text += piece.toString()));
  socket.on('error', () => undefined);
  return { counted, socket, text: () => text };
};

const HEAD = 'POST / HTTP/1.1\r\nHost: vault.test\r\nTransfer-Encoding: chunked\r\n\r\n';

test('little is parsed after a refusal, however much one read holds', async () => {
  const { counted, socket, text } = await listen(createAccounts());
  const closed = once(socket, 'close');
  socket.write(HEAD + '1\r\nx\r\n'.repeat(100_000));
  await closed;
  expect(text()).toContain('TOO_MANY_CHUNKS');
  // 2,000, and those in the part of the read that the parser has by then.
  expect(counted.chunks).toBeLessThan(2_000 + 16_384 / 6 + 1);
});

test('the first read of an address in debt waits until the debt is paid', async () => {
  const accounts = createAccounts();
  accounts.charge(anonymousAccount('127.0.0.1'), 100);
  const { counted, socket, text } = await listen(accounts);
  socket.write(`${HEAD}2\r\nok\r\n`);
  await pause(20);
  socket.write('0\r\n\r\n');
  expect(counted.requests).toBe(0);
  await expect.poll(text).toContain('ok');
  // The connection is read as usual afterwards.
  socket.write('GET / HTTP/1.1\r\nHost: vault.test\r\n\r\n');
  await expect.poll(() => counted.requests).toBe(2);
});
