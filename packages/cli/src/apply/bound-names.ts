// Names of proxies and reactors in bounds of access rules and in a setting: a file has names where the API has ids.
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

const DELEGATED = 'delegated_payments';

/** The setting of a tenant that is JSON and names proxies; undefined where it is not there, or is not as it must be. */
const delegatedOf = ({ settings }: Attributes): Attributes | undefined => {
  const text = (settings as Attributes | undefined)?.[DELEGATED];
  if (typeof text !== 'string') return undefined;
  try {
    const value = JSON.parse(text) as Attributes | null;
    return Array.isArray(value?.['proxies']) ? value : undefined;
  } catch {
    // The vault says what is wrong with it.
    return undefined;
  }
};

export const delegatedNamesOf = (attributes: Attributes): BoundName[] =>
  ((delegatedOf(attributes)?.['proxies'] ?? []) as Value[]).map((name) => ({
    kind: 'proxy',
    name: String(name),
    path: ['settings', DELEGATED],
    hasAllowance: false,
  }));

/** The attributes of a tenant with other names in its setting, whose JSON has one spelling. */
export const withDelegatedNames = (
  attributes: Attributes,
  toName: (kind: Kind, name: string) => string,
): Attributes => {
  const value = delegatedOf(attributes);
  if (!value) return attributes;
  const proxies = (value['proxies'] as Value[]).map((name) => toName('proxy', String(name))).toSorted();
  const { container, signing_keys } = value;
  const text = JSON.stringify({ proxies, container, signing_keys });
  return { ...attributes, settings: { ...(attributes['settings'] as Attributes), [DELEGATED]: text } };
};

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
