// What a caller may hand on: an application never gets more than its creator holds. Pure; decisions.md section 3.
import { AppError, forbidden } from '../errors.ts';
import { coversHosts } from './allowed-hosts.ts';
import type { Caller } from './caller.ts';
import type { Permission } from './permissions.ts';
import { type AccessRule, strengths, type Transform } from './rules.ts';

/** What a caller holds, what an application has, and what it is to get. */
export type Grants = {
  permissions: Iterable<Permission>;
  rules: readonly AccessRule[];
  /** Undefined for any. */
  allowed_hosts?: readonly string[] | undefined;
};

/** Their answers never show more than the masked value, whatever the transform. */
const showingNoMore: ReadonlySet<Permission> = new Set<Permission>(['token:create', 'token:update', 'token:delete']);

const strengthOf = (permission: Permission, transform: Transform): number =>
  Math.min(strengths[transform], showingNoMore.has(permission) ? strengths.mask : strengths.reveal);

/** Texts that begin so; with `exact`, the one that is so. */
type Pattern = { text: string; exact: boolean };

/** Tokens by id and container. However many conditions a rule has, they come down to one pattern for each. */
type Region = { id: Pattern; container: Pattern };

const everywhere: Region = { id: { text: '', exact: false }, container: { text: '/', exact: false } };

const coversPattern = (outer: Pattern, inner: Pattern): boolean =>
  outer.exact ? inner.exact && inner.text === outer.text : inner.text.startsWith(outer.text);

const covers = (outer: Region, inner: Region): boolean =>
  coversPattern(outer.id, inner.id) && coversPattern(outer.container, inner.container);

/** Of two patterns that share a text, one covers the other. */
const narrower = (one: Pattern, other: Pattern): Pattern | undefined => {
  if (coversPattern(one, other)) return other;
  return coversPattern(other, one) ? one : undefined;
};

/** What is in both; undefined for nothing. */
const intersect = (one: Region, other: Region): Region | undefined => {
  const id = narrower(one.id, other.id);
  const container = narrower(one.container, other.container);
  return id && container && { id, container };
};

/** @returns undefined for a rule that no token can meet. */
const regionOf = (rule: AccessRule): Region | undefined => {
  let region: Region | undefined = { ...everywhere, container: { text: rule.container ?? '/', exact: false } };
  for (const { attribute, operator, value } of rule.conditions ?? []) {
    const text = attribute === 'id' ? value : value.toLowerCase();
    region = region && intersect(region, { ...everywhere, [attribute]: { text, exact: operator === 'equals' } });
  }
  return region;
};

type Reach = { permissions: readonly Permission[]; region: Region; transform: Transform };

/** Rules by priority, 1 first, with the tokens that each can meet. */
type Holder = { permissions: ReadonlySet<Permission>; reaches: Reach[] };

const holderOf = ({ permissions, rules }: Grants): Holder => ({
  permissions: new Set(permissions),
  reaches: rules
    .toSorted((one, other) => one.priority - other.priority)
    .flatMap((rule) => {
      const region = regionOf(rule);
      return region ? [{ permissions: rule.permissions, region, transform: rule.transform }] : [];
    }),
});

/** One permission on a region. In `decided` the application's own rules have decided already. */
type Grant = { permission: Permission; region: Region; transform: Transform; decided: Region[] };

/**
 * Whether the holder reaches as much. The walk is that of `decide` (rules.ts), for all tokens of the region at once: a rule
 * that some of them meet must be as strong, and one that all of them meet ends it.
 */
const holds = (holder: Holder, { permission, region, transform, decided }: Grant): boolean => {
  // Nothing is left for it to decide.
  if (decided.some((each) => covers(each, region))) return true;
  const wanted = strengthOf(permission, transform);
  for (const reach of holder.reaches) {
    if (!reach.permissions.includes(permission)) continue;
    const both = intersect(reach.region, region);
    if (!both || decided.some((each) => covers(each, both))) continue;
    if (strengthOf(permission, reach.transform) < wanted) return false;
    if (covers(reach.region, region)) return true;
  }
  if (!holder.permissions.has(permission)) return false;
  if (permission === 'token:use' || wanted < strengths.reveal) return true;
  // Whoever uses tokens reveals them already: code and destinations get the values.
  if (!holder.permissions.has('token:use')) return false;
  return holds(holder, { permission: 'token:use', region, transform: 'reveal', decided });
};

const regionsNaming = (permission: Permission, reaches: readonly Reach[]): Region[] =>
  reaches.filter(({ permissions }) => permissions.includes(permission)).map(({ region }) => region);

/** A plain permission is a rule on everything, behind all others; `token:use` reveals (decisions.md section 3). */
const plainGrant = (permission: Permission, reaches: readonly Reach[]): Grant => ({
  permission,
  region: everywhere,
  transform: permission === 'token:use' ? 'reveal' : 'default',
  decided: regionsNaming(permission, reaches),
});

export const hostsNotHeld = (what: 'application' | 'proxy') =>
  new AppError('forbidden', `The allowed_hosts of the ${what} must be within those of the caller.`);

/**
 * Refuses to give an application what the caller does not hold.
 * @param before what the application has already, which it may keep. A rule that held another back and goes away makes
 * the other more than it was.
 * @throws forbidden naming the first permission that is not held, or the hosts.
 */
export const checkGrants = (caller: Grants & Pick<Caller, 'record'>, grants: Grants, before?: Grants): void => {
  // A permission reaches as far as the hosts it may send to: whoever is held to fewer does not hold it for these.
  const holders = [caller, ...(before ? [before] : [])]
    .filter(({ allowed_hosts }) => coversHosts(allowed_hosts, grants.allowed_hosts))
    .map(holderOf);
  if (holders.length === 0) throw hostsNotHeld('application');
  const { permissions, reaches } = holderOf(grants);
  for (const permission of permissions) {
    const grant = plainGrant(permission, reaches);
    if (!holders.some((holder) => holder.permissions.has(permission) && holds(holder, grant)))
      throw forbidden(permission);
  }
  for (const [index, { permissions: named, region, transform }] of reaches.entries())
    for (const permission of named) {
      const decided = regionsNaming(permission, reaches.slice(0, index));
      if (!holders.some((holder) => holds(holder, { permission, region, transform, decided })))
        throw forbidden(permission);
    }
  // What was held before stays with it: nothing is handed on.
  if (!before) caller.record?.handedOn({ ...grants, permissions: [...grants.permissions] });
};
