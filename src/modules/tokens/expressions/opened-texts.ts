// Refuses expressions whose text came out of a token that the same run of code opened.
// Otherwise an attacker who may store a token could choose what the code's application opens.
import { expressionFault } from '../detokenize.ts';
import { cutTemplate } from './expansion.ts';
import { ExpressionError } from './expression-error.ts';
import { formatPath, type Json, walkJson } from '../../../platform/json/json.ts';
import type { Slices } from '../../../platform/json/slices.ts';
import { EXPRESSION_LENGTH_MAX, findEnd, scanTemplate } from './template.ts';

// A set of texts that finds in a few comparisons whether one of them is the beginning of another text.

type PrefixSet = {
  /** Different texts that were added. */
  readonly size: number;
  add(text: string): void;
  /** Whether the text begins with one of the set. */
  hasPrefixOf(text: string): boolean;
  /** Whether a text of the set begins with the text, but for those that are longer than another of the set. */
  hasBeginningIn(text: string): boolean;
};

export const createPrefixSet = (): PrefixSet => {
  const texts = new Set<string>();
  /** Those of which no other is a prefix, sorted: only the last one that is not greater than a text can be its prefix. */
  const sorted: string[] = [];

  /** The index of the first one that is greater than the text. */
  const indexAfter = (text: string): number => {
    let from = 0;
    let to = sorted.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((sorted[middle] as string) <= text) from = middle + 1;
      else to = middle;
    }
    return from;
  };
  const hasPrefixOf = (text: string): boolean => {
    const before = sorted[indexAfter(text) - 1];
    return before !== undefined && text.startsWith(before);
  };

  return {
    get size() {
      return texts.size;
    },
    add: (text) => {
      if (texts.has(text)) return;
      texts.add(text);
      if (hasPrefixOf(text)) return;
      const at = indexAfter(text);
      let longer = at;
      while (sorted[longer]?.startsWith(text)) longer += 1;
      sorted.splice(at, longer - at, text);
    },
    hasPrefixOf,
    hasBeginningIn: (text) => sorted[indexAfter(text)]?.startsWith(text) === true,
  };
};

/** After more than this, a run may evaluate no expressions. */
export const OPENED_TEXTS_MAX = 1000;

const FROM_TOKEN = 'must have no expression whose text came out of a token that this run opened';

/** The longest expression with its braces. */
const LENGTH_MAX = EXPRESSION_LENGTH_MAX + 4;

/** Characters and reads of characters between two pauses. */
const PAUSE_CHARACTERS = 32_768;

/**
 * Reads of a character, on average. A text whose quotes hide many beginnings of expressions takes a thousand: then the run may
 * evaluate no expressions either.
 */
const STEPS_PER_CHARACTER = 4;
const FREE_STEPS = 100_000;

const mayHoldExpression = (text: string): boolean => text.includes('{') || text.includes('}}');

/** One brace and a character that may begin an id. No JSON text begins like this. */
const beginsInBrace = /^\{\s*[^\s{}"[\]]/;

const reversed = (text: string): string => text.split('').toReversed().join('');

export type OpenedTexts = {
  /** Adds the value of a token that the code can read. Linear in its size. */
  add(value: Json): Slices<void>;
  /** @throws invalidInput at the place of an expression whose text came out of a token. */
  refuseIn(body: Json): Slices<void>;
};

export const createOpenedTexts = (): OpenedTexts => {
  /** Complete expressions. */
  const whole = new Set<string>();
  /** Unclosed expressions at the end of a text. Code or another token may append the rest. */
  const beginnings = createPrefixSet();
  /** What closes an expression that another text begins: backwards. */
  const ends = createPrefixSet();
  /** Texts that may continue an expression whose first brace ends another text. */
  const continuations = createPrefixSet();
  const scanned = { steps: 0, characters: 0 };
  let endsInBrace = false;
  const count = () => whole.size + beginnings.size + ends.size + continuations.size;
  const isFull = () =>
    count() > OPENED_TEXTS_MAX || scanned.steps > FREE_STEPS + STEPS_PER_CHARACTER * scanned.characters;

  /** Scans from each `{{` to the end of its expression, as a parser of that text would. */
  function* addExpressions(text: string): Slices<void> {
    let pauseAt = scanned.steps + PAUSE_CHARACTERS;
    for (let at = text.indexOf('{{'); at !== -1 && !isFull(); at = text.indexOf('{{', at + 1)) {
      const end = findEnd(text, at + 2, scanned);
      if (typeof end === 'number') whole.add(text.slice(at, end + 2));
      else if (end === 'unclosed' || end === 'cut') beginnings.add(text.slice(at));
      if (at + scanned.steps < pauseAt) continue;
      yield;
      pauseAt = at + scanned.steps + PAUSE_CHARACTERS;
    }
  }

  function* addText(text: string): Slices<void> {
    scanned.characters += text.length;
    yield* addExpressions(text);
    endsInBrace ||= text.endsWith('{');
    const beginning = text.slice(0, LENGTH_MAX);
    if (beginsInBrace.test(beginning) && !isFull()) continuations.add(beginning);
    const close = text.slice(0, LENGTH_MAX + 2).indexOf('}}');
    // `}}` alone is too common to be evidence.
    if (close > 0 && !isFull()) ends.add(reversed(text.slice(0, close + 2)));
  }

  const continuesOne = (rest: string): boolean => continuations.hasPrefixOf(rest) || continuations.hasBeginningIn(rest);

  const isOpened = (expression: string): boolean =>
    isFull() ||
    whole.has(expression) ||
    beginnings.hasPrefixOf(expression) ||
    ends.hasPrefixOf(reversed(expression)) ||
    (endsInBrace && continuesOne(expression.slice(1)));

  const expressionsOf = (text: string): string[] => {
    try {
      return cutTemplate(text, scanTemplate(text)).flatMap((cut) => (cut.isExpression ? [cut.text] : []));
    } catch (error) {
      // An invalid expression is refused when it is evaluated.
      if (error instanceof ExpressionError) return [];
      throw error;
    }
  };

  return {
    *add(value) {
      const walk = walkJson(value);
      while (walk.next() && !isFull()) {
        if (walk.isPauseDue()) yield;
        // Code can copy the names of properties too.
        for (const text of [walk.name, walk.value])
          if (typeof text === 'string' && mayHoldExpression(text)) yield* addText(text);
      }
    },
    *refuseIn(body) {
      if (count() === 0 && !isFull()) return;
      const walk = walkJson(body);
      while (walk.next()) {
        if (walk.isPauseDue()) yield;
        for (const text of [walk.name, walk.value]) {
          if (typeof text !== 'string' || !text.includes('{{')) continue;
          if (expressionsOf(text).some(isOpened))
            throw expressionFault(new ExpressionError('from_a_token', FROM_TOKEN), formatPath(walk.path()));
          yield;
        }
      }
    },
  };
};
