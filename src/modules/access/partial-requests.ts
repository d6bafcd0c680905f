// The header SVC-PARTIAL: of a batch, the items that are right are done, and the answer has what is wrong with the others.
import type { FastifyRequest } from 'fastify';
import { type FieldCode, invalidField } from '../../platform/base/errors.ts';
import type { App } from '../../platform/http/app-type.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Private keys may ask for a partial batch. The route then answers with a 207. */
    takesPartial?: true;
  }
}

/** In the spelling of errors. */
const NAME = 'SVC-PARTIAL';
const HEADER = 'svc-partial';

/** Whether the request asks for a partial batch, where `addPartialRequests` has let it pass. */
export const isPartial = ({ headers }: FastifyRequest): boolean => headers[HEADER] !== undefined;

/** What is wrong with the header: a client that expects a partial batch must not get another answer. */
const problemOf = ({
  headers,
  routeOptions,
  work,
}: FastifyRequest): [sentence: string, code: FieldCode] | undefined => {
  if (!routeOptions.config.takesPartial) return ['is for POST /tokenize and POST /detokenize only', 'not_allowed'];
  if (work?.caller.publicAccess) return ['must not be sent with a public key', 'not_allowed'];
  return headers[HEADER] === 'true' ? undefined : ['must be true, or left out', 'not_allowed'];
};

/** Call after authentication. */
export const addPartialRequests = (app: App): void => {
  app.addHook('onRequest', (request, _reply, done) => {
    if (!isPartial(request) || request.is404 || request.routeOptions.config.methodGuard) return done();
    const problem = problemOf(request);
    return done(problem && invalidField(NAME, ...problem));
  });
};
