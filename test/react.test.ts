// POST /reactors/{id}/react over HTTP: args and tokens, log rows, results, errors, and the code that runs.
// Calls of running code are in react-calls.test.ts.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestServer, TestTenant } from './support/server.ts';
import {
  codeOf,
  type MadeReactor,
  makeFormula,
  makeReactor,
  makeReactorOf,
  type Parameter,
  problemOf,
  rawOf,
  react,
  type ReactorServer,
  runBody,
  startReactorServer,
  tokenOf,
  usesOf,
  withoutLog,
} from './support/reactors.ts';

let fixture: ReactorServer;
let server: TestServer;
/** Gives back what it got. */
let mirror: MadeReactor;

const UNKNOWN_ID = '7d6f1f5e-0000-4000-8000-000000000000';
const CARD_NUMBER = '4242424242424242';
const card = { number: CARD_NUMBER, expiration_month: 12, expiration_year: 2030, cvc: '737' };
const MIRROR = codeOf('return { raw: args };');

beforeAll(async () => {
  fixture = await startReactorServer({ LOG_LEVEL: 'debug' });
  ({ server } = fixture);
  mirror = await makeReactor(server, { code: MIRROR });
});
afterAll(() => fixture.close());

const mirrorWith = (...request_parameters: Parameter[]) => makeReactor(server, { code: MIRROR, request_parameters });

const expectInvalid = async (reactor: MadeReactor, args: unknown, errors: Record<string, string[]>): Promise<void> => {
  expect(problemOf(await react(server, reactor, args))).toEqual({
    title: 'One or more validation errors occurred.',
    status: 400,
    errors,
  });
};

const countTokens = async (): Promise<number> => (await server.sql('SELECT count(*)::int AS n FROM tokens'))[0].n;

