// The registry of token types: for each its data, its container, and its default mask, fingerprint and search indexes.
// decisions.md section 2 is the source of every row. Pure; knows no caller and no storage.
import stableStringify from 'safe-stable-stringify';
import { z } from 'zod';
import type { Json } from './json.ts';

export type TokenType = {
  readonly name: string;
  /** Where tokens of the type go unless the request says otherwise. */
  readonly container: string;
  /** Parses data into its kept form. Sentences never hold the value. */
  readonly data: z.ZodType<Json>;
  /** The default mask: a shape of expressions; what it leaves out is redacted. Undefined: no mask. */
  readonly mask: Json | undefined;
  /** What `mask` evaluates to, without the detour: the hot path. Undefined where there is no mask. */
  readonly maskedOf: (data: Json) => Json | undefined;
  readonly fingerprint_expression: string;
  /** What `fingerprint_expression` evaluates to, without the detour: the hot path. */
  readonly fingerprintOf: (data: Json) => string;
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

const cardNumber = z
  .string('must be a string of 13 to 19 digits')
  .regex(/^[0-9]{13,19}$/, 'must be 13 to 19 digits')
  .refine((text) => !/^[0-9]+$/.test(text) || passesLuhn(text), 'must have a valid check digit');

const routingNumber = z
  .string('must be a string of 9 digits')
  .regex(/^[0-9]{9}$/, 'must be 9 digits')
  .refine((text) => text.length !== 9 || passesAba(text), 'must have a valid check digit');

const month = z.int('must be an integer from 1 to 12').min(1, 'must be from 1 to 12').max(12, 'must be from 1 to 12');
const fourDigitYear = 'must be an integer of four digits';
const year = z.int(fourDigitYear).min(1000, fourDigitYear).max(9999, fourDigitYear);

/** A number is read as its digits. */
const cvc = z.preprocess(
  (value) => (typeof value === 'number' ? String(value) : value),
  z.string('must be 3 or 4 digits').regex(/^[0-9]{3,4}$/, 'must be 3 or 4 digits'),
);

/** Card data as it is sent; unknown attributes are not kept. */
export const cardData = z.object(
  {
    number: cardNumber,
    expiration_month: month.optional(),
    expiration_year: year.optional(),
    cvc: cvc.optional(),
  },
  'must be an object with a number',
);

export const bankData = z.object(
  {
    routing_number: routingNumber,
    account_number: z.string('must be a string of digits').regex(/^[0-9]{1,17}$/, 'must be 1 to 17 digits'),
  },
  'must be an object with routing_number and account_number',
);

/** Shows the last four of what is longer, and nothing of what is not. */
const LAST_FOUR_OR_NOTHING = "reveal: 0, 4, 'X'";

const MASK_CHARACTER = 'X';

/** Dashes stay. Nearly all values have none. */
const hidden = (value: string): string =>
  value.includes('-') ? value.replaceAll(/[^-]/g, MASK_CHARACTER) : MASK_CHARACTER.repeat(value.length);

/** `reveal_last: 4` of digits and dashes. */
const lastFour = (value: string): string => hidden(value.slice(0, -4)) + value.slice(-4);

/** LAST_FOUR_OR_NOTHING. */
const lastFourOrNothing = (value: string): string =>
  MASK_CHARACTER.repeat(value.length > 4 ? value.length - 4 : value.length) + (value.length > 4 ? value.slice(-4) : '');

const text = (data: Json): string => data as string;
const undashed = (data: Json): string => text(data).replaceAll('-', '');
const digitsOnlyExpression = "{{ data | remove: '-' }}";
const governmentIdIndexes = ['{{ data }}', digitsOnlyExpression, '{{ data | last4 }}'];

/** A filter of default masks, and what it does. */
type MaskFilter = { filter: string; apply: (value: string) => string };
const revealLastFour: MaskFilter = { filter: 'reveal_last: 4', apply: lastFour };
const revealLastFourOrNothing: MaskFilter = { filter: LAST_FOUR_OR_NOTHING, apply: lastFourOrNothing };

const valueType = (
  name: string,
  container: string,
  data: z.ZodType<string>,
  { filter, apply }: MaskFilter,
  more: Partial<TokenType> = {},
): TokenType => ({
  name,
  container,
  data,
  mask: `{{ data | ${filter} }}`,
  maskedOf: (value) => apply(text(value)),
  fingerprint_expression: '{{ data }}',
  fingerprintOf: text,
  search_indexes: [],
  ...more,
});

const governmentId = {
  fingerprint_expression: digitsOnlyExpression,
  fingerprintOf: undashed,
  search_indexes: governmentIdIndexes,
};

const types: TokenType[] = [
  {
    name: 'token',
    container: '/general/high/',
    data: z.custom<Json>((value) => value !== undefined, 'is needed'),
    mask: undefined,
    maskedOf: () => undefined,
    fingerprint_expression: '{{ data | stringify }}',
    // Keys in a fixed order, so that equal objects have equal fingerprints however they were written.
    fingerprintOf: (data) => (typeof data === 'object' ? (stableStringify(data) as string) : JSON.stringify(data)),
    search_indexes: [],
  },
  {
    name: 'card',
    container: '/pci/high/',
    data: cardData,
    mask: {
      number: '{{ data.number | reveal_last: 4 }}',
      expiration_month: '{{ data.expiration_month }}',
      expiration_year: '{{ data.expiration_year }}',
    },
    maskedOf: (data) => {
      const { number, expiration_month, expiration_year } = data as z.infer<typeof cardData>;
      const masked: Record<string, Json> = { number: lastFour(number) };
      if (expiration_month !== undefined) masked['expiration_month'] = expiration_month;
      if (expiration_year !== undefined) masked['expiration_year'] = expiration_year;
      return masked;
    },
    fingerprint_expression: '{{ data.number }}',
    fingerprintOf: (data) => (data as { number: string }).number,
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
    maskedOf: (data) => {
      const { routing_number, account_number } = data as { routing_number: string; account_number: string };
      return { routing_number, account_number: lastFourOrNothing(account_number) };
    },
    fingerprint_expression: '{{ data.account_number }}|{{ data.routing_number }}',
    fingerprintOf: (data) => {
      const { account_number, routing_number } = data as { account_number: string; routing_number: string };
      return `${account_number}|${routing_number}`;
    },
    search_indexes: [],
  },
  valueType('card_number', '/pci/high/', cardNumber, revealLastFour),
  valueType(
    'us_bank_account_number',
    '/bank/high/',
    z.string('must be a string of digits').regex(/^[0-9]{3,17}$/, 'must be 3 to 17 digits'),
    revealLastFourOrNothing,
  ),
  valueType('us_bank_routing_number', '/bank/low/', routingNumber, revealLastFour),
  valueType(
    'social_security_number',
    '/pii/high/',
    z
      .string('must be a string of 9 digits')
      .regex(/^[0-9]{3}-?[0-9]{2}-?[0-9]{4}$/, 'must be 9 digits, with or without dashes'),
    revealLastFour,
    governmentId,
  ),
  valueType(
    'employer_id_number',
    '/pii/high/',
    z.string('must be a string of 9 digits').regex(/^[0-9]{2}-?[0-9]{7}$/, 'must be 9 digits, with or without a dash'),
    revealLastFour,
    governmentId,
  ),
];

const registry = new Map(types.map((type) => [type.name, type]));

export const tokenTypeNames: readonly string[] = types.map((type) => type.name);

export const findTokenType = (name: string): TokenType | undefined => registry.get(name);

export const genericTokenType = registry.get('token') as TokenType;
