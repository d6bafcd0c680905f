// Finds expressions in percent-encoded text: path segments, queries and forms. Names of fields may have none.
// Other characters keep their spelling, because an encoded character may mean something else than the same one unencoded.
import type { References } from '../../tokens/expressions/expansion.ts';
import type { Charset } from './body-kind.ts';
import { encodeLegacy, isLegacy } from './charsets.ts';
import { percentStart } from './expression-start.ts';
import { type Check, encodeChecked } from './place-rules.ts';
import { createTextSlot, cutText, encodableAt, type Encode, refuseName, type TextParts } from './text-parts.ts';
import { formatPath } from '../../../platform/json/json.ts';
import { JSON_SLICE_CHARACTERS } from '../../../platform/json/json-parser.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import { documentChecks, type Path } from './json-text.ts';

/** One percent-encoded character of valid UTF-8 (RFC 3629 section 4), which decodeURIComponent accepts. */
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

/** Limited, because the memory of a match grows with its repetitions. */
const characters = new RegExp(`(?:${character}){1,1000}`, 'gi');

/** Decodes a text. A percent sign that encodes no character stays. */
export const decodePercent = (raw: string, plusIsSpace: boolean): string => {
  // Five times as fast as replaceAll for millions of characters.
  const text = plusIsSpace && raw.includes('+') ? raw.split('+').join(' ') : raw;
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text.replace(characters, (each) => decodeURIComponent(each));
  }
};

/** The index in the raw text after this many UTF-16 units of decoded text. */
const rawEnd = (raw: string, from: number, units: number): number => {
  let at = from;
  for (let left = units; left > 0; left -= 1) {
    characterHere.lastIndex = at;
    const length = raw[at] === '%' && characterHere.test(raw) ? characterHere.lastIndex - at : 1;
    at += length;
    // Four bytes are a surrogate pair.
    if (length === 12) left -= 1;
  }
  return at;
};

const encodeByte = (character: string): string =>
  `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;

/** Encodes all but the unreserved characters (RFC 3986 section 2.3). */
export const encodePercentAt =
  (charset: Charset) =>
  (place: string): Encode =>
  (value) => {
    const encodable = encodableAt(charset, place)(value);
    if (charset === 'utf8') return encodeURIComponent(encodable).replace(/[!'()*]/g, encodeByte);
    const bytes = isLegacy(charset) ? encodeLegacy(encodable, charset).toString('latin1') : encodable;
    return bytes.replace(/[^0-9A-Za-z._~-]/g, encodeByte);
  };

/** @param checks of the values of the expressions, in their order; none where a value may hold anything. */
export const splitPercent = (
  raw: string,
  { place, plusIsSpace, encode }: { place: string; plusIsSpace: boolean; encode: Encode },
  references: References,
  checks: readonly Check[] = [],
): TextParts => {
  if (!percentStart.pattern.test(raw)) return [raw];
  const text = decodePercent(raw, plusIsSpace);
  let at = 0;
  let expressions = 0;
  return cutText(text, place, references).map((cut) => {
    const from = at;
    at = text.length === raw.length ? from + cut.text.length : rawEnd(raw, from, cut.text.length);
    if (!cut.isExpression) return raw.slice(from, at);
    const check = checks[expressions++];
    return createTextSlot(cut.text, place, references, check ? encodeChecked(check, encode) : encode);
  });
};

// Finds expressions in the values of queries and forms, and refuses them in names. Text keeps its percent-encoding.

/**
 * Pauses after each slice.
 * @param path the place of the names within the request.
 * @param encodeAt how values are written at a place.
 * @throws invalidInput at the place of an invalid expression.
 */
export function* splitForm(
  text: string,
  path: Path,
  encodeAt: (place: string) => Encode,
  references: References,
): Slices<TextParts> {
  if (!percentStart.pattern.test(text)) return [text];
  const parts: TextParts = [];
  let done = 0;
  let end = 0;
  let pauseAt = JSON_SLICE_CHARACTERS;
  for (let start = 0; start <= text.length; start = end + 1) {
    if (start >= pauseAt) {
      yield;
      pauseAt = start + JSON_SLICE_CHARACTERS;
    }
    const ampersand = text.indexOf('&', start);
    end = ampersand === -1 ? text.length : ampersand;
    const pair = text.slice(start, end);
    const equals = pair.indexOf('=');
    const value = pair.slice(equals + 1);
    const rawName = equals === -1 ? '' : pair.slice(0, equals);
    if (percentStart.pattern.test(rawName)) refuseName(path, references);
    if (!percentStart.pattern.test(value)) continue;
    const name = decodePercent(rawName, true);
    const place = formatPath(equals === -1 ? path : [...path, name]);
    parts.push(text.slice(done, start + equals + 1));
    const rules = { place, plusIsSpace: true, encode: encodeAt(place) };
    const checks = yield* documentChecks(decodePercent(value, true), name, place, references);
    parts.push(...splitPercent(value, rules, references, checks));
    done = end;
  }
  parts.push(text.slice(done));
  return parts;
}
