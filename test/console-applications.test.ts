// Applications in the console: listed, made, changed and deleted by a member with a browser that has no scripts; and their keys,
// which are shown once.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Browser, fieldIn, type SharedConsole, textOf, useConsole } from './support/console.ts';
import { UNKNOWN_ID } from './support/resource.ts';
import type { Answer, TestTenant } from './support/server.ts';

const PATH = '/console/applications';
const keyPattern = /svc_test_[0-9A-Za-z_]{50,}/;

let server: SharedConsole;
let tenant: TestTenant;
let member: Browser;
let anonymous: Browser;

beforeAll(async () => {
  server = await useConsole();
  anonymous = await server.signIn({ tenant: await server.newTenant() });
});
beforeEach(async () => {
  tenant = await server.newTenant();
  member = await server.signIn({ tenant });
});

type Application = { id: string; name: string; key: string; type: string };

const ask = (method: string, path: string, json?: unknown): Promise<Answer> =>
  server.request(method, path, { key: tenant.api_key, ...(json !== undefined && { json }) });

const make = async (json: object): Promise<Application> => {
  const { status, body, text } = await ask('POST', '/applications', { name: 'Made', ...json });
  expect(status, text).toBe(201);
  return body;
};

const read = async (id: string) => (await ask('GET', `/applications/${id}`)).body;

const listed = async (): Promise<Application[]> => (await ask('GET', '/applications')).body.data;

const pathOf = ({ id }: { id: string }): string => `${PATH}/${id}`;

/** What a person reads, with spaces between what stands apart. */
const wordsOf = (page: string): string => textOf(page.replaceAll('<', ' <')).replace(/\s+/g, ' ');

/** What a page says beside a field that is wrong. */
const problemAt = (page: string, name: string): string =>
  textOf(new RegExp(`<span class="problem" id="${name}-problem">(.*?)</span>`, 's').exec(page)?.[1] ?? '');

const hiddenIn = (page: string, name: string): string =>
  new RegExp(`name="${name}" value="([^"]*)"`).exec(page)?.[1] ?? '';

/** Opens the form for a new application and sends it. */
const create = async (fields: Record<string, string>, browser = member): Promise<Answer> => {
  const { text } = await browser.get(`${PATH}/new`);
  return browser.post(`${PATH}/new`, { type: 'private', form_id: hiddenIn(text, 'form_id'), ...fields });
};

/** The rows of rules. */
const rulesIn = (page: string): Record<string, string> => {
  const typed = [...page.matchAll(/<input(?: type="hidden")? name="(rule[^"]+)" value="([^"]*)"/g)];
  const chosen = [...page.matchAll(/<select name="(rule[^"]+)">.*?value="([^"]*)" selected/gs)];
  const lists = [...page.matchAll(/<textarea[^>]* name="(rule\.[^"]+)"[^>]*>\n?([^<]*)</g)];
  return Object.fromEntries([...typed, ...chosen, ...lists].map(([, name = '', value = '']) => [name, value]));
};

/** What a browser would send for the form of a page as it is, with other values of some fields. */
const formIn = (page: string, fields: Record<string, string> = {}): Record<string, string> => {
  const checked = [...page.matchAll(/<input type="checkbox" name="([^"]+)" value="yes" checked>/g)];
  const names = ['name', 'rules', 'allowed_hosts', 'requests_per_second', 'burst', 'daily_reveals', 'daily_uses'];
  const ofPublic = ['allowed_origins', 'container', 'creates_per_minute'];
  return {
    seen: hiddenIn(page, 'seen'),
    ...Object.fromEntries([...names, ...ofPublic].map((name) => [name, fieldIn(page, name) ?? ''])),
    ...rulesIn(page),
    ...Object.fromEntries(checked.map(([, name = '']) => [name, 'yes'])),
    ...fields,
  };
};

const change = async ({ id }: { id: string }, fields: Record<string, string>): Promise<Answer> => {
  const { text } = await member.get(pathOf({ id }));
  return member.post(pathOf({ id }), formIn(text, fields));
};

const logsOf = (id: string) =>
  server.sql(
    `SELECT operation, message, actor_type, actor_id FROM audit_log
     WHERE tenant_id = $1 AND entity_ids = ARRAY[$2] AND operation <> 'read' AND outcome = 'success' ORDER BY id`,
    [tenant.tenant_id, id],
  );

