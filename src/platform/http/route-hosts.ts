// Serves pages only on the host of the console, if one is configured, and the API and the proxy only on other hosts. A route on
// the wrong host is a 404.
import { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Config } from '../config.ts';
import { notFound } from '../errors.ts';
import { hostOf } from '../host-names.ts';
import type { App } from './app-type.ts';
import { sendProblem } from './problems.ts';

type Host = 'console' | 'other';

/** Whether a host serves a route. The pattern is undefined for a path without a route. */
const serves: Record<Host, (route: string | undefined) => boolean> = {
  console: (route) => route !== undefined && /^\/(?:console|join|assets)(?:\/|$)/.test(route),
  other: (route) => route !== undefined && !serves.console(route),
};

/** The proxy has its own 404 for paths below /proxy. */
const isUnderProxy = (url: string | undefined): boolean => /^\/proxy(?:[/?]|$)/.test(url ?? '');

/** By the Host header alone, not by headers such as X-Forwarded-Host. */
const servedTo = (consoleHost: string, { headers }: Pick<FastifyRequest, 'headers'>): Host =>
  hostOf(headers.host ?? '') === consoleHost ? 'console' : 'other';

/** Whether the request is for the host of the console, which has no proxy. */
export const isForConsoleHost = (
  { consoleHost }: Pick<Config, 'consoleHost'>,
  request: Pick<FastifyRequest, 'headers'>,
): boolean => consoleHost !== undefined && servedTo(consoleHost, request) === 'console';

/** Call before hooks that check the permission of a route. */
export const separateHosts = (app: App, { consoleHost }: Pick<Config, 'consoleHost'>): void => {
  if (consoleHost === undefined) return;
  app.addHook('onRequest', async (request, reply) => {
    // Requests of the console to the API come without a socket, by `app.inject`.
    if (!(request.raw.socket instanceof Socket)) return;
    const host = servedTo(consoleHost, request);
    const route = request.is404 ? undefined : request.routeOptions.url;
    if (serves[host](route) || (host === 'other' && isUnderProxy(request.raw.url))) return;
    await sendProblem(reply, notFound('resource'));
  });
};
