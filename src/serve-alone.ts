// Serves in this process, without a supervisor, and starts a heavy worker where a tenant needs it.
import type { Worker } from 'node:cluster';
import type { DestinationStream } from 'pino';
import { createHeavyWorker } from './heavy-worker.ts';
import type { Context } from './modules.ts';
import { serve, type Serving } from './serve.ts';
import { createWorkerFigures } from './worker-metrics.ts';
import { launchWorker, sendTo, type WorkerListener, type WorkerProcess } from './worker-process.ts';

/** @param output where the lines of the heavy worker's log go. */
export const serveAlone = async (ctx: Context, output: DestinationStream): Promise<Serving> => {
  if (!ctx.config.hasHeavyWorker) return serve(ctx);

  const workers = (): Worker[] => {
    const process = heavyWorker.current();
    return process ? [process.worker] : [];
  };
  const figures = createWorkerFigures(workers, sendTo, ctx.metrics);
  const heavy = (tenant_ids: string[]): void => {
    heavyWorker.need();
    ctx.accounts.heavyTenants.tell(tenant_ids);
  };
  const listener: WorkerListener = {
    held: (_worker, operation, isFatal) => ctx.heldOperations.count(operation, isFatal),
    heavy,
    message: figures.receive,
  };
  const launch = (heavySocket: string): WorkerProcess => {
    const launched = launchWorker(ctx, { output, listener, heavySocket });
    void launched.ended.then(() => figures.ended(launched.worker, heavyWorker.isLeaving()));
    return launched;
  };
  const heavyWorker = createHeavyWorker(ctx, launch, (socket) => (ctx.accounts.heavyTenants.socket = socket));

  const serving = await serve(ctx, {
    held: (operation) => {
      for (const worker of workers()) sendTo(worker, { kind: 'held', operation, is_fatal: false });
    },
    heavy,
  });
  return {
    ...serving,
    metricsText: figures.text,
    async stop(how) {
      await serving.stop(how);
      await heavyWorker.stop();
    },
  };
};