describe('the list', () => {
  test('shows type, rights, limits and last use as text, and no key', async () => {
    const made = await make({
      name: '<b>Shop</b>',
      permissions: ['token:create', 'token:read', 'token:use', 'log:read', 'proxy:read'],
      rules: [{ priority: 1, container: '/pci/', transform: 'mask', permissions: ['token:search'] }],
      rate_limit: { requests_per_second: 100 },
      daily_reveals: 1000,
    });
    await make({ name: 'Pages', type: 'public', permissions: ['token:create'], creates_per_minute: 7 });
    const { status, text } = await member.get(PATH);
    expect(status).toBe(200);
    const shown = wordsOf(text);
    expect(shown).toMatch(
      /<b>Shop<\/b> Private token:create token:read token:use and 2 more 1 access rule 100 requests\/s, 1,000 reveals\/day not yet/,
    );
    expect(shown).toMatch(/Pages Public token:create 7 creates\/min not yet/);
    expect(shown).toContain('all permissions');
    expect(text).not.toContain('<b>Shop');
    expect(text).not.toMatch(keyPattern);
    expect(text).not.toContain(made.key);
    expect((await anonymous.get(PATH)).text).not.toContain(made.id);
  });

  test('has pages, and finds by name with stars', async () => {
    for (let count = 0; count < 21; count += 1) await make({ name: `Shop ${count}`, permissions: ['log:read'] });
    await make({ name: 'Élan', permissions: ['log:read'] });
    const first = wordsOf((await member.get(PATH)).text);
    expect(first).toContain('Page 1 of 2, 23 in all');
    expect(wordsOf((await member.get(`${PATH}?page=2`)).text)).toContain('Shop 0');
    const found = await member.get(`${PATH}?name=shop*`);
    expect(wordsOf(found.text)).toContain('Page 1 of 2, 21 in all');
    expect(found.text).toContain(`href="${PATH}?name=shop*&amp;page=2"`);
    expect(wordsOf((await member.get(`${PATH}?name=${encodeURIComponent('éLAN')}`)).text)).toContain('Élan');
    expect(wordsOf((await member.get(`${PATH}?name=none`)).text)).toContain('No applications match.');
  });
});

