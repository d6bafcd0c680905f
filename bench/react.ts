// The figures of POST /reactors/{id}/react: how long a call takes, how many there are in a second, and how many wait at once.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { testCa } from '../test/support/certificates.ts';
import { startUpstream } from '../test/support/upstream.ts';
import { freePort } from '../test/support/process.ts';
import { type Load, runLoad } from './load.ts';
import { ECHO, LARGE_ARGS, SMALL_ARGS, TRIVIAL } from './sandbox.ts';
import { databaseOf, remove, type RunningServer, startProcess, startServer, stopChild } from './servers.ts';
import { headersOf, inTurns, median, round, SECONDS, warm } from './turns.ts';

const run = promisify(execFile);
const scriptPath = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

const post = async (url: string, api_key: string, body: unknown): Promise<any> => {
  const response = await fetch(url, { method: 'POST', headers: headersOf(api_key), body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.json();
};

/** @returns the address that invokes the code. */
export const makeReactor = async (
  { credentials: { base_url, api_key } }: RunningServer,
  code: string,
  application_id?: string,
): Promise<string> => {
  const formula = await post(`${base_url}/reactor-formulas`, api_key, {
    name: 'Bench',
    type: 'private',
    code,
    configuration: [],
    request_parameters: [],
  });
  const reactor = await post(`${base_url}/reactors`, api_key, {
    name: 'Bench',
    configuration: {},
    formula: { id: formula.id },
    ...(application_id !== undefined && { application: { id: application_id } }),
  });
  return `${base_url}/reactors/${reactor.id}/react`;
};

const CONNECTIONS = 16;
const PER_SECOND = 100;
const PACED_SECONDS = 8;
const PACED_WARM_SECONDS = 3;
const PACED_TURNS = 4;

type Paced = { p50_ms: number; p99_ms: number; errors: number };
const paced = async (url: string, headers: object, body: string, seconds: number): Promise<Paced> => {
  const args = [scriptPath('paced.ts'), url, JSON.stringify(headers), body, String(PER_SECOND), String(seconds)];
  const { stdout } = await run(process.execPath, args);
  return JSON.parse(stdout) as Paced;
};

/** How long a row of the log takes at the same rate, which must be committed before an answer leaves. */
const pacedCommits = async ({ dataDir, credentials }: RunningServer, seconds: number): Promise<{ p50_ms: number }> => {
  const address = JSON.stringify(await databaseOf(dataDir));
  const args = [scriptPath('paced-commits.ts'), address, credentials.tenant_id, String(PER_SECOND), String(seconds)];
  return JSON.parse((await run(process.execPath, args)).stdout) as { p50_ms: number };
};

const pacedRatio = async (server: RunningServer, code: string, args: unknown) => {
  const url = await makeReactor(server, code);
  const port = await freePort();
  const bare = await startProcess([scriptPath('bare-function.ts'), String(port), code], `http://127.0.0.1:${port}/`);
  try {
    const body = JSON.stringify({ args });
    const headers = headersOf(server.credentials.api_key);
    const limitUrl = `http://127.0.0.1:${port}/`;
    // At a hundred a second a server takes a minute until it is compiled, and goes on for months.
    for (const each of [url, limitUrl]) {
      await warm({ url: each, headers, body, connections: CONNECTIONS, seconds: SECONDS });
      await paced(each, headers, body, PACED_WARM_SECONDS);
    }
    const ours: Paced[] = [];
    const limits: Paced[] = [];
    const commits: number[] = [];
    for (let turn = 0; turn < PACED_TURNS; turn += 1) {
      ours.push(await paced(url, headers, body, PACED_SECONDS));
      limits.push(await paced(limitUrl, headers, body, PACED_SECONDS));
      commits.push((await pacedCommits(server, PACED_SECONDS)).p50_ms);
    }
    const least = limits.map(({ p50_ms }, index) => (p50_ms + (commits[index] as number)) / p50_ms);
    return {
      ratio: round(median(ours.map(({ p50_ms }, index) => p50_ms / (limits[index] as Paced).p50_ms))),
      p50_ms: round(median(ours.map(({ p50_ms }) => p50_ms))),
      p99_ms: round(median(ours.map(({ p99_ms }) => p99_ms))),
      limit_p50_ms: round(median(limits.map(({ p50_ms }) => p50_ms))),
      commit_p50_ms: round(median(commits)),
      least_ratio: round(median(least)),
      errors: ours.reduce((sum, { errors }) => sum + errors, 0),
    };
  } finally {
    await stopChild(bare);
  }
};

/** p50 of a call at 100 a second, against Fastify calling the function in its own process. */
export const reactPaced = async () => {
  const server = await startServer();
  try {
    return {
      trivial: { ...(await pacedRatio(server, TRIVIAL, SMALL_ARGS)), at_most: 2 },
      large: { ...(await pacedRatio(server, ECHO, LARGE_ARGS)), at_most: 3 },
    };
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};

const CHILDREN_AT_ONCE = 2;

/** Calls a second, closed loop, against a child process for each. */
export const reactThroughput = async () => {
  const server = await startServer();
  try {
    const load: Load = {
      url: await makeReactor(server, TRIVIAL),
      headers: headersOf(server.credentials.api_key),
      body: JSON.stringify({ args: SMALL_ARGS }),
      connections: CONNECTIONS,
      seconds: SECONDS,
    };
    const children = async (): Promise<number> => {
      const input = JSON.stringify({ args: SMALL_ARGS, configuration: {} });
      const args = [scriptPath('child-per-call.ts'), TRIVIAL, input, String(CHILDREN_AT_ONCE), String(SECONDS)];
      return Number((await run(process.execPath, args)).stdout);
    };
    await warm(load);
    const measured = await inTurns(() => runLoad(load), children);
    return {
      ratio: round(measured.ratio),
      at_least: 30,
      calls_per_second: Math.round(measured.perSecond),
      limit_per_second: round(measured.limitPerSecond),
      p50_ms: measured.p50_ms,
      errors: measured.errors,
    };
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};

const AT_ONCE = 100;
const FETCH_MS = 300;
const FETCH_TURNS = 5;

/** Memory of all executors together: what they share, Node's own program above all, is counted once (PSS). */
const executorsMb = (): number =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .reduce((sum, pid) => {
      try {
        if (!readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('sandbox/executor.')) return sum;
        return sum + Number(/Pss:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0) / 1024;
      } catch {
        return sum;
      }
    }, 0);

/** 100 runs of one tenant at once, each of which awaits a fetch of 300 ms. */
export const reactFetch = async () => {
  const upstream = await startUpstream({
    hosts: ['localhost'],
    answer: (_request, response) => void setTimeout(() => response.end('{"ok":true}'), FETCH_MS),
  });
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-bench-ca-'));
  const caPath = join(directory, 'ca.pem');
  writeFileSync(caPath, testCa);
  const server = await startServer(undefined, {
    EGRESS_PRIVATE_HOSTS: `localhost:${upstream.port}`,
    NODE_EXTRA_CA_CERTS: caPath,
  });
  try {
    const code = `module.exports = async () => { const r = await fetch('https://localhost:${upstream.port}/'); return { raw: await r.json() }; };`;
    const url = await makeReactor(server, code);
    const { api_key } = server.credentials;
    await post(url, api_key, { args: {} });
    const times: number[] = [];
    let mostMb = 0;
    const look = setInterval(() => (mostMb = Math.max(mostMb, executorsMb())), 50);
    for (let turn = 0; turn < FETCH_TURNS; turn += 1) {
      const began = performance.now();
      await Promise.all(Array.from({ length: AT_ONCE }, () => post(url, api_key, { args: {} })));
      times.push(performance.now() - began);
    }
    clearInterval(look);
    return {
      ratio: round(median(times) / FETCH_MS),
      at_most: 4,
      first_ratio: round((times[0] as number) / FETCH_MS),
      executors_mb: Math.round(mostMb),
      executors_at_most_mb: 400,
    };
  } finally {
    await server.stop();
    remove(server.dataDir);
    await upstream.close();
    rmSync(directory, { recursive: true });
  }
};
