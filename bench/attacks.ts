// What an attacker sends: requests that once held the event loop. misbehave.ts sends them in loops.
import { connect } from 'node:net';
import type { Setup } from './misbehave.ts';

/** Code of reactors and transforms, which the bench makes before. */
export const attackCodesOf = (proxyKey: string, destinationUrl: string) => ({
  /** Four calls of a proxy with 20,000 equal names of parameters. */
  names: `module.exports = async ({ svc }) => {
    const query = { a: Array(20_000).fill('') };
    const ask = () => svc.proxy.get({ headers: { 'SVC-PROXY-KEY': '${proxyKey}' }, query }).catch(() => undefined);
    await Promise.all([ask(), ask(), ask(), ask()]);
    return { raw: 1 };
  };`,
  /** Calls a destination that answers 5 MB nested 190 deep. */
  nested: `module.exports = async ({ svc }) => {
    await svc.proxy.get({ headers: { 'SVC-PROXY-URL': '${destinationUrl}/nested' } }).catch(() => undefined);
    return { raw: 1 };
  };`,
  /** Opens texts, and then asks for 20,000 expressions again and again. */
  expressions: `module.exports = async ({ svc }) => {
    const made = await svc.tokenize(Array.from({ length: 480 }, (_, each) => 'text ' + each));
    await svc.detokenize(made.map((id) => '{{ ' + id + ' }}')).catch(() => undefined);
    const many = Array.from({ length: 20_000 }, (_, each) => '{{ ' + each + ' }}');
    for (let call = 0; call < 20; call += 1) await svc.detokenize(many).catch(() => undefined);
    return { raw: 1 };
  };`,
  /** Searches 200 times. */
  searching: `module.exports = async ({ svc }) => {
    for (let call = 0; call < 200; call += 1) await svc.tokens.search({ query: 'type:card' }).catch(() => undefined);
    return { raw: 1 };
  };`,
  /** Dies of memory. */
  filling: 'module.exports = async () => { const a = []; for (;;) a.push(new Array(1e5).fill(1.5)); };',
  /** A response transform: 5 MB of empty lists. */
  lists: 'module.exports = async () => ({ raw: { body: Array(1_600_000).fill([]) } });',
  /** A request transform that changes nothing. */
  passing: 'module.exports = async (req) => req.args;',
});

/** What the bench has made for them, all of the first tenant. */
export type AttackSetup = {
  /** URLs that invoke the reactors of the same names. */
  reactors: Record<'names' | 'nested' | 'expressions' | 'searching' | 'filling', string>;
  /** Keys of proxies with the transforms of the same names; `passing` and `open` go without an API key too. */
  proxies: Record<'lists' | 'passing' | 'open', string>;
  /** Ids of tokens: `{{` 480,000 times, and a short value. */
  braces_id: string;
  short_id: string;
  destination_url: string;
  /** A destination whose certificate is slow to verify. */
  hostile_url: string;
};

type Sending = {
  /** Until the response was read. */
  send(url: string, options: { method?: string; headers?: Record<string, string>; body?: string }): Promise<void>;
  inLoops(clients: number, send: (client: number) => Promise<void>): Promise<void>;
};

const LOOPS = 4;
const CHUNKS = 500_000;
const oneByteChunks = Buffer.from('1\r\nx\r\n'.repeat(CHUNKS) + '0\r\n\r\n');

/** Sends a body in chunks of one byte over a connection of its own. */
const sendChunks = (base_url: string, path: string, headers: Record<string, string>): Promise<void> => {
  const { hostname, port } = new URL(base_url);
  const head = [
    `POST ${path} HTTP/1.1`,
    'host: localhost',
    'transfer-encoding: chunked',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined).on('data', () => socket.end());
    socket.once('close', () => resolve());
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    socket.write(oneByteChunks);
  });
};

const nestedArgs = (id: string): string => {
  let nested: unknown = [`{{ ${id} }}`, ...Array.from({ length: 130_000 }, () => 'abcd')];
  for (let level = 0; level < 58; level += 1) nested = level % 2 === 0 ? [nested] : { a: nested };
  return JSON.stringify({ args: nested });
};

/** Each by the name of its row. */
export const attacksOf = (setup: Setup, { send, inLoops }: Sending): Record<string, () => Promise<unknown>> => {
  const { base_url, keys, attacks } = setup;
  const { reactors, proxies } = attacks;
  const [key = ''] = keys;
  const json = { 'svc-api-key': key, 'content-type': 'application/json' };
  const react = (url: string, body = '{"args":{}}') => send(url, { method: 'POST', headers: json, body });
  const url = `${base_url}/proxy`;
  const counting = `${attacks.destination_url}/count`;
  const longQuery = `${url}?${Array.from({ length: 7_500 }, () => 'a').join('&')}`;
  const braces = `{"args":"{{ ${attacks.braces_id} }}"}`;
  const deep = nestedArgs(attacks.short_id);
  const documents = JSON.stringify(Array.from({ length: 10_000 }, (_, each) => `value ${each}`));
  const chunked = { 'content-type': 'application/json' };
  return {
    k1: () => inLoops(LOOPS, () => react(reactors.names)),
    k2: () =>
      inLoops(LOOPS, (client) =>
        client % 2 === 0
          ? react(reactors.searching, braces)
          : send(url, { method: 'POST', headers: { ...json, 'svc-proxy-url': counting }, body: braces }),
      ),
    l1: () => inLoops(2, () => send(longQuery, { headers: { 'svc-api-key': key, 'svc-proxy-key': proxies.passing } })),
    'l1-anonymous': () => inLoops(2, () => send(longQuery, { headers: { 'svc-proxy-key': proxies.open } })),
    l2: () => inLoops(2, () => react(reactors.nested)),
    l3: () => inLoops(2, () => send(url, { headers: { 'svc-api-key': key, 'svc-proxy-key': proxies.lists } })),
    l4: () => inLoops(2, () => react(reactors.expressions)),
    l5: () => inLoops(2, () => react(setup.echo, deep)),
    l6: () => inLoops(2, () => sendChunks(base_url, '/proxy', { 'svc-api-key': key, 'svc-proxy-url': counting })),
    'l6-destination': () =>
      inLoops(2, () =>
        send(url, { headers: { 'svc-api-key': key, 'svc-proxy-url': `${attacks.destination_url}/chunks` } }),
      ),
    l7: () => inLoops(2, () => sendChunks(base_url, '/detokenize', { ...chunked, 'svc-api-key': key })),
    'l7-anonymous': () =>
      inLoops(2, () =>
        sendChunks(base_url, '/console/sign-in', { 'content-type': 'application/x-www-form-urlencoded' }),
      ),
    m1: () =>
      inLoops(16, () =>
        send(url, {
          headers: { 'svc-api-key': key, 'svc-proxy-url': `${attacks.hostile_url}/count`, connection: 'close' },
        }),
      ),
    m2: () => inLoops(16, () => react(reactors.filling)),
    m3: () => inLoops(2, () => react(reactors.searching)),
    'm3-search': () =>
      inLoops(16, () =>
        send(`${base_url}/tokens/search`, { method: 'POST', headers: json, body: '{"query":"type:card"}' }),
      ),
    document: () => inLoops(1, () => send(`${base_url}/tokenize`, { method: 'POST', headers: json, body: documents })),
  };
};
