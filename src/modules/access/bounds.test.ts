// Bounds against a model: a use is allowed only if every bound allows it, and what is within a bound allows no more than it.
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { prepareDigestKey } from '../../platform/crypto/digest.ts';
import { createRandom, type Random } from '../../../test/support/random.ts';
import { type Charge, findOverspend } from './allowance.ts';
import {
  amountPinOf,
  type Bound,
  type BoundPlace,
  boundPlaces,
  boundSchema,
  findBreach,
  isWithin,
  type StoredBound,
  storeBound,
  type Use,
} from './bounds.ts';

const SETS = 10_000;
const key = prepareDigestKey('key', new Uint8Array(32));
const now = new Date('2026-06-01T00:00:00Z');
const hosts = ['a.test', 'b.a.test', 'c.test'];
const patterns = ['a.test', '*.a.test', 'b.a.test', 'c.test', '*.test'];
const ids = ['p1', 'p2', 'r1', 'r2'];
const versions = ['v1', 'v2'];
const times = ['2026-05-01T00:00:00.000Z', '2026-07-01T00:00:00.000Z'];

const one = <T>(random: Random, of: readonly T[]): T => of[random(of.length)] as T;
const some = <T>(random: Random, of: readonly T[]): T[] | undefined => {
  const chosen = of.filter(() => random(2) === 0);
  return random(2) === 0 || chosen.length === 0 ? undefined : chosen;
};

const randomBound = (random: Random): StoredBound | undefined => {
  const bound: Bound = {
    hosts: some(random, patterns),
    proxies: some(random, ['p1', 'p2']),
    reactors: some(random, ['r1', 'r2']),
    places: some(random, boundPlaces),
    until: random(3) === 0 ? one(random, times) : undefined,
    max_uses: random(3) === 0 ? 1 + random(3) : undefined,
  };
  if (bound.proxies && random(2) === 0)
    bound.allowance = {
      max_amount: 1 + random(3),
      currency: one(random, ['usd', 'eur']),
      merchant_id: one(random, [undefined, 'm1']),
      max_total: one(random, [undefined, 3, 5]),
    };
  const named = Object.entries(bound).filter(([, value]) => value !== undefined);
  if (named.length === 0) return undefined;
  const pinned = [...ids, ...ids.map(amountPinOf)];
  const pins = Object.fromEntries(pinned.map((id) => [id, one(random, versions)]));
  return storeBound(Object.fromEntries(named) as Bound, pins);
};

/** What a use is, with the version of the proxy or reactor, for the model. */
type Asked = { use: Use; version: string; places: BoundPlace[]; hasAmount: boolean; charge: Charge };

const randomUse = (random: Random): Asked => {
  const version = one(random, versions);
  const pin = () => version;
  const hasAmount = random(4) > 0;
  const charge = {
    amount: BigInt(random(4)),
    currency: one(random, ['usd', 'eur']),
    merchant: one(random, [undefined, 'm1', 'm2']),
    isShown: true,
  };
  const places = some(random, boundPlaces) ?? ['body'];
  if (random(3) === 0)
    return {
      use: { kind: 'run', reactor: { id: one(random, ['r1', 'r2']), pin } },
      version,
      places,
      hasAmount,
      charge,
    };
  const id = one(random, [undefined, 'p1', 'p2']);
  return {
    use: {
      kind: 'proxy',
      host: one(random, hosts),
      proxy: id === undefined ? undefined : { id, pin, pinOfAmount: pin, hasAmount },
      hasCode: id !== undefined && random(2) === 0,
      placesOf: () => places,
    },
    version,
    places,
    hasAmount,
    charge,
  };
};

/** The rules of the documentation, one by one. */
const modelAllows = (bound: StoredBound | undefined, { use, version, places, hasAmount, charge }: Asked): boolean => {
  if (bound === undefined) return true;
  const { hosts: named, proxies, reactors, allowance } = bound;
  const bindsDestination = named !== undefined || proxies !== undefined || reactors !== undefined;
  if (bound.until !== undefined && now >= new Date(bound.until)) return false;
  if (use.kind === 'run') {
    if (!bindsDestination) return true;
    if (allowance) return false;
    return reactors !== undefined && reactors.includes(use.reactor.id) && bound.pins?.[use.reactor.id] === version;
  }
  if (bound.places !== undefined && !places.every((place) => bound.places?.includes(place))) return false;
  if (!bindsDestination) return true;
  if (named === undefined && proxies === undefined) return false;
  const isHost = (pattern: string): boolean =>
    pattern.startsWith('*.') ? use.host.endsWith(pattern.slice(1)) : pattern === use.host;
  if (named !== undefined && !named.some(isHost)) return false;
  if (proxies === undefined) return !use.hasCode;
  if (use.proxy === undefined || !proxies.includes(use.proxy.id) || bound.pins?.[use.proxy.id] !== version)
    return false;
  if (!allowance) return true;
  const { amount, currency, merchant } = charge;
  return (
    hasAmount &&
    bound.pins[amountPinOf(use.proxy.id)] === version &&
    currency === allowance.currency &&
    amount > 0n &&
    amount <= allowance.max_amount &&
    (merchant === undefined || allowance.merchant_id === undefined || merchant === allowance.merchant_id)
  );
};

