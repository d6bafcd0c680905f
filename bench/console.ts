// Measures the pages of the console with 10^5 tokens and 10^6 rows of the log: time, CPU time, rows read, weight of a first visit.
// Also measures a sign-in, and the argon2id in it.
import { setTimeout } from 'node:timers/promises';
import argon2 from 'argon2';
import { Client } from 'pg';
import { cpuSeconds } from './cpu-time.ts';
import { insertLogs } from './filled.ts';
import { fill } from './lists.ts';
import { databaseOf, remove, type RunningServer, startServer } from './servers.ts';
import { headersOf, median, round } from './turns.ts';

const TOKENS = Number(process.env['BENCH_TOKENS'] ?? 100_000);
/** Rows of the log of all tokens, and uses of one card. */
const LOG_ROWS = 10 * TOKENS;
const USES_OF_CARD = 20_000;
const RUNS = 2_000;
/** Looks before those that are measured: caches and plans of each connection are made. */
const WARM_LOOKS = 40;
const LOOKS = 200;
/** Backends of PostgreSQL that are idle report what they read after ten seconds. */
const REPORT_MS = 11_000;
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

/** Uses of one card by a host, newest last: its timeline and its picture are of many rows. */
const INSERT_USES = `
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at, disclosure,
  destination_host, mac)
SELECT tenant_id, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5('u' || n), 1, 3) || '8' ||
    substr(md5('u' || n), 4, 15))::uuid,
  created_by, 'application', type, ARRAY[id], 'use', 'Token used', at, 'used', 'host-' || n % 300 || '.example.com', gen_random_uuid()
FROM (SELECT n, now() - n * interval '40 seconds' AS at FROM generate_series(1, $2::int) AS n) AS rows, tokens
WHERE id = $1`;

const INSERT_USAGE = `
INSERT INTO usage_hours
SELECT $1, date_trunc('hour', now(), 'UTC') - n * interval '1 hour', kind, '00000000-0000-0000-0000-000000000000'::uuid, 1000, 2000,
  ${Array.from({ length: 12 }, () => 80).join(', ')}
FROM generate_series(0, 9600) AS n, unnest(ARRAY['stored', 'used', 'revealed', 'masked', 'refused', 'failed']) AS kind
ON CONFLICT DO NOTHING`;

/** Rows of tables that all connections have read so far: by a scan of the table, and by an index. */
const readRows = async (client: Client): Promise<{ scanned: number; fetched: number }> => {
  await setTimeout(REPORT_MS);
  const { rows } =
    await client.query(`SELECT sum(seq_tup_read)::float8 AS scanned, sum(idx_tup_fetch)::float8 AS fetched
FROM pg_stat_user_tables WHERE n_live_tup > 10000`);
  return rows[0] as { scanned: number; fetched: number };
};

/** Fills the tables that pages read, beside those of tokens. */
const fillRest = async (client: Client, server: RunningServer, { token, reactor }: Furniture): Promise<void> => {
  const { base_url, api_key, tenant_id } = server.credentials;
  const react = `${base_url}/reactors/${reactor.id}/react`;
  for (let run = 0; run < RUNS; run += 1) {
    const body = JSON.stringify({ args: { card: `{{ ${token.id} }}` } });
    await (await fetch(react, { method: 'POST', headers: headersOf(api_key), body })).arrayBuffer();
  }
  await insertLogs(client, LOG_ROWS);
  await client.query(INSERT_USES, [token.id, USES_OF_CARD]);
  await client.query(INSERT_USAGE, [tenant_id]);
  await client.query('VACUUM ANALYZE');
};

type Furniture = Awaited<ReturnType<typeof furnish>>;

const pagesOf = (run_id: string, { token, reactor, proxy }: Furniture, plain_id: string) => ({
  home: '/console/home',
  'home, 30 days': '/console/home?range=30d',
  usage: '/console/usage',
  find: '/console/find?q=none',
  tokens: '/console/tokens',
  'a token with few uses': `/console/tokens/${plain_id}`,
  [`a card with ${USES_OF_CARD} uses`]: `/console/tokens/${token.id}`,
  logs: '/console/logs',
  'logs of a disclosure': '/console/logs?disclosure=used',
  reactors: '/console/reactors',
  reactor: `/console/reactors/${reactor.id}`,
  runs: '/console/runs',
  'failed runs': '/console/runs?outcome=any_failure',
  'a run': `/console/runs/${run_id}`,
  proxies: '/console/proxies',
  proxy: `/console/proxies/${proxy.id}`,
  applications: '/console/applications',
  people: '/console/people',
  account: '/console/account',
});

const look = async (url: string, cookie: string): Promise<number> => {
  const { ms, result } = await timed(async () => {
    const response = await fetch(url, { headers: { cookie }, redirect: 'manual' });
    await response.arrayBuffer();
    return response.status;
  });
  if (result !== 200) throw new Error(`${url}: ${result}`);
  return ms;
};

/** Pages by name: the times of one look after another, the rows that one reads, and the weight of a first visit. */
export const consolePages = async () => {
  const server = await startServer(undefined, { RATE_LIMIT: 'off', SESSION_IDLE: '12h' });
  const { base_url, api_key } = server.credentials;
  const client = new Client(await databaseOf(server.dataDir));
  try {
    await fill(base_url, api_key, TOKENS);
    const furniture = await furnish(base_url, api_key);
    const plain = await make(base_url, api_key, '/tokens', { type: 'token', data: 'plain' });
    await client.connect();
    await fillRest(client, server, furniture);
    const runs = await fetch(`${base_url}/runs?size=1`, { headers: headersOf(api_key) });
    const { data } = (await runs.json()) as { data: [{ id: string }] };
    const cookie = await enter(server);
    const found: Record<string, object> = {};
    for (const [name, path] of Object.entries(pagesOf(data[0].id, furniture, plain.id))) {
      for (let warm = 0; warm < WARM_LOOKS; warm += 1) await look(base_url + path, cookie);
      const before = await readRows(client);
      const began = cpuSeconds(server.child.pid as number);
      const looks: number[] = [];
      for (let count = 0; count < LOOKS; count += 1) looks.push(await look(base_url + path, cookie));
      const cpu_ms = round(((cpuSeconds(server.child.pid as number) - began) * 1000) / LOOKS);
      const after = await readRows(client);
      const rows = Math.round((after.fetched - before.fetched) / LOOKS);
      if (after.scanned - before.scanned >= LOOKS) throw new Error(`${name}: a large table is scanned`);
      const p95 = looks.toSorted((one, other) => one - other)[Math.floor(LOOKS * 0.95)] as number;
      const kilobytes = round((await weigh(base_url, path, cookie)) / 1000);
      found[name] = { p50_ms: round(median(looks)), p95_ms: round(p95), cpu_ms, rows, kilobytes };
      process.stderr.write(`${name}: ${JSON.stringify(found[name])}\n`);
    }
    return { tokens: TOKENS, log_rows: LOG_ROWS + USES_OF_CARD, p50_ms_at_most: 30, p95_ms_at_most: 60, pages: found };
  } finally {
    await client.end();
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
