// Access rules as rows of a form: each attribute has a field, so that narrow rights need no JSON. A rule with several conditions is no
// row: it stays as it is stored. Rules may be typed as JSON too, but not changed in both places.
import type { Bound } from '../access/bounds.ts';
import { type Permission, permissions } from '../access/permissions.ts';
import { boundOf, readBound, type TypedBound, typedBoundOf } from './bound-fields.ts';
import { jsonRefusal, numberOf } from './forms.ts';

/** Applications with more rules are changed as JSON: a form has at most 400 fields. */
export const RULE_ROWS_MAX = 10;
/** At the end: each save gives new ones. */
const EMPTY_ROWS = 2;

/** Which tokens a rule is about. */
export const ruleScopes = [
  ['container', 'In a container, and in those below it'],
  ['container equals', 'In one container alone'],
  ['container starts_with', 'In containers that begin with'],
  ['id equals', 'With the id'],
  ['id starts_with', 'With ids that begin with'],
] as const;

type Scope = (typeof ruleScopes)[number][0];

/** What people may choose, with how it is said. */
export const ruleTransforms = [
  ['mask', 'masked values'],
  ['reveal', 'values'],
  ['redact', 'no value'],
] as const;

type Transform = (typeof ruleTransforms)[number][0];

export const tokenPermissions = permissions.filter((permission) => permission.startsWith('token:'));

export type RuleRow = {
  scope: Scope;
  value: string;
  transform: Transform;
  priority: string;
  description: string;
  permissions: ReadonlySet<Permission>;
  bound: TypedBound;
  /** The place of a stored rule that no row can say, which stays; undefined for all others. */
  kept: number | undefined;
};

/** The rules of a form. */
export type TypedRules = {
  /** Rules as JSON. */
  rules: string;
  rows: readonly RuleRow[];
  /** The rules that the form began with. */
  stored: readonly unknown[];
};

type StoredRule = {
  bound_to?: Bound;
  description?: string;
  priority: number;
  container?: string;
  conditions?: { attribute: string; operator: string; value: string }[];
  transform: Transform;
  permissions: Permission[];
};

export const ruleField = (index: number, part: string): string => `rule.${index}.${part}`;

const emptyRow = (index: number): RuleRow => ({
  scope: 'container',
  value: '',
  transform: 'mask',
  priority: String(index + 1),
  description: '',
  permissions: new Set(),
  bound: typedBoundOf(),
  kept: undefined,
});

const isScope = (text: string): text is Scope => ruleScopes.some(([scope]) => scope === text);

const rowOf = (rule: StoredRule, index: number): RuleRow => {
  const { description = '', priority, container, conditions = [], transform } = rule;
  const bound = typedBoundOf(rule.bound_to);
  const row = { transform, priority: String(priority), description, permissions: new Set(rule.permissions), bound };
  const [condition, ...others] = conditions;
  const scope = container === undefined ? `${condition?.attribute} ${condition?.operator}` : 'container';
  if (!isScope(scope) || others.length > 0) return { ...emptyRow(index), ...row, kept: index };
  return { ...row, scope, value: container ?? condition?.value ?? '', kept: undefined };
};

const rowsOf = (rules: readonly unknown[]): RuleRow[] => rules.map((rule, index) => rowOf(rule as StoredRule, index));

const textOfRules = (rules: readonly unknown[]): string => (rules.length === 0 ? '' : JSON.stringify(rules, null, 2));

export const typedRulesOf = (stored: readonly unknown[]): TypedRules => ({
  rules: textOfRules(stored),
  rows: rowsOf(stored),
  stored,
});

const readRow = (field: (name: string) => string, index: number, stored: readonly unknown[]): RuleRow | undefined => {
  const of = (part: string): string => field(ruleField(index, part)).trim();
  const kept = /^\d{1,3}$/.test(of('kept')) ? Number(of('kept')) : undefined;
  if (kept !== undefined) return kept < stored.length ? rowsOf(stored)[kept] : undefined;
  const [scope, value, description] = [of('scope'), of('value'), of('description')];
  const held = tokenPermissions.filter((permission) => of(permission) !== '');
  const bound = readBound(field, ruleField(index, ''));
  if (value === '' && description === '' && held.length === 0 && boundOf(bound) === undefined) return undefined;
  return {
    scope: isScope(scope) ? scope : 'container',
    value,
    transform: ruleTransforms.find(([each]) => each === of('transform'))?.[0] ?? 'mask',
    priority: of('priority'),
    description,
    permissions: new Set(held),
    bound,
    kept: undefined,
  };
};

/** @param text the typed JSON. Rows that are empty or ticked for removal are left out. */
export const readRules = (field: (name: string) => string, text: string, stored: readonly unknown[]): TypedRules => ({
  rules: text,
  rows: Array.from({ length: RULE_ROWS_MAX }, (_, index) =>
    field(ruleField(index, 'remove')) === '' ? readRow(field, index, stored) : undefined,
  ).filter((row) => row !== undefined),
  stored,
});

export const withEmptyRules = (rows: readonly RuleRow[]): RuleRow[] => [
  ...rows,
  ...Array.from({ length: Math.max(0, Math.min(EMPTY_ROWS, RULE_ROWS_MAX - rows.length)) }, (_, at) =>
    emptyRow(rows.length + at),
  ),
];

const ruleOf = (row: RuleRow, stored: readonly unknown[]): unknown => {
  if (row.kept !== undefined) return stored[row.kept];
  const { scope, value, transform, priority, description } = row;
  const [attribute, operator] = scope.split(' ');
  const bound_to = boundOf(row.bound);
  return {
    ...(description !== '' && { description }),
    priority: numberOf(priority),
    ...(operator === undefined ? { container: value } : { conditions: [{ attribute, operator, value }] }),
    transform,
    permissions: tokenPermissions.filter((permission) => row.permissions.has(permission)),
    ...(bound_to && { bound_to }),
  };
};

const rulesOfRows = (rows: readonly RuleRow[], stored: readonly unknown[]): unknown[] =>
  rows.map((row) => ruleOf(row, stored));

export const hasRows = ({ stored }: TypedRules): boolean => stored.length <= RULE_ROWS_MAX;

const isTextChanged = ({ rules, stored }: TypedRules): boolean => rules.trim() !== textOfRules(stored);

const areRowsChanged = (typed: TypedRules): boolean => {
  const { rows, stored } = typed;
  return (
    hasRows(typed) && JSON.stringify(rulesOfRows(rows, stored)) !== JSON.stringify(rulesOfRows(rowsOf(stored), stored))
  );
};

/** The error of rules that are changed twice, or are no JSON, with its line. */
export const rulesRefusal = (typed: TypedRules): { sentence: string; line: number | undefined } | undefined => {
  if (!isTextChanged(typed)) return undefined;
  if (areRowsChanged(typed)) return { sentence: 'must be changed in one place: above, or as JSON', line: undefined };
  return typed.rules.trim() === '' ? undefined : jsonRefusal(typed.rules);
};

/** Whether errors belong to the JSON. */
export const isByText = (typed: TypedRules): boolean => isTextChanged(typed) || !hasRows(typed);

/** For the API. @throws SyntaxError for rules that `rulesRefusal` refuses. */
export const rulesOfForm = (typed: TypedRules): unknown => {
  const { rules, rows, stored } = typed;
  if (!isTextChanged(typed)) return areRowsChanged(typed) ? rulesOfRows(rows, stored) : stored;
  return rules.trim() === '' ? [] : (JSON.parse(rules) as unknown);
};

export const areRulesChosen = (typed: TypedRules): boolean => typed.rules.trim() !== '' || typed.rows.length > 0;
