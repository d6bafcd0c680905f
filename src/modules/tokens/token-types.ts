// The built-in token types: the data, container, default mask, fingerprint and search indexes of each.
// A mask and a fingerprint are expressions. They are parsed once and evaluated for each token (docs/decisions/0010-masks-and-fingerprints.md).
import { z } from 'zod';
import type { Json } from '../../platform/json/json.ts';
import type { FieldCode } from '../../platform/json/problem-codes.ts';
import { type Slices, stringifyInSlices } from '../../platform/json/slices.ts';
import { withoutNulls } from '../../platform/base/optional.ts';
import { compileShape, scalarText } from './expressions/expressions.ts';

export type TokenType = {
  readonly name: string;
  /** Container of tokens of the type, unless the request says otherwise. */
  readonly container: string;
  /** Parses data into its kept form. Sentences never hold the value. */
  readonly data: z.ZodType<Json>;
  /** The names that the data may have. Empty for a type whose data is no object, and for any JSON. */
  readonly names: readonly string[];
  /** The default mask: a shape of expressions; what it leaves out is redacted. Undefined: no mask. */
  readonly mask: Json | undefined;
  /** Evaluates `mask`. Undefined where there is no mask. */
  readonly maskedOf: (data: Json) => Json | undefined;
  readonly fingerprint_expression: string;
  /** Evaluates `fingerprint_expression`. */
  readonly fingerprintOf: (data: Json) => Slices<string>;
  readonly search_indexes: readonly string[];
};

/** ISO/IEC 7812-1 annex B: double every second digit from the right, sum the digits, divide by ten. */
export const passesLuhn = (digits: string): boolean => {
  let sum = 0;
  for (let index = digits.length - 1, double = false; index >= 0; index -= 1, double = !double) {
    const digit = digits.charCodeAt(index) - 48;
    sum += double ? (digit > 4 ? digit * 2 - 9 : digit * 2) : digit;
  }
  return sum % 10 === 0;
};

const abaWeights = [3, 7, 1] as const;

/** The checksum of ABA routing numbers: weights 3, 7, 1 over nine digits sum to a multiple of ten. */
export const passesAba = (digits: string): boolean => {
  let sum = 0;
  for (let index = 0; index < digits.length; index += 1)
    sum += (digits.charCodeAt(index) - 48) * (abaWeights[index % 3] as number);
  return sum % 10 === 0;
};

const checkDigit = {
  error: 'must have a valid check digit',
  params: { code: 'check_digit' satisfies FieldCode },
};

const cardNumber = z
  .string('must be a string of 12 to 19 digits')
  .regex(/^[0-9]{12,19}$/, 'must be 12 to 19 digits')
  .refine((text) => !/^[0-9]+$/.test(text) || passesLuhn(text), checkDigit);

const routingNumber = z
  .string('must be a string of 9 digits')
  .regex(/^[0-9]{9}$/, 'must be 9 digits')
  .refine((text) => text.length !== 9 || passesAba(text), checkDigit);

const month = z.int('must be an integer from 1 to 12').min(1, 'must be from 1 to 12').max(12, 'must be from 1 to 12');
const fourDigitYear = 'must be an integer of four digits';
const year = z.int(fourDigitYear).min(1000, fourDigitYear).max(9999, fourDigitYear);

/** Security code of a card. A number is read as its digits. */
export const securityCode = z.preprocess(
  (value) => (typeof value === 'number' ? String(value) : value),
  z.string('must be 3 or 4 digits').regex(/^[0-9]{3,4}$/, 'must be 3 or 4 digits'),
);

/** ISO/IEC 7813 has 26 characters on a card; in forms people write longer names. */
const CARDHOLDER_NAME_LENGTH_MAX = 200;

const cardholderName = z
  .string('must be a string')
  .min(1, 'must not be empty')
  .max(CARDHOLDER_NAME_LENGTH_MAX, `must be at most ${CARDHOLDER_NAME_LENGTH_MAX} characters`);

const cardAttributes = z
  .strictObject(
    {
      number: cardNumber.meta({
        description: 'The card number: 12 to 19 digits with a valid check digit.',
        example: '4242424242424242',
      }),
      expiration_month: month.nullish().meta({ description: 'The month of expiry: 1 for January.', example: 12 }),
      expiration_year: year.nullish().meta({ description: 'The year of expiry, in four digits.', example: 2030 }),
      cvc: securityCode.nullish().meta({
        description: 'The card security code. The vault stores it for a short time. No response to a create has it.',
        example: '123',
      }),
      cardholder_name: cardholderName.nullish().meta({
        description: 'The name on the card. It is encrypted with the number, and no part of the default mask.',
        example: 'Ada Lovelace',
      }),
    },
    'must be an object with a number',
  )
  .meta({ id: 'CardData', description: 'The data of a card.', 'x-strict': true });

/** Card data as it is sent. */
export const cardData = cardAttributes.transform(withoutNulls);

