// Cuts connections whose request body takes too long, by the clock of the context. Node's own check compares connections only
// every few seconds; it stays as the bound for requests that never become one, such as slow headers.
import type { IncomingMessage } from 'node:http';
import type { Context } from '../context.ts';
import type { App } from './app-type.ts';

/** A client has this long for a request; slow senders take connections from others. */
export const REQUEST_MS_MAX = 30_000;

/** A look at all bodies that are on their way: few, as most come with their headers. */
const LOOK_MS = 100;

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/** As Node says it where it cuts a connection itself: http/problems.ts has its answer. */
const timeout = (): Error => Object.assign(new Error('request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });

export const cutSlowBodies = (app: App, ctx: Pick<Context, 'now'>): void => {
  /** With the time of their headers. */
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
