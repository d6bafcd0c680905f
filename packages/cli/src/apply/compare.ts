// Whether a file and a vault say the same of an attribute, although one leaves out what the other writes.
import { TIMEOUT_SECONDS } from '../../../../src/platform/base/times.ts';
import { parseDate } from '../../../../src/platform/json/dates.ts';
import type { Value } from './check.ts';

type Attributes = { [name: string]: Value };

const isObject = (value: Value | undefined): value is Attributes =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What the vault takes for an attribute that is null or left out. */
const DEFAULTS: Record<string, Value> = {
  permissions: [],
  rules: [],
  configuration: {},
  request_parameters: [],
  require_auth: true,
  expressions: 'on',
  timeout_seconds: TIMEOUT_SECONDS.usual,
  cvc: { until: 'ttl' },
  type: 'private',
};

const texts = (value: Value): Value => [...new Set((value as string[]).map(String))].toSorted();
const lowerTexts = (value: Value): Value => texts((value as string[]).map((each) => String(each).toLowerCase()));

/** Nulls, empty descriptions and empty lists of conditions are the same as nothing. */
const compact = (value: Value): Value => {
  if (Array.isArray(value)) return value.map(compact);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== null && each !== undefined);
  return Object.fromEntries(
    entries
      .map(([name, each]): [string, Value] => [name, compact(each)])
      .toSorted(([one], [other]) => (one < other ? -1 : 1)),
  );
};

/** Lists are sets. Hosts and places have no case, names of records have; a time and a currency have several spellings. */
const boundForm = (value: Value): Value => {
  const { until, allowance, ...rest } = value as Attributes;
  const formOf = (name: string, each: Value): Value => {
    if (!Array.isArray(each)) return each;
    return name === 'proxies' || name === 'reactors' ? texts(each) : lowerTexts(each);
  };
  const others = Object.entries(rest).map(([name, each]) => [name, formOf(name, each)]);
  const { currency, ...limits } = (allowance ?? {}) as Attributes;
  return {
    ...(Object.fromEntries(others) as Attributes),
    until: typeof until === 'string' ? (parseDate(until)?.toISOString() ?? until) : null,
    allowance: allowance ? { ...limits, currency: String(currency).toLowerCase() } : null,
  };
};

const ruleForm = (rule: Value): Value => {
  const { description, conditions, container, permissions, bound_to, ...rest } = rule as Attributes;
  return compact({
    ...rest,
    bound_to: bound_to ? boundForm(bound_to) : null,
    permissions: texts(permissions ?? []),
    description: description === '' ? null : (description ?? null),
    conditions: Array.isArray(conditions) && conditions.length === 0 ? null : (conditions ?? null),
    container: typeof container === 'string' ? container.toLowerCase() : null,
  });
};

const byPriority = (one: Value, other: Value): number =>
  Number((one as Attributes)['priority']) - Number((other as Attributes)['priority']);

const transformForm = (value: Value): Value => {
  const { type, code, matcher, expression, replacement } = value as Attributes;
  return type === 'mask'
    ? { type, matcher: matcher ?? 'regex', expression: expression ?? null, replacement: replacement ?? '*' }
    : { code: code ?? null };
};

const rateForm = (value: Value): Value => {
  const { requests_per_second: rate, burst } = value as Attributes;
  return { requests_per_second: rate ?? null, burst: burst ?? rate ?? null };
};

const parameterForm = (value: Value): Value => {
  const { optional, description, ...rest } = value as Attributes;
  return compact({
    ...rest,
    optional: optional ?? false,
    description: description === '' ? null : (description ?? null),
  });
};

const list =
  (form: (value: Value) => Value) =>
  (value: Value): Value =>
    (value as Value[]).map(form);

const FORMS: Record<string, (value: Value) => Value> = {
  permissions: texts,
  events: texts,
  container: (value) => String(value).toLowerCase(),
  rules: (value) => (value as Value[]).map(ruleForm).toSorted(byPriority),
  allowed_hosts: lowerTexts,
  allowed_origins: lowerTexts,
  containers: lowerTexts,
  request_transform: transformForm,
  response_transform: transformForm,
  rate_limit: rateForm,
  request_parameters: list(parameterForm),
};

/** The one form of all values that mean the same. */
export const canonical = (attribute: string, value: Value | undefined): Value => {
  const given = value ?? DEFAULTS[attribute] ?? null;
  if (given === null || (attribute === 'description' && given === '')) return null;
  // A contract is a list, and its order is shown; a configuration is an object.
  if (attribute === 'configuration' && Array.isArray(given)) return given.map(parameterForm);
  return compact(FORMS[attribute]?.(given) ?? given);
};

export const isSame = (attribute: string, one: Value | undefined, other: Value | undefined): boolean =>
  JSON.stringify(canonical(attribute, one)) === JSON.stringify(canonical(attribute, other));
