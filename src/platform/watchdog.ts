// Kills a process whose event loop is stuck: a worker thread checks whether one turn of the loop used too much CPU time.
// CPU time and not wall time, so that a suspended machine does not trigger it.
import { readFileSync, readlinkSync, write } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { describeError } from './log.ts';

/** Far more than the longest bounded work of one turn. A loop that is blocked longer answers no client in time. */
export const TURN_CPU_MS_MAX = 10_000;

/** Heartbeats of the loop, and checks by the thread, within one limit. */
const LOOKS_IN_LIMIT = 20;

/** How long to wait for the log line. The reader of the log may hang; the process is killed anyway. */
const LOG_WRITTEN_MS = 1000;

type Task = { watchdog: true; turns: SharedArrayBuffer; turnCpuMsMax: number };

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

const logAndEnd = (cpuMs: number): void => {
  const msg = 'one turn of the event loop has used too much CPU time; the process ends, for it serves no client';
  const line = { level: 'fatal', time: new Date().toISOString(), alarm: 'event_loop_stuck', turn_cpu_ms: cpuMs, msg };
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

const watch = ({ turns, turnCpuMsMax }: Task): void => {
  const seen = new Int32Array(turns);
  let turn = -1;
  let cpuMsBefore = 0;
  const timer = setInterval(() => {
    const cpuMs = mainThreadCpuMs();
    const now = Atomics.load(seen, 0);
    if (now !== turn) {
      turn = now;
      cpuMsBefore = cpuMs;
    } else if (cpuMs - cpuMsBefore >= turnCpuMsMax) {
      clearInterval(timer);
      logAndEnd(cpuMs - cpuMsBefore);
    }
  }, turnCpuMsMax / LOOKS_IN_LIMIT);
};

/**
 * Starts the watchdog of this process. Does not keep the process alive. Linux only: elsewhere a thread cannot read the CPU
 * time of another.
 * @returns a function that stops it.
 */
export const startWatchdog = (turnCpuMsMax = TURN_CPU_MS_MAX): (() => Promise<void>) => {
  if (process.platform !== 'linux') return async () => undefined;
  const turns = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const shown = new Int32Array(turns);
  const beat = setInterval(() => Atomics.add(shown, 0, 1), turnCpuMsMax / LOOKS_IN_LIMIT);
  beat.unref();
  const task: Task = { watchdog: true, turns, turnCpuMsMax };
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
