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
/** Requests of this time open connections and compile code. They are answered, and do not count. */
const WARM_SECONDS = 1.5;
const agent = new Agent({ keepAlive: true, maxSockets: 256 });
const perSecond = Number(perSecondText);
const warm = Math.floor(perSecond * WARM_SECONDS);
const total = warm + Math.floor(perSecond * Number(secondsText));
const latencies = new Float64Array(total - warm);
/** Failures by status, or by the code of the error. */
const failures: Record<string, number> = {};
let open = 0;
let isSent = false;
const { promise: over, resolve: end } = Promise.withResolvers<void>();

const send = (index: number): void => {
  const began = performance.now();
  open += 1;
  /** @param failure undefined for a good answer. */
  const settle = (failure?: string): void => {
    open -= 1;
    if (index >= warm) {
      latencies[index - warm] = performance.now() - began;
      if (failure !== undefined) failures[failure] = (failures[failure] ?? 0) + 1;
    }
    if (isSent && open === 0) end();
  };
  const sent = request({ agent, hostname, port, path: pathname, method, headers }, (response) => {
    response.resume();
    response.on('end', () => settle(response.statusCode === 200 ? undefined : String(response.statusCode)));
  });
  sent.setTimeout(TIMEOUT_MS, () => sent.destroy(Object.assign(new Error('late'), { code: 'late' })));
  sent.on('error', (error: NodeJS.ErrnoException) => settle(error.code ?? 'error'));
  sent.end(body);
};

const began = performance.now();
for (let index = 0; index < total; index += 1) {
  const waitMs = began + (index * 1000) / perSecond - performance.now();
  if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
  send(index);
}
isSent = true;
if (open > 0) await over;
latencies.sort();
const at = (share: number): number => latencies[Math.floor(latencies.length * share)] as number;
console.log(
  JSON.stringify({
    p50_ms: at(0.5),
    p99_ms: at(0.99),
    max_ms: latencies.at(-1),
    samples: latencies.length,
    errors: Object.values(failures).reduce((sum, count) => sum + count, 0),
    failures,
  }),
);
agent.destroy();
