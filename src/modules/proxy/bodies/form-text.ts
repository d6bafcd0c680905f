// Finds expressions in the values of queries and forms, and refuses them in names. Text keeps its percent-encoding.
import type { References } from '../../tokens/expressions/expansion.ts';
import { formatPath } from '../../../platform/json/json.ts';
import { JSON_SLICE_CHARACTERS } from '../../../platform/json/json-parser.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import type { Path } from './json-text.ts';
import { percentStart } from './expression-start.ts';
import { decodePercent, splitPercent } from './percent.ts';
import { documentChecks } from './documents.ts';
import { type Encode, refuseName, type TextParts } from './text-parts.ts';

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
