// Says in words what a bound allows. Pure, and without a package.
import type { Bound } from './bounds.ts';

/** In words, as parts of a sentence about values. */
export const describeBound = ({ hosts, proxies, reactors, places, max_uses, until: end }: Bound = {}): string[] => [
  ...(hosts ? [`only to ${hosts.join(', ')}`] : []),
  ...(proxies ? [`only through the proxies ${proxies.join(', ')}`] : []),
  ...(reactors ? [`only in the reactors ${reactors.join(', ')}`] : []),
  ...(places ? [`only in ${places.join(', ')} of a request`] : []),
  ...(max_uses === undefined ? [] : [`at most ${max_uses} ${max_uses === 1 ? 'time' : 'times'} each`]),
  ...(end === undefined ? [] : [`until ${end}`]),
];
