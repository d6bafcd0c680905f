// Streamed bodies in both directions: backpressure, completeness, and deadlines.
import { getEventListeners, once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createServer as createTcpServer, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { certificateFor } from './support/certificates.ts';
import {
  closeAll,
  delay,
  faultCode,
  headerOf,
  listen,
  open,
  openEgress,
  saying,
  sending,
  until,
} from './support/egress.ts';
import type { UpstreamOptions } from './support/upstream.ts';

afterEach(closeAll);

const PIECE = Buffer.alloc(65_536, 'x');

/** What the system holds of a connection on its way, on both sides of it, with room to spare: without a bound it grows past any. */
const ON_ITS_WAY_MAX = 32 * 1024 * 1024;

/** A source without an end that counts what is asked of it. */
const endless = () => {
  const source = {
    pieces: 0,
    isStopped: false,
    async *[Symbol.asyncIterator]() {
      try {
        for (;;) {
          source.pieces += 1;
          yield PIECE;
        }
      } finally {
        source.isStopped = true;
      }
    },
  };
  return source;
};

/** Until it is the same for a while: what is busy elsewhere may take one look's time. */
const atRest = async (count: () => number): Promise<number> => {
  let before = -1;
  for (let same = 0; same < 2; await delay(200)) {
    same = count() === before ? same + 1 : 0;
    before = count();
  }
  return count();
};

/** A TLS server that reads nothing after the first bytes. */
const listenDeaf = (onSocket: (socket: TLSSocket) => void): Promise<number> =>
  listen(
    createTlsServer(certificateFor('upstream.test'), (socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        socket.pause();
        onSocket(socket);
      });
    }),
  );

describe('a body on its way there', () => {
  test('is asked for no faster than the destination reads, and not any more when the caller leaves', async () => {
    const { promise: heard, resolve } = Promise.withResolvers<TLSSocket>();
    const { request } = openEgress(await listenDeaf(resolve));
    const source = endless();
    const leaving = new AbortController();
    const ended = faultCode(request({ method: 'POST', body: source, signal: leaving.signal }));
    await heard;
    const pieces = await atRest(() => source.pieces);
    expect(pieces * PIECE.byteLength).toBeLessThan(ON_ITS_WAY_MAX);
    leaving.abort();
    expect(await ended).toBe('ABORTED');
    await until(() => source.isStopped);
    // One that was being asked for when it ended.
    expect(source.pieces).toBeLessThanOrEqual(pieces + 1);
  });

  test('arrives as it comes, while more of it is not there yet', async () => {
    const heard: string[] = [];
    const { exchange } = await open({
      onHead: (request) => void request.on('data', (piece: Buffer) => heard.push(piece.toString())),
      answer: (_, response) => void response.end(),
    });
    async function* pieces() {
      for (const each of ['one', 'two', 'three']) {
        yield Buffer.from(each);
        await until(() => heard.join('').endsWith(each));
      }
    }
    expect((await exchange({ method: 'POST', body: pieces() })).status).toBe(200);
    expect(heard).toEqual(['one', 'two', 'three']);
  });

  test('of 10 MB arrives byte for byte, with its length where it is known', async () => {
    const { up, exchange } = await open({ answer: (_, response) => void response.end() });
    const whole = Buffer.concat(Array.from({ length: 160 }, (_, at) => Buffer.alloc(65_536, String(at))));
    async function* pieces() {
      for (let at = 0; at < whole.byteLength; at += 50_000) yield whole.subarray(at, at + 50_000);
    }
    await exchange({ method: 'POST', body: pieces(), bodyBytes: whole.byteLength });
    await exchange({ method: 'PUT', body: pieces() });
    expect(up.received.map(({ body }) => body.equals(whole))).toEqual([true, true]);
    expect(headerOf(up.received[0], 'content-length')).toBe(String(whole.byteLength));
    expect(headerOf(up.received[0], 'transfer-encoding')).toBe(undefined);
    expect(headerOf(up.received[1], 'transfer-encoding')).toBe('chunked');
  });

  test.each(['POST', 'PUT', 'PATCH', 'DELETE', 'GET'])('goes with %s, and an empty one as well', async (method) => {
    const { up, exchange } = await open();
    async function* pieces() {
      yield Buffer.from('x');
    }
    async function* none() {}
    await exchange({ method, body: pieces() });
    await exchange({ method, body: pieces(), bodyBytes: 1 });
    await exchange({ method, body: none() });
    await exchange({ method, body: none(), bodyBytes: 0 });
    await exchange({ method, body: Buffer.alloc(0) });
    expect(up.received.map(({ body }) => body.toString())).toEqual(['x', 'x', '', '', '']);
  });

  test.each([
    ['breaks off', undefined, 'ABORTED'],
    ['breaks off before the length that it has', 100, 'ABORTED'],
    ['is shorter than its length', 100, 'REQUEST_REFUSED'],
    ['is longer than its length', 4, 'REQUEST_REFUSED'],
  ])('that %s is never taken for a whole one', async (how, bodyBytes, code) => {
    let isBroken = false;
    const { up, exchange } = await open({
      onHead: (request) => void request.once('error', () => (isBroken = true)),
    });
    async function* pieces() {
      yield Buffer.from('one');
      await until(() => up.openCount() === 1);
      if (how.startsWith('breaks')) throw new Error('gone');
      yield Buffer.from('two');
    }
    expect(await faultCode(exchange({ method: 'POST', body: pieces(), bodyBytes }))).toBe(code);
    await until(() => up.openCount() === 0);
    expect(up.received).toEqual([]);
    expect(isBroken).toBe(true);
  });

  test('is stopped when the answer comes before it is sent, and the answer is whole', async () => {
    const { up, exchange } = await open({
      onHead: (request, response) => {
        request.pause();
        response.writeHead(413).end('too large');
      },
      answer: () => {},
    });
    const source = endless();
    const answer = await exchange({ method: 'POST', body: source });
    expect(answer.status).toBe(413);
    expect(answer.body.toString()).toBe('too large');
    await until(() => source.isStopped && up.openCount() === 0);
  });

  test('may go on while the answer to it comes', async () => {
    const { request } = await open({
      onHead: (question, response) => void question.pipe(response),
      answer: () => {},
    });
    const { promise: goesOn, resolve: goOn } = Promise.withResolvers<void>();
    async function* pieces() {
      yield Buffer.from('one');
      await goesOn;
      yield Buffer.from('two');
    }
    const answer = await request({ method: 'POST', body: pieces() });
    const heard: string[] = [];
    for await (const piece of answer.body) {
      heard.push(Buffer.from(piece).toString());
      goOn();
    }
    expect(heard.join('')).toBe('onetwo');
  });

  test('can be destroyed when its request is refused, and while it waits for its next piece', async () => {
    const waiting = () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      return {
        async *[Symbol.asyncIterator]() {
          yield Buffer.from('one');
          await promise;
        },
        destroyed: promise,
        destroy: resolve,
      };
    };
    const { up, exchange } = await open({ answer: () => {} });
    const refused = waiting();
    const forbidden = exchange({ url: 'https://127.0.0.1/', method: 'POST', body: refused });
    expect(await faultCode(forbidden)).toBe('DESTINATION_REFUSED');
    await refused.destroyed;
    const late = waiting();
    expect(await faultCode(exchange({ method: 'POST', body: late, timeouts: { wholeMs: 200 } }))).toBe('TIMEOUT');
    await late.destroyed;
    await until(() => up.openCount() === 0);
  });
});

