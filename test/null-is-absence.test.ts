// Null in an optional attribute is its absence: in every operation with a JSON body, at every depth, and in the document.
import { beforeAll, describe, expect, test } from 'vitest';
import { document, exampleOf, fits, type Node, type Path, plain, resolved, spell, withAt } from './support/document.ts';
import { type SharedServer, useServer } from './support/server.ts';

let server: SharedServer;
/** Ids of records that the operations change. */
const ids: Record<string, string> = {};

const make = async (path: string, json: Node): Promise<Node> => {
  const answer = await server.request('POST', path, { json });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const code = 'module.exports = async ({ args }) => ({ raw: { args } });';

beforeAll(async () => {
  server = await useServer();
  const formula = await make('/reactor-formulas', { name: 'F', type: 'private', code });
  const application = await make('/applications', { name: 'A', permissions: ['token:read'] });
  ids['formula'] = formula['id'];
  ids['application'] = application['id'];
  ids['other_formula'] = (await make('/reactor-formulas', { name: 'G', type: 'private', code }))['id'];
  ids['reactor'] = (await make('/reactors', { name: 'R', formula: { id: ids['formula'] } }))['id'];
  ids['proxy'] = (await make('/proxies', { name: 'P', destination_url: 'https://api.example.com' }))['id'];
  ids['parent'] = (await make('/tokens', { data: 'x' }))['id'];
  ids['key'] = (await make(`/applications/${ids['application']}/keys`, {}))['id'];
});

type Base = { operation: string; path?: string; schema: string; body?: () => Node };

let addresses = 0;
const reference = (name: string) => ({ id: ids[name] });
const rule = { priority: 1, container: '/', transform: 'mask', permissions: ['token:read'] };
const conditions = [{ attribute: 'id', operator: 'starts_with', value: 'order-' }];
const ofApplication = () => ({
  permissions: ['token:read'],
  rules: [rule],
});
const ofProxy = () => ({ application: reference('application'), client_certificate: undefined });
const ofReactor = () => ({ application: reference('application') });

const tokenRequests = ['GenericTokenRequest', 'CardTokenRequest', 'BankTokenRequest', 'TextTokenRequest'];

/** What an operation needs beside the examples of its schema. */
const bases: Base[] = [
  ...tokenRequests.flatMap((schema) => [
    { operation: 'POST /tokens', schema },
    { operation: 'POST /tokenize', schema },
    { operation: 'POST /tokens/{parent_id}/children', path: '/tokens/:parent/children', schema },
  ]),
  { operation: 'POST /tokens/search', schema: 'SearchRequest' },
  { operation: 'POST /sessions', schema: 'CreateSessionRequest' },
  {
    operation: 'POST /applications',
    schema: 'CreateApplicationRequest',
    body: ofApplication,
  },
  {
    operation: 'PUT /applications/{id}',
    path: '/applications/:application',
    schema: 'UpdateApplicationRequest',
    body: ofApplication,
  },
  { operation: 'POST /applications/{id}/keys', path: '/applications/:application/keys', schema: 'ApiKeyRequest' },
  {
    operation: 'PUT /applications/{id}/keys/{key_id}',
    path: '/applications/:application/keys/:key',
    schema: 'ApiKeyRequest',
  },
  { operation: 'PUT /tenants/self', schema: 'UpdateTenantRequest' },
  {
    operation: 'POST /tenants/self/invitations',
    schema: 'CreateInvitationRequest',
    body: () => ({ email: `ada${(addresses += 1)}@example.com` }),
  },
  { operation: 'POST /reactor-formulas', schema: 'CreateReactorFormulaRequest' },
  {
    operation: 'PUT /reactor-formulas/{id}',
    path: '/reactor-formulas/:other_formula',
    schema: 'UpdateReactorFormulaRequest',
    body: () => ({ code }),
  },
  {
    operation: 'POST /reactors',
    schema: 'CreateReactorRequest',
    body: () => ({ ...ofReactor(), formula: reference('formula') }),
  },
  { operation: 'PUT /reactors/{id}', path: '/reactors/:reactor', schema: 'UpdateReactorRequest', body: ofReactor },
  { operation: 'POST /reactors/{id}/react', path: '/reactors/:reactor/react', schema: 'ReactRequest' },
  { operation: 'POST /proxies', schema: 'CreateProxyRequest', body: ofProxy },
  { operation: 'PUT /proxies/{id}', path: '/proxies/:proxy', schema: 'UpdateProxyRequest', body: ofProxy },
  { operation: 'POST /proxies/{id}/rotate-key', path: '/proxies/:proxy/rotate-key', schema: 'RotateProxyKeyRequest' },
];

/** Where null is no absence, and why. */
const exceptions: ReadonlyMap<string, string> = new Map([
  ['PATCH /tokens/{id}', 'null removes an attribute (RFC 7396)'],
  ['POST /detokenize', 'the whole body is data'],
  ['PUT /tenants/self/members/{id}', 'it has no optional attribute'],
]);

test('every operation with a JSON body is here, or in the list of exceptions', () => {
  const withBody = Object.entries(document['paths'] as Node).flatMap(([path, item]) =>
    Object.entries(item as Node)
      .filter(([, operation]) => operation.requestBody)
      .map(([method]) => `${method.toUpperCase()} ${path}`),
  );
  const ours = withBody.filter((name) => !/ \/proxy(\/|$)/.test(name));
  const known = new Set([...bases.map(({ operation }) => operation), ...exceptions.keys()]);
  expect(ours.toSorted()).toEqual([...known].toSorted());
});

/** The paths of all optional attributes of a schema. */
const optionalsOf = (given: Node, path: Path = []): Path[] => {
  const schema = plain(given);
  const { items, properties = {}, required = [] } = schema;
  return [
    ...(items ? optionalsOf(items, [...path, 0]) : []),
    ...Object.entries(properties as Node).flatMap(([name, part]) => [
      ...(required.includes(name) ? [] : [[...path, name]]),
      ...optionalsOf(part, [...path, name]),
    ]),
  ];
};

const schemaOf = ({ schema }: Base): Node => ({ $ref: `#/components/schemas/${schema}` });

/** What differs between two records that are made of the same request. */
const ownOfRecord = new Set(['id', 'key', 'session_key', 'collect_url', 'email', 'allowed_addresses']);

const comparable = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => !ownOfRecord.has(name) && !name.endsWith('_at'));
  return Object.fromEntries(kept.map(([name, part]) => [name, comparable(part)]));
};

