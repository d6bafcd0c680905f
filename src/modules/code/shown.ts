// Formats output of code and of destinations for console pages: indented, cut, with card numbers and security codes masked.
import { maskCardLike } from '../../platform/sandbox/host/heads.ts';

/** Longer output is cut: the API returns all of it. */
const SHOWN_LENGTH_MAX = 50_000;

/** UUIDs may look like card numbers with dashes. */
const uuid = /([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/i;

export type Shown = { text: string; isCut: boolean };

/** In text that looks like a card number, all digits but the last four become X. */
export const maskedText = (text: string): string =>
  text
    .split(uuid)
    .map((piece, index) => (index % 2 === 1 ? piece : maskCardLike(piece)))
    .join('');

/** Masked before it is cut: half of a card number would not look like one. */
const cut = (text: string): Shown => {
  const masked = maskedText(text);
  const isCut = masked.length > SHOWN_LENGTH_MAX;
  return { text: isCut ? masked.slice(0, SHOWN_LENGTH_MAX) : masked, isCut };
};

/** Security codes have no form of their own: they are found by usual names of their properties. */
const codeNames = '(?:card[_-]?)?(?:cvc|cvv|cvn|csc|cid|security[_-]?code|verification[_-]?(?:code|value))2?';
const codeName = new RegExp(`^${codeNames}$`, 'i');
/** The same in text with JSON in it, which may be cut. */
const namedCode = new RegExp(`("${codeNames}"\\s*:\\s*)(?:"(?:[^"\\\\]|\\\\.)*(?:"|$)|\\d+)`, 'gi');

const withoutCodes = (name: string, value: unknown): unknown =>
  codeName.test(name) && (typeof value === 'string' || typeof value === 'number') ? 'XXX' : value;

/** @param value parsed JSON. Values with the name of a security code are masked too. */
export const shownValue = (value: unknown): Shown => cut(JSON.stringify(value, withoutCodes, 2) ?? '');

/** @param text that may have JSON in it. Values with the name of a security code are masked too. */
export const shownText = (text: string): Shown => cut(text.replace(namedCode, '$1"XXX"'));
