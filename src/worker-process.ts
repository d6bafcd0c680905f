// Starts one worker: a process with the modules of a whole server. Tells what it says and how it ends.
import cluster, { type Worker } from 'node:cluster';
import type { Readable, Writable } from 'node:stream';
import type { DestinationStream } from 'pino';
import type { Context } from './modules.ts';
import { withheldVariables } from './platform/config/config.ts';
import { findRootKeyBytes } from './platform/keys/vault-keys.ts';
import { urlOf } from './platform/dev-postgres/connection.ts';
import { StartError } from './platform/base/errors.ts';
import type { OperationName } from './platform/base/event-loop.ts';
import { operationNameSchema } from './platform/base/held-operations.ts';
import { EVENT_LOOP_STUCK } from './platform/base/watchdog.ts';
import { type FromWorker, KEYS_FD, parseFromWorker, type ToWorker } from './worker-messages.ts';

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

export type WorkerProcess = {
  worker: Worker;
  /** Address that it listens on. @throws StartError where it ends before. */
  ready: Promise<string>;
  ended: Promise<{ code: number | null; signal: string | null }>;
};

/** What a worker tells. */
export type WorkerListener = {
  /** It was told to start: what it is sent now it knows before it serves. */
  started?(worker: Worker): void;
  /** An operation held its event loop; `isFatal` where that ended it. */
  held(worker: Worker, operation: OperationName, isFatal: boolean): void;
  /** These tenants have heavy work. */
  heavy(tenant_ids: string[]): void;
  /** Any other message. */
  message(worker: Worker, message: FromWorker): void;
};

export type Launch = {
  /** Stream for the lines of its log. */
  output: DestinationStream;
  listener: WorkerListener;
  /** Socket of the heavy worker; undefined for any other. */
  heavySocket?: string | undefined;
};

/** Nothing where the worker has ended. */
export const sendTo = (worker: Worker, message: ToWorker): void => {
  if (worker.isConnected()) worker.send(message, () => undefined);
};

/** Starts a worker. It runs `runWorker` of server.ts. */
export const launchWorker = (ctx: Context, { output, listener, heavySocket }: Launch): WorkerProcess => {
  const { rootKey, previousRootKeys, keyShares } = ctx.config;
  const isSplit = keyShares.length > 0;
  // Each time: the process that answers for a sealed vault is launched with others. Index 4 is KEYS_FD.
  cluster.setupPrimary({ stdio: ['ignore', 'pipe', 'inherit', 'ipc', ...(isSplit ? (['pipe'] as const) : [])] });
  const worker = cluster.fork(withheldVariables());
  if (isSplit) giveKeys(worker, rootKey ? [rootKey, ...previousRootKeys] : []);
  passLines(worker.process.stdout as Readable, output, (lines) => {
    const operation = findFatalOperation(lines);
    if (operation) listener.held(worker, operation, true);
  });
  closeLastConnection(worker);
  // The error is that of a process that cannot be made now; `close` follows.
  worker.on('error', (error) => ctx.log.error({ error }, 'a worker has a failure'));
  const ended: WorkerProcess['ended'] = new Promise((resolve) => {
    worker.process.once('close', (code, signal) => resolve({ code, signal }));
  });
  const ready = new Promise<string>((resolve, reject) => {
    worker.on('message', (message: unknown) => {
      const parsed: FromWorker = parseFromWorker(message);
      if (parsed.kind === 'ready') resolve(parsed.base_url);
      else if (parsed.kind === 'failed') reject(new StartError(parsed.text, { isFinal: parsed.is_final }));
      else if (parsed.kind === 'held') listener.held(worker, parsed.operation, false);
      else if (parsed.kind === 'heavy_tenants') listener.heavy(parsed.tenant_ids);
      else listener.message(worker, parsed);
    });
    void ended.then(({ code, signal }) =>
      reject(new StartError(`A worker ended with ${signal ?? code} before it served. Its output says why.`)),
    );
  });
  variablesOf(ctx).then(
    (variables) => {
      sendTo(worker, { kind: 'start', variables, has_keys: isSplit, heavy_socket: heavySocket });
      listener.started?.(worker);
    },
    (error: unknown) => {
      ctx.log.error({ error }, 'a worker has a failure');
      worker.process.kill('SIGKILL');
    },
  );
  return { worker, ready, ended };
};

/** A worker that lived this long is replaced after the shortest pause again. */
const STEADY_MS = 60_000;

/**
 * Pauses before a worker is replaced: each is twice the one before while workers end soon, so that a cause that stays does not take
 * all CPU time.
 * @returns called when a worker has ended, with the time since it was launched: logs the alarm, and gives the pause.
 */
export const createPauses = (
  { log }: Pick<Context, 'log'>,
  { least, most }: { least: number; most: number },
): ((ended: WorkerProcess, end: { code: number | null; signal: string | null }, livedMs: number) => number) => {
  let pauseMs = least;
  return ({ worker }, { code, signal }, livedMs) => {
    log.error({ alarm: 'worker_ended', pid: worker.process.pid, code, signal }, 'a worker ended');
    const taken = livedMs > STEADY_MS ? least : pauseMs;
    pauseMs = Math.min(taken * 2, most);
    return taken;
  };
};
