// Builds and sends successful responses. All are sent from one place, so that the response kept for an idempotency key is the
// one that was sent.
import type { FastifyReply, FastifyRequest } from 'fastify';
import { stringifyInSlices } from '../json/slices.ts';
import type { Platform } from '../services/platform.ts';
import { accountOf, findUnsentRefusal } from './connections.ts';

// The headers RateLimit-Policy and RateLimit: what a client may do, and what is left of it
// (draft-ietf-httpapi-ratelimit-headers-10).

export type Quota = { name: string; quota: number; windowSeconds: number };

/** What is left of a quota, and when there is more. */
export type QuotaState = { name: string; left: number; resetSeconds: number };

/** @returns a function that sets RateLimit again for each new state. Responses that the proxy forwards keep the destination's. */
export const addRateLimitHeaders = (reply: FastifyReply, quotas: readonly Quota[]): ((state: QuotaState) => void) => {
  const policy = quotas.map(({ name, quota, windowSeconds }) => `"${name}";q=${quota};w=${windowSeconds}`);
  reply.header('ratelimit-policy', policy.join(', '));
  const states = new Map<string, string>();
  return ({ name, left, resetSeconds }) => {
    states.set(name, `"${name}";r=${left};t=${resetSeconds}`);
    // A reactor's code may use tokens after the response was sent.
    if (!reply.sent) reply.header('ratelimit', [...states.values()].join(', '));
  };
};

declare module 'fastify' {
  interface FastifyReply {
    /** What `sendAnswer` sent, also for errors. */
    answered: Answer | undefined;
  }
  interface FastifyContextConfig {
    /**
     * The path of the records that the route creates, such as `/applications`: for the status 201 and its Location. It may name
     * parameters of the route, such as `/applications/:id/keys`.
     */
    creates?: string;
  }
}

export type Answer = {
  status: number;
  location?: string | undefined;
  /** Further headers by lower-case name. */
  headers?: Record<string, string> | undefined;
  body?: string | undefined;
};

/** The path of the records that a request creates, with its parameters; undefined where it creates none. */
export const createdPathOf = ({ routeOptions, params }: FastifyRequest): string | undefined =>
  routeOptions.config.creates?.replace(/:(\w+)/g, (_, name: string) =>
    encodeURIComponent((params as Record<string, string>)[name] ?? ''),
  );

/** @param creates as `createdPathOf`. @param result what the operation returned; undefined for a 204. */
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

/** Sends a result that may be large. It is written in slices, and no further than its tenant may have unsent. */
export const answerInSlices = async (
  { accounts }: Pick<Platform, 'accounts'>,
  reply: FastifyReply,
  result: unknown,
): Promise<FastifyReply> => {
  const { request } = reply;
  const onCharacters = (characters: number): void => {
    const refusal = findUnsentRefusal(accounts, request, characters);
    if (refusal) throw refusal;
  };
  const body = await accounts.finishInTurns(accountOf(request), stringifyInSlices(result, { onCharacters }));
  return reply.type('application/json').send(body);
};

/** Sends the result of an operation, with a 201 where its route creates a record. */
export const answer = (reply: FastifyReply, result: unknown): FastifyReply =>
  sendAnswer(reply, answerOf(createdPathOf(reply.request), result));
