// E-mail addresses: which texts are one, and which two are the same. Takes the addr-spec of RFC 5322 without comments and
// folding, so that what is read here, shown to people and given to a mail server is one and the same mailbox.
import { domainToASCII } from 'node:url';

/** RFC 5321 section 4.5.3.1.3: what fits a path of 256, without its brackets. In octets. */
export const ADDRESS_LENGTH_MAX = 254;
/** RFC 5321 section 4.5.3.1.1. */
const LOCAL_LENGTH_MAX = 64;

/** Characters beyond ASCII may stand in names (RFC 6532), but none that is not seen or ends a line. */
const hidden = /[\p{C}\p{Zl}\p{Zp}]/u;

const ATOM = String.raw`[^\s<>()[\]\\.,;:@"]+`;
const dotAtom = new RegExp(String.raw`^${ATOM}(?:\.${ATOM})*$`, 'u');
const quoted = /^"(?:[^"\\]|\\.)+"$/u;

const literal = /^\[(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\]$/;
/** What may be looked at as a name at all: what comes out of it below must be as ASCII has it. */
const nameLike = /^[a-z0-9.\-\u{80}-\u{10ffff}]+$/iu;
const label = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/;

/** A domain as a mail server is asked for it; undefined for what is none. */
const asciiDomain = (text: string): string | undefined => {
  if (literal.test(text)) return text;
  if (!nameLike.test(text)) return undefined;
  const labels = domainToASCII(text).split('.');
  const last = labels.at(-1) ?? '';
  const isName = labels.length > 1 && labels.every((each) => label.test(each)) && /^(?:[a-z]{2,}|xn--.+)$/.test(last);
  return isName ? labels.join('.') : undefined;
};

type Parts = { local: string; domain: string };

const partsOf = (text: string): Parts | undefined => {
  if (text.length > ADDRESS_LENGTH_MAX || hidden.test(text)) return undefined;
  // A quoted local part may hold an @; a domain may not.
  const at = text.lastIndexOf('@');
  const local = text.slice(0, Math.max(at, 0));
  if (!dotAtom.test(local) && !quoted.test(local)) return undefined;
  const domain = asciiDomain(text.slice(at + 1));
  if (domain === undefined) return undefined;
  const localBytes = Buffer.byteLength(local);
  const isFair = localBytes <= LOCAL_LENGTH_MAX && localBytes + 1 + domain.length <= ADDRESS_LENGTH_MAX;
  return isFair ? { local, domain } : undefined;
};

/** One character that NFC makes another one: the sign for Kelvin a K. */
const isReplaced = (each: string): boolean => {
  const composed = each.normalize('NFC');
  return composed !== each && Array.from(composed).length === 1;
};

/** Whether every character is the one that it looks like. Letters that are composed or decomposed are the same. */
const isCompatible = (text: string): boolean =>
  text.normalize('NFC') === text.normalize('NFKC') && !Array.from(text).some(isReplaced);

/** The address, exactly as it was given; undefined for a text that is not one, or is more than one. For addresses that exist. */
export const parseAddress = (text: string): string | undefined => (partsOf(text) ? text : undefined);

/** As `parseAddress`, for an address that is new here: undefined as well for one with characters that NFKC changes. */
export const parseNewAddress = (text: string): string | undefined =>
  isCompatible(text) ? parseAddress(text) : undefined;

/** A local part as it is meant: quotes that change nothing are left out (RFC 5321 section 4.1.2). */
const meantLocal = (local: string): string => {
  if (!local.startsWith('"')) return local;
  const content = local.slice(1, -1).replace(/\\(.)/gu, '$1');
  return dotAtom.test(content) ? content : `"${content.replace(/["\\]/g, '\\$&')}"`;
};

/**
 * An address as it is compared: two that are equal here belong to one person. Case never counts, for no mail server in use
 * tells people apart by it.
 * @param address as parseAddress gave it; any other text is compared as it is.
 */
export const comparedAddress = (address: string): string => {
  const parts = partsOf(address);
  const text = parts ? `${meantLocal(parts.local)}@${parts.domain}` : address;
  return text.normalize('NFC').toLowerCase().normalize('NFC');
};
