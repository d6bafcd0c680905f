// Access rules: which token a permission reaches, and how much of it is shown. Pure; decisions.md section 3.
import { z } from 'zod';
import { forbidden } from '../errors.ts';
import { containerCovers, parseContainer } from '../vault/containers.ts';
import type { TokenCondition } from '../db/token-list.ts';
import { noteDecision, noteDecisionOverNew } from './answer-record.ts';
import type { Caller } from './caller.ts';
import { isPermission, type Permission } from './permissions.ts';

/** How much of a token's data a decision shows. `default` is a plain permission's: the masked value, or the value of a token without a mask. */
export type Transform = 'redact' | 'mask' | 'reveal' | 'default';

export const RULE_PRIORITY_MAX = 10_000;
export const RULE_DESCRIPTION_LENGTH_MAX = 1_000;
/** As long as an id of a token or a container can be. */
export const CONDITION_VALUE_LENGTH_MAX = 400;
export const ruleTransforms = ['redact', 'mask', 'reveal'] as const;
export const conditionAttributes = ['id', 'container'] as const;
export const conditionOperators = ['equals', 'starts_with'] as const;
/** More than the grants of a person are ever told apart by; each is compared for every token. */
export const CONDITIONS_MAX = 25;

const container = z.string().transform((text, ctx) => {
  const parsed = parseContainer(text);
  if (parsed === undefined) ctx.addIssue('must be a container path such as /pci/high/');
  return parsed ?? z.NEVER;
});

const condition = z.object({
  attribute: z.enum(conditionAttributes),
  operator: z.enum(conditionOperators),
  value: z.string().min(1).max(CONDITION_VALUE_LENGTH_MAX),
});

/** Containers hold tokens: a rule speaks of nothing else. */
const isTokenPermission = (text: unknown): text is Permission => isPermission(text) && text.startsWith('token:');

export const accessRuleSchema = z
  .object({
    description: z.string().max(RULE_DESCRIPTION_LENGTH_MAX).default(''),
    priority: z.int().min(1).max(RULE_PRIORITY_MAX),
    container: container.optional(),
    conditions: z
      .array(condition)
      .max(CONDITIONS_MAX)
      // None counts as absent: clients in some languages send every list that they know.
      .transform((conditions) => (conditions.length > 0 ? conditions : undefined))
      .optional(),
    transform: z.enum(ruleTransforms),
    permissions: z
      .array(z.string().refine(isTokenPermission, 'must be a permission on tokens'), 'must be a list of permissions')
      .min(1, 'must name a permission'),
  })
  .refine((rule) => (rule.container === undefined) !== (rule.conditions === undefined), {
    error: 'must have either a container or conditions',
  });

export type AccessRule = z.infer<typeof accessRuleSchema>;

/** What a rule can look at: a token that is, or one about to be, which may not have an id yet. */
export type Target = { id?: string; container: string };

const meets = ({ attribute, operator, value }: z.infer<typeof condition>, target: Target): boolean => {
  const actual = attribute === 'id' ? target.id : target.container;
  if (actual === undefined) return false;
  const wanted = attribute === 'id' ? value : value.toLowerCase();
  return operator === 'equals' ? actual === wanted : actual.startsWith(wanted);
};

const reaches = (rule: AccessRule, target: Target): boolean =>
  rule.conditions === undefined
    ? containerCovers(rule.container ?? '/', target.container)
    : rule.conditions.every((each) => meets(each, target));

/**
 * What `decide` would decide, for a question to which no answer is given.
 * @returns how much would be shown, or undefined where nothing allows it.
 */
export const wouldDecide = (caller: Caller, permission: Permission, target: Target): Transform | undefined => {
  for (const rule of caller.rules)
    if (rule.permissions.includes(permission) && reaches(rule, target)) return rule.transform;
  return caller.permissions.has(permission) ? 'default' : undefined;
};

/**
 * Decides by the first rule, in priority order, that names the permission and reaches the target; a plain permission
 * stands behind them all as a rule on `/`. The answer to the request rests on the decision; who puts something of the token's
 * value into it notes how much (`noteDecision`).
 * @returns how much to show, or undefined where nothing allows it.
 */
