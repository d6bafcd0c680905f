// Proxies that a member makes, changes and deletes by forms.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { certificateFor } from './support/certificates.ts';
import { type Browser, type SharedConsole, textOf, unescaped, useConsole } from './support/console.ts';
import type { TestTenant } from './support/server.ts';

const PATH = '/console/proxies';
const CODE = 'module.exports = async ({ args }) => args;\n';

let server: SharedConsole;
let tenant: TestTenant;
let member: Browser;

beforeAll(async () => {
  server = await useConsole();
});
beforeEach(async () => {
  tenant = await server.newTenant();
  member = await server.signIn({ tenant });
});

const ask = (method: string, path: string, json?: unknown) =>
  server.request(method, path, { key: tenant.api_key, ...(json !== undefined && { json }) });

const made = async (path: string, json: object) => {
  const { status, body, text } = await ask('POST', path, json);
  expect(status, text).toBe(201);
  return body;
};

const everything = async () => {
  const { cert, key } = certificateFor('client.test');
  const application = await made('/applications', { name: 'Code', type: 'private', permissions: ['token:use'] });
  return made('/proxies', {
    name: 'With <b>everything</b>',
    destination_url: 'https://api.example.com/v1?a=1',
    require_auth: false,
    expressions: 'off',
    timeout_seconds: 90,
    application: { id: application.id },
    allowed_hosts: ['api.example.com', '*.example.org'],
    configuration: { PEM: 'two\r\nlines\r\n', EMPTY: '', N: -0.5, BIG: 1e21, ON: true, OFF: false, DIGITS: '0012' },
    request_transform: { code: `\n${CODE}` },
    response_transform: { type: 'mask', matcher: 'regex', expression: '[0-9]{12}', replacement: '' },
    client_certificate: { certificate: String(cert), private_key: String(key) },
  });
};

/** What a browser sends for the form of a page as it is. */
const formIn = (page: string, action: string): Record<string, string> => {
  const [, form = ''] = new RegExp(`<form method="post" action="${action}".*?>(.*?)</form>`, 's').exec(page) ?? [];
  expect(form).not.toBe('');
  const fields: [string, string][] = [];
  for (const [, tag = '', name = ''] of form.matchAll(/(<input[^>]* name="([^"]+)"[^>]*>)/g)) {
    const value = unescaped(/ value="([^"]*)"/.exec(tag)?.[1] ?? '');
    if (!tag.includes('type="checkbox"') || tag.includes(' checked')) fields.push([name, value]);
  }
  for (const [, name = '', text = ''] of form.matchAll(/<textarea[^>]* name="([^"]+)"[^>]*>\n?(.*?)<\/textarea>/gs))
    fields.push([name, unescaped(text).replace(/\r?\n/g, '\r\n')]);
  for (const [, name = '', options = ''] of form.matchAll(/<select name="([^"]+)"[^>]*>(.*?)<\/select>/gs)) {
    const chosen = /<option(?: value="([^"]*)")? selected>([^<]*)/.exec(options);
    fields.push([name, unescaped(chosen?.[1] ?? chosen?.[2] ?? '')]);
  }
  return Object.fromEntries(fields);
};

const problemAt = (page: string, name: string): string =>
  textOf(new RegExp(`<span class="problem" id="${name}-problem">(.*?)</span>`, 's').exec(page)?.[1] ?? '');

const edit = async (id: string, typed: Record<string, string>, browser = member) => {
  const path = `${PATH}/${id}/edit`;
  const page = await browser.get(path);
  expect(page.status, page.text).toBe(200);
  return browser.post(path, { ...formIn(page.text, path), ...typed });
};

const create = async (typed: Record<string, string>) => {
  const { text } = await member.get(`${PATH}/new`);
  return member.post(`${PATH}/new`, { ...formIn(text, `${PATH}/new`), ...typed });
};

const read = async (id: string) => (await ask('GET', `/proxies/${id}`)).body;

