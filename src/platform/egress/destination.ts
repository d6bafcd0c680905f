// Checks a destination URL before any look-up or connection: scheme, host, port and allow-lists, in this order.
import { isIP } from 'node:net';
import { canonicalHost, coversHost, hasHostLabels } from '../base/host-names.ts';
import {
  type DevDestination,
  type DevelopmentEgress,
  isLocalName,
  LOCAL_HINT,
  readDevDestination,
} from '../config/dev-destination.ts';
import { EgressFault } from '../base/egress-fault.ts';

export type EgressPolicy = {
  /** Allowed hosts; undefined allows all. `*.example.com` covers the subdomains of example.com. */
  allowedHosts: string[] | undefined;
  /** Hosts in the operator's network, each with its port. */
  privateHosts: { host: string; port: number }[];
  /** Undefined allows every port that is not blocked. */
  ports: number[] | undefined;
  /** Names of this server, which it must not call. */
  ownHosts: string[];
  /** Prefixes of the headers of the API beside SVC, in capital letters. No request or response has them. */
  headerPrefixes?: readonly string[];
  /** Undefined in production. */
  development?: DevelopmentEgress | undefined;
};

/** Lists of host patterns. A host must match every list; an empty list matches no host. */
export type AllowLists = readonly (readonly string[])[];

/** Enough for a path of 16 KB and a query. A longer URL carries data rather than an address. */
export const URL_CHARACTERS_MAX = 32_768;

/** https://fetch.spec.whatwg.org/#port-blocking, and port 0. */
const blockedPorts = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);

/** Refusal of a name that public DNS does not have, and of one that leads to another address. */
export const NOT_PUBLIC = 'The destination must be on the public internet.';

const refused = (sentence: string, cause?: unknown): EgressFault =>
  new EgressFault('DESTINATION_REFUSED', { sentence, cause });

/** @param isLocal whether the destination looks like one of the author's own machine or network. */
const refusedLocally = ({ development }: EgressPolicy, sentence: string, isLocal = true): EgressFault =>
  refused(development && isLocal ? `${sentence} ${LOCAL_HINT}` : sentence);

export const portOf = (url: URL): number => (url.port === '' ? 443 : Number(url.port));

/**
 * @param given a text, or a parsed URL, which is then changed and returned.
 * @param allowLists each narrows further: the list of the proxy, the list of the application.
 * @returns the URL to use from here on. Its host name is the one to resolve, to connect to and to expect in the certificate.
 * @throws EgressFault DESTINATION_REFUSED.
 */
export const checkDestination = (policy: EgressPolicy, given: string | URL, allowLists: AllowLists = []): URL => {
  const url = parseUrl(given);
  if (url.protocol !== 'https:') {
    const isLocal = isAddress(url.hostname) || isLocalName(url.hostname);
    throw refusedLocally(policy, 'The destination must be an https URL.', isLocal);
  }
  if (url.username !== '' || url.password !== '') throw refused('The destination must not hold credentials.');
  const host = parseHost(policy, url.hostname);
  if (host !== url.hostname) url.hostname = host;
  const port = portOf(url);
  if (isLocalName(host) && !isPrivateHost(policy, url)) {
    const isFull = host.includes('.');
    throw refusedLocally(policy, isFull ? NOT_PUBLIC : 'The destination must be named by a full host name.');
  }
  if (blockedPorts.has(port) || policy.ports?.includes(port) === false) {
    throw refused('The port of the destination is not allowed.');
  }
  if (policy.ownHosts.some((pattern) => coversHost(pattern, host))) {
    throw refused('The destination must not be this service.');
  }
  const lists = policy.allowedHosts === undefined ? allowLists : [policy.allowedHosts, ...allowLists];
  if (!lists.every((list) => isOnList(list, host))) {
    throw refused('The host of the destination is not allowed.');
  }
  return url;
};

/** @param host as `checkDestination` returns it: in lower case, without a dot at its end. */
export const isOnList = (list: readonly string[], host: string): boolean =>
  list.some((pattern) => coversHost(pattern, host));

const parseUrl = (given: string | URL): URL => {
  const { length } = given instanceof URL ? given.href : given;
  if (length > URL_CHARACTERS_MAX) throw refused('The URL of the destination is too long.');
  const url = given instanceof URL ? given : URL.parse(given);
  if (url === null) throw refused('The destination is not a valid URL.');
  return url;
};

const isAddress = (hostname: string): boolean =>
  hostname.startsWith('[') || isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;

/** A host name without its trailing dot. The URL parser has already normalised every spelling of an IP address. */
const parseHost = (policy: EgressPolicy, hostname: string): string => {
  const host = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
  if (isAddress(host)) throw refusedLocally(policy, 'The destination must be named by a host name, not by an address.');
  if (!hasHostLabels(host)) throw refused('The host name of the destination is not valid.');
  return host;
};

/** Whether the operator listed this host and port as private, or `npm run echo` serves them to a development server. */
export const isPrivateHost = (policy: EgressPolicy, url: URL): boolean =>
  isListedHost(policy, url) || findDevDestination(policy, url) !== undefined;

const isListedHost = ({ privateHosts }: EgressPolicy, url: URL): boolean =>
  privateHosts.some(({ host, port }) => port === portOf(url) && canonicalHost(host) === url.hostname);

/** The destination of `npm run echo`, if the URL names it and the operator did not list it. */
export const findDevDestination = (policy: EgressPolicy, url: URL): DevDestination | undefined => {
  const { development } = policy;
  if (development === undefined || url.hostname !== 'localhost' || isListedHost(policy, url)) return undefined;
  const destination = readDevDestination(development);
  return destination?.port === portOf(url) ? destination : undefined;
};
