// What a token may be charged: the allowance of a bound, and whether the amount of a request is within it. Knows no request.
import { z } from 'zod';
import { isPlainName, NOT_PLAIN } from './names.ts';
import { optional } from '../../platform/base/optional.ts';

/** Amounts are in minor units of the currency, such as cents: whole numbers that every JSON reader holds exactly. */
export type Allowance = {
  max_amount: number;
  /** Three small letters. */
  currency: string;
  /** Amount of all requests together. */
  max_total?: number | undefined;
  /** Compared where the proxy says where a request has its merchant. */
  merchant_id?: string | undefined;
  /** Not compared with anything: for who reads the record. */
  checkout_session_id?: string | undefined;
};

/** Length of an id: as long as processors make them. */
const TEXT_LENGTH_MAX = 256;

const amountError = 'must be a whole number from 1 to 9007199254740991, in minor units such as cents';
const currencyError = 'must be the three letters of a currency (ISO 4217)';
const textError = `must be text of 1 to ${TEXT_LENGTH_MAX} characters`;

const amount = z.int(amountError).min(1, amountError);

export const currencyForm = /^[A-Za-z]{3}$/;

const text = z.string(textError).min(1, textError).max(TEXT_LENGTH_MAX, textError).refine(isPlainName, NOT_PLAIN);

export const allowanceAttributes = {
  max_amount: amount,
  currency: z
    .string(currencyError)
    .regex(currencyForm, currencyError)
    .transform((letters) => letters.toLowerCase()),
  max_total: optional(amount),
  merchant_id: optional(text),
  checkout_session_id: optional(text),
};

/** @param absent how an attribute may be absent. */
export const describeAllowance = (absent: <T extends z.ZodType>(schema: T) => z.ZodOptional) => ({
  max_amount: z.int().min(1).meta({
    description: 'The most that one request may charge, in minor units of the currency, such as cents.',
    example: 2000,
  }),
  currency: z.string().meta({ description: 'The currency (ISO 4217).', example: 'usd' }),
  max_total: absent(z.int().min(1)).meta({
    description: 'The most that all requests together may charge. Refunds do not count up.',
    example: 10000,
  }),
  merchant_id: absent(z.string()).meta({
    description: 'The merchant. Compared where the proxy says where a request has its merchant.',
    example: 'acme',
  }),
  checkout_session_id: absent(z.string()).meta({
    description: 'The checkout that the allowance is for. It is kept, and not compared.',
    example: 'csn_01HV3P3',
  }),
});

// --- ISO 4217 ---

/** Currencies of two decimals, and those of another number. Others are unknown: an amount in major units is refused. */
const decimalsOf = new Map<string, number>(
  [
    [0, 'bif clp djf gnf isk jpy kmf krw pyg rwf ugx uyi vnd vuv xaf xof xpf'],
    [
      2,
      'aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bmd bnd bob bov brl bsd btn bwp byn bzd cad cdf che chf chw cny cop cou crc cup cve czk dkk dop dzd egp ern etb eur fjd fkp gbp gel ghs gip gmd gtq gyd hkd hnl htg huf idr ils inr irr jmd kes kgs khr kpw kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mru mur mvr mwk mxn mxv myr mzn nad ngn nio nok npr nzd pab pen pgk php pkr pln qar ron rsd rub sar sbd scr sdg sek sgd shp sle sos srd ssp stn svc syp szl thb tjs tmt top try ttd twd tzs uah usd usn uyu uzs ved ves wst xcd xcg yer zar zmw zwg',
    ],
    [3, 'bhd iqd jod kwd lyd omr tnd'],
    [4, 'clf uyw'],
  ].flatMap(([decimals, letters]) =>
    (letters as string).split(' ').map((each): [string, number] => [each, decimals as number]),
  ),
);

/** How a proxy's requests say amounts: in cents, or in dollars and cents. */
export const amountUnits = ['minor', 'major'] as const;
export type AmountUnit = (typeof amountUnits)[number];

/** A number of JSON as JavaScript writes it: exact, as the parser finds those that are not. */
const plainNumber = /^([0-9]+)(?:\.([0-9]+))?(?:e([+-][0-9]+))?$/;

/** Undefined for a number with more decimals than there are. */
const shift = (number: number, decimals: number): bigint | undefined => {
  const [, whole = '', fraction = '', exponent = '0'] = plainNumber.exec(String(number)) ?? [];
  if (whole === '') return undefined;
  const digits = BigInt(whole + fraction);
  const power = Number(exponent) - fraction.length + decimals;
  if (power >= 0) return digits * 10n ** BigInt(power);
  const divisor = 10n ** BigInt(-power);
  return digits % divisor === 0n ? digits / divisor : undefined;
};

/** No sign, no exponent, no leading zero and no zeros behind what the currency has: readers differ about them. */
const plainText = /^(0|[1-9][0-9]{0,20})(?:\.([0-9]+))?$/;

const ofText = (text: string, decimals: number): bigint | undefined => {
  const [, whole, fraction = ''] = plainText.exec(text) ?? [];
  if (whole === undefined || fraction.length > decimals) return undefined;
  return BigInt(whole + fraction.padEnd(decimals, '0'));
};

/**
 * An amount in minor units; undefined for what is no amount, or one that readers could take for another.
 * @param currency in small letters.
 */
export const toMinorUnits = (amount: number | string, unit: AmountUnit, currency: string): bigint | undefined => {
  const decimals = unit === 'minor' ? 0 : decimalsOf.get(currency);
  if (decimals === undefined) return undefined;
  return typeof amount === 'number' ? shift(amount, decimals) : ofText(amount, decimals);
};

// --- The decision ---

/** What a request charges, as far as its proxy can say it. */
export type Charge = {
  /** In minor units. */
  amount: bigint;
  currency: string;
  /** Undefined where the proxy does not say where the merchant stands. */
  merchant: string | undefined;
  /** Whether the caller wrote it. Otherwise it may hold a part of a value, and no error repeats it. */
  isShown: boolean;
};

/** Why an allowance refuses a charge; undefined where it does not. `max_total` is not decided here. */
export const findOverspend = (allowance: Allowance, charge: Charge): string | undefined => {
  const { max_amount, currency, merchant_id } = allowance;
  const { amount: asked, merchant, isShown } = charge;
  if (charge.currency !== currency) return `currency is ${currency}, the request has another`;
  if (asked <= 0n) return 'the request must have an amount above 0';
  if (asked > BigInt(max_amount))
    return `max_amount is ${max_amount} ${currency}, the request has ${isShown ? asked : 'more'}`;
  if (merchant_id !== undefined && merchant !== undefined && merchant !== merchant_id)
    return 'merchant_id is not the merchant of the request';
  return undefined;
};

/** Whether an allowance lets through nothing that another one refuses. Undefined refuses nothing. */
export const isAllowedWithin = (inner: Allowance | undefined, outer: Allowance | undefined): boolean => {
  if (!outer) return true;
  if (!inner || inner.currency !== outer.currency || inner.max_amount > outer.max_amount) return false;
  if (outer.max_total !== undefined && !(inner.max_total !== undefined && inner.max_total <= outer.max_total))
    return false;
  return (['merchant_id', 'checkout_session_id'] as const).every(
    (name) => outer[name] === undefined || inner[name] === outer[name],
  );
};
