// The OpenAPI document describes what the server accepts: null values, empty lists, and types in a patch.
import { beforeAll, describe, expect, test } from 'vitest';
import { exampleFormula } from '../src/modules/code/formula-record.ts';
import { exampleOf, fits, type Node, type Path, plain, spell, withAt } from './support/document.ts';
import { type SharedServer, useServer } from './support/server.ts';

let server: SharedServer;
beforeAll(async () => {
  server = await useServer();
});

const send = (method: string, path: string, json: unknown, headers: Record<string, string> = {}) =>
  server.request(method, path, {
    key: server.tenant.api_key,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(json),
  });

const make = async (json: unknown): Promise<{ id: string } & Record<string, unknown>> => {
  const made = await send('POST', '/tokens', json);
  expect(made.status, made.text).toBe(201);
  return made.body;
};

const card = { number: '4242424242424242', cvc: '123' };

describe('a token request', () => {
  test('with null as its type is a 400 that names it, wherever a token is made', async () => {
    const parent = await make({ data: 'x' });
    for (const path of ['/tokenize', '/tokens', `/tokens/${parent.id}/children`]) {
      const refused = await send('POST', path, { type: null, data: card });
      expect(refused.status, path).toBe(400);
      expect(Object.keys(refused.body.errors), path).toEqual(['type']);
    }
    const inside = await send('POST', '/tokenize', { card: { type: null, data: card } });
    expect([inside.status, Object.keys(inside.body.errors)]).toEqual([400, ['card.type']]);
  });

  test('without a type is a generic token', async () => {
    expect(await make({ data: 'x' })).toMatchObject({ type: 'token', containers: ['/general/high/'] });
  });

  test('with null for any other attribute is one without it, as the document says', async () => {
    const nulls = {
      id: null,
      mask: null,
      containers: null,
      metadata: null,
      search_indexes: null,
      fingerprint_expression: null,
      deduplicate_token: null,
      expires_at: null,
    };
    const { id: _, created_at: __, fingerprint: ___, ...made } = await make({ type: 'card', data: card, ...nulls });
    const { id: ____, created_at: _____, fingerprint: ______, ...plain } = await make({ type: 'card', data: card });
    expect(made).toEqual(plain);
  });

  test('with an empty list of containers goes to the container of its type', async () => {
    expect(await make({ type: 'card', data: card, containers: [] })).toMatchObject({ containers: ['/pci/high/'] });
  });

  test('with a key of the metadata that cannot be one is a 400 that says what a key may be', async () => {
    const bad = await send('POST', '/tokens', { data: 1, metadata: { 'order\nid': 'x' } });
    expect(bad.status).toBe(400);
    expect(Object.values(bad.body.errors)).toEqual([
      ['must have keys of 1 to 200 characters, without blanks at their ends, line ends and other control characters'],
    ]);
    const noMap = await send('POST', '/tokens', { data: 1, metadata: ['x'] });
    expect(noMap.body.errors).toEqual({ metadata: ['must be an object of strings'] });
  });
});

describe('a patch of a token', () => {
  const types = ['application/merge-patch+json', 'application/json', 'application/json; charset=utf-8'];

  test.each(types)('is a merge patch, sent as %s', async (type) => {
    const { id } = await make({ data: { a: 1, b: 2 }, metadata: { order: '4711' } });
    const changed = await send(
      'PATCH',
      `/tokens/${id}`,
      { metadata: { order: null, kept: 'x' } },
      { 'content-type': type },
    );
    expect(changed.status, changed.text).toBe(200);
    expect(changed.body.metadata).toEqual({ kept: 'x' });
  });

  test.each(['application/json-patch+json', 'text/plain'])(
    'sent as %s is a 415 that names the types it may have',
    async (type) => {
      const { id } = await make({ data: 'x' });
      const refused = await send('PATCH', `/tokens/${id}`, [{ op: 'remove', path: '/data' }], { 'content-type': type });
      expect(refused.status).toBe(415);
      expect(refused.headers.get('accept-patch')).toBe('application/merge-patch+json, application/json');
    },
  );

  test('with an empty list of containers leaves the token where it is', async () => {
    const { id } = await make({ data: 'x', containers: ['/general/low/'] });
    const changed = await send('PATCH', `/tokens/${id}`, { containers: [], metadata: { a: 'b' } });
    expect(changed.body).toMatchObject({ containers: ['/general/low/'], metadata: { a: 'b' } });
  });
});

