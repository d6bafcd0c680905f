// What a record says of a card beside its data: brand, last digits and expiry; its first digits only where the value is shown.
import { z } from 'zod';
import type { Json } from '../../platform/json/json.ts';

/** Brands by the first digits of a number (ISO/IEC 7812). The vault has no table of issuers. */
const brands: readonly [name: string, form: RegExp][] = [
  ['visa', /^4/],
  ['mastercard', /^(?:5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)/],
  ['american-express', /^3[47]/],
  ['discover', /^(?:6011|64[4-9]|65)/],
  ['diners-club', /^3(?:0[0-5]|[689])/],
  ['jcb', /^35(?:2[89]|[3-8])/],
  ['unionpay', /^62/],
];

export type CardDetails = {
  /** Undefined for a brand that is not known. */
  brand?: string | undefined;
  last4: string;
  /** With the last digits and a fingerprint it leaves 1,000 guesses: only readers of the value get it. */
  bin?: string | undefined;
  expiration_month?: number | undefined;
  expiration_year?: number | undefined;
};

/** Numbers of 16 digits and more have eight digits of their issuer, shorter ones six. */
const binOf = (number: string): string => number.slice(0, number.length >= 16 ? 8 : 6);

/** @param data of a card. @param isRevealed whether the reader sees the value; otherwise the mask of the type, which shows as much. */
export const cardDetailsOf = (data: Json, isRevealed: boolean): CardDetails => {
  const { number, expiration_month, expiration_year } = data as {
    number: string;
    expiration_month?: number;
    expiration_year?: number;
  };
  return {
    brand: brands.find(([, form]) => form.test(number))?.[0],
    last4: number.slice(-4),
    bin: isRevealed ? binOf(number) : undefined,
    expiration_month,
    expiration_year,
  };
};

export const cardDetails = z
  .object({
    brand: z
      .string()
      .optional()
      .meta({
        description: 'The brand, by the first digits of the number. Left out where they are of no known brand.',
        'x-extensible-enum': brands.map(([name]) => name),
        example: 'visa',
      }),
    last4: z.string().meta({ description: 'The last four digits of the number.', example: '4242' }),
    bin: z.string().optional().meta({
      description: 'The first digits, of the issuer: only for callers who see the value.',
      example: '42424242',
    }),
    expiration_month: z.int().optional().meta({ description: 'The month of expiry: 1 for January.', example: 12 }),
    expiration_year: z.int().optional().meta({ description: 'The year of expiry, in four digits.', example: 2030 }),
  })
  .meta({ id: 'CardDetails', description: 'What is known of a card without a table of issuers.' });
