// The request of POST /agentic_commerce/delegate_payment, as the Agentic Commerce Protocol publishes it.
import { z } from 'zod';

/** Released versions of the protocol, the newest first. */
export const apiVersions = ['2026-04-17', '2026-01-30', '2025-09-29'] as const;
export type ApiVersion = (typeof apiVersions)[number];

const text = (most?: number) => {
  const error = most === undefined ? 'must be text' : `must be text of at most ${most} characters`;
  return most === undefined ? z.string(error) : z.string(error).max(most, error);
};

const oneOf = <const T extends readonly [string, ...string[]]>(values: T) =>
  z.enum(values, `must be one of ${values.join(', ')}`);

const texts = z.record(z.string(), text(), 'must be an object of texts');

const object = <T extends z.ZodRawShape>(shape: T) =>
  z.strictObject(shape, {
    error: ({ code }) => (code === 'unrecognized_keys' ? 'has an attribute that is not known' : 'must be an object'),
  });

/** The first six digits of a card, and eight in the newest version. */
const iinLengthOf = (version: ApiVersion): number => (version === '2026-04-17' ? 8 : 6);

const lastFourOf = (version: ApiVersion) =>
  version === '2025-09-29' ? text(4) : z.string('must be 4 digits').regex(/^[0-9]{4}$/, 'must be 4 digits');

const cardOf = (version: ApiVersion) =>
  object({
    type: z.literal('card', 'must be card'),
    card_number_type: oneOf(['fpan', 'network_token']),
    number: text(),
    exp_month: text(2).optional(),
    exp_year: text(4).optional(),
    name: text().optional(),
    cvc: text(4).optional(),
    cryptogram: text().optional(),
    eci_value: text(2).optional(),
    checks_performed: z.array(oneOf(['avs', 'cvv', 'ani', 'auth0']), 'must be a list').optional(),
    iin: text(iinLengthOf(version)).optional(),
    display_card_funding_type: oneOf(['credit', 'debit', 'prepaid']),
    display_wallet_type: text().optional(),
    display_brand: text().optional(),
    display_last4: lastFourOf(version).optional(),
    metadata: texts,
    virtual: z.boolean('must be true or false').optional(),
  });

const allowance = object({
  reason: z.literal('one_time', 'must be one_time'),
  max_amount: z.int('must be a whole number in minor units'),
  currency: z
    .string('must be a currency in small letters')
    .regex(/^[a-z]{3}$/, 'must be a currency of three small letters'),
  checkout_session_id: text(),
  merchant_id: text(256),
  expires_at: z.iso.datetime({ offset: true, error: 'must be a time such as 2030-09-27T19:23:57Z' }),
});

const address = object({
  name: text(256),
  line_one: text(60),
  line_two: text(60).optional(),
  city: text(60),
  state: text(),
  country: z.string('must be two letters').length(2, 'must be two letters'),
  postal_code: text(20),
});

const riskSignal = object({
  type: z.literal('card_testing', 'must be card_testing'),
  score: z.int('must be a whole number'),
  action: oneOf(['blocked', 'manual_review', 'authorized']),
});

const risksOf = (version: ApiVersion) => {
  const list = z.array(riskSignal, 'must be a list');
  return version === '2026-04-17' ? list : list.min(1, 'must have at least one');
};

const requestOf = (version: ApiVersion) =>
  object({
    payment_method: cardOf(version),
    allowance,
    billing_address: address.optional(),
    risk_signals: risksOf(version),
    metadata: texts,
  });

export type DelegatedCard = z.output<ReturnType<typeof requestOf>>;

export const delegatedCardOf: Record<ApiVersion, ReturnType<typeof requestOf>> = {
  '2025-09-29': requestOf('2025-09-29'),
  '2026-01-30': requestOf('2026-01-30'),
  '2026-04-17': requestOf('2026-04-17'),
};
