// Routes of /access: who may do what, and why.
import type { App } from '../../platform/http/app-type.ts';
import { commonFailures, failures } from '../../platform/http/schemas.ts';
import { workOf } from '../access/authenticate.ts';
import { explainExamples, explanation, question } from './answers.schema.ts';
import type { AnswersContext } from './context.ts';
import { explainAccess } from './explain.ts';

const tags = ['Access'];

export const answersRoutes = (app: App, ctx: AnswersContext): void => {
  app.post(
    '/access/explain',
    {
      config: { permission: 'access:read', idempotency: 'none' },
      schema: {
        operationId: 'explainAccess',
        summary: 'Explain an access decision',
        description:
          'Says whether an application or a member may do something with a token, which rule decides, which rules were skipped and why, and which other checks a request passes. The routes decide by the same function. Nothing is opened, sent or counted. A token, application, member or proxy of another tenant is a 404.\n\nPermission: `access:read`. A question about another than the caller also needs `application:read`.',
        tags,
        body: question,
        answer: 'The decision, and why.',
        examples: explainExamples,
        response: { 200: explanation, ...failures(...commonFailures, 404, 413, 415) },
      },
    },
    async (request) => explainAccess(ctx, workOf(request), request.body),
  );
};