const send = async ({ operation, path }: Base, body: unknown) => {
  const [method = '', url = ''] = operation.split(' ');
  const target = (path ?? url).replace(/:(\w+)/g, (_, name: string) => ids[name] as string);
  const answer = await server.request(method, target, { json: body });
  expect(answer.status, `${operation} ${JSON.stringify(body)}: ${answer.text}`).toBeLessThan(300);
  return comparable(answer.body);
};

describe('null in an optional attribute is its absence', () => {
  test.each(bases.map((base) => [`${base.operation} (${base.schema})`, base] as const))('%s', async (_name, base) => {
    const schema = schemaOf(base);
    const optionals = optionalsOf(schema).filter((path) => spell(path) !== 'client_certificate.certificate');
    expect(optionals.length).toBeGreaterThan(0);
    for (const path of optionals) {
      const bodyWith = (value: unknown) => {
        const body = { ...exampleOf(schema), ...base.body?.() };
        // A rule has either a container or conditions.
        if (spell(path) === 'rules[0].container') body.rules = [{ ...rule, container: undefined, conditions }];
        return withAt(schema, body, path, value);
      };
      expect(fits(schema, bodyWith(null)), spell(path)).toBeUndefined();
      expect(await send(base, bodyWith(null)), spell(path)).toEqual(await send(base, bodyWith(undefined)));
    }
  });
});

test('an optional attribute at any depth may be null in the document', () => {
  const named = document['components'].schemas as Node;
  const requests = Object.keys(named).filter((name) => name.endsWith('Request'));
  expect(requests.length).toBeGreaterThan(15);
  for (const name of requests)
    for (const path of optionalsOf({ $ref: `#/components/schemas/${name}` })) {
      const part = path.reduce<Node>(
        (at, step) => {
          const schema = plain(at);
          return typeof step === 'number' ? schema['items'] : schema['properties'][step];
        },
        resolved({ $ref: `#/components/schemas/${name}` }),
      );
      expect(fits(part, null), `${name} ${spell(path)}`).toBeUndefined();
    }
});

test('null removes the certificate of a proxy; a change without it keeps it', async () => {
  const { body } = await server.request('GET', '/openapi.json', {});
  const { client_certificate } = body.components.schemas.UpdateProxyRequest.properties;
  expect(client_certificate.description).toContain('Null: none. A change without it keeps it.');
});
