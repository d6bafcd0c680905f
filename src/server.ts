// Starts the server: reads the configuration, makes the context, builds the app, listens, and leaves gracefully.
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import closeWithGrace from 'close-with-grace';
import { parseApiKey } from './access/api-keys.ts';
import { createApplication, createTenant, type MadeApplication } from './access/bootstrap.ts';
import { buildApp } from './app.ts';
import {
  type Config,
  CONSOLE_SHARES_HOST,
  consoleUrlOf,
  findMisspelledVariables,
  loadConfig,
  sharesConsoleHost,
} from './config.ts';
import { type Context, createContext, failureText } from './context.ts';
import { readCredentials, refreshBaseUrl, writeCredentials } from './dev-credentials.ts';
import { StartError } from './errors.ts';
import type { App } from './http/app-type.ts';
import { ENDING_SIGNALS } from './node-24.ts';
import { startMailing } from './people/mails.ts';
import { startBlock } from './start-block.ts';
import { startSweeping } from './vault/sweep.ts';
import { startWatchdog } from './watchdog.ts';

/** What is under way has this long after a signal; then the process leaves anyway (security.md C12). */
const STOP_MS_LEAST = 25_000;
/** And so long beyond the longest run of code, for its answer and the end of the database. */
const STOP_MS_BEYOND_RUNS = 10_000;
/** Well before either: the database must be stopped in what is left. */
const CUT_MS = 10_000;
/** What a run gave is tokenized, kept and sent in this. */
const ANSWER_MS = 2000;
const IDLE_LOOK_MS = 100;

/** A Ctrl-C comes from the terminal and from npm, which passes it on: what follows within this is the same signal. */
const SAME_SIGNAL_MS = 1000;

/** The tenant of a development start, and its application. */
const DEVELOPMENT = 'Development';

const readBootstrapKey = (ctx: Context): string => {
  const path = ctx.config.bootstrapApiKeyFile as string;
  let key: string;
  try {
    key = readFileSync(path, 'utf8').trim();
  } catch {
    throw new StartError(`BOOTSTRAP_API_KEY_FILE: the file ${path} cannot be read. Mount it, or unset the variable.`);
  }
  if (parseApiKey(key, ctx.environment)) return key;
  throw new StartError(
    `BOOTSTRAP_API_KEY_FILE: ${path} holds no well-formed svc_${ctx.environment}_ key, or it has a typo. Take one from another vault: npm run -s strongroom -- keys create`,
  );
};

/** A vault without a tenant bootstraps itself: in development always, in production with a key that the deployment supplies. */
const bootstrap = async (ctx: Context): Promise<MadeApplication | undefined> => {
  const { config } = ctx;
  if (config.bootstrapApiKeyFile !== undefined) {
    const made = await createTenant(ctx, { name: 'Default', apiKey: readBootstrapKey(ctx), onlyFirst: true });
    if (!made) ctx.log.warn('BOOTSTRAP_API_KEY_FILE is ignored: the vault has a tenant already');
    return undefined;
  }
  if (config.mode === 'production') {
    if (!(await ctx.db.hasTenants()))
      ctx.log.warn(
        'the vault has no tenant: every API route answers 503 until there is one. Make it: npm run -s strongroom -- bootstrap --tenant-name NAME',
      );
    return undefined;
  }
  const made = await createTenant(ctx, { name: DEVELOPMENT, applicationName: DEVELOPMENT, onlyFirst: true });
  return made ?? replaceLostKey(ctx);
};

/**
 * A key is kept right after its tenant is made, and a crash can come between: nobody then has a key to the development tenant. Only
 * where the database is ours alone; one that DATABASE_URL names may have its credentials in another server's directory.
 */
const replaceLostKey = async (ctx: Context): Promise<MadeApplication | undefined> => {
  if (!ctx.embedded || readCredentials(ctx.config)) return undefined;
  const tenant = (await ctx.db.findTenants()).find(({ name }) => name === DEVELOPMENT);
  return tenant && createApplication(ctx, tenant.id, { name: DEVELOPMENT, applicationName: DEVELOPMENT });
};

/** Takes nothing new, and ends when what is under way has its answer, or its time is over. */
const closeApp = async (ctx: Context, app: App): Promise<void> => {
  const runsAnswered = ctx.sandbox.drain().then(() => pause(ANSWER_MS, undefined, { ref: false }));
  // Whoever still holds a connection open then, with half a request, is cut; not whoever waits for code that may still run.
  void Promise.all([runsAnswered, pause(CUT_MS, undefined, { ref: false })]).then(() =>
    app.server.closeAllConnections(),
  );
  // A connection that has its answer would be held open for a further request, which nobody would serve.
  const closingIdle = setInterval(() => app.server.closeIdleConnections(), IDLE_LOOK_MS);
  await app.close();
  clearInterval(closingIdle);
};

