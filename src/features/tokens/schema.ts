// Wire shapes of /tokens. Bodies that hold a token are checked by the rules in vault/, so that every bad place is named at
// once; what stands here beyond that is for the reader of the document.
import { z } from 'zod';
import { APPLICATION_ID, CREATED_AT, cardToken, genericToken } from '../../http/openapi-examples.ts';
import { cursorBody, onlyPage } from '../../http/pagination.ts';
import type { Examples } from '../../http/schemas.ts';
import { tokenIdParam } from '../../http/token-record.ts';
import { searchQueryText } from '../../vault/search-query.ts';

export const tokenIdParams = z.object({ id: tokenIdParam });

const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });

export const createTokenBody = z.any().meta({
  id: 'CreateTokenRequest',
  description: 'One token to make. Without a `type` it is a generic token.',
  anyOf: [
    reference('TokenRequest'),
    {
      type: 'object',
      required: ['data'],
      properties: { data: { description: 'Any JSON.', examples: ['Ada Lovelace'] } },
      allOf: [reference('TokenOptions')],
      not: { properties: { type: {} }, required: ['type'] },
    },
  ],
});

export const tokenPatch = z.any().meta({
  id: 'TokenPatch',
  description: 'What changes. Left out: stays. Null: is taken away, or goes back to the default of the type.',
  type: 'object',
  properties: {
    data: {
      description: 'Merged with the data; a value that is no object replaces it.',
      examples: [{ expiration_year: 2032 }],
    },
    mask: {
      description: 'Merged with the mask of your own, if there is one.',
      examples: [{ number: '{{ data.number | last4 }}' }],
    },
    metadata: {
      description: 'Merged with the metadata.',
      type: ['object', 'null'],
      additionalProperties: { type: ['string', 'null'] },
      examples: [{ order: '4712' }],
    },
    containers: {
      type: ['array', 'null'],
      items: { type: 'string', examples: ['/pci/low/'] },
      minItems: 1,
      maxItems: 1,
    },
    search_indexes: {
      type: ['array', 'null'],
      items: { type: 'string', examples: ['{{ data.number | last4 }}'] },
      maxItems: 10,
    },
    fingerprint_expression: { type: ['string', 'null'], maxLength: 400, examples: ['{{ data.number }}'] },
    deduplicate_token: {
      description: 'Refuses the change where another token has the fingerprint.',
      type: 'boolean',
      examples: [true],
    },
    expires_at: { type: ['string', 'null'], examples: ['2030-09-27T19:23:57Z'] },
  },
});

/** As the parameters of a list, in a body: numbers are numbers. */
export const searchBody = z
  .object(
    {
      query: searchQueryText.meta({ description: 'What to look for.', example: 'type:card AND metadata.order:4711' }),
      ...cursorBody(),
    },
    'the body must be an object with a query',
  )
  .meta({ id: 'SearchRequest' });

export const tokenExamples: { response: Examples } = {
  response: {
    card: { summary: 'A card, masked', value: cardToken },
    generic: { summary: 'A generic token: it has no mask', value: genericToken },
  },
};

const card = {
  type: 'card',
  data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' },
  metadata: cardToken.metadata,
};

export const createTokenExamples: { request: Examples; response: Examples } = {
  request: { card: { summary: 'A card', value: card } },
  response: { card: { summary: 'A card', value: cardToken } },
};

const page = { pagination: onlyPage(1), data: [cardToken] };

export const tokenListExamples: { response: Examples } = {
  response: { page: { summary: 'A page', value: page } },
};

export const searchExamples: { request: Examples; response: Examples } = {
  request: { order: { summary: 'The cards of an order', value: { query: 'type:card AND metadata.order:4711' } } },
  response: { order: { summary: 'The cards of an order', value: page } },
};

const patched = { ...cardToken.data, expiration_year: 2032 };

export const tokenPatchExamples: { request: Examples; response: Examples } = {
  request: { renewal: { summary: 'A card was renewed', value: { data: { expiration_year: 2032 } } } },
  response: {
    renewal: {
      summary: 'A card was renewed',
      value: { ...cardToken, data: patched, mask: patched, modified_by: APPLICATION_ID, modified_at: CREATED_AT },
    },
  },
};
