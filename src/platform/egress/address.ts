// Which addresses we may connect to: an address is public only when it is known to be, everything else is refused.
// Pure but for the machine's own addresses; knows nothing of names.
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';

type Interfaces = ReturnType<typeof networkInterfaces>;

/** RFC 4291 section 2.4: all of IPv6 that is global unicast today. NAT64 and the v4 forms lie outside. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

/** Doors into the machine's own cloud that lie in ranges of others: agents of the host, metadata, credentials. */
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

/** All that AWS has in IPv6 for its machines: metadata, credentials of pods, names, time. */
const awsServices = ipaddr.IPv6.parseCIDR('fd00:ec2::/32');

const isCloudAddress = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
  cloudAddresses.has(address.toString()) || (address instanceof ipaddr.IPv6 && address.match(awsServices));

/** Undefined for all that is no plain address: short and octal spellings, zones, names. */
const parseAddress = (text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined =>
  isIP(text) === 0 || text.includes('%') ? undefined : ipaddr.parse(text);

/**
 * Global unicast by RFC 6890 and its registries. Refused: private, shared, loopback, link-local, documentation,
 * benchmarking, multicast and reserved ranges, and every IPv6 form that carries an IPv4 address (mapped, compatible,
 * NAT64, 6to4, Teredo), also of a public one: whoever translates it may stand inside.
 */
export const isPublicAddress = (text: string): boolean => {
  const address = parseAddress(text);
  if (address === undefined || address.range() !== 'unicast') return false;
  if (address instanceof ipaddr.IPv6) return address.match(globalUnicast);
  return !isCloudAddress(address);
};

/** The ranges an operator's network may use. A host named as private may lie there, and still not at a metadata address. */
const privateRanges = new Set<string>(['private', 'loopback', 'uniqueLocal', 'carrierGradeNat']);

export const isPrivateAddress = (text: string): boolean => {
  const address = parseAddress(text);
  return address !== undefined && privateRanges.has(address.range()) && !isCloudAddress(address);
};

/** Is it an address of this machine? A public one of ours leads to services that listen for us alone. */
export const isOwnAddress = (text: string, interfaces: Interfaces = networkInterfaces()): boolean =>
  Object.values(interfaces).some((each) => each?.some(({ address }) => isSameAddress(address, text)));

/**
 * May this address be connected to?
 * @param mayBePrivate the operator named the host as one of his own network; that may be this very machine.
 */
export const isReachable = (
  text: string,
  mayBePrivate: boolean,
  interfaces: Interfaces = networkInterfaces(),
): boolean =>
  mayBePrivate
    ? isPublicAddress(text) || isPrivateAddress(text)
    : isPublicAddress(text) && !isOwnAddress(text, interfaces);

/** Equal as addresses, however they are written: `::FFFF:1.2.3.4` as a dual-stack socket says it is 1.2.3.4. */
export const isSameAddress = (one: string | undefined, other: string | undefined): boolean => {
  if (one === undefined || other === undefined || isIP(one) === 0 || isIP(other) === 0) return false;
  return ipaddr.process(one).toNormalizedString() === ipaddr.process(other).toNormalizedString();
};
