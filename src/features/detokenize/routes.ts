// POST /detokenize: any JSON with expressions in, the same JSON with values out.
import type { Context } from '../../context.ts';
import { invalidField } from '../../errors.ts';
import type { App } from '../../http/app-type.ts';
import { callerOf } from '../../http/authenticate.ts';
import { commonFailures, failures } from '../../http/schemas.ts';
import { detokenize } from '../../vault/detokenize.ts';
import type { Json } from '../../vault/json.ts';
import { detokenizeExamples, detokenizeRequest, detokenizeResult } from './schema.ts';

export const detokenizeRoutes = (app: App, ctx: Context): void => {
  app.post(
    '/detokenize',
    {
      config: { permission: 'token:read', idempotency: 'none' },
      schema: {
        operationId: 'detokenize',
        summary: 'Detokenize any JSON',
        description:
          "Takes any JSON with expressions such as `{{ 0f6ad6a4-5b1c-4f0e-9a35-0f3d2b1c4e5f }}` or `{{ id | json: '$.number' | last4 }}` in its texts, and answers with the same JSON and values in their place. A text that is exactly one expression gets the type of its value. At most 100 tokens and 1,000 expressions. The answer shows as much of a token as a read would show. The reads are logged before the answer is sent.\n\nPermission: `token:read` on the container of each token.",
        tags: ['Tokens'],
        body: detokenizeRequest,
        answer: 'The body, with values in place of expressions.',
        examples: detokenizeExamples,
        response: { 200: detokenizeResult, ...failures(...commonFailures, 413, 415) },
      },
    },
    async (request, reply) => {
      if (!request.hasBody) throw invalidField('', 'a JSON body is needed');
      const values = await detokenize(ctx, callerOf(request), request.body as Json);
      // Spelled out here: a bare string must reach the caller as a JSON string.
      return reply.type('application/json').send(JSON.stringify(values));
    },
  );
};