describe('a new application', () => {
  test('has what was typed, and its key works; the log names the member', async () => {
    const answer = await create({
      name: ' Checkout ',
      'permission.token:create': 'yes',
      'permission.token:read': 'yes',
      rules: '[{ "priority": 1, "container": "/pci/", "transform": "reveal", "permissions": ["token:use"] }]',
      allowed_hosts: 'api.example.com\r\n\r\n*.bank.example\r\n',
      requests_per_second: '50',
      burst: '90',
      daily_reveals: '1000',
      daily_uses: '0',
      echo_guard: 'block',
    });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    const [key = ''] = keyPattern.exec(answer.text) ?? [];
    expect(answer.text).toContain(`<code data-copy>${key}</code>`);
    expect((await server.tokenize('x', key)).status).toBe(200);
    const [{ id }] = (await listed()).filter(({ name }) => name === 'Checkout') as [Application];
    expect(await read(id)).toMatchObject({
      type: 'private',
      permissions: ['token:create', 'token:read'],
      rules: [{ priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:use'] }],
      allowed_hosts: ['api.example.com', '*.bank.example'],
      rate_limit: { requests_per_second: 50, burst: 90 },
      daily_reveals: 1000,
      daily_uses: 0,
      echo_guard: 'block',
      created_by: member.user_id,
    });
    expect(await logsOf(id)).toEqual([
      { operation: 'create', message: 'Application created', actor_type: 'user', actor_id: member.user_id },
    ]);
  });

  test('may be public, with origins, a container and creates a minute', async () => {
    const { status, text } = await create({
      name: 'Pages',
      type: 'public',
      'permission.token:create': 'yes',
      allowed_origins: 'https://shop.example.com\nhttps://www.example.com',
      container: '/PCI/high/',
      creates_per_minute: '9',
    });
    expect(status, text).toBe(200);
    expect((await listed()).find(({ name }) => name === 'Pages')).toMatchObject({
      type: 'public',
      allowed_origins: ['https://shop.example.com', 'https://www.example.com'],
      containers: ['/pci/high/'],
      creates_per_minute: 9,
    });
  });

  test('may hold every permission, and values of tokens: the member gives what it holds', async () => {
    const permissions = ['token:read', 'token:search', 'token:use', 'application:update', 'tenant:delete'];
    const boxes = Object.fromEntries(permissions.map((each) => [`permission.${each}`, 'yes']));
    expect((await create({ name: 'Much', type: 'management', ...boxes })).status).toBe(200);
    expect((await listed()).find(({ name }) => name === 'Much')).toMatchObject({ type: 'management', permissions });
  });

  test('shows its key once: in no second page, no log line and no table', async () => {
    const { text } = await member.get(`${PATH}/new`);
    const fields = {
      name: 'Once',
      type: 'private',
      'permission.token:create': 'yes',
      form_id: hiddenIn(text, 'form_id'),
    };
    const [key = ''] = keyPattern.exec((await member.post(`${PATH}/new`, fields)).text) ?? [];
    expect(key).not.toBe('');
    const again = await member.post(`${PATH}/new`, fields);
    expect(again.status).toBe(303);
    const [{ id }] = (await listed()).filter(({ name }) => name === 'Once') as [Application];
    expect(again.headers.get('location')).toBe(`${pathOf({ id })}?done=shown`);
    const page = await member.follow(again);
    expect(textOf(page.text)).toContain('This form was sent before, and a key is shown once.');
    for (const path of [PATH, pathOf({ id }), `${PATH}/new`, '/console/logs', `/console/logs?entity_id=${id}`])
      expect((await member.get(path)).text, path).not.toContain(key);
    const [, , public_id, secret = ''] = key.split('_');
    expect(secret).toHaveLength(39);
    expect(server.logLines.join('')).not.toContain(secret);
    for (const table of ['applications', 'api_keys', 'audit_log', 'idempotency_keys'])
      expect(JSON.stringify(await server.sql(`SELECT t::text FROM ${table} t`)), table).not.toContain(secret);
    expect(await server.sql('SELECT FROM api_keys WHERE public_id = $1', [public_id])).toHaveLength(1);
  });

  test('is sent twice at the same time and made once', async () => {
    const { text } = await member.get(`${PATH}/new`);
    const fields = { name: 'Twice', type: 'private', 'permission.log:read': 'yes', form_id: hiddenIn(text, 'form_id') };
    const answers = await Promise.all([member.post(`${PATH}/new`, fields), member.post(`${PATH}/new`, fields)]);
    expect(answers.filter((answer) => keyPattern.test(answer.text))).toHaveLength(1);
    expect((await listed()).filter(({ name }) => name === 'Twice')).toHaveLength(1);
  });
});

describe('a form with errors', () => {
  const typed = {
    name: '',
    type: 'private',
    'permission.log:read': 'yes',
    allowed_hosts: 'good.example\n\nhttps://bad.example/"><script>x</script>',
    requests_per_second: 'many',
    burst: '0',
    daily_reveals: '-1',
    daily_uses: '1.5',
    rules: '[{ "priority": 1, "transform": "mask", "container": "pci", "permissions": ["log:read"] }]',
  };

  test('says each beside its field, keeps all that was typed as text, and makes nothing', async () => {
    const { status, text } = await create(typed);
    expect(status).toBe(400);
    expect(textOf(text)).toContain('The application was not created.');
    expect(problemAt(text, 'name')).toContain('1 to 200 characters');
    expect(problemAt(text, 'allowed_hosts')).toMatch(/^Line 3 must/);
    expect(problemAt(text, 'requests_per_second')).toContain('It must be a whole number from 1 to 10000');
    expect(problemAt(text, 'burst')).toContain('It must be a whole number');
    expect(problemAt(text, 'daily_reveals')).toContain('It must be a whole number');
    expect(problemAt(text, 'daily_uses')).toContain('It must be a whole number');
    expect(problemAt(text, 'rules')).toContain('Rule 1, container: must be a container path');
    expect(problemAt(text, 'rules')).toContain('Rule 1, permissions[0]: must be a permission on tokens');
    for (const name of [
      'allowed_hosts',
      'requests_per_second',
      'burst',
      'daily_reveals',
      'daily_uses',
      'rules',
    ] as const)
      expect(fieldIn(text, name)).toBe(typed[name]);
    expect(text).toContain('name="permission.log:read" value="yes" checked');
    expect(text).not.toContain('<script>x');
    expect((await listed()).map(({ name }) => name)).not.toContain('');
    const again = await member.post(`${PATH}/new`, {
      ...formIn(text, { type: 'private', form_id: hiddenIn(text, 'form_id') }),
      name: 'Right now',
      allowed_hosts: '',
      requests_per_second: '',
      burst: '',
      daily_reveals: '',
      daily_uses: '',
      rules: '',
    });
    expect(again.text).toMatch(keyPattern);
  });

  test.each([
    ['no permission', { name: 'x' }, 'permissions', 'It must name a permission, unless there is a rule'],
    ['rules that are no JSON', { rules: '[\n{ oops' }, 'rules', 'The rules must be JSON: look at line 2.'],
    ['rules that are no list', { rules: '{}' }, 'rules', 'It must be a list of rules'],
    ['a burst alone', { burst: '5' }, 'requests_per_second', 'It must be a whole number from 1 to 10000'],
    [
      'origins of a private one',
      { allowed_origins: 'https://a.example' },
      'allowed_origins',
      'public applications only',
    ],
    ['a container of a private one', { container: '/pci/' }, 'container', 'is for public applications only'],
    ['creates of a private one', { creates_per_minute: '5' }, 'creates_per_minute', 'is for public applications only'],
    ['a public one that reads', { type: 'public' }, 'permissions', 'It must be token:create only'],
    [
      'an origin without https',
      { type: 'public', allowed_origins: 'http://a.example' },
      'allowed_origins',
      'Line 1 must begin',
    ],
    ['a path that is none', { type: 'public', container: 'pci' }, 'container', 'It must be a container path'],
    ['a type that is none', { type: 'x' }, 'type', 'It must be private, public or management'],
  ])('with %s says so at its field', async (_what, fields: Record<string, string>, name, sentence) => {
    const before = (await listed()).length;
    const right: Record<string, string> =
      name === 'permissions' && fields['name'] !== undefined ? {} : { 'permission.log:read': 'yes' };
    const permission =
      fields['type'] === 'public' && name !== 'permissions' ? { 'permission.token:create': 'yes' } : right;
    const { status, text } = await create({ name: 'Wrong', ...permission, ...fields });
    expect([400, 422]).toContain(status);
    expect(problemAt(text, name)).toContain(sentence);
    expect(await listed()).toHaveLength(before);
  });

  test('of a session that has ended gives back the long texts', async () => {
    const other = await server.signIn({ tenant });
    await other.get(`${PATH}/new`);
    await member.get('/console/people');
    await member.post(`/console/people/members/${other.member_id}/remove`);
    const { status, text } = await other.post(`${PATH}/new`, typed);
    expect(status).toBe(401);
    expect(fieldIn(text, 'rules') ?? textOf(text)).toContain('"container": "pci"');
    expect((await listed()).length).toBe(1);
  });
});

describe('a stored application', () => {
  const full = {
    name: 'Full',
    permissions: ['token:create', 'log:read'],
    rules: [
      {
        description: 'Orders',
        priority: 2,
        conditions: [{ attribute: 'id', operator: 'starts_with', value: 'order-' }],
        transform: 'reveal',
        permissions: ['token:read'],
      },
    ],
    allowed_hosts: ['api.example.com'],
    rate_limit: { requests_per_second: 5, burst: 6 },
    daily_reveals: 7,
    daily_uses: 8,
  };

  test('that is saved as its form shows it stays as it is', async () => {
    const made = await make(full);
    const page = await member.follow(await change(made, {}));
    expect(textOf(page.text)).toContain('The application was saved.');
    expect(await read(made.id)).toMatchObject(full);
    const open = { allowed_origins: ['https://a.example'], containers: ['/pci/low/'], creates_per_minute: 3 };
    const pages = await make({ name: 'Pages', type: 'public', permissions: ['token:create'], ...open });
    expect((await change(pages, {})).status).toBe(303);
    expect(await read(pages.id)).toMatchObject({ name: 'Pages', type: 'public', ...open });
  });

  test('gets what was typed, at once; the log names the member', async () => {
    const made = await make(full);
    expect((await server.tokenize('x', made.key)).status).toBe(200);
    const answer = await change(made, { name: 'Changed', 'permission.token:create': '', daily_uses: '', rules: '' });
    expect(answer.headers.get('location')).toBe(`${pathOf(made)}?done=saved`);
    expect((await server.tokenize('x', made.key)).status).toBe(403);
    const { daily_uses, ...changed } = await read(made.id);
    expect(daily_uses).toBeUndefined();
    expect(changed).toMatchObject({ name: 'Changed', permissions: ['log:read'], rules: [], daily_reveals: 7 });
    expect((await logsOf(made.id)).at(-1)).toEqual({
      operation: 'update',
      message: 'Application updated',
      actor_type: 'user',
      actor_id: member.user_id,
    });
  });

  test('keeps what it was where the form has errors', async () => {
    const made = await make(full);
    const { status, text } = await change(made, { name: '', burst: 'x' });
    expect(status).toBe(400);
    expect(textOf(text)).toContain('The application was not saved.');
    expect([problemAt(text, 'name'), problemAt(text, 'burst')]).not.toContain('');
    expect(fieldIn(text, 'burst')).toBe('x');
    expect(await read(made.id)).toMatchObject(full);
  });

  test('that others changed meanwhile is not overwritten unseen', async () => {
    const made = await make(full);
    const { text } = await member.get(pathOf(made));
    await ask('PUT', `/applications/${made.id}`, { ...full, name: 'Theirs' });
    const refused = await member.post(pathOf(made), formIn(text, { name: 'Mine' }));
    expect(refused.status).toBe(409);
    expect(textOf(refused.text)).toContain('was changed since the page was opened');
    expect(fieldIn(refused.text, 'name')).toBe('Mine');
    expect((await read(made.id)).name).toBe('Theirs');
    expect((await member.post(pathOf(made), formIn(refused.text))).status).toBe(303);
    expect((await read(made.id)).name).toBe('Mine');
  });

  test('is deleted after a question that needs no script, and its key ends', async () => {
    const made = await make({ permissions: ['token:create'] });
    expect((await server.tokenize('x', made.key)).status).toBe(200);
    const { text } = await member.get(pathOf(made));
    expect(text).toMatch(
      new RegExp(
        `<details[^>]*><summary>Delete this application</summary><form method="post" action="${pathOf(made)}/delete"`,
      ),
    );
    const page = await member.follow(await member.post(`${pathOf(made)}/delete`));
    expect(textOf(page.text)).toContain('The application was deleted.');
    expect((await server.tokenize('x', made.key)).status).toBe(401);
    expect((await member.get(pathOf(made))).status).toBe(404);
    expect((await logsOf(made.id)).at(-1)).toMatchObject({ operation: 'delete', actor_id: member.user_id });
  });
});

describe('a new key', () => {
  test('is made after a warning, ends the old one, and is shown once', async () => {
    const made = await make({ permissions: ['token:create', 'token:read'] });
    const { text } = await member.get(pathOf(made));
    expect(text).toMatch(
      new RegExp(`<summary>Replace all keys</summary><form method="post" action="${pathOf(made)}/key"`),
    );
    expect(textOf(text)).toContain('All keys stop working now');
    const form_id = hiddenIn(text, 'form_id');
    const shown = await member.post(`${pathOf(made)}/key`, { form_id });
    expect([shown.status, shown.headers.get('cache-control')]).toEqual([200, 'no-store']);
    const [key = ''] = keyPattern.exec(shown.text) ?? [];
    expect(key).not.toBe(made.key);
    expect((await server.tokenize('x', made.key)).status).toBe(401);
    expect((await server.tokenize('x', key)).status).toBe(200);
    const again = await member.follow(await member.post(`${pathOf(made)}/key`, { form_id }));
    expect(again.text).not.toMatch(keyPattern);
    expect((await server.tokenize('x', key)).status).toBe(200);
    expect(server.logLines.join('')).not.toContain(key.split('_')[3]);
    expect((await logsOf(made.id)).at(-1)).toMatchObject({
      message: 'Application key regenerated',
      actor_type: 'user',
      actor_id: member.user_id,
    });
  });
});

describe('another tenant', () => {
  test('finds no page, and changes nothing', async () => {
    const made = await make({ name: 'Theirs', permissions: ['token:create'] });
    const page = await member.get(pathOf(made));
    await anonymous.get(PATH);
    expect((await anonymous.get(pathOf(made))).status).toBe(404);
    for (const [path, fields] of [
      ['', formIn(page.text, { name: 'Mine' })],
      ['/key', { form_id: crypto.randomUUID() }],
      ['/delete', {}],
    ] as const) {
      const answer = await anonymous.post(`${pathOf(made)}${path}`, fields);
      expect(answer.status, path).toBe(404);
      expect(answer.text).not.toMatch(keyPattern);
    }
    expect(await read(made.id)).toMatchObject({ name: 'Theirs' });
    expect((await server.tokenize('x', made.key)).status).toBe(200);
  });

  test.each([UNKNOWN_ID, 'x', 'key'])('nor is there a page of the id %s', async (id) => {
    expect((await member.get(`${PATH}/${id}`)).status).toBe(404);
    expect((await member.post(`${PATH}/${id}/delete`)).status).toBe(404);
  });
});

describe('without the right', () => {
  test('a removed member makes nothing and sees nothing', async () => {
    const made = await make({ permissions: ['token:create'] });
    const other = await server.signIn({ tenant });
    const page = await other.get(pathOf(made));
    await member.get('/console/people');
    await member.post(`/console/people/members/${other.member_id}/remove`);
    for (const [path, fields] of [
      [`${PATH}/new`, { 'permission.log:read': 'yes' }],
      [pathOf(made), { seen: hiddenIn(page.text, 'seen') }],
      [`${pathOf(made)}/key`, { form_id: crypto.randomUUID() }],
      [`${pathOf(made)}/delete`, {}],
    ] as [string, Record<string, string>][]) {
      const answer = await other.post(path, fields);
      expect([answer.status, answer.headers.get('location')], path).toEqual([303, '/console/sign-in']);
    }
    expect((await other.get(PATH)).status).toBe(303);
    expect((await server.tokenize('x', made.key)).status).toBe(200);
  });

  test('no form does anything without the token of its session', async () => {
    const made = await make({ permissions: ['token:create'] });
    await member.get(PATH);
    for (const path of [`${PATH}/new`, pathOf(made), `${pathOf(made)}/key`, `${pathOf(made)}/delete`])
      expect((await member.post(path, { csrf: 'x'.repeat(43) })).status, path).toBe(403);
    expect((await server.tokenize('x', made.key)).status).toBe(200);
    expect(await listed()).toHaveLength(2);
  });
});

describe('Access rules by form', () => {
  const two = {
    priority: 3,
    conditions: [
      { attribute: 'container', operator: 'starts_with', value: '/pci/' },
      { attribute: 'id', operator: 'equals', value: 'a' },
    ],
    transform: 'mask',
    permissions: ['token:read'],
  };
  const inPci = { priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:read', 'token:use'] };
  const byId = {
    description: 'One "card" <b>',
    priority: 2,
    conditions: [{ attribute: 'id', operator: 'starts_with', value: 'order-' }],
    transform: 'redact',
    permissions: ['token:delete'],
  };

  const changed = async (application: Application, fields: Record<string, string>) => {
    const { text } = await member.get(pathOf(application));
    return member.post(pathOf(application), formIn(text, fields));
  };

  test('limit a new key to a container without JSON', async () => {
    const answer = await create({
      name: 'Reader',
      job: 'custom',
      'rule.0.scope': 'container',
      'rule.0.value': '/pci/',
      'rule.0.transform': 'reveal',
      'rule.0.priority': '1',
      'rule.0.token:read': 'yes',
    });
    expect(answer.text).toMatch(keyPattern);
    expect(wordsOf(answer.text)).toContain('The API key of Reader');
    expect((await listed())[0]).toMatchObject({
      name: 'Reader',
      permissions: [],
      rules: [{ priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:read'] }],
    });
  });

  const use = { priority: 9, container: '/', transform: 'reveal', permissions: ['token:use'] };

  test('keep their bound where other fields are saved, and lose it where its fields are emptied', async () => {
    const { body: proxy } = await ask('POST', '/proxies', { name: 'P', destination_url: 'https://api.example.com' });
    const bound_to = {
      hosts: ['api.example.com', '*.example.org'],
      proxies: [proxy.id],
      places: ['body', 'query'],
      max_uses: 3,
      until: '2090-01-01T00:00:00.000Z',
      allowance: { max_amount: 2000, currency: 'usd', max_total: 5000, merchant_id: 'acme' },
    };
    const application = await make({ type: 'private', rules: [{ ...use, bound_to }] });
    const stored = (await read(application.id)).rules;
    expect((await changed(application, { name: 'Renamed', 'rule.0.priority': '8' })).status).toBe(303);
    const after = await read(application.id);
    expect([after.name, after.rules]).toEqual(['Renamed', [{ ...stored[0], priority: 8 }]]);
    const { text } = await member.get(pathOf(application));
    const bound = Object.keys(formIn(text)).filter((name) =>
      /^rule\.0\.(?:hosts|proxies|max_uses|until|body|query|allowance_\w+)$/.test(name),
    );
    const emptied = Object.fromEntries(bound.map((name) => [name, '']));
    expect((await changed(application, emptied)).status).toBe(303);
    expect((await read(application.id)).rules).toEqual([{ ...use, priority: 8 }]);
  });

  test('bind what they use by fields: hosts, places, uses and what a request may charge', async () => {
    const { body: proxy } = await ask('POST', '/proxies', { name: 'P', destination_url: 'https://api.example.com' });
    const row = { 'rule.0.scope': 'container', 'rule.0.value': '/pci/', 'rule.0.transform': 'reveal' };
    const rule = { ...row, 'rule.0.priority': '1', 'rule.0.token:use': 'yes' };
    const bound = {
      'rule.0.hosts': 'b.example.com\r\na.example.com\r\n',
      'rule.0.body': 'yes',
      'rule.0.max_uses': '2',
    };
    const made = await create({ name: 'Charge', job: 'custom', ...rule, ...bound });
    expect(made.text).toMatch(keyPattern);
    const [application] = await listed();
    const hosts = ['a.example.com', 'b.example.com'];
    expect((await read(application?.id ?? '')).rules).toMatchObject([
      { container: '/pci/', permissions: ['token:use'], bound_to: { hosts, places: ['body'], max_uses: 2 } },
    ]);
    const allowance = { 'rule.0.allowance_max_amount': '2000', 'rule.0.allowance_currency': 'USD' };
    const charge = { 'rule.0.hosts': '', 'rule.0.proxies': proxy.id, ...allowance };
    expect((await changed(application as Application, charge)).status).toBe(303);
    expect((await read(application?.id ?? '')).rules[0].bound_to).toEqual({
      proxies: [proxy.id],
      places: ['body'],
      max_uses: 2,
      allowance: { max_amount: 2000, currency: 'usd' },
    });
    const page = await member.get(pathOf(application as Application));
    expect(wordsOf(page.text)).toContain(
      `only through the proxies ${proxy.id}, only in body of a request, at most 2 times each`,
    );
  });

  test('have the errors of a bound beside its fields', async () => {
    const application = await make({ type: 'private', rules: [use] });
    const wrong = { 'rule.0.hosts': 'https://a.example.com', 'rule.0.max_uses': 'many' };
    const answer = await changed(application, wrong);
    expect(answer.status).toBe(400);
    expect(problemAt(answer.text, 'rule.0.hosts')).toContain('It must be a host name such as api.example.com');
    expect(problemAt(answer.text, 'rule.0.max_uses')).toContain('It must be an integer from 1 to 1000');
    expect(rulesIn(answer.text)).toMatchObject(wrong);
    const reads = await changed(application, { 'rule.0.hosts': 'a.example.com', 'rule.0.token:read': 'yes' });
    expect(problemAt(reads.text, 'rule-rows')).toContain(
      'Rule 1, bound_to: is for rules whose only permission is token:use',
    );
    expect((await read(application.id)).rules).toEqual([use]);
  });

  test('are shown, and stay where others are changed; a rule of several conditions too', async () => {
    const application = await make({ type: 'private', rules: [inPci, byId, two] });
    const stored = (await read(application.id)).rules;
    const { text } = await member.get(pathOf(application));
    expect(rulesIn(text)).toMatchObject({
      'rule.0.scope': 'container',
      'rule.0.value': '/pci/',
      'rule.1.scope': 'id starts_with',
      'rule.1.description': 'One &quot;card&quot; &lt;b&gt;',
      'rule.2.kept': '2',
    });
    expect((await changed(application, { 'rule.1.description': byId.description })).status).toBe(303);
    expect((await read(application.id)).rules).toEqual(stored);
    const fields = { 'rule.0.transform': 'mask', 'rule.0.token:use': '', 'rule.1.description': byId.description };
    expect((await changed(application, fields)).status).toBe(303);
    const after = [{ ...stored[0], transform: 'mask', permissions: ['token:read'] }, stored[1], stored[2]];
    expect((await read(application.id)).rules).toEqual(after);
  });

  test('are removed and added', async () => {
    const application = await make({ type: 'private', permissions: ['token:read'], rules: [inPci, two] });
    const none = { 'rule.0.value': '', 'rule.0.token:read': '', 'rule.0.token:use': '' };
    const one = { 'rule.2.scope': 'id equals', 'rule.2.value': 'a', 'rule.2.token:use': 'yes' };
    expect((await changed(application, { ...none, ...one, 'rule.1.remove': 'yes' })).status).toBe(303);
    expect((await read(application.id)).rules).toMatchObject([
      { conditions: [{ attribute: 'id', operator: 'equals', value: 'a' }], permissions: ['token:use'] },
    ]);
    expect((await changed(application, { rules: '[]' })).status).toBe(303);
    expect((await read(application.id)).rules).toEqual([]);
  });

  test.each<[string, Record<string, string>, string]>([
    ['a container that is none', { 'rule.0.value': 'pci' }, 'Rule 1, container: must be a container path'],
    ['a rule without permissions', { 'rule.1.value': '/a/' }, 'Rule 2, permissions: must name a permission'],
    ['a priority that is none', { 'rule.0.priority': '0' }, 'Rule 1, priority:'],
    ['an empty priority', { 'rule.0.priority': '' }, 'Rule 1, priority:'],
  ])('say what is wrong of %s', async (_, fields, sentence) => {
    const application = await make({ type: 'private', rules: [inPci] });
    const answer = await changed(application, { 'rule.0.description': 'kept', ...fields });
    expect(answer.status).toBe(400);
    expect(problemAt(answer.text, 'rule-rows')).toContain(sentence);
    expect(rulesIn(answer.text)).toMatchObject({ 'rule.0.description': 'kept', ...fields });
  });

  test('are changed in one place', async () => {
    const application = await make({ type: 'private', rules: [inPci] });
    const answer = await changed(application, { 'rule.0.value': '/a/', rules: JSON.stringify([two]) });
    expect(answer.status).toBe(422);
    expect(problemAt(answer.text, 'rules')).toContain('must be changed in one place: above, or as JSON');
    expect((await read(application.id)).rules).toHaveLength(1);
    expect((await changed(application, { rules: JSON.stringify([two]) })).status).toBe(303);
    expect((await read(application.id)).rules).toMatchObject([two]);
  });

  test('that are more than rows are changed as JSON, and a place that is not there changes nothing', async () => {
    const rules = Array.from({ length: 11 }, (_, at) => ({ ...inPci, priority: at + 1 }));
    const application = await make({ type: 'private', rules });
    const { text } = await member.get(pathOf(application));
    expect(rulesIn(text)).toEqual({});
    expect((await changed(application, { name: 'Other' })).status).toBe(303);
    expect(await read(application.id)).toMatchObject({ name: 'Other', rules });
    const few = await make({ type: 'private', rules: [inPci, two] });
    await changed(few, { 'rule.1.kept': '7' });
    expect((await read(few.id)).rules).toMatchObject([inPci]);
    await changed(few, { 'rule.1.kept': '0' });
    expect((await read(few.id)).rules).toMatchObject([inPci, inPci]);
  });
});
