// Large bodies through the proxy: little memory, backpressure, and a body over the limit never looks complete.
import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  delay,
  type Destination,
  handled,
  type Head,
  makeProxy,
  type Message,
  nothingReaches,
  OK,
  pour,
  proxyErrorIn,
  type ProxyFixture,
  receiving,
  type SharedProxyFixture,
  soon,
  startProxyFixture,
  statusOf,
  until,
  useProxyFixture,
  valuesOf,
  type Wire,
} from '../support/proxy.ts';
import { tokenOf } from '../support/reactors.ts';

const MEGABYTE = 1024 * 1024;

/** The system holds up to 36 MB for each of the two connections (tcp_rmem, tcp_wmem), of which it may take all or little. */
const HELD_BYTES_MAX = 80 * MEGABYTE;
const STREAM_BYTES = 128 * MEGABYTE;

let fixture: SharedProxyFixture;
/** One that takes more than the default. */
let wide: ProxyFixture;
beforeAll(async () => {
  [fixture, wide] = await Promise.all([
    useProxyFixture(),
    startProxyFixture({ PROXY_BODY_MAX: String(256 * MEGABYTE) }),
  ]);
});
afterAll(async () => {
  await Promise.all([fixture.close(), wide.close()]);
});
const wires: Wire[] = [];
afterEach(() => {
  for (const { socket } of wires.splice(0)) socket.destroy();
  for (const { destination } of [fixture, wide]) {
    destination.received.length = 0;
    destination.script = receiving(destination, OK);
  }
});

const connect = async (of: SharedProxyFixture): Promise<Wire> => {
  const wire = await of.connect();
  wires.push(wire);
  return wire;
};

const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Bytes that say where they stand. */
const numbered = (bytes: number): Buffer => {
  const made = Buffer.alloc(bytes);
  for (let at = 0; at + 4 <= bytes; at += 4) made.writeUInt32BE(at, at);
  return made;
};

const framings = ['with a length', 'in chunks'] as const;
type Framing = (typeof framings)[number];

