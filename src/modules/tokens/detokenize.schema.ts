// Request and response schemas of POST /detokenize. The body is any JSON; detokenize.ts validates it.
import { z } from 'zod';
import { type Examples, CARD_TOKEN_ID } from '../../platform/http/schemas.ts';
import { partialResult } from './partial.schema.ts';
import { GENERIC_TOKEN_ID } from './token-examples.ts';

export const detokenizeRequest = z.any().meta({
  id: 'DetokenizeRequest',
  description: 'Any JSON with expressions in its strings. Keys are not evaluated.',
});

export const detokenizeResult = z.any().meta({
  id: 'DetokenizeResult',
  description: 'The structure of the request, with values in place of expressions.',
});

export const partialDetokenizeResult = partialResult(detokenizeResult, {
  id: 'PartialDetokenizeResult',
  description: 'A batch that was done in part.',
});

/** One token of two is gone. */
export const partialDetokenizeExamples: Examples = {
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

export const detokenizeExamples: { request: Examples; response: Examples } = {
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
