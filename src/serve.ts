// Serves the API in this process: listens, sweeps and sends mails; drains and stops.
import { getPriority } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { buildApp } from './app.ts';
import { startWritingKeyUses } from './modules/access/key-uses.ts';
import { startWritingUsage } from './modules/access/usage.ts';
import { preparePasskeys } from './modules/people/passkeys.ts';
import { startMailing } from './modules/people/send-mails.ts';
import { startSweeping } from './modules/tokens/sweep.ts';
import { startDelivering } from './modules/webhooks/deliver.ts';
import type { Context } from './modules.ts';
import { consoleUrlOf } from './platform/config/config.ts';
import { startResealing } from './platform/keys/reseal.ts';
import { startExportingCheckpoints, startStreaming } from './platform/audit/stream.ts';
import { startBuildingTrees } from './platform/audit/trees.ts';
import { StartError } from './platform/base/errors.ts';
import type { OperationName } from './platform/base/event-loop.ts';
import { startCountingHeld } from './platform/base/held-operations.ts';
import { collectWhenIdle } from './platform/base/idle-collection.ts';
import { watchUnanswered } from './platform/http/answers-under-way.ts';
import type { App } from './platform/http/app-type.ts';
import { lowerHelpers, setNiceness } from './platform/base/priority.ts';
import { STOP_HALF_SENT_MS, STOP_WAIT_MS } from './platform/base/times.ts';

/** How often a server that stops looks at its connections. */
const LOOK_MS = 100;

/** What serves: this process, or workers. */
export type Serving = {
  /** Address that it listens on. */
  base_url: string;
  /** The metrics of all that serves. */
  metricsText(): Promise<string>;
  /** @param how with `drains` clients get time to leave first; workers are killed after `killAfterMs`. */
  stop(how: { drains: boolean; killAfterMs?: number }): Promise<void>;
};

/** Serves on, and tells load balancers and clients to leave: a request that is sent meanwhile must not fail. */
const drain = async (ctx: Context): Promise<void> => {
  if (ctx.config.drainMs === 0) return;
  ctx.draining.isOn = true;
  ctx.log.info({ seconds: ctx.config.drainMs / 1000 }, 'draining');
  await pause(ctx.config.drainMs);
};

/** Stops listening, and waits until running requests have their responses or their time is over. */
const closeApp = async (app: App, countUnanswered: () => number): Promise<void> => {
  const beganMs = performance.now();
  const looking = setInterval(() => {
    const ms = performance.now() - beganMs;
    // Connections with incomplete requests are cut. Clients that wait for a response keep theirs.
    if (ms > STOP_WAIT_MS || (ms > STOP_HALF_SENT_MS && countUnanswered() === 0)) app.server.closeAllConnections();
    // Node keeps idle connections open for further requests, which this server would not answer.
    else app.server.closeIdleConnections();
  }, LOOK_MS);
  await app.close();
  clearInterval(looking);
};

/** The error of listening, with what to do where the port is taken. */
export const listenFault = (error: unknown, { host, port }: { host: string; port: number }): unknown =>
  (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
    ? new StartError(`Port ${port} on ${host} is taken. Stop what uses it, or take another: PORT=${port + 1} npm start`)
    : error;

/** Connections that wait while the loop is busy. Linux takes no more unless it is told to; others are refused at once. */
const HEAVY_BACKLOG = 4096;

const listen = async ({ config }: Context, app: App): Promise<string> => {
  const { host, port, heavySocket } = config;
  if (heavySocket !== undefined) return app.listen({ path: heavySocket, exclusive: true, backlog: HEAVY_BACKLOG });
  try {
    await app.listen({ host, port });
  } catch (error) {
    throw listenFault(error, { host, port });
  }
  const address = app.server.address();
  return `http://${host.includes(':') ? `[${host}]` : host}:${typeof address === 'object' && address ? address.port : port}`;
};

/** What the other processes of the server must know. */
export type News = {
  /** An operation held the event loop. */
  held(name: OperationName): void;
  /** These tenants have heavy work. */
  heavy(tenant_ids: string[]): void;
};

const noNews: News = { held: () => undefined, heavy: () => undefined };

/** How often the tenants with heavy work are looked for. */
const HEAVY_LOOK_MS = 100;

/** @returns what stops it. */
const startFindingHeavy = ({ accounts, config }: Context, tell: News['heavy']): (() => void) => {
  const timer = setInterval(() => {
    const tenant_ids = accounts.heavyTenants.take(config.heavySocket !== undefined);
    if (tenant_ids.length > 0) tell(tenant_ids);
  }, HEAVY_LOOK_MS).unref();
  return () => clearInterval(timer);
};

/** So much less weight that the other processes have three quarters of a core that all want. */
const HEAVY_NICENESS = 5;

/** What a server does beside its requests. A heavy worker leaves it to the others. @returns what stops each. */
const startWork = (ctx: Context, base_url: string): (() => Promise<void>)[] => [
  startSweeping(ctx),
  startResealing(ctx),
  startMailing(ctx, consoleUrlOf(ctx.config, base_url)),
  startWritingKeyUses(ctx),
  startWritingUsage(ctx),
  startDelivering(ctx),
  startStreaming(ctx),
  startBuildingTrees(ctx),
  startExportingCheckpoints(ctx),
];

export const serve = async (ctx: Context, news = noNews): Promise<Serving> => {
  const isHeavyWorker = ctx.config.heavySocket !== undefined;
  const app = await buildApp(ctx);
  await preparePasskeys(ctx);
  const countUnanswered = watchUnanswered(app.server);
  const base_url = await listen(ctx, app);
  const stopWork = isHeavyWorker ? [startWritingKeyUses(ctx), startWritingUsage(ctx)] : startWork(ctx, base_url);
  if (isHeavyWorker) setNiceness(process.pid, getPriority() + HEAVY_NICENESS);
  lowerHelpers();
  const stopCollecting = collectWhenIdle();
  const stopCountingHeld = startCountingHeld(ctx, news.held);
  const stopFindingHeavy = startFindingHeavy(ctx, news.heavy);
  return {
    base_url,
    metricsText: ctx.metricsText,
    async stop({ drains }) {
      if (drains) await drain(ctx);
      stopCollecting();
      stopCountingHeld();
      stopFindingHeavy();
      await closeApp(app, countUnanswered);
      await Promise.all(stopWork.map((stop) => stop()));
    },
  };
};
