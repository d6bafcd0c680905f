// Checks a configuration and the args of an invocation against the contracts of a formula, and casts args.
import { FieldErrorCollector, type FieldErrors, fieldErrors } from '../../platform/base/errors.ts';
import { formatPath, type Json } from '../../platform/json/json.ts';
import { isExactNumber } from '../../platform/json/json-numbers.ts';
import type { ConfigurationElement, DeclaredType, RequestParameter } from './formula-fields.ts';

type JsonObject = { [key: string]: Json };

const mustBe: Record<DeclaredType, string> = {
  string: 'must be a string',
  number: 'must be a number',
  boolean: 'must be true or false',
};

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Null stands for no value, as everywhere on the wire. */
const isAbsent = (value: unknown): value is null | undefined => value === undefined || value === null;

const ownValue = (from: JsonObject, name: string): Json | undefined =>
  Object.hasOwn(from, name) ? from[name] : undefined;

/** A decimal number that a double holds exactly: no blanks, no hexadecimals, no infinity. */
const parseNumber = (text: string): number | undefined => {
  if (!/^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text)) return undefined;
  // Leading zeros are allowed, which JSON has not: a month is often `01`.
  return isExactNumber(text.replace(/^(-?)0+(?=\d)/, '$1')) ? Number(text) : undefined;
};

const parseBoolean = (text: string): boolean | undefined => {
  const lower = text.toLowerCase();
  return lower === 'true' || lower === 'false' ? lower === 'true' : undefined;
};

/** The value as its declared type; undefined where it cannot be cast. */
const castValue = (value: Json, type: DeclaredType): Json | undefined => {
  if (typeof value === type) return value;
  if (type === 'string') return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;
  if (typeof value !== 'string') return undefined;
  return type === 'number' ? parseNumber(value) : parseBoolean(value);
};

/** A copy of args on write: only the objects on the path to a cast value are copied. */
type Copy = { root: JsonObject; copied: Set<JsonObject> };

const put = ({ root, copied }: Copy, steps: readonly string[], value: Json): void => {
  let holder = root;
  // Each step is an own property: the value was found by it.
  for (const step of steps.slice(0, -1)) {
    let child = holder[step] as JsonObject;
    if (!copied.has(child)) {
      child = { ...child };
      copied.add(child);
      holder[step] = child;
    }
    holder = child;
  }
  holder[steps.at(-1) as string] = value;
};

const castOne = (copy: Copy, { name, type, optional }: RequestParameter, problems: FieldErrorCollector): void => {
  const steps = name.split('.');
  const place = ['args', ...steps];
  let value: Json | undefined = copy.root;
  for (const [depth, step] of steps.entries()) {
    if (isAbsent(value)) break;
    if (!isObject(value)) {
      // Several parameters may be declared below it: one error for all.
      const inTheWay = place.slice(0, depth + 1);
      if (!problems.errors.some(({ path }) => path === formatPath(inTheWay)))
        problems.add(inTheWay, 'must be an object', 'wrong_type');
      return;
    }
    value = ownValue(value, step);
  }
  if (isAbsent(value)) {
    if (optional !== true) problems.add(place, 'is required', 'required');
    return;
  }
  const cast = castValue(value, type);
  if (cast === undefined) problems.add(place, mustBe[type], 'wrong_type');
  else if (cast !== value) put(copy, steps, cast);
};

/**
 * Checks and casts declared args; others are passed on as they are.
 * @param args undefined for none: the code gets an empty object. Not changed.
 * @returns the args for the code; or problems by their path, such as `args.card.number`.
 */
export const castArgs = (
  args: Json | undefined,
  parameters: readonly RequestParameter[],
): { args: Json; errors?: undefined } | { args?: undefined; errors: FieldErrors } => {
  if (parameters.length === 0) return { args: args === undefined ? {} : args };
  if (!isAbsent(args) && !isObject(args)) return { errors: fieldErrors([['args', 'must be an object', 'wrong_type']]) };
  const problems = new FieldErrorCollector();
  const copy: Copy = { root: { ...args }, copied: new Set() };
  for (const parameter of parameters) castOne(copy, parameter, problems);
  return problems.count > 0 ? { errors: problems.errors } : { args: copy.root };
};

/**
 * Checks that a configuration has the names of its contract, each with a value of its type, and no others. Nothing is cast: the
 * client that writes a configuration reads the error.
 * @returns problems by their path, such as `configuration.API_KEY`; undefined for none.
 */
export const checkConfiguration = (
  configuration: unknown,
  elements: readonly Pick<ConfigurationElement, 'name' | 'type'>[],
): FieldErrors | undefined => {
  if (!isAbsent(configuration) && !isObject(configuration))
    return fieldErrors([['configuration', 'must be an object', 'wrong_type']]);
  const given = configuration ?? {};
  const problems = new FieldErrorCollector();
  for (const { name, type } of elements) {
    const value = ownValue(given, name);
    if (isAbsent(value)) problems.add(['configuration', name], 'is required', 'required');
    else if (typeof value !== type) problems.add(['configuration', name], mustBe[type], 'wrong_type');
  }
  const declared = new Set(elements.map(({ name }) => name));
  for (const name of Object.keys(given))
    if (!declared.has(name)) problems.add(['configuration', name], 'is not declared by the formula', 'unknown_name');
  return problems.count > 0 ? problems.errors : undefined;
};
