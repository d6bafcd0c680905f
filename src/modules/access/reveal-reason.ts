// Reasons that members give before they see a value: when a tenant asks for one, and which text may go to the log.
import { isPlainName, NOT_PLAIN } from './names.ts';

/** A line of a form. Long enough for a ticket and a sentence. */
export const REASON_LENGTH_MAX = 200;

declare const checked: unique symbol;
/** May go to the log. `parseReason` alone makes one. */
export type RevealReason = string & { readonly [checked]: true };

/** The shortest card number has 12 digits. They may stand in groups. */
const longNumber = /\p{Nd}(?:[\p{Z}\p{Pd}\p{Cf}.,/_]{0,3}\p{Nd}){11}/u;

/** Settings of a tenant are texts. */
export const asksForReason = (settings: Record<string, string>): boolean => settings['reveal_reason'] === 'required';

/** @returns what is wrong with the text in place of a reason. */
export const parseReason = (text: string): RevealReason | { refused: string } => {
  const reason = text.trim();
  if (reason === '') return { refused: 'Say why you need the value. The log keeps it.' };
  if (reason.length > REASON_LENGTH_MAX) return { refused: `It must have at most ${REASON_LENGTH_MAX} characters.` };
  if (!isPlainName(reason)) return { refused: `It ${NOT_PLAIN}.` };
  if (longNumber.test(reason))
    return { refused: 'It must not have 12 digits or more in a row: the log has no values.' };
  return reason as RevealReason;
};
