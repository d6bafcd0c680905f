// Parses lists of IP networks in requests, and finds whether an address is in one of them.
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';

/** A person can still review so many. */
export const NETWORKS_MAX = 50;
/** The longest IPv6 network in text. */
const NETWORK_LENGTH_MAX = 43;

const NETWORK_ERROR = 'must be an IP address or a network such as 192.0.2.0/24 or 2001:db8::/32';
const LIST_ERROR = `must be a list of 1 to ${NETWORKS_MAX} IP addresses or networks`;

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = [Address, number];

const bitsOf = (address: Address): number => (address instanceof ipaddr.IPv4 ? 32 : 128);

/** IPv4 in IPv6 (RFC 4291 section 2.5.5.2) is the IPv4 address. Undefined for other spellings, names and zones. */
const parseAddress = (text: string): Address | undefined =>
  isIP(text) === 0 || text.includes('%') ? undefined : ipaddr.process(text);

const parseNetwork = (text: string): Network | undefined => {
  const [first = '', length, ...rest] = text.split('/');
  const address = parseAddress(first);
  if (address === undefined || rest.length > 0) return undefined;
  if (length === undefined) return [address, bitsOf(address)];
  if (!/^\d{1,3}$/.test(length) || Number(length) > bitsOf(address)) return undefined;
  return [address, Number(length)];
};

/** The first address of a network and its length; a network of one address without length. */
const textOf = ([address, length]: Network): string => {
  if (length === bitsOf(address)) return address.toString();
  const family = address instanceof ipaddr.IPv4 ? ipaddr.IPv4 : ipaddr.IPv6;
  return `${family.networkAddressFromCIDR(`${address.toString()}/${length}`).toString()}/${length}`;
};

/** A list in a request. Null or absent: every address. An empty list is refused: it could mean all or none. */
export const networksSchema = z
  .array(
    z
      .string(NETWORK_ERROR)
      .max(NETWORK_LENGTH_MAX, NETWORK_ERROR)
      .transform((text, ctx) => {
        const network = parseNetwork(text);
        if (network) return textOf(network);
        ctx.addIssue({ code: 'custom', message: NETWORK_ERROR });
        return z.NEVER;
      }),
    LIST_ERROR,
  )
  .min(1, LIST_ERROR)
  .max(NETWORKS_MAX, LIST_ERROR)
  .nullish()
  .transform((networks) => [...new Set(networks ?? [])]);

/** Whether an address is in one of the networks. A text that is no address is in none. */
export const isInNetworks = (ip: string, networks: readonly string[]): boolean => {
  const address = parseAddress(ip);
  if (address === undefined) return false;
  return networks.some((text) => {
    const network = parseNetwork(text);
    return network !== undefined && network[0].kind() === address.kind() && address.match(network as never);
  });
};
