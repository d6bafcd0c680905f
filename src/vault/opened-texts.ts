// Remembers, for one run of code, the texts in opened tokens that could be read as expressions, and refuses expressions whose
// text came from there. An attacker who may store a token would otherwise choose what the code's application opens.
import { expressionFault } from './detokenize.ts';
import { cutTemplate } from './expansion.ts';
import { ExpressionError } from './expression-error.ts';
import { formatPath, type Json } from './json.ts';
import { EXPRESSION_LENGTH_MAX, scanTemplate } from './template.ts';

/** A run that opened more than this reads no expressions afterwards: each is compared with each text of a body. */
export const OPENED_TEXTS_MAX = 1000;

const REFUSAL = 'must have no expression whose text came out of a token that this run opened';

/** Longest expression with its braces. */
const LENGTH_MAX = EXPRESSION_LENGTH_MAX + 4;

type Path = (string | number)[];

/** Visits each text of a value, names of members too: code can hand on either. */
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

/** One brace and something that an id may begin with, as no JSON text does. */
const beginsInBrace = /^\{\s*[^\s{}"[\]]/;

const isOneBegunByOther = (one: string, other: string): boolean => one.startsWith(other) || other.startsWith(one);

export type OpenedTexts = {
  /** Values of tokens that the code gets to see. */
  add(value: Json): void;
  /** @throws invalidInput at the place of an expression whose text came out of a token. */
  refuseIn(body: Json): void;
};

export const createOpenedTexts = (): OpenedTexts => {
  /** From `{{` on, as far as an expression can reach. */
  const whole = new Set<string>();
  /** Behind which code or another token may have put the rest of an expression. */
  const beginnings = new Set<string>();
  const ends = new Set<string>();
  /** Of texts that begin with the second brace of an expression: of use behind a text that ends in the first alone. */
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
    // Two braces alone say nothing of where an expression came from.
    if (close > 0 && close <= LENGTH_MAX) ends.add(text.slice(0, close + 2));
  };

  const isOpened = (expression: string): boolean =>
    isFull() ||
    [...whole].some((text) => text.startsWith(expression)) ||
    [...beginnings].some((text) => expression.startsWith(text)) ||
    [...ends].some((text) => expression.endsWith(text)) ||
    (endsInBrace && [...continuations].some((text) => isOneBegunByOther(text, expression.slice(1))));

  const expressionsOf = (text: string): string[] => {
    try {
      return cutTemplate(text, scanTemplate(text)).flatMap((cut) => (cut.isExpression ? [cut.text] : []));
    } catch (error) {
      // What is no expression is refused where it would be read.
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
          throw expressionFault(new ExpressionError('from_a_token', REFUSAL), formatPath(path));
      });
    },
  };
};
