// Reactors in the console: written, saved, tried, by a member with a browser that has no scripts.
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { ICON_IN_DOCUMENTS } from '../src/modules/code/formula-fields.ts';
import { installOfficialFormulas } from '../src/modules/code/official.ts';
import { type Browser, type ConsoleServer, fieldIn, startConsole, textOf } from './support/console.ts';
import { codeOf, makeReactor, makeReactorOf, react } from './support/reactors.ts';
import type { Answer, TestTenant } from './support/server.ts';

const CARD = '4242424242424242';
const SHOWN_CARD = 'XXXXXXXXXXXX4242';

let server: ConsoleServer;
let member: Browser;
let anonymous: { browser: Browser; tenant: TestTenant };
beforeAll(async () => {
  server = await startConsole();
  member = await server.signIn();
  const tenant = await server.newTenant();
  anonymous = { tenant, browser: await server.signIn({ tenant }) };
});
afterAll(() => server.close());

const pathOf = ({ id }: { id: string }) => `/console/reactors/${id}`;

const apiReactor = async (id: string): Promise<any> => {
  const { status, body, text } = await server.request('GET', `/reactors/${id}`);
  expect(status, text).toBe(200);
  return body;
};

const countOf = async (table: string): Promise<number> =>
  (await server.sql(`SELECT count(*)::int AS count FROM ${table}`))[0].count;

const usesOf = async (id: string): Promise<number> =>
  (
    await server.sql(
      `SELECT count(*)::int AS count FROM audit_log WHERE operation = 'use' AND entity_ids && ARRAY[$1::text]`,
      [id],
    )
  )[0].count;

/** All that a browser sends of the page that it has, with what is typed instead. */
const fill = (page: string, typed: Record<string, string>): Record<string, string> => {
  const fields = ['name', 'code', 'args', 'seen'].map((name) => [name, fieldIn(page, name) ?? ''] as const);
  return { ...Object.fromEntries(fields), ...typed };
};

/** Opens a reactor's page, types, and presses a button. */
const press = async (reactor: { id: string }, button: string, typed: Record<string, string> = {}) => {
  const page = await member.get(pathOf(reactor));
  expect(page.status, page.text).toBe(200);
  return member.post(pathOf(reactor), { ...fill(page.text, typed), do: button });
};

describe('The list of reactors', () => {
  test('shows name, formula and application of the own tenant alone, as text', async () => {
    const name = `<img src=x onerror=alert(1)> "&' ${'long'.repeat(40)}`.slice(0, 200);
    const formula = await server.request('POST', '/reactor-formulas', {
      json: { name: '<b>Formula</b>', type: 'private', code: codeOf('return {};') },
    });
    const made = await server.request('POST', '/reactors', {
      json: { name, formula: { id: formula.body.id }, application: { id: server.tenant.application_id } },
    });
    expect(made.status, made.text).toBe(201);
    const { status, text } = await member.get('/console/reactors');
    expect(status).toBe(200);
    expect(text).not.toContain('<img src=x');
    expect(text).not.toContain('<b>Formula</b>');
    expect(textOf(text)).toContain(name);
    expect(textOf(text)).toContain('<b>Formula</b>');
    expect((await anonymous.browser.get('/console/reactors')).text).not.toContain(made.body.id);
  });

  test('is filtered by name, with stars, and has pages', async () => {
    const tenant = await server.newTenant();
    const browser = await server.signIn({ tenant });
    expect(textOf((await browser.get('/console/reactors')).text)).toContain('No reactors yet.');
    const { formula_id } = await makeReactor(server, { code: codeOf('return {};'), key: tenant.api_key });
    for (let count = 0; count < 21; count += 1)
      await server.request('POST', '/reactors', {
        json: { name: `Shop ${count}`, formula: { id: formula_id } },
        key: tenant.api_key,
      });
    const names = (text: string) => [...textOf(text).matchAll(/Shop \d+/g)].map(([name]) => name);
    const first = names((await browser.get('/console/reactors?name=Shop*')).text);
    const second = names((await browser.get('/console/reactors?name=Shop*&page=2')).text);
    expect([first.length, second]).toEqual([20, ['Shop 0']]);
    expect(names((await browser.get('/console/reactors?name=Shop+20')).text)).toEqual(['Shop 20']);
    expect(textOf((await browser.get('/console/reactors?name=nothing')).text)).toContain('No reactors match.');
  });
});

