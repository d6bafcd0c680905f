// undici in a process of its own, as a client without a proxy would use it: with a rate an open load, a request every so many
// ms whether the last was answered or not; without one a closed load. Prints how many there were, how long they took.
import { readFileSync } from 'node:fs';
import { Pool } from 'undici';

const CONNECTIONS = 32;

const [url, caPath, headersText, body, perSecondText, secondsText] = process.argv.slice(2);
const { origin, pathname, hostname } = new URL(url as string);
if (!['127.0.0.1', 'localhost'].includes(hostname)) throw new Error('loads go to loopback only');
const ca = readFileSync(caPath as string, 'utf8');
const pool = new Pool(origin, { connections: CONNECTIONS, keepAliveTimeout: 60_000, connect: { ca } });
const headers = JSON.parse(headersText as string) as Record<string, string>;
const perSecond = Number(perSecondText);
const seconds = Number(secondsText);
const latencies: number[] = [];
let errors = 0;

const send = async (): Promise<void> => {
  const began = performance.now();
  try {
    const answer = await pool.request({ path: pathname, method: 'POST', headers, body: body as string });
    await answer.body.arrayBuffer();
    if (answer.statusCode !== 200) errors += 1;
  } catch {
    errors += 1;
  }
  latencies.push(performance.now() - began);
};

const began = performance.now();
if (perSecond > 0) {
  const all: Promise<void>[] = [];
  for (let index = 0; index < perSecond * seconds; index += 1) {
    const waitMs = began + (index * 1000) / perSecond - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    all.push(send());
  }
  await Promise.all(all);
} else {
  const loop = async (): Promise<void> => {
    while (performance.now() < began + seconds * 1000) await send();
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, loop));
}
const perSecondDone = latencies.length / ((performance.now() - began) / 1000);
const sorted = latencies.toSorted((a, b) => a - b);
const at = (share: number): number => sorted[Math.floor(sorted.length * share)] as number;
console.log(JSON.stringify({ per_second: perSecondDone, p50_ms: at(0.5), p99_ms: at(0.99), errors }));
await pool.close();
