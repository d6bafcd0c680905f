// Which parts of a masked value a search can find: the last four characters, the brand and the expiry, as far as the mask shows them.
// They are made of what is shown alone: a search by them tells nothing else.
import type { Json } from '../../platform/json/json.ts';

export const shownParts = ['last4', 'brand', 'expires'] as const;

export type ShownPart = (typeof shownParts)[number];

/** Four letters or digits. One is a digit, so that a number hidden by letters is not found by them. */
const LAST_FOUR = /^(?=.*[0-9])[0-9A-Za-z]{4}$/;
const MONTH = /^[0-9]{4}-(?:0[1-9]|1[0-2])$/;
const BRAND_LENGTH_MAX = 40;

/** @returns whether a search by the part can have this value. */
export const isShownPart: Record<ShownPart, (value: string) => boolean> = {
  last4: (value) => LAST_FOUR.test(value),
  brand: (value) => value.length <= BRAND_LENGTH_MAX,
  expires: (value) => MONTH.test(value),
};

/** The members of data that end with four characters which people know it by. */
const NUMBERS = ['number', 'account_number'] as const;

const QUOTED = `(?:'[^']*'|"[^"]*")`;
const PATH = String.raw`\$\.(?:number|account_number)`;
const VALUE = String.raw`data(?:\.(?:number|account_number)|\s*\|\s*json:\s*(?:'${PATH}'|"${PATH}"))?`;
const FOUR_OR_MORE = String.raw`(?:[4-9]|[1-9]\d+)`;
const FILTERS = [
  'last4',
  `reveal_last:\\s*${FOUR_OR_MORE}`,
  `reveal:\\s*\\d+\\s*,\\s*${FOUR_OR_MORE}`,
  String.raw`card_mask:\s*(?:true|false)\s*,\s*true`,
].join('|');

/**
 * A mask that ends with an expression over a number which shows its end: as it is, or by a filter that shows four characters of the end
 * or more. Another mask may end with another part of the number.
 */
const SHOWS_END = new RegExp(String.raw`\{\{\s*${VALUE}\s*(?:\|\s*(?:${FILTERS})(?:\s*,\s*${QUOTED}){0,2}\s*)?\}\}$`);

/** The longest expression of that form that is looked for. */
const EXPRESSION_LENGTH_MAX = 200;

const memberOf = (value: Json | undefined, name: string): Json | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.hasOwn(value, name)
    ? value[name]
    : undefined;

const lastFourOf = (mask: Json | undefined, masked: Json | undefined): string | undefined => {
  if (typeof mask !== 'string' || typeof masked !== 'string' || !SHOWS_END.test(mask.slice(-EXPRESSION_LENGTH_MAX)))
    return undefined;
  const last = masked.slice(-4);
  return LAST_FOUR.test(last) ? last : undefined;
};

const expiryOf = (masked: Json): string | undefined => {
  const [month, year] = ['expiration_month', 'expiration_year'].map((name) => memberOf(masked, name));
  const text = `${String(year)}-${String(month).padStart(2, '0')}`;
  return typeof month === 'number' && typeof year === 'number' && MONTH.test(text) ? text : undefined;
};

const brandOf = (masked: Json): string | undefined => {
  const brand = memberOf(masked, 'brand');
  return typeof brand === 'string' && brand !== '' && isShownPart.brand(brand) ? brand : undefined;
};

/** @param mask of the token, or of its type. @param masked what it shows. Undefined for a token without a mask. */
export const findShownParts = (mask: Json | undefined, masked: Json | undefined): [ShownPart, string][] => {
  if (mask === undefined || masked === undefined) return [];
  const ends = [
    lastFourOf(mask, masked),
    ...NUMBERS.map((name) => lastFourOf(memberOf(mask, name), memberOf(masked, name))),
  ];
  const parts: [ShownPart, string | undefined][] = [
    ...ends.map((end): [ShownPart, string | undefined] => ['last4', end]),
    ['brand', brandOf(masked)],
    ['expires', expiryOf(masked)],
  ];
  return parts.flatMap(([part, value]): [ShownPart, string][] => (value === undefined ? [] : [[part, value]]));
};
