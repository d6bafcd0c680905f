// POST /detokenize: replaces expressions in JSON by the values of tokens.
import { z } from 'zod';
import { CARD_TOKEN_ID, commonFailures, type Examples, failures } from '../../platform/http/schemas.ts';
import { partialResult } from './item-failures.ts';
import { GENERIC_TOKEN_ID } from './token-request.schema.ts';
import type { TokensContext } from './context.ts';
import { invalidField } from '../../platform/base/errors.ts';
import { answerInSlices } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { workOf } from '../access/authenticate.ts';
import { isPartial } from '../access/partial-requests.ts';
import { detokenize } from './detokenize.ts';
import { detokenizePartly } from './detokenize-partly.ts';
import { EXPRESSION_TOKENS_MAX } from './expressions/expansion.ts';
import { EXPRESSION_PLACEHOLDERS_MAX } from './expressions/template.ts';
import type { Json } from '../../platform/json/json.ts';

// Request and response schemas of POST /detokenize. The body is any JSON; detokenize.ts validates it.

const detokenizeRequest = z.any().meta({
  id: 'DetokenizeRequest',
  description: 'Any JSON with expressions in its strings. Keys are not evaluated.',
});

const detokenizeResult = z.any().meta({
  id: 'DetokenizeResult',
  description: 'The structure of the request, with values in place of expressions.',
});

const partialDetokenizeResult = partialResult(detokenizeResult, {
  id: 'PartialDetokenizeResult',
  description: 'A batch that was done in part.',
});

/** One token of two is gone. */
const partialDetokenizeExamples: Examples = {
  composite: {
    summary: 'The token of the card was deleted',
    value: {
      data: { name: 'Ada Lovelace', number: null, note: 'not an expression' },
      errors: { number: [`must refer to tokens that exist: ${CARD_TOKEN_ID}`] },
      codes: { number: ['not_found'] },
      errors_total: 1,
    },
  },
};

const detokenizeExamples: { request: Examples; response: Examples } = {
  request: {
    composite: {
      summary: 'Values in a structure',
      value: {
        name: `{{ ${GENERIC_TOKEN_ID} }}`,
        number: `{{ ${CARD_TOKEN_ID} | json: '$.number' }}`,
        note: 'not an expression',
      },
    },
  },
  response: {
    composite: {
      summary: 'Values in a structure',
      value: { name: 'Ada Lovelace', number: 'XXXXXXXXXXXX4242', note: 'not an expression' },
    },
  },
};

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