describe('a body on its way back', () => {
  test('is asked for no faster than it is read, and whole in the end', async () => {
    let written = 0;
    const pieces = 1_000;
    const { request } = await open({
      answer: (_, response) => {
        const write = () => {
          while (written < pieces) {
            written += 1;
            if (!response.write(PIECE)) return;
          }
          response.end();
        };
        response.on('drain', write);
        write();
      },
    });
    const answer = await request();
    let bytes = 0;
    for await (const piece of answer.body) {
      if (bytes === 0) expect((await atRest(() => written)) * PIECE.byteLength).toBeLessThan(ON_ITS_WAY_MAX);
      bytes += piece.byteLength;
    }
    expect(bytes).toBe(pieces * PIECE.byteLength);
  });

  test('is held in few pieces, however small the destination makes them', async () => {
    const { request } = await open({
      onHead: (question) => {
        const socket = question.socket as TLSSocket;
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
        // More in one second are refused: see small-chunks.test.ts.
        socket.write('1\r\nx\r\n'.repeat(1_900));
      },
      answer: () => {},
    });
    const leaving = new AbortController();
    const answer = await request({ signal: leaving.signal });
    await delay(300);
    leaving.abort();
    const pieces: Uint8Array[] = [];
    const read = async () => {
      for await (const piece of answer.body) pieces.push(piece);
    };
    expect(await faultCode(read())).toBe('ABORTED');
    expect(Buffer.concat(pieces).toString()).toBe('x'.repeat(1_900));
    expect(pieces.length).toBeLessThan(10);
  });

  test('arrives as it comes, each event by itself', async () => {
    const { promise: second, resolve } = Promise.withResolvers<void>();
    const { request } = await open({
      answer: async (_, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: 1\n\n');
        await second;
        response.end('data: 2\n\n');
      },
    });
    const answer = await request();
    expect(answer.bodyBytes).toBe(undefined);
    const events: string[] = [];
    for await (const piece of answer.body) {
      events.push(Buffer.from(piece).toString());
      resolve();
    }
    expect(events).toEqual(['data: 1\n\n', 'data: 2\n\n']);
  });

  test('that ends with the connection has no length and comes whole', async () => {
    const { exchange } = await open(saying('HTTP/1.1 200 OK\r\n\r\nsome'));
    const answer = await exchange();
    expect(answer.bodyBytes).toBe(undefined);
    expect(answer.body.toString()).toBe('some');
  });

  test.each([
    ['in the middle of a chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nsome'],
    ['before the last chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nsome\r\n'],
    ['before its length', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nsome'],
    ['before its length, and says so', 'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nsome'],
  ])('that breaks off %s is never taken for a whole one', async (_, bytes) => {
    const { request } = await open(saying(bytes));
    const answer = await request();
    let text = '';
    const read = async () => {
      for await (const piece of answer.body) text += Buffer.from(piece).toString();
    };
    expect(['RESET', 'PROTOCOL']).toContain(await faultCode(read()));
    expect(['', 'some']).toContain(text);
  });

  test.each([
    ['HEAD', 200],
    ['GET', 204],
    ['GET', 304],
  ])('is none after %s and %d, whatever is announced', async (method, status) => {
    const { exchange } = await open(saying(`HTTP/1.1 ${status} x\r\ncontent-length: 5\r\nconnection: close\r\n\r\n`));
    const answer = await exchange({ method });
    expect(answer).toMatchObject({ status, bodyBytes: 0 });
    expect(answer.body.byteLength).toBe(0);
  });

  test('stays packed as it was sent', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000));
    const { exchange } = await open({ answer: sending(bomb, { 'content-encoding': 'gzip, gzip, gzip, gzip' }) });
    const answer = await exchange();
    expect(answer.headers).toContainEqual(['content-encoding', 'gzip, gzip, gzip, gzip']);
    expect(answer.body.equals(bomb)).toBe(true);
  });

  test('is destroyed before it is read, and the connection with it', async () => {
    const { up, request } = await open({ answer: (_, response) => void response.write('x') });
    const answer = await request();
    answer.body.destroy();
    await until(() => up.openCount() === 0);
    const read = async () => {
      for await (const _ of answer.body) throw new Error('a piece of what was destroyed');
    };
    expect(await faultCode(read())).toBe('ABORTED');
  });

  test('is left in the middle, and the connection with it', async () => {
    const { up, request } = await open({ answer: (_, response) => void response.write('x') });
    for await (const _ of (await request()).body) break;
    await until(() => up.openCount() === 0);
  });
});

