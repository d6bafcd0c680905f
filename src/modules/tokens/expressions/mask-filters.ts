// Mask filters: show a part of a value and hide the rest. If the whole value would be visible, they hide all of it.
import {
  badArgument,
  type Call,
  characters,
  oneCharacter,
  PAD_LENGTH_MAX,
  text,
  textArgument,
  wholeNumber,
  wrongType,
  yesOrNo,
} from './filter-call.ts';
import type { Json } from '../../../platform/json/json.ts';

export const isCardDigit = (character: string): boolean => character >= '0' && character <= '9';

/** Masks everything but dashes and the last characters, symbols too. A value no longer than the count is shown whole. */
export const revealLast = (value: Json, call: Call): string => {
  const list = characters(text(value, call), call);
  const hidden = list.length - wholeNumber(call, 0, 0, PAD_LENGTH_MAX);
  const mask = oneCharacter(call, 1, 'X');
  return list.map((character, index) => (index < hidden && character !== '-' ? mask : character)).join('');
};

/** Hides the whole value if the counts or the preserved characters would show all of it. */
export const reveal = (value: Json, call: Call): string => {
  const content = text(value, call);
  const list = characters(content, call);
  const first = wholeNumber(call, 0, 0, PAD_LENGTH_MAX, 0);
  const last = wholeNumber(call, 1, 0, PAD_LENGTH_MAX, 0);
  const mask = oneCharacter(call, 2, 'X');
  const preserved = new Set(textArgument(call, 3, ''));
  if (first + last < list.length) {
    const shown = list.map((character, index) =>
      index < first || index >= list.length - last || preserved.has(character) ? character : mask,
    );
    const masked = shown.join('');
    if (masked !== content) return masked;
  }
  return mask.repeat(list.length);
};

const CARD_LENGTH_MAX = 64;

/** The characters of a card number and the number of its digits, 12 to 19. */
export const cardNumber = (value: Json, call: Call): { list: string[]; digits: number } => {
  const content = text(value, call);
  const list = content.length <= CARD_LENGTH_MAX ? characters(content, call) : [];
  const digits = list.filter(isCardDigit).length;
  if (digits < 12 || digits > 19) throw wrongType(call, 'a card number');
  return { list, digits };
};

/** ISO/IEC 7812-1 (2017): the issuer number has eight digits for numbers of 16 digits or more, six for shorter ones. */
export const binLength = (digits: number): number => (digits >= 16 ? 8 : 6);

/** Maps each digit with its place among the digits, and every other character. */
export const mapCard = (
  list: string[],
  digit: (digit: string, place: number) => string,
  other: (character: string) => string,
) => {
  let place = 0;
  return list.map((character) => (isCardDigit(character) ? digit(character, place++) : other(character))).join('');
};

/** card_mask: whether to show the BIN, whether to show the last four, the mask character, the separator that stays. */
export const cardMask = (value: Json, call: Call): string => {
  const { list, digits } = cardNumber(value, call);
  const bin = yesOrNo(call, 0, false) ? binLength(digits) : 0;
  const last = yesOrNo(call, 1, false) ? 4 : 0;
  const mask = oneCharacter(call, 2, 'X');
  const separators = new Set(textArgument(call, 3, ''));
  return mapCard(
    list,
    (digit, place) => (place < bin || place >= digits - last ? digit : mask),
    (character) => (separators.has(character) ? character : mask),
  );
};

export const cardBin = (value: Json, call: Call): string => {
  const { list, digits } = cardNumber(value, call);
  return list.filter(isCardDigit).slice(0, binLength(digits)).join('');
};

/** card_exp: 'MM/YY' and similar formats of an object with expiration_month and expiration_year. */
export const cardExpiry = (value: Json, call: Call): string => {
  const format = textArgument(call, 0);
  if (!/^(?:MM|YYYY|YY)(?:[-/_ .]?(?:MM|YYYY|YY))?$/.test(format)) throw badArgument(call, "a format such as 'MM/YY'");
  const card = typeof value === 'object' && value !== null ? new Map(Object.entries(value)) : new Map<string, Json>();
  const month = card.get('expiration_month');
  const year = card.get('expiration_year');
  if (typeof month !== 'number' || typeof year !== 'number') throw wrongType(call, 'a card with month and year');
  const fields = new Map([
    ['YYYY', String(year).padStart(4, '0')],
    ['YY', String(year % 100).padStart(2, '0')],
    ['MM', String(month).padStart(2, '0')],
  ]);
  return format.replace(/YYYY|YY|MM/g, (field) => fields.get(field) as string);
};
