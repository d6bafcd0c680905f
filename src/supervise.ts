// Serves by several workers: processes that share the port, each with the modules of a whole server. Replaces those that end.
import cluster, { type Worker } from 'node:cluster';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { DestinationStream } from 'pino';
import type { Context } from './modules.ts';
import { withheldVariables } from './platform/config.ts';
import { findRootKeyBytes } from './platform/crypto/vault-keys.ts';
import { urlOf } from './platform/dev-postgres/connection.ts';
import { StartError } from './platform/errors.ts';
import type { OperationName } from './platform/event-loop.ts';
import { operationNameSchema, REFUSED_MS } from './platform/held-operations.ts';
import { EVENT_LOOP_STUCK } from './platform/watchdog.ts';
import type { Serving } from './serve.ts';
import { createWorkerFigures } from './worker-metrics.ts';
import { type FromWorker, KEYS_FD, parseFromWorker, type ToWorker } from './worker-messages.ts';

/** The pause before a worker is replaced: it doubles while workers end soon, so that a cause that stays does not take all CPU. */
const PAUSE_MS_MIN = 100;
const PAUSE_MS_MAX = 30_000;
/** A worker that lived this long is replaced after the shortest pause again. */
const STEADY_MS = 60_000;

/** So many events are kept for workers that start later. */
const HELD_KEPT_MAX = 100;

/** Passes on whole lines only: workers write at the same time. @param seen called with them. */
const passLines = (from: Readable, to: DestinationStream, seen: (lines: string) => void): void => {
  let rest = '';
  from.setEncoding('utf8');
  from.on('data', (chunk: string) => {
    const end = chunk.lastIndexOf('\n') + 1;
    const lines = rest + chunk.slice(0, end);
    rest = end > 0 ? chunk.slice(end) : rest + chunk;
    if (end === 0) return;
    to.write(lines);
    seen(lines);
  });
};

/** The operation that ended a worker, by the last line of its watchdog. The worker itself can send no message then. */
const findFatalOperation = (lines: string): OperationName | undefined => {
  const line = lines.split('\n').find((each) => each.includes(`"alarm":"${EVENT_LOOP_STUCK}"`));
  return line === undefined ? undefined : operationNameSchema.safeParse(JSON.parse(line)).data;
};

/**
 * What a worker's configuration is made of. It connects to an embedded database as to any other, and does not migrate. Keys of
 * shares are not among it: see `giveKeys`.
 */
const variablesOf = async (ctx: Context): Promise<Record<string, string>> => {
  const { MASTER_KEY_SHARES: shares, ...variables } = ctx.config.variables;
  const key = shares === undefined ? await findRootKeyBytes(ctx.config) : undefined;
  return {
    ...variables,
    ...(ctx.embedded && { DATABASE_URL: urlOf(ctx.embedded.address) }),
    ...(key && { MASTER_KEY: key.toString('base64') }),
    MIGRATE_ON_START: 'false',
    WORKERS: String(ctx.config.workers),
  };
};

/** Sends keys as bytes, which can be overwritten. A text would stay in the memory of this process after it was sealed. */
const giveKeys = (worker: Worker, keys: readonly Uint8Array[]): void => {
  const bytes = Buffer.concat(keys);
  const pipe = worker.process.stdio[KEYS_FD] as Writable;
  pipe.on('error', () => undefined);
  pipe.end(bytes, () => bytes.fill(0));
};

/**
 * Closes the connection that a worker was given just before it ended. Node's cluster closes its own copy of a connection when
 * the worker answers, so that the client of a worker that was killed would wait for ever.
 */
const closeLastConnection = (worker: Worker): void => {
  const child = worker.process;
  const send = child.send.bind(child) as (...args: unknown[]) => boolean;
  let last: { close?(): void } | undefined;
  child.send = (message: unknown, handle?: unknown, ...rest: unknown[]): boolean => {
    if (typeof handle === 'object' && handle !== null) last = handle;
    return send(message, handle, ...rest);
  };
  // A handle that is closed already stays so.
  child.once('exit', () => last?.close?.());
};

type Running = {
  worker: Worker;
  /** Where it listens. @throws StartError where it ends before. */
  ready: Promise<string>;
  ended: Promise<{ code: number | null; signal: string | null }>;
};

/**
 * Serves by workers until it is stopped. Each runs `startWorker` of server.ts.
 * @param output where the lines of their logs go. @throws StartError where one of them does not start the first time.
 */
