// Ours and its limit, measured in turns within one run, so that a busy machine slows both.
import { type Load, type LoadResult, runLoad } from './load.ts';
import { startBareRoute } from './servers.ts';

const ROUNDS = 4;
/** Seconds of one turn. */
export const SECONDS = 4;

export const median = (values: number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number;
export const round = (value: number): number => Math.round(value * 1000) / 1000;

/** Ours and the limit in turns, so that a busy machine slows both. The ratio is the median of the turns'. */
export const inTurns = async (ours: () => Promise<LoadResult>, limit: () => Promise<number>) => {
  const results: LoadResult[] = [];
  const limits: number[] = [];
  for (let turn = 0; turn < ROUNDS; turn += 1) {
    results.push(await ours());
    limits.push(await limit());
  }
  const perSecond = results.map(({ requestsPerSecond }) => requestsPerSecond);
  return {
    perSecond: median(perSecond),
    limitPerSecond: median(limits),
    ratio: median(perSecond.map((value, index) => value / (limits[index] as number))),
    p50_ms: median(results.map(({ p50Ms }) => p50Ms)),
    errors: results.reduce((sum, { errors }) => sum + errors, 0),
  };
};

/** A load on the server against the same, URL by URL, on bare routes that answer what the server answers. */
export const againstBareRoute = async (load: Load, answer: string, atLeast: number) => {
  const bare = await startBareRoute(answer);
  try {
    const limit: Load = { ...load, url: bare.url };
    await warm(load);
    await warm(limit);
    const measured = await inTurns(
      () => runLoad(load),
      async () => {
        const { requestsPerSecond, errors } = await runLoad(limit);
        if (errors > 0) throw new Error('the bare route does not answer');
        return requestsPerSecond;
      },
    );
    return {
      ratio: round(measured.ratio),
      at_least: atLeast,
      requests_per_second: Math.round(measured.perSecond),
      limit_per_second: Math.round(measured.limitPerSecond),
      p50_ms: measured.p50_ms,
      errors: measured.errors,
    };
  } finally {
    await bare.stop();
  }
};

export const headersOf = (api_key: string) => ({ 'svc-api-key': api_key, 'content-type': 'application/json' });

/** Both sides are measured warm: compiled, connected, with statements prepared. */
const WARM_SECONDS = 6;

export const warm = (load: Load) => runLoad({ ...load, seconds: WARM_SECONDS });
