// Decides whether an answer shows so much of a card number that its fingerprint would tell the rest.
// The digits between the first six and the last four have so few values that a client finds them by creating tokens.
import type { Json } from '../../platform/json/json.ts';

/** ISO/IEC 7812-1: the first digits name the issuer. Lists of them are public. */
const FIRST_DIGITS = 6;
const LAST_DIGITS = 4;

/** 12 to 19 digits, with single spaces or dashes between them. */
const cardLike = /(?<!\d)\d(?:[ -]?\d){11,18}(?!\d)/g;

const digitRun = /\d(?:[ -]?\d)*/g;

const digitsIn = (text: string): string => text.replace(/\D/g, '');

/** The texts and numbers of a value, whatever it is nested in. */
function* textsOf(root: Json | undefined): Generator<string> {
  const left: (Json | undefined)[] = [root];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value === 'string') yield value;
    else if (typeof value === 'number') yield String(value);
    else if (typeof value === 'object' && value !== null) for (const each of Object.values(value)) left.push(each);
  }
}

/** Whether the runs of digits show the first six and the last four digits of a number, each at a place of its own. */
const showsEnds = (number: string, runs: readonly string[]): boolean => {
  const first = number.slice(0, FIRST_DIGITS);
  const last = number.slice(-LAST_DIGITS);
  return runs.some((run, at) => {
    const from = run.indexOf(first);
    if (from === -1) return false;
    return run.includes(last, from + FIRST_DIGITS) || runs.some((other, index) => index !== at && other.includes(last));
  });
};

/** Whether a text of the number's length shows as many of its digits in other places. */
const showsAsMany = (number: string, text: string): boolean => {
  const bare = text.replace(/[ -]/g, '');
  if (bare.length !== number.length) return false;
  let shown = 0;
  for (let at = 0; at < bare.length; at += 1) if (bare[at] === number[at]) shown += 1;
  return shown >= FIRST_DIGITS + LAST_DIGITS;
};

/**
 * Whether the shown texts hold the first six and the last four digits of a card number in the value, or as many others.
 * @param shown everything of the answer that can hold parts of the value: its id, data, mask and metadata.
 */
export const showsNumberByParts = (value: Json, shown: readonly (Json | undefined)[]): boolean => {
  const texts = shown.flatMap((each) => [...textsOf(each)]);
  // Most answers are decided here: a default mask shows four digits.
  const enough = texts.some((text) => digitsIn(text).length >= FIRST_DIGITS);
  if (!enough) return false;
  const runs = texts.flatMap((text) => text.match(digitRun) ?? []).map(digitsIn);
  for (const text of textsOf(value))
    for (const written of text.match(cardLike) ?? []) {
      const number = digitsIn(written);
      if (showsEnds(number, runs) || texts.some((each) => showsAsMany(number, each))) return true;
    }
  return false;
};
