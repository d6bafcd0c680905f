import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { fastify } from 'fastify';
import { expect, test } from 'vitest';
import type { App } from './app-type.ts';
import { deferRequests } from './defer-requests.ts';

/** The stages of three requests that arrive in one tick, each on its own connection, in the order in which they ran. */
const stepsOf = async (prepare: (app: App) => void): Promise<string[]> => {
  const app = fastify() as unknown as App;
  prepare(app);
  const steps: string[] = [];
  app.get('/:name', async (request) => {
    const { name } = request.params as { name: string };
    steps.push(`${name} begins`);
    await undefined;
    steps.push(`${name} ends`);
    return name;
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const sockets = [1, 2, 3].map(() => connect(port, '127.0.0.1'));
  try {
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    const send = async (path: string): Promise<void> => {
      const answers = sockets.map((socket) => once(socket, 'data'));
      for (const [index, socket] of sockets.entries())
        socket.write(`GET /${path}${index + 1} HTTP/1.1\r\nhost: here\r\n\r\n`);
      await Promise.all(answers);
    };
    // Accepted, and read once.
    await send('warm');
    steps.length = 0;
    await send('');
  } finally {
    for (const socket of sockets) socket.destroy();
    await app.close();
  }
  return steps;
};

test('requests of one tick run stage by stage', async () => {
  const together = ['1 begins', '2 begins', '3 begins', '1 ends', '2 ends', '3 ends'];
  expect(await stepsOf(deferRequests)).toEqual(together);
  expect(await stepsOf(() => undefined)).not.toEqual(together);
});
