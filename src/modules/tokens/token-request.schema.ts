// OpenAPI schemas and examples of a token request, which several routes take.
// They describe and do not validate: token-request.ts does, so that it reports every invalid field at once. A test compares both.
import { boundRequestInDocuments } from '../access/bounds.ts';
import { containerPath } from '../access/containers.schema.ts';
import { z } from 'zod';
import { STORED_EXPRESSION_LENGTH_MAX } from './expressions/expressions.ts';
import {
  METADATA_KEY_LENGTH_MAX,
  METADATA_KEYS_MAX,
  METADATA_VALUE_LENGTH_MAX,
  SEARCH_INDEXES_MAX,
} from './token-request.ts';
import {
  INTENT_PREFIX,
  TOKEN_ID_EXCLUDED,
  TOKEN_ID_LENGTH_MAX,
  TOKEN_ID_LENGTH_MIN,
  TOKEN_PREFIX,
} from '../access/token-id.ts';
import { bankData, cardData, tokenTypeNames } from './token-types.ts';
import { CARD_TOKEN_ID, created, TENANT_ID } from '../../platform/http/schemas.ts';

// Tokens that the examples of the OpenAPI document show. Cards and accounts are masked, as in real responses.

export const GENERIC_TOKEN_ID = 'b8e1d6c2-3f47-4d0a-8c95-1e7a2b6f4d30';

const maskedCard = { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 };
const maskedBank = { routing_number: '110000000', account_number: 'XXXXXXXX6789' };

export const cardToken = {
  id: CARD_TOKEN_ID,
  tenant_id: TENANT_ID,
  type: 'card',
  data: maskedCard,
  mask: maskedCard,
  card: { brand: 'visa', last4: '4242', expiration_month: 12, expiration_year: 2030 },
  fingerprint: '3tWn8K2m9bQxFZrV5cLhJdYpGsTuAeN7wXvB4kRyMzqE',
  fingerprint_expression: '{{ data.number }}',
  containers: ['/pci/high/'],
  metadata: { order: '4711' },
  search_indexes: [],
  ...created,
};

export const bankToken = {
  id: '5d92e7b1-0c84-4f6a-b3d7-8a1f4c6e2095',
  tenant_id: TENANT_ID,
  type: 'bank',
  data: maskedBank,
  mask: maskedBank,
  fingerprint: '8HqPzL4vNc2RtYxWb6KmJfD9gSuEaT5iVoX3nBrZkMwQ',
  fingerprint_expression: '{{ data.account_number }}|{{ data.routing_number }}',
  containers: ['/bank/high/'],
  search_indexes: [],
  ...created,
};

export const genericToken = {
  id: GENERIC_TOKEN_ID,
  tenant_id: TENANT_ID,
  type: 'token',
  data: 'Ada Lovelace',
  fingerprint: '6XkVtB9mQ2zLpNwR4cYhJdFsGuTeA7nKxvW3bRyMzqE5',
  fingerprint_expression: '{{ data | stringify }}',
  containers: ['/general/high/'],
  search_indexes: [],
  ...created,
};

/** A named schema: from it, client generators make a type that distinguishes an absent attribute from null. */
export const anyJson = z.any().meta({ id: 'AnyJson', description: 'Any JSON value.' });

export const expression = z.string().min(1).max(STORED_EXPRESSION_LENGTH_MAX);

const metadataName = z.string().min(1).max(METADATA_KEY_LENGTH_MAX);
const metadataValue = z.string().max(METADATA_VALUE_LENGTH_MAX);

/** In a patch, null removes an entry. */
export const metadataPatch = z.record(metadataName, metadataValue.nullable());

export const tokenMetadata = z.record(metadataName, metadataValue).meta({
  id: 'TokenMetadata',
  description: `Data about the token that is not sensitive, stored in plain text. At most ${METADATA_KEYS_MAX} keys. A key has no control characters and no blanks at its ends. Searches name a key with other characters than letters and digits between quotation marks: \`metadata."order id":4711\`.`,
  maxProperties: METADATA_KEYS_MAX,
  example: { order: '4711' },
});