describe('an access rule', () => {
  const rule = { priority: 1, transform: 'mask', permissions: ['token:read'] };

  test('with a container and an empty list of conditions is a rule on the container', async () => {
    const rules = [{ ...rule, container: '/pci/', conditions: [] }];
    const made = await send('POST', '/applications', { name: 'Support', rules });
    expect(made.status, made.text).toBe(201);
    expect(made.body.rules).toEqual([{ ...rule, container: '/pci/' }]);
    const read = await server.request('GET', '/applications/key', { key: made.body.key });
    expect(read.body.rules).toEqual(made.body.rules);
  });

  test('with an empty list of conditions alone reaches nothing: it is refused', async () => {
    const refused = await send('POST', '/applications', { name: 'Support', rules: [{ ...rule, conditions: [] }] });
    expect(refused.status).toBe(400);
    expect(JSON.stringify(refused.body.errors)).toContain('must have either a container or conditions');
  });
});

test('a reactor without request parameters is invoked without a body', async () => {
  const code = 'module.exports = async () => ({ raw: 42 });';
  const formula = await send('POST', '/reactor-formulas', { name: exampleFormula.name, type: 'private', code });
  expect(formula.status, formula.text).toBe(201);
  const reactor = await send('POST', '/reactors', { name: 'None', formula: { id: formula.body.id } });
  expect(reactor.status, reactor.text).toBe(201);
  const answer = await server.request('POST', `/reactors/${reactor.body.id}/react`, { key: server.tenant.api_key });
  expect([answer.status, answer.body]).toEqual([200, { raw: 42 }]);
  const documented = (await server.request('GET', '/openapi.json', {})).body;
  expect(documented.paths['/reactors/{id}/react'].post.requestBody.required).toBe(false);
  expect(documented.paths['/tokenize'].post.requestBody.required).toBe(true);
});

/** Bodies that the server takes, beside the examples of the schema. What is left out here is made of the examples. */
type Base = { operation: string; schema: string; path?: () => string; body?: () => Node };

const application = { name: 'A', permissions: ['token:read'] };
let token_id: string;
let formula_id: string;
let reactor_id: string;
let application_id: string;
beforeAll(async () => {
  token_id = (await make({ data: 'x' })).id;
  application_id = (await send('POST', '/applications', application)).body.id;
  const code = 'module.exports = async () => ({})';
  formula_id = (await send('POST', '/reactor-formulas', { name: 'F', type: 'private', code })).body.id;
  reactor_id = (await send('POST', '/reactors', { name: 'R', formula: { id: formula_id } })).body.id;
});

const rule = { priority: 1, container: '/', transform: 'mask', permissions: ['token:read'] };
const element = { name: 'A', type: 'string' };

const bases: Base[] = [
  { operation: 'POST /tokens', schema: 'CardTokenRequest' },
  { operation: 'POST /tokens', schema: 'BankTokenRequest' },
  { operation: 'POST /tokens', schema: 'GenericTokenRequest' },
  { operation: 'POST /tokens', schema: 'TextTokenRequest' },
  { operation: 'PATCH /tokens/{id}', schema: 'TokenPatch', path: () => `/tokens/${token_id}` },
  { operation: 'POST /tokens/search', schema: 'SearchRequest' },
  { operation: 'POST /applications', schema: 'CreateApplicationRequest', body: () => application },
  {
    operation: 'PUT /applications/{id}',
    schema: 'UpdateApplicationRequest',
    path: () => `/applications/${application_id}`,
    body: () => application,
  },
  { operation: 'PUT /tenants/self', schema: 'UpdateTenantRequest' },
  { operation: 'POST /tenants/self/invitations', schema: 'CreateInvitationRequest' },
  { operation: 'POST /reactor-formulas', schema: 'CreateReactorFormulaRequest' },
  { operation: 'POST /reactors', schema: 'CreateReactorRequest', body: () => ({ formula: { id: formula_id } }) },
  { operation: 'PUT /reactors/{id}', schema: 'UpdateReactorRequest', path: () => `/reactors/${reactor_id}` },
  { operation: 'POST /proxies', schema: 'CreateProxyRequest' },
];

const sendTo = ({ operation, path }: Base, body: unknown) => {
  const [method = '', url = ''] = operation.split(' ');
  return send(method, path?.() ?? url, body);
};

type Limit = { path: Path; keyword: string; value: unknown };

