// Request and response schemas of /tokens.
// token-request.ts and change-token.ts validate bodies that hold a token, so that every invalid field is reported at once.
// The schemas of such bodies are for the OpenAPI document only.
import { boundRequestInDocuments } from '../access/bounds.ts';
import { containerPath } from '../access/containers.schema.ts';
import { z } from 'zod';
import {
  APPLICATION_ID,
  CREATED_AT,
  cursorBody,
  type Examples,
  instant,
  onlyPage,
} from '../../platform/http/schemas.ts';
import { optional } from '../../platform/base/optional.ts';
import { tokenIdParam } from './token-record.ts';
import { anyJson, cardToken, expression, genericToken, metadataPatch } from './token-request.schema.ts';
import { DELETED_MAX } from './delete-by-search.ts';
import { searchQueryText } from './search-query.ts';
import { METADATA_KEYS_MAX, SEARCH_INDEXES_MAX } from './token-request.ts';

export const tokenIdParams = z.object({ id: tokenIdParam });

/** For the OpenAPI document only: change-token.ts validates a patch. */
const documentedPatch = z
  .object({
    data: anyJson.optional().meta({
      description: 'Merged with the data. A value that is not an object replaces it.',
      example: { expiration_year: 2032 },
    }),
    mask: anyJson.optional().meta({
      description: 'Merged with the mask of the token, if it has its own. Null: the mask of the type.',
      example: { number: '{{ data.number | last4 }}' },
    }),
    metadata: metadataPatch.nullish().meta({
      description: `Merged with the metadata, which may then have at most ${METADATA_KEYS_MAX} keys. Null removes an entry.`,
      example: { order: '4712' },
    }),
    containers: z
      .array(containerPath)
      .max(1)
      .nullish()
      .meta({ description: 'The container to move the token to. Empty: the token stays where it is.' }),
    search_indexes: z
      .array(expression.meta({ example: '{{ data.number | last4 }}' }))
      .max(SEARCH_INDEXES_MAX)
      .nullish()
      .meta({ description: 'The values that a search finds the token by.' }),
    fingerprint_expression: expression.nullish().meta({
      description: 'The expression whose value makes two tokens of a type equal.',
      example: '{{ data.number }}',
    }),
    deduplicate_token: z.boolean().nullish().meta({
      description:
        'Whether to refuse the change with a 409 where another token that the caller may read has the fingerprint.',
      example: true,
    }),
    expires_at: z.string().meta({ format: 'date-time' }).nullish().meta({
      description:
        'The time from which the token cannot be read. An RFC 3339 timestamp, a date alone, or a time without a zone, which is UTC.',
      example: '2030-09-27T19:23:57Z',
    }),
    bound_to: boundRequestInDocuments.nullish().meta({
      description:
        'Where the value may go, how often and until when. It replaces the bound as a whole; null removes it. Who removes or widens a bound, or confirms one whose proxy or reactor has changed, needs an access rule that reveals the token.',
      example: { hosts: ['api.processor.example'], max_uses: 1 },
    }),
  })
  .meta({
    id: 'TokenPatch',
    description:
      'A merge patch. An attribute that is left out stays as it is. Null removes it, or sets the default of the type.',
  });

export const tokenPatch = z.any().meta({ $ref: `#/components/schemas/${documentedPatch.meta()?.id}` });

/** The parameters of a list, as a body: numbers are JSON numbers. */
export const searchBody = z
  .object(
    {
      query: optional(searchQueryText).meta({
        description: 'The query. Left out: all tokens that the caller may search.',
        example: 'type:card AND metadata.order:4711',
      }),
      ...cursorBody(),
    },
    'the body must be an object',
  )
  .meta({ id: 'SearchRequest', description: 'A query, and the page of its result.' });

const { page: _, ...byCursor } = searchBody.shape;

/** The same for a list that pages by a cursor only. */
export const cursorSearchBody = z
  .object(byCursor, 'the body must be an object')
  .meta({ id: 'CursorSearchRequest', description: 'A query, and the part of its result to return.' });

export const deleteBySearchBody = z
  .object(
    {
      query: searchQueryText.meta({
        description: 'The query, as of a search. It cannot be left out.',
        example: 'metadata.customer:4711',
      }),
      expected_count: z
        .int('must be a whole number')
        .min(1, 'must be at least 1')
        .max(DELETED_MAX, `must be at most ${DELETED_MAX}`)
        .meta({
          description:
            'How many tokens the query finds: the `total_items` of a search. Another number deletes nothing.',
          example: 3,
        }),
      unchanged_since: optional(instant()).meta({
        description:
          'A time before the search that gave `expected_count`. If a token that the query finds was created or changed since, nothing is deleted: so exactly the tokens of that search are. Left out: only their number counts.',
        example: CREATED_AT,
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'DeleteBySearchRequest', description: 'A query, and the number of tokens that it finds.' });

export const deletedTokens = z
  .object({
    deleted_count: z.int().min(1).meta({ description: 'How many tokens were deleted.', example: 3 }),
  })
  .meta({ id: 'DeletedTokens', description: 'What was deleted.' });

export const deleteBySearchExamples: { request: Examples; response: Examples } = {
  request: {
    customer: {
      summary: 'All tokens of a customer',
      value: { query: 'metadata.customer:4711', expected_count: 3 },
    },
  },
  response: { customer: { summary: 'All tokens of a customer', value: { deleted_count: 3 } } },
};

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

export const cursorSearchExamples: { request: Examples; response: Examples } = searchExamples;

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
