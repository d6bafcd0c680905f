// What the proxy forwards to: an https server in a process of its own that does as little as it can. Prints its port.
// POST / answers with 1 KB, POST /echo with what it received, POST /count with how much, GET /zeros/N with N bytes,
// GET /text/N, /json/N, /html/N and /form/N with N bytes of this kind,
// anything to /silent never, GET /nested with 5 MB of lists 190 deep, GET /chunks in chunks of one byte.
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { kinds } from './kinds.ts';

const [certificatePath, keyPath] = process.argv.slice(2);

const small = Buffer.from(JSON.stringify({ ok: true, text: 'x'.repeat(1000) }));
const zeros = Buffer.alloc(65_536);

const LEVELS = 190;
const nested = Buffer.from(
  '['.repeat(LEVELS) + Array.from({ length: 1_250_000 }, () => '{}').join() + ']'.repeat(LEVELS),
);
const chunks = Buffer.from('1\r\nx\r\n'.repeat(500_000) + '0\r\n\r\n');

const answer = (response: ServerResponse, body: Buffer): void => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.byteLength });
  response.end(body);
};

function* repeat(piece: Buffer, bytes: number): Generator<Buffer> {
  for (let left = bytes; left > 0; left -= piece.byteLength) yield piece.subarray(0, left);
}

const server = createServer(
  // Connections rest while the other side has its turn.
  { cert: readFileSync(certificatePath as string), key: readFileSync(keyPath as string), keepAliveTimeout: 120_000 },
  (request, response) => {
    const [, place, bytesText] = (request.url ?? '').split('/');
    if (place === 'silent') return;
    if (place === 'nested') return answer(response, nested);
    if (place === 'chunks') {
      // Written past Node, which would join them.
      response.socket?.write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n');
      return void response.socket?.end(chunks);
    }
    if (place === 'zeros') {
      response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': bytesText });
      return void Readable.from(repeat(zeros, Number(bytesText))).pipe(response);
    }
    const kind = kinds[place ?? ''];
    if (kind) {
      response.writeHead(200, { 'content-type': kind.type, 'content-length': bytesText });
      return void Readable.from(repeat(kind.piece, Number(bytesText))).pipe(response);
    }
    if (place === 'echo') {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      return void request.on('end', () => answer(response, Buffer.concat(pieces)));
    }
    let bytes = 0;
    request.on('data', (piece: Buffer) => (bytes += piece.byteLength));
    request.on('end', () => answer(response, place === 'count' ? Buffer.from(JSON.stringify({ bytes })) : small));
  },
);
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
