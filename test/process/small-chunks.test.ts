// Bodies in small chunks that take seconds, which no limit of chunks refuses.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import {
  delay,
  OK,
  receiving,
  type SharedProxyFixture,
  statusOf,
  useProxyFixture,
  type Wire,
} from '../support/proxy.ts';

let fixture: SharedProxyFixture;
beforeAll(async () => {
  fixture = await useProxyFixture();
});
afterAll(() => fixture.close());

const wires: Wire[] = [];
afterEach(() => {
  for (const { socket } of wires.splice(0)) socket.destroy();
  fixture.destination.script = receiving(fixture.destination, OK);
});

/** Each character of a text in a chunk of its own. */
const inBytes = (text: string): string => text.replace(/[^]/g, '1\r\n$&\r\n');
const END = '0\r\n\r\n';

const headOf = (start: string, type: string, ...lines: string[]): string =>
  fixture.head(start, `Content-Type: ${type}`, 'Transfer-Encoding: chunked', ...lines);

/** Sends texts over a connection of their own, with a pause after each. */
const send = async (head: string, ...texts: (string | Uint8Array)[]) => {
  const wire = await fixture.connect();
  wires.push(wire);
  wire.send(head);
  for (const text of texts) {
    wire.send(text);
    await delay(10);
  }
  return wire.message();
};

const CHUNKED = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n';

test('more chunks arrive whole where they take longer, or have 128 bytes', { timeout: 30_000 }, async () => {
  const text = 'x'.repeat(1_500);
  const wire = await fixture.connect();
  wires.push(wire);
  wire.send(headOf('POST /detokenize', 'application/json'));
  wire.send(inBytes('"'));
  for (let count = 0; count < 4; count += 1) {
    wire.send(inBytes(text));
    await delay(1_000);
  }
  wire.send(inBytes('"') + END);
  expect(JSON.parse((await wire.message()).body.toString())).toBe(text.repeat(4));
  const large = `80\r\n${'x'.repeat(128)}\r\n`.repeat(10_000);
  expect(statusOf(await send(headOf('POST /proxy', 'application/octet-stream'), large, END))).toBe(200);
  expect(fixture.last().body.byteLength).toBe(1_280_000);
});

test('an event stream of 20,000 small events over ten seconds passes, each at once', { timeout: 30_000 }, async () => {
  const events = (from: number, count: number): string[] =>
    Array.from({ length: count }, (_, index) => `data: event ${from + index}\n\n`);
  const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
  fixture.destination.script = async (wire, head) => {
    await wire.body(head);
    wire.send(CHUNKED.replace('text/plain', 'text/event-stream'));
    for (let sent = 0, from = performance.now(); sent < 20_000;) {
      const due = Math.min(20_000, Math.floor((performance.now() - from) * 2));
      wire.send(
        events(sent, due - sent)
          .map(chunk)
          .join(''),
      );
      sent = due;
      await delay(5);
    }
    wire.send(END);
  };
  const wire = await fixture.connect();
  wires.push(wire);
  wire.send(fixture.head('GET /proxy'));
  const head = await wire.head();
  // The first event comes long before the last is sent.
  expect(await wire.upTo('data: event 0\n\n')).toContain('event 0');
  const { body, isWhole } = await wire.body(head).catch(() => ({ body: Buffer.alloc(0), isWhole: false }));
  expect(isWhole).toBe(true);
  expect(body.toString().endsWith(events(0, 20_000).slice(1).join('').slice(-200))).toBe(true);
});
