// Schemas of /sessions.
import { z } from 'zod';
import { boundInDocuments, boundSchema } from '../access/bounds.ts';
import { containerPath } from '../access/containers.schema.ts';
import { ORIGINS_IN_DOCUMENTS, ORIGINS_MAX, originsSchema } from '../access/origins.ts';
import { holdsApiKey } from '../access/api-keys.ts';
import { parseContainer } from '../access/containers.ts';
import {
  APPLICATION_ID,
  CARD_TOKEN_ID,
  CREATED_AT,
  date,
  type Examples,
  givenUuid,
  uuid,
} from '../../platform/http/schemas.ts';
import { optional, optionalWith } from '../../platform/base/optional.ts';
import { tokenMetadata } from '../tokens/token-request.schema.ts';
import { chosenTokenId, METADATA_KEYS_MAX, metadataSchema } from '../tokens/token-request.ts';
import { securityCode, tokenTypeNames } from '../tokens/token-types.ts';
import { CODE_TYPE, MINUTES_DEFAULT, MINUTES_MAX, TOKENS_DEFAULT, TOKENS_MAX, TRIES_MAX } from './sessions.ts';

/** `cvc` is no type of tokens: such a session collects the security code of one card. */
const sessionTypes = [...tokenTypeNames, CODE_TYPE];

const EXAMPLE_ID = '6c0f2a9e-3b71-4d58-8e94-1a7d5f3c2b60';
const EXAMPLE_KEY = 'svc_sess_ExampleExample00_ExampleExampleExampleExample00000000000';

/** Longer URLs are cut by some browsers and logs. */
const URL_LENGTH_MAX = 2_000;

const durationError = `must be a number of minutes or seconds such as 15m or 90s, at most ${MINUTES_MAX}m`;

/** `15m` or `90s`, in milliseconds. */
const duration = z.string(durationError).transform((text, ctx) => {
  const [, count, unit] = /^(\d{1,4})([ms])$/.exec(text) ?? [];
  const ms = Number(count) * (unit === 'm' ? 60_000 : 1_000);
  if (ms > 0 && ms <= MINUTES_MAX * 60_000) return ms;
  ctx.addIssue(durationError);
  return z.NEVER;
});

const urlError = 'must be an absolute URL without user information';

const returnUrl = z
  .string(urlError)
  .max(URL_LENGTH_MAX, `must be at most ${URL_LENGTH_MAX} characters`)
  .refine((text) => {
    const url = URL.parse(text);
    return url !== null && ['http:', 'https:'].includes(url.protocol) && url.username === '' && url.password === '';
  }, urlError)
  // The browser of the person who types the data is led there.
  .refine(
    (text) => ![text, ...[...(URL.parse(text)?.searchParams ?? [])].flat()].some(holdsApiKey),
    'must not hold an API key of a vault',
  );

const oneContainer = 'must be a list of one container path';

export const newSession = z
  .object(
    {
      allowed_origins: originsSchema
        .refine((origins) => origins.length > 0, `must name 1 to ${ORIGINS_MAX} origins`)
        .meta({
          description: `The origins of the pages that may use the session. ${ORIGINS_IN_DOCUMENTS}`,
          example: ['https://shop.example.com'],
        }),
      types: z
        .array(
          z.enum(sessionTypes as [string, ...string[]], 'must be a token type, or cvc'),
          'must be a list of token types',
        )
        .min(1, 'must name a token type')
        .transform((types) => [...new Set(types)])
        .meta({
          description: 'The types of tokens that the session may create. With `token_id`: `cvc` alone.',
          example: ['card'],
        }),
      token_id: optional(chosenTokenId).meta({
        description:
          'The token of a card. The session then creates nothing: it replaces the security code of this card, with POST /sessions/{session_id}/cvc.',
        example: CARD_TOKEN_ID,
      }),
      containers: z
        .array(
          containerPath.transform((text) => parseContainer(text) ?? z.NEVER),
          oneContainer,
        )
        .max(1, oneContainer)
        .nullish()
        .transform((containers) => (containers && containers.length > 0 ? containers : undefined))
        .meta({ description: 'The container of the tokens. Left out: the container of each type.' }),
      metadata: optional(
        metadataSchema.refine(
          (map) => Object.keys(map).length <= METADATA_KEYS_MAX,
          `must have at most ${METADATA_KEYS_MAX} keys`,
        ),
      ).meta({
        description: 'Added to the metadata of each token, in place of what the page sends under the same key.',
      }),
      bound_to: optional(
        z
          .any()
          .meta({ allOf: [{ $ref: '#/components/schemas/BoundRequest' }] })
          .pipe(boundSchema),
      ).meta({
        description: 'Where the values of its tokens may go, how often and until when. The page cannot send another.',
        example: { hosts: ['api.processor.example'] },
      }),
      max_tokens: optional(
        z
          .int(`must be a number from 1 to ${TOKENS_MAX}`)
          .min(1, `must be a number from 1 to ${TOKENS_MAX}`)
          .max(TOKENS_MAX, `must be a number from 1 to ${TOKENS_MAX}`),
      ).meta({
        description: `How many tokens the session may create; left out: ${TOKENS_DEFAULT}. With \`token_id\`: how many requests may send a code, at most ${TRIES_MAX}, which is the default.`,
        example: TOKENS_DEFAULT,
      }),
      expires_in: optionalWith(duration, MINUTES_DEFAULT * 60_000).meta({
        description: `For how long the session works: minutes or seconds, at most ${MINUTES_MAX}m. Left out: ${MINUTES_DEFAULT}m.`,
        example: `${MINUTES_DEFAULT}m`,
      }),
      return_url: optional(returnUrl).meta({
        description:
          'Where the page of the vault leads when the form is sent, on one of the allowed origins. With it, the response has `collect_url`.',
        example: 'https://shop.example.com/paid',
      }),
    },
    'the body must be an object',
  )
  .meta({ id: 'CreateSessionRequest', description: 'A session to create.' });

