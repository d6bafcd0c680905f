// What a request of the proxy does with values, for the bounds of tokens and rules.
import type { BoundPlace, Use } from '../access/bounds.ts';
import { canonicalHost } from '../../platform/base/host-names.ts';
import { maskOfCode } from './mask-transform.ts';
import { pinOfAmount } from './amount-rule.ts';
import { type PinnedProxy, pinOfProxy } from './proxy-finder.ts';

/** The built-in mask gets the values too, and sends them nowhere. @param placesOf the places of a token in the request. */
export const useOf = (
  { hostname }: URL,
  proxy: PinnedProxy | undefined,
  placesOf: (token_id: string) => readonly BoundPlace[],
): Use => ({
  kind: 'proxy',
  host: canonicalHost(hostname),
  proxy: proxy && {
    id: proxy.id,
    pin: (key) => pinOfProxy(key, proxy),
    pinOfAmount: (key) => pinOfAmount(key, proxy),
    hasAmount: proxy.amount !== undefined,
  },
  hasCode: [proxy?.request_transform, proxy?.response_transform].some(
    (code) => code !== undefined && maskOfCode(code) === undefined,
  ),
  placesOf,
});
