// Refuses for a while what has held the event loop too long twice: one tenant's requests must not stop those of the others.
import { PerformanceObserver } from 'node:perf_hooks';
import { z } from 'zod';
import { AppError } from './errors.ts';
import { type OperationName, takeHeld } from './event-loop.ts';
import type { Log } from './log.ts';
import { CALLBACK_CPU_MS_MAX } from './watchdog.ts';

/** A second event of the account within this time refuses the operation. */
const REMEMBERED_MS = 600_000;
/** How long it is refused. */
export const REFUSED_MS = 60_000;
/** Accounts and operations that are remembered: the earliest is forgotten. */
const REMEMBERED_MAX = 1_000;
/** How often the main thread looks for what the watchdog found. */
const LOOK_MS = 100;

export const operationNameSchema = z.object({ account: z.string(), route: z.string(), resource: z.string() });

export type HeldOperations = {
  /** Counts an event. @param isFatal it ended a process: the operation is refused at once. */
  count(name: OperationName, isFatal?: boolean): void;
  /** @throws unavailable, with the time to retry after, while the operation is refused. */
  check(name: OperationName): void;
};

const keyOf = ({ account, route, resource }: OperationName): string => JSON.stringify([account, route, resource]);

const remember = (times: Map<string, number>, key: string, time: number): void => {
  times.delete(key);
  times.set(key, time);
  const [earliest] = times.keys();
  if (times.size > REMEMBERED_MAX && earliest !== undefined) times.delete(earliest);
};

export const createHeldOperations = (now: () => Date): HeldOperations => {
  /** The last event, by account. */
  const events = new Map<string, number>();
  /** The end of the refusal, by operation. */
  const refused = new Map<string, number>();
  return {
    count: (name, isFatal = false) => {
      const at = now().getTime();
      const before = events.get(name.account);
      if (isFatal || (before !== undefined && at - before <= REMEMBERED_MS))
        remember(refused, keyOf(name), at + REFUSED_MS);
      remember(events, name.account, at);
    },
    check: (name) => {
      if (refused.size === 0) return;
      const restMs = (refused.get(keyOf(name)) ?? 0) - now().getTime();
      if (restMs <= 0) return;
      const seconds = Math.ceil(restMs / 1000);
      throw new AppError(
        'unavailable',
        `Requests like this one used more than ${CALLBACK_CPU_MS_MAX / 1000} s of CPU time in one piece. They are refused for ${seconds} s.`,
        { retryAfterSeconds: seconds },
      );
    },
  };
};

/**
 * Logs and counts what the watchdog finds. The time of garbage collections is subtracted first.
 * @param tell called with each name that was counted: other workers refuse the operation too. @returns what stops it.
 */
export const startCountingHeld = (
  { heldOperations, log }: { heldOperations: HeldOperations; log: Log },
  tell: (name: OperationName) => void,
): (() => void) => {
  let collectedMs = 0;
  const observer = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) collectedMs += duration;
  });
  observer.observe({ entryTypes: ['gc'] });

  const conclude = ({ cpuMs, name }: { cpuMs: number; name: string | undefined }): void => {
    const gc_ms = Math.round(collectedMs);
    collectedMs = 0;
    const operation = name === undefined ? undefined : operationNameSchema.parse(JSON.parse(name));
    const isOfOperation = operation !== undefined && cpuMs - gc_ms >= CALLBACK_CPU_MS_MAX;
    log.error(
      { alarm: 'event_loop_held', cpu_ms: cpuMs, gc_ms, ...(isOfOperation && operation) },
      'one callback of the event loop used too much CPU time',
    );
    if (!isOfOperation) return;
    heldOperations.count(operation);
    tell(operation);
  };

  const look = (): void => {
    const held = takeHeld();
    // Node tells of collections after the callbacks of this tick.
    if (held) setImmediate(() => setImmediate(conclude, held));
    else collectedMs = 0;
  };
  const timer = setInterval(look, LOOK_MS).unref();
  return () => {
    clearInterval(timer);
    observer.disconnect();
  };
};