export const decide = (caller: Caller, permission: Permission, target: Target): Transform | undefined => {
  const transform = wouldDecide(caller, permission, target);
  if (transform !== undefined) noteDecision(caller, permission, target, 'nothing');
  return transform;
};

/** As `decide`, over a token that the request makes, and shows masked at most. @throws forbidden naming the permission. */
export const getTransformOfNew = (
  caller: Caller,
  permission: Permission,
  target: Target & { hasMask: boolean },
): Transform => {
  const transform = wouldDecide(caller, permission, target);
  if (transform === undefined) throw forbidden(permission);
  noteDecisionOverNew(caller, permission, target, target.hasMask && transform !== 'redact' ? 'masked' : 'nothing');
  return transform;
};

/** The stronger shows more. */
export const strengths: Record<Transform, number> = { redact: 0, mask: 1, default: 2, reveal: 3 };

/** How much of a token's value somebody sees. */
export type Visibility = 'nothing' | 'masked' | 'value';

/** @param transform as `decide` returns it. @param hasMask whether the token has a mask, of its own or of its type. */
export const visibilityOf = (transform: Transform | undefined, hasMask: boolean): Visibility => {
  if (transform === undefined || transform === 'redact') return 'nothing';
  if (transform === 'reveal') return 'value';
  if (hasMask) return 'masked';
  return transform === 'default' ? 'value' : 'nothing';
};

/** How much a permission gives of a token's value. Who uses a value does not see it: no mask hides it from a plain permission. */
export const visibilityUnder = (permission: Permission, transform: Transform, hasMask: boolean): Visibility =>
  visibilityOf(permission === 'token:use' && transform === 'default' ? 'reveal' : transform, hasMask);

/** As `decide`. @throws forbidden naming the permission. */
export const getTransform = (caller: Caller, permission: Permission, target: Target): Transform => {
  const transform = decide(caller, permission, target);
  if (transform === undefined) throw forbidden(permission);
  return transform;
};

/** Whether the caller holds the permission at all, for any container: the question a door asks before the body is read. */
export const mayAnywhere = (caller: Caller, permission: Permission): boolean => {
  const may = caller.permissions.has(permission) || caller.rules.some((rule) => rule.permissions.includes(permission));
  if (may) caller.record?.decided({ actor_id: caller.actor_id, permission });
  return may;
};

/**
 * The tokens that a permission reaches at all, as a condition for a list: what `decide` would not refuse.
 * @throws forbidden where that is none.
 */
export const accessOf = (caller: Caller, permission: Permission): TokenCondition | 'everything' => {
  if (caller.permissions.has(permission)) return 'everything';
  const rules = caller.rules.filter((rule) => rule.permissions.includes(permission));
  if (rules.length === 0) throw forbidden(permission);
  if (rules.some((rule) => rule.container === '/')) return 'everything';
  return any(rules.map(reachOf));
};

/**
 * The tokens whose value a permission shows, as a condition for a list. As `decide`: the first rule that reaches a token says.
 */
export const valueShownWhere = (caller: Caller, permission: Permission): TokenCondition | 'everything' => {
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

/**
 * LIKE patterns of the containers in which a permission shows tokens at least masked. `isExact`: it does so of all tokens of a
 * type with a default mask there; else of some.
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

const conditionOf = ({ attribute, operator, value }: z.infer<typeof condition>): TokenCondition => {
  const wanted = attribute === 'id' ? value : value.toLowerCase();
  return operator === 'equals'
    ? { kind: 'in', column: attribute, values: [wanted] }
    : { kind: 'starts_with', column: attribute, prefix: wanted };
};

const all = (nodes: TokenCondition[]): TokenCondition =>
  nodes.length === 1 ? (nodes[0] as TokenCondition) : { kind: 'and', nodes };

const any = (nodes: TokenCondition[]): TokenCondition =>
  nodes.length === 1 ? (nodes[0] as TokenCondition) : { kind: 'or', nodes };
