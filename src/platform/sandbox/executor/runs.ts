// Runs code in the executor: limits, timers, calls, slices in the isolate, and the end of each run.
// The supervisor enforces the hard limits; the limits here make errors exact.
import { availableParallelism } from 'node:os';
import {
  takeMainCpuNs,
  AuthorFault,
  type RunContext,
  faultBody,
  inTurn,
  openSlot,
  packageTexts,
  partTexts,
  positionOf,
  returnRunContext,
  type IsolateSlot,
  takeRunContext,
} from './isolate-slots.ts';
import { answerCrypto, answerSlowCrypto } from './crypto-calls.ts';
import { answerUrl } from './url-calls.ts';
import { FRAME_BODY_BYTES_MAX, LOG_CHARACTERS_MAX, LOG_LINES_MAX } from '../protocol/frames.ts';
import { FETCHES_MAX, type LogLine, SERVICE_CALLS_MAX } from '../protocol/sandbox.ts';

/** Queues work of other threads, one for each core: running work is charged to its run, waiting work is not. */
const createQueue = (most: number) => {
  let running = 0;
  const waiting: (() => void)[] = [];
  const leave = (): void => {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  };
  return {
    /** @returns what ends the work. */
    enter: async (): Promise<() => void> => {
      if (running < most) running += 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      return leave;
    },
  };
};
const slowQueue = createQueue(availableParallelism());

/** A thread that has not ended this long after its time is up ignores its termination. */
const STUCK_MS = 100;
/** Timers of a run that are pending. */
const TIMERS_MAX = 256;
/** Node's own longest timer; a run never lasts so long. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export type RunLimits = { wall_ms: number; cpu_ms: number; memory_mb: number; output_bytes_max: number };

/** Receives the calls and the result of a run. */
export type RunOutlet = {
  call(head: { call: number; kind: string }, json: string): void;
  done(head: { ok: boolean; cpu_ms: number; is_stuck: boolean; logs: LogLine[] }, body: string): void;
};

export type Run = {
  settle(call: number, ok: boolean, json: string): void;
  cancel(): void;
};

type Result = { ok: boolean; json: string };

const levels = new Set<unknown>(['debug', 'log', 'info', 'warn', 'error']);

const isTimeout = (error: unknown): boolean =>
  String((error as Error)?.message).startsWith('Script execution timed out');

/** The line of the author's file in place of the stack, which stays here. */
const withPosition = (json: string): string => {
  try {
    const { stack, ...fault } = JSON.parse(json) as { stack?: unknown };
    return JSON.stringify({ ...fault, ...(typeof stack === 'string' && positionOf(stack)) });
  } catch {
    return faultBody('THROWN', { message: '' });
  }
};

/**
 * Begins a run.
 * @param open the slot that it runs in.
 * @param ended called once, after `outlet.done`.
 */
