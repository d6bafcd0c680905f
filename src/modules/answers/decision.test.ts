// An explanation agrees with the decision and with a model of the rules that is written in another way.
import { expect, test } from 'vitest';
import { type AccessRule, storedRuleSchema } from '../access/access-rule.ts';
import type { Permission } from '../access/permissions.ts';
import { byPriority } from '../access/rule-walk.ts';
import { type Target, visibilityUnder, wouldDecide } from '../access/rules.ts';
import { rightsOfRole, roles } from '../people/roles.ts';
import { type Decision, explainDecision, type Subject } from '../access/explain-decision.ts';

/** Numbers from 0 to below `below`, the same in each run. */
const numbersFrom = (seed: number) => {
  let state = seed;
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
};

const PERMISSIONS: readonly Permission[] = ['token:read', 'token:use', 'token:update', 'token:create', 'token:search'];
const CONTAINERS = ['/', '/pci/', '/pci/high/', '/pci/high/shop/', '/general/', '/general/high/'];
const IDS = ['order-1', 'order-2', 'user-1'];
const TRANSFORMS = ['redact', 'mask', 'reveal'] as const;

type Next = ReturnType<typeof numbersFrom>;
const one = <T>(next: Next, values: readonly T[]): T => values[next(values.length)] as T;
const some = <T>(next: Next, values: readonly T[]): T[] => values.filter(() => next(2) === 0);

const conditionOf = (next: Next) =>
  next(2) === 0
    ? { attribute: 'id', operator: one(next, ['equals', 'starts_with']), value: one(next, [...IDS, 'order-']) }
    : { attribute: 'container', operator: one(next, ['equals', 'starts_with']), value: one(next, CONTAINERS) };

const ruleOf = (next: Next): AccessRule => {
  const permissions = some(next, PERMISSIONS);
  return storedRuleSchema.parse({
    priority: 1 + next(3),
    description: next(2) === 0 ? '' : `rule ${next(100)}`,
    transform: one(next, TRANSFORMS),
    permissions: permissions.length > 0 ? permissions : ['token:read'],
    ...(next(2) === 0
      ? { container: one(next, CONTAINERS) }
      : { conditions: Array.from({ length: 1 + next(2) }, () => conditionOf(next)) }),
  });
};

const subjectOf = (next: Next): Subject => {
  const rules = Array.from({ length: next(5) }, () => ruleOf(next));
  const permissions = new Set<Permission>(next(2) === 0 ? some(next, PERMISSIONS) : []);
  return { entity_type: 'application', id: 'a', rights: { permissions, rules: byPriority(rules) }, rules };
};

/** Whether a rule is about a token, by the text of docs/decisions/0008. */
const isAbout = ({ container, conditions }: AccessRule, { id, container: of }: Target): boolean => {
  if (conditions === undefined)
    return of
      .split('/')
      .slice(0, -1)
      .join('/')
      .concat('/')
      .startsWith(container as string);
  return !conditions.some(({ attribute, operator, value }) => {
    const actual = attribute === 'id' ? id : of;
    if (actual === undefined) return true;
    return operator === 'equals' ? actual !== value : actual.slice(0, value.length) !== value;
  });
};

/** The indexes of a record's rules in the order in which they are asked, found by repeated search for the least. */
const orderOf = (rules: readonly AccessRule[]): number[] => {
  const left = rules.map((_, index) => index);
  const order: number[] = [];
  while (left.length > 0) {
    const least = Math.min(...left.map((index) => rules[index]?.priority as number));
    const at = left.findIndex((index) => rules[index]?.priority === least);
    order.push(...left.splice(at, 1));
  }
  return order;
};

const model = (
  { rules, rights }: Subject,
  permission: Permission,
  target: Target,
): Pick<Decision, 'by' | 'skipped'> => {
  const skipped: Decision['skipped'] = [];
  for (const rule_index of orderOf(rules)) {
    const rule = rules[rule_index] as AccessRule;
    if (!rule.permissions.includes(permission)) skipped.push({ rule_index, why: 'permission' });
    else if (!isAbout(rule, target)) skipped.push({ rule_index, why: rule.conditions ? 'condition' : 'container' });
    else {
      const { priority, description } = rule;
      return { skipped, by: { kind: 'rule', rule_index, priority, ...(description !== '' && { description }) } };
    }
  }
  return { skipped, by: { kind: rights.permissions.has(permission) ? 'permission' : 'nothing' } };
};

test('of 100,000 random callers and tokens, each explanation is the decision', () => {
  const next = numbersFrom(44);
  const kinds = new Map<string, number>();
  for (let round = 0; round < 100_000; round += 1) {
    const subject = subjectOf(next);
    const permission = one(next, PERMISSIONS);
    const target = { container: one(next, CONTAINERS), ...(next(3) > 0 && { id: one(next, IDS) }) };
    const hasMask = next(2) === 0;
    const found = explainDecision(subject, permission, target, { masked: hasMask });
    const { by, skipped } = model(subject, permission, target);
    const transform = wouldDecide(subject.rights, permission, target);
    const wrong =
      found.isAllowed !== (transform !== undefined) ||
      JSON.stringify([found.by, found.skipped]) !== JSON.stringify([by, skipped]) ||
      (permission === 'token:read' &&
        found.shows !== (transform ? visibilityUnder(permission, transform, hasMask) : 'nothing'));
    if (wrong) expect({ round, subject, permission, target, found }).toEqual({ by, skipped });
    kinds.set(by.kind, (kinds.get(by.kind) ?? 0) + 1);
  }
  for (const kind of ['rule', 'permission', 'nothing']) expect(kinds.get(kind)).toBeGreaterThan(1_000);
});

test.each(roles)('a member is explained by the role %s, with no rule of it', (role) => {
  const rights = rightsOfRole(role);
  const subject: Subject = { entity_type: 'tenant_member', id: 'm', rights, rules: rights.rules, role };
  for (const permission of PERMISSIONS) {
    const { by, skipped, isAllowed } = explainDecision(subject, permission, { container: '/pci/high/' });
    expect([by, skipped]).toEqual([{ kind: 'role', description: role }, []]);
    expect(isAllowed).toBe(wouldDecide(rights, permission, { container: '/pci/high/' }) !== undefined);
  }
});
