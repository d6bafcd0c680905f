// A position in a text that a parser reads from left to right. It counts the parser's steps, so that a test can show that
// no input of a given length costs more than a fixed number of steps for each character.

/** `steps`: each attempt to match counts one, and each character that a match takes counts one more. */
export type Scanner = { readonly text: string; at: number; steps: number };

export const createScanner = (text: string): Scanner => ({ text, at: 0, steps: 0 });

/**
 * Matches a sticky pattern at the position of the scanner, and moves behind the match.
 * @param pattern must fail within a few characters, or its failure must make the parser refuse the text: characters that a
 * failed match looked at are not counted.
 */
export const take = (scanner: Scanner, pattern: RegExp): RegExpExecArray | undefined => {
  pattern.lastIndex = scanner.at;
  const match = pattern.exec(scanner.text) ?? undefined;
  scanner.steps += 1;
  if (match) {
    scanner.steps += match[0].length;
    scanner.at = pattern.lastIndex;
  }
  return match;
};

/** Moves behind `text` where the scanner stands before it. */
export const takeText = (scanner: Scanner, text: string): boolean => {
  scanner.steps += 1;
  if (!scanner.text.startsWith(text, scanner.at)) return false;
  scanner.steps += text.length;
  scanner.at += text.length;
  return true;
};
