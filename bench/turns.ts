// Ours and its limit, measured in turns within one run, so that a busy machine slows both.
import { type Load, type LoadResult, runLoad } from './load.ts';
import { startBareRoute } from './servers.ts';

const ROUNDS = 4;
/** Seconds of one turn. */
export const SECONDS = 4;

export const median = (values: number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number;
export const round = (value: number): number => Math.round(value * 1000) / 1000;

/**
 * Ours and the limit in turns, so that a busy machine slows both. The ratio is the median of the turns'.
 * @param between what lies between them, in the same turns: it has a ratio of its own.
 */
export const inTurns = async (
  ours: () => Promise<LoadResult>,
  limit: () => Promise<number>,
  between?: () => Promise<number>,
) => {
  const results: LoadResult[] = [];
  const limits: number[] = [];
  const betweens: number[] = [];
  for (let turn = 0; turn < ROUNDS; turn += 1) {
    results.push(await ours());
    limits.push(await limit());
    if (between) betweens.push(await between());
  }
  const perSecond = results.map(({ requestsPerSecond }) => requestsPerSecond);
  return {
    perSecond: median(perSecond),
    limitPerSecond: median(limits),
    ratio: median(perSecond.map((value, index) => value / (limits[index] as number))),
    betweenRatio: between && median(betweens.map((value, index) => value / (limits[index] as number))),
    p50_ms: median(results.map(({ p50Ms }) => p50Ms)),
    errors: results.reduce((sum, { errors }) => sum + errors, 0),
  };
};

/**
 * A load on the server against the same, URL by URL, on bare routes that answer what the server answers.
 * @param writesUrl a bare route that also writes what the server writes.
 */
export const againstBareRoute = async (load: Load, answer: string, atLeast: number, writesUrl?: string) => {
  const bare = await startBareRoute(answer);
  try {
    const limit: Load = { ...load, url: bare.url };
    await warm(load);
    await warm(limit);
    const writes = writesUrl === undefined ? undefined : { ...load, url: writesUrl };
    if (writes) await warm(writes);
    const perSecond = async (each: Load): Promise<number> => {
      const { requestsPerSecond, errors } = await runLoad(each);
      if (errors > 0) throw new Error('the bare route does not answer');
      return requestsPerSecond;
    };
    const measured = await inTurns(
      () => runLoad(load),
      () => perSecond(limit),
      writes && (() => perSecond(writes)),
    );
    return {
      ratio: round(measured.ratio),
      at_least: atLeast,
      ...(measured.betweenRatio !== undefined && { bare_writes_ratio: round(measured.betweenRatio) }),
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
