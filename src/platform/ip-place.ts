// Finds the network of an IP address, for limits that count per client.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * The network of an IP address: of IPv4 the whole address, of IPv6 the first 48 bits, which a provider gives to one site
 * (RFC 6177). With the first 64 bits one client would be 65,536 places.
 */
export const placeOfIp = (ip: string): string => {
  // Some load balancers add the port, which varies.
  const [address = ''] = ip.replace(/^(\d+(?:\.\d+){3}):\d+$|^\[(.*)\](?::\d+)?$/, '$1$2').split('%', 1);
  if (!isIP(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  const [first, second, third] = parsed.parts.map((part) => part.toString(16));
  return `${first}:${second}:${third}::/48`;
};
