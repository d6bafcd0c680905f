// Request and response schemas of token associations.
import { z } from 'zod';
import { onlyPage } from '../../platform/http/list-parameters.ts';
import type { Examples } from '../../platform/http/schemas.ts';
import { tokenIdParam } from './token-record.ts';
import { cardToken, GENERIC_TOKEN_ID } from './token-examples.ts';

const parent_id = tokenIdParam.meta({ description: 'The id of the parent.', example: GENERIC_TOKEN_ID });

export const parentParams = z.object({ parent_id });

export const associationParams = z.object({
  parent_id,
  child_id: tokenIdParam.meta({ description: 'The id of the child.', example: cardToken.id }),
});

export const childExamples: { request: Examples; response: Examples } = {
  request: {
    card: {
      summary: 'A card of a customer',
      value: {
        type: 'card',
        data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030 },
        metadata: cardToken.metadata,
      },
    },
  },
  response: { card: { summary: 'A card of a customer', value: cardToken } },
};

export const childrenExamples: { response: Examples } = {
  response: { page: { summary: 'A page', value: { pagination: onlyPage(1), data: [cardToken] } } },
};
