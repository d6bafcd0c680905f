// Runs, in the executor: what each may take, its timers and calls, its slices in the isolate, and its one end. The hard limits
// are the supervisor's; those here make the honest cases quick and their errors exact.
import { availableParallelism } from 'node:os';
import { takeMainCpuNs } from './executor-clock.ts';
import { answerCrypto, answerSlowCrypto } from './executor-crypto.ts';
import {
  AuthorFault,
  type Cell,
  faultBody,
  inTurn,
  openRoom,
  packageTexts,
  partTexts,
  placeOf,
  returnCell,
  type Room,
  takeCell,
} from './executor-rooms.ts';
import { answerUrl } from './executor-url.ts';
import { FRAME_BODY_BYTES_MAX, LOG_CHARACTERS_MAX, LOG_LINES_MAX } from './frames.ts';
import { FETCHES_MAX, type LogLine, SERVICE_CALLS_MAX } from './sandbox.ts';

/** Work of other threads, as much at once as there are cores: what runs is charged, what waits is not. */
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

/** Where what a run has to say goes. */
export type RunOutlet = {
  call(head: { call: number; kind: string }, json: string): void;
  done(head: { ok: boolean; cpu_ms: number; is_stuck: boolean; logs: LogLine[] }, body: string): void;
};

export type Run = {
  settle(call: number, ok: boolean, json: string): void;
};

type Result = { ok: boolean; json: string };

const levels = new Set<unknown>(['debug', 'log', 'info', 'warn', 'error']);

const isTimeout = (error: unknown): boolean =>
  String((error as Error)?.message).startsWith('Script execution timed out');

/** The line of the author's file in place of the stack, which stays here. */
const withPlace = (json: string): string => {
  try {
    const { stack, ...fault } = JSON.parse(json) as { stack?: unknown };
    return JSON.stringify({ ...fault, ...(typeof stack === 'string' && placeOf(stack)) });
  } catch {
    return faultBody('THROWN', { message: '' });
  }
};

/**
 * Begins a run.
 * @param open the room that it runs in.
 * @param ended called once, when its outlet has been told.
 */
export const startRun = (
  work: { kind: 'invoke' | 'check'; input: string; limits: RunLimits },
  open: () => Promise<Room>,
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
  let result: Result | undefined;
  let room: Room | undefined;
  let cell: Cell | undefined;

  const finish = (ok: boolean, body: string, isStuck = false): void => {
    if (isOver) return;
    isOver = true;
    clearTimeout(wallTimer);
    for (const timer of timers.values()) clearTimer(timer);
    timers.clear();
    outlet.done({ ok, cpu_ms: Number(cpuNs / 1000n) / 1000, is_stuck: isStuck, logs }, body);
    ended();
    room?.tenants.delete(tenant);
    if (room && cell) returnCell(room, cell);
  };
  const fail = (code: string, isStuck = false): void => finish(false, faultBody(code), isStuck);
  const wallTimer = setTimeout(() => fail('TIMEOUT_WALL'), limits.wall_ms);
  /** How the room ends it: the run that was in the isolate when its memory ran out is to blame, the others are not. */
  const tenant = { leave: (isCulprit: boolean) => fail(isCulprit ? 'OUT_OF_MEMORY' : 'ROOM_GONE') };

  const endRoom = (of: Room): void => {
    of.isGone = true;
    tenant.leave(true);
    for (const other of of.tenants) other.leave(false);
  };

  const finishWithResult = ({ ok, json }: Result): void => {
    const body = ok ? json : withPlace(json);
    // A character is at least a byte: what is far too long is not measured.
    const { output_bytes_max } = limits;
    if (body.length > output_bytes_max || Buffer.byteLength(body) > output_bytes_max) return fail('OUTPUT_TOO_LARGE');
    finish(ok, body);
  };

  /** One slice of the code: in its turn, under what is left of its CPU time, its CPU time counted. */
  const enter = (...args: unknown[]): Promise<void> => {
    const [inRoom, inCell] = [room, cell];
    if (!inRoom || !inCell) return Promise.resolve();
    return inTurn(inRoom, async () => {
      if (isOver || inRoom.isGone) return;
      const before = inRoom.isolate.cpuTime;
      const leftMs = Math.max(1, Math.ceil(limits.cpu_ms - Number(cpuNs / 1000n) / 1000));
      let isEntered = true;
      // Ends the run, not the thread. Where this very loop stood still meanwhile, the thread may have ended: it is heard first.
      const judge = () =>
        setImmediate(() => {
          // In the queue of slow work it takes nothing: what it waits for ends.
          if (isQueued) guard = setTimeout(judge, STUCK_MS);
          else if (isEntered) fail('TIMEOUT_CPU', true);
        });
      let guard = setTimeout(judge, leftMs + STUCK_MS);
      const began = performance.now();
      let isTimedOut = false;
      try {
        await inCell.enter.apply(undefined, args as never, { timeout: leftMs });
      } catch (error) {
        // A rejection that the code left unhandled comes here as well, in the code's own words.
        isTimedOut = isTimeout(error) && performance.now() - began >= leftMs - 1;
        if (!isTimedOut && !inRoom.isolate.isDisposed)
          keepLog('warn', 'A promise was rejected, and nobody handled it.');
      } finally {
        isEntered = false;
        clearTimeout(guard);
      }
      if (isTimedOut) inRoom.isSpoilt = true;
      if (inRoom.isGone || inRoom.isolate.isDisposed) return endRoom(inRoom);
      cpuNs += inRoom.isolate.cpuTime - before + takeMainCpuNs();
      if (isOver) return;
      // A result that took more than there was is none: whether the engine's own clock saw it is chance.
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

  /** Other threads do it, while this one goes on. By the clock: their CPU time cannot be told apart. */
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
    room = opened;
    await inTurn(opened, () => {
      if (isOver || opened.isGone || opened.isSpoilt) return;
      opened.tenants.add(tenant);
      cell = takeCell(opened);
      cell.host = host;
      cell.slowHost = slowHost;
    });
    if (isOver) return;
    if (!cell?.author) return fail('ROOM_GONE');
    await enter(work.kind, cell.author.derefInto(), work.input);
  };

  begin().catch((error: unknown) => {
    if (error instanceof AuthorFault) finish(false, error.body);
    else fail('ROOM_GONE');
  });

  return {
    settle: (call, ok, json) => {
      // Answered once, and only what was asked.
      if (calls.delete(call)) void enter('settle', call, ok, json);
    },
  };
};

const clearTimer = (timer: NodeJS.Timeout | NodeJS.Immediate | undefined): void => {
  clearTimeout(timer as NodeJS.Timeout);
  clearImmediate(timer as NodeJS.Immediate);
};

/** Loaded code by its key, and the room it runs in where runs share one. */
export type Loaded = { code: string; memoryMb: number; room: Promise<Room> | undefined };

/** The room of loaded code: two callers get one, and one that cannot be opened is tried anew by the next. */
export const sharedRoom = (entry: Loaded): Promise<Room> => {
  if (entry.room) return entry.room;
  const opening = openRoom(entry.code, entry.memoryMb, false);
  entry.room = opening;
  opening.catch(() => {
    if (entry.room === opening) entry.room = undefined;
  });
  return opening;
};
