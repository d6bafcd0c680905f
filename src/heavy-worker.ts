// Starts and ends the heavy worker: the process that serves tenants with heavy work while others ask. It runs only while a tenant
// needs it, and is replaced at the next need when it ends.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Context } from './modules.ts';
import { createPauses, sendTo, type WorkerProcess } from './worker-process.ts';

/** It ends when no tenant has needed it for so long. */
const IDLE_MS = 600_000;
const LOOK_MS = 30_000;

/** Before it is replaced. */
const PAUSE_MS = { least: 1_000, most: 60_000 };

/** Linux takes 107 bytes as the path of a socket. */
const PATH_BYTES_MAX = 107;

export type HeavyWorker = {
  /** A tenant has heavy work, and others ask. */
  need(): void;
  /** The process, while it runs. */
  current(): WorkerProcess | undefined;
  /** Whether it was told to end. */
  isLeaving(): boolean;
  /** To be called when nothing forwards to it any more. @throws where it did not end as it should. */
  stop(): Promise<void>;
};

/** @param tell tells every process that hands requests over where to. */
export const createHeavyWorker = (
  ctx: Context,
  launch: (socketPath: string) => WorkerProcess,
  tell: (socketPath: string | undefined) => void,
): HeavyWorker => {
  const { log, monotonicMs } = ctx;
  /** Only this user may open it: who reaches the socket says who the client is. */
  let directory: string | undefined;
  let launches = 0;
  let current: WorkerProcess | undefined;
  let isLeaving = false;
  let isStopped = false;
  let hasFailed = false;
  let neededAtMs = 0;
  let startsFromMs = 0;
  const pauseAfter = createPauses(ctx, PAUSE_MS);

  const removeDirectory = (): void => {
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  };

  const newPath = (): string | undefined => {
    if (directory === undefined) {
      directory = mkdtempSync(join(tmpdir(), 'strongroom-heavy-'));
      // Also where this process exits at once.
      process.once('exit', removeDirectory);
    }
    launches += 1;
    const path = join(directory, `${launches}.sock`);
    return Buffer.byteLength(path) <= PATH_BYTES_MAX ? path : undefined;
  };

  const conclude = async (begun: WorkerProcess, beganMs: number): Promise<void> => {
    const end = await begun.ended;
    tell(undefined);
    current = undefined;
    if (isLeaving) hasFailed ||= end.code !== 0;
    else startsFromMs = monotonicMs() + pauseAfter(begun, end, monotonicMs() - beganMs);
    isLeaving = false;
  };

  const start = (): void => {
    const path = newPath();
    if (path === undefined) {
      startsFromMs = Infinity;
      log.warn('no heavy worker starts: the path of its socket would be too long. Set TMPDIR to a shorter one.');
      return;
    }
    const begun = launch(path);
    const { pid } = begun.worker.process;
    current = begun;
    begun.ready.then(
      () => {
        log.info({ pid }, 'the heavy worker serves');
        if (!isLeaving) tell(path);
      },
      (error: Error) => log.error({ error }, 'the heavy worker did not start'),
    );
    void conclude(begun, monotonicMs());
  };

  const leave = (): void => {
    if (!current || isLeaving) return;
    isLeaving = true;
    tell(undefined);
    const { worker, ready } = current;
    // One that does not get ready ends by itself.
    ready.then(
      () => sendTo(worker, { kind: 'stop', drains: false }),
      () => undefined,
    );
  };

  const looking = setInterval(() => {
    if (monotonicMs() - neededAtMs > IDLE_MS) leave();
  }, LOOK_MS).unref();

  return {
    need: () => {
      neededAtMs = monotonicMs();
      if (!current && !isStopped && neededAtMs >= startsFromMs) start();
    },
    current: () => current,
    isLeaving: () => isLeaving,
    async stop() {
      isStopped = true;
      clearInterval(looking);
      const last = current;
      leave();
      await last?.ended;
      removeDirectory();
      process.off('exit', removeDirectory);
      if (hasFailed) throw new Error('the heavy worker did not stop as it should');
    },
  };
};
