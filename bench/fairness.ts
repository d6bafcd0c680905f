// How much slower one tenant makes the others: their p99 at a fixed rate beside it, against their p99 beside a process that only
// uses as much CPU. Two cores carry everything here; what is left of the ratio is what the server could prevent.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { slowCertificateFor } from '../test/support/certificates.ts';
import { type AttackSetup, attackCodesOf } from './attacks.ts';
import { cpuSeconds } from './cpu-time.ts';
import { fillVault } from './filled.ts';
import { runLoad } from './load.ts';
import type { Setup } from './misbehave.ts';
import { HOST, startDestination } from './proxy.ts';
import { makeReactor } from './react.ts';
import { TRIVIAL } from './sandbox.ts';
import { remove, type RunningServer, startServer, stopChild } from './servers.ts';
import { headersOf, median, round } from './turns.ts';

const run = promisify(execFile);
export const scriptPath = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

export const METRICS_TOKEN = 'of-the-bench-'.repeat(4);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
/** Seconds of one measurement: more if requests are few, as a p99 needs samples above it. A round of a row takes a minute. */
const SECONDS_LEAST = 8;
const SECONDS_MOST = 10;
const SAMPLES_LEAST = 2_000;
/** Until the bad tenant does what it does. */
const SETTLE_MS = 5_000;
/** Until the server's memory is read again after the bad tenant has gone. */
const REST_MS = 18_000;
/** Less than this cannot be told from what the database does of itself. */
const CORES_LEAST = 0.02;
const CAPACITY_SHARE = 0.2;
const TENANTS = 12;
/** Beside an attack the others ask so often, and for so long: six samples lie above the p99. */
const ATTACKED_PER_SECOND = 50;
const ATTACKED_SECONDS = 12;
const ATTACK_REST_MS = 3_000;
/** In ms: an attack may make the p50 and p99 of others so long, also where a burner makes them shorter. */
const P50_ENOUGH_MS = 5;
const P99_ENOUGH_MS = 30;
/** Share of the usual 100,000 cards. */
const FILLED_SHARE = Number(process.env['BENCH_FILLED'] ?? 1);

const SLEEPING =
  'module.exports = async () => { await new Promise((done) => setTimeout(done, 8000)); return { raw: 1 }; };';
const BURNING = 'module.exports = async () => { for (;;); };';
const RETURNING = `module.exports = async () => ({ raw: '\\\\"'.repeat(1_200_000) });`;
const CALLING = `module.exports = async ({ svc }) => {
  const data = '"'.repeat(1_200_000);
  for (let call = 0; call < 200; call += 1) await svc.tokenize({ type: 'token', data }).catch(() => undefined);
  return { raw: 1 };
};`;
const ECHO = 'module.exports = async (req) => ({ raw: req.args.length });';

/** What the others do meanwhile. */
type Asked = { method: 'GET' | 'POST'; path: string; headers: Record<string, string>; body?: string };
export type Paced = {
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
  samples: number;
  errors: number;
  failures: Record<string, number>;
};

