// Bounds of a token or of an access rule: where a value may go, how often and until when. Parses, compares and decides. Knows no row
// and no request: whatever opens a value describes its use, and gets back why the bound refuses it.
import { z } from 'zod';
import { type Allowance, allowanceAttributes, describeAllowance, isAllowedWithin } from './allowance.ts';
import { AppError } from '../../platform/base/errors.ts';
import { coversHost } from '../../platform/base/host-names.ts';
import { optional } from '../../platform/base/optional.ts';
import { unknownName } from '../../platform/base/unknown-names.ts';
import { coversHosts, HOSTS_IN_DOCUMENTS, hostListOf } from '../../platform/egress/allowed-hosts.ts';
import type { DigestKey } from '../../platform/crypto/digest.ts';
import { parseDate } from '../../platform/json/dates.ts';

/** A person can still review so many of each. */
export const BOUND_NAMES_MAX = 20;
/** Beyond, a count says nothing that a daily limit does not say better. */
export const BOUND_USES_MAX = 1_000;

/** Parts of a decoded forwarded request that expressions stand in: parts of a form or of a multipart body are `body`. */
export const boundPlaces = ['body', 'header', 'path', 'query'] as const;
export type BoundPlace = (typeof boundPlaces)[number];

/** Bound as a request has it: at least one attribute. Lists have no duplicates and none is empty: that could mean all or none. */
export type Bound = {
  hosts?: string[] | undefined;
  /** Ids of stored proxies. */
  proxies?: string[] | undefined;
  reactors?: string[] | undefined;
  places?: BoundPlace[] | undefined;
  max_uses?: number | undefined;
  /** ISO 8601. */
  until?: string | undefined;
  allowance?: Allowance | undefined;
};

declare const pinned: unique symbol;

/**
 * Bound as it is stored, with sorted lists: equal bounds are equal JSON. Only `storeBound` makes one.
 * `pins`: for each proxy and reactor by id, the digest of what it was when it was named. Never shown, never taken.
 */
export type StoredBound = Bound & { pins?: Readonly<Record<string, string>> | undefined; readonly [pinned]: true };

const namesError = (what: string) => `must be a list of 1 to ${BOUND_NAMES_MAX} ${what}`;

const listOf = <T extends z.ZodType<string>>(item: T, what: string) =>
  z
    .array(item, namesError(what))
    .min(1, namesError(what))
    .max(BOUND_NAMES_MAX, namesError(what))
    .transform((items) => [...new Set(items)]);

const uuids = (what: string) =>
  listOf(
    z.uuid(`must be the id of ${what}`).transform((id) => id.toLowerCase()),
    `ids`,
  );

const until = z.string('must be a date').transform((text, ctx) => {
  const date = parseDate(text);
  if (date === undefined) ctx.addIssue('must be a date such as 2030-09-27T19:23:57Z');
  return date?.toISOString() ?? z.NEVER;
});

const usesError = `must be an integer from 1 to ${BOUND_USES_MAX}`;

const attributes = {
  hosts: optional(hostListOf(BOUND_NAMES_MAX)),
  proxies: optional(uuids('a stored proxy')),
  reactors: optional(uuids('a reactor')),
  places: optional(
    listOf(z.enum(boundPlaces, `must be one of ${boundPlaces.join(', ')}`), `of ${boundPlaces.join(', ')}`),
  ),
  max_uses: optional(z.int(usesError).min(1, usesError).max(BOUND_USES_MAX, usesError)),
  until: optional(until),
};

const withoutAbsent = <T extends object>(given: T): T =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T;

/** Unknown names are problems with the nearest name: a bound that is misspelt binds nothing. */
const knownNamesOnly =
  (known: readonly string[]) =>
  (given: Record<string, unknown>, ctx: z.RefinementCtx): void => {
    for (const name of Object.keys(given).slice(0, BOUND_NAMES_MAX))
      if (!known.includes(name))
        ctx.addIssue({
          code: 'custom',
          path: [name],
          message: unknownName(name, known),
          params: { code: 'unknown_name' },
        });
  };

const objectOf = <T extends z.ZodRawShape>(shape: T) =>
  z.looseObject(shape, 'must be an object').superRefine(knownNamesOnly(Object.keys(shape)));

const allowanceNames = Object.keys(allowanceAttributes) as (keyof Allowance)[];

const allowance = objectOf(allowanceAttributes).transform((given): Allowance =>
  withoutAbsent(Object.fromEntries(allowanceNames.map((name) => [name, given[name]])) as Allowance),
);