describe('a new proxy', () => {
  test('has what was typed, and its page says so', async () => {
    const { id } = await made('/applications', { name: 'Code', type: 'private', permissions: ['token:use'] });
    const answer = await create({
      name: ' Payments ',
      destination_url: 'https://api.example.com/v1',
      allowed_hosts: 'api.example.com\r\n\r\n*.example.org',
      application_id: id,
      timeout_seconds: '7',
      echo_guard: 'mask',
      cvc_until: 'answered',
      cvc_statuses: '429, 402',
      cvc_path: '$.decline.type',
      cvc_equals: 'soft\r\n7\r\n"7"',
      amount_value: '$.amount ',
      amount_currency: '$.currency',
      amount_unit: 'major',
      amount_merchant: '$.merchant',
      idempotency_header: 'Idempotency-Key',
      is_open: 'yes',
      request_transform: CODE,
      response_transform: CODE,
      'configuration.0.name': 'API_KEY',
      'configuration.0.value': 'a\r\nb',
      'configuration.1.name': 'LIMIT',
      'configuration.1.type': 'number',
      'configuration.1.value': '12',
      'configuration.2.name': 'IS_LIVE',
      'configuration.2.type': 'yes or no',
      'configuration.2.value': 'no',
    });
    expect(answer.status, answer.text).toBe(303);
    const { data } = (await ask('GET', '/proxies')).body;
    expect(data).toMatchObject([
      {
        name: 'Payments',
        destination_url: 'https://api.example.com/v1',
        allowed_hosts: ['api.example.com', '*.example.org'],
        application_id: id,
        timeout_seconds: 7,
        echo_guard: 'mask',
        cvc: {
          until: 'answered',
          keep: { statuses: [429, 402], when: { path: '$.decline.type', equals: ['soft', 7, '7'] } },
        },
        amount: { value: '$.amount', currency: '$.currency', unit: 'major', merchant: '$.merchant' },
        idempotency_header: 'Idempotency-Key',
        require_auth: false,
        expressions: 'on',
        request_transform: { code: CODE },
        response_transform: { code: CODE },
        configuration: { API_KEY: 'a\nb', LIMIT: 12, IS_LIVE: false },
        created_by: member.user_id,
      },
    ]);
    expect(answer.headers.get('location')).toBe(`${PATH}/${data[0].id}?done=made`);
    expect(textOf((await member.follow(answer)).text)).toContain('The proxy was created.');
  });

  test('is sent twice and made once', async () => {
    const { text } = await member.get(`${PATH}/new`);
    const fields = { ...formIn(text, `${PATH}/new`), name: 'Once', destination_url: 'https://api.example.com' };
    const answers = [await member.post(`${PATH}/new`, fields), await member.post(`${PATH}/new`, fields)];
    expect(new Set(answers.map(({ headers }) => headers.get('location'))).size).toBe(1);
    expect((await ask('GET', '/proxies')).body.data).toHaveLength(1);
  });

  test.each([
    ['name', { name: '' }],
    ['destination_url', { destination_url: 'http://api.example.com' }],
    ['destination_url', { destination_url: 'https://127.0.0.1' }],
    ['allowed_hosts', { allowed_hosts: 'api.example.com\n\nno host' }],
    ['timeout_seconds', { timeout_seconds: 'soon' }],
    ['request_transform', { request_transform: 'module.exports = ' }],
    ['response_transform', { response_transform: CODE, expression: 'x' }],
    ['expression', { expression: '(' }],
    ['expression', { replacement: 'x' }],
    ['certificate', { certificate: 'x' }],
    ['private_key', { certificate: 'x' }],
    ['configuration-0', { 'configuration.0.value': 'without a name' }],
    ['configuration-0', { 'configuration.0.name': 'not a name', 'configuration.0.value': 'x' }],
    ['configuration-1', { 'configuration.0.name': 'A', 'configuration.1.name': 'A' }],
    ...['', '1e3', '007', '0x1', '12345678901234567890', 'NaN', 'Infinity'].map(
      (value) =>
        [
          'configuration-0',
          { 'configuration.0.name': 'A', 'configuration.0.type': 'number', 'configuration.0.value': value },
        ] as const,
    ),
    [
      'configuration-0',
      { 'configuration.0.name': 'A', 'configuration.0.type': 'yes or no', 'configuration.0.value': 'true' },
    ],
  ] as [string, Record<string, string>][])(
    'that is wrong says so beside %s, and is not made: %j',
    async (name, wrong) => {
      const answer = await create({ name: 'P', destination_url: 'https://api.example.com', ...wrong });
      expect([400, 422]).toContain(answer.status);
      expect(textOf(answer.text)).toContain('The proxy was not created.');
      const problem = problemAt(answer.text, name);
      expect(problem).not.toBe('');
      expect(formIn(answer.text, `${PATH}/new`)).toMatchObject(
        Object.fromEntries(Object.entries(wrong).map(([field, text]) => [field, text.replace(/\n/g, '\r\n')])),
      );
      expect((await ask('GET', '/proxies')).body.data).toEqual([]);
    },
  );

  test('is at most as large as the API takes, and the form says what is too much', async () => {
    const rows = Array.from({ length: 26 }, (_, index) => [`configuration.${index}.name`, `N${index}`] as const);
    const answer = await create({ name: 'P', destination_url: 'https://api.example.com', ...Object.fromEntries(rows) });
    expect(answer.status).toBe(400);
    expect(textOf(answer.text)).toContain('configuration must have at most 25');
  });
});

