// Access rules: decide which tokens a permission reaches, and how much of each is shown.
import type { Work } from './work.ts';
import type { AccessRule, RuleCondition, Transform, Visibility } from './access-rule.ts';
import { noteDecision, noteDecisionOverNew } from './decisions.ts';
import { type Disclosure } from '../../platform/db/audit-record.ts';
import { forbidden } from '../../platform/base/errors.ts';
import { containerCovers } from './containers.ts';
import { bindsDestination, type StoredBound } from './bounds.ts';
import { type Decider, type DecidingRights, findDecider, type SkipReason } from './rule-walk.ts';
import type { TokenCondition } from './token-condition.ts';
import type { Caller } from './caller.ts';
import { type Permission } from './permissions.ts';

/** What rules compare: a stored token, or one about to be created, which may have no id yet. */
export type Target = { id?: string; container: string };

const meets = ({ attribute, operator, value }: RuleCondition, target: Target): boolean => {
  const actual = attribute === 'id' ? target.id : target.container;
  if (actual === undefined) return false;
  const wanted = attribute === 'id' ? value : value.toLowerCase();
  return operator === 'equals' ? actual === wanted : actual.startsWith(wanted);
};

const reaches = (rule: Decider, target: Target): boolean =>
  rule.conditions === undefined
    ? containerCovers(rule.container ?? '/', target.container)
    : rule.conditions.every((each) => meets(each, target));

/** Finds the same as `findDecider`, for one token. */
export const findDeciderFor = (
  rights: DecidingRights,
  permission: Permission,
  target: Target,
  onSkip?: (index: number, why: SkipReason) => void,
): Decider | undefined => findDecider(rights, permission, (rule) => reaches(rule, target), onSkip);

/** The bound of the rule that lets a caller use a token. */
export const boundOfUse = (caller: Caller, target: Target): StoredBound | undefined =>
  findDeciderFor(caller, 'token:use', target)?.bound_to;

/**
 * Decides like `decide`, without recording the decision.
 * @returns how much would be shown, or undefined where nothing allows it.
 */
export const wouldDecide = (rights: DecidingRights, permission: Permission, target: Target): Transform | undefined =>
  findDeciderFor(rights, permission, target)?.transform;

/**
 * Decides by the first rule, in order of priority, that names the permission and reaches the target. A plain permission is the
 * last rule, on `/`. The decision is recorded for the kept answer; code that puts part of the token's value into the answer
 * records how much (`noteDecision`).
 * @returns how much to show, or undefined where nothing allows it.
 */
export const decide = (work: Work, permission: Permission, target: Target): Transform | undefined => {
  const transform = wouldDecide(work.caller, permission, target);
  if (transform !== undefined) noteDecision(work, permission, target, 'nothing');
  return transform;
};

/** Decides like `decide`, for a token that a request creates and shows masked at most. @throws forbidden with the permission. */
export const getTransformOfNew = (
  work: Work,
  permission: Permission,
  target: Target & { hasMask: boolean },
): Transform => {
  const transform = wouldDecide(work.caller, permission, target);
  if (transform === undefined) throw forbidden(permission);
  noteDecisionOverNew(work, permission, target, target.hasMask && transform !== 'redact' ? 'masked' : 'nothing');
  return transform;
};

/** A higher number shows more. */
export const strengths: Record<Transform, number> = { redact: 0, mask: 1, default: 2, reveal: 3 };

/** What a read may show. A value whose destinations are bound is read by nobody: every caller sees the mask at most. */
export const transformUnder = <T extends Transform | undefined>(
  bound: StoredBound | null | undefined,
  transform: T,
): T | 'mask' => (transform !== undefined && transform !== 'redact' && bindsDestination(bound) ? 'mask' : transform);

/** @param transform as `decide` returns it. @param hasMask whether the token has a mask, of its own or of its type. */
export const visibilityOf = (transform: Transform | undefined, hasMask: boolean): Visibility => {
  if (transform === undefined || transform === 'redact') return 'nothing';
  if (transform === 'reveal') return 'value';
  if (hasMask) return 'masked';
  return transform === 'default' ? 'value' : 'nothing';
};

/** How much a permission gives of a token's value. Code and destinations under a plain `token:use` get it without its mask. */
export const visibilityUnder = (permission: Permission, transform: Transform, hasMask: boolean): Visibility =>
  visibilityOf(permission === 'token:use' && transform === 'default' ? 'reveal' : transform, hasMask);

/** Decides like `decide`. @throws forbidden naming the permission. */
export const getTransform = (work: Work, permission: Permission, target: Target): Transform => {
  const transform = decide(work, permission, target);
  if (transform === undefined) throw forbidden(permission);
  return transform;
};

/** Whether a caller holds a permission at all, for any container. */
export const holdsAnywhere = (rights: DecidingRights, permission: Permission): boolean =>
  findDecider(rights, permission, () => true) !== undefined;

/** Answers like `holdsAnywhere`, recorded for the kept answer. Checked before the body is read. */
export const mayAnywhere = (work: Work, permission: Permission): boolean => {
  const may = holdsAnywhere(work.caller, permission);
  if (may) work.record?.decided({ actor_id: work.actor_id, permission });
  return may;
};

