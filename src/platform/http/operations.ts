// Adds a hook that names the operation of each request, and refuses those that held the event loop too long.
import type { FastifyRequest } from 'fastify';
import { Operation, within } from '../event-loop.ts';
import type { Platform } from '../platform.ts';
import type { App } from './app-type.ts';
import { accountOf } from './slow-readers.ts';

declare module 'fastify' {
  interface FastifyRequest {
    operation: Operation | undefined;
  }
}

const resourceOf = ({ params }: FastifyRequest): string => {
  const [first] = Object.entries((params as Record<string, unknown> | null) ?? {});
  // The rest of a path below `/proxy` names no resource of the vault.
  return first === undefined || first[0] === '*' ? '' : String(first[1]);
};

/** To be called after authentication, so that the account is known, and before bodies are read. */
export const nameOperations = (app: App, { heldOperations }: Pick<Platform, 'heldOperations'>): void => {
  app.decorateRequest('operation', undefined);
  app.addHook('onRequest', (request, _reply, done) => {
    const route = `${request.method} ${request.routeOptions.url ?? ''}`;
    const operation = new Operation(route, () => accountOf(request), resourceOf(request));
    request.operation = operation;
    try {
      heldOperations.check(operation.name());
    } catch (error) {
      return done(error as Error);
    }
    within(operation, done);
  });
};
