// Names and values as queries and forms write them: values are expanded, names never, and what has no expression stays as
// it is spelled.
import type { References } from '../vault/expansion.ts';
import { formatPath } from '../vault/json.ts';
import { JSON_SLICE_CHARACTERS, type Slices } from '../vault/json-parser.ts';
import type { Path } from './json-text.ts';
import { percentOpening } from './opening.ts';
import { decodePercent, splitPercent } from './percent.ts';
import type { Encode, Pieces } from './pieces.ts';

/**
 * Pauses after each slice.
 * @param path where the names stand.
 * @param encodeAt how values are written at a place.
 * @throws invalidInput at the place of a value that holds what is no expression.
 */
export function* splitForm(
  text: string,
  path: Path,
  encodeAt: (place: string) => Encode,
  references: References,
): Slices<Pieces> {
  if (!percentOpening.pattern.test(text)) return [text];
  const pieces: Pieces = [];
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
    const piece = text.slice(start, end);
    const equals = piece.indexOf('=');
    const value = piece.slice(equals + 1);
    if (!percentOpening.pattern.test(value)) continue;
    const place = formatPath(equals === -1 ? path : [...path, decodePercent(piece.slice(0, equals), true)]);
    pieces.push(text.slice(done, start + equals + 1));
    pieces.push(...splitPercent(value, { place, plusIsSpace: true, encode: encodeAt(place) }, references));
    done = end;
  }
  pieces.push(text.slice(done));
  return pieces;
}
