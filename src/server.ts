// Starts a server: alone, as the supervisor of workers, or as one of its workers. Stops it gracefully on a signal.
import cluster from 'node:cluster';
import { closeSync, readFileSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import closeWithGrace from 'close-with-grace';
import type { DestinationStream } from 'pino';
import { createFirstTenant } from './first-tenant.ts';
import { readCredentials, refreshBaseUrl } from './modules/access/dev-credentials.ts';
import { type Context, createContext } from './modules.ts';
import {
  adoptVariables,
  type Config,
  configOfWorker,
  CONSOLE_SHARES_HOST,
  FIELDS_SHARE_HOST,
  findMisspelledVariables,
  loadConfig,
  sharesConsoleHost,
  sharesFieldsHost,
} from './platform/config/config.ts';
import { Sensitive } from './platform/crypto/sensitive.ts';
import { ROOT_KEY_BYTES } from './platform/keys/vault-keys.ts';
import { StartError, unavailable } from './platform/base/errors.ts';
import { failureText } from './platform/services/open-database.ts';
import { createLog, useStandardOutput } from './platform/base/log.ts';
import { listenSealed } from './platform/http/sealed-responder.ts';
import { openMetricsServer } from './platform/services/metrics-server.ts';
import { ENDING_SIGNALS } from './platform/base/node-24.ts';
import { IS_IMAGE } from './platform/base/program.ts';
import { startBlock, startFields } from './platform/services/start-block.ts';
import { STOP_MS, STOP_WORKERS_MS } from './platform/base/times.ts';
import { startWatchdog } from './platform/base/watchdog.ts';
import { type Running, startSealed } from './sealable-server.ts';
import { serveAlone } from './serve-alone.ts';
import { listenFault, serve, type Serving } from './serve.ts';
import { supervise } from './supervise.ts';
import { createWorkerMetrics, type WorkerMetrics } from './worker-metrics.ts';
import { type FromWorker, KEYS_FD, parseToWorker } from './worker-messages.ts';

/** npm passes the terminal's Ctrl-C on, so it arrives twice. Signals within this time count as one. */
const SAME_SIGNAL_MS = 1000;

const runningOf = (ctx: Context, serving: Serving): Running => ({
  log: ctx.log,
  async stop(how) {
    try {
      await serving.stop(how);
    } finally {
      how.afterServing?.();
      await ctx.close();
    }
    ctx.log.info('stopped');
  },
});

/** Whether the text has a reader: a terminal, and the log of a container of the development image, whose terminal it is. */
const hasReader = ({ logFormat }: Config): boolean => logFormat === 'auto' && (process.stderr.isTTY || IS_IMAGE);

/** @param apiKey the key that this start made. In a container each start shows the key: its file is not at hand. */
const announceDevelopment = (ctx: Context, base_url: string, apiKey: Sensitive<string> | undefined): void => {
  const { config } = ctx;
  refreshBaseUrl(config, base_url);
  const stored = IS_IMAGE ? readCredentials(config)?.['api_key'] : undefined;
  const shown = apiKey ?? (typeof stored === 'string' ? new Sensitive(stored) : undefined);
  if (hasReader(config)) process.stderr.write(startBlock(ctx, base_url, shown));
  else ctx.log.info(startFields(ctx, base_url), 'development server');
};

/** Tells the operator where the server is. @param made the tenant that this start made. */
const announce = (ctx: Context, { base_url }: Serving, made: Awaited<ReturnType<typeof createFirstTenant>>): void => {
  const { config } = ctx;
  // The address that clients use. The address listened on may be unreachable from outside a container.
  const known_url = config.publicUrl ?? base_url;
  if (config.mode === 'development') announceDevelopment(ctx, IS_IMAGE ? known_url : base_url, made?.api_key);
  if (sharesConsoleHost(config)) ctx.log.warn(CONSOLE_SHARES_HOST);
  if (sharesFieldsHost(config)) ctx.log.warn(FIELDS_SHARE_HOST);
  const docs = config.docs ? { docs: `${known_url}/docs`, openapi: `${known_url}/openapi.json` } : {};
  const workers = config.workers > 1 ? { workers: config.workers } : {};
  ctx.log.info({ base_url: known_url, ...docs, ...workers }, 'listening');
};

/** Listens on METRICS_PORT until the context is closed. @returns where; undefined without the port. @throws StartError. */
const openMetrics = async (ctx: Context, text: () => Promise<string>): Promise<string | undefined> => {
  const { host, port, token } = ctx.config.metrics;
  if (port === undefined) return undefined;
  const server = await openMetricsServer({ host, port, token }, text);
  ctx.onClose(() => server.close());
  return server.url;
};

const isSealable = ({ keyShares }: Config): boolean => keyShares.length > 0;

/** Only workers have the keys of tenants if the vault can be sealed: all that is in their memory goes with them. */
const hasWorkers = (config: Config): boolean => config.workers > 1 || isSealable(config);

const start = async (config: Config, onDirectoryLost: () => void): Promise<Running> => {
  const output = useStandardOutput();
  for (const sentence of findMisspelledVariables()) createLog(config.logLevel, output).warn(sentence);
  const open = (opened: Config): Promise<Running> => startOpen(opened, output, onDirectoryLost);
  return isSealable(config) ? startSealed(config, output, open) : open(config);
};

/** @param config with the root key. */
const startOpen = async (config: Config, output: DestinationStream, onDirectoryLost: () => void): Promise<Running> => {
  const isAlone = !hasWorkers(config);
  let serving: Serving | undefined;
  const textOfAll = async (): Promise<string> => {
    if (!serving) throw unavailable();
    return serving.metricsText();
  };
  const metricsText = isAlone && config.hasHeavyWorker ? textOfAll : undefined;
  const overrides = { onDirectoryLost, logDestination: output, metricsText };
  const ctx = await (isAlone
    ? createContext(configOfWorker(config), 'server', overrides)
    : createContext(config, 'supervisor', overrides));
  try {
    const made = await createFirstTenant(ctx);
    // Before anything is served, so that a port that is taken ends the start.
    const metrics_url = await openMetrics(ctx, textOfAll);
    serving = await (isAlone ? serveAlone(ctx, output) : supervise(ctx, output));
    announce(ctx, serving, made);
    if (metrics_url !== undefined) ctx.log.info({ metrics_url }, 'metrics are served');
    return runningOf(ctx, serving);
  } catch (error) {
    // An error of closing must not hide the error that stopped the start.
    await ctx.close().catch(() => undefined);
    throw error;
  }
};

/** @param config that of the supervisor. @param begun called with what the messages of other workers are for. */
const startWorker = async (config: Config, metrics: WorkerMetrics, begun: (ctx: Context) => void): Promise<Running> => {
  const overrides = { logFields: { pid: process.pid }, metricsText: metrics.text };
  const ctx = await createContext(configOfWorker(config), 'server', overrides);
  metrics.setSource(ctx.metrics);
  try {
    begun(ctx);
    const serving = await serve(ctx, {
      held: (operation) => tellSupervisor({ kind: 'held', operation }),
      heavy: (tenant_ids) => tellSupervisor({ kind: 'heavy_tenants', tenant_ids }),
    });
    tellSupervisor({ kind: 'ready', base_url: serving.base_url });
    return runningOf(ctx, serving);
  } catch (error) {
    await ctx.close().catch(() => undefined);
    throw error;
  }
};

const tellSupervisor = (message: FromWorker, then: () => void = () => undefined): void => {
  if (process.connected) process.send?.(message, then);
  else then();
};

/** Tells the operator why, in a worker by its supervisor, and exits. */
const exitWith = (error: unknown): Promise<never> => {
  const text = failureText(error);
  const is_final = error instanceof StartError && error.isFinal;
  if (cluster.isWorker) tellSupervisor({ kind: 'failed', text, is_final }, () => process.exit(1));
  else {
    console.error(text);
    process.exit(1);
  }
  return new Promise(() => undefined);
};

/** Calls back at the first signal, ignores repetitions within SAME_SIGNAL_MS, and exits at a later one. */
const onSignal = (onFirst: (signal: NodeJS.Signals) => void): void => {
  let hasSignal = false;
  let isLater = false;
  const handle = (signal: NodeJS.Signals): void => {
    if (isLater) {
      console.error('Ended by a second signal. A PostgreSQL that is still running is found by the next start.');
      process.exit(1);
    }
    if (hasSignal) return;
    hasSignal = true;
    // Checked in a later tick: if the event loop was blocked, signals that arrived meanwhile are handled first.
    setTimeout(() => setImmediate(() => (isLater = true)), SAME_SIGNAL_MS).unref();
    onFirst(signal);
  };
  for (const signal of ENDING_SIGNALS) process.on(signal, handle);
};

/**
 * Runs a server until it is stopped, then exits.
 * @param starting called with what stops the server for a reason that is a failure.
 * @returns what stops it. During the start it takes effect after it: a database that is being started would otherwise keep
 * running. The start, which may include a recovery of the database, does not count as time to stop.
 */
const run = (
  config: Config,
  begin: (stopFor: (reason: StartError) => void) => Promise<Running>,
): ((reason: Record<string, unknown>, how: { drains: boolean }) => void) => {
  let running: Running | undefined;
  let failure: StartError | undefined;
  let drains = false;
  const isSupervisor = !cluster.isWorker && (hasWorkers(config) || config.hasHeavyWorker);
  const delay = config.drainMs + STOP_MS + (isSupervisor ? STOP_WORKERS_MS : 0);
  const onSecondError = (error: unknown): void => console.error(failureText(error));
  const options = { delay, logger: false as const, skip: [...ENDING_SIGNALS], onSecondError };
  const { close } = closeWithGrace(options, async ({ err, signal }) => {
    // The error may be why the start does not end. The next start finds a database that is running already.
    if (!running) return exitWith(err ?? new StartError(`${signal ?? 'An empty loop'} ended the start.`));
    if (err) running.log.fatal({ error: err }, 'the server stops after an unhandled error');
    await running.stop({ drains });
    // Exits with 1, so that what started this process notices.
    if (failure) throw failure;
  });
  const starting = begin((reason) => {
    failure = reason;
    void starting.then(close, () => undefined);
  });
  starting.then((started) => (running = started), exitWith);
  return (reason, how) => {
    if (!running && !cluster.isWorker) console.error('Stopping as soon as the start is through.');
    drains = how.drains;
    void starting.then(({ log }) => {
      log.info(reason, 'stopping');
      close();
    });
  };
};

const runServer = (): void => {
  const config = loadConfig();
  const stop = run(config, (stopFor) =>
    start(config, () => stopFor(new StartError(`${config.dataDir} belongs to another server.`))),
  );
  onSignal((signal) => stop({ signal }, { drains: true }));
};

/** The root keys that the supervisor sends as bytes, as variables of this worker. */
const readKeys = (): Record<string, string> => {
  const bytes = readFileSync(KEYS_FD);
  // Else processes that this one starts would inherit it.
  closeSync(KEYS_FD);
  const keys: string[] = [];
  for (let at = 0; at < bytes.length; at += ROOT_KEY_BYTES)
    keys.push(bytes.toString('base64', at, at + ROOT_KEY_BYTES));
  const [MASTER_KEY = '', ...previous] = keys;
  return { MASTER_KEY, ...(previous.length > 0 && { MASTER_KEY_PREVIOUS: previous.join(',') }) };
};

/** Serves for a supervisor: as it says, with the configuration that it sends, and no longer than it lives. */
const runWorker = (): void => {
  // Before Node's own listener, whose exit would wait for a reader of the log: that was the supervisor.
  process.prependOnceListener('disconnect', () => {
    // The supervisor removes it, unless it was killed.
    if (socketDirectory !== undefined) rmSync(socketDirectory, { recursive: true, force: true });
    process.kill(process.pid, 'SIGKILL');
  });
  let socketDirectory: string | undefined;
  let stop: ReturnType<typeof run> | undefined;
  const metrics = createWorkerMetrics(tellSupervisor);
  const { promise: context, resolve: begun } = Promise.withResolvers<Context>();
  const begin = (variables: Record<string, string>, heavySocket: string | undefined): void => {
    const config = { ...loadConfig(variables), ...(heavySocket !== undefined && { heavySocket }) };
    adoptVariables(variables);
    if (heavySocket !== undefined) socketDirectory = dirname(heavySocket);
    stop = run(config, () => startWorker(config, metrics, begun));
  };
  const beginSealed = (at: { host: string; port: number }): void => {
    listenSealed(at.host, at.port).then(
      () => tellSupervisor({ kind: 'ready', base_url: '' }),
      (error: unknown) => exitWith(listenFault(error, at)),
    );
  };
  process.on('message', (message) => {
    try {
      const asked = parseToWorker(message);
      if (asked.kind === 'start') {
        const keys = asked.has_keys ? readKeys() : {};
        begin({ ...asked.variables, ...keys }, asked.heavy_socket);
      } else if (asked.kind === 'start_sealed') beginSealed(asked);
      else if (asked.kind === 'stop') stop?.({}, asked);
      else if (asked.kind === 'held')
        void context.then(({ heldOperations }) => heldOperations.count(asked.operation, asked.is_fatal));
      else if (asked.kind === 'heavy_tenants')
        void context.then(({ accounts }) => accounts.heavyTenants.tell(asked.tenant_ids));
      else if (asked.kind === 'heavy_worker')
        void context.then(({ accounts, config }) => {
          if (config.heavySocket === undefined) accounts.heavyTenants.socket = asked.socket ?? undefined;
        });
      else metrics.receive(asked);
    } catch (error) {
      void exitWith(error);
    }
  });
};

try {
  startWatchdog();
  if (cluster.isWorker) runWorker();
  else runServer();
} catch (error) {
  void exitWith(error);
}
