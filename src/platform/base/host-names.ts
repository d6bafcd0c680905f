// Validates and normalises host names, and matches them with patterns.
import { domainToASCII } from 'node:url';

// Converts the domain of a mail address to ASCII, as DNS and mail servers know it (IDNA).

/** Domain names before their conversion: it would decode percent escapes, and cut off a port and a path. */
const nameLike = /^[a-z0-9.\-\u{80}-\u{10ffff}]+$/iu;

/** In lower case; undefined for a text that is no domain. */
export const asciiMailDomain = (text: string): string | undefined =>
  nameLike.test(text) ? domainToASCII(text) || undefined : undefined;

/** RFC 1035 section 2.3.4, without the trailing dot. */
const HOST_CHARACTERS_MAX = 253;

/** In ASCII. RFC 952 does not allow underscores, but many host names have them. */
const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/** A name that is already in the form of the URL parser, as most are. */
const plainHost = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;

/** The form that the URL parser gives a host (lower case, Punycode), without a trailing dot. */
export const canonicalHost = (name: string): string =>
  plainHost.test(name) ? name : domainToASCII(name).replace(/\.$/, '');

/** @param host in its canonical form. */
export const hasHostLabels = (host: string): boolean =>
  host.length <= HOST_CHARACTERS_MAX && host.split('.').every((each) => label.test(each));

/** Whether the text is exactly a host name, in any spelling, and not an IP address. */
export const isHostName = (name: string): boolean => {
  // domainToASCII would remove a path or port.
  if (/[/\\?#@:\s]/.test(name)) return false;
  // Also ask the URL parser for plain names: it reads some of them as addresses, such as 0x7f.1.
  const host = domainToASCII(name).replace(/\.$/, '');
  // Four numbers are an address.
  return hasHostLabels(host) && !/(?:^|\.)[0-9]+$/.test(host);
};

/** The host of an authority or of a Host header, without its port. */
export const hostOf = (authority: string): string =>
  authority
    .toLowerCase()
    .replace(/:[0-9]*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');

/** `*.example.com` covers the subdomains of example.com, not example.com itself. @param host in canonical form. */
export const coversHost = (pattern: string, host: string): boolean =>
  pattern.startsWith('*.') ? host.endsWith(`.${canonicalHost(pattern.slice(2))}`) : canonicalHost(pattern) === host;