const allows = (bound: StoredBound | undefined, { use, charge }: Asked): boolean =>
  findBreach(bound, use, { token_id: 't', key, now }) === undefined &&
  (bound?.allowance === undefined || findOverspend(bound.allowance, charge) === undefined);

test('10,000 random sets of bounds decide as the model does, alone and together', () => {
  const random = createRandom(1);
  let allowed = 0;
  for (let at = 0; at < SETS; at += 1) {
    const bounds = Array.from({ length: 1 + random(3) }, () => randomBound(random));
    const asked = randomUse(random);
    const wanted = bounds.every((bound) => modelAllows(bound, asked));
    expect(
      bounds.every((bound) => allows(bound, asked)),
      inspect({ bounds, asked }, { depth: 9 }),
    ).toBe(wanted);
    if (wanted) allowed += 1;
  }
  expect(allowed).toBeGreaterThan(SETS / 20);
  expect(allowed).toBeLessThan(SETS / 2);
});

test('10,000 random pairs: a bound within another allows no use that the other refuses', () => {
  const random = createRandom(2);
  let within = 0;
  for (let at = 0; at < SETS; at += 1) {
    const outer = randomBound(random);
    // Half of them are made of the other, so that many are within it.
    const fresh = randomBound(random);
    const inner = outer && fresh && random(2) === 0 ? ({ ...outer, ...fresh } as StoredBound) : fresh;
    if (!isWithin(inner, outer)) continue;
    within += 1;
    const { max_total = Infinity } = inner?.allowance ?? {};
    expect(max_total).toBeLessThanOrEqual(outer?.allowance?.max_total ?? Infinity);
    expect(outer?.max_uses === undefined || (inner?.max_uses ?? Infinity) <= outer.max_uses).toBe(true);
    for (let uses = 0; uses < 20; uses += 1) {
      const asked = randomUse(random);
      if (allows(inner, asked)) expect(allows(outer, asked), inspect({ inner, outer, asked }, { depth: 9 })).toBe(true);
    }
  }
  expect(within).toBeGreaterThan(SETS / 20);
});

describe('what is within a bound', () => {
  const stored = (bound: Bound, pins = {}): StoredBound => storeBound(bound, pins);
  const cases: [string, StoredBound | undefined, StoredBound | undefined, boolean][] = [
    ['the same', stored({ hosts: ['a.test'] }), stored({ hosts: ['a.test'] }), true],
    ['any, of none', stored({ max_uses: 1 }), undefined, true],
    ['none, of any', undefined, stored({ max_uses: 1 }), false],
    ['fewer hosts', stored({ hosts: ['a.test'] }), stored({ hosts: ['a.test', 'c.test'] }), true],
    ['a host below a wildcard', stored({ hosts: ['b.a.test'] }), stored({ hosts: ['*.a.test'] }), true],
    ['the wildcard of a host', stored({ hosts: ['*.a.test'] }), stored({ hosts: ['a.test'] }), false],
    ['a proxy in place of a host', stored({ proxies: ['p1'] }), stored({ hosts: ['a.test'] }), false],
    ['a proxy beside a host', stored({ hosts: ['a.test'], proxies: ['p1'] }), stored({ hosts: ['a.test'] }), false],
    ['a reactor beside a host', stored({ hosts: ['a.test'], reactors: ['r1'] }), stored({ hosts: ['a.test'] }), false],
    ['a host beside a reactor', stored({ hosts: ['a.test'], reactors: ['r1'] }), stored({ reactors: ['r1'] }), false],
    ['the proxy as it was', stored({ proxies: ['p1'] }, { p1: 'x' }), stored({ proxies: ['p1'] }, { p1: 'x' }), true],
    ['the proxy as it is', stored({ proxies: ['p1'] }, { p1: 'y' }), stored({ proxies: ['p1'] }, { p1: 'x' }), false],
    ['places beside a host', stored({ hosts: ['a.test'], places: ['body'] }), stored({ hosts: ['a.test'] }), true],
    ['fewer uses', stored({ max_uses: 1 }), stored({ max_uses: 2 }), true],
    ['more uses', stored({ max_uses: 3 }), stored({ max_uses: 2 }), false],
    ['a later end', stored({ until: times[1] as string }), stored({ until: times[0] as string }), false],
  ];
  test.each(cases)('%s', (_, inner, outer, wanted) => expect(isWithin(inner, outer)).toBe(wanted));
});

test('a bound is stored with sorted lists, and shows no pins to a request', () => {
  const bound = boundSchema.parse({ hosts: ['b.test', 'A.test', 'b.test'], places: null, until: '2030-01-01' });
  expect(bound).toEqual({ hosts: ['b.test', 'a.test'], until: '2030-01-01T00:00:00.000Z' });
  expect(storeBound(bound, undefined)).toEqual({ hosts: ['a.test', 'b.test'], until: '2030-01-01T00:00:00.000Z' });
  expect(boundSchema.safeParse({ pins: {} }).success).toBe(false);
});
