// Checks Host, Expect and absolute request targets, and refuses with a problem document. A request has one Host header
// (RFC 9112 section 3.2): of two, a proxy in front of the server may have used the other one.
import { type IncomingMessage, METHODS } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import createRouter from 'find-my-way';
import { Socket } from 'node:net';
import type { App } from './app-type.ts';
import { AppError, invalidField, notFound } from '../base/errors.ts';
import { sendProblem } from './problems.ts';
import type { Config } from '../config/config.ts';
import { coversHost, hostOf } from '../base/host-names.ts';
import type { Platform } from '../services/platform.ts';

// Answers methods that a path does not have with 405 and Allow, OPTIONS with 204, and unknown paths with 404.

/** Methods that Fastify knows without addHttpMethod. */
const known = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE'];

export const NO_PATH = 'There is no such path. All paths are described at /docs.';

const refused = (reply: FastifyReply, allow: string): AppError => {
  reply.header('allow', allow);
  return new AppError('method_not_allowed', `The method must be one of ${allow}.`);
};

type Path = { url: string; allow: string };

/** The paths that have a route, whatever the method. */
export type Paths = { add(path: Path): void; find(target: string | undefined): Path | undefined };

/** @param options those of the app's router. */
export const createPaths = (options: Parameters<typeof createRouter>[0]): Paths => {
  const router = createRouter(options);
  return {
    add: (path) => router.on('GET', path.url, () => undefined, path),
    find: (target = '') => (router.find('GET', target)?.store as Path | null | undefined) ?? undefined,
  };
};

/** Call before routes are registered, and the returned function after them. */
export const collectMethods = (app: App, paths: Paths): (() => void) => {
  // Without a body, so that the server refuses the method before it reads one. CONNECT has no path: Node ends its connection.
  for (const method of METHODS)
    if (method !== 'CONNECT' && !known.includes(method))
      app.addHttpMethod(method, { hasBody: false, overrideExisting: true });
  const methodsOf = new Map<string, Set<string>>();
  app.addHook('onRoute', (route) => {
    if (route.config?.methodGuard || route.config?.forwards || route.url.includes('*')) return;
    const methods = methodsOf.get(route.url) ?? new Set();
    methodsOf.set(route.url, methods);
    for (const method of [route.method].flat()) methods.add(method);
  });
  // About thirty methods have no route on any path. Routes that refuse them would take two thirds of building the app.
  app.setNotFoundHandler((request, reply) => {
    const path = paths.find(request.raw.url);
    return sendProblem(reply, path ? refused(reply, path.allow) : new AppError('not_found', NO_PATH));
  });
  return () => {
    for (const [url, methods] of methodsOf) {
      const allow = [...methods, 'OPTIONS'].filter((method, index, all) => all.indexOf(method) === index).join(', ');
      paths.add({ url, allow });
      app.route({
        method: known.filter((method) => !methods.has(method)),
        url,
        config: { permission: null, methodGuard: true },
        schema: { hide: true },
        handler: async (request, reply) => {
          if (request.method !== 'OPTIONS') throw refused(reply, allow);
          return reply.header('allow', allow).status(204).send();
        },
      });
    }
  };
};

// Serves the console, and the frames and pages that collect data, each on a host of its own where one is configured, and the API
// and the proxy only on other hosts. A route on the wrong host is a 404.

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

/** The Host header alone decides, not headers such as X-Forwarded-Host. */
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

const isHost = (name: string): boolean => name.length === 4 && name.toLowerCase() === 'host';

export const requireOneHost = (app: App): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const { rawHeaders, httpVersion } = request.raw;
    let hosts = 0;
    for (let at = 0; at < rawHeaders.length; at += 2) if (isHost(rawHeaders[at] as string)) hosts += 1;
    if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return done();
    reply.header('connection', 'close');
    return done(invalidField('headers.host', 'the request must have one Host header'));
  });
};

/** Node recognises it so, and sends the 100 before the request gets here. */
const canContinue = /(?:^|\W)100-continue(?:$|\W)/i;

export const refuseExpectations = (app: App): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const { expect } = request.headers;
    if (expect === undefined || canContinue.test(expect) || request.raw.httpVersion === '1.0') return done();
    reply.header('connection', 'close');
    return done(new AppError('expectation_failed', 'The header Expect must be 100-continue.'));
  });
};

/** A target in absolute form (RFC 9112 section 3.2.2). */
const absoluteForm = /^https?:\/\/([^/?#]*)([^]*)$/i;

/**
 * Serves a target in absolute form as its path, if its authority is this server: equal to the Host header, and a name of
 * PUBLIC_URL or PUBLIC_HOSTS or the address and port that the client connected to. The server forwards to other hosts under
 * /proxy only, and never by the target of a request.
 */
export const serveAbsoluteTargets = (app: App, { config }: Pick<Platform, 'config'>): void => {
  const authorities = new WeakMap<IncomingMessage, string>();
  // Before the router, which removes any authority without a check.
  app.server.prependListener('request', (raw: IncomingMessage) => {
    const target = raw.url ?? '';
    const [, authority, rest = ''] = target.startsWith('/') ? [] : (absoluteForm.exec(target) ?? []);
    if (authority === undefined) return;
    authorities.set(raw, authority.toLowerCase());
    raw.url = rest.startsWith('/') ? rest : `/${rest}`;
  });
  const isOurs = ({ headers, socket }: IncomingMessage, authority: string): boolean => {
    if (authority !== headers.host?.toLowerCase()) return false;
    const host = hostOf(authority);
    if (config.egress.ownHosts.some((own) => own.toLowerCase() === host || (host !== '' && coversHost(own, host))))
      return true;
    // A socket for IPv4 and IPv6 has IPv4 addresses in this form.
    const address = socket.localAddress?.replace(/^::ffff:/, '');
    return authority.endsWith(`:${socket.localPort}`) && (host === address || host === 'localhost');
  };
  app.addHook('onRequest', (request, reply, done) => {
    const authority = authorities.get(request.raw);
    if (authority === undefined || isOurs(request.raw, authority)) return done();
    reply.header('connection', 'close');
    return done(invalidField('path', 'must be a path, or a URL of this server and of its Host header'));
  });
};
