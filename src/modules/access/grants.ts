// Checks that a caller gives an application no more permissions, rules or hosts than it holds itself, and no wider limits.
import type { AnswerRecord } from './answer-record.ts';
import { type AccessRule, type Transform } from './access-rule.ts';
import type { ApplicationLimits } from '../../platform/base/application-limits.ts';
import { AppError, forbidden } from '../../platform/base/errors.ts';
import { coversHosts } from '../../platform/egress/allowed-hosts.ts';
import { coversLimits } from './limits.ts';
import { isWithin, type StoredBound } from './bounds.ts';
import type { Permission } from './permissions.ts';
import { strengths } from './rules.ts';

/** Rights of a caller, or of an application. */
export type Grants = {
  permissions: Iterable<Permission>;
  rules: readonly AccessRule[];
  /** Undefined for any. */
  allowed_hosts?: readonly string[] | undefined;
  /** Undefined for none. */
  limits?: ApplicationLimits | undefined;
  /** Id of an application that is there already. */
  application_id?: string | undefined;
};

/** Answers under these permissions show the masked value at most, whatever the transform. */
const showingNoMore: ReadonlySet<Permission> = new Set<Permission>(['token:create', 'token:update', 'token:delete']);

const strengthOf = (permission: Permission, transform: Transform): number =>
  Math.min(strengths[transform], showingNoMore.has(permission) ? strengths.mask : strengths.reveal);

/** Texts that begin with `text`; with `exact`, that text alone. */
type Pattern = { text: string; exact: boolean };

/** Tokens by id and container. The conditions of a rule come down to one pattern for each. */
type Region = { id: Pattern; container: Pattern };

const everywhere: Region = { id: { text: '', exact: false }, container: { text: '/', exact: false } };

const coversPattern = (outer: Pattern, inner: Pattern): boolean =>
  outer.exact ? inner.exact && inner.text === outer.text : inner.text.startsWith(outer.text);

const covers = (outer: Region, inner: Region): boolean =>
  coversPattern(outer.id, inner.id) && coversPattern(outer.container, inner.container);

/** Finds the narrower of two patterns: if they share a text, one covers the other. Undefined if they share none. */
const narrower = (one: Pattern, other: Pattern): Pattern | undefined => {
  if (coversPattern(one, other)) return other;
  return coversPattern(other, one) ? one : undefined;
};

/** The tokens in both; undefined for none. */
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

type Reach = {
  permissions: readonly Permission[];
  region: Region;
  transform: Transform;
  bound_to: StoredBound | undefined;
};

/** Rules by priority, 1 first, with the tokens that each can meet. */
type Holder = { permissions: ReadonlySet<Permission>; reaches: Reach[] };

const holderOf = ({ permissions, rules }: Grants): Holder => ({
  permissions: new Set(permissions),
  reaches: rules
    .toSorted((one, other) => one.priority - other.priority)
    .flatMap((rule) => {
      const region = regionOf(rule);
      const { permissions: named, transform, bound_to } = rule;
      return region ? [{ permissions: named, region, transform, bound_to }] : [];
    }),
});

/** One permission on a region, but for `decided`, where earlier rules of the application decide. */
type Grant = {
  permission: Permission;
  region: Region;
  transform: Transform;
  decided: Region[];
  /** Destinations of values, for `token:use`. */
  bound_to?: StoredBound | undefined;
};

/**
 * Whether the holder has the grant. It walks the rules as `decide` (rules.ts) does, for all tokens of the region at once: a rule
 * that some of them meet must be as strong, and one that all of them meet ends the walk.
 */
const holds = (holder: Holder, { permission, region, transform, decided, bound_to }: Grant): boolean => {
  // Earlier rules decide over the whole region.
  if (decided.some((each) => covers(each, region))) return true;
  const wanted = strengthOf(permission, transform);
  for (const reach of holder.reaches) {
    if (!reach.permissions.includes(permission)) continue;
    const both = intersect(reach.region, region);
    if (!both || decided.some((each) => covers(each, both))) continue;
    if (strengthOf(permission, reach.transform) < wanted || !isWithin(bound_to, reach.bound_to)) return false;
    if (covers(reach.region, region)) return true;
  }
  if (!holder.permissions.has(permission)) return false;
  if (permission === 'token:use' || wanted < strengths.reveal) return true;
  // A caller with `token:use` can reveal tokens anyway: its code and destinations get the values.
  if (!holder.permissions.has('token:use')) return false;
  return holds(holder, { permission: 'token:use', region, transform: 'reveal', decided });
};

