// Says in words what a bound allows. Pure, and without a package.
import type { Allowance } from './allowance.ts';
import type { Bound } from './bounds.ts';

const describeAllowance = ({
  max_amount,
  currency,
  max_total,
  merchant_id,
  checkout_session_id,
}: Allowance): string[] => [
  `at most ${max_amount} ${currency} a request, in minor units`,
  ...(max_total === undefined ? [] : [`at most ${max_total} ${currency} in all`]),
  ...(merchant_id === undefined ? [] : [`only for the merchant ${merchant_id}`]),
  ...(checkout_session_id === undefined ? [] : [`for the checkout ${checkout_session_id}`]),
];

/** In words, as parts of a sentence about values. */
export const describeBound = ({
  hosts,
  proxies,
  reactors,
  places,
  max_uses,
  until: end,
  allowance,
}: Bound = {}): string[] => [
  ...(hosts ? [`only to ${hosts.join(', ')}`] : []),
  ...(proxies ? [`only through the proxies ${proxies.join(', ')}`] : []),
  ...(reactors ? [`only in the reactors ${reactors.join(', ')}`] : []),
  ...(places ? [`only in ${places.join(', ')} of a request`] : []),
  ...(max_uses === undefined ? [] : [`at most ${max_uses} ${max_uses === 1 ? 'time' : 'times'} each`]),
  ...(end === undefined ? [] : [`until ${end}`]),
  ...(allowance ? describeAllowance(allowance) : []),
];
