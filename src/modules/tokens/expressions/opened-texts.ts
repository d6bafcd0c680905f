// Refuses expressions whose text came out of a token that the same run of code opened.
// Otherwise an attacker who may store a token could choose what the code's application opens.
import { expressionFault } from '../detokenize.ts';
import { cutTemplate } from './expansion.ts';
import { ExpressionError } from './expression-error.ts';
import { formatPath, type Json } from '../../../platform/json/json.ts';
import { EXPRESSION_LENGTH_MAX, scanTemplate } from './template.ts';

/** Each is compared with each text of a body. After more than this, a run may evaluate no expressions. */
export const OPENED_TEXTS_MAX = 1000;

const FROM_TOKEN = 'must have no expression whose text came out of a token that this run opened';

/** The longest expression with its braces. */
const LENGTH_MAX = EXPRESSION_LENGTH_MAX + 4;

type Path = (string | number)[];

/** Visits each text of a value and each property name: code can copy either. */
const eachText = (value: Json, visit: (text: string, path: Path) => void, path: Path = []): void => {
  if (typeof value === 'string') visit(value, path);
  if (typeof value !== 'object' || value === null) return;
  const steps: Iterable<[string | number, Json]> = Array.isArray(value) ? value.entries() : Object.entries(value);
  for (const [step, child] of steps) {
    const below = [...path, step];
    if (typeof step === 'string') visit(step, below);
    eachText(child, visit, below);
  }
};

/** One brace and a character that may begin an id. No JSON text begins like this. */
const beginsInBrace = /^\{\s*[^\s{}"[\]]/;

const isPrefix = (one: string, other: string): boolean => one.startsWith(other) || other.startsWith(one);

export type OpenedTexts = {
  /** Adds the value of a token that the code can read. */
  add(value: Json): void;
  /** @throws invalidInput at the place of an expression whose text came out of a token. */
  refuseIn(body: Json): void;
};

export const createOpenedTexts = (): OpenedTexts => {
  /** Texts from `{{` to the longest end of an expression. */
  const whole = new Set<string>();
  /** Unclosed expressions at the end of a text. Code or another token may append the rest. */
  const beginnings = new Set<string>();
  const ends = new Set<string>();
  /** Texts that may continue an expression whose first brace ends another text. */
  const continuations = new Set<string>();
  let endsInBrace = false;
  const count = () => whole.size + beginnings.size + ends.size + continuations.size;
  const isFull = () => count() > OPENED_TEXTS_MAX;

  const addText = (text: string): void => {
    for (let at = text.indexOf('{{'); at !== -1 && !isFull(); at = text.indexOf('{{', at + 1)) {
      const piece = text.slice(at, at + LENGTH_MAX);
      whole.add(piece);
      if (at + LENGTH_MAX >= text.length && !piece.includes('}}')) beginnings.add(piece);
    }
    endsInBrace ||= text.endsWith('{');
    if (beginsInBrace.test(text) && !isFull()) continuations.add(text.slice(0, LENGTH_MAX));
    const close = text.indexOf('}}');
    // `}}` alone is too common to be evidence.
    if (close > 0 && close <= LENGTH_MAX) ends.add(text.slice(0, close + 2));
  };

  const isOpened = (expression: string): boolean =>
    isFull() ||
    [...whole].some((text) => text.startsWith(expression)) ||
    [...beginnings].some((text) => expression.startsWith(text)) ||
    [...ends].some((text) => expression.endsWith(text)) ||
    (endsInBrace && [...continuations].some((text) => isPrefix(text, expression.slice(1))));

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
    add: (value) => eachText(value, addText),
    refuseIn: (body) => {
      if (count() === 0) return;
      eachText(body, (text, path) => {
        if (text.includes('{{') && expressionsOf(text).some(isOpened))
          throw expressionFault(new ExpressionError('from_a_token', FROM_TOKEN), formatPath(path));
      });
    },
  };
};
