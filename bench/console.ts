// The figures of the pages for people: how long each takes with 10^5 tokens behind it, what it weighs with all that it loads,
// and what a sign-in costs beside the argon2id in it.
import argon2 from 'argon2';
import { fill } from './lists.ts';
import { remove, type RunningServer, startServer } from './servers.ts';
import { headersOf, median, round } from './turns.ts';

const TOKENS = Number(process.env['BENCH_TOKENS'] ?? 100_000);
const LOOKS = 200;
const SIGN_INS = 30;
const PERSON = { email: 'ada@example.com', password: 'correct horse battery staple' };

const timed = async <T>(work: () => Promise<T>): Promise<{ ms: number; result: T }> => {
  const began = performance.now();
  const result = await work();
  return { ms: performance.now() - began, result };
};

const cookieOf = (response: Response): string => {
  const [cookie] = response.headers.getSetCookie();
  if (cookie === undefined) throw new Error(`no session: ${response.status}`);
  return cookie.split(';')[0] as string;
};

const postForm = (url: string, fields: Record<string, string>): Promise<Response> =>
  fetch(url, { method: 'POST', body: new URLSearchParams(fields), redirect: 'manual' });

/** Invites the tenant's owner and accepts. @returns the cookie of their session. */
const enter = async ({ command, credentials: { base_url } }: RunningServer): Promise<string> => {
  const { owner_link } = command(['owner', 'invite', '--email', PERSON.email, '--json']) as { owner_link: string };
  return cookieOf(
    await postForm(base_url + new URL(owner_link).pathname, {
      first_name: 'Ada',
      last_name: 'Lovelace',
      password: PERSON.password,
    }),
  );
};

/** Bytes that a first visit transfers: the page and all of ours that it loads, as browsers ask for them. */
const weigh = async (base_url: string, path: string, cookie: string): Promise<number> => {
  const get = (from: string) => fetch(base_url + from, { headers: { cookie, 'accept-encoding': 'identity' } });
  const page = await (await get(path)).text();
  const loads = [...page.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, from]) => from as string);
  let bytes = Buffer.byteLength(page);
  for (const from of new Set(loads)) bytes += (await (await get(from)).arrayBuffer()).byteLength;
  return bytes;
};

const make = async (base_url: string, api_key: string, path: string, body: unknown): Promise<{ id: string }> => {
  const response = await fetch(base_url + path, {
    method: 'POST',
    headers: headersOf(api_key),
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return (await response.json()) as { id: string };
};

/** One of everything that a page shows. */
const furnish = async (base_url: string, api_key: string) => {
  const token = await make(base_url, api_key, '/tokens', {
    type: 'card',
    data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 },
  });
  const code = 'module.exports = async ({ args }) => ({ raw: args });';
  const formula = await make(base_url, api_key, '/reactor-formulas', { name: 'Echo', type: 'private', code });
  const reactor = await make(base_url, api_key, '/reactors', { name: 'Echo', formula: { id: formula.id } });
  const proxy = await make(base_url, api_key, '/proxies', { name: 'API', destination_url: 'https://api.example.com' });
  return { token, reactor, proxy };
};

/** Pages by name: p50 in ms of one look after another. */
export const consolePages = async () => {
  const server = await startServer();
  const { base_url, api_key } = server.credentials;
  try {
    await fill(base_url, api_key, TOKENS);
    const { token, reactor, proxy } = await furnish(base_url, api_key);
    const cookie = await enter(server);
    const pages = {
      tokens: '/console/tokens',
      token: `/console/tokens/${token.id}`,
      reactors: '/console/reactors',
      reactor: `/console/reactors/${reactor.id}`,
      proxies: '/console/proxies',
      proxy: `/console/proxies/${proxy.id}`,
      logs: '/console/logs',
      people: '/console/people',
    };
    const p50_ms: Record<string, number> = {};
    const kilobytes: Record<string, number> = {};
    for (const [name, path] of Object.entries(pages)) {
      const looks: number[] = [];
      for (let look = 0; look < LOOKS; look += 1) {
        const { ms, result } = await timed(async () => {
          const response = await fetch(base_url + path, { headers: { cookie }, redirect: 'manual' });
          await response.arrayBuffer();
          return response.status;
        });
        if (result !== 200) throw new Error(`${path}: ${result}`);
        looks.push(ms);
      }
      p50_ms[name] = round(median(looks));
      kilobytes[name] = round((await weigh(base_url, path, cookie)) / 1000);
    }
    return { tokens: TOKENS, p50_ms, kilobytes };
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};

/** A sign-in against one argon2id of the same cost, in turns. */
export const signIn = async () => {
  const server = await startServer();
  const { base_url } = server.credentials;
  try {
    await enter(server);
    const signIns: number[] = [];
    const hashes: number[] = [];
    for (let turn = 0; turn < SIGN_INS; turn += 1) {
      signIns.push((await timed(async () => cookieOf(await postForm(`${base_url}/console/sign-in`, PERSON)))).ms);
      hashes.push(
        (
          await timed(() =>
            argon2.hash(PERSON.password, { type: argon2.argon2id, memoryCost: 19_456, timeCost: 2, parallelism: 1 }),
          )
        ).ms,
      );
    }
    return {
      p50_ms: round(median(signIns)),
      argon2id_p50_ms: round(median(hashes)),
      ratio: round(median(signIns) / median(hashes)),
    };
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};