describe('A new reactor', () => {
  test('comes with a private formula and code that runs on the args that are there', async () => {
    await member.get('/console/reactors');
    const made = await member.post('/console/reactors', { name: 'From the console' });
    const page = await member.follow(made);
    expect(page.status).toBe(200);
    const path = new URL(made.headers.get('location') ?? '', server.base_url).pathname;
    const stored = await apiReactor(path.split('/').at(-1) ?? '');
    expect([stored.name, stored.formula.name, stored.formula.type]).toEqual([
      'From the console',
      'From the console',
      'private',
    ]);
    expect(fieldIn(page.text, 'code')).toBe(stored.formula.code);
    const ran = await member.post(path, { ...fill(page.text, {}), do: 'run' });
    expect(textOf(ran.text)).toContain('200 OK');
  });

  test('that is refused leaves nothing behind, and keeps the name that was typed', async () => {
    const before = [await countOf('reactors'), await countOf('reactor_formulas')];
    await member.get('/console/reactors');
    const name = `"<${'x'.repeat(250)}`;
    const { status, text } = await member.post('/console/reactors', { name });
    expect(status).toBe(400);
    expect(textOf(text)).toContain('The reactor was not created.');
    expect(fieldIn(text.slice(text.indexOf('New reactor')), 'name')).toBe(name);
    expect([await countOf('reactors'), await countOf('reactor_formulas')]).toEqual(before);
  });
});

