// Figures of the process itself: how soon it serves, and what 100,000 tokens leave in its memory.
import { runLoad } from './load.ts';
import { remove, startServer } from './servers.ts';

const TOKENS = 100_000;
const ROWS = 100;

/** First start (with initdb and migrations) and second start, in seconds to the first 200 of /readyz. */
export const start = async () => {
  const first = await startServer();
  await first.stop();
  const second = await startServer(first.dataDir);
  await second.stop();
  remove(first.dataDir);
  const seconds = (ms: number) => Math.round(ms) / 1000;
  return {
    first_seconds: seconds(first.readyMs),
    first_at_most: 15,
    second_seconds: seconds(second.readyMs),
    second_at_most: 2,
  };
};

/** Resident memory of the server after 100,000 tokens, against the start. */
export const memory = async () => {
  const server = await startServer();
  try {
    const { base_url, api_key } = server.credentials;
    const before = server.residentMb();
    const body = JSON.stringify(Array.from({ length: ROWS }, (_, index) => `value ${index}`));
    const headers = { 'svc-api-key': api_key, 'content-type': 'application/json' };
    let tokens = 0;
    while (tokens < TOKENS) {
      const { requestsPerSecond } = await runLoad({
        url: `${base_url}/tokenize`,
        headers,
        body,
        connections: 8,
        seconds: 2,
      });
      tokens += requestsPerSecond * 2 * ROWS;
    }
    const peak = server.residentMb();
    await new Promise((resolve) => setTimeout(resolve, 5000));
    const after = server.residentMb();
    const mb = (value: number) => Math.round(value * 10) / 10;
    return {
      tokens: Math.round(tokens),
      start_mb: mb(before),
      peak_mb: mb(peak),
      after_mb: mb(after),
      growth_mb: mb(after - before),
      at_most: 60,
    };
  } finally {
    await server.stop();
    remove(server.dataDir);
  }
};