/** Ids of texts that are kept for the purpose. */
const manyTokens = async (count: number): Promise<string[]> => {
  const answer = await server.tokenize(Array.from({ length: count }, (_, index) => `value ${index}`));
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

const expressionOf = (id: string): string => `{{ ${id} }}`;

describe('a declared parameter', () => {
  test.each<[Parameter['type'], [given: unknown, cast: unknown][], refused: unknown[], sentence: string]>([
    [
      'number',
      [
        ['12', 12],
        ['01', 1],
        ['-0.5', -0.5],
        ['1.5e3', 1500],
        [7, 7],
      ],
      ['', ' 12', '12 ', '0x10', '12,5', 'abc', 'Infinity', '1e999', '9007199254740993', true, {}, []],
      'must be a number',
    ],
    [
      'string',
      [
        [12, '12'],
        [1.5, '1.5'],
        [true, 'true'],
        [false, 'false'],
        ['', ''],
        ['x', 'x'],
      ],
      [{}, [], ['x']],
      'must be a string',
    ],
    [
      'boolean',
      [
        ['true', true],
        ['FALSE', false],
        ['True', true],
        [false, false],
      ],
      ['yes', '', '1', ' true', 1, 0, {}, []],
      'must be true or false',
    ],
  ])('of type %s is cast where nothing is lost, and is a 400 where not', async (type, casts, refused, sentence) => {
    const reactor = await mirrorWith({ name: 'value', type });
    const got: unknown[] = [];
    for (const [value] of casts) got.push((await rawOf(react(server, reactor, { value }))).value);
    expect(got).toEqual(casts.map(([, cast]) => cast));
    for (const value of refused) await expectInvalid(reactor, { value }, { 'args.value': [sentence] });
  });

  test('below another is cast in its place, and what lies beside it stays as it is', async () => {
    const reactor = await mirrorWith(
      { name: 'order.line.amount', type: 'number' },
      { name: 'order.line.currency', type: 'string' },
      { name: 'order.is_paid', type: 'boolean' },
    );
    const args = { order: { line: { amount: '12', currency: 978, note: ['x'] }, is_paid: 'TRUE', id: 5 }, n: null };
    expect(await rawOf(react(server, reactor, args))).toEqual({
      order: { line: { amount: 12, currency: '978', note: ['x'] }, is_paid: true, id: 5 },
      n: null,
    });
    await expectInvalid(reactor, { order: 'x' }, { 'args.order': ['must be an object'] });
    await expectInvalid(reactor, { order: { line: [], is_paid: true } }, { 'args.order.line': ['must be an object'] });
    await expectInvalid(reactor, [], { args: ['must be an object'] });
    // A name with a dot in it is no way down.
    await expectInvalid(
      reactor,
      { 'order.line.amount': 1, order: { line: { currency: 'x' }, is_paid: true } },
      { 'args.order.line.amount': ['is required'] },
    );
  });

  test('is another one in another case', async () => {
    const reactor = await mirrorWith(
      { name: 'amount', type: 'number' },
      { name: 'Amount', type: 'string', optional: true },
    );
    await expectInvalid(reactor, { AMOUNT: 1, Amount: 'x' }, { 'args.amount': ['is required'] });
    expect(await rawOf(react(server, reactor, { amount: '1', Amount: 2, AMOUNT: '3' }))).toEqual({
      amount: 1,
      Amount: '2',
      AMOUNT: '3',
    });
  });

  test('that is not optional must be there: all missing ones are named, and null is no value', async () => {
    const reactor = await mirrorWith(
      { name: 'one', type: 'string' },
      { name: 'two.three', type: 'number' },
      { name: 'toString', type: 'string' },
      { name: 'four', type: 'boolean', optional: true },
    );
    const missing = {
      'args.one': ['is required'],
      'args.two.three': ['is required'],
      'args.toString': ['is required'],
    };
    for (const args of [undefined, null, {}, { one: null, two: null, four: null }, { two: {} }])
      await expectInvalid(reactor, args, missing);
    const given = { one: '', two: { three: 0 }, toString: 'x' };
    expect(await rawOf(react(server, reactor, given))).toEqual(given);
    expect(await rawOf(react(server, reactor, { ...given, four: 'false' }))).toEqual({ ...given, four: false });
    await expectInvalid(reactor, { ...given, four: 'no' }, { 'args.four': ['must be true or false'] });
  });
});

describe('tokens in args', () => {
  test('give their value with its type, in place and in text, and what it holds is no expression', async () => {
    const [number, thing] = [await tokenOf(server, 5), await tokenOf(server, { a: [1, null] })];
    const bait = await tokenOf(server, expressionOf(number));
    const raw = await rawOf(
      react(server, mirror, {
        number: expressionOf(number),
        list: [expressionOf(thing), { deep: `no. ${expressionOf(number)}` }],
        bait: expressionOf(bait),
        [expressionOf(number)]: 'a name',
      }),
    );
    expect(raw).toEqual({
      number: 5,
      list: [{ a: [1, null] }, { deep: 'no. 5' }],
      bait: expressionOf(number),
      [expressionOf(number)]: 'a name',
    });
  });

  test('are opened whole: a card with its security code, while that lives', async () => {
    const id = await tokenOf(server, card, { type: 'card' });
    expect(await rawOf(react(server, mirror, { card: expressionOf(id) }))).toEqual({ card });
    const { cvc, ...rest } = card;
    server.clock.offsetMs += server.ctx.config.cvcTtlMs;
    try {
      expect(await rawOf(react(server, mirror, { card: expressionOf(id) }))).toEqual({ card: rest });
    } finally {
      server.clock.offsetMs -= server.ctx.config.cvcTtlMs;
    }
    expect(cvc).toBe('737');
  });

  test('are opened before args are checked and cast: one card is several parameters', async () => {
    const reactor = await mirrorWith(
      { name: 'card.number', type: 'string' },
      { name: 'card.expiration_month', type: 'string' },
      { name: 'card.expiration_year', type: 'number' },
      { name: 'amount', type: 'number' },
    );
    const id = await tokenOf(server, card, { type: 'card' });
    const amount = await tokenOf(server, '1250');
    expect(await rawOf(react(server, reactor, { card: expressionOf(id), amount: expressionOf(amount) }))).toEqual({
      card: { ...card, expiration_month: '12' },
      amount: 1250,
    });
    // A text with an expression in it is a text, and no card.
    await expectInvalid(reactor, { card: ` ${expressionOf(id)}`, amount: 1 }, { 'args.card': ['must be an object'] });
  });

  test('are at most 100 different ones: 101 are a 400 that opens none', async () => {
    const ids = await manyTokens(101);
    const hundred = ids.slice(0, 100).map(expressionOf);
    expect(await rawOf(react(server, mirror, [...hundred, ...hundred]))).toHaveLength(200);
    const before = await usesOf(server, ...ids);
    const refused = await react(server, mirror, ids.map(expressionOf));
    const { status, errors } = problemOf(refused);
    expect([status, Object.values(errors)]).toEqual([400, [['must refer to at most 100 tokens']]]);
    expect(await usesOf(server, ...ids)).toEqual(before);
  });

  test('that are unknown or another tenant’s are a 400 that names them, both alike', async () => {
    const otherTenant = await server.newTenant();
    const theirs = await tokenOf(server, 'theirs', {}, otherTenant.api_key);
    const refusals = [];
    for (const id of [theirs, UNKNOWN_ID]) {
      const { detail, ...rest } = problemOf(await react(server, mirror, { value: expressionOf(id) }));
      expect(detail).toBe(`Failed to detokenize some tokens: ${id}`);
      refusals.push(rest);
    }
    expect(refusals[0]).toEqual(refusals[1]);
    expect(refusals[0]).toMatchObject({ status: 400 });
    expect(await usesOf(server, theirs)).toEqual([]);
  });

  test('need token:use on the container of each: else a 403 that opens none of them', async () => {
    const near = await tokenOf(server, 'near', { containers: ['/general/near/'] });
    const far = await tokenOf(server, 'far', { containers: ['/general/far/'] });
    const { api_key: key } = await server.newKey(server.tenant, {
      permissions: ['token:read'],
      rules: [{ priority: 1, container: '/general/near/', transform: 'reveal', permissions: ['token:use'] }],
    });
    expect(await rawOf(react(server, mirror, { near: expressionOf(near) }, { key }))).toEqual({ near: 'near' });
    const before = await usesOf(server, near, far);
    const refused = problemOf(await react(server, mirror, [near, far].map(expressionOf), { key }));
    expect(refused).toMatchObject({ status: 403, detail: expect.stringContaining('token:use') });
    expect(await usesOf(server, near, far)).toEqual(before);
  });
});

describe('what is not declared', () => {
  test('is passed on as it is, beside what is', async () => {
    const reactor = await mirrorWith({ name: 'a.b', type: 'number' });
    const args = { a: { b: 1, c: '1' }, d: [{ e: '2' }], f: null, constructor: { g: 1 } };
    expect(await rawOf(react(server, reactor, args))).toEqual(args);
  });

  test('is any payload where nothing is declared, and {} where nothing is sent', async () => {
    for (const args of [5, 'text', true, false, [1, [null]], { a: null }, '', 0, []])
      expect(await rawOf(react(server, mirror, args))).toEqual(args);
    expect(await rawOf(react(server, mirror))).toEqual({});
    const bodiless = await server.request('POST', `/reactors/${mirror.id}/react`);
    expect([bodiless.status, bodiless.body]).toEqual([200, { raw: {} }]);
  });

  test('as a body that is no object of args is a 400', async () => {
    for (const json of [[], 'x', 5])
      expect((await server.request('POST', `/reactors/${mirror.id}/react`, { json })).status).toBe(400);
  });
});

describe('what code gets beside args', () => {
  const SHOW = codeOf(`
    return { raw: { configuration, names: Object.keys(req).sort(), svc: svc === null ? null : typeof svc, same: req.bt === svc } };`);

  test('is the configuration of its reactor, with its types', async () => {
    const configuration = { KEY: 'sk_live', LIMIT: 12.5, LIVE: false };
    const contract = [
      { name: 'KEY', type: 'string' },
      { name: 'LIMIT', type: 'number' },
      { name: 'LIVE', type: 'boolean' },
    ];
    const reactor = await makeReactor(server, { code: SHOW, contract, configuration });
    expect((await rawOf(react(server, reactor))).configuration).toEqual(configuration);
  });

  test('is svc, null without an application and an object with one', async () => {
    const application = await server.newKey(server.tenant, { permissions: ['token:read'] });
    const [without, having] = [
      await makeReactor(server, { code: SHOW }),
      await makeReactor(server, { code: SHOW, application }),
    ];
    expect(await rawOf(react(server, without))).toMatchObject({ svc: null, same: true });
    expect(await rawOf(react(server, having))).toMatchObject({ svc: 'object', same: true });
  });
});

describe('a configuration that its formula no longer takes', () => {
  test('is a 400, and neither are tokens opened nor is the code run', async () => {
    const contract = [{ name: 'KEY', type: 'string' }];
    const code = codeOf(`await fetch('${fixture.url}/misfit'); return {};`);
    const reactor = await makeReactor(server, { code, contract, configuration: { KEY: 'x' } });
    const json = { name: 'Formula', type: 'private', code, configuration: [{ name: 'KEY', type: 'number' }] };
    const changed = await server.request('PUT', `/reactor-formulas/${reactor.formula_id}`, { json });
    expect(changed.status, changed.text).toBe(200);
    const id = await tokenOf(server, 'value');
    await expectInvalid(reactor, { value: expressionOf(id) }, { 'configuration.KEY': ['must be a number'] });
    expect(await usesOf(server, id, reactor.id)).toEqual([]);
    expect(fixture.receivedAt('/misfit')).toEqual([]);
  });
});

describe('the log', () => {
  test.each([
    ['with tokens in its args', true],
    ['without any', false],
  ])('of an invocation %s is written when its first call leaves the server', async (_name, hasTokens) => {
    const path = `/logged-${hasTokens}`;
    const reactor = await makeReactor(server, `await fetch('${fixture.url}${path}'); return { raw: 'done' };`);
    const ids = hasTokens ? [await tokenOf(server, 'value'), await tokenOf(server, card, { type: 'card' })] : [];
    let seen: unknown;
    fixture.routes.set(path, async (_request, response) => {
      seen = await usesOf(server, reactor.id, ...ids);
      response.end();
    });
    expect(await rawOf(react(server, reactor, ids.map(expressionOf)))).toBe('done');
    const use = (entity_type: string, id: string | undefined) => ({
      actor_id: server.tenant.application_id,
      entity_type,
      entity_ids: [id],
    });
    const rows = [use('reactor', reactor.id), ...(hasTokens ? [use('token', ids[0]), use('card', ids[1])] : [])];
    expect(seen).toHaveLength(rows.length);
    expect(seen).toEqual(expect.arrayContaining(rows));
    expect(await usesOf(server, reactor.id, ...ids)).toEqual(seen);
  });

  test('is written for args that do not fit as well: their tokens were opened', async () => {
    const reactor = await mirrorWith({ name: 'amount', type: 'number' });
    const id = await tokenOf(server, 'no number');
    await expectInvalid(reactor, { amount: expressionOf(id) }, { 'args.amount': ['must be a number'] });
    expect((await usesOf(server, id)).map(({ entity_ids }) => entity_ids)).toEqual([[id]]);
  });

  test('that cannot be written is a 503 with Retry-After, and nothing leaves the server', async () => {
    const path = '/unlogged';
    const reactor = await makeReactor(
      server,
      `try { await fetch('${fixture.url}${path}', { method: 'POST', body: JSON.stringify(args) }); } catch {} return { raw: args };`,
    );
    const id = await tokenOf(server, 'secret value');
    await withoutLog(server, async () => {
      for (const args of [{ value: expressionOf(id) }, { value: 'plain value' }]) {
        const answer = await react(server, reactor, args);
        expect(problemOf(answer)).toMatchObject({ status: 503 });
        expect(answer.headers.get('retry-after')).toBe('1');
        expect(answer.text).not.toMatch(/secret value|plain value/);
      }
    });
    expect(fixture.receivedAt(path)).toEqual([]);
    expect(await rawOf(react(server, reactor, { value: expressionOf(id) }))).toEqual({ value: 'secret value' });
    expect(fixture.receivedAt(path)).toHaveLength(1);
  });
});

describe('a result', () => {
  test('is an object with raw, tokenize, both or neither, as JSON writes it', async () => {
    const cases: [body: string, answer: object][] = [
      ['return;', {}],
      ['return null;', {}],
      ['return {};', {}],
      ['return { raw: undefined };', {}],
      ['return { raw: null };', { raw: null }],
      ['return { raw: [1, "x", { a: false }] };', { raw: [1, 'x', { a: false }] }],
      ['return { raw: 1, tokens: 2, logs: 3, status: 500 };', { raw: 1 }],
      ['return { raw: { at: new Date(0), no: () => 1 } };', { raw: { at: '1970-01-01T00:00:00.000Z' } }],
      ['return { raw: "é 😀 \\u2028" };', { raw: 'é 😀 \u2028' }],
    ];
    for (const [body, answer] of cases) {
      const { status, body: got, text, headers } = await runBody(server, body);
      expect([status, got], text).toEqual([200, answer]);
      expect(headers.get('content-type')).toContain('application/json');
    }
  });

  test('of any other kind is a 500 that says what a result is', async () => {
    for (const value of ['5', '"text"', 'true', '[{ raw: 1 }]'])
      expect(problemOf(await runBody(server, `return ${value};`))).toMatchObject({
        status: 500,
        detail: 'Reactor Runtime Error',
        errors: { error: ['The code must return an object with `raw`, `tokenize`, both or neither.'] },
      });
  });

  test('of what is no JSON is a 500', async () => {
    for (const value of ['{ raw: 1n }', '(() => { const a = {}; a.raw = a; return a; })()'])
      expect(problemOf(await runBody(server, `return ${value};`))).toMatchObject({
        status: 500,
        detail: 'Reactor Runtime Error',
      });
  });

  test('larger than 5 MB is a 500 that says so', async () => {
    expect(problemOf(await runBody(server, 'return { raw: "x".repeat(5 * 1024 * 1024) };'))).toMatchObject({
      status: 500,
      detail: 'Reactor Runtime Error',
      errors: { error: ['The result must not be larger than 5 MB.'] },
    });
    expect((await rawOf(runBody(server, 'return { raw: "x".repeat(5e6) };'))).length).toBe(5e6);
  });
});

describe('the line of an error', () => {
  test.each([
    ['of any class', "throw new TypeError('no');", 500, 'TypeError'],
    ['of a name of its own', "throw Object.assign(new Error('no'), { name: '4242424242424242' });", 500, 'Error'],
    ['of the SDK', "throw new (require('@svc/reactor-formulas-sdk').BadRequestError)('no');", 400, 'BadRequestError'],
  ])('%s is told in a header beside the problem, whose shape stays', async (_what, statement, status, name) => {
    const reactor = await makeReactor(server, { code: `\nmodule.exports = () => {\n\n  ${statement}\n};` });
    const answer = await react(server, reactor, {});
    expect(answer.status).toBe(status);
    expect([answer.headers.get('svc-code-line'), answer.headers.get('svc-code-error')]).toEqual(['4', name]);
    expect(Object.keys(answer.body).toSorted()).toEqual([
      'code',
      'codes',
      'detail',
      'errors',
      'status',
      'title',
      'trace_id',
    ]);
  });
});

describe('what a result has tokenized', () => {
  let weak: TestTenant;
  let strong: TestTenant;
  const TOKENIZE = codeOf('return { raw: "done", tokenize: args };');
  beforeAll(async () => {
    weak = await server.newKey(server.tenant, { permissions: ['token:use'] });
    strong = await server.newKey(server.tenant, { permissions: ['token:use', 'token:create', 'token:read'] });
  });

  test('comes back under tokens as POST /tokenize answers it, beside raw', async () => {
    const reactor = await makeReactor(server, { code: TOKENIZE });
    const { status, body, text } = await react(server, reactor, { a: 'x', list: [{ type: 'card', data: card }, null] });
    expect(status, text).toBe(200);
    expect(Object.keys(body).toSorted()).toEqual(['raw', 'tokens']);
    expect(body.raw).toBe('done');
    expect(body.tokens).toMatchObject({
      a: expect.any(String),
      list: [{ type: 'card', id: expect.any(String) }, null],
    });
    expect((await server.request('GET', `/tokens/${body.tokens.a}`)).body.data).toBe('x');
    const opened = await rawOf(react(server, mirror, expressionOf(body.tokens.list[0].id)));
    expect(opened).toEqual(card);
  });

  test("is the application’s where the reactor has one, and not the caller's", async () => {
    const [may, mayNot] = [
      await makeReactor(server, { code: TOKENIZE, application: strong }),
      await makeReactor(server, { code: TOKENIZE, application: weak }),
    ];
    const done = await react(server, may, { type: 'token', data: 'x' }, { key: weak.api_key });
    expect(done.status, done.text).toBe(200);
    expect(done.body.tokens.created_by).toBe(strong.application_id);
    const before = await countTokens();
    const refused = problemOf(await react(server, mayNot, 'x', { key: strong.api_key }));
    expect(refused).toMatchObject({ status: 403, detail: expect.stringContaining('token:create') });
    expect(await countTokens()).toBe(before);
  });

  test('is the caller’s where it has none', async () => {
    const reactor = await makeReactor(server, { code: TOKENIZE });
    const done = await react(server, reactor, { type: 'token', data: 'x' }, { key: strong.api_key });
    expect(done.body.tokens.created_by).toBe(strong.application_id);
    const before = await countTokens();
    expect(problemOf(await react(server, reactor, 'x', { key: weak.api_key }))).toMatchObject({
      status: 403,
      detail: expect.stringContaining('token:create'),
    });
    expect(await countTokens()).toBe(before);
  });

  test('is stored completely or not at all, and errors name their place', async () => {
    const reactor = await makeReactor(server, { code: TOKENIZE });
    const before = await countTokens();
    const cases: [args: unknown, ...places: string[]][] = [
      [['fine', { type: 'card', data: { ...card, number: '1' } }], 'tokenize[1].data.number'],
      [{ a: 'fine', b: { c: { type: 'nope', data: 1 } } }, 'tokenize.b.c.type'],
      [{ type: 'card', data: { ...card, number: '1' } }, 'tokenize.data.number'],
      [Array.from({ length: 10_001 }, () => 1), 'tokenize'],
    ];
    for (const [args, ...places] of cases) {
      const problem = problemOf(await react(server, reactor, args));
      expect(problem.status).toBe(400);
      expect(Object.keys(problem.errors)).toEqual(places);
    }
    expect(await countTokens()).toBe(before);
  });

  test('weighs no more than a body: 1 MB is a 413', async () => {
    const before = await countTokens();
    expect((await runBody(server, 'return { tokenize: "x".repeat(1024 * 1024) };')).status).toBe(413);
    expect(await countTokens()).toBe(before);
  });

  test('is not kept under a key that was taken away during the run', async () => {
    const path = '/take-away';
    const reactor = await makeReactor(server, `await fetch('${fixture.url}${path}'); return { tokenize: 'x' };`);
    const doomed = await server.newKey(server.tenant, { permissions: ['token:use', 'token:create'] });
    fixture.routes.set(path, async (_request, response) => {
      const gone = await server.request('DELETE', `/applications/${doomed.application_id}`);
      response.writeHead(gone.status === 204 ? 200 : 500).end();
    });
    const before = await countTokens();
    const answer = await react(server, reactor, {}, { key: doomed.api_key });
    expect(answer.status, answer.text).toBe(403);
    expect(await countTokens()).toBe(before);
    expect((await react(server, reactor, {}, { key: doomed.api_key })).status).toBe(401);
  });

  test('is not kept under an application that was deleted during the run', async () => {
    const path = '/delete-application';
    const doomed = await server.newKey(server.tenant, { permissions: ['token:create'] });
    const code = codeOf(`await fetch('${fixture.url}${path}'); return { tokenize: 'x' };`);
    const reactor = await makeReactor(server, { code, application: doomed });
    fixture.routes.set(path, async (_request, response) => {
      await server.request('DELETE', `/applications/${doomed.application_id}`);
      response.end();
    });
    const before = await countTokens();
    expect((await react(server, reactor)).status).toBe(403);
    expect(await countTokens()).toBe(before);
  });
});

describe('an error of the code', () => {
  test.each<[name: string, status: number, detail: string]>([
    ['BadRequestError', 400, 'Bad Request'],
    ['InvalidReactorConfigurationError', 400, 'Invalid Reactor Configuration'],
    ['AuthenticationError', 401, 'Authentication Failed'],
    ['InvalidPaymentMethodError', 402, 'Invalid Payment Method'],
    ['AuthorizationError', 403, 'Forbidden'],
    ['InvalidReactorFormulaError', 422, 'Invalid Reactor Formula'],
    ['RateLimitError', 429, 'Rate Limit Exceeded'],
    ['ReactorRuntimeError', 500, 'Reactor Runtime Error'],
    ['ServiceUnavailableError', 503, 'Service Unavailable'],
  ])('of class %s is a %i with its words, and Retry-After where one must wait', async (name, status, detail) => {
    const code = codeOf(`
      const sdk = require(args.alias ? '@basis-theory/basis-theory-reactor-formulas-sdk-js' : '@svc/reactor-formulas-sdk');
      throw new sdk.${name}(args.given);`);
    const reactor = await makeReactor(server, { code });
    const cases: [given: unknown, errors: Record<string, string[]>][] = [
      ['one', { error: ['one'] }],
      [['one', 'two'], { error: ['one', 'two'] }],
      [
        { amount: ['must be above 0'], other: 'x' },
        { amount: ['must be above 0'], other: ['x'] },
      ],
    ];
    for (const [given, errors] of cases) {
      const answer = await react(server, reactor, { given, alias: given === 'one' });
      expect(problemOf(answer)).toEqual({ title: 'One or more validation errors occurred.', status, detail, errors });
      expect(answer.headers.get('retry-after')).toBe(status === 429 || status === 503 ? '1' : null);
    }
  });

  test('that is none of these is a 500 with its message, without paths of the server', async () => {
    const cases: [statement: string, words: string][] = [
      ['throw new Error("it broke")', 'it broke'],
      ['throw Object.assign(new Error("pay"), { status: 402, statusCode: 402 })', 'pay'],
      ['throw { name: "BadRequestError", status: 400, message: "no", errors: {} }', 'no'],
      ['throw "words"', 'words'],
      ['throw undefined', 'undefined'],
      ['throw { get message() { throw new Error("inner"); } }', ''],
      ['return Promise.reject(new TypeError("late"))', 'late'],
      ['await new Promise(() => setTimeout(() => { throw new Error("timer"); }, 1))', 'timer'],
      ["throw new (require('@svc/reactor-formulas-sdk').ReactorError)('base')", 'base'],
    ];
    for (const [statement, words] of cases) {
      const problem = problemOf(await runBody(server, `${statement};`));
      expect(problem).toEqual({
        title: 'One or more validation errors occurred.',
        status: 500,
        detail: 'Reactor Runtime Error',
        errors: { error: [expect.stringContaining(words)] },
      });
      expect(JSON.stringify(problem)).not.toMatch(/formula\.js|\bat \w|node:|\.ts\b/);
    }
  });

  test('says 4 KB in all, in whole characters', async () => {
    for (const [text, least] of [
      ['x', 4000],
      ['é', 2000],
      ['😀', 1000],
    ] as const) {
      const { errors } = problemOf(await runBody(server, `throw new Error(${JSON.stringify(text)}.repeat(20000));`));
      const [words] = errors.error;
      expect(Buffer.byteLength(words)).toBeLessThanOrEqual(4096);
      expect([...words].length).toBeGreaterThanOrEqual(least);
      expect(new Set(words)).toEqual(new Set([text]));
    }
    const many = problemOf(
      await runBody(
        server,
        `const errors = {}; for (let i = 0; i < 500; i++) errors['name' + i] = ['x'.repeat(100)];
         throw new (require('@svc/reactor-formulas-sdk').BadRequestError)(errors);`,
      ),
    );
    expect(many.status).toBe(400);
    const words = Object.entries<string[]>(many.errors).flat(2);
    expect(words.reduce((bytes, each) => bytes + Buffer.byteLength(each), 0)).toBeLessThanOrEqual(4096);
  });

  test('goes to its caller and into no line of the log', async () => {
    const id = await tokenOf(server, card, { type: 'card' });
    const throwing = await makeReactor(
      server,
      `const { BadRequestError, CustomHttpResponseError } = require('@svc/reactor-formulas-sdk');
       console.error(args.card.number);
       if (args.how === 'plain') throw new Error('card ' + args.card.number);
       if (args.how === 'sdk') throw new BadRequestError({ card: [args.card.number] });
       if (args.how === 'result') return { raw: args.card, tokenize: { type: 'card', data: { number: args.card.number + '1' } } };
       if (args.how === 'call') await fetch('https://127.0.0.1/' + args.card.number);
       throw new CustomHttpResponseError({ status: 502, body: args.card });`,
    );
    for (const how of ['plain', 'sdk', 'result', 'call', 'own'])
      expect((await react(server, throwing, { how, card: expressionOf(id) })).status).toBeGreaterThan(399);
    expect(server.logLines.length).toBeGreaterThan(0);
    const lines = server.logLines.join('');
    expect(lines).not.toContain(CARD_NUMBER);
    const rows = await server.sql(`SELECT * FROM audit_log WHERE entity_ids && $1::text[]`, [[id, throwing.id]]);
    expect(rows.length).toBeGreaterThanOrEqual(10);
    expect(JSON.stringify(rows)).not.toContain(CARD_NUMBER);
  });
});

describe('a CustomHttpResponseError', () => {
  const respond = (response: string) =>
    runBody(server, `throw new (require('@svc/reactor-formulas-sdk').CustomHttpResponseError)(${response});`);

  test('is the response: its status, its headers and its body', async () => {
    const object = await respond('{ status: 418, headers: { "X-Thing": "a", "Retry-After": "7" }, body: { a: [1] } }');
    expect([object.status, object.text]).toEqual([418, '{"a":[1]}']);
    expect(object.headers.get('x-thing')).toBe('a');
    expect(object.headers.get('retry-after')).toBe('7');
    expect(object.headers.get('content-type')).toContain('application/json');
    const text = await respond('{ status: 201, body: "words" }');
    expect([text.status, text.text, text.headers.get('content-type')]).toEqual([
      201,
      'words',
      'text/plain; charset=utf-8',
    ]);
    const own = await respond('{ status: 200, headers: { "content-type": "application/xml" }, body: "<a/>" }');
    expect([own.status, own.text, own.headers.get('content-type')]).toEqual([200, '<a/>', 'application/xml']);
    const moved = await respond('{ status: 302, headers: { location: "https://shop.example/" } }');
    expect([moved.status, moved.text, moved.headers.get('location')]).toEqual([302, '', 'https://shop.example/']);
    expect((await respond('{}')).status).toBe(500);
    expect((await respond('{ status: 204, body: "x" }')).text).toBe('');
  });

  test('has no header of framing, of the connection, or by which the server speaks for itself', async () => {
    const plain = await react(server, mirror);
    const withheld = {
      'Set-Cookie': 'a=b',
      'Transfer-Encoding': 'chunked',
      'Content-Length': '1',
      'Content-Encoding': 'gzip',
      Connection: 'x-thing',
      'Cache-Control': 'public, max-age=99999',
      'Access-Control-Allow-Origin': '*',
      'Content-Security-Policy': 'default-src *',
      'Strict-Transport-Security': 'max-age=0',
      'X-Content-Type-Options': 'sniff',
      'X-Frame-Options': 'ALLOW',
      'Cross-Origin-Resource-Policy': 'cross-origin',
      'SVC-Trace-Id': 'forged',
      Server: 'forged',
    };
    const answer = await respond(
      `{ status: 200, headers: ${JSON.stringify({ ...withheld, 'x-thing': 'a' })}, body: 'xx' }`,
    );
    expect([answer.status, answer.text, answer.headers.get('x-thing')]).toEqual([200, 'xx', 'a']);
    for (const [name, value] of Object.entries(withheld)) expect(answer.headers.get(name), name).not.toBe(value);
    expect(answer.headers.get('content-security-policy')).toBe("sandbox; default-src 'none'");
    for (const name of ['cache-control', 'x-content-type-options', 'server'])
      expect(answer.headers.get(name), name).toBe(plain.headers.get(name));
  });

  test('that no server could send, or that is too large, is a 500 like any other', async () => {
    for (const response of [
      '{ status: 101 }',
      '{ status: 600 }',
      '{ status: "200" }',
      '{ status: 200, headers: { a: "b\\r\\nset-cookie: c" } }',
      '{ status: 200, headers: { "a b": "c" } }',
      '{ status: 200, headers: Object.fromEntries(Array.from({ length: 51 }, (_, i) => ["h" + i, "v"])) }',
      '{ status: 200, headers: { a: "x".repeat(8192) } }',
      '{ status: 200, body: "x".repeat(5 * 1024 * 1024 + 1) }',
    ])
      expect(problemOf(await respond(response)), response).toMatchObject({
        status: 500,
        detail: 'Reactor Runtime Error',
      });
  });
});

describe('what is too much', () => {
  test('args over 5 MB with token values in them are a 413, and so is a body over 1 MB', async () => {
    const id = await tokenOf(server, 'x'.repeat(900_000));
    const six = Array.from({ length: 6 }, () => expressionOf(id));
    expect(problemOf(await react(server, mirror, six))).toMatchObject({ status: 413 });
    expect(await rawOf(react(server, mirror, six.slice(1)))).toHaveLength(5);
    expect((await react(server, mirror, 'x'.repeat(1024 * 1024))).status).toBe(413);
  });

  test('time and CPU time beyond the limits are a 408 that says which, and the next run is served', async () => {
    const small = await startReactorServer({ SANDBOX_WALL_MS: '1500', SANDBOX_CPU_MS: '200' });
    try {
      const reactor = await makeReactor(
        small.server,
        'if (args === "cpu") for (;;); if (args === "wall") await new Promise(() => {}); return { raw: args };',
      );
      for (const [args, words] of [
        ['wall', 'The code must end within 1.5 s.'],
        ['cpu', 'The code must not take more than 0.2 s of CPU time.'],
      ]) {
        expect(problemOf(await react(small.server, reactor, args))).toEqual({
          title: 'One or more validation errors occurred.',
          status: 408,
          detail: 'Reactor Runtime Error',
          errors: { error: [words] },
        });
        expect(await rawOf(react(small.server, reactor, 'fine'))).toBe('fine');
      }
    } finally {
      await small.close();
    }
  });
});

describe('a reactor', () => {
  test('returns its own, in turn and in parallel with another of the same formula or code', async () => {
    const wanted = {
      code: codeOf(
        `await new Promise((r) => setTimeout(r, args.n % 3)); return { raw: [configuration.NAME, args.n] };`,
      ),
      contract: [{ name: 'NAME', type: 'string' }],
    };
    const formula_id = await makeFormula(server, wanted);
    const other = await makeReactor(server, { ...wanted, configuration: { NAME: 'three' } });
    const ids = [
      await makeReactorOf(server, formula_id, { configuration: { NAME: 'one' } }),
      await makeReactorOf(server, formula_id, { configuration: { NAME: 'two' } }),
      other.id,
    ];
    const names = ['one', 'two', 'three'];
    const ask = (n: number) => rawOf(react(server, ids[n % 3] as string, { n }));
    const expected = Array.from({ length: 24 }, (_, n) => [names[n % 3], n]);
    const inTurn: unknown[] = [];
    for (let n = 0; n < 6; n += 1) inTurn.push(await ask(n));
    expect(inTurn).toEqual(expected.slice(0, 6));
    expect(await Promise.all(expected.map((_, n) => ask(n)))).toEqual(expected);
  });

  test('runs the new code of its formula from the next invocation on', async () => {
    const reactor = await makeReactor(server, 'return { raw: 0 };');
    for (let version = 0; version < 4; version += 1) {
      expect(await rawOf(react(server, reactor))).toBe(version);
      const json = { name: 'Formula', type: 'private', code: codeOf(`return { raw: ${version + 1} };`) };
      const changed = await server.request('PUT', `/reactor-formulas/${reactor.formula_id}`, { json });
      expect(changed.status, changed.text).toBe(200);
    }
    expect(await rawOf(react(server, reactor))).toBe(4);
  });
});
