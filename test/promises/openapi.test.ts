// The document tells the truth: it is the committed one, it has every route and no other, and its examples are what the
// rules make of them. Needs no database: registering routes asks nothing of one.
import { FieldErrorCollector } from '../../src/platform/base/errors.ts';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { RouteOptions } from 'fastify';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseApiKey } from '../../src/modules/access/api-keys.ts';
import { buildApp } from '../../src/app.ts';
import { loadConfig } from '../../src/platform/config/config.ts';
import type { Context } from '../../src/modules.ts';
import type { App } from '../../src/platform/http/app-type.ts';
import { documentOf } from '../../src/platform/http/openapi/openapi.ts';
import { createAccounts } from '../../src/platform/base/accounts.ts';
import { createHeldOperations } from '../../src/platform/base/held-operations.ts';
import { createLog } from '../../src/platform/base/log.ts';
import type { Json } from '../../src/platform/json/json.ts';
import { committed, document, fits, type Node, resolved } from '../support/document.ts';
import { collectRoutes } from '../support/routes.ts';
import { runAtOnce } from '../../src/platform/json/slices.ts';
import { createMeter } from '../../src/modules/tokens/expressions/meter.ts';
import { parseTokenRequest } from '../../src/modules/tokens/token-request.ts';
import { passesLuhn } from '../../src/modules/tokens/token-types.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

const methods = ['get', 'put', 'post', 'delete', 'patch'];

/** A path of a route as the document has it. */
const pathOf = (url: string): string => url.replace(/:(\w+)/g, '{$1}').replace('*', '{path}');

const operations: { name: string; operation: Node }[] = Object.entries(document['paths'] as Node).flatMap(
  ([path, item]) =>
    methods
      .filter((method) => method in item)
      .map((method) => ({ name: `${method.toUpperCase()} ${path}`, operation: item[method] })),
);

/** Every route that any feature registered, as Fastify was told of it. */
const routes: RouteOptions[] = [];
let app: App;

beforeAll(async () => {
  const parts: Partial<Context> = {
    config: loadConfig({}),
    log: createLog('silent'),
    newUuid: () => 'trace',
    heldOperations: createHeldOperations(() => new Date()),
    accounts: createAccounts(),
  };
  const collected = await collectRoutes(() => buildApp(parts as Context));
  app = collected.built;
  routes.push(...collected.routes);
});

afterAll(() => app.close());

describe('the document', () => {
  test('is served as it is committed, but for the server that it is of', async () => {
    const answer = await app.inject('/openapi.json');
    expect(answer.statusCode).toBe(200);
    expect(answer.json()).toEqual({ ...document, servers: [expect.objectContaining({ url: '/' })] });
    expect(document['servers']).toEqual([expect.objectContaining({ url: 'http://127.0.0.1:8080' })]);
    expect(`${JSON.stringify(documentOf(app), null, 2)}\n`).toBe(committed);
  });

  test('has every visible route, and no other', () => {
    const visible = routes
      .filter(({ schema, config }) => !schema?.hide && !config?.methodGuard)
      .flatMap(({ method, url }) => [method].flat().map((each) => `${each} ${pathOf(url)}`))
      .filter((name) => !name.startsWith('HEAD '));
    expect(visible.length).toBeGreaterThan(0);
    expect(operations.map(({ name }) => name).toSorted()).toEqual(visible.toSorted());
  });

  test("passes the linter, but for the proxy's frame, which is no problem document", async () => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['node_modules/.bin/redocly', 'lint', 'openapi/openapi.json', '--format=json'],
      { cwd: root, env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' } },
    );
    const { totals, problems } = JSON.parse(stdout) as Node;
    expect(problems).toEqual([]);
    const framed = Object.values(resolved(document['paths']['/proxy'].get)['responses'] as Node)
      .map((response) => resolved(response)['content']['application/json']?.example?.proxy_error.status)
      .filter((status) => status >= 400 && status < 500);
    expect(framed.length).toBeGreaterThan(0);
    expect(totals).toEqual({ errors: 0, warnings: 0, ignored: framed.length });
  });

  test('shows keys that no vault accepts', () => {
    const keys = committed.match(/svc_(test|live)_\w{20,}/g) ?? [];
    expect(keys.length).toBeGreaterThan(0);
    for (const key of keys) {
      expect(key).toMatch(/^svc_test_[0-9A-Za-z]{16}_[0-9A-Za-z]{39}$/);
      expect(parseApiKey(key, 'test')).toBeUndefined();
    }
  });
});