const headFor = (
  of: SharedProxyFixture,
  type: string,
  body: Pick<Uint8Array, 'byteLength'>,
  framing: Framing,
  ...lines: string[]
): string =>
  of.head(
    'POST /proxy',
    `Content-Type: ${type}`,
    framing === 'in chunks' ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.byteLength}`,
    ...lines,
  );

/** Sends a request with a body, reading meanwhile what is answered. */
const send = (
  of: SharedProxyFixture,
  type: string,
  body: Uint8Array,
  framing: Framing,
  ...lines: string[]
): Promise<Message> => {
  const answered = async (): Promise<Message> => {
    const wire = await connect(of);
    wire.send(headFor(of, type, body, framing, ...lines));
    void pour(wire, body, { isChunked: framing === 'in chunks' });
    return wire.message();
  };
  return handled(answered());
};

/** Keeps what the destination gets, whole or not. */
const keeping = (destination: Destination): { got: Message[]; settled(): Promise<unknown> } => {
  const got: Message[] = [];
  const running: Promise<unknown>[] = [];
  destination.script = async (wire, head) => {
    const body = wire.body(head);
    running.push(body);
    const message = { ...head, ...(await body) };
    got.push(message);
    if (message.isWhole) wire.send(OK);
  };
  return { got, settled: () => Promise.all(running) };
};

describe('a slow side applies backpressure to the other', () => {
  const body = numbered(STREAM_BYTES);
  const digest = digestOf(body);

  for (const framing of framings)
    test(`a destination that stops reading: the caller cannot send on (${framing})`, async () => {
      const held: { wire?: Wire; digest?: string } = {};
      wide.destination.script = async (wire, head) => {
        wire.socket.pause();
        held.wire = wire;
        const { body: got } = await wire.body(head);
        held.digest = digestOf(got);
        wire.send(OK);
      };
      const wire = await connect(wide);
      wire.send(headFor(wide, 'application/octet-stream', body, framing));
      let sent = 0;
      void pour(wire, body, { isChunked: framing === 'in chunks', onSent: (bytes) => (sent = bytes) });
      await until(() => held.wire !== undefined, 'the request');
      for (let before = -1; before !== sent; await delay(300)) before = sent;
      expect(sent).toBeGreaterThan(0);
      expect(sent).toBeLessThan(HELD_BYTES_MAX);
      held.wire?.socket.resume();
      expect(statusOf(await wire.message())).toBe(200);
      expect(held.digest).toBe(digest);
    });

  for (const framing of framings)
    test(`a caller that stops reading: the destination cannot send on (${framing})`, async () => {
      let sent = 0;
      wide.destination.script = async (wire, head) => {
        await wire.body(head);
        const isChunked = framing === 'in chunks';
        const length = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.byteLength}`;
        wire.send(`HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n${length}\r\n\r\n`);
        await pour(wire, body, { isChunked, onSent: (bytes) => (sent = bytes) });
      };
      const wire = await connect(wide);
      wire.send(wide.head('GET /proxy'));
      const head = await wire.head();
      wire.socket.pause();
      for (let before = -1; before !== sent; await delay(300)) before = sent;
      expect(sent).toBeGreaterThan(0);
      expect(sent).toBeLessThan(HELD_BYTES_MAX);
      wire.socket.resume();
      const { body: got, isWhole } = await wire.body(head);
      expect([isWhole, digestOf(got)]).toEqual([true, digest]);
    });

  test('a caller that stops reading and leaves: the destination is left as well', async () => {
    let isClosed = false;
    wide.destination.script = async (wire, head) => {
      await wire.body(head);
      void wire.closed.then(() => (isClosed = true));
      wire.send(`HTTP/1.1 200 OK\r\nContent-Length: ${STREAM_BYTES}\r\n\r\n`);
      await pour(wire, body);
    };
    const wire = await connect(wide);
    wire.send(wide.head('GET /proxy'));
    await wire.head();
    wire.socket.pause();
    await delay(300);
    wire.socket.destroy();
    await until(() => isClosed, 'the end of the answer');
  });
});

describe('a body without expressions', () => {
  const texts: [type: string, body: Buffer][] = [
    ['application/json', Buffer.from(JSON.stringify({ n: 1.5, long: 'a{b}'.repeat((11 * MEGABYTE) / 4) }))],
    ['text/plain; charset=utf-8', Buffer.from('é{ '.repeat((11 * MEGABYTE) / 4))],
    ['application/xml', Buffer.from(`<a>${'<b>{</b>'.repeat((11 * MEGABYTE) / 8)}</a>`)],
    ['application/x-www-form-urlencoded', Buffer.from(`a=${'%7b+{&'.repeat((11 * MEGABYTE) / 6)}`)],
  ];
  for (const framing of framings) {
    for (const [type, body] of texts)
      test(`of 11 MB arrives byte for byte: ${type} (${framing})`, async () => {
        const { got } = keeping(fixture.destination);
        expect(statusOf(await send(fixture, type, body, framing))).toBe(200);
        expect(got[0]?.body.equals(body)).toBe(true);
      });

    test(`of bytes is not looked at, whatever is in it (${framing})`, async () => {
      const body = Buffer.concat([Buffer.alloc(11 * MEGABYTE, 0xff), Buffer.from('{{ no expression }} {{')]);
      const { got } = keeping(fixture.destination);
      for (const type of ['application/octet-stream', 'video/mp4'])
        expect(statusOf(await send(fixture, type, body, framing)), type).toBe(200);
      expect(got.map((message) => message.body.equals(body))).toEqual([true, true]);
    });

    test(`of 32 MB passes, and one of a byte more is 413 (${framing})`, async () => {
      const body = numbered(32 * MEGABYTE);
      const { got, settled } = keeping(fixture.destination);
      expect(statusOf(await send(fixture, 'application/octet-stream', body, framing))).toBe(200);
      expect(got[0]?.body.equals(body)).toBe(true);
      const answer = await send(fixture, 'application/octet-stream', Buffer.concat([body, Buffer.of(0)]), framing);
      expect(proxyErrorIn(answer).status).toBe(413);
      await settled();
      expect(got.slice(1).filter(({ isWhole }) => isWhole)).toEqual([]);
    });
  }

  test('that says it has 33 MB is 413 before any of it is read, and nothing is sent', async () => {
    for (const type of ['application/octet-stream', 'application/json', 'text/plain']) {
      const head = headFor(fixture, type, { byteLength: 33 * MEGABYTE }, 'with a length');
      const answer = await nothingReaches(fixture, () => soon(fixture.ask(head), 'the answer'));
      expect(proxyErrorIn(answer).status, type).toBe(413);
    }
  });

  test('of 33 MB in chunks is 413, and the destination never has a whole one', async () => {
    const { got, settled } = keeping(fixture.destination);
    const body = Buffer.alloc(33 * MEGABYTE, 'a');
    for (const type of ['application/octet-stream', 'text/plain']) {
      const answer = await soon(send(fixture, type, body, 'in chunks'), 'the answer');
      expect(proxyErrorIn(answer).status, type).toBe(413);
    }
    await settled();
    expect(got.filter(({ isWhole }) => isWhole)).toEqual([]);
  });
});

