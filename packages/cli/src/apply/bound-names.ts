// Names of proxies and reactors in the bounds of access rules: a file has names where the API has ids.
import type { Value } from './check.ts';
import type { Kind } from './shapes.ts';

type Attributes = { [name: string]: Value };

const LISTS = [
  ['proxies', 'proxy'],
  ['reactors', 'reactor'],
] as const satisfies readonly (readonly [list: string, kind: Kind])[];

/** A proxy or a reactor that the bound of a rule names, and where it stands in the attributes of its application. */
export type BoundName = { kind: Kind; name: string; path: (string | number)[]; hasAllowance: boolean };

const boundOf = (rule: Value): Attributes | undefined => {
  const bound = (rule as Attributes | null)?.['bound_to'];
  return typeof bound === 'object' && bound !== null ? (bound as Attributes) : undefined;
};

const rulesOf = (attributes: Attributes): Value[] => {
  const { rules } = attributes;
  return Array.isArray(rules) ? rules : [];
};

export const boundNamesOf = (attributes: Attributes): BoundName[] =>
  rulesOf(attributes).flatMap((rule, at) =>
    LISTS.flatMap(([list, kind]) => {
      const names = boundOf(rule)?.[list];
      return (Array.isArray(names) ? names : []).map((name, index) => ({
        kind,
        name: String(name),
        path: ['rules', at, 'bound_to', list, index],
        hasAllowance: boundOf(rule)?.['allowance'] != null,
      }));
    }),
  );

/** The attributes of an application with other names in its bounds. */
export const withBoundNames = (attributes: Attributes, toName: (kind: Kind, name: string) => string): Attributes => {
  if (boundNamesOf(attributes).length === 0) return attributes;
  const rules = rulesOf(attributes).map((rule): Value => {
    const bound = boundOf(rule);
    if (!bound) return rule;
    const named = LISTS.flatMap(([list, kind]): [string, Value][] => {
      const names = bound[list];
      return Array.isArray(names) ? [[list, names.map((name) => toName(kind, String(name)))]] : [];
    });
    return { ...(rule as Attributes), bound_to: { ...bound, ...Object.fromEntries(named) } };
  });
  return { ...attributes, rules };
};

/** A time that is over: a bound with it refuses every use. */
const OVER = '1970-01-01T00:00:00Z';

/**
 * The attributes of an application whose rules name what is not made yet. Each such rule keeps its place before the rules after it, and
 * refuses every use until it is saved whole.
 */
export const withClosedBounds = (attributes: Attributes): Attributes => ({
  ...attributes,
  rules: rulesOf(attributes).map((rule): Value => {
    const isNaming = LISTS.some(([list]) => boundOf(rule)?.[list] !== undefined);
    return isNaming ? { ...(rule as Attributes), bound_to: { until: OVER } } : rule;
  }),
});
