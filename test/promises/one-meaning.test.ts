// A request that can be read in two ways is refused on every route, and its connection closes.
import { connect } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { type SharedServer, useServer } from '../support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

const BODY = '{"type":"token","data":"x"}';
const CHUNKS = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;

type Sent = { path?: string; version?: string; lines: string[]; body: string };

/** Sends a request and a second one on the same connection. @returns the statuses of all answers until it closes. */
const send = ({
  path = '/tokens',
  version = '1.1',
  lines,
  body,
}: Sent): Promise<{ statuses: number[]; text: string }> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(server.base_url);
    const head = [`POST ${path} HTTP/${version}`, `Host: ${hostname}:${port}`, `SVC-API-KEY: ${server.tenant.api_key}`];
    const second = `GET /healthz HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: close\r\n\r\n`;
    const socket = connect(Number(port), hostname);
    let text = '';
    socket.setEncoding('utf8');
    socket.on('data', (part) => (text += part));
    socket.on('error', reject);
    socket.on('close', () =>
      resolve({ statuses: [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status)), text }),
    );
    socket.write(`${[...head, ...lines].join('\r\n')}\r\n\r\n${body}${second}`);
  });

const JSON_TYPE = 'Content-Type: application/json';
const LENGTH = `Content-Length: ${BODY.length}`;

test('a request with one meaning is served, and so is the next one of its connection', async () => {
  for (const [framing, body] of [
    [LENGTH, BODY],
    ['Transfer-Encoding: chunked', CHUNKS],
    ['Transfer-Encoding: Chunked', CHUNKS],
  ] as const)
    expect((await send({ lines: [JSON_TYPE, framing], body })).statuses).toEqual([201, 200]);
});

const cases: [string, number, Omit<Sent, 'path'>][] = [
  ['a coding beside chunked', 501, { lines: [JSON_TYPE, 'Transfer-Encoding: gzip, chunked'], body: CHUNKS }],
  ['an unknown coding beside chunked', 501, { lines: [JSON_TYPE, 'Transfer-Encoding: x, chunked'], body: CHUNKS }],
  ['identity beside chunked', 501, { lines: [JSON_TYPE, 'Transfer-Encoding: identity, chunked'], body: CHUNKS }],
  [
    'chunked last of two headers',
    400,
    {
      lines: [JSON_TYPE, 'Transfer-Encoding: gzip', 'Transfer-Encoding: chunked'],
      body: CHUNKS,
    },
  ],
  [
    'chunked twice',
    400,
    {
      lines: [JSON_TYPE, 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
      body: CHUNKS,
    },
  ],
  ['a coding without chunked', 400, { lines: [JSON_TYPE, 'Transfer-Encoding: gzip'], body: BODY }],
  ['a length and chunks', 400, { lines: [JSON_TYPE, LENGTH, 'Transfer-Encoding: chunked'], body: CHUNKS }],
  [
    'chunks in HTTP/1.0',
    400,
    {
      version: '1.0',
      lines: [JSON_TYPE, 'Connection: keep-alive', 'Transfer-Encoding: chunked'],
      body: CHUNKS,
    },
  ],
  ['HTTP/2.0 in the line of HTTP/1', 400, { version: '2.0', lines: [JSON_TYPE, LENGTH], body: BODY }],
  ['HTTP/0.9', 400, { version: '0.9', lines: [JSON_TYPE, LENGTH], body: BODY }],
  ['two lengths', 400, { lines: [JSON_TYPE, LENGTH, LENGTH], body: BODY }],
  ['two types', 400, { lines: [JSON_TYPE, 'Content-Type: text/plain', LENGTH], body: BODY }],
  ['two equal types', 400, { lines: [JSON_TYPE, 'content-type: application/json', LENGTH], body: BODY }],
  [
    'two credentials',
    400,
    { lines: [JSON_TYPE, 'Authorization: Basic a', 'Authorization: Basic b', LENGTH], body: BODY },
  ],
  ['two keys', 400, { lines: [JSON_TYPE, 'svc-api-key: another', LENGTH], body: BODY }],
  [
    'two idempotency keys',
    400,
    {
      lines: [JSON_TYPE, 'SVC-IDEMPOTENCY-KEY: a', 'SVC-IDEMPOTENCY-KEY: b', LENGTH],
      body: BODY,
    },
  ],
  ['two hosts', 400, { lines: [JSON_TYPE, 'Host: other.example', LENGTH], body: BODY }],
];

/** What belongs to the destination goes to it as it came. */
const forwarded = new Set(['two types', 'two equal types', 'two credentials']);

describe.each(['/tokens', '/proxy/path', '/console/sign-in', '/collect/none', '/nothing'])('at %s', (path) => {
  test.each(cases.filter(([name]) => !path.startsWith('/proxy') || !forwarded.has(name)))(
    '%s: %d, and nothing more is served',
    async (_, status, sent) => {
      const { statuses, text } = await send({ ...sent, path });
      expect([statuses, text.toLowerCase()]).toEqual([[status], expect.stringContaining('connection: close')]);
    },
  );
});
