// The OpenAPI 3.1 document: made from the routes' zod schemas, put together with openapi-parts.ts, tidied and ordered.
// The same on every machine and at every start, so that the served and the committed one can be compared.
import { fastifySwagger } from '@fastify/swagger';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import type { App } from './app-type.ts';
import {
  failureReference,
  headerReference,
  headers,
  info,
  isFailure,
  parameters,
  responses,
  security,
  requestBodies,
  securitySchemes,
  servers,
  tagGroups,
  tags,
} from './openapi-parts.ts';
import type { Examples, ForwardedOperation } from './schemas.ts';
import { noBody } from './strict.ts';

type Node = Record<string, unknown>;
type Content = Record<string, Node>;
type Operation = {
  operationId: string;
  tags: string[];
  parameters?: Node[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
  'x-permission': string | null;
  'x-also-needs'?: string[];
  'x-idempotent'?: boolean;
  'x-body-optional'?: boolean;
  'x-answer'?: string;
  'x-examples'?: { request?: Examples; response: Examples };
  'x-forwarded'?: ForwardedOperation;
} & Node;

type Generated = {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: Record<string, Node>;
};

/** A longer pattern tells a reader less than the format or the sentence beside it. */
const PATTERN_LENGTH_MAX = 60;

const listOfSchemas = ['allOf', 'anyOf', 'oneOf'];
const oneSchema = ['items', 'additionalProperties', 'propertyNames', 'not'];

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && !Array.isArray(value);

const mapValues = (node: Node, change: (value: unknown, key: string) => unknown): Node =>
  Object.fromEntries(Object.entries(node).map(([key, value]) => [key, change(value, key)]));

const sortKeys = <T>(record: Record<string, T>): Record<string, T> =>
  Object.fromEntries(Object.entries(record).sort(([one], [other]) => (one < other ? -1 : 1)));

/** What zod says only because it can: its own bounds of whole numbers, how their digits are spelled, what every key is, that nothing may be added. */
const isNoise = (keyword: string, value: unknown, type: unknown): boolean =>
  (keyword === 'additionalProperties' && value === false) ||
  // Generators make an attribute with a default a required one of their request types.
  keyword === 'default' ||
  (keyword === 'propertyNames' && JSON.stringify(value) === '{"type":"string"}') ||
  (keyword === 'minimum' && value === Number.MIN_SAFE_INTEGER) ||
  (keyword === 'maximum' && value === Number.MAX_SAFE_INTEGER) ||
  (keyword === 'pattern' && (value as string).length > PATTERN_LENGTH_MAX) ||
  (keyword === 'pattern' && type === 'integer');

/** A schema without noise, its keywords in order; properties and examples stay in the order a person gave them. */
const tidySchema = (schema: unknown): unknown => {
  if (!isNode(schema)) return schema;
  const tidy: Node = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (isNoise(keyword, value, schema['type'])) continue;
    // What may become more is open to readers; the server still takes only what it knows.
    if (keyword === 'enum' && 'x-extensible-enum' in schema) continue;
    if (keyword === '$ref') tidy[keyword] = (value as string).replace(/Input$/, '');
    else if (keyword === 'properties') tidy[keyword] = mapValues(value as Node, tidySchema);
    // zod wraps what it refers to and describes anew; OpenAPI 3.1 lets a description stand beside a reference.
    else if (keyword === 'allOf' && (value as unknown[]).length === 1 && !('properties' in schema))
      Object.assign(tidy, tidySchema((value as unknown[])[0]));
    else if (listOfSchemas.includes(keyword)) tidy[keyword] = (value as unknown[]).map(tidySchema);
    else if (oneSchema.includes(keyword)) tidy[keyword] = tidySchema(value);
    // JSON Schema 2020-12, and with it OpenAPI 3.1, knows the plural alone.
    else if (keyword === 'example') tidy['examples'] ??= [value];
    else tidy[keyword] = value;
  }
  return sortKeys(withOneFormOfNull(tidy));
};

/** Of the two forms for a value or null, the one that generators know. */
const withOneFormOfNull = (schema: Node): Node => {
  const { type } = schema;
  if (!Array.isArray(type) || !type.includes('null')) return schema;
  const { type: _, ...rest } = schema;
  return { ...rest, anyOf: type.map((each) => ({ type: each })) };
};

/** Names of the schemas that a part of the document refers to, directly or through others. */
const namesIn = (part: unknown, schemas: Node, found = new Set<string>()): Set<string> => {
  for (const [, name = ''] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    if (found.has(name)) continue;
    found.add(name);
    namesIn(schemas[name] ?? null, schemas, found);
  }
  return found;
};

/**
 * The plugin writes each named schema twice, as requests and as responses see it: a default makes an attribute optional to
 * the one and certain to the other. One that no response refers to is a request's; one that both see is the same for both.
 */
const tidySchemas = (twice: Node, responses: unknown): Node => {
  const inResponses = namesIn(responses, twice);
  const schemas: Node = {};
  for (const [name, schema] of Object.entries(twice)) {
    if (name.endsWith('Input') && name.slice(0, -'Input'.length) in twice) continue;
    const answered = tidySchema(schema);
    const asked = tidySchema(twice[`${name}Input`]) ?? answered;
    if (inResponses.has(name) && JSON.stringify(asked) !== JSON.stringify(answered))
      throw new Error(`The schema ${name} is not the same in requests and responses: give each an id of its own.`);
    schemas[name] = asked;
  }
  return schemas;
};

const tidyContent = (content: Content, examples: Examples | undefined): Content =>
  Object.fromEntries(
    Object.entries(content).map(([type, media]) => [
      type,
      { schema: tidySchema(media['schema']), ...(examples && { examples }) },
    ]),
  );

