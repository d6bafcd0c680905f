// An open load from a process of its own: a request every so many ms, whether the last was answered or not. Prints latencies.
import { Agent, request } from 'node:http';

const [url, headersText, body, perSecondText, secondsText, method = 'POST'] = process.argv.slice(2);
const { hostname, port, pathname } = new URL(url as string);
if (hostname !== '127.0.0.1') throw new Error('loads go to loopback only');
const headers = {
  ...(JSON.parse(headersText as string) as object),
  ...(method === 'POST' && { 'content-length': Buffer.byteLength(body as string) }),
};
/** One that is not answered by then has failed, and counts with this time. */
const TIMEOUT_MS = 20_000;
const agent = new Agent({ keepAlive: true, maxSockets: 256 });
const perSecond = Number(perSecondText);
const total = perSecond * Number(secondsText);
const latencies: number[] = [];
let errors = 0;

const send = (): Promise<void> =>
  new Promise((resolve) => {
    const began = performance.now();
    const sent = request({ agent, hostname, port, path: pathname, method, headers }, (response) => {
      response.resume();
      response.on('end', () => {
        if (response.statusCode !== 200) errors += 1;
        latencies.push(performance.now() - began);
        resolve();
      });
    });
    sent.setTimeout(TIMEOUT_MS, () => sent.destroy());
    sent.on('error', () => {
      errors += 1;
      latencies.push(performance.now() - began);
      resolve();
    });
    sent.end(body);
  });

const began = performance.now();
const all: Promise<void>[] = [];
for (let index = 0; index < total; index += 1) {
  const waitMs = began + (index * 1000) / perSecond - performance.now();
  if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
  all.push(send());
}
await Promise.all(all);
const sorted = latencies.toSorted((a, b) => a - b);
const at = (share: number): number => sorted[Math.floor(sorted.length * share)] as number;
console.log(JSON.stringify({ p50_ms: at(0.5), p99_ms: at(0.99), errors }));
agent.destroy();
