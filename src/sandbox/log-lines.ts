// Console output of foreign code on its way to its author: card numbers in it are masked.
import type { LogLine } from './sandbox.ts';

/** 13 to 19 digits, as people write card numbers: together, or with single spaces or dashes between them. */
const cardLike = /(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)/g;

/** All digits of what looks like a card number but the last four become X. */
export const maskCardLike = (text: string): string =>
  text.replace(cardLike, (digits) => digits.replace(/\d(?=(?:[ -]?\d){4})/g, 'X'));

export const maskLines = (lines: readonly LogLine[]): LogLine[] =>
  lines.map(({ level, text }) => ({ level, text: maskCardLike(text) }));