const keyMeta = {
  description: 'The key for the page. Only the response that created the session has it.',
  format: 'password',
  example: EXAMPLE_KEY,
};

export const sessionRecord = z
  .object({
    id: uuid('The id of the session. It is no secret.', EXAMPLE_ID),
    session_key: z.string().optional().meta(keyMeta),
    collect_url: z.string().optional().meta({
      description:
        'The address of a page of the vault that collects the data without a script. It works once. Only the response that created the session has it.',
      format: 'uri',
      example: 'https://vault.example.com/collect/ExampleExampleExampleExample00000',
    }),
    allowed_origins: z
      .array(z.string().meta({ example: 'https://shop.example.com' }))
      .meta({ description: 'The origins of the pages that may use the session.' }),
    types: z
      .array(z.string().meta({ 'x-extensible-enum': sessionTypes, example: 'card' }))
      .meta({ description: 'The types of tokens that the session may create, or `cvc` with a `token_id`.' }),
    token_id: z.string().optional().meta({
      description: 'The card whose security code the session collects. Left out for a session that creates tokens.',
      example: CARD_TOKEN_ID,
    }),
    containers: z
      .array(z.string().meta({ example: '/pci/high/' }))
      .optional()
      .meta({ description: 'The container of the tokens. Left out: the container of each type.' }),
    metadata: tokenMetadata.optional().meta({ description: 'Added to the metadata of each token.' }),
    bound_to: boundInDocuments
      .optional()
      .meta({ description: 'Where the values of its tokens may go, how often and until when.' }),
    max_tokens: z.int().meta({
      description: 'How many tokens the session may create, or how many requests may send a code.',
      example: TOKENS_DEFAULT,
    }),
    tokens: z.array(z.string().meta({ example: EXAMPLE_ID })).meta({
      description: 'The ids of the tokens that the session has created, or of the card whose code it has collected.',
    }),
    return_url: z.string().optional().meta({
      description: 'Where the page of the vault leads when the form is sent.',
      format: 'uri',
      example: 'https://shop.example.com/paid',
    }),
    expires_at: date('When the session ends.'),
    created_at: date('When it was created.'),
    created_by: uuid('The id of the application that created it.', APPLICATION_ID),
  })
  .meta({ id: 'Session', description: 'The right of a page to create a few tokens, for some minutes.' });

export const createdSessionRecord = sessionRecord
  .extend({ session_key: z.string().meta(keyMeta) })
  .meta({ id: 'CreatedSession', description: 'A new session, with its key.' });

export const sessionParams = z.object({
  id: givenUuid.meta({ description: 'The id of a session.', example: EXAMPLE_ID }),
});

export const codeParams = z.object({
  session_id: givenUuid.meta({ description: 'The id of the session that sends the code.', example: EXAMPLE_ID }),
});

export const newCode = z
  .object(
    { cvc: securityCode.meta({ description: 'The security code: 3 or 4 digits.', example: '123' }) },
    'the body must be an object',
  )
  .meta({ id: 'CollectSecurityCodeRequest', description: 'The security code of a card.' });

export const collectedCode = z
  .object({
    id: z.string().meta({ description: 'The id of the card.', example: CARD_TOKEN_ID }),
    cvc_expires_at: date('When the code is gone for good.', '2026-11-20T19:04:05.123Z'),
  })
  .meta({ id: 'CollectedSecurityCode', description: 'A security code that was stored.' });

export const codeExamples: { request: Examples; response: Examples } = {
  request: { code: { summary: 'Three digits', value: { cvc: '123' } } },
  response: {
    code: { summary: 'Three digits', value: { id: CARD_TOKEN_ID, cvc_expires_at: '2026-11-20T19:04:05.123Z' } },
  },
};

const asked = { allowed_origins: ['https://shop.example.com'], types: ['card'] };
const shown = { id: EXAMPLE_ID, ...asked, max_tokens: TOKENS_DEFAULT, tokens: [] };
const ofCard = { ...asked, types: [CODE_TYPE], token_id: CARD_TOKEN_ID };
const times = { expires_at: '2026-11-20T18:19:05.123Z', created_at: CREATED_AT, created_by: APPLICATION_ID };
const summary = 'A card, within 15 minutes';
const codeSummary = 'The security code of a stored card';

export const newSessionExamples: { request: Examples; response: Examples } = {
  request: { card: { summary, value: asked }, code: { summary: codeSummary, value: ofCard } },
  response: {
    card: { summary, value: { ...shown, session_key: EXAMPLE_KEY, ...times } },
    code: {
      summary: codeSummary,
      value: { ...shown, ...ofCard, max_tokens: TRIES_MAX, session_key: EXAMPLE_KEY, ...times },
    },
  },
};

export const sessionExamples: { response: Examples } = {
  response: { card: { summary: 'After a card was typed', value: { ...shown, tokens: [APPLICATION_ID], ...times } } },
};