describe('The editor', () => {
  test('gives back any code as text, byte for byte, when it is tested, deployed, run and opened', async () => {
    const reactor = await makeReactor(server, 'return {};');
    const code = `\n\n// </textarea><script>alert(1)</script> &amp; &#39; " \` \${x}\n${codeOf("return { raw: '</script>' };")}\n\n`;
    const typed = { code: code.replaceAll('\n', '\r\n'), args: '{}' };
    const tested = await press(reactor, 'test', typed);
    expect((await apiReactor(reactor.id)).formula.code).not.toBe(code);
    const saved = await press(reactor, 'deploy', typed);
    expect(saved.status, saved.text).toBe(200);
    expect((await apiReactor(reactor.id)).formula.code).toBe(code);
    const ran = await press(reactor, 'run', { args: '{}' });
    const opened = await member.get(pathOf(reactor));
    for (const { text } of [tested, saved, ran, opened]) {
      expect(fieldIn(text, 'code')).toBe(code);
      expect(text).not.toContain('<script>alert');
    }
    for (const { text } of [tested, ran]) expect(textOf(text)).toContain('"</script>"');
  });

  test('begins with args of the form that the formula asks for', async () => {
    const reactor = await makeReactor(server, {
      code: codeOf('return {};'),
      request_parameters: [
        { name: 'card.number', type: 'string' },
        { name: 'card.month', type: 'number' },
        { name: 'is_live', type: 'boolean' },
        { name: 'note', type: 'string', optional: true },
      ],
    });
    const { text } = await member.get(pathOf(reactor));
    expect(JSON.parse(fieldIn(text, 'args') ?? '')).toEqual({ card: { number: '', month: 0 }, is_live: false });
  });

  test('marks the line that does not compile, keeps what was typed, and changes and runs nothing', async () => {
    const reactor = await makeReactor(server, 'return {};');
    const before = await apiReactor(reactor.id);
    const code = 'module.exports = async () => {\n  const a = 1;\n  retrun a;\n};\n';
    const args = '{ "typed": "</textarea>" }';
    const { status, text } = await press(reactor, 'deploy', { code, args });
    expect(status).toBe(422);
    expect(text).toMatch(/<textarea[^>]* name="code"[^>]* data-error-line="3"/);
    expect(textOf(text)).toContain('does not compile: line 3, column 10 (Unexpected identifier)');
    expect([fieldIn(text, 'code'), fieldIn(text, 'args')]).toEqual([code, args]);
    expect(await apiReactor(reactor.id)).toEqual(before);
    expect(await usesOf(reactor.id)).toBe(0);
  });

  test('changes the code of a formula and nothing else of it', async () => {
    const fields = {
      name: 'Formula',
      type: 'private',
      description: 'What it is for',
      icon: ICON_IN_DOCUMENTS,
      configuration: [{ name: 'SHOP', type: 'string', description: 'The shop' }],
      request_parameters: [{ name: 'n', type: 'number', optional: true, description: 'A number' }],
    };
    const made = await server.request('POST', '/reactor-formulas', { json: { ...fields, code: codeOf('return {};') } });
    expect(made.status, made.text).toBe(201);
    const formula_id = made.body.id;
    const id = await makeReactorOf(server, formula_id, { configuration: { SHOP: 's' } });
    const code = codeOf('return { raw: 2 };');
    const shop = { 'configuration.SHOP': 's' };
    const named = await press({ id }, 'save', { code, ...shop, name: 'Named alone' });
    expect([(await apiReactor(id)).formula.code, fieldIn(named.text, 'code')]).toEqual([codeOf('return {};'), code]);
    const saved = await press({ id }, 'deploy', { code, ...shop });
    expect(saved.status, saved.text).toBe(200);
    const { formula, configuration } = await apiReactor(id);
    expect(formula).toMatchObject({ ...fields, code });
    expect(configuration).toEqual({ SHOP: 's' });
  });

  test('does not write over what somebody else changed meanwhile, until it is told again', async () => {
    const reactor = await makeReactor(server, 'return {};');
    const opened = await member.get(pathOf(reactor));
    const theirs = codeOf("return { raw: 'theirs' };");
    await press(reactor, 'deploy', { code: theirs });
    const mine = codeOf("return { raw: 'mine' };");
    const refused = await member.post(pathOf(reactor), { ...fill(opened.text, { code: mine }), do: 'deploy' });
    expect(refused.status).toBe(409);
    expect(fieldIn(refused.text, 'code')).toBe(mine);
    expect((await apiReactor(reactor.id)).formula.code).toBe(theirs);
    const again = await member.post(pathOf(reactor), { ...fill(refused.text, {}), do: 'deploy' });
    expect(again.status).toBe(200);
    expect((await apiReactor(reactor.id)).formula.code).toBe(mine);
  });

  test('overwrites no name and no configuration that another user changed meanwhile', async () => {
    const { body: formula } = await server.request('POST', '/reactor-formulas', {
      json: {
        name: 'Shop',
        type: 'private',
        code: codeOf('return {};'),
        configuration: [{ name: 'SHOP', type: 'string' }],
      },
    });
    const id = await makeReactorOf(server, formula.id, { configuration: { SHOP: 'first' } });
    const opened = await member.get(pathOf({ id }));
    const theirs = await press({ id }, 'save', { name: 'Theirs', 'configuration.SHOP': 'second' });
    expect(theirs.status, theirs.text).toBe(200);
    const typings: Record<string, string>[] = [{}, { code: codeOf("return { raw: 'mine' };") }];
    for (const typed of typings) {
      const mine = { ...fill(opened.text, typed), 'configuration.SHOP': 'first', do: 'deploy' };
      expect((await member.post(pathOf({ id }), mine)).status).toBe(409);
    }
    expect(await apiReactor(id)).toMatchObject({ name: 'Theirs', configuration: { SHOP: 'second' } });
  });

  test('shows the code of an official formula, which cannot be saved, and runs it', async () => {
    await installOfficialFormulas(server.ctx);
    const { body } = await server.request('GET', '/reactor-formulas?name=Card+check');
    const [official] = body.data;
    const id = await makeReactorOf(server, official.id);
    const page = await member.get(pathOf({ id }));
    expect(page.text).toMatch(/<textarea[^>]* name="code"[^>]* readonly/);
    expect(textOf(page.text)).toContain('cannot be changed here');
    const code = codeOf('return { raw: "mine" };');
    const refused = await press({ id }, 'deploy', { code });
    expect(refused.status).toBe(403);
    expect(textOf(refused.text)).toContain('Official formulas are installed by the operator');
    expect(fieldIn(refused.text, 'code')).toBe(code);
    expect((await apiReactor(id)).formula.code).toBe(official.code);
    const ran = await press({ id }, 'run', { args: JSON.stringify({ card: { number: CARD } }) });
    expect(textOf(ran.text)).toContain('200 OK');
    expect(textOf(ran.text)).toContain('visa');
  });

  test('gives typed code and args back where the session has ended meanwhile', async () => {
    const reactor = await makeReactor(server, 'return {};');
    const browser = await server.signIn();
    const page = await browser.get(pathOf(reactor));
    const code = '// </textarea><script>alert(1)</script> an hour of work';
    const typed = { ...fill(page.text, { code, args: '{"a":1}' }), do: 'deploy' };
    const stale = await browser.post(pathOf(reactor), { ...typed, csrf: 'another' });
    await browser.get(pathOf(reactor));
    await browser.post('/console/sign-out');
    const ended = await browser.post(pathOf(reactor), typed);
    expect([stale.status, ended.status]).toEqual([403, 401]);
    for (const { text } of [stale, ended]) {
      expect(text).not.toContain('<script>alert');
      expect(textOf(text)).toContain(code);
      expect(textOf(text)).toContain('{"a":1}');
    }
    expect((await apiReactor(reactor.id)).formula.code).not.toBe(code);
  });
});

