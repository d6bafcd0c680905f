// Serves the console, and the frames and pages that collect data, each on a host of its own where one is configured, and the API
// and the proxy only on other hosts. A route on the wrong host is a 404.
import { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Config } from '../config/config.ts';
import { notFound } from '../base/errors.ts';
import { hostOf } from '../base/host-names.ts';
import type { App } from './app-type.ts';
import type { Paths } from './methods.ts';
import { sendProblem } from './problems.ts';

type Host = 'console' | 'fields' | 'other';

type Hosts = Pick<Config, 'consoleHost' | 'fieldsOrigin'>;

const ofConsole = /^\/(?:console|join)(?:\/|$)/;
const ofFields = /^\/(?:fields|collect)(?:\/|$)/;
/** Styles, scripts and pictures of pages on all hosts. */
const ofPages = /^\/assets\//;
/** What frames ask for beside their files. */
const isCreate = (route: string, method: string): boolean =>
  (route === '/tokens' || route === '/tokenize') && (method === 'POST' || method === 'OPTIONS');

/** Whether a host serves a route. */
const serves: Record<Host, (route: string, method: string, hosts: Hosts) => boolean> = {
  console: (route) => ofConsole.test(route),
  fields: (route, method) => ofFields.test(route) || isCreate(route, method),
  other: (route, _method, { consoleHost, fieldsOrigin }) =>
    !(consoleHost !== undefined && ofConsole.test(route)) && !(fieldsOrigin !== undefined && ofFields.test(route)),
};

/** The proxy has its own 404 for paths below /proxy. */
const isUnderProxy = (url: string | undefined): boolean => /^\/proxy(?:[/?]|$)/.test(url ?? '');

/** By the Host header alone, not by headers such as X-Forwarded-Host. */
const servedTo = ({ consoleHost, fieldsOrigin }: Hosts, { headers }: Pick<FastifyRequest, 'headers'>): Host => {
  const host = hostOf(headers.host ?? '');
  if (consoleHost !== undefined && host === consoleHost) return 'console';
  return fieldsOrigin !== undefined && host === hostOf(new URL(fieldsOrigin).host) ? 'fields' : 'other';
};

/** Whether the request is for a host that has no proxy. */
export const isForPagesHost = (hosts: Hosts, request: Pick<FastifyRequest, 'headers'>): boolean =>
  servedTo(hosts, request) !== 'other';

/** Call before hooks that check the permission of a route. */
export const separateHosts = (app: App, hosts: Hosts, paths: Paths): void => {
  if (hosts.consoleHost === undefined && hosts.fieldsOrigin === undefined) return;
  app.addHook('onRequest', async (request, reply) => {
    // Requests of the console to the API come without a socket, by `app.inject`.
    if (!(request.raw.socket instanceof Socket)) return;
    const host = servedTo(hosts, request);
    const route = request.is404 ? paths.find(request.raw.url)?.url : request.routeOptions.url;
    if (route !== undefined && (ofPages.test(route) || serves[host](route, request.method, hosts))) return;
    if (host === 'other' && isUnderProxy(request.raw.url)) return;
    await sendProblem(reply, notFound('resource'));
  });
};
