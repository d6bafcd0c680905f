// The figures of the proxy: how many requests it passes on, how much later they arrive, and what large bodies leave in memory.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { certificateFor, testCa } from '../test/support/certificates.ts';
import { cpuSeconds } from './cpu-time.ts';
import { type Load, type LoadResult, runLoad } from './load.ts';
import { hasNginx, startNginx } from './nginx.ts';
import { remove, type RunningServer, startServer, stopChild } from './servers.ts';
import { headersOf, inTurns, median, round, SECONDS, warm } from './turns.ts';

const run = promisify(execFile);
const scriptPath = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

export const HOST = 'localhost';
const CONNECTIONS = 32;

type Destination = { child: ChildProcess; port: number; url: string; caPath: string; stop(): Promise<void> };

export const startDestination = async ({ cert, key } = certificateFor(HOST)): Promise<Destination> => {
  const directory = mkdtempSync(join(tmpdir(), 'strongroom-bench-destination-'));
  const paths = ['ca.pem', 'cert.pem', 'key.pem'].map((name) => join(directory, name));
  const [caPath = '', certificatePath = '', keyPath = ''] = paths;
  writeFileSync(caPath, testCa);
  writeFileSync(certificatePath, cert);
  writeFileSync(keyPath, key, { mode: 0o600 });
  const args = [scriptPath('destination.ts'), certificatePath, keyPath];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit').then(() => {
    throw new Error('the destination ended');
  });
  const [line] = (await Promise.race([once(child.stdout, 'data'), ended])) as [Buffer];
  const port = Number(String(line));
  return {
    child,
    port,
    url: `https://${HOST}:${port}`,
    caPath,
    stop: async () => {
      // One that was killed is not waited for.
      if (child.signalCode === null) await stopChild(child);
      rmSync(directory, { recursive: true });
    },
  };
};

type Place = {
  server: RunningServer;
  destination: Destination;
  /** Headers of a request to the destination's path. */
  headers(path: string): Record<string, string>;
};

/** The server with a destination on loopback that it may reach. */
export const withProxy = async <T>(measure: (place: Place) => Promise<T>): Promise<T> => {
  const destination = await startDestination();
  try {
    const server = await startServer(undefined, {
      EGRESS_PRIVATE_HOSTS: `${HOST}:${destination.port}`,
      NODE_EXTRA_CA_CERTS: destination.caPath,
    });
    try {
      const keyed = headersOf(server.credentials.api_key);
      return await measure({
        server,
        destination,
        headers: (path) => ({ ...keyed, 'svc-proxy-url': `${destination.url}${path}` }),
      });
    } finally {
      await server.stop();
      remove(server.dataDir);
    }
  } finally {
    await destination.stop();
  }
};

const BODY_BYTES = 1024;

/** An order of about 1 KB, paid with what is given. */
const orderOf = (card: string): string => {
  const order = { amount: 1250, currency: 'EUR', card, note: '' };
  const left = BODY_BYTES - JSON.stringify(order).length;
  return JSON.stringify({ ...order, note: 'n'.repeat(left) });
};

const PLAIN_ORDER = orderOf('none');

/** @returns the id of a card. */
export const makeCard = async ({ server }: Pick<Place, 'server'>, data: object): Promise<string> => {
  const { base_url, api_key } = server.credentials;
  const made = await fetch(`${base_url}/tokenize`, {
    method: 'POST',
    headers: headersOf(api_key),
    body: JSON.stringify({ type: 'card', data }),
  });
  return ((await made.json()) as { id: string }).id;
};

/** @returns the same order with the expression of a card. The card must arrive, or there is nothing to measure. */
const makeCardOrder = async (place: Place): Promise<string> => {
  const { server, headers } = place;
  const { base_url } = server.credentials;
  const data = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 };
  const body = orderOf(`{{ ${await makeCard(place, data)} }}`);
  const echoed = await fetch(`${base_url}/proxy`, { method: 'POST', headers: headers('/echo'), body });
  const { card } = (await echoed.json()) as { card?: { number?: string } };
  if (card?.number !== data.number) throw new Error('the card did not arrive at the destination');
  return body;
};

/** How many cores a process keeps busy while something is measured, over all turns. */
const createShare = (pid: number) => {
  let cpu = 0;
  let seconds = 0;
  return {
    during: async <T>(measure: () => Promise<T>): Promise<T> => {
      const [cpuBefore, began] = [cpuSeconds(pid), performance.now()];
      const result = await measure();
      cpu += cpuSeconds(pid) - cpuBefore;
      seconds += (performance.now() - began) / 1000;
      return result;
    },
    cores: () => round(cpu / seconds),
  };
};