describe('Name and configuration', () => {
  const contract = [
    { name: 'SHOP', type: 'string' },
    { name: 'LIMIT', type: 'number' },
    { name: 'LIVE', type: 'boolean' },
  ];
  let reactor: { id: string };
  beforeEach(async () => {
    reactor = await makeReactor(server, {
      code: codeOf('return { raw: configuration };'),
      contract,
      configuration: { SHOP: 'old', LIMIT: 1, LIVE: false },
      application: server.tenant,
    });
  });

  test('are saved with the types that the formula declares; the application stays', async () => {
    const typed = {
      'configuration.SHOP': 'line one\r\nline two',
      'configuration.LIMIT': '2.5',
      'configuration.LIVE': 'true',
    };
    const { status, text } = await press(reactor, 'save', { name: 'Renamed <b>', ...typed });
    expect(status, text).toBe(200);
    expect(await apiReactor(reactor.id)).toMatchObject({
      name: 'Renamed <b>',
      configuration: { SHOP: 'line one\nline two', LIMIT: 2.5, LIVE: true },
      application: { id: server.tenant.application_id },
    });
    expect(text).not.toContain('Renamed <b>');
  });

  test('that no longer fit the formula are shown beside their fields, and empty values stay', async () => {
    const { formula } = await apiReactor(reactor.id);
    const grown = [...contract, { name: 'ADDED', type: 'string' }];
    const json = { name: 'Formula', type: 'private', code: formula.code, configuration: grown, request_parameters: [] };
    expect((await server.request('PUT', `/reactor-formulas/${formula.id}`, { json })).status).toBe(200);
    const kept = { 'configuration.SHOP': 'old', 'configuration.LIMIT': '1', 'configuration.LIVE': 'false' };
    expect((await press(reactor, 'deploy', { ...kept, code: `${formula.code}\n` })).status).toBe(200);
    const { text } = await press(reactor, 'run', kept);
    expect(textOf(text)).toContain('400 Bad Request');
    expect(text).toContain('id="configuration.ADDED-problem"');
    expect(text).toMatch(/<details open><summary>Name and configuration/);
    expect(await apiReactor(reactor.id)).toMatchObject({
      formula: { code: `${formula.code}\n` },
      configuration: { SHOP: 'old', LIMIT: 1, LIVE: false },
    });
  });

  test('that do not fit are told beside their field, kept, and not run with', async () => {
    const typed = { 'configuration.SHOP': 'new', 'configuration.LIMIT': '"><b>many', 'configuration.LIVE': '' };
    const { status, text } = await press(reactor, 'deploy', typed);
    expect(status).toBe(400);
    expect(text).toContain('id="configuration.LIMIT-problem"');
    expect(text).toContain('id="configuration.LIVE-problem"');
    expect(fieldIn(text, 'configuration.LIMIT')).toBe('"><b>many');
    expect(fieldIn(text, 'configuration.SHOP')).toBe('new');
    expect((await apiReactor(reactor.id)).configuration).toEqual({ SHOP: 'old', LIMIT: 1, LIVE: false });
    expect(await usesOf(reactor.id)).toBe(0);
  });
});

