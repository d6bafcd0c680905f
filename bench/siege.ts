// All attacks at once, and 2,000 slow requests: is the server alive, are others served, and is its memory bounded?
import { type ChildProcess, spawn } from 'node:child_process';
import { attackRows, endOf, METRICS_TOKEN, paced, type Paced, scriptPath, setUp, startAttacked } from './fairness.ts';
import { fillVault } from './filled.ts';
import { headersOf, median, round } from './turns.ts';

/** Ten minutes by default. */
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 600);
/** The memory is read, and a measurement of the others printed, so often. */
const STEP_SECONDS = 20;
const OTHERS_PER_SECOND = 10;
/** Until the memory is read again after the attackers have gone. */
const REST_MS = 20_000;
/** Share of the usual 100,000 cards: what the others read is found by its id in any number. */
const FILLED_SHARE = Number(process.env['BENCH_FILLED'] ?? 0.1);

export const siege = async () => {
  const { server, destination, hostile, stop } = await startAttacked();
  const children: ChildProcess[] = [];
  try {
    const { base_url, api_key } = server.credentials;
    const vault = await fillVault(server, FILLED_SHARE);
    const setup = JSON.stringify(await setUp(server, destination.url, hostile.url));
    const read = { method: 'GET' as const, path: `/tokens/${vault.ids[7]}`, headers: headersOf(api_key) };
    const beforeMb = server.residentMb();
    const alone = await paced(server, read, OTHERS_PER_SECOND, STEP_SECONDS);
    for (const manner of ['slow', ...attackRows])
      children.push(
        spawn(process.execPath, [scriptPath('misbehave.ts'), manner, setup], { stdio: ['pipe', 'pipe', 'inherit'] }),
      );
    const steps: Paced[] = [];
    const megabytes: number[] = [];
    const end = performance.now() + SECONDS * 1000;
    while (performance.now() < end) {
      steps.push(await paced(server, read, OTHERS_PER_SECOND, STEP_SECONDS));
      megabytes.push(Math.round(server.residentMb()));
      // So that a long run shows how far it is.
      console.error(JSON.stringify({ ...steps.at(-1), megabytes: megabytes.at(-1) }));
    }
    const answers: Record<string, string> = {};
    for (const [at, manner] of ['slow', ...attackRows].entries())
      answers[manner] = await endOf(children[at] as ChildProcess);
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
    const metrics = await fetch(`${base_url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
    return {
      is_alive: server.child.exitCode === null && metrics.ok,
      seconds: SECONDS,
      alone_p99_ms: round(alone.p99_ms),
      p50_ms: round(median(steps.map(({ p50_ms }) => p50_ms))),
      p99_ms: round(median(steps.map(({ p99_ms }) => p99_ms))),
      max_ms: round(Math.max(...steps.map(({ max_ms }) => max_ms))),
      samples: steps.reduce((sum, { samples }) => sum + samples, 0),
      errors: steps.reduce((sum, { errors }) => sum + errors, 0),
      server_mb: { before: Math.round(beforeMb), most: Math.max(...megabytes), after: Math.round(server.residentMb()) },
      answers_to_attackers: answers,
    };
  } finally {
    for (const child of children) child.kill('SIGKILL');
    await stop();
  }
};
