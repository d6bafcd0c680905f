// Checks the nodes of a YAML file against a shape, and makes values of them. Every fault has its line and its path.
import { isMap, isScalar, isSeq, type Node, type Pair, type YAMLMap } from 'yaml';
import { nearestName, unknownName } from '../../../../src/platform/base/unknown-names.ts';
import type { Fault, YamlFile } from './read-yaml.ts';
import { definitions, REFUSED, type Shape } from './shapes.ts';

export type Value = null | boolean | number | string | Value[] | { [name: string]: Value };

export type Checked = { value: Value; faults: Fault[] };

/** An API key as it is printed: its kind, its public part, and the beginning of its secret. */
const API_KEY = /svc_[a-z]+_[A-Za-z0-9]{16}_/;

const isNull = (shape: Shape): boolean => shape.type === 'null';

const resolve = (shape: Shape): Shape =>
  shape.$ref === undefined ? shape : (definitions[shape.$ref.split('/').at(-1) as string] as Shape);

const kindOf = (value: unknown): string => {
  if (value === null) return 'null';
  return Number.isInteger(value) ? 'integer' : typeof value;
};

const fits = (type: string | undefined, kind: string): boolean =>
  type === undefined || type === kind || (type === 'number' && kind === 'integer');

const NOUNS: Record<string, string> = {
  string: 'a text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object of names and values',
  array: 'a list',
  null: 'nothing',
};

/** The words that a value must be one of; undefined for any. */
const wordsOf = (shape: Shape): unknown[] | undefined =>
  shape.enum ?? shape['x-extensible-enum'] ?? (shape.const === undefined ? undefined : [shape.const]);

const WORDS_SHOWN = 9;

const wordFault = (value: unknown, words: unknown[]): string => {
  const nearest = typeof value === 'string' ? nearestName(value, words.map(String)) : undefined;
  if (nearest !== undefined) return `must be one of the known words; did you mean ${nearest}?`;
  const shown = words.slice(0, WORDS_SHOWN).join(', ');
  if (words.length > WORDS_SHOWN) return `must be one of the ${words.length} known words, such as ${shown}`;
  return words.length === 1 ? `must be ${shown}` : `must be one of ${shown}`;
};

const textFault = (value: string, shape: Shape): string | undefined => {
  const { minLength = 0, maxLength = Infinity, pattern, examples } = shape;
  if (value.length < minLength) return 'must not be empty';
  if (value.length > maxLength) return `must have at most ${maxLength} characters`;
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(value))
    return examples ? `must have the form of ${String(examples[0])}` : 'has a wrong form';
  return API_KEY.test(value) ? 'has an API key, which must not be in a file' : undefined;
};

const numberFault = (value: number, { minimum = -Infinity, maximum = Infinity }: Shape): string | undefined => {
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value)))
    return 'must be a number that a double holds';
  return value < minimum || value > maximum ? `must be from ${minimum} to ${maximum}` : undefined;
};

const scalarFault = (value: unknown, shape: Shape): string | undefined => {
  const words = wordsOf(shape);
  if (words && !words.includes(value)) return wordFault(value, words);
  if (typeof value === 'string') return textFault(value, shape);
  return typeof value === 'number' ? numberFault(value, shape) : undefined;
};

/** The text of a typed name; undefined for one that is no text. */
const nameOf = ({ key }: Pair): string | undefined =>
  isScalar(key) && typeof key.value === 'string' ? key.value : undefined;

const pathOf = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

const faultOfName = (name: string, known: object): string =>
  (Object.hasOwn(REFUSED, name) ? REFUSED[name] : undefined) ??
  unknownName(name, Object.keys(known)).replaceAll('`', '');

/** @returns the value, which is whole only where there are no faults. */
export const checkNode = ({ root, placeOf }: YamlFile, shape: Shape): Checked => {
  const faults: Fault[] = [];
  const add = (node: unknown, path: string, text: string): void =>
    void faults.push({
      ...placeOf(node as Node),
      text: `${path === '' ? 'The file' : path} ${text}${text.endsWith('?') ? '' : '.'}`,
    });

  const readMap = (map: YAMLMap, shape: Shape, path: string): Value => {
    const { properties = {}, required = [], additionalProperties, propertyNames, maxProperties = Infinity } = shape;
    const made: [string, Value][] = [];
    for (const pair of map.items) {
      const name = nameOf(pair);
      if (name === undefined) {
        add(pair.key, path, 'has a name that is no text');
        continue;
      }
      const inner = Object.hasOwn(properties, name) ? properties[name] : additionalProperties;
      const wrongName = propertyNames && textFault(name, propertyNames);
      if (inner === undefined) add(pair.key, pathOf(path, name), faultOfName(name, properties));
      else if (wrongName !== undefined) add(pair.key, pathOf(path, name), wrongName);
      else made.push([name, read(pair.value as Node | null, inner, pathOf(path, name), pair.key)]);
    }
    if (map.items.length > maxProperties) add(map, path, `must have at most ${maxProperties} names`);
    for (const name of required) if (!map.items.some((pair) => nameOf(pair) === name)) add(map, path, `needs ${name}`);
    return Object.fromEntries(made);
  };

  const readOne = (node: Node | null, shape: Shape, path: string, owner: unknown): Value => {
    const place = node ?? owner;
    const wrong = (found: string): null => {
      const noun = NOUNS[shape.type ?? ''] ?? 'another value';
      const isUnquoted = shape.type === 'string' && ['integer', 'number', 'boolean', 'null'].includes(found);
      add(place, path, `must be ${noun}${isUnquoted ? ': write it in quotes' : ''}`);
      return null;
    };
    if (isMap(node)) return shape.type === 'object' ? readMap(node, shape, path) : wrong('object');
    if (isSeq(node)) {
      if (shape.type !== 'array') return wrong('array');
      const { items = {}, minItems = 0, maxItems = Infinity } = shape;
      if (node.items.length < minItems || node.items.length > maxItems)
        add(
          node,
          path,
          `must have from ${minItems} to ${maxItems} elements`
            .replace('from 0 to', 'at most')
            .replace(' to Infinity', ''),
        );
      return node.items.slice(0, maxItems).map((item, at) => read(item as Node | null, items, `${path}[${at}]`, node));
    }
    const value: unknown = isScalar(node) ? node.value : null;
    const kind = kindOf(value);
    // NaN and infinities are numbers that fit no shape.
    if (!fits(shape.type, kind)) return wrong(kind);
    const fault = scalarFault(value, shape);
    if (fault !== undefined) add(place, path, fault);
    return value as Value;
  };

  const read = (node: Node | null, given: Shape, path: string, owner: unknown): Value => {
    const shape = resolve(given);
    const { anyOf } = shape;
    if (!anyOf) return readOne(node, shape, path, owner);
    const isEmpty = node === null || (isScalar(node) && node.value === null);
    if (isEmpty && anyOf.some(isNull)) return null;
    const alternatives = anyOf.filter((each) => !isNull(each)).map(resolve);
    const kind = isMap(node) ? 'object' : isSeq(node) ? 'array' : kindOf(isScalar(node) ? node.value : null);
    const fitting = alternatives.find(({ type }) => fits(type, kind)) ?? alternatives[0];
    return readOne(node, fitting as Shape, path, owner);
  };

  const value = read(root as Node, shape, '', undefined);
  return { value, faults };
};
