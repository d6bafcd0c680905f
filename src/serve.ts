// Serves the API in this process: listens, sweeps and sends mails; drains and stops.
import { setTimeout as pause } from 'node:timers/promises';
import { buildApp } from './app.ts';
import { startWritingKeyUses } from './modules/access/key-uses.ts';
import { startWritingUsage } from './modules/access/usage.ts';
import { preparePasskeys } from './modules/people/passkeys.ts';
import { startMailing } from './modules/people/send-mails.ts';
import { startSweeping } from './modules/tokens/sweep.ts';
import type { Context } from './modules.ts';
import { consoleUrlOf } from './platform/config.ts';
import { startResealing } from './platform/crypto/reseal.ts';
import { startExportingCheckpoints } from './platform/audit/checkpoint-export.ts';
import { startStreaming } from './platform/audit/stream.ts';
import { startBuildingTrees } from './platform/audit/trees.ts';
import { StartError } from './platform/errors.ts';
import type { OperationName } from './platform/event-loop.ts';
import { startCountingHeld } from './platform/held-operations.ts';
import { collectWhenIdle } from './platform/idle-collection.ts';
import { watchUnanswered } from './platform/http/answers-under-way.ts';
import type { App } from './platform/http/app-type.ts';
import { lowerHelpers } from './platform/priority.ts';
import { STOP_HALF_SENT_MS, STOP_WAIT_MS } from './platform/times.ts';

/** How often a server that stops looks at its connections. */
const LOOK_MS = 100;

/** What serves: this process, or workers. */
export type Serving = {
  /** Where it listens. */
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

const listen = async ({ config }: Context, app: App): Promise<string> => {
  const { host, port } = config;
  try {
    await app.listen({ host, port });
  } catch (error) {
    throw listenFault(error, { host, port });
  }
  const address = app.server.address();
  return `http://${host.includes(':') ? `[${host}]` : host}:${typeof address === 'object' && address ? address.port : port}`;
};

/** @param tellHeld called with an operation that held the event loop, for the other workers. */
export const serve = async (
  ctx: Context,
  tellHeld: (name: OperationName) => void = () => undefined,
): Promise<Serving> => {
  const app = await buildApp(ctx);
  await preparePasskeys(ctx);
  const countUnanswered = watchUnanswered(app.server);
  const base_url = await listen(ctx, app);
  const stopSweeping = startSweeping(ctx);
  const stopResealing = startResealing(ctx);
  const stopMailing = startMailing(ctx, consoleUrlOf(ctx.config, base_url));
  const stopWritingKeyUses = startWritingKeyUses(ctx);
  const stopWritingUsage = startWritingUsage(ctx);
  const stopStreaming = startStreaming(ctx);
  const stopBuildingTrees = startBuildingTrees(ctx);
  const stopExportingCheckpoints = startExportingCheckpoints(ctx);
  lowerHelpers();
  const stopCollecting = collectWhenIdle();
  const stopCountingHeld = startCountingHeld(ctx, tellHeld);
  return {
    base_url,
    metricsText: ctx.metricsText,
    async stop({ drains }) {
      if (drains) await drain(ctx);
      stopCollecting();
      stopCountingHeld();
      await closeApp(app, countUnanswered);
      await Promise.all([
        stopSweeping(),
        stopResealing(),
        stopMailing(),
        stopWritingKeyUses(),
        stopWritingUsage(),
        stopStreaming(),
        stopBuildingTrees(),
        stopExportingCheckpoints(),
      ]);
    },
  };
};