describe('a body with expressions', () => {
  const BOUNDARY = 'boundary';
  const part = (name: string, type: string, content: string): string =>
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\nContent-Type: ${type}\r\n\r\n${content}\r\n`;
  const multipart = (...parts: string[]): string => `${parts.join('')}--${BOUNDARY}--\r\n`;
  const filled = (bytes: number): string => 'a'.repeat(bytes);

  /** Of about so many bytes, with an expression near the end. */
  const kinds: [type: string, of: (bytes: number, expression: string) => string][] = [
    ['application/json', (bytes, expression) => `{"a":"${filled(bytes)}","b":["${expression}"]}`],
    ['application/x-ndjson', (bytes, expression) => `{"a":"${filled(bytes)}"}\n{"b":"${expression}"}\n`],
    ['application/x-www-form-urlencoded', (bytes, expression) => `a=${filled(bytes)}&b=${expression}`],
    ['application/xml', (bytes, expression) => `<a>${filled(bytes)}<b>${expression}</b></a>`],
    ['text/plain', (bytes, expression) => `${filled(bytes)} ${expression}`],
    [
      `multipart/form-data; boundary=${BOUNDARY}`,
      (bytes, expression) =>
        multipart(part('file', 'image/png', `{{${filled(bytes)}`), part('text', 'text/plain', expression)),
    ],
  ];

  for (const [type, of] of kinds) {
    test(`of 9 MB has values put in up to its end: ${type}`, async () => {
      const id = await tokenOf(fixture.server, 'the-value');
      const { got } = keeping(fixture.destination);
      for (const framing of framings) {
        const answer = await send(fixture, type, Buffer.from(of(9 * MEGABYTE, `{{ ${id} }}`)), framing);
        expect(statusOf(answer), answer.body.toString()).toBe(200);
        const message = got.pop();
        expect(message?.body.equals(Buffer.from(of(9 * MEGABYTE, 'the-value')))).toBe(true);
        expect(valuesOf(message as Message, 'content-length')).toEqual([String(message?.body.byteLength)]);
      }
    });

    for (const framing of framings)
      test(`of 11 MB is 413, and the destination never has a whole one: ${type} (${framing})`, async () => {
        const id = await tokenOf(fixture.server, 'the-value');
        const { got, settled } = keeping(fixture.destination);
        const body = Buffer.from(of(11 * MEGABYTE, `{{ ${id} }}`));
        const answer = await soon(send(fixture, type, body, framing), 'the answer');
        expect(proxyErrorIn(answer).status).toBe(413);
        await settled();
        expect(got.filter(({ isWhole }) => isWhole)).toEqual([]);
        for (const { body: part } of got) expect(part.includes(id)).toBe(false);
      });
  }

  test('that is spelled otherwise, or stands across two pieces, is found in 11 MB as well', async () => {
    const { got, settled } = keeping(fixture.destination);
    const pad = filled(11 * MEGABYTE);
    const bodies: [type: string, pieces: string[]][] = [
      ['application/json', [`["${pad}","\\u007b\\u007Bx}}"]`]],
      ['application/json', [`["${pad}","\\u00`, '7b', '\\u', '007bx}}"]']],
      ['application/json', [`["${pad}","{`, '{x}}"]']],
      ['application/x-www-form-urlencoded', [`a=${pad}%7`, 'B%', '7bx']],
      ['text/plain', [`${pad}{`, '{x}}']],
      [
        `multipart/form-data; boundary=${BOUNDARY}`,
        [part('f', 'image/png', pad), part('t', 'text/plain', 'x{').trimEnd(), `{x}}\r\n--${BOUNDARY}--`],
      ],
    ];
    for (const [type, pieces] of bodies) {
      const wire = await connect(fixture);
      wire.send(headFor(fixture, type, { byteLength: 0 }, 'in chunks'));
      void (async () => {
        for (const piece of pieces) {
          wire.send(`${piece.length.toString(16)}\r\n${piece}\r\n`);
          await delay(50);
        }
        wire.send('0\r\n\r\n');
      })();
      const answer = await soon(wire.message(), 'the answer');
      expect(proxyErrorIn(answer).status, JSON.stringify(pieces.map((piece) => piece.slice(-20)))).toBe(413);
    }
    await settled();
    expect(got.filter(({ isWhole }) => isWhole)).toEqual([]);
  });

  test('only where it may stand: a part that is a file may open one in 11 MB', async () => {
    const { got } = keeping(fixture.destination);
    const body = Buffer.from(
      multipart(part('{x}', 'image/png', `{{${filled(11 * MEGABYTE)}`), part('t', 'text/plain', 'x')),
    );
    expect(statusOf(await send(fixture, `multipart/form-data; boundary=${BOUNDARY}`, body, 'in chunks'))).toBe(200);
    expect(got[0]?.body.equals(body)).toBe(true);
  });
});

