// How late events reach a fast receiver beside one that sleeps 15 s: 1,000 events to each, at a fixed rate, from change to arrival.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { testCa } from '../test/support/certificates.ts';
import { startUpstream } from '../test/support/upstream.ts';
import { HOST } from './proxy.ts';
import { remove, startServer } from './servers.ts';
import { headersOf, round } from './turns.ts';

const EVENTS = 1_000;
const PER_SECOND = 50;
/** The longest time of an attempt: each delivery to the slow receiver holds a slot until it times out. */
const SLOW_MS = 15_000;
/** After the last change: a late event is counted as one, and not waited for without end. */
const LATE_MS = 60_000;

export const webhooks = async (): Promise<Record<string, unknown>> => {
  const delays: number[] = [];
  let slow = 0;
  const upstream = await startUpstream({
    hosts: [HOST],
    answer: async (_, response, { url, body }) => {
      if (url === '/slow') {
        slow += 1;
        await pause(SLOW_MS, undefined, { ref: false });
      } else delays.push(Date.now() - Date.parse(JSON.parse(body.toString()).timestamp));
      response.writeHead(204).end();
    },
  });
  const dataDir = mkdtempSync(join(tmpdir(), 'strongroom-bench-'));
  const caPath = join(dataDir, 'ca.pem');
  writeFileSync(caPath, testCa);
  const server = await startServer(dataDir, {
    EGRESS_PRIVATE_HOSTS: `${HOST}:${upstream.port}`,
    NODE_EXTRA_CA_CERTS: caPath,
    RATE_LIMIT: 'off',
  });
  const { base_url, api_key } = server.credentials;
  const post = async (path: string, json: unknown): Promise<void> => {
    const answer = await fetch(base_url + path, {
      method: 'POST',
      headers: headersOf(api_key),
      body: JSON.stringify(json),
    });
    if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    await answer.arrayBuffer();
  };
  try {
    for (const name of ['slow', 'fast'])
      await post('/webhooks', { name, url: `https://${HOST}:${upstream.port}/${name}`, events: ['token.created'] });
    const began = Date.now();
    const made = Array.from({ length: EVENTS }, async (_, at) => {
      await pause((at * 1000) / PER_SECOND);
      await post('/tokens', { type: 'token', data: `value ${at}` });
    });
    await Promise.all(made);
    const seconds = (Date.now() - began) / 1000;
    const end = Date.now() + LATE_MS;
    while (delays.length < EVENTS && Date.now() < end) await pause(20);
    const sorted = delays.toSorted((one, other) => one - other);
    const at = (share: number): number => sorted[Math.ceil(sorted.length * share) - 1] as number;
    return {
      events_per_s: round(EVENTS / seconds),
      fast_received: sorted.length,
      fast_p50_ms: at(0.5),
      fast_p99_ms: at(0.99),
      fast_max_ms: at(1),
      slow_attempts: slow,
    };
  } finally {
    await server.stop();
    await upstream.close();
    remove(dataDir);
  }
};
