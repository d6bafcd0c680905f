// Parses e-mail addresses (addr-spec of RFC 5322 without comments and folding), and compares them.
import { addressDigest } from '../../platform/crypto/digest.ts';
import { asciiMailDomain } from '../../platform/base/host-names.ts';
import type { Platform } from '../../platform/services/platform.ts';

/** RFC 5321 section 4.5.3.1.3: a path of 256 octets, without its brackets. */
export const ADDRESS_LENGTH_MAX = 254;
/** RFC 5321 section 4.5.3.1.1. */
const LOCAL_LENGTH_MAX = 64;

/** RFC 6532 allows characters beyond ASCII. These are invisible, or end a line. */
const hidden = /[\p{C}\p{Zl}\p{Zp}]/u;

const ATOM = String.raw`[^\s<>()[\]\\.,;:@"]+`;
const dotAtom = new RegExp(String.raw`^${ATOM}(?:\.${ATOM})*$`, 'u');
const quoted = /^"(?:[^"\\]|\\.)+"$/u;

const literal = /^\[(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\]$/;
const label = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/;

/** A domain in ASCII, as DNS knows it; undefined for a text that is none. */
const asciiDomain = (text: string): string | undefined => {
  if (literal.test(text)) return text;
  const labels = (asciiMailDomain(text) ?? '').split('.');
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
  const isWithinLimits = localBytes <= LOCAL_LENGTH_MAX && localBytes + 1 + domain.length <= ADDRESS_LENGTH_MAX;
  return isWithinLimits ? { local, domain } : undefined;
};

/** Whether NFC replaces one character by another one: the Kelvin sign by a K. */
const isReplaced = (each: string): boolean => {
  const composed = each.normalize('NFC');
  return composed !== each && Array.from(composed).length === 1;
};

/** Whether no character only looks like another one. Composed and decomposed letters are the same. */
const isCompatible = (text: string): boolean =>
  text.normalize('NFC') === text.normalize('NFKC') && !Array.from(text).some(isReplaced);

/** The address, unchanged; undefined for a text that is not exactly one address. For addresses that are stored already. */
export const parseAddress = (text: string): string | undefined => (partsOf(text) ? text : undefined);

/** Parses like `parseAddress`, for an address from outside: undefined also for one with characters that NFKC changes. */
export const parseGivenAddress = (text: string): string | undefined =>
  partsOf(text) && isCompatible(text) ? text : undefined;

/**
 * What is wrong with a new address, as the end of a sentence; undefined for a valid one. Domains may be in any script: mails go to
 * their ASCII form (IDNA). For a local part no ASCII form exists, and mail servers without SMTPUTF8 (RFC 6531) take no other.
 */
export const newAddressProblem = (text: string): string | undefined => {
  const parts = isCompatible(text.slice(0, ADDRESS_LENGTH_MAX + 1)) ? partsOf(text) : undefined;
  if (!parts) return 'must be one e-mail address (RFC 5322), without a display name';
  return isAscii(parts.local)
    ? undefined
    : 'must have only ASCII characters before the @: not all mail servers take others';
};

const isAscii = (text: string): boolean => Buffer.byteLength(text) === text.length;

/** A local part without quotes that change nothing (RFC 5321 section 4.1.2). */
const unquotedLocal = (local: string): string => {
  if (!local.startsWith('"')) return local;
  const content = local.slice(1, -1).replace(/\\(.)/gu, '$1');
  return dotAtom.test(content) ? content : `"${content.replace(/["\\]/g, '\\$&')}"`;
};

/**
 * The form in which addresses are compared: equal ones belong to one person. Case does not count, since no mail server in use
 * distinguishes mailboxes by it.
 * @param address a result of parseAddress; any other text is compared as it is.
 */
export const comparedAddress = (address: string): string => {
  const parts = partsOf(address);
  const text = parts ? `${unquotedLocal(parts.local)}@${parts.domain}` : address;
  return text.normalize('NFC').toLowerCase().normalize('NFC');
};

/** The digest that users and invitations are found by. */
export const digestOfAddress = ({ pepper }: Pick<Platform, 'pepper'>, address: string): Buffer =>
  addressDigest(pepper, comparedAddress(address));
