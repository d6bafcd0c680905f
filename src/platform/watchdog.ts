// Ends a process whose event loop is stuck: a thread of its own looks whether one turn of the loop has used too much CPU
// time of the main thread. CPU time and not wall time, so that a machine that was suspended ends nothing.
import { readFileSync, readlinkSync, write } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { describeError } from './log.ts';

/** Far beyond what the longest bounded work of one turn takes. A loop that is held longer answers no client in time. */
export const TURN_CPU_MS_MAX = 10_000;

/** The loop shows this often that it turns, and the thread looks as often: a fraction of the limit. */
const LOOKS_IN_LIMIT = 20;

/** Whoever reads the log may hang: the process ends all the same. */
const LOG_WRITTEN_MS = 1000;

type Task = { watchdog: true; turns: SharedArrayBuffer; turnCpuMsMax: number };

/** Ticks of CPU time in a second: `USER_HZ`, which Linux fixes for all programs. */
const TICKS_A_SECOND = 100;

/**
 * CPU time of the main thread, whose id is that of the process; proc_pid_stat(5), fields 14 and 15. The id is the one that
 * /proc has for the process: in another PID namespace than that of /proc, `process.pid` is another one.
 */
const mainThreadCpuMs = (): number => {
  const stat = readFileSync(`/proc/self/task/${readlinkSync('/proc/self')}/stat`, 'latin1');
  // The name of the thread is in parentheses and may hold blanks.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_A_SECOND;
};

/** No handler of a signal would run in a loop that is stuck, and a core dump would hold keys: SIGKILL leaves neither. */
const end = (): void => void process.kill(process.pid, 'SIGKILL');

const logAndEnd = (cpuMs: number): void => {
  const msg = 'one turn of the event loop has used too much CPU time; the process ends, for it serves no client';
  const line = { level: 'fatal', time: new Date().toISOString(), alarm: 'event_loop_stuck', turn_cpu_ms: cpuMs, msg };
  // The log of the main thread is written by its loop. Standard output is written to directly.
  write(1, `${JSON.stringify(line)}\n`, end);
  setTimeout(end, LOG_WRITTEN_MS);
};

/** Without /proc no CPU time can be read: the server works without the watchdog. */
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
 * Watches this process from now on. It keeps no process alive. Linux only, where servers run: elsewhere the time of one thread
 * cannot be read from another.
 * @returns what ends the watch.
 */
export const startWatchdog = (turnCpuMsMax = TURN_CPU_MS_MAX): (() => Promise<void>) => {
  if (process.platform !== 'linux') return async () => undefined;
  const turns = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const shown = new Int32Array(turns);
  const beat = setInterval(() => Atomics.add(shown, 0, 1), turnCpuMsMax / LOOKS_IN_LIMIT);
  beat.unref();
  const task: Task = { watchdog: true, turns, turnCpuMsMax };
  // It gets no environment, where keys are, and none of the options of the main thread.
  const worker = new Worker(fileURLToPath(import.meta.url), { workerData: task, env: {}, execArgv: [] });
  worker.on('error', logLoss);
  worker.unref();
  return async () => {
    clearInterval(beat);
    await worker.terminate();
  };
};

if (!isMainThread && (workerData as Partial<Task> | null)?.watchdog === true) watch(workerData as Task);
