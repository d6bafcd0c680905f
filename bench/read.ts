// The figures of reading: one token a request, and a hundred by expressions.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Load, runLoad } from './load.ts';
import { databaseOf, remove, startServer } from './servers.ts';
import { againstBareRoute, headersOf, inTurns, round, SECONDS, warm } from './turns.ts';

const READ_CONNECTIONS = 32;
const READ_TOKENS = 500;
const HUNDRED = 100;
const HUNDRED_CONNECTIONS = 8;

const makeTokens = async (base_url: string, api_key: string, values: unknown[]): Promise<string[]> => {
  const body = JSON.stringify(values);
  const response = await fetch(`${base_url}/tokenize`, { method: 'POST', headers: headersOf(api_key), body });
  const made = (await response.json()) as (string | { id: string })[];
  return made.map((token) => (typeof token === 'string' ? token : token.id));
};

/** GET /tokens/{id} of cards, masked, against a bare route that answers with the same JSON. */
export const readOne = async () => {
  const server = await startServer();
  try {
    const { base_url, api_key } = server.credentials;
    const card = { type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 } };
    const ids = await makeTokens(
      base_url,
      api_key,
      Array.from({ length: READ_TOKENS }, () => card),
    );
    const paths = ids.map((id) => `/tokens/${id}`);
    const headers = headersOf(api_key);
    const answer = await (await fetch(`${base_url}${paths[0]}`, { headers })).text();
    const load: Load = { url: base_url, headers, paths, connections: READ_CONNECTIONS, seconds: SECONDS };
    return await againstBareRoute(load, answer, 0.25);
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};

/** 100 tokens in one POST /detokenize against pg fetching the same rows. */
export const detokenizeHundred = async () => {
  const server = await startServer();
  try {
    const address = await databaseOf(server.dataDir);
    const { base_url, api_key, tenant_id } = server.credentials;
    const values = Array.from({ length: HUNDRED }, (_, index) => `value number ${index} of a hundred`);
    const ids = await makeTokens(base_url, api_key, values);
    const load: Load = {
      url: `${base_url}/detokenize`,
      headers: headersOf(api_key),
      body: JSON.stringify(ids.map((id) => `{{ ${id} }}`)),
      connections: HUNDRED_CONNECTIONS,
      seconds: SECONDS,
    };
    const raw = async (): Promise<number> => {
      const script = fileURLToPath(new URL('./raw-fetch.ts', import.meta.url));
      const args = [JSON.stringify(address), tenant_id, JSON.stringify(ids), HUNDRED_CONNECTIONS, SECONDS].map(String);
      const { stdout } = await promisify(execFile)(process.execPath, [script, ...args]);
      return Number(stdout);
    };
    await warm(load);
    const measured = await inTurns(() => runLoad(load), raw);
    return {
      ratio: round(measured.ratio),
      at_least: 0.3,
      requests_per_second: Math.round(measured.perSecond),
      limit_per_second: Math.round(measured.limitPerSecond),
      p50_ms: measured.p50_ms,
      errors: measured.errors,
    };
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};
