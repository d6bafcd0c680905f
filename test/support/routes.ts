// Collects the routes that an app registers, from Fastify's diagnostics channel.
import { channel } from 'node:diagnostics_channel';
import type { FastifyInstance, RouteOptions } from 'fastify';

/** Runs `build` and tells every route registered meanwhile. */
export const collectRoutes = async <T>(build: () => Promise<T>): Promise<{ built: T; routes: RouteOptions[] }> => {
  const routes: RouteOptions[] = [];
  const created = channel('fastify.initialization');
  const watch = (message: unknown) => {
    const { fastify } = message as { fastify: FastifyInstance };
    fastify.addHook('onRoute', (route) => void routes.push(route));
  };
  created.subscribe(watch);
  try {
    return { built: await build(), routes };
  } finally {
    created.unsubscribe(watch);
  }
};
