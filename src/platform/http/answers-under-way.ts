// Tells whether a connection has an answer under way that has begun: whatever is written to it then becomes part of that answer.
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** @returns whether the connection's current answer has sent its headers. */
export const watchAnswers = (server: Server): ((socket: Socket) => boolean) => {
  /** In the order of their requests, which is that of the answers on the wire. */
  const unfinished = new WeakMap<Socket, ServerResponse[]>();
  server.prependListener('request', ({ socket }, response) => {
    const responses = unfinished.get(socket) ?? [];
    responses.push(response);
    unfinished.set(socket, responses);
    response.once('close', () => responses.splice(responses.indexOf(response), 1));
  });
  return (socket) => unfinished.get(socket)?.[0]?.headersSent ?? false;
};
