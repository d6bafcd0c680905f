// Origins of pages that may use a public key: what a list of them may say.
import { z } from 'zod';
import { invalidInput, fieldErrors } from '../../platform/base/errors.ts';
import type { Config } from '../../platform/config/config.ts';

/** Origins of a list: as many as a person still reads through. */
export const ORIGINS_MAX = 50;
/** A host name has at most 253 characters (RFC 1035 section 2.3.4). */
const ORIGIN_LENGTH_MAX = 300;

/** No wildcard, and no character that separates the parts of a policy: browsers get the origins in one. */
const form = /^https?:\/\/[A-Za-z0-9._:[\]-]+$/;
const error = 'must be an origin such as https://shop.example.com, without path';
const listError = `must be a list of at most ${ORIGINS_MAX} origins`;

/** Checks that an origin is written as browsers do it (RFC 6454 section 6.2): in lower case, without the default port. */
const isOrigin = (text: string): boolean => form.test(text) && URL.parse(text)?.origin === text;

export const originsSchema = z
  .array(z.string(error).max(ORIGIN_LENGTH_MAX, { error, abort: true }).refine(isOrigin, error), listError)
  .max(ORIGINS_MAX, listError)
  .transform((origins) => [...new Set(origins)]);

/** For descriptions of a list. */
export const ORIGINS_IN_DOCUMENTS =
  'Origins as browsers send them: scheme, host and port, such as `https://shop.example.com`. A development server also takes `http://localhost` with any port.';

/** Without https anybody between page and browser can change the page. @throws invalidInput. */
export const checkOrigins = ({ mode }: Pick<Config, 'mode'>, origins: readonly string[], path: string): void => {
  const isAllowed = (origin: string): boolean =>
    origin.startsWith('https://') || (mode === 'development' && URL.parse(origin)?.hostname === 'localhost');
  const wrong = origins.flatMap((origin, index) => (isAllowed(origin) ? [] : [index]));
  const sentence = 'must begin with https://, or with http://localhost on a development server';
  if (wrong.length > 0) throw invalidInput(fieldErrors(wrong.map((index) => [`${path}[${index}]`, sentence])));
};