describe('A run', () => {
  test('gets the values of tokens, and shows no card number or code in result and console', async () => {
    const { body: token } = await server.request('POST', '/tokens', {
      json: { type: 'card', data: { number: CARD, expiration_month: 12, expiration_year: 2030, cvc: '737' } },
    });
    const reactor = await makeReactor(
      server,
      `console.log('number', args.card.number); return { raw: { ...args.card, digits: Number(args.card.number), text: 'of ' + '4242 '.repeat(4) }, tokenize: { kept: 'x' } };`,
    );
    const { status, text } = await press(reactor, 'run', { args: JSON.stringify({ card: `{{ ${token.id} }}` }) });
    expect(status).toBe(200);
    const shown = textOf(text);
    expect(shown).toContain('200 OK');
    expect(shown).toMatch(/\d+ ms/);
    expect(shown).toContain(`"number": "${SHOWN_CARD}"`);
    expect(shown).toContain(`"digits": ${SHOWN_CARD}`);
    expect(shown).toContain('of XXXX XXXX XXXX 4242');
    expect(shown).toContain('"cvc": "XXX"');
    expect(shown).toContain(`log: number ${SHOWN_CARD}`);
    expect(shown).toMatch(/"kept": "[0-9a-f-]{36}"/);
    expect(shown).toContain('is masked here');
    expect(text).not.toMatch(/4242[ -]?4242/);
    expect(shown).not.toContain('"737"');
    expect(await usesOf(reactor.id)).toBe(1);
  });

  test('that throws shows what it was, where and its words, with the digits of a card masked', async () => {
    const reactor = await makeReactor(
      server,
      `const { BadRequestError } = require('@svc/reactor-formulas-sdk'); throw new BadRequestError({ 'card.number': ['<b>bad</b> ' + '4242'.repeat(4)] });`,
    );
    const typed = '{ "kept": true }';
    const { status, text } = await press(reactor, 'run', { args: typed });
    expect(status).toBe(200);
    expect(textOf(text)).toContain('400 Bad Request');
    expect(textOf(text)).toMatch(/Bad Request\s+in line 1/);
    expect(textOf(text)).toContain(`card.number: <b>bad</b> ${SHOWN_CARD}`);
    expect(text).not.toContain('<b>bad</b>');
    expect(text).not.toContain(CARD);
    expect(fieldIn(text, 'args')).toBe(typed);
  });

  test('that throws has the line of the code marked, and not one that its words name', async () => {
    const code = 'module.exports = async () => {\n\n  throw new Error("line 1, column 1 (line 1, column 1)");\n};';
    const reactor = await makeReactor(server, { code });
    const { text } = await press(reactor, 'run', { args: '{}' });
    expect(textOf(text)).toContain('500 Internal Server Error');
    expect(textOf(text)).toContain('Reactor Runtime Error in line 3');
    expect(text).toMatch(/<textarea[^>]* name="code"[^>]* data-error-line="3"/);
    expect(text.match(/ data-error-line=/g)).toHaveLength(1);
  });

  test('of the saved code marks no line of other code that was typed', async () => {
    const reactor = await makeReactor(server, { code: 'module.exports = () => {\n  throw new Error("x");\n};' });
    const { text } = await press(reactor, 'run', { args: '{}', code: codeOf('return {};') });
    expect(textOf(text)).toContain('in line 2');
    expect(text).not.toContain('data-error-line');
  });

  test('that answers for itself is shown as text, whatever it says of itself', async () => {
    const reactor = await makeReactor(
      server,
      `const { CustomHttpResponseError } = require('@svc/reactor-formulas-sdk'); throw new CustomHttpResponseError({ status: 418, headers: { 'content-type': 'application/json' }, body: '<script>alert(1)</script> ' + '4242'.repeat(4) + ' no json' });`,
    );
    const { status, text } = await press(reactor, 'run', { args: '{}' });
    expect(status).toBe(200);
    expect(textOf(text)).toContain("418 I'm a Teapot");
    expect(textOf(text)).toContain(`<script>alert(1)</script> ${SHOWN_CARD} no json`);
    expect(text).not.toContain('<script>alert');
    expect(text).not.toContain(CARD);
  });

  test('shows of a large result as much as can be read', async () => {
    const reactor = await makeReactor(server, `return { raw: 'y'.repeat(4_000_000) };`);
    const { text } = await press(reactor, 'run', { args: '{}' });
    expect(textOf(text)).toContain('Cut off');
    expect(text.length).toBeLessThan(100_000);
  });

  test.each([
    ['{\n  "a": 1,\n}', '3'],
    ['{ "a": 1', '1'],
    ['{"a":1}}', '1'],
  ])('does not begin with args that are no JSON: %j', async (args, line) => {
    const reactor = await makeReactor(server, 'return {};');
    const { text } = await press(reactor, 'run', { args });
    expect(textOf(text)).toContain('must be JSON');
    expect(textOf(text)).toContain('Nothing was run.');
    expect(text).toMatch(new RegExp(`<textarea[^>]* name="args"[^>]* data-error-line="${line}"`));
    expect(fieldIn(text, 'args')).toBe(args);
    expect(await usesOf(reactor.id)).toBe(0);
  });

  test('without saving is of the saved code, and says so; what was typed stays', async () => {
    const reactor = await makeReactor(server, `return { raw: 'saved' };`);
    const code = codeOf(`return { raw: 'typed' };`);
    const { text } = await press(reactor, 'run', { code, args: '{}' });
    expect(textOf(text)).toContain('"saved"');
    expect(textOf(text)).toContain('is not deployed: this is what the deployed code did');
    expect(fieldIn(text, 'code')).toBe(code);
    expect((await apiReactor(reactor.id)).formula.code).not.toBe(code);
  });
});

