// A tenant that takes more than its share, in a process of its own, until it is ended: node misbehave.ts NAME SETUP.
// Loopback only.
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { type AttackSetup, attacksOf } from './attacks.ts';

/** What the bench has made for the tenants. All lists have an element for each tenant. */
export type Setup = {
  base_url: string;
  keys: string[];
  /** Ids of tokens of about 900 KB, all of the first tenant. */
  large_ids: string[];
  /** URLs that invoke reactors. */
  trivial: string[];
  sleeping: string[];
  echo: string;
  burning: string;
  /** Calls `svc.tokenize` with bodies of 5 MB. */
  calling: string;
  /** Returns a text of 5 MB. */
  returning: string;
  /** A destination that never answers. */
  silent_url: string;
  /** The key of an open proxy of the first tenant. */
  open_proxy_key: string;
  attacks: AttackSetup;
};

const [name = '', setupText = '{}'] = process.argv.slice(2);
const setup = JSON.parse(setupText) as Setup;
const { hostname, port } = new URL(setup.base_url);
if (hostname !== '127.0.0.1') throw new Error('loads go to loopback only');
const agent = new Agent({ connections: 1024, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
const statuses: Record<string, number> = {};

type Sent = { method?: string; headers?: Record<string, string>; body?: string; signal?: AbortSignal };

const send = async (url: string, { method = 'GET', ...more }: Sent): Promise<void> => {
  try {
    const response = await request(url, { dispatcher: agent, method: method as 'GET' | 'POST', ...more });
    await response.body.dump({ limit: 64 * 1024 * 1024 });
    statuses[response.statusCode] = (statuses[response.statusCode] ?? 0) + 1;
    // One that is refused comes again, as a client in a loop does, but does not only measure refusals.
    if (response.statusCode === 429 || response.statusCode === 503) await pause(50);
  } catch {
    statuses['none'] = (statuses['none'] ?? 0) + 1;
    await pause(10);
  }
};

const post = (url: string, key: string, body: string, more: { signal?: AbortSignal } = {}): Promise<void> =>
  send(url, { method: 'POST', headers: { 'svc-api-key': key, 'content-type': 'application/json' }, body, ...more });

/** So many clients, each with its next request when the last is answered. */
const inLoops = async (clients: number, send: (client: number) => Promise<void>): Promise<void> => {
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      for (;;) await send(client);
    }),
  );
};

/** A connection that sends a text and reads nothing. Opened again when the server has closed it. */
const holdOpen = async (head: string, onOpen: (socket: Socket) => void = () => {}): Promise<void> => {
  for (;;) {
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    socket.pause();
    socket.write(head);
    onOpen(socket);
    await new Promise((resolve) => socket.once('close', resolve));
    await pause(100);
  }
};

const rawRequest = (path: string, headers: Record<string, string>, body: string): string =>
  [
    `POST ${path} HTTP/1.1`,
    'host: localhost',
    ...Object.entries(headers).map(([header, value]) => `${header}: ${value}`),
  ]
    .concat(`content-length: ${Buffer.byteLength(body)}`, '', body)
    .join('\r\n');

const [firstKey = ''] = setup.keys;
const small = JSON.stringify({ args: { n: 1 } });
const fiveMegabytes = JSON.stringify(
  Array.from({ length: 5 }, (_, at) => `{{ ${setup.large_ids[at % setup.large_ids.length]} }}`),
);
const expressions = JSON.stringify(
  Array.from({ length: 4_500 }, (_, at) => ({
    type: 'token',
    data: `value of a customer ${at}`,
    mask: '{{ data | reveal_last: 4 }}',
    fingerprint_expression: '{{ data | remove: " " }}',
  })),
);

/** So many requests at once that send a byte now and then: bodies with a key, without one, and through an open proxy. */
const SLOW_REQUESTS = 2_000;
const SLOW_BYTE_MS = 2_000;
const slowHeads = [
  `POST /tokenize HTTP/1.1\r\nsvc-api-key: ${firstKey}\r\n`,
  'POST /console/sign-in HTTP/1.1\r\n',
  `POST /proxy HTTP/1.1\r\nsvc-proxy-key: ${setup.open_proxy_key}\r\n`,
];

const trickle = (head: string): Promise<void> =>
  holdOpen(`${head}host: localhost\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n`, (socket) => {
    const timer = setInterval(() => socket.write('x'), SLOW_BYTE_MS);
    socket.once('close', () => clearInterval(timer));
  });

const manners: Record<string, () => Promise<unknown>> = {
  slow: () =>
    Promise.all(
      Array.from({ length: SLOW_REQUESTS }, (_, each) => trickle(slowHeads[each % slowHeads.length] as string)),
    ),
  unread: () => {
    const headers = { 'svc-api-key': firstKey, 'content-type': 'application/json' };
    return Promise.all(Array.from({ length: 100 }, () => holdOpen(rawRequest('/detokenize', headers, fiveMegabytes))));
  },
  frames: () => inLoops(1, () => post(setup.calling, firstKey, small)),
  results: () => inLoops(4, () => post(setup.returning, firstKey, small)),
  inputs: () => inLoops(16, () => post(setup.echo, firstKey, `{"args":${fiveMegabytes}}`)),
  turns: async () => {
    for (let turn = 0; ; turn = (turn + 1) % setup.trivial.length)
      await post(setup.trivial[turn] as string, setup.keys[turn] as string, small);
  },
  sleeping: () =>
    inLoops(128, (client) => post(setup.sleeping[client % 2] as string, setup.keys[client % 2] as string, small)),
  anonymous: () =>
    Promise.all(
      Array.from({ length: 140 }, () => {
        const head = `POST /proxy HTTP/1.1\r\nhost: localhost\r\nsvc-proxy-key: ${setup.open_proxy_key}\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n`;
        return holdOpen(head, (socket) => {
          const timer = setInterval(() => socket.write('x'), 500);
          socket.once('close', () => clearInterval(timer));
        });
      }),
    ),
  connections: () =>
    inLoops(512, async (client) => {
      const key = setup.keys[client % 4] as string;
      const headers = { 'svc-api-key': key, 'svc-proxy-url': setup.silent_url };
      try {
        const response = await request(`${setup.base_url}/proxy`, { dispatcher: agent, headers });
        await response.body.dump();
        statuses[response.statusCode] = (statuses[response.statusCode] ?? 0) + 1;
      } catch {
        statuses['none'] = (statuses['none'] ?? 0) + 1;
      }
      await pause(50);
    }),
  leavers: () =>
    inLoops(130, () => post(setup.sleeping[0] as string, firstKey, small, { signal: AbortSignal.timeout(2500) })),
  expressions: () => inLoops(10, () => post(`${setup.base_url}/tokenize`, firstKey, expressions)),
  burning: () => inLoops(4, () => post(setup.burning, firstKey, small)),
  ...attacksOf(setup, { send, inLoops }),
};

const manner = manners[name];
if (!manner) throw new Error(`there is no ${name}`);
process.on('SIGTERM', () => {
  console.log(JSON.stringify(statuses));
  process.exit(0);
});
// The bench holds the other end: this process ends with it, also where it was killed.
process.stdin.resume().once('close', () => process.exit(0));
// Sockets that are not read do not keep a process alive.
setInterval(() => undefined, 1000);
await manner();
