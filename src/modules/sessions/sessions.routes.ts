// Routes of /sessions.
import type { FastifyRequest } from 'fastify';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { bodyFailures, commonFailures, failures } from '../../platform/http/schemas.ts';
import { workOf } from '../access/authenticate.ts';
import type { SessionsContext } from './context.ts';
import { reachedUrl } from '../../platform/config/config.ts';
import { createSession, getSession } from './sessions.ts';
import {
  createdSessionRecord,
  newSession,
  newSessionExamples,
  sessionExamples,
  sessionParams,
  sessionRecord,
} from './sessions.schema.ts';

export const sessionsRoutes = (app: App, ctx: SessionsContext): void => {
  /** URL of the vault's pages, as the client reaches them. */
  const pagesUrlOf = (request: FastifyRequest): string => ctx.config.fieldsOrigin ?? reachedUrl(ctx.config, request);

  app.post(
    '/sessions',
    {
      // The answer has a key.
      config: { permission: 'session:create', creates: '/sessions', idempotency: 'brief' },
      schema: {
        operationId: 'createSession',
        summary: 'Create a session',
        description:
          'Creates a session, with which a page in a browser may create a few tokens for some minutes. Your backend creates it, and gives its key to the page. The caller must be able to create such tokens itself.\n\nWith `token_id` the session creates nothing: the page sends the security code of one stored card again.\n\nPermission: `session:create`, and `token:create` on the containers of the tokens, or `token:update` on the card of `token_id`.',
        tags: ['Sessions'],
        body: newSession,
        answer: 'The session, with its key.',
        alsoNeeds: ['token:create'],
        examples: newSessionExamples,
        response: { 201: createdSessionRecord, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => {
      const { expires_in, ...body } = request.body;
      const session = { ...body, expires_in_ms: expires_in };
      // Only a session with a page has a link.
      const pagesUrl = body.return_url === undefined ? undefined : pagesUrlOf(request);
      return answer(reply, await createSession(ctx, workOf(request), session, pagesUrl));
    },
  );

  app.get(
    '/sessions/:id',
    {
      config: { permission: 'session:read' },
      schema: {
        operationId: 'getSession',
        summary: 'Read a session',
        description:
          'Reads a session, with the ids of the tokens that it has created. Sessions are deleted a day after they end.\n\nPermission: `session:read`.',
        tags: ['Sessions'],
        params: sessionParams,
        answer: 'The session.',
        examples: sessionExamples,
        response: { 200: sessionRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getSession(ctx, workOf(request), request.params.id),
  );
};
