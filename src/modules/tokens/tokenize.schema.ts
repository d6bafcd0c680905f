// Request and response schemas of POST /tokenize. The body is any JSON.
// tokenize.ts validates it, so that it reports every invalid field at once.
import { z } from 'zod';
import type { Examples } from '../../platform/http/schemas.ts';
import { partialResult } from './partial.schema.ts';
import { bankToken, cardToken, GENERIC_TOKEN_ID } from './token-examples.ts';

export const tokenizeRequest = z.any().meta({
  id: 'TokenizeRequest',
  description:
    'Any JSON. Each string, number and boolean becomes a generic token; null stays null. An object with `type` and `data` is a token request, as for POST /tokens. Other objects and arrays are structure, and may nest.',
  examples: ['Ada Lovelace', { name: 'Ada Lovelace', card: { type: 'card', data: { number: '4242424242424242' } } }],
});

export const tokenizeResult = z.any().meta({
  id: 'TokenizeResult',
  description:
    'The structure of the request, with the id of its token in place of each plain value, and the token in place of each token request.',
  examples: [GENERIC_TOKEN_ID, { name: GENERIC_TOKEN_ID, card: cardToken }],
});

export const partialTokenizeResult = partialResult(tokenizeResult, {
  id: 'PartialTokenizeResult',
  description: 'A batch that was done in part.',
});

const card = {
  type: 'card',
  data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' },
};
const bank = { type: 'bank', data: { routing_number: '110000000', account_number: '000123456789' } };

export const tokenizeExamples: { request: Examples; response: Examples } = {
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
export const partialTokenizeExamples: Examples = {
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
