// Answers methods that a path does not have with 405 and Allow, and OPTIONS with 204, for all registered routes.
import { METHODS } from 'node:http';
import type { App } from './app-type.ts';
import { AppError } from '../errors.ts';

/** All methods that Node accepts. CONNECT has no path: Node ends its connection. */
const guarded = METHODS.filter((method) => method !== 'CONNECT');

/** Methods that Fastify knows without addHttpMethod. */
const routed = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']);

/** Call before routes are registered, and the returned function after them. */
export const collectMethods = (app: App): (() => void) => {
  // Without a body, so that the server refuses the method before it reads one.
  for (const method of guarded)
    if (!routed.has(method)) app.addHttpMethod(method, { hasBody: false, overrideExisting: true });
  const methodsOf = new Map<string, Set<string>>();
  app.addHook('onRoute', (route) => {
    if (route.config?.methodGuard || route.config?.forwards || route.url.includes('*')) return;
    const methods = methodsOf.get(route.url) ?? new Set();
    methodsOf.set(route.url, methods);
    for (const method of [route.method].flat()) methods.add(method);
  });
  return () => {
    for (const [url, methods] of methodsOf) {
      const allow = [...methods, 'OPTIONS'].filter((method, index, all) => all.indexOf(method) === index).join(', ');
      const missing = guarded.filter((method) => !methods.has(method));
      app.route({
        method: missing,
        url,
        config: { permission: null, methodGuard: true },
        schema: { hide: true },
        handler: async (request, reply) => {
          reply.header('allow', allow);
          if (request.method === 'OPTIONS') return reply.status(204).send();
          throw new AppError('method_not_allowed', `The method must be one of ${allow}.`);
        },
      });
    }
  };
};