export const startRun = (
  work: { kind: 'invoke' | 'check'; input: string; limits: RunLimits },
  open: () => Promise<IsolateSlot>,
  outlet: RunOutlet,
  ended: () => void,
): Run => {
  const { limits } = work;
  const calls = new Set<number>();
  const timers = new Map<number, NodeJS.Timeout | NodeJS.Immediate>();
  const logs: LogLine[] = [];
  let logCharacters = 0;
  let fetches = 0;
  let serviceCalls = 0;
  let cpuNs = 0n;
  let isOver = false;
  let isQueued = false;
  let isInSlice = false;
  let result: Result | undefined;
  let slot: IsolateSlot | undefined;
  let runContext: RunContext | undefined;

  const finish = (ok: boolean, body: string, isStuck = false): void => {
    if (isOver) return;
    isOver = true;
    clearTimeout(wallTimer);
    for (const timer of timers.values()) clearTimer(timer);
    timers.clear();
    outlet.done({ ok, cpu_ms: Number(cpuNs / 1000n) / 1000, is_stuck: isStuck, logs }, body);
    ended();
    slot?.activeRuns.delete(activeRun);
    if (slot && runContext) returnRunContext(slot, runContext);
  };
  const fail = (code: string, isStuck = false): void => finish(false, faultBody(code), isStuck);
  const wallTimer = setTimeout(() => fail('TIMEOUT_WALL'), limits.wall_ms);
  /** The run that was in the isolate when its memory ran out gets the blame; the other runs of the slot do not. */
  const activeRun = { leave: (isCulprit: boolean) => fail(isCulprit ? 'OUT_OF_MEMORY' : 'ISOLATE_GONE') };

  const endSlot = (of: IsolateSlot): void => {
    of.isGone = true;
    activeRun.leave(true);
    for (const other of of.activeRuns) other.leave(false);
  };

  const finishWithResult = ({ ok, json }: Result): void => {
    const body = ok ? json : withPosition(json);
    // A character is at least a byte: what is far too long is not measured.
    const { output_bytes_max } = limits;
    if (body.length > output_bytes_max || Buffer.byteLength(body) > output_bytes_max) return fail('OUTPUT_TOO_LARGE');
    finish(ok, body);
  };

  /** One slice of the code: in its turn, under what is left of its CPU time, its CPU time counted. */
  const enter = (...args: unknown[]): Promise<void> => {
    const [inSlot, inContext] = [slot, runContext];
    if (!inSlot || !inContext) return Promise.resolve();
    return inTurn(inSlot, async () => {
      if (isOver || inSlot.isGone) return;
      const before = inSlot.isolate.cpuTime;
      const leftMs = Math.max(1, Math.ceil(limits.cpu_ms - Number(cpuNs / 1000n) / 1000));
      let isEntered = true;
      isInSlice = true;
      // Ends the run, not the thread. The event loop may have been blocked: events of the thread come first.
      const judge = () =>
        setImmediate(() => {
          // A run in the queue of slow work uses no CPU: what it waits for ends.
          if (isQueued) guard = setTimeout(judge, STUCK_MS);
          else if (isEntered) fail('TIMEOUT_CPU', true);
        });
      let guard = setTimeout(judge, leftMs + STUCK_MS);
      const began = performance.now();
      let isTimedOut = false;
      try {
        await inContext.enter.apply(undefined, args as never, { timeout: leftMs });
      } catch (error) {
        // A rejection that the code left unhandled comes here as well, in the code's own fields.
        isTimedOut = isTimeout(error) && performance.now() - began >= leftMs - 1;
        if (!isTimedOut && !inSlot.isolate.isDisposed)
          keepLog('warn', 'A promise was rejected, and the code did not handle it.');
      } finally {
        isEntered = false;
        isInSlice = false;
        clearTimeout(guard);
      }
      if (isTimedOut) inSlot.isTainted = true;
      if (inSlot.isGone || inSlot.isolate.isDisposed) return endSlot(inSlot);
      cpuNs += inSlot.isolate.cpuTime - before + takeMainCpuNs();
      if (isOver) return;
      // A result that took too much CPU time does not count, whether the engine's own clock noticed or not.
      if (isTimedOut || cpuNs / 1_000_000n >= BigInt(limits.cpu_ms)) return fail('TIMEOUT_CPU');
      if (result) finishWithResult(result);
    });
  };

  const keepLog = (level: unknown, text: string): undefined => {
    const left = LOG_CHARACTERS_MAX - logCharacters;
    if (left <= 0 || logs.length >= LOG_LINES_MAX) return;
    logCharacters += text.length + 1;
    logs.push({ level: (levels.has(level) ? level : 'log') as LogLine['level'], text: text.slice(0, left) });
  };

  const startTimer = (id: number, delayMs: number): boolean => {
    if (timers.size >= TIMERS_MAX) return false;
    const tick = (): void => {
      timers.delete(id);
      void enter('tick', id);
    };
    const delay = Number.isFinite(delayMs) ? Math.min(delayMs, TIMER_MS_MAX) : 0;
    timers.set(id, delay <= 0 ? setImmediate(tick) : setTimeout(tick, delay));
    return true;
  };

  const startCall = (call: number, kind: string, json: unknown): string => {
    if (typeof json !== 'string') return 'NOT_JSON';
    const isFetch = kind === 'fetch';
    if (isFetch ? fetches >= FETCHES_MAX : serviceCalls >= SERVICE_CALLS_MAX) return 'CALL_LIMIT';
    if (json.length > FRAME_BODY_BYTES_MAX || Buffer.byteLength(json) > FRAME_BODY_BYTES_MAX) return 'BODY_TOO_LARGE';
    if (isFetch) fetches += 1;
    else serviceCalls += 1;
    calls.add(call);
    outlet.call({ call, kind: kind.slice(0, 40) }, json);
    return '';
  };

  /** Runs in other threads. Charged by the clock, since their CPU time cannot be measured for each run. */
  const slowHost = async (operation: string, json: string): Promise<string | undefined> => {
    isQueued = true;
    const leave = await slowQueue.enter();
    isQueued = false;
    if (isOver) return void leave();
    const began = process.hrtime.bigint();
    try {
      return await answerSlowCrypto(operation, json);
    } finally {
      cpuNs += process.hrtime.bigint() - began;
      leave();
    }
  };

  const host = (op: unknown, args: unknown[]): string | number | boolean | undefined => {
    if (isOver) return undefined;
    switch (op) {
      case 'crypto':
        return answerCrypto(String(args[0]), String(args[1]));
      case 'url':
        return answerUrl(String(args[0]), ...args.slice(1).map(String));
      case 'source':
        return packageTexts.get(String(args[0]));
      case 'part':
        return partTexts.get(String(args[0]));
      case 'done':
        result ??= { ok: args[0] === true, json: String(args[1]) };
        return undefined;
      case 'log':
        return keepLog(args[0], String(args[1]));
      case 'timer':
        return startTimer(Number(args[0]), Number(args[1]));
      case 'untimer':
        clearTimer(timers.get(Number(args[0])));
        timers.delete(Number(args[0]));
        return undefined;
      case 'call':
        return startCall(Number(args[0]), String(args[1]), args[2]);
      default:
        return undefined;
    }
  };

  const begin = async (): Promise<void> => {
    const opened = await open();
    slot = opened;
    await inTurn(opened, () => {
      if (isOver || opened.isGone || opened.isTainted) return;
      opened.activeRuns.add(activeRun);
      runContext = takeRunContext(opened);
      runContext.host = host;
      runContext.slowHost = slowHost;
    });
    if (isOver) return;
    if (!runContext?.author) return fail('ISOLATE_GONE');
    await enter(work.kind, runContext.author.derefInto(), work.input);
  };

  begin().catch((error: unknown) => {
    if (error instanceof AuthorFault) finish(false, error.body);
    else fail('ISOLATE_GONE');
  });

  return {
    settle: (call, ok, json) => {
      // Only a call that was made is answered, and once.
      if (calls.delete(call)) void enter('settle', call, ok, json);
    },
    // Code that is running now goes on to its CPU limit, as after a timeout.
    cancel: () => fail(isInSlice ? 'TIMEOUT_WALL' : 'CANCELLED'),
  };
};

const clearTimer = (timer: NodeJS.Timeout | NodeJS.Immediate | undefined): void => {
  clearTimeout(timer as NodeJS.Timeout);
  clearImmediate(timer as NodeJS.Immediate);
};

/** Loaded code by its key, and the slot it runs in where runs share one. */
export type Loaded = { code: string; memoryMb: number; slot: Promise<IsolateSlot> | undefined };

/** The slot of loaded code: concurrent callers share it, and the next caller tries again where it could not be opened. */
export const sharedSlot = (entry: Loaded): Promise<IsolateSlot> => {
  if (entry.slot) return entry.slot;
  const opening = openSlot(entry.code, entry.memoryMb, false);
  entry.slot = opening;
  opening.catch(() => {
    if (entry.slot === opening) entry.slot = undefined;
  });
  return opening;
};
