// What a tenant notices of a hostile one: the time of its own calls with and without, and the longest that the server's loop
// stood still meanwhile.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { CODE_LENGTH_MAX } from '../src/modules/code/formula-fields.ts';
import { hostilePrograms } from '../test/hostile/programs.ts';
import { openSandbox, runOn, SMALL_ARGS, TRIVIAL } from './sandbox.ts';
import { round } from './turns.ts';

/** Limits of the hostile programs, so that all of them are through in two minutes. */
const LIMITS = { wallMs: 2000, cpuMs: 1000, memoryMb: 128, outputBytesMax: 5 * 1024 * 1024 };
/** Longer code cannot be saved, and so reaches no sandbox. */
const fair = hostilePrograms.filter(({ code }) => code.length <= CODE_LENGTH_MAX);

const CALL_EVERY_MS = 20;
const WARM_CALLS = 100;
const ALONE_CALLS = 1500;

const at = (latencies: number[], share: number): number =>
  round(latencies.toSorted((one, other) => one - other)[Math.floor(latencies.length * share)] as number);

/** One program after the other by one tenant, while another calls fifty times a second. */
export const sandboxNeighbour = async () => {
  const sandbox = await openSandbox(LIMITS);
  try {
    let errors = 0;
    const call = async (latencies: number[]): Promise<void> => {
      const began = performance.now();
      const outcome = await runOn(sandbox, 'neighbour', TRIVIAL, SMALL_ARGS);
      latencies.push(performance.now() - began);
      if (!outcome.ok) errors += 1;
    };
    const callUntil = async (isOver: (calls: number) => boolean): Promise<number[]> => {
      const latencies: number[] = [];
      const all: Promise<void>[] = [];
      for (let calls = 0; !isOver(calls); calls += 1) {
        all.push(call(latencies));
        await pause(CALL_EVERY_MS);
      }
      await Promise.all(all);
      return latencies;
    };

    await callUntil((calls) => calls === WARM_CALLS);
    const alone = await callUntil((calls) => calls === ALONE_CALLS);
    const loop = monitorEventLoopDelay({ resolution: 1 });
    loop.enable();
    let isOver = false;
    const calling = callUntil(() => isOver);
    for (const { code } of fair) await runOn(sandbox, 'hostile', code, {});
    isOver = true;
    const beside = await calling;
    loop.disable();
    return {
      ratio: round(at(beside, 0.99) / at(alone, 0.99)),
      at_most: 2,
      p99_ms: at(beside, 0.99),
      alone_p99_ms: at(alone, 0.99),
      p50_ms: at(beside, 0.5),
      alone_p50_ms: at(alone, 0.5),
      loop_ms: round(loop.max / 1e6),
      loop_at_most_ms: 50,
      calls: beside.length,
      errors,
    };
  } finally {
    await sandbox.close();
  }
};