const regionsNaming = (permission: Permission, reaches: readonly Reach[]): Region[] =>
  reaches.filter(({ permissions }) => permissions.includes(permission)).map(({ region }) => region);

/** A plain permission is a rule on everything, behind all others; `token:use` reveals. */
const plainGrant = (permission: Permission, reaches: readonly Reach[]): Grant => ({
  permission,
  region: everywhere,
  transform: permission === 'token:use' ? 'reveal' : 'default',
  decided: regionsNaming(permission, reaches),
});

export const hostsNotHeld = (what: 'application' | 'proxy') =>
  new AppError('forbidden', `The allowed_hosts of the ${what} must be within those of the caller.`);

const limitsNotHeld = () =>
  new AppError('forbidden', 'The limits of the application must be within those of the caller.');

/** The permissions under which tokens count for a daily limit. */
const countedPermissions = {
  daily_reveals: ['token:read', 'token:search'],
  daily_uses: ['token:use'],
} as const satisfies Record<string, readonly Permission[]>;

/**
 * What a caller can pass on. Each application has a count of its own: a caller with a daily limit would have as many tokens as
 * it wants, by as many applications. So it passes on no permission under which tokens count.
 */
const passedOn = (caller: Grants): Grants => {
  const { daily_reveals, daily_uses } = caller.limits ?? {};
  const counted = new Set<Permission>([
    ...(daily_reveals === undefined ? [] : countedPermissions.daily_reveals),
    ...(daily_uses === undefined ? [] : countedPermissions.daily_uses),
  ]);
  if (counted.size === 0) return caller;
  const isPassedOn = (permission: Permission): boolean => !counted.has(permission);
  return {
    ...caller,
    permissions: [...caller.permissions].filter(isPassedOn),
    rules: caller.rules.map((rule) => ({ ...rule, permissions: rule.permissions.filter(isPassedOn) })),
  };
};

/**
 * Refuses to give an application what the caller does not hold.
 * @param before what the application holds already, which it may keep. Removing a rule can widen a later one that it preceded.
 * @throws forbidden naming the first permission that is not held, or the hosts or limits.
 */
export const checkGrants = (
  { caller, record }: { readonly caller: Grants & { actor_id?: string }; readonly record?: AnswerRecord | undefined },
  grants: Grants,
  before?: Grants,
): void => {
  // Permissions are held for some hosts: a holder with fewer hosts does not hold them for these.
  const isOwn = grants.application_id !== undefined && grants.application_id === caller.actor_id;
  const candidates = [isOwn ? caller : passedOn(caller), ...(before ? [before] : [])].filter(({ allowed_hosts }) =>
    coversHosts(allowed_hosts, grants.allowed_hosts),
  );
  if (candidates.length === 0) throw hostsNotHeld('application');
  const holders = candidates.filter(({ limits }) => coversLimits(limits, grants.limits)).map(holderOf);
  if (holders.length === 0) throw limitsNotHeld();
  const { permissions, reaches } = holderOf(grants);
  for (const permission of permissions) {
    const grant = plainGrant(permission, reaches);
    if (!holders.some((holder) => holder.permissions.has(permission) && holds(holder, grant)))
      throw forbidden(permission);
  }
  for (const [index, { permissions: named, region, transform, bound_to }] of reaches.entries())
    for (const permission of named) {
      const decided = regionsNaming(permission, reaches.slice(0, index));
      if (!holders.some((holder) => holds(holder, { permission, region, transform, decided, bound_to })))
        throw forbidden(permission);
    }
  // A change passes nothing on to the caller.
  if (!before) record?.handedOn({ ...grants, permissions: [...grants.permissions] });
};