const entriesOf = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, 'x']));

/** A text that a schema of texts refuses by one keyword. */
const badTexts = ({ maxLength, minLength, pattern }: Node): [keyword: string, text: string][] => [
  ...(maxLength ? [['maxLength', 'x'.repeat(maxLength + 1)] as [string, string]] : []),
  ...(minLength ? [['minLength', 'x'.repeat(minLength - 1)] as [string, string]] : []),
  ...(pattern
    ? [['pattern', ['!', '.', ' '].find((text) => !new RegExp(pattern).test(text))] as [string, string]]
    : []),
];

/** Values that the schema refuses: one for each limit that it has, and that schemas below it have. */
const limitsOf = (given: Node, path: Path = []): Limit[] => {
  const schema = plain(given);
  const { items, properties, additionalProperties = {}, propertyNames = {} } = schema;
  const limit = (keyword: string, bad: (most: number) => unknown): Limit[] =>
    schema[keyword] === undefined ? [] : [{ path, keyword, value: bad(schema[keyword]) }];
  return [
    ...(schema['type'] === 'string' ? badTexts(schema).map(([keyword, value]) => ({ path, keyword, value })) : []),
    ...limit('enum', () => 'no such value'),
    ...limit('minimum', (least) => least - 1),
    ...limit('maximum', (most) => most + 1),
    ...limit('minItems', () => []),
    ...limit('maxItems', (most) => Array(most + 1).fill(exampleOf(items))),
    ...limit('maxProperties', (most) => entriesOf(most + 1)),
    ...badTexts(propertyNames).map(([keyword, name]) => ({ path, keyword: `name ${keyword}`, value: { [name]: 'x' } })),
    ...badTexts(plain(additionalProperties)).map(([keyword, value]) => ({
      path,
      keyword: `value ${keyword}`,
      value: { n: value },
    })),
    ...(items ? limitsOf(items, [...path, 0]) : []),
    ...Object.entries((properties ?? {}) as Node).flatMap(([name, part]) => limitsOf(part, [...path, name])),
  ];
};

const schemaOf = (base: Base): Node => ({ $ref: `#/components/schemas/${base.schema}` });
const bodyOf = (base: Base): Node => ({ ...exampleOf(schemaOf(base)), ...base.body?.() });

describe('a limit that the document shows', () => {
  test.each(bases.map((base) => [`${base.operation} (${base.schema})`, base] as const))(
    'is the server’s: %s',
    async (_name, base) => {
      const limits = limitsOf(schemaOf(base));
      expect(limits.length).toBeGreaterThan(0);
      for (const { path, keyword, value } of limits) {
        const place = `${spell(path)} ${keyword}`;
        const body = withAt(schemaOf(base), bodyOf(base), path, value);
        expect(fits(schemaOf(base), body), place).toBeDefined();
        const answer = await sendTo(base, body);
        expect(answer.status, `${place}: ${answer.text}`).toBe(400);
        expect(
          Object.keys(answer.body.errors).some((key) => key.startsWith(spell(path))),
          `${place}: ${answer.text}`,
        ).toBe(true);
      }
    },
  );
});

