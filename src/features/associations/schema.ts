// Wire shapes of the links between tokens.
import { z } from 'zod';
import { cardToken, genericTokenId } from '../../http/openapi-examples.ts';
import { onlyPage } from '../../http/pagination.ts';
import type { Examples } from '../../http/schemas.ts';
import { tokenIdParam } from '../../http/token-record.ts';

const parent_id = tokenIdParam.meta({ description: 'The id of the parent.', example: genericTokenId });

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