const isOfProxy = (name: string): boolean => / \/proxy(\/|$)/.test(name);

describe.each(operations)('$name', ({ name, operation }) => {
  const isPublic = operation['security']?.length === 0;
  const isForwarded = isOfProxy(name);
  const routeOf = () => routes.find(({ method, url }) => `${String(method)} ${pathOf(url)}` === name);

  test('says what it is and which permission it needs', () => {
    expect(operation['operationId']).toMatch(/^[a-z][A-Za-z]+$/);
    for (const field of ['summary', 'description']) expect(operation[field]).toMatch(/\w/);
    expect(operation['tags']).toHaveLength(1);
    const successes = Object.keys(operation['responses']).filter((key) => key[0] === '2' || key === 'default');
    expect(successes.length).toBeGreaterThan(0);

    const { config, schema } = routeOf() ?? {};
    const permission = config?.permission;
    if (isPublic) return void expect(permission).toBeNull();
    const needed = [...(permission === 'authenticated' ? [] : [permission]), ...(schema?.alsoNeeds ?? [])];
    expect(operation['x-permissions']).toEqual(needed);
    for (const each of needed)
      expect(operation['description'].split('Permission: ')[1] ?? '', each as string).toContain(`\`${each}\``);
  });

  test('declares its failures by reference, as problems; those of the proxy in its frame', () => {
    const statuses = Object.keys(operation['responses']).filter((status) => Number(status) >= 400);
    if (!isPublic) expect(statuses).toEqual(expect.arrayContaining(['401', '403']));
    // What the server refuses before it looks for a route.
    if (!isPublic && !isForwarded) expect(statuses).toEqual(expect.arrayContaining(['408', '417', '431']));
    if (name.startsWith('DELETE') && !isForwarded) expect(statuses).toEqual(expect.arrayContaining(['413', '415']));
    if (isForwarded) expect(Object.keys(operation['responses'])).toEqual(expect.arrayContaining(['200', 'default']));
    if (isForwarded) expect(statuses).toEqual(expect.arrayContaining(['400', '404', '413', '502', '504']));
    for (const status of statuses) {
      expect(operation['responses'][status].$ref).toMatch(/^#\/components\/responses\//);
      const { content, headers } = resolved(operation['responses'][status]) as { content: Node; headers: Node };
      expect(Object.keys(content)).toEqual([isForwarded ? 'application/json' : 'application/problem+json']);
      for (const { schema, example } of Object.values(content) as Node[]) {
        // A destination may answer with the same status.
        expect(schema).toEqual(isForwarded ? {} : { $ref: '#/components/schemas/Problem' });
        expect((isForwarded ? example.proxy_error : example).status).toBe(Number(status));
      }
      expect('Retry-After' in headers).toBe(status === '429' || status === '503');
      expect(headers).toHaveProperty('SVC-TRACE-ID');
    }
  });

  test('shows an example of its body and of its success, under the same names', () => {
    const [, answer] = Object.entries(operation['responses'] as Node).find(
      ([status]) => status[0] === '2' || status === 'default',
    ) as [string, Node];
    const success = resolved(answer);
    expect(success['headers']).toHaveProperty('SVC-TRACE-ID');
    if (isForwarded) expect(success['headers']).toHaveProperty('SVC-PROXY-DESTINATION-STATUS');
    if ('204' in operation['responses']) return void expect(success).not.toHaveProperty('content');
    const shown = Object.keys(success['content'][isForwarded ? '*/*' : 'application/json'].examples);
    expect(shown.length).toBeGreaterThan(0);
    if (operation['requestBody'])
      for (const media of Object.values(resolved(operation['requestBody'])['content']) as Node[])
        expect(Object.keys(media['examples'])).toEqual(shown);
  });
});

test('the proxy takes an API key, a proxy key beside it, or that one alone', () => {
  const forwarded = operations.filter(({ name }) => isOfProxy(name));
  expect(forwarded).toHaveLength(10);
  for (const { operation } of forwarded)
    expect((operation['security'] as Node[]).map((each) => Object.keys(each))).toEqual([
      ['ApiKey'],
      ['ApiKey', 'ProxyKeyHeader'],
      ['ApiKey', 'ProxyKeyQuery'],
      ['ProxyKeyHeader'],
      ['ProxyKeyQuery'],
    ]);
});

/** Examples with their schemas: of media types, parameters and headers, and of schemas themselves. */
const examplesIn = (value: unknown, place: string): { place: string; schema: Node; example: unknown }[] => {
  if (typeof value !== 'object' || value === null) return [];
  const node = value as Node;
  const found: { place: string; schema: Node; example: unknown }[] = [];
  if (Array.isArray(node['examples']))
    for (const example of node['examples']) found.push({ place, schema: node, example });
  else if (node['schema']) {
    if ('example' in node) found.push({ place, schema: node['schema'], example: node['example'] });
    for (const [name, { value: example }] of Object.entries((node['examples'] ?? {}) as Node))
      found.push({ place: `${place}/${name}`, schema: node['schema'], example });
  }
  const rest = Object.entries(node).filter(([key]) => key !== 'example' && key !== 'examples');
  return [...found, ...rest.flatMap(([key, each]) => examplesIn(each, `${place}/${key}`))];
};

describe('examples', () => {
  const all = examplesIn(document, '');

  test('are many, and each fits its schema', () => {
    expect(all.length).toBeGreaterThan(40);
    const misfits = all.map(({ place, schema, example }) => [place, fits(schema, example)]);
    expect(misfits.filter(([, problem]) => problem !== undefined)).toEqual([]);
  });

  test('are refused where they do not fit: the check itself works', () => {
    expect(fits({ $ref: '#/components/schemas/Problem' }, { title: 'x' })).toBeDefined();
    expect(fits({ $ref: '#/components/schemas/CardData' }, { number: 'x' })).toBeDefined();
    const request = { $ref: '#/components/schemas/CreateTokenRequest' };
    expect(fits(request, { type: 'card', data: { number: 4242 } })).toBeDefined();
    expect(fits(request, { type: 'card', data: { number: '4242424242424242' } })).toBeUndefined();
  });

  const { requestBody, responses } = document['paths']['/tokenize'].post;
  const requests = requestBody.content['application/json'].examples as Node;
  const answers = responses['200'].content['application/json'].examples as Node;

  test.each(Object.keys(requests))('of tokenize: %s is answered as the rule answers', (name) => {
    const compare = (request: Json, answer: any): void => {
      if (request === null) return void expect(answer).toBeNull();
      if (typeof request !== 'object') return void expect(answer).toMatch(/^[0-9a-f-]{36}$/);
      if (!('type' in request && 'data' in request)) {
        expect(Object.keys(answer)).toEqual(Object.keys(request));
        for (const [key, item] of Object.entries(request)) compare(item, answer[key]);
        return;
      }
      const problems = new FieldErrorCollector();
      const environment = { hmac: () => '', randomInt: () => 0 };
      const tools = { now: () => new Date(), environment, meter: createMeter() };
      const draft = runAtOnce(parseTokenRequest(request, [], problems, tools));
      expect(problems.errors).toEqual([]);
      expect(answer).toMatchObject({
        type: draft?.type.name,
        data: draft?.masked,
        mask: draft?.masked,
        fingerprint_expression: draft?.fingerprint_expression,
        containers: [draft?.container],
        search_indexes: draft?.search_indexes,
        ...(draft?.metadata && { metadata: draft.metadata }),
      });
    };
    compare(requests[name].value, answers[name].value);
  });

  test('of the fields of a token request are ones the rule takes', () => {
    const { type, data, metadata, containers, search_indexes, ...properties } =
      document['components'].schemas.CardTokenRequest.properties;
    expect([type.const, data.$ref]).toEqual(['card', '#/components/schemas/CardData']);
    const { number, ...rest } = document['components'].schemas.CardData.properties;
    const first = (fields: Node) =>
      Object.fromEntries(
        Object.entries(fields).map(([key, { examples }]) => {
          expect(examples, key).toHaveLength(1);
          return [key, examples[0]];
        }),
      );
    const lists = Object.entries({ containers, search_indexes } as Node).map(([key, { anyOf }]) => [
      key,
      anyOf[0].items.examples,
    ]);
    const problems = new FieldErrorCollector();
    const request = {
      type: 'card',
      data: first({ number, ...rest }),
      ...first(properties),
      ...Object.fromEntries(lists),
      metadata: resolved(metadata.anyOf[0])['examples'][0],
    };
    parseTokenRequest(request, [], problems, {
      now: () => new Date(0),
      environment: { hmac: () => '', randomInt: () => 0 },
      meter: createMeter(),
    });
    expect(problems.errors).toEqual([]);
  });

  test('of responses hold no security code and no card number', () => {
    const shown = JSON.stringify(
      operations.map(({ operation }) =>
        Object.values(operation['responses'] as Node).map((response) => response.content ?? {}),
      ),
    );
    expect(shown).toContain('XXXXXXXXXXXX4242');
    // A type of sessions and a time have the name in them.
    expect(shown).not.toMatch(/cvc(?!"\]|_expires_at")/i);
    expect((shown.match(/\d{13,19}/g) ?? []).filter(passesLuhn)).toEqual([]);
  });
});

/** Every schema of the document under its place: components, bodies, and what stands in them. */
const schemasIn = (value: unknown, place: string): { place: string; schema: Node }[] => {
  if (typeof value !== 'object' || value === null) return [];
  const node = value as Node;
  const isSchema = ['type', 'anyOf', 'oneOf', 'allOf', 'properties', 'not', 'const'].some((key) => key in node);
  const inside = Object.entries(node).filter(([key]) => !['example', 'examples', 'security'].includes(key));
  return [
    ...(isSchema && !place.endsWith('/properties') ? [{ place, schema: node }] : []),
    ...inside.flatMap(([key, each]) => schemasIn(each, `${place}/${key}`)),
  ];
};

describe('generators of clients', () => {
  const { schemas } = document['components'];
  const names = Object.keys(schemas);
  const all = schemasIn(document['components'], '').concat(schemasIn(document['paths'], ''));
  const placesWhere = (is: (schema: Node) => boolean) =>
    all.filter(({ schema }) => is(schema)).map(({ place }) => place);

  test('find no name of a schema that they make themselves', () => {
    expect(all.length).toBeGreaterThan(300);
    // NewX is a constructor in Go, <operationId>Response the answer in most languages.
    const operationIds = operations.map(({ operation }) => String(operation['operationId']).toLowerCase());
    const taken = operationIds.map((id) => `${id}response`);
    expect(names.filter((name) => name.startsWith('New') || taken.includes(name.toLowerCase()))).toEqual([]);
    // A property of the schema's own name, in another spelling, is the same module or class.
    const plain = (text: string) => text.replace(/_/g, '').toLowerCase();
    const doubled = names.filter((name) =>
      Object.keys(schemas[name].properties ?? {}).some((key) => plain(key) === plain(name)),
    );
    expect(doubled).toEqual([]);
    // An object without a name is named by what it is a property of.
    const made = names.flatMap((name) =>
      Object.entries((schemas[name].properties ?? {}) as Node)
        .filter(([, schema]) => !schema.$ref)
        .map(([key]) => plain(`${name}${key}`)),
    );
    expect(names.filter((name) => made.includes(plain(name)))).toEqual([]);
  });

  test('find no schema that refers to itself', () => {
    const reached = (name: string, from: string[]): string[] => {
      const text = JSON.stringify(schemas[name]);
      return [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].flatMap(([, to = '']) =>
        from.includes(to) ? [to] : [to, ...reached(to, [...from, to])],
      );
    };
    expect(names.filter((name) => reached(name, [name]).includes(name))).toEqual([]);
  });

  test('find no default, no list of types, and neither `not` nor `allOf`', () => {
    expect(
      placesWhere((schema) => 'default' in schema && 'type' in schema).filter((place) => !/parameters/.test(place)),
    ).toEqual([]);
    expect(placesWhere((schema) => Array.isArray(schema['type']))).toEqual([]);
    expect(placesWhere((schema) => 'not' in schema || 'allOf' in schema)).toEqual([]);
  });

  test('find a name for every object, and a description of every attribute', () => {
    expect(placesWhere((schema) => 'properties' in schema).filter((place) => !/^\/schemas\/\w+$/.test(place))).toEqual(
      [],
    );
    const attributes = names.flatMap((name) =>
      Object.entries((schemas[name].properties ?? {}) as Node).map(([key, schema]) => ({
        key: `${name}.${key}`,
        schema,
      })),
    );
    expect(attributes.length).toBeGreaterThan(150);
    const described = (schema: Node) =>
      schema['description'] ?? (schema['$ref'] ? resolved(schema)['description'] : '');
    expect(attributes.filter(({ schema }) => !described(schema)).map(({ key }) => key)).toEqual([]);
    expect(names.filter((name) => !schemas[name].description)).toEqual([]);
    // A phrase of one or two words says nothing without its place.
    const isClipped = (text: string) => text.split(' ').length < 3 || !text.endsWith('.');
    expect(attributes.filter(({ schema }) => isClipped(described(schema))).map(({ key }) => key)).toEqual([]);
    const texts = [...document['tags'], ...Object.values(schemas as Node)].map(({ description }) => description);
    expect(texts.filter(isClipped)).toEqual([]);
  });

  test('find lists of values that may become more open, and keys hidden when they are printed', () => {
    expect(placesWhere((schema) => 'x-extensible-enum' in schema).length).toBeGreaterThan(10);
    const closed = names.filter(
      (name) =>
        !/(Request|Patch|Declaration|SettingsOfTenant)$/.test(name) && JSON.stringify(schemas[name]).includes('"enum"'),
    );
    expect(closed).toEqual([]);
    for (const name of ['Application', 'Proxy']) expect(schemas[name].properties.key.format).toBe('password');
  });

  test('find one set of headers in all successes of operations with a key', () => {
    const sets = operations
      .filter(({ name, operation }) => !isOfProxy(name) && operation['security']?.length !== 0)
      .flatMap(({ operation }) => Object.entries(operation['responses'] as Node))
      .filter(([status]) => status.startsWith('2'))
      .map(([, { headers }]) => headers);
    expect(sets.length).toBeGreaterThan(45);
    const optional = ['Location', 'RateLimit', 'RateLimit-Policy', 'SVC-IDEMPOTENT-REPLAYED', 'SVC-WARNING'];
    const names = [...optional, 'SVC-TRACE-ID'];
    const references = Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
    for (const headers of sets) expect(headers).toEqual(references);
    const { headers } = document['components'];
    expect(names.map((name) => headers[name].required)).toEqual([...optional.map(() => false), true]);
  });

  test('find the filter by metadata in words: a parameter that is a map does not compile in Java', () => {
    for (const path of ['/tokens', '/tokens/{parent_id}/children']) {
      expect(document['paths'][path].get.description).toContain('`metadata.KEY=value`');
      const parameters = document['paths'][path].get.parameters.map(resolved);
      expect(parameters.filter(({ schema }: Node) => resolved(schema)['type'] === 'object')).toEqual([]);
      expect(parameters.map(({ name }: Node) => name)).not.toContain('metadata');
    }
  });

  test('find requests for tokens told apart by their type, each with all its attributes', () => {
    const { oneOf, discriminator } = schemas.CreateTokenRequest;
    expect(oneOf).toHaveLength(4);
    expect(new Set(Object.values(discriminator.mapping))).toEqual(new Set(oneOf.map(({ $ref }: Node) => $ref)));
    const keys = oneOf.map((member: Node) => Object.keys(resolved(member)['properties']));
    for (const each of keys) expect(each).toEqual(keys[0]);
  });
});
