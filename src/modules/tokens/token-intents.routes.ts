// Routes and schemas of /token-intents.
import { z } from 'zod';
import {
  bodyFailures,
  CARD_TOKEN_ID,
  commonFailures,
  created,
  date,
  type Examples,
  failures,
  noContent,
  TENANT_ID,
  uuid,
} from '../../platform/http/schemas.ts';
import { newIntentId } from '../access/token-id.ts';
import { cardDetails } from './card-details.ts';
import { cardToken } from './token-request.schema.ts';
import { tokenTypeNames } from './token-types.ts';
import { answer } from '../../platform/http/answers.ts';
import type { App } from '../../platform/http/app-type.ts';
import { workOf } from '../access/authenticate.ts';
import type { TokensContext } from './context.ts';
import { createIntent, deleteIntent, getIntent, INTENT_HOURS } from './token-intents.ts';

// Schemas of /token-intents. token-request.ts validates the data.

const EXAMPLE_ID = newIntentId(CARD_TOKEN_ID);
const EXPIRES_AT = '2026-11-20T10:00:00.000Z';

const badType = `must be one of ${tokenTypeNames.join(', ')}`;

const newIntent = z
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

const intentRecord = z
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

const intentIdParams = z.object({
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

const newIntentExamples: { request: Examples; response: Examples } = {
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

const intentExamples: { response: Examples } = { response: { card: { summary, value: shown } } };

const ALL = '/token-intents';
const ONE = `${ALL}/:id`;
const tags = ['Tokens'];

export const tokenIntentsRoutes = (app: App, ctx: TokensContext): void => {
  app.post(
    ALL,
    {
      config: { permission: 'token:create', creates: ALL, servesBrowsers: true },
      schema: {
        operationId: 'createTokenIntent',
        summary: 'Create a token intent',
        description: `Creates a token for ${INTENT_HOURS} hours, such as of a card that is to be charged before it is kept. Expressions take it as any token. No response has its fingerprint, and no deduplication finds it. A security code is kept as long as that of any card. \`POST /tokens\` with \`token_intent_id\` in place of \`data\` turns it into a token, once and without its security code.\n\nPermission: \`token:create\` on the container of the type.`,
        tags,
        body: newIntent,
        answer: 'The token intent.',
        examples: newIntentExamples,
        response: { 201: intentRecord, ...failures(...bodyFailures) },
      },
    },
    async (request, reply) => answer(reply, await createIntent(ctx, workOf(request), request.body)),
  );

  app.get(
    ONE,
    {
      config: { permission: 'token:read' },
      schema: {
        operationId: 'getTokenIntent',
        summary: 'Read a token intent',
        description:
          'Reads a token intent, without its data. The read is logged before the response is sent.\n\nPermission: `token:read` on the container of the intent.',
        tags,
        params: intentIdParams,
        answer: 'The token intent.',
        examples: intentExamples,
        response: { 200: intentRecord, ...failures(...commonFailures, 404) },
      },
    },
    async (request) => getIntent(ctx, workOf(request), request.params.id),
  );

  app.delete(
    ONE,
    {
      config: { permission: 'token:delete' },
      schema: {
        operationId: 'deleteTokenIntent',
        summary: 'Delete a token intent',
        description:
          'Deletes a token intent, with its security code.\n\nPermission: `token:delete` on the container of the intent.',
        tags,
        params: intentIdParams,
        answer: 'The token intent is deleted.',
        response: { 204: noContent, ...failures(...commonFailures, 404) },
      },
    },
    async (request, reply) => answer(reply, await deleteIntent(ctx, workOf(request), request.params.id)),
  );
};
