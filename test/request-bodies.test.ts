// What all JSON bodies have in common: null in an optional attribute is its absence, and ids, names and keys have a form.
import { beforeAll, describe, expect, test } from 'vitest';
import { document, exampleOf, fits, type Node, type Path, plain, resolved, spell, withAt } from './support/document.ts';
import { type Answer, type SharedServer, useServer } from './support/server.ts';

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
  ids['proxy'] = (
    await make('/proxies', { name: 'P', destination_url: 'https://api.example.com', request_transform: { code } })
  )['id'];
  ids['webhook'] = (await make('/webhooks', { name: 'W', ...ofWebhook() }))['id'];
  const sent = await server.request('POST', '/proxy', {
    json: {},
    headers: { 'svc-proxy-url': 'https://away.invalid', 'svc-idempotency-key': 'order' },
  });
  ids['forward'] = sent.headers.get('svc-forward-id') as string;
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
const ofWebhook = () => ({ url: 'https://hooks.example.com/', events: ['*'] });
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
  { operation: 'POST /v2/tokens/search', schema: 'CursorSearchRequest' },
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
  {
    operation: 'POST /access/explain',
    schema: 'AccessQuestion',
    body: () => ({
      permission: 'log:read',
      container: undefined,
      application_id: undefined,
      member_id: undefined,
      token_id: undefined,
      host: undefined,
      proxy_id: undefined,
    }),
  },
  {
    operation: 'POST /access/simulate',
    schema: 'AccessSimulationRequest',
    body: () => ({ ...ofApplication(), application_id: ids['application'], allowed_hosts: undefined }),
  },
  { operation: 'POST /access/review/attestations', schema: 'AttestationRequest' },
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
  { operation: 'POST /reactors/{id}/test', path: '/reactors/:reactor/test', schema: 'TestReactorRequest' },
  ...['reactor-formulas/:formula', 'reactors/:reactor', 'proxies/:proxy'].map((path) => ({
    operation: `POST /${path.split('/')[0]}/{id}/versions/{number}/restore`,
    path: `/${path}/versions/1/restore`,
    schema: 'RestoreVersionRequest',
  })),
  { operation: 'PUT /proxies/{id}/draft', path: '/proxies/:proxy/draft', schema: 'ProxyDraftRequest' },
  { operation: 'POST /proxies', schema: 'CreateProxyRequest', body: ofProxy },
  { operation: 'PUT /proxies/{id}', path: '/proxies/:proxy', schema: 'UpdateProxyRequest', body: ofProxy },
  {
    operation: 'POST /forwards/{id}/replay',
    path: '/forwards/:forward/replay',
    schema: 'ReplayForwardRequest',
    body: () => ({ proxy_id: undefined }),
  },
  { operation: 'POST /webhooks', schema: 'CreateWebhookRequest', body: ofWebhook },
  { operation: 'PUT /webhooks/{id}', path: '/webhooks/:webhook', schema: 'UpdateWebhookRequest', body: ofWebhook },
  { operation: 'POST /proxies/{id}/rotate-key', path: '/proxies/:proxy/rotate-key', schema: 'RotateProxyKeyRequest' },
];

/** Where null is no absence, and why. */
const exceptions: ReadonlyMap<string, string> = new Map([
  ['PATCH /tokens/{id}', 'null removes an attribute (RFC 7396)'],
  ['PATCH /reactors/{id}', 'null removes an attribute (RFC 7396)'],
  ['PATCH /webhooks/{id}', 'null removes an attribute (RFC 7396)'],
  ['PATCH /proxies/{id}', 'null removes an attribute (RFC 7396)'],
  ['POST /detokenize', 'the whole body is data'],
  ['POST /sessions/{session_id}/cvc', 'it has no optional attribute'],
  ['POST /tokens/delete-by-search', 'it has no optional attribute'],
  ['POST /token-intents', 'it has no optional attribute'],
  ['PUT /reactor-formulas/{id}/draft', 'it has no optional attribute'],
  ['PUT /reactors/{id}/draft', 'it has no optional attribute'],
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
const ownOfRecord = new Set([
  'id',
  'trace_id',
  'key',
  'secret',
  'session_key',
  'collect_url',
  'email',
  'allowed_addresses',
]);

const comparable = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => !ownOfRecord.has(name) && !name.endsWith('_at'));
  return Object.fromEntries(kept.map(([name, part]) => [name, comparable(part)]));
};

const ask = ({ operation, path }: Base, json: unknown): Promise<Answer> => {
  const [method = '', url = ''] = operation.split(' ');
  return server.request(
    method,
    (path ?? url).replace(/:(\w+)/g, (_, name: string) => ids[name] as string),
    { json },
  );
};

