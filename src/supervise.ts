// Serves by several workers: processes that share the port, each with the modules of a whole server. Replaces those that end.
import cluster, { type Worker } from 'node:cluster';
import { setTimeout as pause } from 'node:timers/promises';
import type { DestinationStream } from 'pino';
import { createHeavyWorker } from './heavy-worker.ts';
import type { Context } from './modules.ts';
import type { StartError } from './platform/base/errors.ts';
import { REFUSED_MS } from './platform/base/held-operations.ts';
import type { Serving } from './serve.ts';
import { createWorkerFigures } from './worker-metrics.ts';
import type { ToWorker } from './worker-messages.ts';
import { createPauses, launchWorker, sendTo, type WorkerListener, type WorkerProcess } from './worker-process.ts';

/** Before a worker is replaced. */
const PAUSE_MS = { least: 100, most: 30_000 };

/** So many events are kept for workers that start later. */
const HELD_KEPT_MAX = 100;

/** Messages of one worker that the others must know, also those that start later. */
const createNews = (ctx: Context, workers: () => Iterable<WorkerProcess>) => {
  /** A worker that starts later must refuse what ended the one before it. */
  let heldBefore: { told: ToWorker; atMs: number }[] = [];
  let heavySocket: string | null = null;
  const tellAll = (told: ToWorker, from?: Worker): void => {
    for (const { worker } of workers()) if (worker !== from) sendTo(worker, told);
  };
  return {
    tellAll,
    tellHeld: (told: ToWorker, from: Worker): void => {
      heldBefore = [...heldBefore, { told, atMs: ctx.monotonicMs() }].slice(-HELD_KEPT_MAX);
      tellAll(told, from);
    },
    tellHeavy: (socket: string | undefined): void => {
      heavySocket = socket ?? null;
      tellAll({ kind: 'heavy_worker', socket: heavySocket });
    },
    tellNew: (worker: Worker): void => {
      for (const { told, atMs } of heldBefore) if (ctx.monotonicMs() - atMs < REFUSED_MS) sendTo(worker, told);
      sendTo(worker, { kind: 'heavy_worker', socket: heavySocket });
    },
  };
};

/**
 * Serves by workers until it is stopped.
 * @param output where the lines of their logs go. @throws StartError where one of them does not start the first time.
 */
export const supervise = async (ctx: Context, output: DestinationStream): Promise<Serving> => {
  const stopping = new AbortController();
  const running = new Set<WorkerProcess>();
  let hasFailed = false;
  /** False once another start of any worker would do harm, as a wrong PIN does that is tried again. */
  let mayLaunch = true;

  // The supervisor accepts connections and gives them to workers in turn: see docs/decisions/0048-workers.md.
  cluster.schedulingPolicy = cluster.SCHED_RR;

  const figures = createWorkerFigures(() => [...running].map(({ worker }) => worker), sendTo);
  const news = createNews(ctx, () => running);
  const listener: WorkerListener = {
    started: news.tellNew,
    held: (from, operation, is_fatal) => news.tellHeld({ kind: 'held', operation, is_fatal }, from),
    heavy: (tenant_ids) => {
      if (!ctx.config.hasHeavyWorker || stopping.signal.aborted) return;
      heavyWorker.need();
      news.tellAll({ kind: 'heavy_tenants', tenant_ids });
    },
    message: figures.receive,
  };

  const launch = (heavySocket?: string): WorkerProcess => {
    const launched = launchWorker(ctx, { output, listener, heavySocket });
    running.add(launched);
    void launched.ended.then(() => {
      running.delete(launched);
      const isWanted = stopping.signal.aborted || (heavySocket !== undefined && heavyWorker.isLeaving());
      figures.ended(launched.worker, isWanted);
    });
    return launched;
  };

  const heavyWorker = createHeavyWorker(ctx, launch, news.tellHeavy);

  /** Replaces a worker when it ends, and each that replaces it, unless another start would do harm. */
  const keep = async (first: WorkerProcess): Promise<void> => {
    const pauseAfter = createPauses(ctx, PAUSE_MS);
    for (let current = first; ;) {
      const beganMs = ctx.monotonicMs();
      const end = await current.ended;
      if (stopping.signal.aborted) {
        if (end.code !== 0) hasFailed = true;
        return;
      }
      const pauseMs = pauseAfter(current, end, ctx.monotonicMs() - beganMs);
      await pause(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      if (!mayLaunch) {
        ctx.log.error({ alarm: 'worker_missing' }, 'no worker takes its place until this server is restarted');
        return;
      }
      current = launch();
      const { pid } = current.worker.process;
      current.ready.then(
        () => ctx.log.info({ pid }, 'a worker took its place'),
        (error: StartError) => {
          console.error(error.message);
          if (error.isFinal) mayLaunch = false;
        },
      );
    }
  };

  // Also where this process exits at once. A worker whose loop is stuck hears no message.
  const killAll = (): void => {
    for (const { worker } of running) worker.process.kill('SIGKILL');
  };
  process.once('exit', killAll);

  const launchAll = async (): Promise<{ base_url: string; launched: WorkerProcess[] }> => {
    // One by one at first: a cause that keeps all from starting is told once.
    const first = launch();
    const base_url = await first.ready;
    const others = Array.from({ length: ctx.config.workers - 1 }, () => launch());
    await Promise.all(others.map(({ ready }) => ready));
    return { base_url, launched: [first, ...others] };
  };
  const { base_url, launched } = await launchAll().catch(async (error: unknown) => {
    // They must be gone before their database is.
    killAll();
    await Promise.all([...running].map(({ ended }) => ended));
    throw error;
  });
  const kept = launched.map(keep);

  return {
    base_url,
    metricsText: figures.text,
    async stop({ drains, killAfterMs }) {
      stopping.abort();
      const heavy = heavyWorker.current();
      for (const each of running) if (each !== heavy) sendTo(each.worker, { kind: 'stop', drains });
      const timer = killAfterMs === undefined ? undefined : setTimeout(killAll, killAfterMs);
      await Promise.all(kept);
      // The others hand requests over to it until they end.
      await heavyWorker.stop().catch(() => (hasFailed = true));
      clearTimeout(timer);
      process.off('exit', killAll);
      if (hasFailed) throw new Error('a worker did not stop as it should');
    },
  };
};
