// Closes connections whose request body takes too long, by the clock of the platform. Node checks its own timeout only every few
// seconds; it remains the limit for slow headers.
import type { IncomingMessage } from 'node:http';
import type { Platform } from '../services/platform.ts';
import { REQUEST_MS_MAX } from '../base/times.ts';
import type { App } from './app-type.ts';

/** How often the unfinished bodies are checked. There are few: most arrive with their headers. */
const LOOK_MS = 100;

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/** The error that Node itself uses. platform/http/problems.ts has its response. */
const timeout = (): Error => Object.assign(new Error('request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });

export const cutSlowBodies = (app: App, ctx: Pick<Platform, 'now'>): void => {
  /** Requests by the time of their headers. */
  const arriving = new Map<IncomingMessage, number>();
  let looking: NodeJS.Timeout | undefined;
  const forget = (raw: IncomingMessage): void => {
    arriving.delete(raw);
    if (arriving.size > 0) return;
    clearInterval(looking);
    looking = undefined;
  };
  const look = (): void => {
    const latest = ctx.now().getTime() - REQUEST_MS_MAX;
    for (const [raw, from] of arriving) {
      if (from > latest && !raw.complete) continue;
      forget(raw);
      if (!raw.complete) app.server.emit('clientError', timeout(), raw.socket);
    }
  };
  app.server.on('request', (raw: IncomingMessage) => {
    if (!hasBody(raw)) return;
    arriving.set(raw, ctx.now().getTime());
    looking ??= setInterval(look, LOOK_MS).unref();
    raw.once('end', () => forget(raw));
    raw.once('close', () => forget(raw));
  });
};
