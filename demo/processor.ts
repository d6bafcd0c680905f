// The demo's card processor: takes charges over HTTPS, as a processor does, and shows on a page of its own what it received.
import { once } from 'node:events';
import { createServer as createHttpServer, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { certificateFor } from '../test/support/certificates.ts';
import { escaped, panelPage } from './pages.ts';

export type Processor = {
  /** Where charges are sent: HTTPS, with a certificate of the test authority. */
  chargeUrl: string;
  /** The page that shows what the processor received, on another site than the shop's. */
  pageUrl: string;
  close(): void;
};

/** Test cards by what the processor does with them. All other cards succeed. */
export const testCards = {
  '4000000000000002': 'declined',
  '4000000000000119': 'timeout',
  '4000000000000341': 'reset',
} as const;

const findOutcome = (body: string): 'succeeded' | (typeof testCards)[keyof typeof testCards] =>
  Object.entries(testCards).find(([number]) => body.includes(number))?.[1] ?? 'succeeded';

const listening = async (server: Server, port: number): Promise<number> => {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
};

/** @param pagePort 0 takes a free one. */
export const startProcessor = async (pagePort: number): Promise<Processor> => {
  /** The last charge, as it arrived. */
  let received = 'Nothing yet.';
  const charges = createHttpsServer(certificateFor('localhost'), async (request, response) => {
    const body = await text(request);
    const headers = ['content-type', 'idempotency-key'].flatMap((name) =>
      request.headers[name] === undefined ? [] : [`${name}: ${request.headers[name]}`],
    );
    received = [`${request.method} ${request.url}`, ...headers, '', body].join('\n');
    const outcome = findOutcome(body);
    if (outcome === 'timeout') return;
    if (outcome === 'reset') return void request.socket.destroy();
    response.writeHead(outcome === 'declined' ? 402 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ id: 'ch_1', status: outcome }));
  });
  const page = createHttpServer((_request, response) => {
    response.setHeader('content-type', 'text/html; charset=utf-8');
    response.end(panelPage(escaped(received)));
  });
  const chargesPort = await listening(charges, 0);
  return {
    chargeUrl: `https://localhost:${chargesPort}/charges`,
    pageUrl: `http://127.0.0.1:${await listening(page, pagePort)}/`,
    close: () => {
      charges.close();
      page.close();
    },
  };
};