describe('A draft', () => {
  test('is run without deploying it, as the run of a draft', async () => {
    const reactor = await makeReactor(server, `return { raw: 'deployed' };`);
    const before = await apiReactor(reactor.id);
    const code = codeOf('return { raw: { typed: args.card.number.length, key: configuration } };');
    const { body: token } = await server.request('POST', '/tokens', { json: { type: 'card', data: { number: CARD } } });
    const { text } = await press(reactor, 'test', { code, args: JSON.stringify({ card: `{{ ${token.id} }}` }) });
    expect(textOf(text)).toContain('200 OK');
    expect(textOf(text)).toMatch(/draft\s+200/);
    expect(textOf(text)).toContain('"typed": 16');
    expect(fieldIn(text, 'code')).toBe(code);
    expect(await apiReactor(reactor.id)).toEqual(before);
    const messages = await server.sql('SELECT message FROM audit_log WHERE entity_ids = ARRAY[$1::text]', [reactor.id]);
    expect(messages.map(({ message }) => message)).toContain('Reactor tested');
  });

  test('that fails has its own line marked; plain samples work in place of tokens', async () => {
    const reactor = await makeReactor(server, 'return {};');
    const code = `module.exports = ({ args }) => {\n\n  throw new RangeError('of ' + args.card.number);\n};`;
    const thrown = await press(reactor, 'test', { code, args: `{"card":{"number":"${CARD}"}}` });
    expect(textOf(thrown.text)).toContain('Reactor Runtime Error in line 3: RangeError');
    expect(textOf(thrown.text)).toContain(`of ${SHOWN_CARD}`);
    expect(thrown.text).toMatch(/<textarea[^>]* name="code"[^>]* data-error-line="3"/);
    const broken = await press(reactor, 'test', { code: 'module.exports = () => {\n  retrun a;\n};', args: '{}' });
    expect(textOf(broken.text)).toContain('422 Unprocessable');
    expect(broken.text).toMatch(/<textarea[^>]* name="code"[^>]* data-error-line="2"/);
  });

  test('shows no digits of a card that it throws under the name of a field', async () => {
    const reactor = await makeReactor(server, 'return {};');
    const code = codeOf(
      `const { BadRequestError } = require('@svc/reactor-formulas-sdk'); throw new BadRequestError({ code: [args.number], 'configuration.x': [args.number] });`,
    );
    const { text } = await press(reactor, 'test', { code, args: `{"number":"${CARD} "}` });
    expect(textOf(text)).toContain(SHOWN_CARD);
    // The args stay as typed.
    expect(text.split(CARD)).toHaveLength(2);
  });
});

describe('Versions', () => {
  const restore = (id: string, number: string, by = member) => by.post(`/console/reactors/${id}/restore`, { number });

  test('are listed with author, time and note, and a bad deploy is undone by one form', async () => {
    const reactor = await makeReactor(server, `return { raw: 'good' };`);
    const page = await press(reactor, 'deploy', { code: codeOf('return null.bad;'), note: 'Faster <b>' });
    expect(textOf(page.text)).toContain('Deployed. Takes effect now.');
    expect(textOf(page.text)).toContain('live: version 2');
    expect(textOf(page.text)).toContain('Ada LovelaceFaster <b>');
    expect(textOf(page.text)).toContain('Deploy version 3');
    expect(fieldIn(page.text, 'note')).toBe('');
    // The form of each earlier version, in a box that opens: two clicks.
    expect(page.text).toContain(
      '<details class="confirm calm"><summary>Restore<span class="unseen"> version 1</span></summary>',
    );
    expect(page.text).not.toContain('>Restore version 2<');
    const after = await member.follow(await restore(reactor.id, '1'));
    expect(textOf(after.text)).toContain('Version 1 was restored. It runs now as version 3.');
    expect(textOf(after.text)).toContain('Version 1 again');
    expect((await apiReactor(reactor.id)).formula.code).toContain('good');
    const back = await member.get(`${pathOf(reactor)}/restore`);
    expect([back.status, back.headers.get('location')]).toEqual([303, pathOf(reactor)]);
  });

  test.each(['', '0', '9', 'x', '1/../2', '1?x'])('number %j is not there', async (number) => {
    const reactor = await makeReactor(server, 'return {};');
    const before = await apiReactor(reactor.id);
    await member.get(pathOf(reactor));
    expect((await restore(reactor.id, number)).status).toBe(404);
    expect(await apiReactor(reactor.id)).toEqual(before);
  });

  test('are without forms for a role that deploys nothing, and a note that is too long is told', async () => {
    const reactor = await makeReactor(server, 'return {};');
    const code = codeOf('return { raw: 1 };');
    const long = await press(reactor, 'deploy', { code, note: 'x'.repeat(501) });
    expect([long.status, textOf(long.text).includes('must have at most 500 characters')]).toEqual([400, true]);
    await press(reactor, 'deploy', { code });
    const developer = await server.signIn();
    const role = { json: { role: 'DEVELOPER' } };
    expect((await server.request('PUT', `/tenants/self/members/${developer.member_id}`, role)).status).toBe(200);
    const { text } = await developer.get(pathOf(reactor));
    expect(textOf(text)).toContain('live: version 2');
    for (const shown of ['>Test draft<', '>Deploy version', '/restore"', 'value="run"', '>Delete '])
      expect(text).not.toContain(shown);
    expect((await restore(reactor.id, '1', developer)).status).toBe(403);
  });
});