/**
 * The tokens that `decide` does not refuse, as a condition for a list.
 * @throws forbidden where there can be none.
 */
export const accessOf = (caller: Caller, permission: Permission): TokenCondition | 'everything' => {
  if (caller.permissions.has(permission)) return 'everything';
  const rules = caller.rules.filter((rule) => rule.permissions.includes(permission));
  if (rules.length === 0) throw forbidden(permission);
  if (rules.some((rule) => rule.container === '/')) return 'everything';
  return any(rules.map(reachOf));
};

/** The tokens whose value a permission shows, as a condition for a list. Without those that nobody reads. */
export const valueShownWhere = (caller: Caller, permission: Permission): TokenCondition => {
  const shown = valueRevealedWhere(caller, permission);
  return shown === 'everything' ? { kind: 'readable' } : all([{ kind: 'readable' }, shown]);
};

/** Condition for tokens whose values are shown. The first rule that reaches a token decides, as in `decide`. */
const valueRevealedWhere = (caller: Caller, permission: Permission): TokenCondition | 'everything' => {
  if (caller.findsAnyValue) return 'everything';
  let shown: TokenCondition | 'everything' | undefined = caller.permissions.has(permission)
    ? { kind: 'unmasked' }
    : undefined;
  for (const rule of caller.rules.toReversed()) {
    if (!rule.permissions.includes(permission)) continue;
    if (rule.container === '/') shown = rule.transform === 'reveal' ? 'everything' : undefined;
    else if (shown === 'everything') shown = rule.transform === 'reveal' ? shown : { kind: 'not', node: reachOf(rule) };
    else if (rule.transform === 'reveal') shown = shown ? any([reachOf(rule), shown]) : reachOf(rule);
    else if (shown) shown = all([{ kind: 'not', node: reachOf(rule) }, shown]);
  }
  return shown ?? { kind: 'nothing' };
};

/** The tokens of which a permission shows the mask, or more. As in `decide`, the first rule that reaches a token decides. */
const maskShownUnder = (caller: Caller, permission: Permission): TokenCondition | 'everything' => {
  let shown: TokenCondition | 'everything' | undefined = caller.permissions.has(permission) ? 'everything' : undefined;
  for (const rule of caller.rules.toReversed()) {
    if (!rule.permissions.includes(permission)) continue;
    const isShown = rule.transform !== 'redact';
    if (rule.container === '/') shown = isShown ? 'everything' : undefined;
    else if (isShown) shown = shown === 'everything' ? shown : shown ? any([reachOf(rule), shown]) : reachOf(rule);
    else if (shown === 'everything') shown = { kind: 'not', node: reachOf(rule) };
    else if (shown) shown = all([{ kind: 'not', node: reachOf(rule) }, shown]);
  }
  return shown ?? { kind: 'nothing' };
};

/** The tokens of which both a search and a read show the mask, or more. */
export const maskShownWhere = (caller: Caller): TokenCondition | 'everything' => {
  const conditions = (['token:search', 'token:read'] as const)
    .map((permission) => maskShownUnder(caller, permission))
    .filter((condition) => condition !== 'everything');
  return conditions.length === 0 ? 'everything' : all(conditions);
};

/**
 * LIKE patterns of the containers in which a permission shows tokens at least masked. `isExact`: it shows all tokens there whose
 * type has a default mask; else some.
 */
export const containersShown = (
  caller: Caller,
  permission: Permission,
): { patterns: string[]; isExact: boolean; hasMaskRule: boolean } => {
  const patterns = caller.permissions.has(permission) ? ['%'] : [];
  let isExact = true;
  let hasMaskRule = false;
  for (const { container, permissions, transform } of caller.rules) {
    if (!permissions.includes(permission)) continue;
    if (transform === 'redact' || container === undefined) isExact = false;
    if (transform === 'mask') hasMaskRule = true;
    if (transform !== 'redact') patterns.push(`${(container ?? '').replace(/[\\%_]/g, '\\$&')}%`);
  }
  return { patterns, isExact, hasMaskRule };
};

const reachOf = (rule: AccessRule): TokenCondition =>
  rule.conditions === undefined
    ? { kind: 'starts_with', column: 'container', prefix: rule.container ?? '/' }
    : all(rule.conditions.map(conditionOf));

const conditionOf = ({ attribute, operator, value }: RuleCondition): TokenCondition => {
  const wanted = attribute === 'id' ? value : value.toLowerCase();
  return operator === 'equals'
    ? { kind: 'in', column: attribute, values: [wanted] }
    : { kind: 'starts_with', column: attribute, prefix: wanted };
};

const all = (nodes: TokenCondition[]): TokenCondition =>
  nodes.length === 1 ? (nodes[0] as TokenCondition) : { kind: 'and', nodes };

const any = (nodes: TokenCondition[]): TokenCondition =>
  nodes.length === 1 ? (nodes[0] as TokenCondition) : { kind: 'or', nodes };

const disclosureByVisibility = { nothing: 'none', masked: 'masked', value: 'revealed' } as const;

/** The `disclosure` of a log row. */
export const disclosureOf = (visibility: Visibility): Disclosure => disclosureByVisibility[visibility];
