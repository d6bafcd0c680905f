// What the proxy forwards to: an https server in a process of its own that does as little as it can. Prints its port.
// POST / answers with 1 KB, POST /echo with what it received, POST /count with how much, GET /zeros/N with N bytes,
// anything to /silent never.
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';

const [certificatePath, keyPath] = process.argv.slice(2);

const small = Buffer.from(JSON.stringify({ ok: true, text: 'x'.repeat(1000) }));
const zeros = Buffer.alloc(65_536);

const answer = (response: ServerResponse, body: Buffer): void => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.byteLength });
  response.end(body);
};

function* zerosOf(bytes: number): Generator<Buffer> {
  for (let left = bytes; left > 0; left -= zeros.byteLength) yield zeros.subarray(0, left);
}

const server = createServer(
  // Connections rest while the other side has its turn.
  { cert: readFileSync(certificatePath as string), key: readFileSync(keyPath as string), keepAliveTimeout: 120_000 },
  (request, response) => {
    const [, place, bytesText] = (request.url ?? '').split('/');
    if (place === 'silent') return;
    if (place === 'zeros') {
      response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': bytesText });
      return void Readable.from(zerosOf(Number(bytesText))).pipe(response);
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