const allAttributes = { ...attributes, allowance: optional(allowance) };

export const boundNames = Object.keys(allAttributes) as (keyof typeof allAttributes)[];

/** Without one, a proxy that anybody makes could say that the amount stands elsewhere. */
const ALLOWANCE_ALONE = 'must stand beside proxies: they say where a request has its amount';

/** What a request says of a bound. */
export const boundSchema = objectOf(allAttributes)
  .refine((given) => given.allowance === undefined || given.proxies !== undefined, {
    error: ALLOWANCE_ALONE,
    path: ['allowance'],
    when: ({ issues }) => issues.length === 0,
  })
  .refine((given) => boundNames.some((name) => given[name] !== undefined), {
    error: `must have at least one of ${boundNames.join(', ')}`,
    when: ({ issues }) => issues.length === 0,
  })
  .transform((given): Bound => withoutAbsent(Object.fromEntries(boundNames.map((name) => [name, given[name]]))));

/** @param absent how an attribute may be absent. */
const describeBound = (
  absent: <T extends z.ZodType>(schema: T) => z.ZodOptional,
  allowanceInDocuments: { id: string; description: string },
) => {
  const named = absent(z.array(z.string()).min(1).max(BOUND_NAMES_MAX));
  return z.object({
    hosts: named.meta({
      description: `The hosts that the value may be sent to. ${HOSTS_IN_DOCUMENTS}`,
      example: ['api.processor.example'],
    }),
    proxies: named.meta({
      description:
        'Ids of the stored proxies that may send the value, and whose transforms get it. Each is pinned: if its destination host, its transforms or what they run with change, it does not send the value until a caller who may reveal the token confirms the bound.',
      example: ['5ad1d10c-28cd-4bd4-a9d2-b5b1f7c9a4b5'],
    }),
    reactors: named.meta({
      description:
        'Ids of the reactors that get the value. Each is pinned: if its code or what the code runs with changes, it does not get the value until a caller who may reveal the token confirms the bound.',
      example: ['0c8bf0d8-6d9f-4b66-a3c5-3e7a0c5f1d2e'],
    }),
    places: absent(z.array(z.string().meta({ 'x-extensible-enum': [...boundPlaces], example: 'body' })).min(1)).meta({
      description: 'Where the expression may stand in a forwarded request.',
      example: ['body'],
    }),
    max_uses: absent(z.int().min(1).max(BOUND_USES_MAX)).meta({
      description:
        'How many requests may be forwarded, and runs begun, with the value. A use is counted before the request is sent, and stays counted if the request then fails.',
      example: 1,
    }),
    until: absent(z.string().meta({ format: 'date-time' })).meta({
      description: 'The time from which the value is not used any more. The token itself stays.',
      example: '2030-09-27T19:23:57Z',
    }),
    allowance: absent(z.object(describeAllowance(absent)).meta(allowanceInDocuments)).meta({
      description:
        'What a request may charge with the value. It stands beside `proxies`: the value passes only through those that say, in `amount`, where a request has its amount.',
    }),
  });
};

const BOUND_TEXT =
  'Where a value may go, how often and until when. It has at least one attribute, and every one holds. With `hosts`, `proxies` or `reactors`, reads show the mask to every caller.';

/** For the OpenAPI document: of records, and of requests, where null is absence. */
const ALLOWANCE_TEXT = 'What a request may charge with a value.';

export const boundInDocuments = describeBound((schema) => schema.optional(), {
  id: 'Allowance',
  description: ALLOWANCE_TEXT,
}).meta({
  id: 'Bound',
  description: BOUND_TEXT,
});
export const boundRequestInDocuments = describeBound((schema) => schema.nullish(), {
  id: 'AllowanceRequest',
  description: ALLOWANCE_TEXT,
}).meta({
  id: 'BoundRequest',
  description: BOUND_TEXT,
});

/** @param pins undefined for a bound that names neither a proxy nor a reactor. */
export const storeBound = (bound: Bound, pins: Readonly<Record<string, string>> | undefined): StoredBound => {
  const sorted = Object.entries(bound).map(([name, value]) => [name, Array.isArray(value) ? value.toSorted() : value]);
  return { ...(Object.fromEntries(sorted) as Bound), ...(pins && { pins }) } as StoredBound;
};

/** A bound as it is shown: without its pins. */
export const shownBound = (bound: StoredBound | null | undefined): Bound | undefined => {
  if (!bound) return undefined;
  const shown = boundNames.flatMap((name) => (bound[name] === undefined ? [] : [[name, bound[name]]]));
  return Object.fromEntries(shown) as Bound;
};