type Running = { ctx: Context; stop(): Promise<void> };

const start = async (config: Config, onDirectoryLost: () => void): Promise<Running> => {
  const ctx = await createContext(config, 'server', { onDirectoryLost });
  for (const sentence of findMisspelledVariables()) ctx.log.warn(sentence);
  try {
    const app = await buildApp(ctx);
    const made = await bootstrap(ctx);
    // Before anything else can fail: the key exists nowhere else, and only here in the clear.
    if (made)
      writeCredentials(config, {
        base_url: `http://${config.host}:${config.port}`,
        tenant_id: made.tenant_id,
        application_id: made.application_id,
        api_key: made.api_key.reveal(),
      });
    await app.listen({ host: config.host, port: config.port });
    const address = app.server.address();
    const base_url = `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${typeof address === 'object' && address ? address.port : config.port}`;
    if (config.mode === 'development') refreshBaseUrl(config, base_url);
    const stopSweeping = startSweeping(ctx);
    const stopMailing = startMailing(ctx, consoleUrlOf(config, base_url));
    const onTerminal = process.stderr.isTTY === true && config.logFormat === 'auto' && config.mode === 'development';
    if (onTerminal) process.stderr.write(startBlock(ctx, base_url, made?.api_key));
    if (sharesConsoleHost(config)) ctx.log.warn(CONSOLE_SHARES_HOST);
    // The address that people and clients know: the one listened on may mean nothing outside of a container.
    const known_url = config.publicUrl ?? base_url;
    const docs = config.docs ? { docs: `${known_url}/docs`, openapi: `${known_url}/openapi.json` } : {};
    ctx.log.info({ base_url: known_url, ...docs }, 'listening');
    return {
      ctx,
      async stop() {
        await closeApp(ctx, app);
        await Promise.all([stopSweeping(), stopMailing()]);
        await ctx.close();
        ctx.log.info('stopped');
      },
    };
  } catch (error) {
    // What stopped the start is told, not what the closing made of it.
    await ctx.close().catch(() => undefined);
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE')
      throw new StartError(
        `Port ${config.port} on ${config.host} is taken. Stop what uses it, or take another: PORT=${config.port + 1} npm start`,
      );
    throw error;
  }
};

const fail = (error: unknown): never => {
  console.error(failureText(error));
  process.exit(1);
};

/** Tells of the first signal. One that comes again within SAME_SIGNAL_MS is the same, and one after that ends the process. */
const onSignal = (tell: (signal: NodeJS.Signals) => void): void => {
  let isTold = false;
  let isLater = false;
  const heed = (signal: NodeJS.Signals): void => {
    if (isLater) {
      console.error('Ended by a second signal. A PostgreSQL that is still running is found by the next start.');
      process.exit(1);
    }
    if (isTold) return;
    isTold = true;
    // Behind a round of the loop: where something held it for longer, what came meanwhile is heard first.
    setTimeout(() => setImmediate(() => (isLater = true)), SAME_SIGNAL_MS).unref();
    tell(signal);
  };
  for (const signal of ENDING_SIGNALS) process.on(signal, heed);
};

/**
 * A signal ends the start too, once it is through: a database that was being made or started would otherwise run on with nobody to
 * stop it. What a start takes, a recovery of the database above all, is not of the time that stopping may take.
 */
const main = async (): Promise<void> => {
  const config = loadConfig();
  startWatchdog();
  let running: Running | undefined;
  let isDirectoryLost = false;
  const delay = Math.max(STOP_MS_LEAST, config.sandbox.wallMs + STOP_MS_BEYOND_RUNS);
  const onSecondError = (error: unknown): void => console.error(failureText(error));
  const options = { delay, logger: false as const, skip: [...ENDING_SIGNALS], onSecondError };
  const { close } = closeWithGrace(options, async ({ err, signal }) => {
    // It may be why the start does not end. A database that was started by then is the next start's.
    if (!running) return fail(err ?? new StartError(`${signal ?? 'An empty loop'} ended the start.`));
    if (err) running.ctx.log.fatal({ error: err }, 'the server stops after an error nobody handled');
    await running.stop();
    // A process that was told to run and cannot leaves with 1, so that its supervisor notices.
    if (isDirectoryLost) throw new StartError(`${config.dataDir} belongs to another server.`);
  });
  const starting = start(config, () => {
    isDirectoryLost = true;
    void starting.then(close, () => undefined);
  });
  onSignal((signal) => {
    if (!running) console.error('Stopping as soon as the start is through.');
    void starting.then(({ ctx }) => {
      ctx.log.info({ signal }, 'stopping');
      close();
    });
  });
  running = await starting;
};

main().catch(fail);