describe('a stored proxy', () => {
  test('that is saved as its form shows it stays as it is', async () => {
    const { id } = await everything();
    const before = await read(id);
    expect((await edit(id, {})).headers.get('location')).toBe(`${PATH}/${id}?done=saved`);
    const { modified_at, modified_by, ...after } = await read(id);
    expect(after).toEqual(before);
    expect([typeof modified_at, modified_by]).toEqual(['string', member.user_id]);
  });

  test('gets what was typed, and loses what was emptied', async () => {
    const { id } = await everything();
    const both = await edit(id, { certificate: 'x', no_certificate: 'yes' });
    expect([both.status, problemAt(both.text, 'certificate')]).toEqual([422, expect.stringContaining('must be empty')]);
    const answer = await edit(id, {
      name: 'Other',
      is_open: '',
      is_literal: '',
      allowed_hosts: '',
      application_id: '',
      request_transform: '',
      expression: '',
      replacement: '*',
      no_certificate: 'yes',
      'configuration.0.name': '',
      'configuration.0.value': '',
    });
    expect(answer.status, textOf(answer.text)).toBe(303);
    const after = await read(id);
    expect(after).toMatchObject({ name: 'Other', require_auth: true, expressions: 'on' });
    expect(Object.keys(after.configuration)).toEqual(['EMPTY', 'N', 'BIG', 'ON', 'OFF', 'DIGITS']);
    for (const gone of [
      'allowed_hosts',
      'application_id',
      'request_transform',
      'response_transform',
      'client_certificate',
    ])
      expect(after[gone], gone).toBeUndefined();
  });

  test('that others changed meanwhile is not overwritten unseen', async () => {
    const { id } = await everything();
    const path = `${PATH}/${id}/edit`;
    const fields = formIn((await member.get(path)).text, path);
    expect((await ask('PATCH', `/proxies/${id}`, { name: 'Theirs' })).status).toBe(200);
    const refused = await member.post(path, { ...fields, name: 'Mine' });
    expect([refused.status, (await read(id)).name]).toEqual([409, 'Theirs']);
    const again = formIn(refused.text, path);
    expect(again['name']).toBe('Mine');
    expect((await member.post(path, again)).status).toBe(303);
    expect((await read(id)).name).toBe('Mine');
  });

  test('is deleted after a question, and of another tenant or role is neither shown nor changed', async () => {
    const { id, key } = await everything();
    const theirs = await server.signIn({ tenant: await server.newTenant() });
    for (const action of ['edit', 'delete']) {
      expect((await theirs.get(`${PATH}/${id}/${action}`)).text).not.toContain('everything');
      expect((await theirs.post(`${PATH}/${id}/${action}`, { name: 'x' })).status).toBe(404);
    }
    const role = await server.signIn({ tenant });
    await ask('PUT', `/tenants/self/members/${role.member_id}`, { role: 'DEVELOPER' });
    const page = await role.get(`${PATH}/${id}/edit`);
    expect([page.status, textOf(page.text).includes('Your role does not change proxies.')]).toEqual([403, true]);
    const shown = (await role.get(`${PATH}/${id}`)).text;
    expect(shown).not.toMatch(/\/edit"|\/delete"/);
    const { modified_at, created_at } = await read(id);
    const fields = { name: 'x', destination_url: 'https://example.com', seen: modified_at ?? created_at };
    expect((await role.post(`${PATH}/${id}/edit`, fields)).status).toBe(403);
    expect((await role.post(`${PATH}/${id}/delete`)).status).toBe(403);
    expect((await read(id)).key).toBe(key);
    const own = (await member.get(`${PATH}/${id}`)).text;
    expect(own).not.toContain('<b>everything');
    expect(own).toContain(`action="${PATH}/${id}/delete"`);
    expect((await member.post(`${PATH}/${id}/delete`)).headers.get('location')).toBe(`${PATH}?done=deleted`);
    expect((await ask('GET', `/proxies/${id}`)).status).toBe(404);
  });

  test('shows its latest requests with their outcome', async () => {
    const { id, key } = await made('/proxies', { name: 'P', destination_url: 'https://no-such-host.invalid' });
    expect(textOf((await member.get(`${PATH}/${id}`)).text)).toContain('No requests yet.');
    const asked = await server.request('GET', '/proxy', { key: tenant.api_key, headers: { 'svc-proxy-key': key } });
    expect(asked.status).toBe(502);
    await expect
      .poll(async () => textOf((await member.get(`${PATH}/${id}`)).text), { timeout: 10_000 })
      .toMatch(/502 failed.*no-such-host\.invalid/s);
  });
});