const tidyParameter = ({ schema, ...parameter }: Node): Node => {
  const { examples, ...tidy } = tidySchema(schema) as Node;
  const { default: otherwise } = schema as Node;
  if (otherwise !== undefined) tidy['default'] = otherwise;
  const example = Array.isArray(examples) && { example: examples[0] };
  if (!tidy['x-repeated']) return { ...parameter, schema: tidy, ...example };
  // What may be given once or repeated is one thing to a reader: a list in the form ?id=a&id=b.
  const [{ description: _, ...items }, { maxItems }] = tidy['anyOf'] as [Node, Node];
  return { ...parameter, style: 'form', explode: true, schema: { type: 'array', items, maxItems }, ...example };
};

/** The same for every success, also where a header never comes: generators make one class of a schema and its headers. */
const successHeaders = {
  ...headerReference('SVC-TRACE-ID'),
  ...headerReference('Location'),
  ...headerReference('SVC-IDEMPOTENT-REPLAYED'),
};

const tidyResponse = (status: string, response: { content?: Content }, operation: Operation): Node => {
  if (isFailure(status)) return failureReference(status);
  return {
    description: operation['x-answer'],
    headers: operation['x-permission'] === null ? headerReference('SVC-TRACE-ID') : successHeaders,
    ...(response.content &&
      status !== '204' && { content: tidyContent(response.content, operation['x-examples']?.response) }),
  };
};

/** What the server refuses before a route is asked. A GET has no body that could be refused. */
const failuresOfServer = (operation: Operation, method: string): Node => {
  if (operation['x-permission'] === null) return {};
  const ofBodies = method === 'delete' ? [413, 415] : [];
  return Object.fromEntries([408, 417, 431, ...ofBodies].map((status) => [status, {}]));
};

/** A body that may be left out is null to its schema, where there is none. */
const tidyBody = (operation: Operation, content: Content): Node => {
  const required = !operation['x-body-optional'];
  const given = mapValues(content, (media) => {
    const { anyOf } = (media as Node)['schema'] as { anyOf?: Node[] };
    return required || !anyOf ? media : { schema: anyOf[0] };
  });
  return { required, content: tidyContent(given as Content, operation['x-examples']?.request) };
};

const tidyOperation = (operation: Operation, method: string): Node => {
  const permission = operation['x-permission'];
  // A health check is nobody's request: there is nothing to trace.
  const traced = permission === null ? [] : [{ $ref: '#/components/parameters/TraceId' }];
  if (operation['x-idempotent'] && permission !== null) traced.push({ $ref: '#/components/parameters/IdempotencyKey' });
  const forwarded = operation['x-forwarded'];
  const parametersOfOwn = forwarded?.parameters ?? (operation.parameters ?? []).map(tidyParameter);
  const operationParameters = [...parametersOfOwn, ...traced];
  return {
    tags: operation.tags,
    operationId: operation.operationId,
    summary: operation['summary'],
    description: operation['description'],
    ...(permission === null
      ? { security: [] }
      : {
          'x-permissions': [
            ...(permission === 'authenticated' ? [] : [permission]),
            ...(operation['x-also-needs'] ?? []),
          ],
        }),
    ...(operationParameters.length > 0 && { parameters: operationParameters }),
    ...(operation.requestBody && { requestBody: tidyBody(operation, operation.requestBody.content) }),
    responses: mapValues({ ...operation.responses, ...failuresOfServer(operation, method) }, (response, status) =>
      tidyResponse(status, response as { content?: Content }, operation),
    ),
    ...(forwarded && { ...forwarded, parameters: operationParameters }),
  };
};

const tidyDocument = ({ openapi, paths, components }: Generated): Node => ({
  openapi,
  info,
  servers,
  security,
  tags,
  'x-tagGroups': tagGroups,
  paths: sortKeys(
    mapValues(paths, (path) =>
      mapValues(path as Node, (operation, method) => tidyOperation(operation as Operation, method)),
    ),
  ),
  components: {
    headers,
    parameters,
    requestBodies,
    responses: sortKeys(responses),
    schemas: sortKeys(
      tidySchemas(
        components['schemas'] ?? {},
        Object.values(paths).flatMap((path) => Object.values(path).map((operation) => operation.responses)),
      ),
    ),
    securitySchemes,
  },
});

export const addOpenapi = async (app: App): Promise<void> => {
  await app.register(fastifySwagger, {
    openapi: { openapi: '3.1.0' },
    transform: (route) => {
      const { body, ...others } = route.schema ?? {};
      const shown = body === noBody ? others : route.schema;
      const { schema, url } = jsonSchemaTransform({ ...route, schema: shown as typeof route.schema });
      const { answer, alsoNeeds, isBodyOptional, examples, forwarded, ...rest } = schema as Node;
      const { config, method } = route.route;
      const isIdempotent = ['POST', 'PUT', 'PATCH'].includes(String(method)) && config?.idempotency !== 'none';
      // Under x- the plugin carries along what it does not know.
      const more = {
        'x-permission': config?.permission,
        'x-also-needs': alsoNeeds,
        'x-body-optional': isBodyOptional,
        'x-idempotent': isIdempotent,
        'x-answer': answer,
        'x-examples': examples,
        'x-forwarded': forwarded,
      };
      // All that stands behind a path is a parameter to a reader.
      return { schema: { ...rest, ...more } as Node, url: url.replace('*', ':path') };
    },
    transformObject: (document) => tidyDocument(jsonSchemaTransformObject(document) as unknown as Generated) as never,
  });
};

/** The document of an app that is ready. */
export const documentOf = (app: App): Record<string, unknown> => app.swagger() as Record<string, unknown>;
