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
