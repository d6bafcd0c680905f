// The token request on the wire: several features take one. Nothing here checks a request. The rule in
// vault/token-request.ts does, so that it names every bad place at once; a test holds these schemas to it.
import { z } from 'zod';
import {
  EXPRESSION_LENGTH_MAX,
  METADATA_KEY_LENGTH_MAX,
  METADATA_KEYS_MAX,
  METADATA_VALUE_LENGTH_MAX,
  metadataKey,
  SEARCH_INDEXES_MAX,
} from '../vault/token-request.ts';
import { TOKEN_ID_LENGTH_MAX } from '../vault/token-id.ts';
import { CONTAINER_LENGTH_MAX, containerPattern } from '../vault/containers.ts';
import { tokenTypeNames } from '../vault/token-types.ts';

/** Any JSON by a name: generators make a type of it that can tell an absent attribute from null. */
export const anyJson = z.any().meta({ id: 'AnyJson', description: 'Any JSON value.' });

export const expression = z.string().min(1).max(EXPRESSION_LENGTH_MAX);

export const containerPath = z.string().max(CONTAINER_LENGTH_MAX).regex(containerPattern).meta({
  description: 'A path of names between slashes. Letters, digits, _ and -; upper and lower case are the same.',
  example: '/pci/high/',
});

const metadataName = z.string().max(METADATA_KEY_LENGTH_MAX).regex(metadataKey);
const metadataValue = z.string().max(METADATA_VALUE_LENGTH_MAX);

/** In a patch null takes an entry away. */
export const metadataPatch = z.record(metadataName, metadataValue.nullable());

export const tokenMetadata = z.record(metadataName, metadataValue).meta({
  id: 'TokenMetadata',
  description: `Data about the token that is not sensitive, stored in plain text. At most ${METADATA_KEYS_MAX} keys. A key has letters, digits, dots, dashes and underscores, and begins and ends with a letter, a digit or an underscore.`,
  maxProperties: METADATA_KEYS_MAX,
  example: { order: '4711' },
});

/** Null counts as absent in all of these. */
const options = {
  id: z.string().min(3).max(TOKEN_ID_LENGTH_MAX).nullish().meta({
    description:
      'An id that you choose, without `# / \\ + ? [ ] | & = % < > { } ^`, controls and hidden characters, and not `search`. Or an expression that draws an id that looks like the data, by `alias_preserve_format`, `alias_preserve_length` or `alias_card`. Left out: a UUID.',
    example: '{{ data.number | alias_card }}',
  }),
  mask: z
    .any()
    .optional()
    .meta({
      description:
        'What callers without sight of the value get: any JSON with expressions at its leaves. Left out: the mask of the type, if it has one.',
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
      'Whether to answer with an existing token of the same type and fingerprint that the caller may read, unchanged. Left out: the setting of the tenant.',
    example: true,
  }),
  expires_at: z.string().meta({ format: 'date-time' }).nullish().meta({
    description:
      'The time from which the token cannot be read. An RFC 3339 timestamp, a date alone, or a time without a zone, which is UTC.',
    example: '2030-09-27T19:23:57Z',
  }),
};

const digits = (pattern: RegExp, description: string, example: string) =>
  z.string().regex(pattern).meta({ description, example });

const cardData = z
  .object({
    number: digits(/^[0-9]{13,19}$/, 'The card number: 13 to 19 digits with a valid check digit.', '4242424242424242'),
    expiration_month: z
      .int()
      .min(1)
      .max(12)
      .optional()
      .meta({ description: 'The month of expiry: 1 for January.', example: 12 }),
    expiration_year: z
      .int()
      .min(1000)
      .max(9999)
      .optional()
      .meta({ description: 'The year of expiry, in four digits.', example: 2030 }),
    cvc: digits(
      /^[0-9]{3,4}$/,
      'The card security code. It is stored for a short time, and no answer to a create has it.',
      '123',
    ).optional(),
  })
  .meta({ id: 'CardData', description: 'The data of a card.' });

const bankData = z
  .object({
    routing_number: digits(/^[0-9]{9}$/, 'The ABA routing number, with a valid check digit.', '110000000'),
    account_number: digits(/^[0-9]{1,17}$/, 'The account number: at most 17 digits.', '000123456789'),
  })
  .meta({ id: 'BankData', description: 'The data of a bank account.' });

/** Each with all its attributes: generators drop or double what several schemas bring together. */
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

/** A body that the rule checks: registered by its id, `documented` is what the document refers to. */
export const createTokenBody = z.any().meta({ $ref: `#/components/schemas/${documented.meta()?.id}` });
