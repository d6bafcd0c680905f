// POST /tokenize: any JSON in, the same shape of tokens out.
import type { Context } from '../../context.ts';
import { invalidField } from '../../errors.ts';
import { callerOf } from '../../http/authenticate.ts';
import type { App } from '../../http/app-type.ts';
import { bodyFailures, failures } from '../../http/schemas.ts';
import type { Json } from '../../vault/json.ts';
import { tokenize } from '../../vault/tokenize.ts';
import { tokenizeExamples, tokenizeRequest, tokenizeResult } from './schema.ts';

export const tokenizeRoutes = (app: App, ctx: Context): void => {
  app.post(
    '/tokenize',
    {
      config: { permission: 'token:create' },
      schema: {
        operationId: 'tokenize',
        summary: 'Tokenize any JSON',
        description:
          'Creates a token for every value of the body, and answers with the same structure: the id of a token in place of a plain value, a token in place of an object with `type` and `data`. `null` stays `null`. If one value is not valid, no token is created.\n\nPermission: `token:create` on each destination container.',
        tags: ['Tokenize'],
        body: tokenizeRequest,
        answer: 'The tokens, in the structure of the request.',
        examples: tokenizeExamples,
        response: { 200: tokenizeResult, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => {
      if (!request.hasBody) throw invalidField('', 'a JSON body is needed');
      const tokenized = await tokenize(ctx, callerOf(request), request.body as Json);
      // Spelled out here: a bare string must reach the caller as a JSON string.
      return reply.type('application/json').send(JSON.stringify(tokenized));
    },
  );
};
