// Kills a process whose event loop is stuck: a worker thread checks whether one turn of the loop used too much CPU time.
// Before that it names the operation of a callback that is too long, see event-loop.ts.
// CPU time and not wall time, so that a suspended machine does not trigger it.
import { readFileSync, readlinkSync, write } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { loopIndex, loopMemory, type OperationName, viewLoopState } from './event-loop.ts';
import { describeError } from './log.ts';

/** Far more than the longest bounded work of one turn. A loop that is blocked longer answers no client in time. */
export const TURN_CPU_MS_MAX = 10_000;

/** Heartbeats of the loop, and checks by the thread, within the shorter limit. */
const LOOKS_IN_LIMIT = 10;

/** A callback may use so much. Bounded work takes a few milliseconds at most. */
export const CALLBACK_CPU_MS_MAX = 1_000;

/** The alarm of the log line that names what ended the process: the supervisor reads it. */
export const EVENT_LOOP_STUCK = 'event_loop_stuck';

/** How long to wait for the log line. The reader of the log may hang; the process is killed anyway. */
const LOG_WRITTEN_MS = 1000;

/** In ms of CPU time: a turn ends the process, a callback is named. */
type Limits = { turnCpuMsMax: number; callbackCpuMsMax: number };

type Task = Limits & { watchdog: true; memory: SharedArrayBuffer };

/** Ticks of CPU time per second: `USER_HZ`, a constant of Linux. */
const TICKS_A_SECOND = 100;

/**
 * CPU time of the main thread, whose id is that of the process: proc_pid_stat(5), fields 14 and 15. The id is read from /proc,
 * because `process.pid` differs if /proc belongs to another PID namespace.
 */
const mainThreadCpuMs = (): number => {
  const stat = readFileSync(`/proc/self/task/${readlinkSync('/proc/self')}/stat`, 'latin1');
  // The thread name is in parentheses and may contain spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_A_SECOND;
};

/** SIGKILL: a stuck loop runs no signal handlers, and signals with a core dump would write keys to disk. */
const end = (): void => void process.kill(process.pid, 'SIGKILL');

/** @param operation the name of what is marked; undefined where nothing is. */
const logAndEnd = (cpuMs: number, operation: OperationName | undefined): void => {
  const msg = 'one turn of the event loop has used too much CPU time; the process ends, for it serves no client';
  const time = new Date().toISOString();
  const line = { level: 'fatal', time, alarm: EVENT_LOOP_STUCK, turn_cpu_ms: cpuMs, ...operation, msg };
  // The logger needs the stuck main loop, so this writes to standard output directly.
  write(1, `${JSON.stringify(line)}\n`, end);
  setTimeout(end, LOG_WRITTEN_MS);
};

/** Without /proc no CPU time can be read, and the server runs without the watchdog. */
const logLoss = (error: unknown): void => {
  const msg = 'the watchdog of the event loop cannot read the CPU time of the process; the process goes on without it';
  const line = { level: 'error', time: new Date().toISOString(), error: describeError(error), msg };
  write(1, `${JSON.stringify(line)}\n`, () => undefined);
};

const watch = ({ memory, turnCpuMsMax, callbackCpuMsMax }: Task): void => {
  const { numbers, name, heldName } = viewLoopState(memory);
  let turn = -1;
  let marks = -1;
  let turnBeganMs = 0;
  let callbackBeganMs = 0;

  /** Copies the name of what is marked, for the main thread once it goes on. */
  const keepHeld = (cpuMs: number): void => {
    const bytes = numbers[loopIndex.nameBytes] ?? 0;
    name.copy(heldName, 0, 0, bytes);
    numbers[loopIndex.heldNameBytes] = bytes;
    Atomics.store(numbers, loopIndex.heldMs, cpuMs);
  };

  const look = (): void => {
    const cpuMs = mainThreadCpuMs();
    const turnNow = Atomics.load(numbers, loopIndex.turns);
    const marksNow = Atomics.load(numbers, loopIndex.marks);
    if (turnNow !== turn) turnBeganMs = cpuMs;
    if (turnNow !== turn || marksNow !== marks) callbackBeganMs = cpuMs;
    turn = turnNow;
    marks = marksNow;
    if (cpuMs - callbackBeganMs >= callbackCpuMsMax) keepHeld(cpuMs - callbackBeganMs);
    if (cpuMs - turnBeganMs < turnCpuMsMax) return;
    clearInterval(timer);
    const bytes = numbers[loopIndex.nameBytes] ?? 0;
    const operation = bytes === 0 ? undefined : (JSON.parse(name.toString('utf8', 0, bytes)) as OperationName);
    logAndEnd(cpuMs - turnBeganMs, operation);
  };
  const timer = setInterval(look, Math.min(turnCpuMsMax, callbackCpuMsMax) / LOOKS_IN_LIMIT);
};

/**
 * Starts the watchdog of this process. Does not keep the process alive. Linux only: elsewhere a thread cannot read the CPU
 * time of another.
 * @returns a function that stops it.
 */
export const startWatchdog = ({
  turnCpuMsMax = TURN_CPU_MS_MAX,
  callbackCpuMsMax = CALLBACK_CPU_MS_MAX,
}: Partial<Limits> = {}): (() => Promise<void>) => {
  if (process.platform !== 'linux') return async () => undefined;
  const { numbers } = viewLoopState(loopMemory);
  const beat = setInterval(
    () => Atomics.add(numbers, loopIndex.turns, 1),
    Math.min(turnCpuMsMax, callbackCpuMsMax) / LOOKS_IN_LIMIT,
  );
  beat.unref();
  const task: Task = { watchdog: true, memory: loopMemory, turnCpuMsMax, callbackCpuMsMax };
  // The thread gets no environment, which holds keys, and no options of the main thread.
  const worker = new Worker(fileURLToPath(import.meta.url), { workerData: task, env: {}, execArgv: [] });
  worker.on('error', logLoss);
  worker.unref();
  return async () => {
    clearInterval(beat);
    await worker.terminate();
  };
};

if (!isMainThread && (workerData as Partial<Task> | null)?.watchdog === true) watch(workerData as Task);
