// The form of names that clients and operators choose: what a path, a header, a search and a list can carry.
import { z } from 'zod';

export const NAME_LENGTH_MAX = 200;

/**
 * No line ends or other control characters, and no unpaired surrogates. No blanks at the ends: expressions, headers and forms cut
 * them off, and nobody sees them. Joiners (U+200C, U+200D) are allowed, because words of some languages have them.
 */
const plainName = /^(?!\s)[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}]+(?<!\s)$/u;

export const isPlainName = (text: string): boolean => plainName.test(text);

/** The error for a text that is no plain name. */
export const NOT_PLAIN = 'must not have blanks at its ends, line ends or other control characters';

/** The name of a tenant, an application, a key, a formula, a reactor or a proxy. */
export const nameSchema = z
  .string(`must be text of 1 to ${NAME_LENGTH_MAX} characters`)
  .min(1, `must have 1 to ${NAME_LENGTH_MAX} characters`)
  .max(NAME_LENGTH_MAX, `must have 1 to ${NAME_LENGTH_MAX} characters`)
  .refine((text) => text === '' || isPlainName(text), NOT_PLAIN);
