// The two figures of POST /tokenize, each paired with its limit in turns within one run, so that a busy machine slows both.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Load, runLoad } from './load.ts';
import { databaseOf, remove, startBareRoute, startServer } from './servers.ts';

const ROUNDS = 4;
const SECONDS = 4;
const BATCH_ROWS = 100;
const BATCH_CONNECTIONS = 8;
const ONE_CONNECTIONS = 32;

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number;
const round = (value: number): number => Math.round(value * 1000) / 1000;

const headersOf = (api_key: string) => ({ 'svc-api-key': api_key, 'content-type': 'application/json' });

/** Both sides are measured warm: compiled, connected, with statements prepared. */
const WARM_SECONDS = 6;

const warm = (load: Load) => runLoad({ ...load, seconds: WARM_SECONDS });

/** 100 strings a request over HTTP against the same rows by raw pg. */
export const tokenizeBatch = async () => {
  const server = await startServer();
  try {
    const address = await databaseOf(server.dataDir);
    const { base_url, api_key, tenant_id } = server.credentials;
    const body = JSON.stringify(Array.from({ length: BATCH_ROWS }, (_, index) => `value number ${index} of a batch`));
    const load: Load = {
      url: `${base_url}/tokenize`,
      headers: headersOf(api_key),
      body,
      connections: BATCH_CONNECTIONS,
      seconds: SECONDS,
    };
    const raw = async (): Promise<number> => {
      const script = fileURLToPath(new URL('raw-rows.ts', import.meta.url));
      const args = [JSON.stringify(address), tenant_id, BATCH_CONNECTIONS, BATCH_ROWS, SECONDS].map(String);
      const { stdout } = await promisify(execFile)(process.execPath, [script, ...args]);
      return Number(stdout);
    };
    await warm(load);
    const ours: number[] = [];
    const limits: number[] = [];
    let errors = 0;
    let p50Ms = 0;
    for (let turn = 0; turn < ROUNDS; turn += 1) {
      const result = await runLoad(load);
      ours.push(result.requestsPerSecond * BATCH_ROWS);
      errors += result.errors;
      p50Ms = result.p50Ms;
      limits.push(await raw());
    }
    const ratios = ours.map((value, index) => value / (limits[index] as number));
    return {
      ratio: round(median(ratios)),
      at_least: 0.4,
      tokens_per_second: Math.round(median(ours)),
      limit_per_second: Math.round(median(limits)),
      p50_ms: p50Ms,
      errors,
    };
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};

/** One card a request against a bare Fastify route that answers the same JSON. */
export const tokenizeOne = async () => {
  const server = await startServer();
  try {
    const { base_url, api_key } = server.credentials;
    const body = JSON.stringify({
      type: 'card',
      data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' },
    });
    const headers = headersOf(api_key);
    const answer = await (await fetch(`${base_url}/tokenize`, { method: 'POST', headers, body })).text();
    const bare = await startBareRoute(answer);
    try {
      const load: Load = { url: `${base_url}/tokenize`, headers, body, connections: ONE_CONNECTIONS, seconds: SECONDS };
      await warm(load);
      await warm({ ...load, url: bare.url });
      const ours: number[] = [];
      const limits: number[] = [];
      let errors = 0;
      let p50Ms = 0;
      for (let turn = 0; turn < ROUNDS; turn += 1) {
        const result = await runLoad(load);
        ours.push(result.requestsPerSecond);
        errors += result.errors;
        p50Ms = result.p50Ms;
        limits.push((await runLoad({ ...load, url: bare.url })).requestsPerSecond);
      }
      const ratios = ours.map((value, index) => value / (limits[index] as number));
      return {
        ratio: round(median(ratios)),
        at_least: 0.25,
        requests_per_second: Math.round(median(ours)),
        limit_per_second: Math.round(median(limits)),
        p50_ms: p50Ms,
        errors,
      };
    } finally {
      await bare.stop();
    }
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};
