// Bodies in very small chunks: joined, paced by their account, and refused above a rate, in requests and in responses.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { watchMemory } from './support/memory.ts';
import {
  delay,
  makeProxy,
  OK,
  proxyErrorIn,
  receiving,
  type SharedProxyFixture,
  statusOf,
  useProxyFixture,
  type Wire,
} from './support/proxy.ts';
import { codeOf, makeReactor, rawOf, react, runBody } from './support/reactors.ts';

const RULE = 'more than 2,000 chunks within one second that have less than 128 bytes on average';

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

/** 3 MB on the wire. */
const MANY = Buffer.from(inBytes('x'.repeat(500_000)) + END);

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

const readers = [
  ['JSON', 'POST /detokenize', 'application/json'],
  ['a proxy request that is searched', 'POST /proxy', 'application/json'],
  ['a proxy request that is streamed', 'POST /proxy', 'application/octet-stream'],
  ['a form', 'POST /console/sign-in', 'application/x-www-form-urlencoded'],
] as const;

describe.each(readers)('a body of 500,000 chunks: %s', (_, start, type) => {
  test('is refused with the limit', async () => {
    const memory = watchMemory({ megabytes: 64 });
    const answer = await send(headOf(start, type), MANY);
    expect(statusOf(answer)).toBe(400);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      detail: `The body has ${RULE}. Send it in larger chunks.`,
    });
    memory.end();
    expect((await fixture.server.request('GET', '/tenants/self')).status).toBe(200);
  });
});

test('a client without a key is refused, whether or not it has its 401 by then', async () => {
  const wire = await fixture.connect();
  wires.push(wire);
  wire.send(headOf('POST /detokenize', 'application/json', 'SVC-API-KEY: none'));
  expect(statusOf(await wire.message())).toBe(401);
  // Node itself would discard the body, however small its chunks are.
  wire.send(MANY);
  await wire.closed;
});

test('a body of fewer chunks arrives whole, with and without pauses', async () => {
  const text = 'ab'.repeat(900);
  const body = inBytes(JSON.stringify({ text }));
  const paused = body.match(/[^]{1,3000}/g) as string[];
  for (const pieces of [[body + END], [...paused, END]]) {
    const answer = await send(headOf('POST /detokenize', 'application/json'), ...pieces);
    expect([statusOf(answer), JSON.parse(answer.body.toString())]).toEqual([200, { text }]);
  }
  const answer = await send(headOf('POST /proxy', 'application/octet-stream'), inBytes(text) + END);
  expect(statusOf(answer)).toBe(200);
  expect(fixture.last().body.toString()).toBe(text);
});

describe('a form with Transfer-Encoding', () => {
  test.each(['/console/sign-in', '/join/none', '/collect/none'])('is a 411 with the reason: %s', async (path) => {
    const answer = await send(headOf(`POST ${path}`, 'application/x-www-form-urlencoded'), `3\r\na=b\r\n${END}`);
    expect(statusOf(answer)).toBe(411);
    expect(answer.body.toString()).toContain('A form must have a Content-Length, and no Transfer-Encoding.');
  });
});

const CHUNKED = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n';

describe('a destination that answers in 500,000 chunks', () => {
  const sentence = `The answer of the destination has ${RULE}.`;
  const answering = (): void => {
    fixture.destination.script = async (wire, head) => {
      await wire.body(head);
      wire.send(CHUNKED);
      wire.send(MANY);
      await wire.closed;
    };
  };

  test('is cut off by the proxy, and its response is never whole', async () => {
    answering();
    const memory = watchMemory({ megabytes: 64 });
    const answer = await fixture.ask(fixture.head('GET /proxy'));
    memory.end();
    // The head has been sent by then.
    expect([statusOf(answer), answer.isWhole]).toEqual([200, false]);
  });

  test('is a 502 with the limit where code transforms the response', async () => {
    answering();
    const { key } = await makeProxy(fixture, {
      response_transform: { code: 'module.exports = async (req) => req.args;' },
    });
    const answer = await fixture.ask(fixture.head('GET /proxy', `SVC-PROXY-KEY: ${key}`, 'SVC-PROXY-URL: '));
    expect(proxyErrorIn(answer)).toMatchObject({
      status: 502,
      detail: `${sentence} It may have acted on the request.`,
    });
  });

  test('fails the fetch of code with the limit', async () => {
    answering();
    const failed = await rawOf(
      runBody(
        fixture.server,
        `try { await fetch('${fixture.url}'); } catch (error) { return { raw: { code: error.cause.code, message: error.cause.message } }; }`,
      ),
    );
    expect(failed).toEqual({ code: 'TOO_MANY_CHUNKS', message: `${sentence} It may have acted on the request.` });
  });

  test('fails svc.proxy of code with the limit', async () => {
    answering();
    const reactor = await makeReactor(fixture.server, {
      code: codeOf(
        `try { await svc.proxy.get({ headers: { 'svc-proxy-url': '${fixture.url}' } }); } catch (error) { return { raw: error.message }; }`,
      ),
      application: fixture.server.tenant,
    });
    expect(await rawOf(react(fixture.server, reactor))).toContain(sentence);
  });
});

test('a response of fewer chunks arrives whole', async () => {
  const text = 'ab'.repeat(900);
  fixture.destination.script = async (wire, head) => {
    await wire.body(head);
    wire.send(CHUNKED + inBytes(text) + END);
  };
  const answer = await fixture.ask(fixture.head('GET /proxy'));
  expect([answer.isWhole, answer.body.toString()]).toEqual([true, text]);
});