/** Null counts as absent in all of these. */
const options = {
  id: z
    .string()
    .min(TOKEN_ID_LENGTH_MIN)
    .max(TOKEN_ID_LENGTH_MAX)
    .nullish()
    .meta({
      description: `An id that you choose, without \`${TOKEN_ID_EXCLUDED}\`, control characters, hidden characters and blanks at its ends, not \`search\`, and without \`${TOKEN_PREFIX}\` and \`${INTENT_PREFIX}\` at its beginning. Or an expression that generates an id that looks like the data, with \`alias_preserve_format\`, \`alias_preserve_length\` or \`alias_card\`. Left out: a UUID.`,
      example: '{{ data.number | alias_card }}',
    }),
  mask: z
    .any()
    .optional()
    .meta({
      description:
        'What callers get that may not see the value: any JSON with expressions at its leaves. Left out: the mask of the type, if it has one.',
      example: { number: '{{ data.number | reveal_last: 4 }}' },
    }),
  containers: z.array(containerPath).max(1).nullish().meta({
    description: 'The container that stores the token: one at most. Left out or empty: the container of the type.',
  }),
  metadata: tokenMetadata
    .nullish()
    .meta({ description: 'Data about the token that is not sensitive. It is stored in plain text.' }),
  search_indexes: z
    .array(
      expression.meta({
        description: 'An expression with one value. The server stores a keyed digest of it.',
        example: '{{ data.number | last4 }}',
      }),
    )
    .max(SEARCH_INDEXES_MAX)
    .nullish()
    .meta({ description: 'The values that a search finds the token by. Left out: the indexes of the type.' }),
  fingerprint_expression: expression.nullish().meta({
    description: 'The expression whose value makes two tokens of a type equal. Left out: the expression of the type.',
    example: '{{ data.number }}',
  }),
  deduplicate_token: z.boolean().nullish().meta({
    description:
      'Whether to return an existing token of the same type and fingerprint that the caller may read, unchanged. Left out: the setting of the tenant.',
    example: true,
  }),
  expires_at: z.string().meta({ format: 'date-time' }).nullish().meta({
    description:
      'The time from which the token cannot be read. An RFC 3339 timestamp, a date alone, or a time without a zone, which is UTC.',
    example: '2030-09-27T19:23:57Z',
  }),
  bound_to: boundRequestInDocuments.nullish().meta({
    description:
      'Where the value may go, how often and until when. Left out: wherever the permissions of callers let it go.',
    example: { hosts: ['api.processor.example'] },
  }),
};

/** Each with all attributes: generators drop or double attributes of combined schemas. */
const requestOf = (id: string, type: z.ZodType<string>, data: z.ZodType, description: string) =>
  z.object({ type, data, ...options }).meta({ id, description });

const ownShape = ['token', 'card', 'bank'];
const textTypes = tokenTypeNames.filter((name) => !ownShape.includes(name));

const typeDescription = 'The type of the token.';

const genericRequest = requestOf(
  'GenericTokenRequest',
  z.literal('token').meta({ description: typeDescription, example: 'token' }),
  z.any().meta({ description: 'The value: any JSON but null.', example: 'Ada Lovelace' }),
  'A request for a generic token, of any JSON. Its type has no mask.',
);
const cardRequest = requestOf(
  'CardTokenRequest',
  z.literal('card').meta({ description: typeDescription, example: 'card' }),
  cardData,
  'A request for a token of a card.',
);
const bankRequest = requestOf(
  'BankTokenRequest',
  z.literal('bank').meta({ description: typeDescription, example: 'bank' }),
  bankData,
  'A request for a token of a bank account.',
);
const textRequest = requestOf(
  'TextTokenRequest',
  z.enum(textTypes).meta({ description: typeDescription, example: 'social_security_number' }),
  z.string().meta({
    description: 'The value, in the form of its type, with a valid check digit where the type has one.',
    example: '123-45-6789',
  }),
  'A request for a token of a card number, an account or routing number, a social security number or an employer id number.',
);

const requestNameOf = (type: string) =>
  ({ token: 'GenericTokenRequest', card: 'CardTokenRequest', bank: 'BankTokenRequest' })[type] ?? 'TextTokenRequest';

const documented = z.xor([genericRequest, cardRequest, bankRequest, textRequest]).meta({
  id: 'CreateTokenRequest',
  description: 'A request for one token. Without `type` it creates a generic token.',
  discriminator: {
    propertyName: 'type',
    mapping: Object.fromEntries(tokenTypeNames.map((name) => [name, `#/components/schemas/${requestNameOf(name)}`])),
  },
});

/** Accepts any body, because token-request.ts validates it. The OpenAPI document refers to `documented` by its id. */
export const createTokenBody = z.any().meta({ $ref: `#/components/schemas/${documented.meta()?.id}` });