/** Whether a bound names where the value may go. If so, it is not read, and goes nowhere else. */
export const bindsDestination = (bound: StoredBound | null | undefined): boolean =>
  bound != null && (bound.hosts !== undefined || bound.proxies !== undefined || bound.reactors !== undefined);

/** Digests of a proxy or a reactor as it is now, computed where a bound names it. */
export type Pins = {
  pin: (key: DigestKey) => string;
  /** Digest of where the requests of a proxy have their amounts, for bounds with an allowance. */
  pinOfAmount?: ((key: DigestKey) => string) | undefined;
};

export type BoundTarget = Pins & {
  id: string;
  /** Whether it is a proxy that says where its requests have their amounts. */
  hasAmount?: boolean;
};

/** The name of the second pin of a proxy. */
export const amountPinOf = (proxy_id: string): string => `${proxy_id} amount`;

/** Finds a proxy or reactor as it is now; undefined for an unknown id, and for one of another tenant. */
export type FindPin = (tenant_id: string, id: string) => Promise<Pins | undefined>;

/** The modules of proxies and reactors set them. */
export type BoundTargets = { proxies?: FindPin; reactors?: FindPin };

/** What is about to be done with values. */
export type Use =
  | {
      kind: 'proxy';
      /** Without the port. */
      host: string;
      /** Undefined for a request that names its destination. */
      proxy: BoundTarget | undefined;
      /** Whether code of the proxy gets the values. */
      hasCode: boolean;
      placesOf: (token_id: string) => readonly BoundPlace[];
    }
  | { kind: 'run'; reactor: BoundTarget };

const whatOf = (use: Use): string => (use.kind === 'proxy' ? `sent to ${use.host}` : 'used by this reactor');

/** The attribute that refuses a use, and why. */
export type Breach = { bound: keyof Bound; sentence: string; what: string };

export const CHANGED = 'changed';
const NOT_NAMED = 'does not name this';

/** Whether a proxy or a reactor that a bound names is what it was when it was named. */
export const isPinned = (
  { pins, allowance: allowed }: StoredBound,
  { id, pin, pinOfAmount }: BoundTarget,
  key: DigestKey,
): boolean => pins?.[id] === pin(key) && (!allowed || pins[amountPinOf(id)] === pinOfAmount?.(key));

const NO_AMOUNT = 'needs a proxy that says where a request has its amount';

const breachOfProxy = (
  bound: StoredBound,
  use: Use & { kind: 'proxy' },
  key: DigestKey,
): Omit<Breach, 'what'> | undefined => {
  const { hosts, proxies } = bound;
  const { proxy, host, hasCode } = use;
  if (hosts?.some((pattern) => coversHost(pattern, host)) === false)
    return { bound: 'hosts', sentence: `${NOT_NAMED} host` };
  if (proxies) {
    if (!proxy || !proxies.includes(proxy.id)) return { bound: 'proxies', sentence: `${NOT_NAMED} proxy` };
    if (!isPinned(bound, proxy, key)) return { bound: 'proxies', sentence: CHANGED };
    return bound.allowance && !proxy.hasAmount ? { bound: 'allowance', sentence: NO_AMOUNT } : undefined;
  }
  if (!hosts) return { bound: 'reactors', sentence: 'names reactors only, and no proxy' };
  return hasCode ? { bound: 'proxies', sentence: `${NOT_NAMED} proxy, whose code would get the value` } : undefined;
};

const breachOfRun = (bound: StoredBound, reactor: BoundTarget, key: DigestKey): Omit<Breach, 'what'> | undefined => {
  if (!bound.reactors?.includes(reactor.id)) return { bound: 'reactors', sentence: `${NOT_NAMED} reactor` };
  if (bound.allowance) return { bound: 'allowance', sentence: NO_AMOUNT };
  return isPinned(bound, reactor, key) ? undefined : { bound: 'reactors', sentence: CHANGED };
};

/**
 * Why a bound refuses a use; undefined where it does not. `max_uses` is not decided here: a use is counted with its log row. Nor is the
 * amount, which is read from the request as it leaves.
 * @param about the token, the key of the pins and the time.
 */