describe('what the server refuses by its form', () => {
  const cases: [schema: string, what: string, change: Node][] = [
    ['CreateApplicationRequest', 'an empty name', { name: '' }],
    ['CreateApplicationRequest', 'a URL as a host', { allowed_hosts: ['https://api.example.com'] }],
    ['UpdateApplicationRequest', 'a host with a slash', { allowed_hosts: ['api.example.com/'] }],
    ['CreateApplicationRequest', 'a container without slashes in a rule', { rules: [{ ...rule, container: 'pci' }] }],
    [
      'CreateApplicationRequest',
      'a long description of a rule',
      { rules: [{ ...rule, description: 'x'.repeat(1001) }] },
    ],
    ['CreateApplicationRequest', 'a priority of 0', { rules: [{ ...rule, priority: 0 }] }],
    ['CreateProxyRequest', 'a star within a host', { allowed_hosts: ['api.*.com'] }],
    ['CreateProxyRequest', 'a destination by FTP', { destination_url: 'ftp://api.example.com' }],
    ['CreateProxyRequest', 'a destination with a fragment', { destination_url: 'https://api.example.com/#a' }],
    ['CreateProxyRequest', 'a destination with a blank', { destination_url: 'https://api.example.com/a b' }],
    ['CreateProxyRequest', 'a dot in a name of the configuration', { configuration: { 'a.b': 'x' } }],
    ['CreateProxyRequest', 'too much configuration', { configuration: entriesOf(26) }],
    ['CreateReactorRequest', 'a dot in a name of the configuration', { configuration: { 'a.b': 'x' } }],
    ['UpdateReactorRequest', 'a blank in a name of the configuration', { configuration: { 'a b': 'x' } }],
    ['CreateReactorFormulaRequest', 'a link as icon', { icon: 'https://example.com/a.png' }],
    ['CreateReactorFormulaRequest', 'an SVG as icon', { icon: 'data:image/svg+xml;base64,PHN2Zy8+' }],
    ['CreateReactorFormulaRequest', 'a large icon', { icon: `data:image/png;base64,${'A'.repeat(50_000)}` }],
    ['CreateReactorFormulaRequest', 'a dot in a declared name', { configuration: [{ ...element, name: 'a.b' }] }],
    ['CreateReactorFormulaRequest', 'two dots in a parameter', { request_parameters: [{ ...element, name: 'a..b' }] }],
    [
      'CreateReactorFormulaRequest',
      'a dot at the end of a parameter',
      { request_parameters: [{ ...element, name: 'a.' }] },
    ],
    [
      'CreateReactorFormulaRequest',
      'a dash at the start of a parameter',
      { request_parameters: [{ ...element, name: '-a' }] },
    ],
    ['GenericTokenRequest', 'an empty key of the metadata', { metadata: { '': 'x' } }],
    ['GenericTokenRequest', 'a container without slashes', { containers: ['pci'] }],
    ['TokenPatch', 'an empty key of the metadata', { metadata: { '': 'x' } }],
    ['TokenPatch', 'a long value of the metadata', { metadata: { order: 'x'.repeat(501) } }],
    ['SearchRequest', 'an empty query', { query: '' }],
    ['SearchRequest', 'a long query', { query: 'x'.repeat(201) }],
    ['UpdateTenantRequest', 'too many settings', { settings: entriesOf(51) }],
    ['UpdateTenantRequest', 'a setting without a name', { settings: { '': 'x' } }],
    ['UpdateTenantRequest', 'a setting with a long name', { settings: { ['x'.repeat(201)]: 'x' } }],
    [
      'CreateInvitationRequest',
      'a long address',
      { email: `${'a'.repeat(64)}@${'b'.repeat(60)}.${`${'c'.repeat(60)}.`.repeat(2)}example.com` },
    ],
  ];

  test.each(cases)('the document refuses as well: %s with %s', async (name, _what, change) => {
    const base = bases.find(({ schema }) => schema === name) as Base;
    const body = { ...bodyOf(base), ...change };
    const answer = await sendTo(base, body);
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors).every((key) => key.startsWith(Object.keys(change)[0] as string))).toBe(true);
    expect(fits(schemaOf(base), body)).toBeDefined();
  });

  test.each<[schema: string, change: Node]>([
    ['CreateApplicationRequest', { allowed_hosts: ['API.Example.com', '*.example.com', 'a_b.example.com'] }],
    [
      'CreateProxyRequest',
      { destination_url: 'HTTPS://API.Example.com:8443/v1?a={b}', configuration: { _a: 1, 'b-2': '' } },
    ],
    [
      'CreateReactorFormulaRequest',
      { request_parameters: ['a', '_', 'a-b.c_d', 'c.-d'].map((name) => ({ ...element, name })) },
    ],
    ['TokenPatch', { metadata: { order: null, 'a.b': '', _: 'x', 'order id': 'x', größe: 'x' } }],
    ['UpdateTenantRequest', { settings: { 'any name': 'x', deduplicate_token: 'false' } }],
  ])('the document takes what it takes: %s with %j', async (name, change) => {
    const base = bases.find(({ schema }) => schema === name) as Base;
    const body = { ...bodyOf(base), ...change };
    const answer = await sendTo(base, body);
    expect(answer.status, answer.text).toBeLessThan(300);
    expect(fits(schemaOf(base), body)).toBeUndefined();
  });

  test.each(bases)('the document takes what it takes: $operation ($schema)', async (base) => {
    const body = bodyOf(base);
    expect(fits(schemaOf(base), body)).toBeUndefined();
    const answer = await sendTo(base, body);
    expect(answer.status, answer.text).toBeLessThan(300);
  });
});
