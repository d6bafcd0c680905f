// The committed OpenAPI document, and its schemas as checks.
import { readFileSync } from 'node:fs';
import { z } from 'zod';

export type Node = Record<string, any>;

export const committed = readFileSync(new URL('../../openapi/openapi.json', import.meta.url), 'utf8');
export const document = JSON.parse(committed) as Node;

/** What a reference leads to; everything else is what it is. */
export const resolved = (node: Node): Node =>
  node['$ref']
    ? (node['$ref'] as string)
        .split('/')
        .slice(1)
        .reduce((at, step) => at[step], document)
    : node;

/**
 * zod reads a JSON Schema without `not`: without it, what `oneOf` lists may overlap, so any of it will do here. That just
 * one matches is held by the linter, which checks examples against the schemas as they are.
 */
const readable = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(readable);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([key]) => !['not', 'discriminator', 'examples'].includes(key));
  return Object.fromEntries(
    entries.map(([key, each]): [string, unknown] => {
      if (key === '$ref') return [key, (each as string).replace('#/components/schemas/', '#/$defs/')];
      return [key === 'oneOf' ? 'anyOf' : key, readable(each)];
    }),
  );
};

const $defs = readable(document['components'].schemas) as Node;

/** What is wrong with an example; undefined where it fits. */
export const fits = (schema: Node, example: unknown): string | undefined => {
  const parsed = z.fromJSONSchema({ ...(readable(schema) as Node), $defs }).safeParse(example);
  return parsed.success ? undefined : z.prettifyError(parsed.error);
};

/** A schema without its reference, and without null. */
export const plain = (schema: Node): Node => {
  const { anyOf, ...rest } = { ...resolved(schema), ...schema };
  return anyOf ? { ...rest, ...plain(anyOf[0]) } : rest;
};

export const exampleOf = (given: Node): any => {
  const schema = plain(given);
  if (schema['examples']) return structuredClone(schema['examples'][0]);
  if (schema['items']) return [exampleOf(schema['items'])];
  const parts = Object.entries((schema['properties'] ?? {}) as Node);
  const required = parts.filter(([name]) => schema['required']?.includes(name));
  return Object.fromEntries(required.map(([name, part]) => [name, exampleOf(part)]));
};

/** The steps to a value in a body. */
export type Path = (string | number)[];

/** The body with a value at a place; what is missing on the way is made of the examples. */
export const withAt = (given: Node, body: unknown, [step, ...rest]: Path, value: unknown): unknown => {
  if (step === undefined) return value;
  const schema = plain(given);
  const part = schema['items'] ?? schema['properties'][step];
  if (typeof step === 'number') return [withAt(part, (body as unknown[])[0], rest, value)];
  const holder = body as Node;
  return { ...holder, [step]: withAt(part, holder[step] ?? exampleOf(part), rest, value) };
};

export const spell = (path: Path): string =>
  path.map((step, at) => (typeof step === 'number' ? `[${step}]` : at === 0 ? step : `.${step}`)).join('');