describe('around an answer', () => {
  test('informational ones are left out, with their headers', async () => {
    const { up, exchange } = await open({
      onHead: (question) =>
        void question.socket.write(
          'HTTP/1.1 102 Processing\r\nx-early: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n' +
            'HTTP/1.1 200 OK\r\nx-late: 1\r\ncontent-length: 2\r\n\r\nok',
        ),
      answer: () => {},
    });
    const answer = await exchange();
    expect(answer).toMatchObject({ status: 200, headers: [['x-late', '1']] });
    expect(answer.body.toString()).toBe('ok');
    await exchange();
    expect(up.connectionCount()).toBe(1);
  });

  test('informational ones come while the request is sent, in any pieces', async () => {
    const hints = 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n';
    const { exchange } = await open({
      onHead: (question) => {
        question.socket.write('HTTP/1.1 100 Continue\r\n\r\n');
        question.on('data', () => {
          question.socket.write(hints.slice(0, 20));
          question.socket.write(hints.slice(20));
        });
      },
      answer: (_, response, { body }) => void response.end(String(body.length)),
    });
    const body = (async function* () {
      for (let count = 0; count < 10; count += 1) {
        yield PIECE;
        await delay(1);
      }
    })();
    const answer = await exchange({ method: 'POST', body });
    expect([answer.status, answer.body.toString()]).toEqual([200, String(10 * PIECE.length)]);
  });

  test('trailers are left out, and the connection serves the next request', async () => {
    const { up, exchange } = await open({
      onHead: (question) =>
        void question.socket.write(
          'HTTP/1.1 200 OK\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n',
        ),
      answer: () => {},
    });
    for (let round = 0; round < 2; round += 1) {
      const answer = await exchange();
      expect(answer.headers).toEqual([]);
      expect(answer.body.toString()).toBe('ok');
    }
    expect(up.connectionCount()).toBe(1);
  });

  test('a second response to one request is dropped', async () => {
    const { up, exchange } = await open({
      onHead: (question) =>
        void question.socket.write(
          'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngoodHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison',
        ),
      answer: () => {},
    });
    for (let round = 0; round < 3; round += 1) expect((await exchange()).body.toString()).toBe('good');
    expect(up.received.map(({ connection }) => connection)).toEqual([1, 2, 3]);
  });

  test('a response on an idle connection is dropped', async () => {
    const sockets: Socket[] = [];
    const { up, exchange } = await open({
      onHead: (question, response) => {
        sockets.push(question.socket);
        response.end('good');
      },
      answer: () => {},
    });
    await exchange();
    sockets[0]?.write('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison');
    await until(() => up.openCount() === 0);
    expect((await exchange()).body.toString()).toBe('good');
  });
});

