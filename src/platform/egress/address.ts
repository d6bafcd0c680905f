// Decides which IP addresses the server may connect to. Only addresses that are known to be public are allowed.
// Reads nothing but the addresses of this machine's network interfaces. Does not resolve names.
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';

type Interfaces = ReturnType<typeof networkInterfaces>;

/** RFC 4291 section 2.4: all of IPv6 that is global unicast today. NAT64 and the v4 forms lie outside. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

/** Cloud services (host agents, metadata, credentials) whose addresses lie in ranges that are otherwise allowed. */
const cloudAddresses = new Set([
  // Azure, Alibaba, Google, Oracle, Scaleway, Linode.
  '168.63.129.16',
  '100.100.100.200',
  'fd00:100::100:200',
  'fd20:ce::254',
  'fd00:c1::a9fe:a9fe',
  'fd00:42::42',
  'fd00:a9fe:a9fe::1',
]);

/** IPv6 services of AWS for its machines: metadata, credentials of pods, DNS, time. */
const awsServices = ipaddr.IPv6.parseCIDR('fd00:ec2::/32');

const isCloudAddress = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
  cloudAddresses.has(address.toString()) || (address instanceof ipaddr.IPv6 && address.match(awsServices));

/** Returns undefined for a text that is not a plain address: short and octal spellings, zones, names. */
const parseAddress = (text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined =>
  isIP(text) === 0 || text.includes('%') ? undefined : ipaddr.parse(text);

/**
 * Global unicast by RFC 6890 and its registries. Refused: private, shared, loopback, link-local, documentation,
 * benchmarking, multicast and reserved ranges, and every IPv6 form that carries an IPv4 address (mapped, compatible,
 * NAT64, 6to4, Teredo), even of a public one: the translator may be inside the operator's network.
 */
export const isPublicAddress = (text: string): boolean => {
  const address = parseAddress(text);
  if (address === undefined || address.range() !== 'unicast') return false;
  if (address instanceof ipaddr.IPv6) return address.match(globalUnicast);
  return !isCloudAddress(address);
};

/** The ranges of an operator's network. A private host may have an address in them, except a metadata address. */
const privateRanges = new Set<string>(['private', 'loopback', 'uniqueLocal', 'carrierGradeNat']);

export const isPrivateAddress = (text: string): boolean => {
  const address = parseAddress(text);
  return address !== undefined && privateRanges.has(address.range()) && !isCloudAddress(address);
};

/** Whether this machine has the address. Its own public addresses would reach services meant for this machine only. */
export const isOwnAddress = (text: string, interfaces: Interfaces = networkInterfaces()): boolean =>
  Object.values(interfaces).some((each) => each?.some(({ address }) => isSameAddress(address, text)));

/**
 * Whether the server may connect to this address.
 * @param mayBePrivate the operator listed the host as a private one; it may be this machine.
 */
export const isReachable = (
  text: string,
  mayBePrivate: boolean,
  interfaces: Interfaces = networkInterfaces(),
): boolean =>
  mayBePrivate
    ? isPublicAddress(text) || isPrivateAddress(text)
    : isPublicAddress(text) && !isOwnAddress(text, interfaces);

/** Compares addresses, not their spelling: a dual-stack socket reports 1.2.3.4 as `::FFFF:1.2.3.4`. */
export const isSameAddress = (one: string | undefined, other: string | undefined): boolean => {
  if (one === undefined || other === undefined || isIP(one) === 0 || isIP(other) === 0) return false;
  return ipaddr.process(one).toNormalizedString() === ipaddr.process(other).toNormalizedString();
};
