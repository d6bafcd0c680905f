// What a request is answered with: status, headers and body, sent from one place, so that a kept answer is the sent one.
import type { FastifyReply } from 'fastify';

declare module 'fastify' {
  interface FastifyReply {
    /** What `sendAnswer` sent, problems too. */
    answered: Answer | undefined;
  }
  interface FastifyContextConfig {
    /** Where what the route makes can be found, such as `/applications`: it answers 201 with a Location below it. */
    creates?: string;
  }
}

export type Answer = {
  status: number;
  location?: string | undefined;
  /** Beside the location, by lower-case name. */
  headers?: Record<string, string> | undefined;
  body?: string | undefined;
};

/** @param result what the deed gave; undefined for nothing, which is 204. */
export const answerOf = (creates: string | undefined, result: unknown): Answer => {
  if (result === undefined) return { status: 204 };
  const body = JSON.stringify(result);
  if (creates === undefined) return { status: 200, body };
  return { status: 201, location: `${creates}/${encodeURIComponent((result as { id: string }).id)}`, body };
};

export const sendAnswer = (reply: FastifyReply, answered: Answer): FastifyReply => {
  const { status, location, headers, body } = answered;
  reply.answered = answered;
  if (location !== undefined) reply.header('location', location);
  if (body !== undefined) reply.type('application/json');
  if (headers) reply.headers(headers);
  return reply.status(status).send(body);
};

/** Answers with the result of a deed, as its route says. */
export const answer = (reply: FastifyReply, result: unknown): FastifyReply =>
  sendAnswer(reply, answerOf(reply.request.routeOptions.config.creates, result));
