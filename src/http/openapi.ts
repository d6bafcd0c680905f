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
  securitySchemes,
  servers,
  tagGroups,
  tags,
} from './openapi-parts.ts';
import type { Examples } from './schemas.ts';

type Node = Record<string, unknown>;
type Content = Record<string, Node>;
type Operation = {
  operationId: string;
  tags: string[];
  parameters?: Node[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
  'x-permission': string | null;
  'x-answer'?: string;
  'x-examples'?: { request?: Examples; response: Examples };
} & Node;

type Generated = {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: Record<string, Node>;
};

/** A longer pattern tells a reader less than the format or the sentence beside it. */
const PATTERN_LENGTH_MAX = 60;

const listOfSchemas = ['allOf', 'anyOf', 'oneOf'];
const oneSchema = ['items', 'additionalProperties', 'not'];

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && !Array.isArray(value);

const mapValues = (node: Node, change: (value: unknown, key: string) => unknown): Node =>
  Object.fromEntries(Object.entries(node).map(([key, value]) => [key, change(value, key)]));

const sortKeys = <T>(record: Record<string, T>): Record<string, T> =>
  Object.fromEntries(Object.entries(record).sort(([one], [other]) => (one < other ? -1 : 1)));

/** What zod says only because it can: its own bounds of whole numbers, what every key is, that nothing may be added. */
const isNoise = (keyword: string, value: unknown): boolean =>
  (keyword === 'additionalProperties' && value === false) ||
  (keyword === 'propertyNames' && JSON.stringify(value) === '{"type":"string"}') ||
  (keyword === 'minimum' && value === Number.MIN_SAFE_INTEGER) ||
  (keyword === 'maximum' && value === Number.MAX_SAFE_INTEGER) ||
  (keyword === 'pattern' && (value as string).length > PATTERN_LENGTH_MAX);

/** A schema without noise, its keywords in order; properties and examples stay in the order a person gave them. */
const tidySchema = (schema: unknown): unknown => {
  if (!isNode(schema)) return schema;
  const tidy: Node = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (isNoise(keyword, value)) continue;
    if (keyword === '$ref') tidy[keyword] = (value as string).replace(/Input$/, '');
    else if (keyword === 'properties') tidy[keyword] = mapValues(value as Node, tidySchema);
    else if (listOfSchemas.includes(keyword)) tidy[keyword] = (value as unknown[]).map(tidySchema);
    else if (oneSchema.includes(keyword)) tidy[keyword] = tidySchema(value);
    // JSON Schema 2020-12, and with it OpenAPI 3.1, knows the plural alone.
    else if (keyword === 'example') tidy['examples'] ??= [value];
    else tidy[keyword] = value;
  }
  return sortKeys(tidy);
};

/** The plugin writes each named schema twice, as requests and as responses see it. Here they see the same, or have two names. */
const tidySchemas = (twice: Node): Node => {
  const schemas: Node = {};
  for (const [name, schema] of Object.entries(twice)) {
    if (name.endsWith('Input') && name.slice(0, -'Input'.length) in twice) continue;
    schemas[name] = tidySchema(schema);
    const twin = tidySchema(twice[`${name}Input`]);
    if (twin !== undefined && JSON.stringify(twin) !== JSON.stringify(schemas[name]))
      throw new Error(`The schema ${name} is not the same in requests and responses: give each an id of its own.`);
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
  return { ...parameter, schema: tidy, ...(Array.isArray(examples) && { example: examples[0] }) };
};

const tidyResponse = (status: string, response: { content?: Content }, operation: Operation): Node => {
  if (isFailure(status)) return failureReference(status);
  return {
    description: operation['x-answer'],
    headers: headerReference('SVC-TRACE-ID'),
    ...(response.content && { content: tidyContent(response.content, operation['x-examples']?.response) }),
  };
};

const tidyOperation = (operation: Operation): Node => {
  const permission = operation['x-permission'];
  // A health check is nobody's request: there is nothing to trace.
  const traced = permission === null ? [] : [{ $ref: '#/components/parameters/TraceId' }];
  const operationParameters = [...(operation.parameters ?? []).map(tidyParameter), ...traced];
  const examples = operation['x-examples'];
  return {
    tags: operation.tags,
    operationId: operation.operationId,
    summary: operation['summary'],
    description: operation['description'],
    ...(permission === null
      ? { security: [] }
      : { 'x-permissions': permission === 'authenticated' ? [] : [permission] }),
    ...(operationParameters.length > 0 && { parameters: operationParameters }),
    ...(operation.requestBody && {
      requestBody: { required: true, content: tidyContent(operation.requestBody.content, examples?.request) },
    }),
    responses: mapValues(operation.responses, (response, status) =>
      tidyResponse(status, response as { content?: Content }, operation),
    ),
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
    mapValues(paths, (path) => mapValues(path as Node, (operation) => tidyOperation(operation as Operation))),
  ),
  components: {
    headers,
    parameters,
    responses: sortKeys(responses),
    schemas: sortKeys(tidySchemas(components['schemas'] ?? {})),
    securitySchemes,
  },
});

export const addOpenapi = async (app: App): Promise<void> => {
  await app.register(fastifySwagger, {
    openapi: { openapi: '3.1.0' },
    transform: (route) => {
      const { schema, url } = jsonSchemaTransform(route);
      const { answer, examples, ...rest } = schema as Node;
      // Under x- the plugin carries along what it does not know.
      const more = { 'x-permission': route.route.config?.permission, 'x-answer': answer, 'x-examples': examples };
      return { schema: { ...rest, ...more } as Node, url };
    },
    transformObject: (document) => tidyDocument(jsonSchemaTransformObject(document) as unknown as Generated) as never,
  });
};

/** The document of an app that is ready. */
export const documentOf = (app: App): Record<string, unknown> => app.swagger() as Record<string, unknown>;
