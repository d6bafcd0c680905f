// The two figures of POST /tokenize, each paired with its limit in turns within one run, so that a busy machine slows both.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Load, runLoad } from './load.ts';
import { databaseOf, remove, startBareWrites, startServer } from './servers.ts';
import { againstBareRoute, headersOf, inTurns, round, SECONDS, warm } from './turns.ts';

const BATCH_ROWS = 100;
const BATCH_CONNECTIONS = 8;
const ONE_CONNECTIONS = 32;

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
      const script = fileURLToPath(new URL('./raw-rows.ts', import.meta.url));
      const args = [JSON.stringify(address), tenant_id, BATCH_CONNECTIONS, BATCH_ROWS, SECONDS].map(String);
      const { stdout } = await promisify(execFile)(process.execPath, [script, ...args]);
      return Number(stdout);
    };
    await warm(load);
    const measured = await inTurns(() => runLoad(load), raw);
    return {
      ratio: round(measured.ratio * BATCH_ROWS),
      at_least: 0.4,
      tokens_per_second: Math.round(measured.perSecond * BATCH_ROWS),
      limit_per_second: Math.round(measured.limitPerSecond),
      p50_ms: measured.p50_ms,
      errors: measured.errors,
    };
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};

/**
 * One card a request against a bare Fastify route that answers the same JSON; `bare_writes_ratio` is what that route makes where it
 * writes rows of the same shape before it answers, and does nothing else.
 */
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
    const load: Load = { url: `${base_url}/tokenize`, headers, body, connections: ONE_CONNECTIONS, seconds: SECONDS };
    const writes = await startBareWrites(answer, server);
    try {
      return await againstBareRoute(load, answer, 0.25, writes.url);
    } finally {
      await writes.stop();
    }
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};
