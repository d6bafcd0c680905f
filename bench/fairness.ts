// How much slower one tenant makes the others: their p99 at a fixed rate beside it, against their p99 beside a process that only
// uses as much CPU. Two cores carry everything here; what is left of the ratio is what the server could prevent.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
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
const scriptPath = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
const SECONDS = 8;
/** Until the bad tenant does what it does. */
const SETTLE_MS = 2_000;
const CAPACITY_SHARE = 0.2;
const TENANTS = 12;
/** Of the usual 100,000 cards. */
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
type Paced = { p50_ms: number; p99_ms: number; errors: number };

const post = async (url: string, key: string, body: unknown): Promise<any> => {
  const response = await fetch(url, { method: 'POST', headers: headersOf(key), body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.json();
};

const paced = async (server: RunningServer, { method, path, headers, body }: Asked, rate: number): Promise<Paced> => {
  const url = `${server.credentials.base_url}${path}`;
  const args = [
    scriptPath('paced.ts'),
    url,
    JSON.stringify(headers),
    body ?? '',
    String(rate),
    String(SECONDS),
    method,
  ];
  return JSON.parse((await run(process.execPath, args)).stdout) as Paced;
};

const setUp = async (server: RunningServer, destinationUrl: string): Promise<Setup> => {
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
  };
};

/** Stops a child and gives what it printed. */
const endOf = async (child: ChildProcess): Promise<string> => {
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

/** BENCH_ROWS names those to measure: `frames,results`. */
const chosen = process.env['BENCH_ROWS']?.split(',');

export const fairness = async () => {
  const destination = await startDestination();
  const server = await startServer(undefined, {
    EGRESS_PRIVATE_HOSTS: `${HOST}:${destination.port}`,
    NODE_EXTRA_CA_CERTS: destination.caPath,
  });
  try {
    const { base_url, api_key } = server.credentials;
    const pid = server.child.pid as number;
    const vault = await fillVault(server, FILLED_SHARE);
    const setup = await setUp(server, destination.url);
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

    /** Beside a child. @returns also the cores that the server and the child used meanwhile. */
    const beside = async (kind: string, child: ChildProcess | undefined) => {
      if (child) await pause(SETTLE_MS);
      const used = (): number => cpuSeconds(pid) + (child ? cpuSeconds(child.pid as number) : 0);
      const [from, began] = [used(), performance.now()];
      const measured = await paced(server, others[kind] as Asked, rates[kind] as number);
      return { ...measured, cores: (used() - from) / ((performance.now() - began) / 1000) };
    };

    const results: Record<string, unknown> = { requests_per_second: rates };
    for (const [manner, kind] of rows) {
      if (chosen && !chosen.includes(manner)) continue;
      const rounds: { ratio: number; bad: Paced; burnt: Paced; cores: number; residentMb: number }[] = [];
      let answers = '';
      for (let turn = 0; turn < ROUNDS; turn += 1) {
        const alone = await beside(kind, undefined);
        const args = [scriptPath('misbehave.ts'), manner, JSON.stringify(setup)];
        const bad = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
        const besideBad = await beside(kind, bad);
        const residentMb = Math.round(server.residentMb());
        answers = await endOf(bad);
        await pause(SETTLE_MS);
        const cores = Math.max(0.05, besideBad.cores - alone.cores);
        const burners = Array.from({ length: Math.ceil(cores) }, () =>
          spawn(process.execPath, [scriptPath('burn.ts'), String(cores / Math.ceil(cores))], { stdio: 'inherit' }),
        );
        const burnt = await beside(kind, undefined);
        await Promise.all(burners.map(stopChild));
        rounds.push({ ratio: besideBad.p99_ms / burnt.p99_ms, bad: besideBad, burnt, cores, residentMb });
      }
      results[`${manner} (${kind})`] = {
        ratio: round(median(rounds.map(({ ratio }) => ratio))),
        at_most: 2,
        p99_ms: round(median(rounds.map(({ bad }) => bad.p99_ms))),
        burner_p99_ms: round(median(rounds.map(({ burnt }) => burnt.p99_ms))),
        cores: round(median(rounds.map(({ cores }) => cores))),
        errors: rounds.reduce((sum, { bad }) => sum + bad.errors, 0),
        server_mb: Math.max(...rounds.map(({ residentMb }) => residentMb)),
        answers_to_bad: answers,
      };
      // So that a long run shows how far it is.
      console.error(manner, JSON.stringify(results[`${manner} (${kind})`]));
    }
    return results;
  } finally {
    await server.stop();
    remove(server.dataDir);
    await destination.stop();
  }
};
