// Explains a decision of the access rules: which rule decides, which were skipped and why, and how much is shown. Pure.
import type { AccessRule, Visibility } from './access-rule.ts';
import type { Caller } from './caller.ts';
import type { Permission } from './permissions.ts';
import { byPriority, type DecidingRights, findDecider, type SkipReason } from './rule-walk.ts';
import { findDeciderFor, type Target, visibilityOf, visibilityUnder } from './rules.ts';

/** Whom a question about access is about. */
export type Subject = {
  entity_type: 'application' | 'tenant_member';
  id: string;
  /** What decides, with the limits of the caller. */
  rights: DecidingRights & Pick<Caller, 'allowed_hosts' | 'limits'>;
  /** As they decide where a member asks for a value. Undefined for applications, and for a role that sees no value. */
  asking?: DecidingRights | undefined;
  /** In the order of the application's record. */
  rules: readonly AccessRule[];
  /** Of a member. */
  role?: string;
};

export type By = {
  kind: 'rule' | 'permission' | 'role' | 'nothing';
  /** In `rules` of the application, from 0. */
  rule_index?: number;
  priority?: number;
  /** Of the rule, where it has one; the role of a member. */
  description?: string;
};

export type Decision = {
  isAllowed: boolean;
  by: By;
  shows: Visibility;
  skipped: { rule_index: number; why: SkipReason }[];
};

export const isOnTokens = (permission: Permission): boolean => permission.startsWith('token:');

/** How much of a value an operation gives to its caller, or to code and destinations. Others give none. */
const shownUnder = (permission: Permission, transform: Parameters<typeof visibilityOf>[0], hasMask: boolean) => {
  if (transform === undefined) return 'nothing';
  if (permission === 'token:use' || permission === 'token:read' || permission === 'token:search')
    return visibilityUnder(permission, transform, hasMask);
  // An answer to a change has the masked value (docs/decisions/0008-access-rules.md).
  return hasMask && transform !== 'redact' ? 'masked' : 'nothing';
};

/**
 * @param target the token, or a container with no token; undefined for a permission that is on no token.
 * @param hasMask whether the token has a mask. Of a container, that of a token with one is explained.
 */
export const explainDecision = (
  { rights, asking, rules, role }: Subject,
  permission: Permission,
  target: Target | undefined,
  hasMask = true,
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
  const shows = target ? shownUnder(permission, deciding?.transform, hasMask) : 'nothing';
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
