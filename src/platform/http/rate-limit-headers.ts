// The headers RateLimit-Policy and RateLimit: what a client may do, and what is left of it
// (draft-ietf-httpapi-ratelimit-headers-10).
import type { FastifyReply } from 'fastify';

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
