// Tells when a client disconnects before it has its response.
import type { FastifyReply } from 'fastify';

/** Aborted when the client disconnects before it has the response. */
export const disconnectOf = ({ raw }: FastifyReply): AbortSignal => {
  const controller = new AbortController();
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort();
  });
  // The client may have disconnected while its key was looked up.
  if (raw.destroyed) controller.abort();
  return controller.signal;
};
