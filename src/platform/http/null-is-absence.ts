// Checks the schemas of request bodies when the server starts: null in an optional attribute means that it is left out.
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';

/** Attributes where null says something else than absence. */
const ownMeaning: ReadonlyMap<string, string> = new Map([
  ['client_certificate', 'null removes the certificate of a proxy; a change without the attribute keeps it'],
]);

type Attribute = readonly [name: string, schema: z.core.$ZodType];

/** The schemas that a schema is made of, below the attributes of an object. */
const partsOf = (schema: z.core.$ZodType): readonly z.core.$ZodType[] => {
  const { def } = schema as unknown as z.core.$ZodTypes['_zod'];
  switch (def.type) {
    case 'array':
      return [def.element];
    case 'record':
      return [def.valueType];
    case 'pipe':
      return [def.in, def.out];
    case 'union':
      return def.options;
    case 'optional':
    case 'nullable':
    case 'default':
    case 'catch':
      return [def.innerType];
    default:
      return [];
  }
};

/** All attributes at any depth of a body, each with its path. */
function* attributesOf(schema: z.core.$ZodType, path = ''): Generator<Attribute> {
  const { def } = schema as unknown as z.core.$ZodTypes['_zod'];
  if (def.type !== 'object') {
    for (const part of partsOf(schema)) yield* attributesOf(part, path);
    return;
  }
  for (const [name, part] of Object.entries(def.shape)) {
    const place = path === '' ? name : `${path}.${name}`;
    yield [place, part];
    yield* attributesOf(part, place);
  }
}

/**
 * `optional` in platform/base/optional.ts makes schemas that pass.
 * @throws for an optional attribute that refuses null or takes it for a value.
 */
export const checkNullIsAbsence = (operation: string, body: z.core.$ZodType): void => {
  // Null in a merge patch removes (RFC 7396).
  if (operation.startsWith('PATCH ')) return;
  for (const [path, schema] of attributesOf(body)) {
    // Any JSON has null for a value, where it is not marked as optional.
    if ((schema as z.ZodType).def.type === 'any') continue;
    const [absent, ofNull] = [undefined, null].map((value) => (schema as z.ZodType).safeParse(value));
    if (!absent?.success || ownMeaning.has(path)) continue;
    if (!ofNull?.success || !isDeepStrictEqual(ofNull.data, absent.data))
      throw new Error(`${operation}: null in the optional attribute ${path} is not its absence. Use \`optional\`.`);
  }
};