describe('what is refused while it is coming', () => {
  const large = Buffer.alloc(19 * MEGABYTE, 'a');
  const withExpression = Buffer.concat([large.subarray(0, 11 * MEGABYTE), Buffer.from('{{x}}'), large]);
  const refusals: [name: string, type: string, body: Buffer, status: number, line: string][] = [
    ['too large', 'application/octet-stream', Buffer.alloc(40 * MEGABYTE, 'a'), 413, 'X: 1'],
    ['with an expression in what is too large for it', 'text/plain', withExpression, 413, 'X: 1'],
    ['to a destination that closes at once', 'text/plain', large, 502, 'X-Close: 1'],
    ['to a name that leads inside', 'text/plain', large, 400, 'SVC-PROXY-URL: https://inside.test/'],
  ];
  for (const [name, type, body, status, line] of refusals)
    for (const framing of framings)
      test(`${name}: the caller has its answer, and the connection is clean behind it (${framing})`, async () => {
        fixture.destination.script = async (wire, head) => {
          if (valuesOf(head, 'x-close').length > 0) wire.socket.destroy();
          await receiving(fixture.destination, OK)(wire, head);
        };
        const wire = await connect(fixture);
        wire.send(headFor(fixture, type, body, framing, line));
        const poured = pour(wire, body, { isChunked: framing === 'in chunks' });
        const answer = await soon(wire.message(), 'the answer');
        expect([proxyErrorIn(answer).status, answer.isWhole]).toEqual([status, true]);
        await soon(poured, 'the end of the body');
        wire.send(fixture.head('GET /proxy'));
        const next = await soon(
          wire.message().catch(() => undefined),
          'the next answer',
        );
        if (next) expect(next.body.toString()).toBe('ok');
        else await soon(wire.closed, 'the end of the connection');
      });
});

