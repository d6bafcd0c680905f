// POST /tokenize: replaces the values of a JSON body by tokens.
import type { TokensContext } from './context.ts';
import { invalidField } from '../../platform/base/errors.ts';
import { workOf } from '../access/authenticate.ts';
import { answerInSlices } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { bodyFailures, failures } from '../../platform/http/schemas.ts';
import type { Json } from '../../platform/json/json.ts';
import { isPartial } from '../access/partial-requests.ts';
import { tokenize, tokenizePartly } from './tokenize.ts';
import {
  partialTokenizeExamples,
  partialTokenizeResult,
  tokenizeExamples,
  tokenizeRequest,
  tokenizeResult,
} from './tokenize.schema.ts';

export const tokenizeRoutes = (app: App, ctx: TokensContext): void => {
  app.post(
    '/tokenize',
    {
      config: { permission: 'token:create', servesBrowsers: true, takesPartial: true },
      schema: {
        operationId: 'tokenize',
        summary: 'Tokenize any JSON',
        description:
          'Creates a token for every value of the body, and responds with the same structure: the id of a token in place of a plain value, a token in place of an object with `type` and `data`. `null` stays `null`. If one value is not valid, no token is created, unless the request has `SVC-PARTIAL`.\n\nPermission: `token:create` on each destination container.',
        tags: ['Tokenize'],
        body: tokenizeRequest,
        answer: 'The tokens, in the structure of the request.',
        examples: tokenizeExamples,
        partial: partialTokenizeExamples,
        response: { 200: tokenizeResult, 207: partialTokenizeResult, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => {
      if (!request.hasBody) throw invalidField('', 'a JSON body is needed', 'required');
      const body = request.body as Json;
      if (isPartial(request))
        return answerInSlices(ctx, reply.code(207), await tokenizePartly(ctx, workOf(request), body));
      const tokenized = await tokenize(ctx, workOf(request), body);
      // Serialized here because fastify sends a bare string as text, and clients need a JSON string.
      return answerInSlices(ctx, reply, tokenized);
    },
  );
};