type Direct = { per_second: number; p50_ms: number; p99_ms: number; errors: number };

/** @param perSecond 0 for as many as there can be. */
const runDirect = async (
  caPath: string,
  { url, headers, body, seconds }: Omit<Load, 'connections'>,
  perSecond: number,
): Promise<Direct> => {
  const args = [url, caPath, JSON.stringify(headers), body, perSecond, seconds].map(String);
  const { stdout } = await run(process.execPath, [scriptPath('direct.ts'), ...args]);
  return JSON.parse(stdout) as Direct;
};

/** The same request without a proxy. */
const directLoad = ({ url }: Destination, seconds: number) => ({
  url: `${url}/`,
  headers: { 'content-type': 'application/json' },
  body: PLAIN_ORDER,
  seconds,
});

const loadOf = ({ server, headers }: Place, body: string): Load => ({
  url: `${server.credentials.base_url}/proxy`,
  headers: headers('/'),
  body,
  connections: CONNECTIONS,
  seconds: SECONDS,
});

/** What the same requests take without us. */
const startLimit = async ({ destination }: Place, load: Load) => {
  if (!hasNginx) {
    // A process of its own each time: it is warm when a second of it has passed, and that second is ours to gain.
    const runOnce = async (): Promise<LoadResult> => {
      const direct = await runDirect(destination.caPath, directLoad(destination, SECONDS), 0);
      return {
        requestsPerSecond: direct.per_second,
        p50Ms: direct.p50_ms,
        p99Ms: direct.p99_ms,
        errors: direct.errors,
      };
    };
    return { name: 'undici', warm: runOnce, run: runOnce, stop: async () => undefined };
  }
  const nginx = await startNginx({ destinationPort: destination.port, caPath: destination.caPath, workers: 1 });
  const same: Load = { ...load, url: nginx.url };
  return { name: 'nginx', warm: () => warm(same), run: () => runLoad(same), stop: nginx.stop };
};

/** Requests a second, passed on as they are, against nginx. */
export const proxyPass = () =>
  withProxy(async (place) => {
    const load = loadOf(place, PLAIN_ORDER);
    const limit = await startLimit(place, load);
    try {
      await warm(load);
      await limit.warm();
      const server = createShare(place.server.child.pid as number);
      const destination = createShare(place.destination.child.pid as number);
      const limitDestination = createShare(place.destination.child.pid as number);
      let limitErrors = 0;
      const measured = await inTurns(
        () => server.during(() => destination.during(() => runLoad(load))),
        async () => {
          const { requestsPerSecond, errors } = await limitDestination.during(limit.run);
          limitErrors += errors;
          return requestsPerSecond;
        },
      );
      const errors = measured.errors + limitErrors;
      return {
        ratio: round(measured.ratio),
        at_least: 0.2,
        holds: measured.ratio >= 0.2 && errors === 0,
        limit: limit.name,
        requests_per_second: Math.round(measured.perSecond),
        limit_per_second: Math.round(measured.limitPerSecond),
        p50_ms: measured.p50_ms,
        server_cores: server.cores(),
        destination_cores: destination.cores(),
        limit_destination_cores: limitDestination.cores(),
        errors,
      };
    } finally {
      await limit.stop();
    }
  });

/** The same with a card's values put in, against itself without. */
export const proxyCard = () =>
  withProxy(async (place) => {
    const pass = loadOf(place, PLAIN_ORDER);
    const card = loadOf(place, await makeCardOrder(place));
    await warm(pass);
    await warm(card);
    let passErrors = 0;
    const measured = await inTurns(
      () => runLoad(card),
      async () => {
        const { requestsPerSecond, errors } = await runLoad(pass);
        passErrors += errors;
        return requestsPerSecond;
      },
    );
    const errors = measured.errors + passErrors;
    return {
      ratio: round(measured.ratio),
      at_least: 0.5,
      holds: measured.ratio >= 0.5 && errors === 0,
      requests_per_second: Math.round(measured.perSecond),
      limit_per_second: Math.round(measured.limitPerSecond),
      p50_ms: measured.p50_ms,
      errors,
    };
  });

const PER_SECOND = 50;
const PACED_SECONDS = 8;
const PACED_WARM_SECONDS = 4;
const PACED_TURNS = 4;
const ADDED_AT_MOST_MS = 3;

