// Answers methods that a path does not have with 405 and Allow, OPTIONS with 204, and unknown paths with 404.
import { METHODS } from 'node:http';
import type { FastifyReply } from 'fastify';
import createRouter from 'find-my-way';
import type { App } from './app-type.ts';
import { AppError } from '../base/errors.ts';
import { sendProblem } from './problems.ts';

/** Methods that Fastify knows without addHttpMethod. */
const known = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE'];

const NO_PATH = 'There is no such path. All paths are described at /docs.';

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
