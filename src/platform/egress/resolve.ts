// From a host name to the one address we connect to: every address that the name has must be allowed, then one is taken.
// Asks DNS itself, and the operating system only for names that the operator vouches for.
import { lookup, Resolver as DnsResolver } from 'node:dns/promises';
import { isIPv4 } from 'node:net';
import { isReachable } from './address.ts';
import { EgressFault } from './fault.ts';

/** All addresses of a name, of both families. */
export type Resolver = (host: string, signal: AbortSignal) => Promise<string[]>;

/** A name server that takes longer counts as unavailable. */
const RESOLVE_TIMEOUT_MS = 2_000;

/** How long each family is waited for. Some servers never answer for AAAA, and the other answer must still be in time. */
const FAMILY_TIMEOUT_MS = 1_500;

/** Of one packet; the next try waits longer. */
const PACKET_TIMEOUT_MS = 500;

/** @param servers in place of the machine's name servers. The machine's hosts file is not read. */
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
    // One family without an answer is common. None at all is a failure.
    if (addresses.length === 0) throw new EgressFault('DNS', { cause: (answers[0] as PromiseRejectedResult).reason });
    return addresses;
  };
};

/**
 * By the operating system, its hosts file included: for names that the operator vouches for, which may stand nowhere else.
 * What it finds is checked like any other address.
 */
export const lookUpHost: Resolver = async (host) => {
  const found = await lookup(host, { all: true }).catch((cause: unknown) => {
    throw new EgressFault('DNS', { cause });
  });
  return found.map(({ address }) => address);
};

/**
 * @param mayBePrivate the operator named this host and port as one of his own network.
 * @returns one address that may be connected to.
 * @throws EgressFault DNS; DESTINATION_REFUSED when one of the addresses, whichever, may not be reached.
 */
export const resolveAddress = async (
  resolve: Resolver,
  host: string,
  mayBePrivate: boolean,
  signal: AbortSignal,
): Promise<string> => {
  const addresses = await within(resolve(host, signal), signal);
  // A name with one good address and one bad is somebody's trick: which of them is used must not matter.
  if (!addresses.every((each) => isReachable(each, mayBePrivate))) {
    throw new EgressFault('DESTINATION_REFUSED', { sentence: 'The destination must be on the public internet.' });
  }
  // Servers without a way to IPv6 are many, without one to IPv4 few.
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
