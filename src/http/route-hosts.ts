// Which host serves which routes: the pages of people may have a host of their own, apart from the API and the proxy. A
// route on another host answers as an unknown path does.
import { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Config } from '../config.ts';
import { notFound } from '../errors.ts';
import { hostOf } from '../host-names.ts';
import type { App } from './app-type.ts';
import { sendProblem } from './problems.ts';

type Host = 'console' | 'other';

/** Patterns of routes by the host that serves them; undefined is a path without a route. */
const serves: Record<Host, (route: string | undefined) => boolean> = {
  console: (route) => route !== undefined && /^\/(?:console|join|assets)(?:\/|$)/.test(route),
  other: (route) => route !== undefined && !serves.console(route),
};

/** The proxy answers what has no route below its path itself. */
const isUnderProxy = (url: string | undefined): boolean => /^\/proxy(?:[/?]|$)/.test(url ?? '');

/** By the Host header alone: no header that a client adds decides. */
const servedTo = (consoleHost: string, { headers }: Pick<FastifyRequest, 'headers'>): Host =>
  hostOf(headers.host ?? '') === consoleHost ? 'console' : 'other';

/** Does this request come to the host of the console, which has no proxy? */
export const isForConsoleHost = (
  { consoleHost }: Pick<Config, 'consoleHost'>,
  request: Pick<FastifyRequest, 'headers'>,
): boolean => consoleHost !== undefined && servedTo(consoleHost, request) === 'console';

/** To be called before any hook that looks at a route's permission. */
export const separateHosts = (app: App, { consoleHost }: Pick<Config, 'consoleHost'>): void => {
  if (consoleHost === undefined) return;
  app.addHook('onRequest', async (request, reply) => {
    // The console asks the API through the app itself.
    if (!(request.raw.socket instanceof Socket)) return;
    const host = servedTo(consoleHost, request);
    const route = request.is404 ? undefined : request.routeOptions.url;
    if (serves[host](route) || (host === 'other' && isUnderProxy(request.raw.url))) return;
    await sendProblem(reply, notFound('resource'));
  });
};
