// Percent-encoded text: a segment of a path, the value of a query or a form. Finds expressions however their characters
// are spelled, and leaves every character around them as it was spelled: what stood encoded may mean something else bare.
import type { References } from '../vault/expansion.ts';
import type { Charset } from './body-kind.ts';
import { percentOpening } from './opening.ts';
import { createTextSlot, cutText, encodableAt, type Encode, type Pieces } from './pieces.ts';

/** One character, percent-encoded in well-formed UTF-8 (RFC 3629 section 4): nothing that decodeURIComponent refuses. */
const character = [
  '%[0-7][0-9a-f]',
  '%(?:c[2-9a-f]|d[0-9a-f])%[89ab][0-9a-f]',
  '%e0%[ab][0-9a-f]%[89ab][0-9a-f]',
  '%e[1-9a-cef](?:%[89ab][0-9a-f]){2}',
  '%ed%[89][0-9a-f]%[89ab][0-9a-f]',
  '%f0%[9ab][0-9a-f](?:%[89ab][0-9a-f]){2}',
  '%f[1-3](?:%[89ab][0-9a-f]){3}',
  '%f4%8[0-9a-f](?:%[89ab][0-9a-f]){2}',
].join('|');

const characterHere = new RegExp(character, 'iy');

/** Bounded, as everything that repeats in a text of any length: what a match remembers grows with it. */
const characters = new RegExp(`(?:${character}){1,1000}`, 'gi');

/** The text that was meant; a percent sign that encodes no character stands for itself. */
export const decodePercent = (raw: string, plusIsSpace: boolean): string => {
  // Five times as fast as replacing, where there are millions.
  const text = plusIsSpace && raw.includes('+') ? raw.split('+').join(' ') : raw;
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text.replace(characters, (each) => decodeURIComponent(each));
  }
};

/** Where so many characters, as decoded in UTF-16 units, end in the raw text. */
const rawEnd = (raw: string, from: number, units: number): number => {
  let at = from;
  for (let left = units; left > 0; left -= 1) {
    characterHere.lastIndex = at;
    const length = raw[at] === '%' && characterHere.test(raw) ? characterHere.lastIndex - at : 1;
    at += length;
    // Four bytes are a pair of surrogates.
    if (length === 12) left -= 1;
  }
  return at;
};

const spellByte = (character: string): string =>
  `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;

/** All but the characters that are never anything else (RFC 3986 section 2.3). */
export const encodePercentAt =
  (charset: Charset) =>
  (place: string): Encode =>
  (value) => {
    const encodable = encodableAt(charset, place)(value);
    return charset === 'utf8'
      ? encodeURIComponent(encodable).replace(/[!'()*]/g, spellByte)
      : encodable.replace(/[^0-9A-Za-z._~-]/g, spellByte);
  };

/** @throws invalidInput at the place. */
export const splitPercent = (
  raw: string,
  { place, plusIsSpace, encode }: { place: string; plusIsSpace: boolean; encode: Encode },
  references: References,
): Pieces => {
  if (!percentOpening.pattern.test(raw)) return [raw];
  const text = decodePercent(raw, plusIsSpace);
  let at = 0;
  return cutText(text, place, references).map((cut) => {
    const from = at;
    at = text.length === raw.length ? from + cut.text.length : rawEnd(raw, from, cut.text.length);
    return cut.isExpression ? createTextSlot(cut.text, place, references, encode) : raw.slice(from, at);
  });
};
