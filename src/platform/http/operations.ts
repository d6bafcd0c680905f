// Adds a hook that names the operation of each request, and refuses those that held the event loop too long.
import { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { Operation, within } from '../base/event-loop.ts';
import type { Platform } from '../services/platform.ts';
import type { App } from './app-type.ts';
import { accountOf, disconnectOf } from './connections.ts';
import { nameReads } from './metered-bodies.ts';

/** The first id in the path. Other parameters are secrets, such as that of a link, and are in no log. */
const findResource = ({ params }: FastifyRequest): string => {
  const [, id = ''] =
    Object.entries(params as Record<string, string>).find(([name]) => /^(?:\w+_)?id$/.test(name)) ?? [];
  return id;
};

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Asked by load balancers, and answered at once: a flood of others must not make the server look dead. */
    isProbe?: true;
  }
}

/** To be called after authentication, so that the account is known, and before bodies are read. */
export const nameOperations = (
  app: App,
  { heldOperations, accounts }: Pick<Platform, 'heldOperations' | 'accounts'>,
): void => {
  app.addHook('onRequest', (request, reply, done) => {
    const { budgets } = accounts;
    const route = `${request.method} ${request.routeOptions.url ?? ''}`;
    const operation = new Operation(route, () => accountOf(request), findResource(request), budgets);
    try {
      heldOperations.check(operation.name());
      // A request of the console to the API, within the process, is part of one that has waited.
      if (!(request.raw.socket instanceof Socket) || request.routeOptions.config.isProbe)
        return within(operation, done);
      nameReads(request, operation, accounts);
      const entered = budgets.enter(operation.account, () => disconnectOf(reply));
      if (!entered) return within(operation, done);
      return void entered.then(
        () => within(operation, done),
        (error: Error) => done(error),
      );
    } catch (error) {
      return done(error as Error);
    }
  });
};
