// What an HTTP client must accept of a destination (RFC 9110, RFC 9112), for each way to send a request.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { codeOf, makeReactor, react, type SharedReactorServer, useReactorServer } from './support/reactors.ts';

let fixture: SharedReactorServer;

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
const PROCESSING = 'HTTP/1.1 102 Processing\r\nX-Early: 1\r\n\r\n';
const HINTS = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\n\r\n';
const LENGTH = 'Content-Length: 2\r\n\r\nok';
const OK = `HTTP/1.1 200 OK\r\nX-Answer: a b\r\n${LENGTH}`;

/** Each is the answer 200 with the body `ok` and the header `X-Answer: a b`. */
const answers: Record<string, string> = {
  'a plain answer': OK,
  '100 once': CONTINUE + OK,
  '100 several times': CONTINUE.repeat(5) + OK,
  'all kinds of informational answers': `${CONTINUE}${PROCESSING}${HINTS}HTTP/1.1 104 Upload\r\n\r\nHTTP/1.1 199 \r\n\r\n${OK}`,
  'as many as are allowed': PROCESSING.repeat(100) + OK,
  'a blank before the colon': OK.replaceAll(':', ' \t:'),
  'no blanks and many after the colon': `HTTP/1.1 200 OK\r\nX-Answer:a b\r\nContent-Length: \t2\r\n\r\nok`,
  'blanks after the values': `HTTP/1.1 200 OK\r\nX-Answer: a b \t\r\nContent-Length: 2 \t \r\n\r\nok`,
  'equal lengths in two lines': `HTTP/1.1 200 OK\r\nX-Answer: a b\r\ncontent-length: 2\r\n${LENGTH}`,
  'equal lengths in a list': `HTTP/1.1 200 OK\r\nX-Answer: a b\r\nContent-Length: 2, 2\r\n\r\nok`,
  'a folded header': `HTTP/1.1 200 OK\r\nX-Answer: a\r\n \tb\r\n${LENGTH}`,
  'an empty reason': `HTTP/1.1 200 \r\nX-Answer: a b\r\n${LENGTH}`,
  'a reason beyond ASCII': `HTTP/1.1 200 f\xfcr\r\nX-Answer: a b\r\n${LENGTH}`,
  'HTTP/1.0': `HTTP/1.0 200 OK\r\nX-Answer: a b\r\n${LENGTH}`,
  'a later minor version': `HTTP/1.7 200 OK\r\nX-Answer: a b\r\n${LENGTH}`,
  'names in other letters': `HTTP/1.1 200 OK\r\nx-aNSWER: a b\r\nCONTENT-LENGTH: 2\r\n\r\nok`,
  'chunks with extensions and trailers': `HTTP/1.1 200 OK\r\nX-Answer: a b\r\ntransfer-encoding: Chunked\r\n\r\n01;a="b"\r\no\r\n0001\r\nk\r\n0\r\nX-Sum: 1\r\n\r\n`,
  'an end by the connection': `HTTP/1.1 200 OK\r\nX-Answer: a b\r\n\r\nok`,
  'a closing connection': `HTTP/1.1 200 OK\r\nConnection: CLOSE\r\nX-Answer: a b\r\n${LENGTH}`,
  'an empty header': `HTTP/1.1 200 OK\r\nX-Empty:\r\nX-Answer: a b\r\n${LENGTH}`,
};

const pathOf = (name: string): string => `/${encodeURIComponent(name)}`;

/** The parts of the answer that each way must have. */
const expected = Object.fromEntries(Object.keys(answers).map((name) => [name, [200, 'ok', 'a b']]));

/** Runs the body for each path, and returns what each got. */
const eachBy = (request: string): string =>
  codeOf(`const got = {};
    for (const name of args.names) {
      const url = '${fixture.url}/' + encodeURIComponent(name);
      ${request}
    }
    return { raw: got };`);

const ways: [name: string, request: string][] = [
  [
    'fetch',
    `const answer = await fetch(url, { method: 'POST', body: 'x' });
     got[name] = [answer.status, await answer.text(), answer.headers.get('x-answer')];`,
  ],
  [
    'https.request',
    `got[name] = await new Promise((resolve, reject) => {
       const request = require('https').request(url, { method: 'POST' }, (answer) => {
         let body = '';
         answer.on('data', (piece) => (body += piece));
         answer.on('end', () => resolve([answer.statusCode, body, answer.headers['x-answer']]));
       });
       request.on('error', reject);
       request.end('x');
     });`,
  ],
  [
    'node-fetch',
    `const answer = await require('node-fetch')(url, { method: 'POST', body: 'x' });
     got[name] = [answer.status, await answer.text(), answer.headers.get('x-answer')];`,
  ],
  [
    'axios',
    `const answer = await require('axios').post(url, 'x');
     got[name] = [answer.status, answer.data, answer.headers['x-answer']];`,
  ],
  [
    'svc.proxy',
    `const answer = await svc.proxy.post({ headers: { 'SVC-PROXY-URL': url }, body: 'x' });
     got[name] = [answer.status, answer.body, answer.headers['x-answer']];`,
  ],
];

beforeAll(async () => {
  fixture = await useReactorServer();
  for (const [name, bytes] of Object.entries(answers))
    fixture.routes.set(pathOf(name), (request) => void request.socket.end(Buffer.from(bytes, 'latin1')));
});
afterAll(() => fixture.close());

test('the proxy accepts all that a client must', async () => {
  const got: Record<string, unknown> = {};
  for (const name of Object.keys(answers)) {
    const { status, text, headers } = await fixture.server.request('POST', '/proxy', {
      headers: { 'svc-proxy-url': `${fixture.url}${pathOf(name)}`, 'content-type': 'text/plain' },
      body: 'x',
    });
    got[name] = [status, text, headers.get('x-answer')];
  }
  expect(got).toEqual(expected);
});

test.each(ways)('%s in code accepts all that a client must', async (_, request) => {
  const names = Object.keys(answers);
  const got: Record<string, unknown> = {};
  for (let at = 0; at < names.length; at += 5) {
    const made = await makeReactor(fixture.server, { code: eachBy(request), application: fixture.server.tenant });
    const answer = await react(fixture.server, made, { names: names.slice(at, at + 5) });
    Object.assign(got, answer.body.raw);
  }
  expect(got).toEqual(expected);
});

test('an endless row of informational answers ends the request, and says what may have happened', async () => {
  fixture.routes.set('/endless', (request) => void request.socket.write(PROCESSING.repeat(101) + OK));
  const answer = await fixture.server.request('GET', '/proxy', {
    headers: { 'svc-proxy-url': `${fixture.url}/endless` },
  });
  expect([answer.status, answer.body.proxy_error.detail]).toEqual([
    502,
    'The destination sent too many informational responses. It may have acted on the request.',
  ]);
});
