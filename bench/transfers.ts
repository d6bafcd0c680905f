// Large bodies through the proxy, several at once, from a process of its own: it holds no more of one than a piece.
// Prints how many did not come through whole.
import { Agent, type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';

const [url, headersText, direction, bytesText, atOnceText] = process.argv.slice(2);
const { hostname } = new URL(url as string);
if (hostname !== '127.0.0.1') throw new Error('loads go to loopback only');
const bytes = Number(bytesText);
const agent = new Agent({ keepAlive: true });
const headers = JSON.parse(headersText as string) as Record<string, string>;

const PIECE_BYTES = 65_536;

/** JSON that is valid and has no expression: a list of records of 64 bytes, its end and its beginning in pieces of their own. */
const record = `{"id":"${'0'.repeat(36)}","amount":12.50},`.padEnd(63, ' ').concat('\n');
const records = Buffer.from(record.repeat(PIECE_BYTES / record.length));

function* json(): Generator<Buffer> {
  let left = bytes - 4;
  yield Buffer.from('[');
  for (; left >= PIECE_BYTES; left -= PIECE_BYTES) yield records;
  yield Buffer.from('0]'.padStart(left + 3, ' '));
}

const bodyOf = (): Readable => Readable.from(json());

const read = async (response: IncomingMessage): Promise<{ bytes: number; text: string }> => {
  let received = 0;
  let text = '';
  for await (const piece of response) {
    received += (piece as Buffer).byteLength;
    if (direction === 'up') text += String(piece);
  }
  return { bytes: received, text };
};

const transfer = async (): Promise<boolean> => {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const isUp = direction === 'up';
  const sent = request(url as string, {
    agent,
    method: isUp ? 'POST' : 'GET',
    headers: { ...headers, ...(isUp && { 'content-length': bytes }) },
  });
  sent.on('response', resolve).on('error', reject);
  if (isUp) bodyOf().pipe(sent);
  else sent.end();
  const response = await promise;
  const answer = await read(response);
  if (response.statusCode !== 200) return false;
  return isUp ? answer.text === JSON.stringify({ bytes }) : answer.bytes === bytes;
};

const began = performance.now();
const done = await Promise.all(Array.from({ length: Number(atOnceText) }, () => transfer().catch(() => false)));
const seconds = (performance.now() - began) / 1000;
console.log(JSON.stringify({ seconds, errors: done.filter((isWhole) => !isWhole).length }));
agent.destroy();
