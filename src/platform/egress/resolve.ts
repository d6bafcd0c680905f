// Resolves a host name to the one address to connect to. All addresses of the name must be allowed.
// Queries DNS directly; uses the operating system's resolver only for the operator's private hosts.
import { lookup, Resolver as DnsResolver } from 'node:dns/promises';
import { isIPv4 } from 'node:net';
import { isReachable } from './address.ts';
import { NOT_PUBLIC } from './destination.ts';
import { EgressFault } from '../base/egress-fault.ts';

/** All addresses of a name, of both families. */
export type Resolver = (host: string, signal: AbortSignal) => Promise<string[]>;

/** A name server that takes longer counts as unavailable. */
const RESOLVE_TIMEOUT_MS = 2_000;

/** Timeout for each address family. Some name servers never answer AAAA queries, and the A answer must still be in time. */
const FAMILY_TIMEOUT_MS = 1_500;

/** Timeout of the first packet; the next try waits longer. */
const PACKET_TIMEOUT_MS = 500;

/** @param servers replace the machine's name servers. The hosts file is not read. */
export const createResolver = (servers?: string[]): Resolver => {
  const dns = new DnsResolver({ timeout: PACKET_TIMEOUT_MS, tries: 2 });
  if (servers !== undefined) dns.setServers(servers);
  return async (host) => {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(new EgressFault('DNS')), FAMILY_TIMEOUT_MS);
    const queries = [dns.resolve4(host), dns.resolve6(host)];
    const answers = await Promise.allSettled(queries.map((query) => Promise.race([query, late])));
    clearTimeout(timer);
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    // Many names have addresses of one family only.
    if (addresses.length === 0) throw new EgressFault('DNS', { cause: (answers[0] as PromiseRejectedResult).reason });
    return addresses;
  };
};

/**
 * Resolves by the operating system, including its hosts file: private hosts may be listed only there.
 * The result is checked like any other address.
 */
export const lookUpHost: Resolver = async (host) => {
  const found = await lookup(host, { all: true }).catch((cause: unknown) => {
    throw new EgressFault('DNS', { cause });
  });
  return found.map(({ address }) => address);
};

/**
 * @param mayBePrivate the operator listed this host and port as private.
 * @returns one address that the server may connect to.
 * @throws EgressFault DNS; DESTINATION_REFUSED if any of the addresses is not allowed.
 */
export const resolveAddress = async (
  resolve: Resolver,
  host: string,
  mayBePrivate: boolean,
  signal: AbortSignal,
): Promise<string> => {
  const addresses = await within(resolve(host, signal), signal);
  // A name with an allowed and a forbidden address may be an attack (DNS rebinding), so one forbidden address is enough.
  if (!addresses.every((each) => isReachable(each, mayBePrivate))) {
    throw new EgressFault('DESTINATION_REFUSED', { sentence: NOT_PUBLIC });
  }
  // Prefer IPv4: more servers lack a route for IPv6 than for IPv4.
  const address = addresses.find((each) => isIPv4(each)) ?? addresses[0];
  if (address === undefined) throw new EgressFault('DNS');
  return address;
};

const within = async <T>(answer: Promise<T>, signal: AbortSignal): Promise<T> => {
  let stop = () => {};
  const limit = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(new EgressFault('DNS')), RESOLVE_TIMEOUT_MS);
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort);
    stop = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    };
  });
  try {
    return await Promise.race([answer, limit]);
  } catch (error) {
    throw error instanceof EgressFault ? error : new EgressFault('DNS', { cause: error });
  } finally {
    stop();
  }
};
