// Explains a decision of the access rules: which rule decides, which were skipped and why, and how much is shown. Pure.
import type { AccessRule, Transform, Visibility } from './access-rule.ts';
import type { StoredBound } from './bounds.ts';
import type { Caller } from './caller.ts';
import type { Permission } from './permissions.ts';
import { byPriority, type DecidingRights, findDecider, type SkipReason } from './rule-walk.ts';
import { findDeciderFor, type Target, transformUnder, visibilityUnder } from './rules.ts';

/** Subject of a question about access. */
export type Subject = {
  entity_type: 'application' | 'tenant_member';
  id: string;
  /** What decides, with the limits of the caller. */
  rights: DecidingRights & Pick<Caller, 'allowed_hosts' | 'limits'>;
  /** Rights that decide if a member asks for a value. Undefined for applications, and for a role that sees no value. */
  asking?: DecidingRights | undefined;
  /** In the order of the application's record. */
  rules: readonly AccessRule[];
  /** Role of a member. */
  role?: string;
};

export type By = {
  kind: 'rule' | 'permission' | 'role' | 'nothing';
  /** In `rules` of the application, from 0. */
  rule_index?: number;
  priority?: number;
  /** Description of the rule, if it has one; the role of a member. */
  description?: string;
};

export type Decision = {
  isAllowed: boolean;
  by: By;
  shows: Visibility;
  skipped: { rule_index: number; why: SkipReason }[];
};

/** `masked`: whether it has a mask. */
export type ExplainedToken = { masked: boolean; bound_to?: StoredBound | null };

export const isOnTokens = (permission: Permission): boolean => permission.startsWith('token:');

/** How much of a value an operation gives to its caller, or to code and destinations. Others give none. */
const shownUnder = (
  permission: Permission,
  transform: Transform | undefined,
  { masked, bound_to }: ExplainedToken,
): Visibility => {
  if (transform === undefined) return 'nothing';
  if (permission === 'token:use') return visibilityUnder(permission, transform, masked);
  // A value that is bound to destinations is not read.
  if (permission === 'token:read' || permission === 'token:search')
    return visibilityUnder(permission, transformUnder(bound_to, transform) ?? transform, masked);
  // An answer to a change has the masked value (docs/decisions/0008-access-rules.md).
  return masked && transform !== 'redact' ? 'masked' : 'nothing';
};

/**
 * @param target the token, or a container with no token; undefined for a permission that is on no token.
 * @param token of a container, one with a mask and without a bound is explained.
 */
export const explainDecision = (
  { rights, asking, rules, role }: Subject,
  permission: Permission,
  target: Target | undefined,
  token: ExplainedToken = { masked: true },
): Decision => {
  const inRecord = byPriority(rules.map((rule, index) => ({ priority: rule.priority, rule, index })));
  const skipped: Decision['skipped'] = [];
  const skip = (index: number, why: SkipReason): void => {
    skipped.push({ rule_index: inRecord[index]?.index ?? index, why });
  };
  const decider = target
    ? findDeciderFor(rights, permission, target, skip)
    : findDecider(rights, permission, () => true);
  const deciding = asking && target ? findDeciderFor(asking, permission, target) : decider;
  const shows = target ? shownUnder(permission, deciding?.transform, token) : 'nothing';
  const isAllowed = decider !== undefined;
  if (role !== undefined) return { isAllowed, by: { kind: 'role', description: role }, shows, skipped: [] };
  if (!isAllowed) return { isAllowed, by: { kind: 'nothing' }, shows, skipped };
  const place = inRecord[rights.rules.findIndex((rule) => rule === decider)];
  if (!place) return { isAllowed, by: { kind: 'permission' }, shows, skipped };
  const { description } = place.rule;
  const named = description === '' ? {} : { description };
  return {
    isAllowed,
    by: { kind: 'rule', rule_index: place.index, priority: place.priority, ...named },
    shows,
    skipped,
  };
};
