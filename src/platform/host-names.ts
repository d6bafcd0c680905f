// Host names: in which form they are compared, what is one, and which a pattern covers. Pure.
import { domainToASCII } from 'node:url';

/** RFC 1035 section 2.3.4, without the trailing dot. */
const HOST_CHARACTERS_MAX = 253;

/** In ASCII. Underscores are no letters of a host name by RFC 952, and yet stand in many. */
const label = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/** A name that is written as the URL parser would write it, as most are. */
const plainHost = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;

/** In the form that the URL parser gives a host: lower case, Punycode; and without a trailing dot. */
export const canonicalHost = (name: string): string =>
  plainHost.test(name) ? name : domainToASCII(name).replace(/\.$/, '');

/** @param host in its canonical form. */
export const hasHostLabels = (host: string): boolean =>
  host.length <= HOST_CHARACTERS_MAX && host.split('.').every((each) => label.test(each));

/** Is this a host name, in any spelling, and neither an address nor more than a name? */
export const isHostName = (name: string): boolean => {
  // domainToASCII would take a path or a port off.
  if (/[/\\?#@:\s]/.test(name)) return false;
  // By the URL parser also where the name looks plain: it refuses what it would take for an address, such as 0x7f.1.
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

/** `*.example.com` covers what lies below example.com, and not example.com. @param host in its canonical form. */
export const coversHost = (pattern: string, host: string): boolean =>
  pattern.startsWith('*.') ? host.endsWith(`.${canonicalHost(pattern.slice(2))}`) : canonicalHost(pattern) === host;