test('the runs of 24 hours are bars, with links to all and to the failed ones', async () => {
  const reactor = await makeReactor(server, 'return args.n === 0 ? null.x : {};');
  expect(textOf((await member.get(pathOf(reactor))).text)).toContain('No runs in the last 24 hours.');
  for (const n of [1, 0]) await react(server, reactor, { n });
  const page = await vi.waitFor(async () => {
    const { text } = await member.get(pathOf(reactor));
    expect(textOf(text)).toContain('2 runs, 1 failed');
    return text;
  });
  expect(page).toMatch(/<svg class="chart day"[^>]* role="img" aria-label="Runs of 24 hours: 2 runs, 1 failed"/);
  for (const kind of ['used', 'errors']) expect(page).toContain(`<rect class="${kind}"`);
  const [, failed = ''] = /href="([^"]*outcome=any_failure[^"]*)"/.exec(page) ?? [];
  const runs = await member.get(failed.replaceAll('&amp;', '&'));
  expect([runs.status, textOf(runs.text).includes('1 found')]).toEqual([200, true]);
  expect(Buffer.byteLength(page)).toBeLessThan(40 * 1024);
});

describe('A reactor of another tenant', () => {
  test.each(['GET', 'POST', 'POST delete', 'POST restore'])('is not there: %s', async (how) => {
    const reactor = await makeReactor(server, `return { raw: 'ours' };`);
    const before = await apiReactor(reactor.id);
    const { browser } = anonymous;
    await browser.get('/console/reactors');
    const typed = { name: 'Theirs', code: codeOf('return {};'), args: '{}', do: 'deploy' };
    const answer =
      how === 'GET'
        ? await browser.get(pathOf(reactor))
        : how === 'POST'
          ? await browser.post(pathOf(reactor), typed)
          : await browser.post(`${pathOf(reactor)}/${how.slice(5)}`, { number: '1' });
    expect(answer.status).toBe(404);
    expect(answer.headers.get('content-type')).toContain('text/html');
    expect(textOf(answer.text)).toContain('The reactor was not found.');
    expect(await apiReactor(reactor.id)).toEqual(before);
    expect(await usesOf(reactor.id)).toBe(0);
  });

  test.each(['x', '..%2ftokens'])('neither is what is no id: %s', async (id) => {
    expect((await member.get(`/console/reactors/${id}`)).status).toBe(404);
    await member.get('/console/reactors');
    expect((await member.post(`/console/reactors/${id}`, { do: 'run' })).status).toBe(404);
  });
});

test('code that a reactor was created with is saved and run, and its configuration stays', async () => {
  const json = { name: 'Own', code: codeOf('return { raw: configuration };'), configuration: { KEY: 'kept' } };
  const { body: reactor } = await server.request('POST', '/reactors', { json });
  const code = codeOf('return { raw: { again: configuration } };');
  const saved = await press(reactor, 'deploy', { name: 'Renamed', code });
  expect([saved.status, textOf(saved.text)], saved.text).toEqual([
    200,
    expect.stringContaining('Deployed. Takes effect now.'),
  ]);
  const stored = await apiReactor(reactor.id);
  expect([stored.name, stored.code, stored.configuration]).toEqual(['Renamed', code, { KEY: 'kept' }]);
  const ran = await press(reactor, 'run', { args: '{}' });
  expect(textOf(ran.text)).toContain('"kept"');
});

test('a reactor is deleted by its page, and its formula stays', async () => {
  const reactor = await makeReactor(server, 'return {};');
  await member.get(pathOf(reactor));
  const page = await member.follow(await member.post(`${pathOf(reactor)}/delete`));
  expect(textOf(page.text)).toContain('The reactor was deleted.');
  expect((await server.request('GET', `/reactors/${reactor.id}`)).status).toBe(404);
  expect((await server.request('GET', `/reactor-formulas/${reactor.formula_id}`)).status).toBe(200);
});

test.each(['', '/ID', '/ID/delete', '/ID/restore'])(
  'a form without its token does nothing: /console/reactors%s',
  async (suffix) => {
    const reactor = await makeReactor(server, 'return {};');
    const before = await apiReactor(reactor.id);
    const reactors = await countOf('reactors');
    await member.get('/console/reactors');
    const path = `/console/reactors${suffix.replace('ID', reactor.id)}`;
    for (const csrf of ['', 'x'.repeat(43)]) {
      const typed = { name: 'Forged', code: codeOf('return { raw: 1 };'), args: '{}', number: '1', do: 'deploy', csrf };
      expect((await member.post(path, typed)).status).toBe(403);
    }
    expect(await apiReactor(reactor.id)).toEqual(before);
    expect([await countOf('reactors'), await usesOf(reactor.id)]).toEqual([reactors, 0]);
  },
);

