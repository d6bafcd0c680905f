// Finds the rule that decides. Pure, and without a package: the command line has it too.
import type { AccessRule, Transform } from './access-rule.ts';
import type { Bound, StoredBound } from './bounds.ts';
import type { Permission } from './permissions.ts';

type Rule<B extends Bound> = Omit<AccessRule, 'bound_to'> & { bound_to?: B | undefined };

/** Rights in the form in which they decide: rules by priority, 1 first. `B`: bounds as they are stored, or as they are asked for. */
export type DecidingRights<B extends Bound = StoredBound> = {
  readonly permissions: ReadonlySet<Permission>;
  readonly rules: readonly Rule<B>[];
};

/** A rule, or the last one: a plain permission, which is on all tokens. */
export type Decider<B extends Bound = StoredBound> = Pick<Rule<B>, 'container' | 'conditions' | 'bound_to'> & {
  transform: Transform;
};

const plainPermission: Pick<Decider, 'container' | 'transform'> = { container: '/', transform: 'default' };

/** Sorts rules by priority, 1 first; equal ones stay as they were written. */
export const byPriority = <T extends Pick<AccessRule, 'priority'>>(rules: readonly T[]): T[] =>
  rules.toSorted((one, other) => one.priority - other.priority);

/** Why a rule does not decide: it does not name the permission, or does not reach the token. */
export type SkipReason = 'permission' | 'container' | 'condition';

/**
 * Every decision is this walk: a request's, its explanation, and the sentences of what a key can do.
 * @param reaches asked of each rule that names the permission, in the order in which they decide, and of a plain permission last.
 * @param onSkip told of each rule before the one that decides.
 * @returns the first one that reaches; undefined where nothing allows it.
 */
export const findDecider = <B extends Bound = StoredBound>(
  { permissions, rules }: DecidingRights<B>,
  permission: Permission,
  reaches: (rule: Decider<B>) => boolean,
  onSkip?: (index: number, why: SkipReason) => void,
): Decider<B> | undefined => {
  for (let index = 0; index < rules.length; index += 1) {
    const rule = rules[index] as Rule<B>;
    const isNamed = rule.permissions.includes(permission);
    if (isNamed && reaches(rule)) return rule;
    onSkip?.(index, isNamed ? (rule.conditions === undefined ? 'container' : 'condition') : 'permission');
  }
  return permissions.has(permission) && reaches(plainPermission) ? plainPermission : undefined;
};