const send = async (base: Base, body: unknown) => {
  const answer = await ask(base, body);
  expect(answer.status, `${base.operation} ${JSON.stringify(body)}: ${answer.text}`).toBeLessThan(300);
  return comparable(answer.body);
};

/** An allowance stands beside proxies. */
const allowing = () => ({ proxies: [ids['proxy']], allowance: { max_amount: 2000, currency: 'usd' } });

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
        // A bound has one attribute at least, and is for rules that only use values.
        const bound = path.includes('allowance') ? allowing() : { hosts: ['api.processor.example'], places: ['body'] };
        if (path[0] === 'bound_to' && path.length > 1) body.bound_to = bound;
        if (path[0] === 'rules' && path.includes('bound_to'))
          body.rules = [{ ...rule, permissions: ['token:use'], bound_to: bound }];
        // A reactor has either a formula or code, and a transform either code or what a mask is made of.
        if (spell(path) === 'formula' && base.schema === 'CreateReactorRequest') body.code = code;
        const [transform, at, name = at] = path;
        if (base.schema.includes('Proxy') && /^re\w+_transforms?$/.test(String(transform)) && name !== undefined) {
          const made = name === 'code' ? { type: 'mask', expression: 'x' } : { code };
          body[String(transform)] = at === 0 ? [made] : made;
        }
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

/** The places of ids, names and containers in a schema. A reference to another record is an id too. */
const textsOf = (given: Node, path: Path = []): Path[] => {
  const schema = plain(given);
  if (schema['items']) return textsOf(schema['items'], [...path, 0]);
  if (schema['properties'])
    return Object.entries(schema['properties'] as Node).flatMap(([name, part]) => textsOf(part, [...path, name]));
  const name = path.findLast((step) => typeof step === 'string') ?? '';
  return /(^|_)(id|name|containers?)$/.test(name) ? [path] : [];
};

const bad = [
  ' and blanks',
  'and blanks ',
  'no-break\u00a0',
  '\ttab',
  'bell\u0007',
  'line\nend',
  'line\u2028end',
  'NUL\0',
];

describe('an id, a name or a container with blanks at its ends or controls is a 400', () => {
  // Data is stored as it comes: the name of a cardholder is a value.
  const withTexts = bases.flatMap((base) =>
    textsOf(schemaOf(base))
      .filter(([first]) => first !== 'data')
      .map((path) => [spell(path), base, path] as const),
  );

  test('is looked for in all operations', () => expect(withTexts.length).toBeGreaterThan(30));

  test.each(
    withTexts.map(([place, base, path]) => [`${place} of ${base.operation} (${base.schema})`, base, path] as const),
  )('%s', async (_name, base, path) => {
    const schema = schemaOf(base);
    for (const text of bad) {
      const body = { ...exampleOf(schema), ...base.body?.() };
      if (path[0] === 'bound_to') body.bound_to = allowing();
      if (path.includes('bound_to') && path[0] === 'rules')
        body.rules = [{ ...rule, permissions: ['token:use'], bound_to: allowing() }];
      const answer = await ask(base, withAt(schema, body, path, text));
      expect([answer.status, Object.keys(answer.body.errors)], JSON.stringify(text)).toEqual([400, [spell(path)]]);
      expect(answer.text).not.toContain(JSON.stringify(text).slice(1, -1));
    }
  });

  test.each(bad)('%j as a key of metadata and as the name of a setting', async (key) => {
    const made = await server.request('POST', '/tokens', { json: { data: 'x', metadata: { [key]: 'x' } } });
    expect([made.status, Object.values(made.body.errors)]).toEqual([
      400,
      [[expect.stringContaining('without blanks at their ends, line ends and other control characters')]],
    ]);
    const session = { allowed_origins: ['https://shop.example.com'], types: ['card'], metadata: { [key]: 'x' } };
    expect((await server.request('POST', '/sessions', { json: session })).status).toBe(400);
    const settings = { name: 'T', settings: { [key]: 'x' } };
    expect((await server.request('PUT', '/tenants/self', { json: settings })).body.errors).toEqual({
      settings: [expect.stringContaining('without blanks at their ends')],
    });
  });

  test('an alias that would have one is refused', async () => {
    const json = { data: '42 42 ', id: '{{ data | alias_preserve_format }}' };
    const { status, body } = await server.request('POST', '/tokens', { json });
    expect([status, body.errors]).toEqual([400, { id: [expect.stringContaining('without blanks at its ends')] }]);
  });
});
