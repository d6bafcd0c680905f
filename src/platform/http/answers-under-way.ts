// Tells which answers are under way. What is written to a connection whose answer has begun becomes part of that answer.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
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

/** @returns the number of requests that have arrived whole and whose answers have not been handed to the system whole. */
export const watchUnanswered = (server: Server): (() => number) => {
  const answers = new Map<ServerResponse, IncomingMessage>();
  server.on('request', (request, response) => {
    answers.set(response, request);
    response.once('close', () => answers.delete(response));
  });
  return () => [...answers].filter(([response, request]) => request.complete && !response.writableFinished).length;
};