export const bankData = z
  .strictObject(
    {
      routing_number: routingNumber.meta({
        description: 'The ABA routing number, with a valid check digit.',
        example: '110000000',
      }),
      account_number: z
        .string('must be a string of digits')
        .regex(/^[0-9]{1,17}$/, 'must be 1 to 17 digits')
        .meta({ description: 'The account number: at most 17 digits.', example: '000123456789' }),
    },
    'must be an object with routing_number and account_number',
  )
  .meta({ id: 'BankData', description: 'The data of a bank account.', 'x-strict': true });

/** Shows the last four characters of a longer value, and nothing of a shorter one. */
const LAST_FOUR_OR_NOTHING = "reveal: 0, 4, 'X'";

/** Shows the last four digits; dashes stay. */
const LAST_FOUR = 'reveal_last: 4';

const DIGITS_ONLY = "{{ data | remove: '-' }}";

/** A type as it is declared: the functions are made of its expressions. */
type Declaration = Omit<TokenType, 'names' | 'maskedOf' | 'fingerprintOf'> &
  Partial<Pick<TokenType, 'names' | 'fingerprintOf'>>;

const withFunctions = (declared: Declaration): TokenType => {
  const evaluateMask = declared.mask === undefined ? () => undefined : compileShape(declared.mask);
  const evaluateFingerprint = compileShape(declared.fingerprint_expression);
  function* fingerprintOf(data: Json): Slices<string> {
    yield;
    const value = scalarText(evaluateFingerprint(data));
    // Without this, all tokens of the type would count as equal.
    if (value === undefined) throw new TypeError(`the fingerprint expression of ${declared.name} has no value`);
    return value;
  }
  const names = declared.data instanceof z.ZodObject ? Object.keys(declared.data.shape) : [];
  return { names, maskedOf: evaluateMask, fingerprintOf, ...declared };
};

const valueType = (
  name: string,
  container: string,
  data: z.ZodType<string>,
  maskFilter: string,
  more: Partial<Declaration> = {},
): Declaration => ({
  name,
  container,
  data,
  mask: `{{ data | ${maskFilter} }}`,
  fingerprint_expression: '{{ data }}',
  search_indexes: [],
  ...more,
});

const governmentId = {
  fingerprint_expression: DIGITS_ONLY,
  search_indexes: ['{{ data }}', DIGITS_ONLY, '{{ data | last4 }}'],
};

const declarations: Declaration[] = [
  {
    name: 'token',
    container: '/general/high/',
    data: z.custom<Json>((value) => value !== undefined, 'is needed'),
    mask: undefined,
    fingerprint_expression: '{{ data | stringify }}',
    // Same text as the expression makes, with the keys in a fixed order: equal objects have equal fingerprints, however they were
    // written.
    fingerprintOf: (data) => stringifyInSlices(data, { isSorted: true }),
    search_indexes: [],
  },
  {
    name: 'card',
    container: '/pci/high/',
    data: cardData,
    names: Object.keys(cardAttributes.shape),
    mask: {
      number: `{{ data.number | ${LAST_FOUR} }}`,
      expiration_month: '{{ data.expiration_month }}',
      expiration_year: '{{ data.expiration_year }}',
    },
    fingerprint_expression: '{{ data.number }}',
    search_indexes: [],
  },
  {
    name: 'bank',
    container: '/bank/high/',
    data: bankData,
    mask: {
      routing_number: '{{ data.routing_number }}',
      account_number: `{{ data.account_number | ${LAST_FOUR_OR_NOTHING} }}`,
    },
    fingerprint_expression: '{{ data.account_number }}|{{ data.routing_number }}',
    search_indexes: [],
  },
  valueType('card_number', '/pci/high/', cardNumber, LAST_FOUR),
  valueType(
    'us_bank_account_number',
    '/bank/high/',
    z.string('must be a string of digits').regex(/^[0-9]{3,17}$/, 'must be 3 to 17 digits'),
    LAST_FOUR_OR_NOTHING,
  ),
  valueType('us_bank_routing_number', '/bank/low/', routingNumber, LAST_FOUR),
  valueType(
    'social_security_number',
    '/pii/high/',
    z
      .string('must be a string of 9 digits')
      .regex(/^[0-9]{3}-?[0-9]{2}-?[0-9]{4}$/, 'must be 9 digits, with or without dashes'),
    LAST_FOUR,
    governmentId,
  ),
  valueType(
    'employer_id_number',
    '/pii/high/',
    z.string('must be a string of 9 digits').regex(/^[0-9]{2}-?[0-9]{7}$/, 'must be 9 digits, with or without a dash'),
    LAST_FOUR,
    governmentId,
  ),
];

const types = declarations.map(withFunctions);

const registry = new Map(types.map((type) => [type.name, type]));

export const tokenTypeNames: readonly string[] = types.map((type) => type.name);

export const findTokenType = (name: string): TokenType | undefined => registry.get(name);

export const genericTokenType = registry.get('token') as TokenType;