const post = async (url: string, key: string, body: unknown): Promise<any> => {
  const response = await fetch(url, { method: 'POST', headers: headersOf(key), body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.json();
};

export const paced = async (
  server: RunningServer,
  { method, path, headers, body }: Asked,
  rate: number,
  seconds = Math.min(SECONDS_MOST, Math.max(SECONDS_LEAST, SAMPLES_LEAST / rate)),
): Promise<Paced> => {
  const url = `${server.credentials.base_url}${path}`;
  const args = [
    scriptPath('paced.ts'),
    url,
    JSON.stringify(headers),
    body ?? '',
    String(rate),
    String(seconds),
    method,
  ];
  return JSON.parse((await run(process.execPath, args)).stdout) as Paced;
};

/** What the attacks use, of the first tenant. */
const setUpAttacks = async (
  server: RunningServer,
  key: string,
  destinationUrl: string,
  hostileUrl: string,
): Promise<AttackSetup> => {
  const { base_url } = server.credentials;
  const permissions = ['token:create', 'token:read', 'token:search', 'token:use'];
  const application = await post(`${base_url}/applications`, key, { name: 'Attacks', type: 'private', permissions });
  const destination_url = `${destinationUrl}/count`;
  const proxy = async (more: object): Promise<string> =>
    (
      await post(`${base_url}/proxies`, key, {
        name: 'Attacks',
        destination_url,
        application: { id: application.id },
        ...more,
      })
    ).key;
  const { lists, passing, ...codes } = attackCodesOf(
    await proxy({ request_transform: { code: 'module.exports = async (req) => req.args;' } }),
    destinationUrl,
  );
  const owner = { ...server, credentials: { ...server.credentials, api_key: key } };
  const reactors = await Promise.all(
    Object.entries(codes).map(async ([name, code]) => [name, await makeReactor(owner, code, application.id)]),
  );
  const tokenOf = async (data: string): Promise<string> =>
    (await post(`${base_url}/tokens`, key, { type: 'token', data })).id;
  return {
    reactors: Object.fromEntries(reactors),
    proxies: {
      lists: await proxy({ response_transform: { code: lists } }),
      passing: await proxy({ request_transform: { code: passing } }),
      open: await proxy({ request_transform: { code: passing }, require_auth: false }),
    },
    braces_id: await tokenOf('{{'.repeat(480_000)),
    short_id: await tokenOf('short'),
    destination_url: destinationUrl,
    hostile_url: hostileUrl,
  };
};

export const setUp = async (server: RunningServer, destinationUrl: string, hostileUrl: string): Promise<Setup> => {
  const { base_url } = server.credentials;
  const made = Array.from({ length: TENANTS }, (_, at) => {
    const tenant = server.command(['tenants', 'create', '--name', `Bad ${at}`, '--json']) as {
      tenant_id: string;
      api_key: string;
    };
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read', 'token:use'] }];
    const all = ['keys', 'create', '--tenant', tenant.tenant_id, '--rules', JSON.stringify(rules), '--json'];
    return { ...tenant, reveal: (server.command(all) as { api_key: string }).api_key };
  });
  const keys = made.map(({ api_key }) => api_key);
  const [first = ''] = keys;
  const reactor = (at: number, code: string, application_id?: string) =>
    makeReactor(
      { ...server, credentials: { ...server.credentials, api_key: keys[at] as string } },
      code,
      application_id,
    );
  const large_ids: string[] = [];
  for (let at = 0; at < 5; at += 1)
    large_ids.push((await post(`${base_url}/tokens`, first, { type: 'token', data: 'x'.repeat(900_000) })).id);
  const application = await post(`${base_url}/applications`, first, {
    name: 'Code',
    type: 'private',
    permissions: ['token:create'],
  });
  const proxy = await post(`${base_url}/proxies`, first, {
    name: 'Open',
    destination_url: `${destinationUrl}/count`,
    require_auth: false,
  });
  return {
    base_url,
    keys,
    large_ids,
    trivial: await Promise.all(keys.map((_, at) => reactor(at, TRIVIAL))),
    sleeping: await Promise.all([0, 1].map((at) => reactor(at, SLEEPING))),
    echo: await reactor(0, ECHO),
    burning: await reactor(0, BURNING),
    calling: await reactor(0, CALLING, application.id),
    returning: await reactor(0, RETURNING),
    silent_url: `${destinationUrl}/silent`,
    open_proxy_key: proxy.key,
    attacks: await setUpAttacks(
      server,
      (made[0] as { reveal: string; api_key: string }).api_key,
      destinationUrl,
      hostileUrl,
    ),
  };
};

/** Stops a child and gives what it printed. */
export const endOf = async (child: ChildProcess): Promise<string> => {
  const printed: string[] = [];
  child.stdout?.on('data', (text: Buffer) => printed.push(String(text)));
  child.kill('SIGTERM');
  await once(child, 'exit');
  return printed.join('').trim();
};

/** Every row: the manner of the bad tenant, and what the others do. */
const rows: [manner: string, others: 'read' | 'run' | 'forward'][] = [
  ['unread', 'read'],
  ['frames', 'read'],
  ['results', 'read'],
  ['inputs', 'read'],
  ['turns', 'run'],
  ['sleeping', 'run'],
  ['anonymous', 'forward'],
  ['connections', 'forward'],
  ['leavers', 'run'],
  ['expressions', 'read'],
  ['burning', 'read'],
  ['burning', 'run'],
];

/** Attacks on the event loop: others read at a fixed rate meanwhile. */
export const attackRows =
  'k1 k2 l1 l1-anonymous l2 l3 l4 l5 l6 l6-destination l7 l7-anonymous m1 m2 m3 m3-search document'.split(' ');
/** Those that matter most, by BENCH_ROWS=most. */
const mostRows = ['k1', 'k2', 'l2', 'l6', 'm2', 'expressions'];

type Measured = Paced & { cores: number };

/** `megabytes`: resident memory of the server before, beside and after the bad tenant. */
type Round = { alone: Measured; bad: Measured; burnt: Measured; megabytes: [number, number, number] };

const figuresOf = (rounds: Round[]) => {
  const ratios = rounds.map(({ bad, burnt }) => bad.p99_ms / burnt.p99_ms);
  const medianOf = (figure: (of: Round) => number): number => round(median(rounds.map(figure)));
  const errorsOf = (...kinds: ('alone' | 'bad' | 'burnt')[]): number =>
    rounds.reduce((sum, of) => sum + kinds.reduce((errors, kind) => errors + of[kind].errors, 0), 0);
  return {
    ratio: round(median(ratios)),
    at_most: 2,
    within:
      medianOf(({ bad, burnt }) => bad.p99_ms / Math.max(2 * burnt.p99_ms, P99_ENOUGH_MS)) <= 1 &&
      medianOf(({ bad, burnt }) => bad.p50_ms / Math.max(1.5 * burnt.p50_ms, P50_ENOUGH_MS)) <= 1,
    ratios: ratios.map(round),
    p99_ms: medianOf(({ bad }) => bad.p99_ms),
    burner_p99_ms: medianOf(({ burnt }) => burnt.p99_ms),
    alone_p99_ms: medianOf(({ alone }) => alone.p99_ms),
    p50_ms: medianOf(({ bad }) => bad.p50_ms),
    burner_p50_ms: medianOf(({ burnt }) => burnt.p50_ms),
    max_ms: medianOf(({ bad }) => bad.max_ms),
    burner_max_ms: medianOf(({ burnt }) => burnt.max_ms),
    samples: medianOf(({ bad }) => bad.samples),
    bad_cores: medianOf(({ alone, bad }) => bad.cores - alone.cores),
    burner_cores: medianOf(({ alone, burnt }) => burnt.cores - alone.cores),
    errors: errorsOf('bad'),
    other_errors: errorsOf('alone', 'burnt'),
    server_mb: [0, 1, 2].map((at) => Math.round(median(rounds.map(({ megabytes }) => megabytes[at] as number)))),
  };
};

/** BENCH_ROWS names those to measure: `frames,k2`. */
const asked = process.env['BENCH_ROWS'];
const chosen = asked === 'most' ? mostRows : asked?.split(',');

/** The seconds of the longest callback of the event loop since the last call, by tenant. */
const longestOf = async (server: RunningServer): Promise<Record<string, number>> => {
  const headers = { authorization: `Bearer ${METRICS_TOKEN}` };
  const text = await (await fetch(`${server.credentials.base_url}/metrics`, { headers })).text();
  const found = text.matchAll(/^strongroom_longest_callback_seconds\{tenant_id="([^"]*)"\} (\S+)$/gm);
  return Object.fromEntries(Array.from(found, ([, tenant = '', seconds]) => [tenant, Number(seconds)]));
};

/** Starts a server, its destination and one with a hostile certificate. */
export const startAttacked = async () => {
  const destination = await startDestination();
  const hostile = await startDestination(slowCertificateFor(HOST));
  const server = await startServer(undefined, {
    EGRESS_PRIVATE_HOSTS: `${HOST}:${destination.port},${HOST}:${hostile.port}`,
    METRICS_TOKEN,
    NODE_EXTRA_CA_CERTS: destination.caPath,
  });
  const stop = async (): Promise<void> => {
    await server.stop();
    remove(server.dataDir);
    await destination.stop();
    await hostile.stop();
  };
  return { server, destination, hostile, stop };
};

export const fairness = async () => {
  const { server, destination, hostile, stop } = await startAttacked();
  try {
    const { base_url, api_key } = server.credentials;
    const pid = server.child.pid as number;
    const vault = await fillVault(server, FILLED_SHARE);
    const setup = await setUp(server, destination.url, hostile.url);
    const headers = headersOf(api_key);
    const others: Record<string, Asked> = {
      read: { method: 'GET', path: `/tokens/${vault.ids[7]}`, headers },
      run: {
        method: 'POST',
        path: new URL(await makeReactor(server, TRIVIAL)).pathname,
        headers,
        body: JSON.stringify({ args: { n: 1 } }),
      },
      forward: {
        method: 'POST',
        path: '/proxy',
        headers: { ...headers, 'svc-proxy-url': `${destination.url}/count` },
        body: '{"amount":1250}',
      },
    };
    const rates: Record<string, number> = {};
    for (const [kind, { path, headers: sent, body }] of Object.entries(others)) {
      const load = {
        url: `${base_url}${path}`,
        headers: sent,
        ...(body !== undefined && { body }),
        connections: 16,
        seconds: 5,
      };
      await runLoad(load);
      rates[kind] = Math.floor((await runLoad(load)).requestsPerSecond * CAPACITY_SHARE);
    }

    /** Beside children. @returns also the cores that the server, with all that it started, and the children used meanwhile. */
    const beside = async (kind: string, children: ChildProcess[], isAttack: boolean) => {
      if (children.length > 0) await pause(SETTLE_MS);
      const pids = [pid, ...children.map((child) => child.pid as number)];
      const used = (): number => pids.reduce((sum, each) => sum + cpuSeconds(each), 0);
      const [from, began] = [used(), performance.now()];
      const rate = isAttack ? ATTACKED_PER_SECOND : (rates[kind] as number);
      const measured = await paced(server, others[kind] as Asked, rate, isAttack ? ATTACKED_SECONDS : undefined);
      return { ...measured, cores: (used() - from) / ((performance.now() - began) / 1000) };
    };

    const results: Record<string, unknown> = { requests_per_second: rates };
    const attacks = attackRows.map((manner): (typeof rows)[number] => [manner, 'read']);
    for (const [manner, kind] of [...rows, ...attacks]) {
      const isAttack = attackRows.includes(manner);
      if (chosen && !chosen.includes(manner)) continue;
      const rounds: Round[] = [];
      let answers = '';
      let longest: Record<string, number> = {};
      for (let turn = 0; turn < ROUNDS; turn += 1) {
        const beforeMb = server.residentMb();
        const alone = await beside(kind, [], isAttack);
        const args = [scriptPath('misbehave.ts'), manner, JSON.stringify(setup)];
        const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
        await longestOf(server);
        const bad = await beside(kind, [child], isAttack);
        const besideMb = server.residentMb();
        longest = await longestOf(server);
        answers = await endOf(child);
        await pause(isAttack ? ATTACK_REST_MS : REST_MS);
        const afterMb = server.residentMb();
        const cores = bad.cores - alone.cores;
        const burners =
          cores < CORES_LEAST
            ? []
            : Array.from({ length: Math.ceil(cores) }, () =>
                spawn(process.execPath, [scriptPath('burn.ts'), String(cores / Math.ceil(cores))], {
                  stdio: 'inherit',
                }),
              );
        const burnt = await beside(kind, burners, isAttack);
        await Promise.all(burners.map(stopChild));
        rounds.push({ alone, bad, burnt, megabytes: [beforeMb, besideMb, afterMb] });
      }
      results[`${manner} (${kind})`] = {
        ...figuresOf(rounds),
        longest_callback_seconds: longest,
        answers_to_bad: answers,
      };
      // So that a long run shows how far it is.
      console.error(manner, JSON.stringify(results[`${manner} (${kind})`]));
    }
    return results;
  } finally {
    await stop();
  }
};
