// What came out of a tenant's code or from beyond it, as people get to see it: indented, bounded, and with what looks like a
// card number masked, so that no page shows one that nobody asked for. Whoever wants it as it is asks the API.
import { maskCardLike } from '../sandbox/log-lines.ts';

/** More than anyone reads on a page. */
const SHOWN_LENGTH_MAX = 50_000;

/** Ids of ours, which may look like digits with dashes between them. */
const uuid = /([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/i;

export type Shown = { text: string; isCut: boolean };

/** All digits of what looks like a card number but the last four become X. */
export const maskedText = (text: string): string =>
  text
    .split(uuid)
    .map((piece, index) => (index % 2 === 1 ? piece : maskCardLike(piece)))
    .join('');

/** Masked first: half of a number would not look like one. */
const cut = (text: string): Shown => {
  const masked = maskedText(text);
  const isCut = masked.length > SHOWN_LENGTH_MAX;
  return { text: isCut ? masked.slice(0, SHOWN_LENGTH_MAX) : masked, isCut };
};

/** Security codes do not look like anything: they are known by the names that people give them. */
const codeNames = '(?:card[_-]?)?(?:cvc|cvv|cvn|csc|cid|security[_-]?code|verification[_-]?(?:code|value))2?';
const codeName = new RegExp(`^${codeNames}$`, 'i');
/** The same in JSON that is no whole value: several lines, or a beginning. */
const namedCode = new RegExp(`("${codeNames}"\\s*:\\s*)(?:"(?:[^"\\\\]|\\\\.)*(?:"|$)|\\d+)`, 'gi');

const withoutCodes = (name: string, value: unknown): unknown =>
  codeName.test(name) && (typeof value === 'string' || typeof value === 'number') ? 'XXX' : value;

/** @param value parsed JSON. What is named as a security code is masked, too. */
export const shownValue = (value: unknown): Shown => cut(JSON.stringify(value, withoutCodes, 2) ?? '');

/** @param text in which JSON may be: there, too, what is named as a security code is masked. */
export const shownText = (text: string): Shown => cut(text.replace(namedCode, '$1"XXX"'));
