// Wire shapes of POST /detokenize. The body is any JSON; the rule in vault/detokenize.ts checks it.
import { z } from 'zod';
import { cardTokenId, genericTokenId } from '../../http/openapi-examples.ts';
import type { Examples } from '../../http/schemas.ts';

export const detokenizeRequest = z.any().meta({
  id: 'DetokenizeRequest',
  description: 'Any JSON with expressions in its texts. Keys have none.',
});

export const detokenizeResult = z.any().meta({
  id: 'DetokenizeResult',
  description: 'The structure of the request, with values in place of expressions.',
});

export const detokenizeExamples: { request: Examples; response: Examples } = {
  request: {
    composite: {
      summary: 'Values in a structure',
      value: {
        name: `{{ ${genericTokenId} }}`,
        number: `{{ ${cardTokenId} | json: '$.number' }}`,
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
