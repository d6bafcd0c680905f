// Generates the OpenAPI 3.1 document from the zod schemas of the routes. The result is the same on every machine, so that a
// test can compare the served document with the committed one.
import { readFileSync } from 'node:fs';
import { fastifySwagger } from '@fastify/swagger';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import type { App } from '../app-type.ts';
import type { Examples, ForwardedOperation } from '../schemas.ts';
import { noBody } from '../strict.ts';
import {
  type Components,
  components,
  failureReference,
  headerReferences,
  info,
  isFailure,
  security,
  servers,
  tagGroups,
  tags,
} from './components.ts';
import { mapValues, type Node, sortKeys, tidySchema, tidySchemas } from './tidy-schema.ts';

type Content = Record<string, Node>;
type Response = { content?: Content };

/** What the document needs of a route beside its schemas. The plugin passes it on under this key, as it begins with `x-`. */
const ROUTE = 'x-route';

type Route = {
  permission: string | null;
  isIdempotent: boolean;
  alsoNeeds?: string[];
  isBodyOptional?: boolean;
  answer?: string;
  examples?: { request?: Examples; response: Examples };
  partial?: Examples;
  forwarded?: ForwardedOperation;
};

/** An operation as the plugin generates it. */
type Operation = {
  parameters?: Node[];
  requestBody?: { content: Content };
  responses: Record<string, Response>;
  [ROUTE]: Route;
} & Node;

const contentOf = (content: Content, examples: Examples | undefined): Node =>
  mapValues(content, (media) => ({ schema: tidySchema((media as Node)['schema']), ...(examples && { examples }) }));

const parameterOf = ({ schema, ...parameter }: Node): Node => {
  const { examples, ...tidy } = tidySchema(schema) as Node;
  const { default: byDefault } = schema as Node;
  if (byDefault !== undefined) tidy['default'] = byDefault;
  const example = Array.isArray(examples) && { example: examples[0] };
  if (!tidy['x-repeated']) return { ...parameter, schema: tidy, ...example };
  // `repeated` takes one value or a list. Both are a list in the form ?id=a&id=b.
  const [{ description: _, ...items }, { maxItems }] = tidy['anyOf'] as [Node, Node];
  return { ...parameter, style: 'form', explode: true, schema: { type: 'array', items, maxItems }, ...example };
};

const PARTIAL_ANSWER = 'With `SVC-PARTIAL` only: what is done, and what is wrong with the other items.';

/** All successes have the same headers, as some generators make one class of a schema and its headers. */
const responseOf = (status: string, { content }: Response, { permission, answer, examples, partial }: Route): Node => ({
  description: status === '207' ? PARTIAL_ANSWER : answer,
  headers: headerReferences('SVC-TRACE-ID', ...(permission === null ? [] : ['Location', 'SVC-IDEMPOTENT-REPLAYED', 'SVC-WARNING', 'RateLimit-Policy', 'RateLimit'])),
  ...(content && status !== '204' && { content: contentOf(content, status === '207' ? partial : examples?.response) }),
});

/** Errors of the server before it calls a route. The body of a GET is not read. */
const serverFailures = (method: string): Node =>
  Object.fromEntries([408, 417, 431, ...(method === 'delete' ? [413, 415] : [])].map((status) => [status, {}]));

const bodyOf = (content: Content, { isBodyOptional = false, examples }: Route): Node => {
  // The schema of an optional body also takes null, for no body.
  const withoutNull = mapValues(content, (media) => {
    const { schema } = media as { schema: { anyOf?: Node[] } };
    return { schema: (isBodyOptional && schema.anyOf?.[0]) || schema };
  });
  return { required: !isBodyOptional, content: contentOf(withoutNull as Content, examples?.request) };
};

const operationOf = (operation: Operation, method: string): Node => {
  const { [ROUTE]: route, requestBody } = operation;
  const { permission, forwarded } = route;
  const reference = (name: string): Node => ({ $ref: `#/components/parameters/${name}` });
  const parameters = [
    ...(forwarded?.parameters ?? (operation.parameters ?? []).map(parameterOf)),
    // Health checks have no permission and no trace.
    ...(permission === null ? [] : [reference('TraceId')]),
    ...(route.partial ? [reference('Partial')] : []),
    ...(permission !== null && route.isIdempotent ? [reference('IdempotencyKey')] : []),
  ];
  const permissions = [...(permission === 'authenticated' ? [] : [permission]), ...(route.alsoNeeds ?? [])];
  const responses = { ...operation.responses, ...(permission !== null && serverFailures(method)) };
  return {
    tags: operation['tags'],
    operationId: operation['operationId'],
    summary: operation['summary'],
    description: operation['description'],
    ...(permission === null ? { security: [] } : { 'x-permissions': permissions }),
    ...(parameters.length > 0 && { parameters }),
    ...(requestBody && { requestBody: bodyOf(requestBody.content, route) }),
    responses: mapValues(responses, (response, status) =>
      isFailure(status) ? failureReference(status) : responseOf(status, response as Response, route),
    ),
    ...(forwarded && { ...forwarded, parameters }),
  };
};

const documentFrom = (
  generated: { openapi: string; paths: Record<string, Record<string, Operation>>; components: Record<string, Node> },
  more: Components,
): Node => {
  const { openapi, paths, components: named } = generated;
  const operations = Object.values(paths).flatMap((path) => Object.values(path));
  const schemas = tidySchemas(named['schemas'] ?? {}, operations.map(({ responses }) => responses));
  const kinds = new Set([...Object.keys(components), ...Object.keys(more)]);
  const merged = [...kinds].map((kind) => [kind, sortKeys({ ...components[kind], ...more[kind] })]);
  return {
    openapi,
    info,
    servers,
    security,
    tags,
    'x-tagGroups': tagGroups,
    paths: sortKeys(
      mapValues(paths, (path) => mapValues(path as Node, (each, method) => operationOf(each as Operation, method))),
    ),
    components: sortKeys({ ...Object.fromEntries(merged), schemas: sortKeys(schemas) }),
  };
};

/** Call before routes are registered. @param more components that operations refer to, beside those of the platform. */
export const addOpenapi = async (app: App, more: Components): Promise<void> => {
  await app.register(fastifySwagger, {
    openapi: { openapi: '3.1.0' },
    transform: (route) => {
      const { config, method } = route.route;
      const { body, ...others } = route.schema ?? {};
      const shown = (body === noBody ? others : route.schema) as typeof route.schema;
      const { schema, url } = jsonSchemaTransform({ ...route, schema: shown });
      const { alsoNeeds, isBodyOptional, answer, examples, partial, forwarded, ...rest } = schema as Node;
      const isIdempotent = ['POST', 'PUT', 'PATCH'].includes(String(method)) && config?.idempotency !== 'none';
      const permission = config?.permission;
      const more = { permission, isIdempotent, alsoNeeds, isBodyOptional, answer, examples, partial, forwarded };
      // In the document, the rest of a path is a parameter.
      return { schema: { ...rest, [ROUTE]: more } as Node, url: url.replace('*', ':path') };
    },
    transformObject: (document) => documentFrom(jsonSchemaTransformObject(document) as never, more) as never,
  });
};

/** Generates the document, which takes 200 ms. Call after `app.ready()`. */
export const documentOf = (app: App): Node => app.swagger() as Node;

/** The document as it was generated last: it depends on the routes only, and to read it takes 5 ms. */
export const readDocument = (): Node =>
  JSON.parse(readFileSync(new URL('../../../../openapi/openapi.json', import.meta.url), 'utf8')) as Node;
