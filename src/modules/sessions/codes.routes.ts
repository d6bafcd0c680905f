// POST /sessions/:session_id/cvc: the key of a session for one card replaces the security code of that card.
import type { FastifyRequest } from 'fastify';
import { AppError } from '../../platform/base/errors.ts';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { commonFailures, failures } from '../../platform/http/schemas.ts';
import { workOf } from '../access/authenticate.ts';
import { collectCode, usedUp } from '../tokens/security-codes.ts';
import type { SessionsContext } from './context.ts';
import { takeTry } from './rows.ts';
import { codeExamples, codeParams, collectedCode, newCode } from './sessions.schema.ts';

const otherKey = () => new AppError('forbidden', 'Only the key of a session for one card may send its security code.');

export const codesRoutes = (app: App, ctx: SessionsContext): void => {
  /** The card of the session that calls. @throws forbidden for every other caller, and another session. */
  const cardOf = (request: FastifyRequest): string => {
    const { session } = workOf(request).caller.publicAccess ?? {};
    const { session_id } = request.params as { session_id: string };
    if (session?.token_id === undefined || session.id !== session_id.toLowerCase()) throw otherKey();
    return session.token_id;
  };

  /** Before the body is read: a request that is not well-formed is a try too. */
  const countTry = async (request: FastifyRequest): Promise<void> => {
    cardOf(request);
    const { db, actor_id } = workOf(request);
    if (!(await takeTry(db, actor_id, ctx.now()))) throw usedUp();
  };

  app.post(
    '/sessions/:session_id/cvc',
    {
      // A repetition replaces the code by itself, and no answer is kept beside it.
      config: { permission: 'token:update', servesBrowsers: true, idempotency: 'none' },
      preParsing: async (request, _reply, payload) => {
        await countTry(request);
        return payload;
      },
      schema: {
        operationId: 'collectSecurityCode',
        summary: 'Send a security code',
        description:
          'Replaces the security code of a stored card, with the key of a session that was created for its token. Nothing else of the card changes. Each request counts as a try of the session, well-formed or not.\n\nPermission: `token:update` on the card, of the application that created the session.',
        tags: ['Sessions'],
        params: codeParams,
        body: newCode,
        answer: 'When the code is gone.',
        examples: codeExamples,
        response: { 200: collectedCode, ...failures(...commonFailures, 404, 413, 415) },
      },
    },
    async (request, reply) => {
      const code = { token_id: cardOf(request), cvc: request.body.cvc };
      return answer(reply, await collectCode(ctx, workOf(request), code));
    },
  );
};
