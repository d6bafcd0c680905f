// Converts the domain of a mail address to ASCII, as DNS and mail servers know it (IDNA).
import { domainToASCII } from 'node:url';

/** Domain names before their conversion: it would decode percent escapes, and cut off a port and a path. */
const nameLike = /^[a-z0-9.\-\u{80}-\u{10ffff}]+$/iu;

/** In lower case; undefined for a text that is no domain. */
export const asciiMailDomain = (text: string): string | undefined =>
  nameLike.test(text) ? domainToASCII(text) || undefined : undefined;
