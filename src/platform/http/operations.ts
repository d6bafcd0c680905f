// Adds a hook that names the operation of each request, and refuses those that held the event loop too long.
import type { FastifyRequest } from 'fastify';
import { Operation, within } from '../event-loop.ts';
import type { Platform } from '../platform.ts';
import type { App } from './app-type.ts';
import { accountOf } from './slow-readers.ts';

/** The first id in the path. Other parameters are secrets, such as that of a link, and are in no log. */
const findResource = ({ params }: FastifyRequest): string => {
  const [, id = ''] =
    Object.entries(params as Record<string, string>).find(([name]) => /^(?:\w+_)?id$/.test(name)) ?? [];
  return id;
};

/** To be called after authentication, so that the account is known, and before bodies are read. */
export const nameOperations = (app: App, { heldOperations }: Pick<Platform, 'heldOperations'>): void => {
  app.addHook('onRequest', (request, _reply, done) => {
    const route = `${request.method} ${request.routeOptions.url ?? ''}`;
    const operation = new Operation(route, () => accountOf(request), findResource(request));
    try {
      heldOperations.check(operation.name());
    } catch (error) {
      return done(error as Error);
    }
    within(operation, done);
  });
};