export const findBreach = (
  bound: StoredBound | null | undefined,
  use: Use,
  { token_id, key, now }: { token_id: string; key: DigestKey; now: Date },
): Breach | undefined => {
  if (!bound) return undefined;
  const what = whatOf(use);
  if (bindsDestination(bound)) {
    const breach = use.kind === 'proxy' ? breachOfProxy(bound, use, key) : breachOfRun(bound, use.reactor, key);
    if (breach) return { ...breach, what };
  }
  if (use.kind === 'proxy' && bound.places) {
    const place = use.placesOf(token_id).find((each) => !bound.places?.includes(each));
    if (place) return { bound: 'places', sentence: `${NOT_NAMED} place: ${place}`, what };
  }
  if (bound.until !== undefined && Date.parse(bound.until) <= now.getTime())
    return { bound: 'until', sentence: `was ${bound.until}`, what };
  return undefined;
};

export const usedUp = (bound: Bound, use: Use): Breach => ({
  bound: 'max_uses',
  sentence: `is ${bound.max_uses}, and as many uses are counted`,
  what: whatOf(use),
});

export const overspent = (sentence: string, use: Use): Breach => ({ bound: 'allowance', sentence, what: whatOf(use) });

/** Columns of a log row that say where values went. */
type LoggedUse = {
  destination_host?: string | undefined;
  reactor_id?: string | undefined;
  proxy_id?: string | undefined;
};

/** Whether a bound of today allows what a kept answer was made of: its destinations only, as nothing is sent again. */
export const allowsLogged = (bound: StoredBound, { destination_host, reactor_id, proxy_id }: LoggedUse): boolean => {
  if (!bindsDestination(bound)) return true;
  const { hosts, proxies, reactors } = bound;
  if (destination_host === undefined) return reactor_id !== undefined && reactors?.includes(reactor_id) === true;
  const [host = ''] = destination_host.split(':', 1);
  return (
    (hosts !== undefined || proxies !== undefined) &&
    hosts?.some((pattern) => coversHost(pattern, host)) !== false &&
    (proxies === undefined || (proxy_id !== undefined && proxies.includes(proxy_id)))
  );
};

/** 403. The log row of the refusal names the token, and where its value was to go. */
export const boundRefusal = (
  token: { id: string; type: string },
  { bound, sentence, what }: Breach,
  destination_host: string | undefined,
): AppError =>
  new AppError('forbidden', `Token ${token.id} may not be ${what}.`, {
    fieldErrors: [{ path: `bound_to.${bound}`, sentence, code: 'not_allowed' }],
    refused: {
      operation: 'use',
      entity_type: token.type,
      entity_ids: [token.id],
      message: `Refused: bound_to.${bound}`,
      destination_host,
    },
  });

const isSubset = (inner: readonly string[], outer: readonly string[]): boolean =>
  inner.every((each) => outer.includes(each));

/** Whether all names of a list are in another, each as it was pinned there. */
const isNamedWithin = (inner: StoredBound, outer: StoredBound, kind: 'proxies' | 'reactors'): boolean => {
  const isSame = (name: string): boolean => inner.pins?.[name] === outer.pins?.[name];
  const isAsPinned = (id: string): boolean => isSame(id) && (!outer.allowance || isSame(amountPinOf(id)));
  return isSubset(inner[kind] ?? [], outer[kind] ?? []) && (inner[kind] ?? []).every(isAsPinned);
};

/** Whether destinations are within those of a bound that names some. */
const isGoingWithin = (inner: StoredBound, outer: StoredBound): boolean => {
  if (!bindsDestination(inner)) return false;
  const sends = ({ hosts, proxies }: Bound): boolean => hosts !== undefined || proxies !== undefined;
  if (sends(inner)) {
    if (!sends(outer)) return false;
    if (outer.hosts && !coversHosts(outer.hosts, inner.hosts)) return false;
    if (outer.proxies && !inner.proxies) return false;
    // A named proxy may run code on the value, which a bound to hosts alone refuses.
    if (!isNamedWithin(inner, outer, 'proxies')) return false;
  }
  return isNamedWithin(inner, outer, 'reactors');
};

/** Whether a bound allows no use that another one refuses. Undefined refuses none. */
export const isWithin = (inner: StoredBound | null | undefined, outer: StoredBound | null | undefined): boolean => {
  if (!outer) return true;
  if (!inner) return false;
  if (bindsDestination(outer) && !isGoingWithin(inner, outer)) return false;
  if (!isAllowedWithin(inner.allowance, outer.allowance)) return false;
  if (outer.places && !(inner.places && isSubset(inner.places, outer.places))) return false;
  if (outer.max_uses !== undefined && !(inner.max_uses !== undefined && inner.max_uses <= outer.max_uses)) return false;
  return outer.until === undefined || (inner.until !== undefined && inner.until <= outer.until);
};
