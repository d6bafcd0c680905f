// Checks the host of a destination list by list, as a request through the proxy does before any look-up. Opens nothing.
import { EgressFault } from '../../platform/base/egress-fault.ts';
import { isOnList } from '../../platform/egress/destination.ts';
import type { Caller } from '../access/caller.ts';
import type { Check } from '../access/checks.ts';
import type { ProxyContext } from './context.ts';

/** A destination, and the hosts of its stored proxy. */
export type Destination = { url: string; proxyHosts?: { hosts: readonly string[] | undefined } };

const listCheck = (name: Check['name'], whose: string, list: readonly string[] | undefined, host: string): Check => {
  if (list === undefined) return { name, ok: true, detail: `${whose} names no hosts.` };
  const ok = isOnList(list, host);
  return { name, ok, detail: `The host is ${ok ? '' : 'not '}on the list of ${whose.toLowerCase()}.` };
};

/** Checks the destination like a request through the proxy does, before any look-up. */
export const checkHosts = (
  { egress }: Pick<ProxyContext, 'egress'>,
  { url, proxyHosts }: Destination,
  { allowed_hosts }: Pick<Caller, 'allowed_hosts'>,
): Check[] => {
  const host = URL.parse(url)?.hostname.replace(/\.$/, '') ?? '';
  return [
    ...(proxyHosts ? [listCheck('proxy.allowed_hosts', 'The proxy', proxyHosts.hosts, host)] : []),
    listCheck('application.allowed_hosts', 'The application', allowed_hosts, host),
    operatorCheck(egress, url),
  ];
};

const operatorCheck = (egress: ProxyContext['egress'], url: string): Check => {
  try {
    egress.check(url, []);
    return { name: 'operator', ok: true, detail: 'The operator of the vault lets requests go there.' };
  } catch (error) {
    if (!(error instanceof EgressFault)) throw error;
    return { name: 'operator', ok: false, detail: error.message };
  }
};