test('whoever is nobody is sent to sign in', async () => {
  const reactor = await makeReactor(server, 'return {};');
  for (const path of ['/console/reactors', pathOf(reactor)]) {
    const answer = await server.anonymous().get(path);
    expect([answer.status, answer.headers.get('location')]).toEqual([
      303,
      `/console/sign-in?next=${encodeURIComponent(path)}`,
    ]);
  }
});

describe('A reactor begins', () => {
  const idOf = ({ headers }: Answer): string =>
    new URL(headers.get('location') ?? '', server.base_url).pathname.split('/').at(-1) ?? '';

  test.each(['parts', 'call', 'store'])('with the sample "%s", which compiles', async (from) => {
    const page = await member.get(`/console/reactors?from=${from}`);
    expect(page.text).toContain(`name="from" value="${from}"`);
    const made = await member.post('/console/reactors', { name: `Sample ${from}`, from });
    const { code, request_parameters } = (await apiReactor(idOf(made))).formula as Record<string, any>;
    expect(fieldIn((await member.follow(made)).text, 'code')).toBe(code);
    expect(request_parameters[0].name).toBe('card.number');
  });

  test('with an official formula, whose configuration the form asks for', async () => {
    const id = '5f0c2f4e-6b1d-4f36-9a54-0d8a3c1e7bff';
    await server.sql(
      `INSERT INTO official_formulas (id, name, search_name, status, code, configuration, request_parameters, created_at)
VALUES ($1, 'Pay <b>', 'pay', 'verified', 'module.exports = () => ({ raw: 1 })', $2, '[]', now()) ON CONFLICT DO NOTHING`,
      [id, JSON.stringify([{ name: 'LIMIT', type: 'number' }])],
    );
    const page = await member.get(`/console/reactors?from=${id}`);
    expect(page.text).not.toContain('Pay <b>');
    expect(page.text).toContain('name="configuration.LIMIT"');
    const asked = { name: 'Official', from: id };
    const refused = await member.post('/console/reactors', { ...asked, 'configuration.LIMIT': 'many' });
    expect([refused.status, fieldIn(refused.text, 'configuration.LIMIT')]).toEqual([400, 'many']);
    expect(refused.text).toContain('id="configuration.LIMIT-problem"');
    const made = await member.post('/console/reactors', { ...asked, 'configuration.LIMIT': '5' });
    expect(await apiReactor(idOf(made))).toMatchObject({ formula: { id }, configuration: { LIMIT: 5 } });
  });

  test('with nothing that another tenant has, or that is not there', async () => {
    const other = await server.newTenant();
    const { formula_id } = await makeReactor(server, { code: codeOf('return {};'), key: other.api_key });
    const before = await countOf('reactors');
    for (const from of [formula_id, '5f0c2f4e-6b1d-4f36-9a54-0d8a3c1e7b00']) {
      expect((await member.get(`/console/reactors?from=${from}`)).text).toContain('name="from" value="parts"');
      expect((await member.post('/console/reactors', { name: 'Taken', from })).status, from).toBe(404);
    }
    expect(await countOf('reactors')).toBe(before);
    expect((await member.get('/console/reactors?from=constructor')).status).toBe(200);
  });
});

test('a token for the arguments is found by the end of its mask, and what was typed stays', async () => {
  const tenant = await server.newTenant();
  const browser = await server.signIn({ tenant });
  const { api_key: key } = tenant;
  const reactor = await makeReactor(server, { code: codeOf('return {};'), key });
  const ids: string[] = [];
  for (const number of ['4242424242424242', '5555555555554444']) {
    const json = { type: 'card', data: { number } };
    ids.push((await server.request('POST', '/tokens', { json, key })).body.id);
  }
  const path = `/console/reactors/${reactor.id}`;
  const page = await browser.get(path);
  const pick = (last4: string) =>
    browser.post(path, { ...fill(page.text, { code: 'typed', args: '{"a":1' }), do: 'pick', last4 });
  const one = (await pick('4444')).text;
  expect([fieldIn(one, 'code'), fieldIn(one, 'args')]).toEqual(['typed', '{"a":1']);
  expect([one.includes(`{{ ${ids[1]} }}`), one.includes(`{{ ${ids[0]} }}`)]).toEqual([true, false]);
  const newest = (await pick('')).text;
  for (const id of ids) expect(newest).toContain(`{{ ${id} }}`);
  expect(textOf((await pick('0000')).text)).toContain('No tokens match.');
  expect(textOf((await pick('a"b')).text)).toContain('These are not the last four characters');
  const stored = await server.request('GET', `/reactors/${reactor.id}`, { key });
  expect(stored.body.formula.code).not.toBe('typed');
});