describe('an end in good time', () => {
  test('the total deadline stops an endless response, also without a reader', async () => {
    const flooding: UpstreamOptions = {
      answer: (_, response) => {
        const write = () => {
          while (!response.destroyed && response.write(PIECE));
        };
        response.on('drain', write);
        write();
      },
    };
    const { up, request } = await open(flooding);
    const reading = await request({ timeouts: { wholeMs: 400 } });
    const read = async () => {
      let bytes = 0;
      for await (const piece of reading.body) bytes += piece.byteLength;
      return bytes;
    };
    expect(await faultCode(read())).toBe('TIMEOUT');
    await request({ timeouts: { wholeMs: 400 } });
    await until(() => up.openCount() === 0);
  });

  test('the times for connecting and for the first byte end nothing once both are there', async () => {
    const { exchange } = await open({
      answer: async (_, response) => {
        await delay(1_200);
        response.write('one');
        await delay(1_200);
        response.end('two');
      },
    });
    const timeouts = { connectMs: 1_000, firstByteMs: 2_000 };
    for (let round = 0; round < 2; round += 1) expect((await exchange({ timeouts })).body.toString()).toBe('onetwo');
  });

  test('a request leaves no timer and no listener, in success and failure', async () => {
    const { up, exchange, request, url } = await open({
      answer: (question, response) => void (question.url === '/reset' ? response.destroy() : response.end('x')),
    });
    const { signal } = new AbortController();
    // The least of many looks: what runs the tests has timers too, which come and go. Ours would stay for seconds.
    const countTimers = async () => {
      let least = Infinity;
      for (let looks = 0; looks < 50; looks += 1) {
        least = Math.min(least, process.getActiveResourcesInfo().filter((each) => each === 'Timeout').length);
        await delay(10);
      }
      return least;
    };
    const before = await countTimers();
    await exchange({ signal });
    await exchange({ signal });
    (await request({ signal })).body.destroy();
    expect(await faultCode(exchange({ signal, url: url('/reset') }))).toBe('RESET');
    expect(await faultCode(exchange({ signal, url: url('/', 'nowhere.test') }))).toBe('DESTINATION_REFUSED');
    expect(await faultCode(exchange({ signal, method: 'TRACE' }))).toBe('REQUEST_REFUSED');
    await until(() => up.openCount() === 0);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(await countTimers()).toBe(before);
  });

  const deaf = (onHead?: (request: IncomingMessage) => void): UpstreamOptions => ({
    onHead: (question) => {
      question.pause();
      onHead?.(question);
    },
    answer: () => {},
  });

  test('a caller that leaves during the look-up or the handshake leaves no connection', async () => {
    const looking = openEgress(8443, { resolve: () => new Promise(() => {}) });
    const leaving = new AbortController();
    const lookedUp = faultCode(looking.exchange({ signal: leaving.signal }));
    await delay(20);
    leaving.abort();
    expect(await lookedUp).toBe('ABORTED');

    const sockets: Socket[] = [];
    const silent = createTcpServer((socket) => void sockets.push(socket.resume()));
    const shaking = openEgress(await listen(silent));
    const shaken = new AbortController();
    const shook = faultCode(shaking.exchange({ signal: shaken.signal }));
    await until(() => sockets.length === 1);
    shaken.abort();
    expect(await shook).toBe('ABORTED');
    await once(sockets[0] as Socket, 'close');
  });

  test.each([
    ['while its body is sent', deaf(), endless()],
    ['while the answer is awaited', { answer: () => {} }, Buffer.from('x')],
    ['while the answer is read', { answer: (_, response) => void response.write('x') }, Buffer.from('x')],
  ] satisfies [string, UpstreamOptions, unknown][])(
    'a caller that leaves %s ends the connection',
    async (_, upstream, body) => {
      const { up, exchange } = await open(upstream as UpstreamOptions);
      const leaving = new AbortController();
      const ended = faultCode(exchange({ method: 'POST', body, signal: leaving.signal }));
      await until(() => up.openCount() === 1);
      await delay(100);
      leaving.abort();
      expect(await ended).toBe('ABORTED');
      await until(() => up.openCount() === 0);
    },
  );
});
