// Makes the JSON schemas that zod generates readable, and readable for generators of clients (docs/decisions/0035-openapi.md).

export type Node = Record<string, unknown>;

/** A longer pattern says less to a reader than the format or the description beside it. */
const PATTERN_LENGTH_MAX = 60;

const schemaLists = ['allOf', 'anyOf', 'oneOf'];
const singleSchemas = ['items', 'additionalProperties', 'propertyNames', 'not'];

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && !Array.isArray(value);

export const mapValues = (node: Node, change: (value: unknown, key: string) => unknown): Node =>
  Object.fromEntries(Object.entries(node).map(([key, value]) => [key, change(value, key)]));

export const sortKeys = (record: Node): Node =>
  Object.fromEntries(Object.entries(record).sort(([one], [other]) => (one < other ? -1 : 1)));

/** Keywords that zod always writes: the bounds of whole numbers, the pattern of their digits, the type of keys. */
const isNoise = (keyword: string, value: unknown, { type, 'x-strict': isStrict }: Node): boolean =>
  // zod writes it for every object of a response: a schema says with `x-strict` that it means it.
  (keyword === 'additionalProperties' && value === false && isStrict !== true) ||
  keyword === 'x-strict' ||
  // Generators make an attribute with a default a required one of their request types.
  keyword === 'default' ||
  (keyword === 'propertyNames' && JSON.stringify(value) === '{"type":"string"}') ||
  (keyword === 'minimum' && value === Number.MIN_SAFE_INTEGER) ||
  (keyword === 'maximum' && value === Number.MAX_SAFE_INTEGER) ||
  (keyword === 'pattern' && ((value as string).length > PATTERN_LENGTH_MAX || type === 'integer'));

/** Null as a member of `anyOf`, the form that generators know, and not of a list of types. */
const withNullInAnyOf = (schema: Node): Node => {
  const { type, ...rest } = schema;
  return Array.isArray(type) && type.includes('null')
    ? { ...rest, anyOf: type.map((each) => ({ type: each })) }
    : schema;
};

/** A schema without noise, with sorted keywords. Properties and examples keep their order. */
export const tidySchema = (schema: unknown): unknown => {
  if (!isNode(schema)) return schema;
  const tidy: Node = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (isNoise(keyword, value, schema)) continue;
    // Clients must accept values that are added later. The server still refuses unknown ones.
    if (keyword === 'enum' && 'x-extensible-enum' in schema) continue;
    if (keyword === '$ref') tidy[keyword] = (value as string).replace(/Input$/, '');
    else if (keyword === 'properties') tidy[keyword] = mapValues(value as Node, tidySchema);
    // zod wraps a reference that has a description of its own. In OpenAPI 3.1 the two may stand side by side.
    else if (keyword === 'allOf' && (value as unknown[]).length === 1 && !('properties' in schema))
      Object.assign(tidy, tidySchema((value as unknown[])[0]));
    else if (schemaLists.includes(keyword)) tidy[keyword] = (value as unknown[]).map(tidySchema);
    else if (singleSchemas.includes(keyword)) tidy[keyword] = tidySchema(value);
    // JSON Schema 2020-12, and with it OpenAPI 3.1, has only the plural.
    else if (keyword === 'example') tidy['examples'] ??= [value];
    else tidy[keyword] = value;
  }
  return sortKeys(withNullInAnyOf(tidy));
};

/** The names of all schemas that a part of the document refers to, directly or through others. */
const namesIn = (part: unknown, schemas: Node, found = new Set<string>()): Set<string> => {
  for (const [, name = ''] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    if (found.has(name)) continue;
    found.add(name);
    namesIn(schemas[name] ?? null, schemas, found);
  }
  return found;
};

/**
 * The named schemas, once each. The plugin writes each one twice, for requests as `NameInput` and for responses as `Name`:
 * an attribute with a default is optional in one and required in the other.
 * @throws for a schema of both requests and responses that is not the same for both.
 */
export const tidySchemas = (generated: Node, responses: unknown): Node => {
  const inResponses = namesIn(responses, generated);
  const schemas: Node = {};
  for (const [name, schema] of Object.entries(generated)) {
    if (name.endsWith('Input') && name.slice(0, -'Input'.length) in generated) continue;
    const ofResponse = tidySchema(schema);
    const ofRequest = tidySchema(generated[`${name}Input`]) ?? ofResponse;
    if (inResponses.has(name) && JSON.stringify(ofRequest) !== JSON.stringify(ofResponse))
      throw new Error(`The schema ${name} is not the same in requests and responses: give each an id of its own.`);
    schemas[name] = ofRequest;
  }
  return schemas;
};
