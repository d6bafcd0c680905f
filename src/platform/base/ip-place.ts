// Finds the network of an IP address, for limits that count per client, and the address in one spelling.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** @returns the text as it is where it is no address. */
const parse = (ip: string): ipaddr.IPv4 | ipaddr.IPv6 | string => {
  // Some load balancers add the port, which varies.
  const [address = ''] = ip.replace(/^(\d+(?:\.\d+){3}):\d+$|^\[(.*)\](?::\d+)?$/, '$1$2').split('%', 1);
  return isIP(address) ? ipaddr.process(address) : address;
};

/** The same for all spellings of an address. */
export const addressOfIp = (ip: string): string => parse(ip).toString();

/**
 * The network of an IP address: of IPv4 the whole address, of IPv6 the first 48 bits, which a provider gives to one site
 * (RFC 6177). With the first 64 bits one client would be 65,536 places.
 */
export const placeOfIp = (ip: string): string => {
  const parsed = parse(ip);
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString();
  const [first, second, third] = parsed.parts.map((part) => part.toString(16));
  return `${first}:${second}:${third}::/48`;
};
