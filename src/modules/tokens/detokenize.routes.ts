// POST /detokenize: replaces expressions in JSON by the values of tokens.
import type { TokensContext } from './context.ts';
import { invalidField } from '../../platform/base/errors.ts';
import { answerInSlices } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { workOf } from '../access/authenticate.ts';
import { commonFailures, failures } from '../../platform/http/schemas.ts';
import { isPartial } from '../access/partial-requests.ts';
import { detokenize } from './detokenize.ts';
import { detokenizePartly } from './detokenize-partly.ts';
import { EXPRESSION_TOKENS_MAX } from './expressions/expansion.ts';
import { EXPRESSION_PLACEHOLDERS_MAX } from './expressions/template.ts';
import type { Json } from '../../platform/json/json.ts';
import {
  detokenizeExamples,
  detokenizeRequest,
  detokenizeResult,
  partialDetokenizeExamples,
  partialDetokenizeResult,
} from './detokenize.schema.ts';

export const detokenizeRoutes = (app: App, ctx: TokensContext): void => {
  app.post(
    '/detokenize',
    {
      config: { permission: 'token:read', idempotency: 'none', takesPartial: true },
      schema: {
        operationId: 'detokenize',
        summary: 'Detokenize any JSON',
        description: `Takes any JSON with expressions such as \`{{ 0f6ad6a4-5b1c-4f0e-9a35-0f3d2b1c4e5f }}\` or \`{{ id | json: '$.number' | last4 }}\` in its strings, and responds with the same JSON, with values in place of the expressions. A string that is exactly one expression gets the type of its value. At most ${EXPRESSION_TOKENS_MAX} tokens and ${EXPRESSION_PLACEHOLDERS_MAX.toLocaleString('en')} expressions. The response shows as much of a token as a read shows. The reads are logged before the response is sent.\n\nPermission: \`token:read\` on the container of each token.`,
        tags: ['Tokens'],
        body: detokenizeRequest,
        answer: 'The body, with values in place of expressions.',
        examples: detokenizeExamples,
        partial: partialDetokenizeExamples,
        response: { 200: detokenizeResult, 207: partialDetokenizeResult, ...failures(...commonFailures, 413, 415) },
      },
    },
    async (request, reply) => {
      if (!request.hasBody) throw invalidField('', 'a JSON body is needed', 'required');
      const body = request.body as Json;
      if (isPartial(request))
        return answerInSlices(ctx, reply.code(207), await detokenizePartly(ctx, workOf(request), body));
      const values = await detokenize(ctx, workOf(request), body);
      // Serialized here because fastify sends a bare string as text, and clients need a JSON string.
      return answerInSlices(ctx, reply, values);
    },
  );
};