/** How much later an answer comes than without us, with one card put in, when the server has time. */
export const proxyLatency = () =>
  withProxy(async (place) => {
    const { server, destination, headers } = place;
    const body = await makeCardOrder(place);
    const { caPath } = destination;
    const load = { url: `${server.credentials.base_url}/proxy`, headers: headers('/'), body };
    const paced = (seconds: number) => runDirect(caPath, { ...load, seconds }, PER_SECOND);
    const direct = (seconds: number) => runDirect(caPath, directLoad(destination, seconds), PER_SECOND);
    // At fifty a second a server takes minutes until it is compiled, and goes on for months.
    await warm({ ...load, connections: CONNECTIONS, seconds: SECONDS });
    await runDirect(caPath, directLoad(destination, SECONDS), 0);
    await paced(PACED_WARM_SECONDS);
    await direct(PACED_WARM_SECONDS);
    const ours: Direct[] = [];
    const limits: Direct[] = [];
    for (let turn = 0; turn < PACED_TURNS; turn += 1) {
      ours.push(await paced(PACED_SECONDS));
      limits.push(await direct(PACED_SECONDS));
    }
    const added_ms = median(ours.map(({ p50_ms }, index) => p50_ms - (limits[index] as Direct).p50_ms));
    const errors = [...ours, ...limits].reduce((sum, each) => sum + each.errors, 0);
    return {
      added_ms: round(added_ms),
      at_most_ms: ADDED_AT_MOST_MS,
      holds: added_ms <= ADDED_AT_MOST_MS && errors === 0,
      p50_ms: round(median(ours.map(({ p50_ms }) => p50_ms))),
      p99_ms: round(median(ours.map(({ p99_ms }) => p99_ms))),
      limit_p50_ms: round(median(limits.map(({ p50_ms }) => p50_ms))),
      limit_p99_ms: round(median(limits.map(({ p99_ms }) => p99_ms))),
      errors,
    };
  });

const AT_ONCE = 8;
const MEGABYTE = 1024 * 1024;
const SAMPLE_MS = 20;
const SETTLE_MS = 2000;
/** V8 collects memory outside of its heap when 64 MB of it have gathered (docs/decisions/0045-tricks-removed.md). */
const MEMORY_AT_MOST_MB = 96;

type Transfer = { path: string; type?: string; direction: 'up' | 'down'; bytes: number };

const transfers: Record<string, Transfer> = {
  up_octets: { path: '/count', type: 'application/octet-stream', direction: 'up', bytes: 32 * MEGABYTE },
  up_json: { path: '/count', type: 'application/json', direction: 'up', bytes: 32 * MEGABYTE },
  down: { path: `/zeros/${100 * MEGABYTE}`, direction: 'down', bytes: 100 * MEGABYTE },
};

/** Resident memory of the server while large bodies pass, against its level after small ones of the same kind. */
export const proxyMemory = () =>
  withProxy(async ({ server, headers }) => {
    const url = `${server.credentials.base_url}/proxy`;
    const headersFor = (path: string, type: string | undefined) => {
      const { 'content-type': _, ...others } = headers(path);
      return { ...others, ...(type !== undefined && { 'content-type': type }) };
    };
    for (const { path, type, direction } of Object.values(transfers)) {
      const isUp = direction === 'up';
      const small = headersFor(isUp ? path : `/zeros/${BODY_BYTES}`, type);
      await warm({ url, headers: small, ...(isUp && { body: PLAIN_ORDER }), connections: AT_ONCE, seconds: SECONDS });
    }
    const measured: Record<string, unknown> = {};
    let most = 0;
    let errors = 0;
    await pause(SETTLE_MS);
    const levelMb = server.residentMb();
    for (const [name, { path, type, direction, bytes }] of Object.entries(transfers)) {
      let peakMb = 0;
      const look = setInterval(() => (peakMb = Math.max(peakMb, server.residentMb())), SAMPLE_MS);
      const args = [url, JSON.stringify(headersFor(path, type)), direction, bytes, AT_ONCE].map(String);
      const { stdout } = await run(process.execPath, [scriptPath('transfers.ts'), ...args]);
      clearInterval(look);
      const done = JSON.parse(stdout) as { seconds: number; errors: number };
      errors += done.errors;
      most = Math.max(most, peakMb - levelMb);
      measured[`${name}_mb`] = round(peakMb - levelMb);
      measured[`${name}_mb_per_second`] = Math.round((AT_ONCE * bytes) / MEGABYTE / done.seconds);
      await pause(SETTLE_MS);
    }
    return {
      growth_mb: round(most),
      at_most_mb: MEMORY_AT_MOST_MB,
      holds: most <= MEMORY_AT_MOST_MB && errors === 0,
      level_mb: round(levelMb),
      ...measured,
      errors,
    };
  });
