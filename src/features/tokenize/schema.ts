// Wire shapes of POST /tokenize. The body is any JSON; the rule in vault/tokenize.ts checks it, so that every bad place
// of a body is named at once. What stands here beyond that is for the reader of the document; a test holds it to the rule.
import { z } from 'zod';
import { bankToken, cardToken, genericTokenId } from '../../http/openapi-examples.ts';
import type { Examples } from '../../http/schemas.ts';
import { tokenTypeNames } from '../../vault/token-types.ts';

const expression = z.string().min(1).max(400);

const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });

export const tokenOptions = z
  .object({
    id: z.string().min(3).max(400).optional().meta({
      description:
        'An id of your own, without `# / \\ + ? [ ] | & = % < > { } ^`, or an expression that makes one: `alias_preserve_format`, `alias_preserve_length` and `alias_card` draw an id that looks like the data. Left out: a UUID.',
      example: '{{ data.number | alias_card }}',
    }),
    mask: z
      .any()
      .optional()
      .meta({
        description:
          'How the data looks from outside: any JSON with expressions at its leaves. Left out: the mask of the type, if it has one.',
        example: { number: '{{ data.number | reveal_last: 4 }}' },
      }),
    containers: z
      .array(
        z
          .string()
          .meta({ description: 'A path of names between slashes, without regard to case.', example: '/pci/high/' }),
      )
      .length(1)
      .optional()
      .meta({ description: 'Where the token goes. Left out: the container of the type.' }),
    metadata: z
      .record(z.string().max(200), z.string().max(500))
      .optional()
      .meta({
        description: 'Kept in plain text beside the token: nothing sensitive.',
        maxProperties: 50,
        example: { order: '4711' },
      }),
    search_indexes: z
      .array(
        expression.meta({
          description: 'Makes one value, which is kept as a keyed digest.',
          example: '{{ data.number | last4 }}',
        }),
      )
      .max(10)
      .optional()
      .meta({ description: 'What the token can be found by. Left out: the indexes of the type.' }),
    fingerprint_expression: expression.optional().meta({
      description: 'What makes two tokens of a type equal. Left out: the expression of the type.',
      example: '{{ data.number }}',
    }),
    deduplicate_token: z.boolean().optional().meta({
      description:
        'Answers with the token of the same type and fingerprint, unchanged, where there is one. Left out: as the tenant is set up.',
      example: true,
    }),
    expires_at: z.string().optional().meta({
      description:
        'The token cannot be read from then on. Any RFC 3339 timestamp, a date alone, or one without a zone, which is UTC.',
      example: '2030-09-27T19:23:57Z',
    }),
  })
  .meta({ id: 'TokenOptions', description: 'What a token request may say beside `type` and `data`.' });

const digits = (pattern: RegExp, description: string, example: string) =>
  z.string().regex(pattern).meta({ description, example });

const cardData = z
  .object({
    number: digits(/^[0-9]{13,19}$/, '13 to 19 digits with a valid check digit.', '4242424242424242'),
    expiration_month: z.int().min(1).max(12).optional().meta({ example: 12 }),
    expiration_year: z.int().min(1000).max(9999).optional().meta({ description: 'Four digits.', example: 2030 }),
    cvc: digits(/^[0-9]{3,4}$/, 'Kept for a short time, and in no response to its creation.', '123').optional(),
  })
  .meta({ id: 'CardData' });

const bankData = z
  .object({
    routing_number: digits(/^[0-9]{9}$/, 'An ABA routing number with a valid check digit.', '110000000'),
    account_number: digits(/^[0-9]{1,17}$/, 'At most 17 digits.', '000123456789'),
  })
  .meta({ id: 'BankData' });

const requestOf = (id: string, type: z.ZodType<string>, data: z.ZodType, description: string) =>
  z.object({ type, data }).meta({ id, description, allOf: [reference('TokenOptions')] });

const ownShape = ['token', 'card', 'bank'];
const textTypes = tokenTypeNames.filter((name) => !ownShape.includes(name));

const genericRequest = requestOf(
  'GenericTokenRequest',
  z.literal('token').meta({ example: 'token' }),
  z.any().meta({ description: 'Any JSON.', example: 'Ada Lovelace' }),
  'A token of any JSON. It has no mask of its own.',
);
const cardRequest = requestOf('CardTokenRequest', z.literal('card').meta({ example: 'card' }), cardData, 'A card.');
const bankRequest = requestOf(
  'BankTokenRequest',
  z.literal('bank').meta({ example: 'bank' }),
  bankData,
  'A bank account.',
);
const textRequest = requestOf(
  'TextTokenRequest',
  z.enum(textTypes).meta({ example: 'social_security_number' }),
  z.string().meta({ description: 'In the form of the type, check digit included.', example: '123-45-6789' }),
  'A value of a known form: a card number, an account or routing number, a social security or employer id number.',
);

const requestNameOf = (type: string) =>
  ({ token: 'GenericTokenRequest', card: 'CardTokenRequest', bank: 'BankTokenRequest' })[type] ?? 'TextTokenRequest';

export const tokenRequest = z.xor([genericRequest, cardRequest, bankRequest, textRequest]).meta({
  id: 'TokenRequest',
  // The variants say so too, but a validator that goes by the discriminator looks at none of them for what is no object.
  type: 'object',
  description: 'One token to make.',
  discriminator: {
    propertyName: 'type',
    mapping: Object.fromEntries(tokenTypeNames.map((name) => [name, reference(requestNameOf(name)).$ref])),
  },
});

/** Beside each other they leave no doubt: an object is a token request exactly where it has `type` and `data`. */
export const tokenizeRequest = z.any().meta({
  id: 'TokenizeRequest',
  description: 'Any JSON, nested as you like: plain values and token requests.',
  oneOf: [
    { type: 'string', description: 'A plain value: becomes a generic token.', examples: ['Ada Lovelace'] },
    { type: 'number', description: 'A plain value: becomes a generic token.', examples: [36] },
    { type: 'boolean', description: 'A plain value: becomes a generic token.', examples: [true] },
    { type: 'null', description: 'Stays null.' },
    { type: 'array', items: reference('TokenizeRequest') },
    reference('TokenRequest'),
    {
      type: 'object',
      description: 'Structure: an object without `type` or without `data`.',
      additionalProperties: reference('TokenizeRequest'),
      not: { properties: { type: {}, data: {} }, required: ['type', 'data'] },
    },
  ],
});

export const tokenizeResponse = z.any().meta({
  id: 'TokenizeResponse',
  description: 'The structure of the request.',
  oneOf: [
    { type: 'string', description: 'The id of the token of a plain value.', examples: [genericTokenId] },
    { type: 'null', description: 'Was null.' },
    { type: 'array', items: reference('TokenizeResponse') },
    reference('Token'),
    {
      type: 'object',
      description: 'Structure.',
      additionalProperties: reference('TokenizeResponse'),
      not: reference('Token'),
    },
  ],
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
    array: { summary: 'Several values', value: [genericTokenId, bankToken] },
    composite: {
      summary: 'A structure of values',
      value: { customer: { name: genericTokenId, referrer: null }, card: cardToken },
    },
  },
};
