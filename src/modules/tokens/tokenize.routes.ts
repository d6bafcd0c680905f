// POST /tokenize: replaces the values of a JSON body by tokens.
import { z } from 'zod';
import { bodyFailures, type Examples, failures } from '../../platform/http/schemas.ts';
import { partialResult } from './item-failures.ts';
import { bankToken, cardToken, GENERIC_TOKEN_ID } from './token-request.schema.ts';
import type { TokensContext } from './context.ts';
import { invalidField } from '../../platform/base/errors.ts';
import { workOf } from '../access/authenticate.ts';
import { answerInSlices } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import type { Json } from '../../platform/json/json.ts';
import { isPartial } from '../access/partial-requests.ts';
import { tokenize, tokenizePartly } from './tokenize.ts';

// Request and response schemas of POST /tokenize. The body is any JSON.
// tokenize.ts validates it, so that it reports every invalid field at once.

const tokenizeRequest = z.any().meta({
  id: 'TokenizeRequest',
  description:
    'Any JSON. Each string, number and boolean becomes a generic token; null stays null. An object with `type` and `data` is a token request, as for POST /tokens. Other objects and arrays are structure, and may nest.',
  examples: ['Ada Lovelace', { name: 'Ada Lovelace', card: { type: 'card', data: { number: '4242424242424242' } } }],
});

const tokenizeResult = z.any().meta({
  id: 'TokenizeResult',
  description:
    'The structure of the request, with the id of its token in place of each plain value, and the token in place of each token request.',
  examples: [GENERIC_TOKEN_ID, { name: GENERIC_TOKEN_ID, card: cardToken }],
});

const partialTokenizeResult = partialResult(tokenizeResult, {
  id: 'PartialTokenizeResult',
  description: 'A batch that was done in part.',
});

const card = {
  type: 'card',
  data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' },
};
const bank = { type: 'bank', data: { routing_number: '110000000', account_number: '000123456789' } };

const tokenizeExamples: { request: Examples; response: Examples } = {
  request: {
    single: { summary: 'One card', value: { ...card, metadata: cardToken.metadata } },
    array: { summary: 'Several values', value: ['Ada Lovelace', bank] },
    composite: {
      summary: 'A structure of values',
      value: { customer: { name: 'Ada Lovelace', referrer: null }, card: { ...card, metadata: cardToken.metadata } },
    },
  },
  response: {
    single: { summary: 'One card', value: cardToken },
    array: { summary: 'Several values', value: [GENERIC_TOKEN_ID, bankToken] },
    composite: {
      summary: 'A structure of values',
      value: { customer: { name: GENERIC_TOKEN_ID, referrer: null }, card: cardToken },
    },
  },
};

/** One item of two has a typing error. */
const partialTokenizeExamples: Examples = {
  array: {
    summary: 'The number of the second value is wrong',
    value: {
      data: [GENERIC_TOKEN_ID, null],
      errors: { '[1].data.routing_number': ['must have a valid check digit'] },
      codes: { '[1].data.routing_number': ['check_digit'] },
      errors_total: 1,
    },
  },
};

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
