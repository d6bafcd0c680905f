// When a failed request is sent again: pauses that grow, and those that the server asks for with Retry-After and RateLimit.

/** Time, for tests of the caller: a test need not wait. */
export type Clock = {
  /** In ms since any moment. */
  now(): number;
  /** @throws the reason of the signal when it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
};

/** The first pause. Each further one is twice as long. */
const PAUSE_MS = 250;
/** A pause that the server has not asked for. */
const PAUSE_MS_MAX = 8_000;

export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const abort = (): void => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', abort);
        resolve();
      }, ms);
      signal?.addEventListener('abort', abort, { once: true });
    }),
};

/** A random half, so that clients that failed at once do not come again at once. @param failures from 1. */
export const pauseAfter = (failures: number): number =>
  Math.min(PAUSE_MS_MAX, PAUSE_MS * 2 ** (failures - 1)) * (0.5 + Math.random() / 2);

/** @returns ms, for seconds or a date (RFC 9110 section 10.2.3). */
export const readRetryAfter = (headers: Headers): number | undefined => {
  const text = headers.get('retry-after')?.trim() ?? '';
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000;
  const date = text.endsWith('GMT') ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
};

/** @returns for how many ms the application may send nothing: `RateLimit: "rate_limit";r=0;t=1`. Daily limits stop no other request. */
export const readExhaustion = (headers: Headers): number => {
  const seconds = /"rate_limit";r=0;t=(\d{1,6})/.exec(headers.get('ratelimit') ?? '')?.[1];
  return Number(seconds ?? 0) * 1_000;
};