describe('many at once', () => {
  test("two tenants' transfers in both directions do not mix, nor share a connection", async () => {
    const other = await fixture.server.newTenant();
    const keyOf = (index: number): string => (index % 2 === 0 ? fixture.server.tenant : other).api_key;
    const bodies = Array.from({ length: 8 }, (_, index) => Buffer.alloc(4 * MEGABYTE, `${index} of eight, `));
    const bodyOf = (index: number): Buffer => bodies[index] as Buffer;
    const tenantsOf = new Map<Wire, Set<string>>();
    fixture.destination.script = async (wire, head: Head) => {
      const tenants = tenantsOf.get(wire) ?? new Set();
      tenantsOf.set(wire, tenants.add(valuesOf(head, 'x-tenant').join()));
      const { body } = await wire.body(head);
      wire.send(
        `HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: ${body.byteLength}\r\n\r\n`,
      );
      await pour(wire, body);
    };
    const answers = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const lines = [`SVC-API-KEY: ${keyOf(index)}`, `X-Tenant: ${index % 2}`];
        const framing = framings[index % framings.length] as Framing;
        return send(fixture, 'application/octet-stream', bodyOf(index), index > 3 ? framing : 'in chunks', ...lines);
      }),
    );
    for (const [index, answer] of answers.entries()) expect(answer.body.equals(bodyOf(index)), `${index}`).toBe(true);
    for (const tenants of tenantsOf.values()) expect(tenants.size).toBe(1);
  });

  test('a tenant that holds its share of memory is refused for expressions alone, for a while', async () => {
    const other = await fixture.server.newTenant();
    const id = await tokenOf(fixture.server, 'the-value');
    const theirs = await tokenOf(fixture.server, 'the-value', {}, other.api_key);
    const body = Buffer.alloc(9 * MEGABYTE, 'a');
    const withValue = (of: string) => Buffer.concat([body, Buffer.from(`{{ ${of} }}`)]);
    const held: Wire[] = [];
    const got: Message[] = [];
    fixture.destination.script = async (wire, head) => {
      if (valuesOf(head, 'x-hold').length > 0) held.push(wire);
      got.push({ ...head, ...(await wire.body(head)) });
      if (!held.includes(wire)) wire.send(OK);
    };
    const holding = Array.from({ length: 3 }, () => send(fixture, 'text/plain', body, 'with a length', 'X-Hold: 1'));
    await until(() => got.length === 3, 'three requests');
    for (const framing of framings) {
      const refused = await send(fixture, 'text/plain', withValue(id), framing);
      expect(proxyErrorIn(refused).status).toBe(429);
      expect(Number(valuesOf(refused, 'retry-after')[0])).toBeGreaterThan(0);
    }
    await until(() => got.length === 5, 'the end of what was refused');
    for (const { body: part, isWhole } of got.splice(0).slice(3))
      expect([isWhole, part.includes('the-value'), part.includes(id)]).toEqual([false, false, false]);
    // What need not be looked at whole, what has no expression, and what is small, needs no share.
    expect(statusOf(await send(fixture, 'application/octet-stream', body, 'with a length'))).toBe(200);
    for (const framing of framings) {
      expect(statusOf(await send(fixture, 'text/plain', body, framing))).toBe(200);
      expect(got.at(-1)?.body.equals(body)).toBe(true);
    }
    expect(statusOf(await send(fixture, 'text/plain', Buffer.from(`{{ ${id} }}`), 'with a length'))).toBe(200);
    expect(got.at(-1)?.body.toString()).toBe('the-value');
    const lines = [`SVC-API-KEY: ${other.api_key}`];
    expect(statusOf(await send(fixture, 'text/plain', withValue(theirs), 'with a length', ...lines))).toBe(200);
    for (const wire of held.splice(0)) wire.send(OK);
    for (const answer of await Promise.all(holding)) expect(statusOf(answer)).toBe(200);
    expect(statusOf(await send(fixture, 'text/plain', withValue(id), 'with a length'))).toBe(200);
    expect(got.at(-1)?.body.equals(Buffer.concat([body, Buffer.from('the-value')]))).toBe(true);
  });

  test('a destination that answers before it reads does not free the memory that it holds', async () => {
    const id = await tokenOf(fixture.server, 'the-value');
    const body = Buffer.alloc(9 * MEGABYTE, 'a');
    const withValue = Buffer.concat([body, Buffer.from(`{{ ${id} }}`)]);
    const held: Wire[] = [];
    fixture.destination.script = async (wire, head) => {
      if (valuesOf(head, 'x-hold').length === 0) return receiving(fixture.destination, OK)(wire, head);
      held.push(wire);
      wire.socket.pause();
      wire.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      await wire.closed;
    };
    const heads: Head[] = [];
    const callers: Wire[] = [];
    for (let count = 0; count < 3; count += 1) {
      const wire = await connect(fixture);
      callers.push(wire);
      wire.send(headFor(fixture, 'text/plain', body, 'with a length', 'X-Hold: 1'));
      void pour(wire, body);
      heads.push(await soon(wire.head(), 'the head of the answer'));
    }
    expect(heads.map(statusOf)).toEqual([200, 200, 200]);
    const fourth = await soon(send(fixture, 'text/plain', withValue, 'with a length'), 'the fourth answer');
    expect(proxyErrorIn(fourth).status).toBe(429);
    for (const { socket } of held) socket.destroy();
    for (const { closed } of callers) await soon(closed, 'the end of an answer');
    expect(statusOf(await send(fixture, 'text/plain', withValue, 'with a length'))).toBe(200);
  });

  test('bodies that break off give back what they held', async () => {
    const body = Buffer.alloc(9 * MEGABYTE, 'a');
    const { server } = fixture.server.app;
    const sockets: Socket[] = [];
    const keep = (socket: Socket) => void sockets.push(socket);
    server.on('connection', keep);
    for (let count = 0; count < 8; count += 1) {
      const wire = await connect(fixture);
      wire.send(headFor(fixture, 'text/plain', body, 'with a length'));
      wire.send(body.subarray(0, MEGABYTE));
      await delay(20);
      wire.socket.destroy();
    }
    // Until the server has heard of each end.
    await until(() => sockets.length === 8 && sockets.every(({ destroyed }) => destroyed), 'the end of all');
    server.off('connection', keep);
    const id = await tokenOf(fixture.server, 'the-value');
    const withValue = Buffer.concat([body, Buffer.from(`{{ ${id} }}`)]);
    const answers = await Promise.all(
      Array.from({ length: 3 }, () => send(fixture, 'text/plain', withValue, 'with a length')),
    );
    expect(answers.map(statusOf)).toEqual([200, 200, 200]);
  });

  test('through a stored proxy it is the same', async () => {
    const { key } = await makeProxy(fixture, { require_auth: false });
    const body = numbered(31 * MEGABYTE);
    const { got } = keeping(fixture.destination);
    const wire = await connect(fixture);
    wire.send(
      `POST /proxy HTTP/1.1\r\nHost: x\r\nSVC-PROXY-KEY: ${key}\r\nContent-Type: video/mp4\r\nContent-Length: ${body.byteLength}\r\n\r\n`,
    );
    void pour(wire, body);
    expect(statusOf(await wire.message())).toBe(200);
    expect(got[0]?.body.equals(body)).toBe(true);
  });

  test('when all is over no connection is held', async () => {
    await until(() => wide.destination.openCount() === 0 && fixture.destination.openCount() === 0, 'the end of all');
  });
});
