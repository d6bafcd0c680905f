// Schemas of /token-intents. token-request.ts validates the data.
import { z } from 'zod';
import { CARD_TOKEN_ID, created, date, type Examples, TENANT_ID, uuid } from '../../platform/http/schemas.ts';
import { newIntentId } from '../access/token-id.ts';
import { cardDetails } from './card-details.ts';
import { cardToken } from './token-examples.ts';
import { tokenTypeNames } from './token-types.ts';

const EXAMPLE_ID = newIntentId(CARD_TOKEN_ID);
const EXPIRES_AT = '2026-11-20T10:00:00.000Z';

const badType = `must be one of ${tokenTypeNames.join(', ')}`;

export const newIntent = z
  .object(
    {
      type: z.enum(tokenTypeNames, badType).meta({
        description: 'The type of the token.',
        'x-extensible-enum': tokenTypeNames,
        example: 'card',
      }),
      data: z
        .any()
        .meta({ description: 'The data, in the form of its type.', example: { number: '4242424242424242' } }),
    },
    'the body must be an object',
  )
  .meta({ id: 'CreateTokenIntentRequest', description: 'Data to keep for a day.' });

export const intentRecord = z
  .object({
    id: z.string().meta({ description: 'The id of the token intent. It begins with `intent-`.', example: EXAMPLE_ID }),
    tenant_id: uuid('The tenant that owns it. Left out for public keys.', TENANT_ID).optional(),
    type: z.string().optional().meta({
      description: 'The type of the token.',
      'x-extensible-enum': tokenTypeNames,
      example: 'card',
    }),
    card: cardDetails.optional().meta({ description: 'Of a card: what is known of it.' }),
    expires_at: date('The time from which it cannot be read or used.').optional(),
    created_by: uuid('Who created it. Left out for public keys.', created.created_by).optional(),
    created_at: date('When it was created. Left out for public keys.').optional(),
  })
  .meta({ id: 'TokenIntent', description: 'A token for a day, without its data.' });

export const intentIdParams = z.object({
  id: z.string().meta({ description: 'The id of a token intent.', example: EXAMPLE_ID }),
});

const summary = 'A card that is not kept yet';
const shown = {
  id: EXAMPLE_ID,
  tenant_id: TENANT_ID,
  type: 'card',
  card: cardToken.card,
  expires_at: EXPIRES_AT,
  ...created,
};

export const newIntentExamples: { request: Examples; response: Examples } = {
  request: {
    card: {
      summary,
      value: {
        type: 'card',
        data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' },
      },
    },
  },
  response: { card: { summary, value: shown } },
};

export const intentExamples: { response: Examples } = { response: { card: { summary, value: shown } } };