export const supervise = async (ctx: Context, output: DestinationStream): Promise<Serving> => {
  const stopping = new AbortController();
  const running = new Set<Running>();
  const { rootKey, previousRootKeys, keyShares } = ctx.config;
  const isSplit = keyShares.length > 0;
  const keys = rootKey ? [rootKey, ...previousRootKeys] : [];
  let hasFailed = false;
  /** False once another start of any worker would do harm, as a wrong PIN does that is tried again. */
  let mayLaunch = true;

  // The supervisor accepts connections and gives them to workers in turn: see docs/decisions/0048-workers.md.
  cluster.schedulingPolicy = cluster.SCHED_RR;

  const send = (worker: Worker, message: ToWorker): void => {
    if (worker.isConnected()) worker.send(message, () => undefined);
  };

  const figures = createWorkerFigures(() => [...running].map(({ worker }) => worker), send);

  /** A worker that starts later must refuse what ended the one before it. */
  let heldBefore: { told: ToWorker; atMs: number }[] = [];
  const tellHeld = (told: ToWorker, from: Worker): void => {
    const atMs = ctx.monotonicMs();
    heldBefore = [...heldBefore, { told, atMs }].slice(-HELD_KEPT_MAX);
    for (const { worker } of running) if (worker !== from) send(worker, told);
  };

  const launch = (): Running => {
    // Each time: the process that answers for a sealed vault is launched with others. Index 4 is KEYS_FD.
    cluster.setupPrimary({ stdio: ['ignore', 'pipe', 'inherit', 'ipc', ...(isSplit ? (['pipe'] as const) : [])] });
    const worker = cluster.fork(withheldVariables());
    if (isSplit) giveKeys(worker, keys);
    passLines(worker.process.stdout as Readable, output, (lines) => {
      const operation = findFatalOperation(lines);
      if (operation) tellHeld({ kind: 'held', operation, is_fatal: true }, worker);
    });
    closeLastConnection(worker);
    // Where no process can be made now; `close` follows.
    worker.on('error', (error) => ctx.log.error({ error }, 'a worker has a failure'));
    const ended: Running['ended'] = new Promise((resolve) => {
      worker.process.once('close', (code, signal) => resolve({ code, signal }));
    });
    const ready = new Promise<string>((resolve, reject) => {
      worker.on('message', (message: unknown) => {
        const parsed: FromWorker = parseFromWorker(message);
        if (parsed.kind === 'ready') resolve(parsed.base_url);
        else if (parsed.kind === 'failed') reject(new StartError(parsed.text, { isFinal: parsed.is_final }));
        else if (parsed.kind === 'held') tellHeld({ ...parsed, is_fatal: false }, worker);
        else figures.receive(worker, parsed);
      });
      void ended.then(({ code, signal }) =>
        reject(new StartError(`A worker ended with ${signal ?? code} before it served. Its output says why.`)),
      );
    });
    const launched = { worker, ready, ended };
    running.add(launched);
    void ended.then(() => {
      running.delete(launched);
      if (!stopping.signal.aborted) figures.ended(worker);
    });
    variablesOf(ctx).then(
      (variables) => {
        send(worker, { kind: 'start', variables, has_keys: isSplit });
        for (const { told, atMs } of heldBefore) if (ctx.monotonicMs() - atMs < REFUSED_MS) send(worker, told);
      },
      (error: unknown) => {
        ctx.log.error({ error }, 'a worker has a failure');
        worker.process.kill('SIGKILL');
      },
    );
    return launched;
  };

  /** Replaces a worker when it ends, and each that replaces it, unless another start would do harm. */
  const keep = async (first: Running): Promise<void> => {
    let pauseMs = PAUSE_MS_MIN;
    for (let current = first; ;) {
      const beganMs = ctx.monotonicMs();
      const { code, signal } = await current.ended;
      if (stopping.signal.aborted) {
        if (code !== 0) hasFailed = true;
        return;
      }
      ctx.log.error({ alarm: 'worker_ended', pid: current.worker.process.pid, code, signal }, 'a worker ended');
      if (ctx.monotonicMs() - beganMs > STEADY_MS) pauseMs = PAUSE_MS_MIN;
      await pause(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      if (!mayLaunch) {
        ctx.log.error({ alarm: 'worker_missing' }, 'no worker takes its place until this server is restarted');
        return;
      }
      pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX);
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

  const launchAll = async (): Promise<{ base_url: string; launched: Running[] }> => {
    // One by one at first: a cause that keeps all from starting is told once.
    const first = launch();
    const base_url = await first.ready;
    const others = Array.from({ length: ctx.config.workers - 1 }, launch);
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
      for (const { worker } of running) send(worker, { kind: 'stop', drains });
      const timer = killAfterMs === undefined ? undefined : setTimeout(killAll, killAfterMs);
      await Promise.all(kept);
      clearTimeout(timer);
      process.off('exit', killAll);
      if (hasFailed) throw new Error('a worker did not stop as it should');
    },
  };
};
