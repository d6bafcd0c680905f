// Formulas over HTTP: code with its contracts, compiled before it is stored, sealed, and a tenant's own.
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { moduleNames } from '../src/platform/sandbox/protocol/module-names.ts';
import type { Permission } from '../src/modules/access/permissions.ts';
import { installOfficialFormulas } from '../src/modules/code/official.ts';
import { hearNotices } from './support/notices.ts';
import { type BadBody, describeBadBodies } from './support/resource.ts';
import {
  type Answer,
  type SharedServer,
  startServer,
  type TestServer,
  type TestTenant,
  useServer,
} from './support/server.ts';

let server: SharedServer;
let tenant: TestTenant;

beforeAll(async () => {
  server = await useServer();
  tenant = await server.newTenant();
});

const code = 'module.exports = async (req) => ({ raw: req.args });\n';
const formula = { name: 'Echo', type: 'private', code };

const send = (method: string, path: string, json?: unknown, key = tenant.api_key, headers = {}): Promise<Answer> =>
  server.request(method, path, { key, headers, ...(json === undefined ? {} : { json }) });

const create = async (json: object = {}, key = tenant.api_key) => {
  const answer = await send('POST', '/reactor-formulas', { ...formula, ...json }, key);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

const useIn = async (formula_id: string, json: object = {}) => {
  const answer = await send('POST', '/reactors', { name: 'Uses it', formula: { id: formula_id }, ...json });
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};

/** A key of the tenant with these permissions and no others, made by the operator. */
const keyWith = async (...held: Permission[]): Promise<string> =>
  (await server.newKey(tenant, { permissions: held })).api_key;

const idsOf = ({ body }: Answer): string[] => body.data.map(({ id }: { id: string }) => id);

// --- Icons, made here ---

const chunk = (name: string, content: Buffer): Buffer => {
  const named = Buffer.concat([Buffer.from(name, 'latin1'), content]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length);
  sum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, sum]);
};
const pngSignature = Buffer.from('89504e470d0a1a0a', 'hex');
const header = chunk('IHDR', Buffer.from('00000001000000010802000000', 'hex'));
const pixels = (bytes: number) => chunk('IDAT', Buffer.alloc(bytes, 1));
const end = chunk('IEND', Buffer.alloc(0));
const png = (...parts: Buffer[]) => Buffer.concat([pngSignature, ...parts]);
const jpeg = (...parts: string[]) => Buffer.from(`ffd8${parts.join('')}`, 'hex');
const jpegSegment = 'ffe000044a46';
const jpegScan = 'ffda0003010102ff0003';
const script = Buffer.from('<script>alert(1)</script>');
const url = (type: string, bytes: Buffer) => `data:${type};base64,${bytes.toString('base64')}`;

const goodPng = url('image/png', png(header, pixels(12), end));
const goodJpeg = url('image/jpeg', jpeg(jpegSegment, jpegScan, 'ffd9'));

describe('a formula', () => {
  test('that is changed runs its new code in its reactors at once', async () => {
    const { id } = await create({ code: "module.exports = () => ({ raw: 'old' })" });
    const reactor = await useIn(id);
    const react = async () => (await send('POST', `/reactors/${reactor.id}/react`, {})).body;
    expect(await react()).toEqual({ raw: 'old' });
    const renewed = { ...formula, code: "module.exports = () => ({ raw: 'new' })" };
    expect((await send('PUT', `/reactor-formulas/${id}`, renewed)).status).toBe(200);
    expect(await react()).toEqual({ raw: 'new' });
  });

  test('that reactors are made of is not deleted: 409, until they are gone', async () => {
    const { id } = await create();
    const reactor = await useIn(id);
    const answer = await send('DELETE', `/reactor-formulas/${id}`);
    expect(answer.status).toBe(409);
    expect(answer.body.detail).toContain('Delete them first');
    expect((await send('GET', `/reactor-formulas/${id}`)).status).toBe(200);
    expect((await send('DELETE', `/reactors/${reactor.id}`)).status).toBe(204);
    expect((await send('DELETE', `/reactor-formulas/${id}`)).status).toBe(204);
  });

  test('is never deleted under a reactor that is being made of it', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { id } = await create();
      const [made, deleted] = await Promise.all([
        send('POST', '/reactors', { name: 'Race', formula: { id } }),
        send('DELETE', `/reactor-formulas/${id}`),
      ]);
      expect([
        [201, 409],
        [404, 204],
      ]).toContainEqual([made.status, deleted.status]);
    }
  });

  test('notifies every process of a change, so that none runs the old code', async () => {
    const { id } = await create();
    const heard = await hearNotices(server);
    try {
      await send('PUT', `/reactor-formulas/${id}`, formula);
      await heard.times(`runnable ${tenant.tenant_id}`, 1);
    } finally {
      await heard.close();
    }
  });
});

describe('code', () => {
  const secret = 'sk_live_in_the_code';
  const refused: [name: string, text: string, sentence: RegExp][] = [
    ['what ends too early', `const key = '${secret}';\nmodule.exports = (`, /does not compile: line 2, column \d+/],
    ['an unexpected token', `const key = '${secret}';\n\n  const a = = 1;`, /does not compile: line 3, column 13/],
    ['a module of the other kind', `import fs from 'fs'; '${secret}'`, /does not compile: line 1/],
    ['a word that quotes the code', `'${secret}';\nlet secret_name; let secret_name;`, /does not compile: line 2/],
    ['no function', `module.exports = { key: '${secret}' };`, /must export a function/],
    ['nothing', '// nothing', /must export a function/],
    [
      'a module that is not there',
      `const key = '${secret}';\nconst x = require('secret-module');\nmodule.exports = async () => ({});`,
      /requires a module that does not exist here: line 2, column \d+\. Modules: assert, .*\baxios\b/,
    ],
    [
      'a misspelt module',
      `const x = require('node:crypt');\nmodule.exports = async () => '${secret}';`,
      /does not exist here: line 1, column \d+\. Did you mean crypto\? Modules: /,
    ],
  ];
  test.each(refused)(
    'that is %s is a 422 that says where, and not what stands there',
    async (_name, text, sentence) => {
      const { id } = await create();
      for (const [method, path] of [
        ['POST', '/reactor-formulas'],
        ['PUT', `/reactor-formulas/${id}`],
      ] as const) {
        const answer = await send(method, path, { ...formula, code: text });
        expect(answer.status, answer.text).toBe(422);
        expect(Object.keys(answer.body.errors)).toEqual(['code']);
        expect(answer.body.errors.code).toEqual([expect.stringMatching(sentence)]);
        expect(answer.text).not.toContain('secret');
      }
      expect((await send('GET', `/reactor-formulas/${id}`)).body.code).toBe(code);
    },
  );

  test.each([
    ['guarded', `let x; try { x = require('zlib'); } catch { x = undefined; }`],
    ['in a branch that is not taken', `if (typeof window === 'object') require('jsdom');`],
    ['computed', `const load = (name) => require(name);`],
    ['of a module that is there', moduleNames.map((name) => `require('${name}');`).join('')],
  ])('with a require that is %s is accepted', async (_name, text) => {
    const answer = await send('POST', '/reactor-formulas', {
      ...formula,
      code: `${text}\nmodule.exports = async () => ({});`,
    });
    expect(answer.status, answer.text).toBe(201);
  });

  test('whose top level never ends is refused', async () => {
    const answer = await send('POST', '/reactor-formulas', { ...formula, code: 'for (;;);' });
    expect(answer.status, answer.text).toBe(422);
    expect(answer.body.errors.code).toEqual([expect.stringContaining('top level')]);
  });

  test('that throws as it loads is kept: an invocation may have what it misses', async () => {
    const text = "if (Date.now() > 0) throw new Error('not now');\nmodule.exports = () => ({});";
    expect((await create({ code: text })).code).toBe(text);
  });

  test('may export its function as compilers of ES modules write it', async () => {
    const { id } = await useIn((await create({ code: 'exports.default = () => ({ raw: 1 });' })).id);
    expect((await send('POST', `/reactors/${id}/react`, {})).body).toEqual({ raw: 1 });
  });

  test('is sealed at rest, under the tenant, the formula and the field', async () => {
    const text = `module.exports = () => ({ raw: '${crypto.randomUUID()}' });`;
    const [one, two] = [await create({ code: text }), await create({ code: text })];
    const rows = await server.sql('SELECT * FROM reactor_formulas WHERE id = ANY($1::uuid[])', [[one.id, two.id]]);
    expect(rows).toHaveLength(2);
    expect(rows[0].sealed.equals(rows[1].sealed)).toBe(false);
    for (const row of rows)
      for (const value of Object.values(row)) {
        const bytes = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value) ?? '');
        expect(bytes.includes('module.exports')).toBe(false);
      }
    await server.sql('UPDATE reactor_formulas SET sealed = $2 WHERE id = $1', [
      one.id,
      rows.find(({ id }) => id === two.id).sealed,
    ]);
    const moved = await send('GET', `/reactor-formulas/${one.id}`);
    expect(moved.status).toBe(500);
    expect(moved.text).not.toContain('module');
    expect(server.logLines.join('')).toContain('seal_broken');
    await server.sql('DELETE FROM reactor_formulas WHERE id = $1', [one.id]);
  });
});

describe('a bad body', () => {
  const element = { name: 'KEY', type: 'string' };
  const parameter = { name: 'card', type: 'string' };
  const many = (count: number) => Array.from({ length: count }, (_, index) => ({ ...element, name: `KEY_${index}` }));
  const cases: BadBody[] = [
    ['no type', { type: undefined }, 'type'],
    ['another type', { type: 'public' }, 'type'],
    ['a description too long', { description: 'x'.repeat(1_001) }, 'description'],
    ['a description that is no text', { description: 1 }, 'description'],
    ['a description of half a character', { description: '\ud800' }, 'description'],
    ['no code', { code: undefined }, 'code'],
    ['empty code', { code: '' }, 'code'],
    ['code too long', { code: `${code}//${'x'.repeat(50_000)}` }, 'code'],
    ['code with NUL', { code: `${code}//\0` }, 'code'],
    ['a configuration that is no list', { configuration: {} }, 'configuration'],
    ['too many configuration elements', { configuration: many(26) }, 'configuration'],
    ['an element that is no object', { configuration: ['KEY'] }, 'configuration[0]'],
    ['an element without a name', { configuration: [{ type: 'string' }] }, 'configuration[0].name'],
    ['an element with a dot', { configuration: [{ ...element, name: 'A.B' }] }, 'configuration[0].name'],
    ['an element that is a prototype', { configuration: [{ ...element, name: '__proto__' }] }, 'configuration[0].name'],
    ['an element of no type', { configuration: [element, { name: 'B', type: 'object' }] }, 'configuration[1].type'],
    ['an element twice', { configuration: [element, element] }, 'configuration[1].name'],
    ['too many parameters', { request_parameters: many(26) }, 'request_parameters'],
    [
      'a parameter that begins with a dot',
      { request_parameters: [{ ...parameter, name: '.a' }] },
      'request_parameters[0].name',
    ],
    [
      'a parameter with two dots',
      { request_parameters: [{ ...parameter, name: 'a..b' }] },
      'request_parameters[0].name',
    ],
    [
      'a parameter below a prototype',
      { request_parameters: [{ ...parameter, name: 'a.constructor.b' }] },
      'request_parameters[0].name',
    ],
    ['a parameter twice', { request_parameters: [parameter, parameter] }, 'request_parameters[1].name'],
    [
      'a parameter that is the parent of another',
      { request_parameters: [parameter, { ...parameter, name: 'card.number' }] },
      'request_parameters[0].name',
    ],
    [
      'a parameter that is optional in words',
      { request_parameters: [{ ...parameter, optional: 'yes' }] },
      'request_parameters[0].optional',
    ],
    // Icons are shown in the console: an image that is a script would run there.
    ['an icon that is SVG', { icon: url('image/svg+xml', Buffer.from('<svg/>')) }, 'icon'],
    ['an icon that is HTML', { icon: 'data:text/html,<b>x</b>' }, 'icon'],
    ['an icon that is a link', { icon: 'https://example.com/a.png' }, 'icon'],
    ['an icon that is no base64', { icon: 'data:image/png;base64,!!!' }, 'icon'],
    ['an icon in base64 of another form', { icon: goodPng.replace(/=*$/, '') + '====' }, 'icon'],
    ['an icon of 10 MB in a smaller body', { icon: url('image/png', png(header, pixels(60_000), end)) }, 'icon'],
    ['an icon that is a PNG header with a script', { icon: url('image/png', png(script)) }, 'icon'],
    ['an icon with a script behind its end', { icon: url('image/png', png(header, pixels(4), end, script)) }, 'icon'],
    ['an icon without pixels', { icon: url('image/png', png(header, end)) }, 'icon'],
    [
      'an icon whose checksum is another',
      { icon: url('image/png', png(header, pixels(4).fill(2, 8, 12), end)) },
      'icon',
    ],
    ['an icon that is called otherwise', { icon: goodPng.replace('image/png', 'image/jpeg') }, 'icon'],
    ['a JPEG that is called a PNG', { icon: goodJpeg.replace('image/jpeg', 'image/png') }, 'icon'],
    ['a JPEG without a scan', { icon: url('image/jpeg', jpeg(jpegSegment, 'ffd9')) }, 'icon'],
    [
      'a JPEG with a script behind its end',
      { icon: url('image/jpeg', Buffer.concat([jpeg(jpegSegment, jpegScan, 'ffd9'), script])) },
      'icon',
    ],
  ];
  describeBadBodies(
    () => server,
    '/reactor-formulas',
    async () => ({ post: formula, put: formula }),
    cases,
  );

  test('is refused for every field at once, without a word of what was sent', async () => {
    const answer = await send('POST', '/reactor-formulas', {
      name: '',
      type: 'secret-type',
      code: 7,
      icon: 'data:secret',
      configuration: [{ name: 'secret name', type: 'secret' }],
    });
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors).toSorted()).toEqual(
      ['code', 'configuration[0].name', 'configuration[0].type', 'icon', 'name', 'type'].toSorted(),
    );
    expect(answer.text).not.toContain('secret');
  });

  test.each([
    ['a PNG', goodPng],
    ['a JPEG', goodJpeg],
    ['a JPEG by its short name', goodJpeg.replace('image/jpeg', 'image/jpg')],
  ])('is not one with an icon that is %s', async (_name, icon) => {
    expect((await create({ icon })).icon).toBe(icon);
  });

  test('is not one with as much as there may be', async () => {
    const made = await create({
      name: 'x'.repeat(200),
      description: 'x'.repeat(1_000),
      code: code.padEnd(50_000, ' '),
      configuration: many(25),
      request_parameters: many(25),
    });
    expect((await send('GET', `/reactor-formulas/${made.id}`)).body).toEqual(made);
  });
});

test('a list of formulas of more than fits one answer is a 413 that says how to go on', async () => {
  const large = await server.newTenant();
  const { id } = await create({ name: 'Large', code: code.padEnd(50_000, ' ') }, large.api_key);
  const copies = `INSERT INTO reactor_formulas SELECT tenant_id, gen_random_uuid(), name, search_name, description, icon,
    sealed || sealed || sealed || sealed || sealed || sealed || sealed || sealed, configuration, request_parameters,
    version, created_at, created_by, modified_at, modified_by
    FROM reactor_formulas, generate_series(1, 60) WHERE id = $1`;
  await server.sql(copies, [id]);
  const answer = await send('GET', '/reactor-formulas?size=100', undefined, large.api_key);
  expect(answer.status, answer.text.slice(0, 200)).toBe(413);
  expect(answer.body.detail).toContain('size');
});

describe('official formulas', () => {
  const cardCheck = '5f0c2f4e-6b1d-4f36-9a54-0d8a3c1e7b01';
  let vault: TestServer;
  beforeAll(async () => {
    vault = await startServer();
  });
  afterAll(() => vault.close());

  test('are installed once, and again without a change; every process hears of it', async () => {
    const heard = await hearNotices(vault);
    try {
      const first = await installOfficialFormulas(vault.ctx);
      expect(first.map(({ outcome }) => outcome)).toEqual(Array(4).fill('created'));
      const second = await installOfficialFormulas(vault.ctx);
      expect(second.map(({ outcome }) => outcome)).toEqual(Array(4).fill('unchanged'));
      await vault.sql(`UPDATE official_formulas SET code = 'x' WHERE id = $1`, [cardCheck]);
      const third = await installOfficialFormulas(vault.ctx);
      expect(third.filter(({ outcome }) => outcome === 'updated').map(({ id }) => id)).toEqual([cardCheck]);
      await heard.times('runnable all', 3);
    } finally {
      await heard.close();
    }
  });

  test("are in every tenant's list, and may be read and used by all", async () => {
    await installOfficialFormulas(vault.ctx);
    const { api_key: key } = await vault.newTenant();
    const listed = await vault.request('GET', '/reactor-formulas', { key });
    expect(listed.body.pagination.total_items).toBe(4);
    expect(listed.body.data.map(({ type }: { type: string }) => type)).toEqual(Array(4).fill('official'));
    const named = await vault.request('GET', '/reactor-formulas?name=card*', { key });
    expect(idsOf(named)).toContain(cardCheck);
    const one = await vault.request('GET', `/reactor-formulas/${cardCheck}`, { key });
    expect(one.body).toMatchObject({ name: 'Card check', type: 'official', status: 'verified' });
    expect(one.body).not.toHaveProperty('created_by');
    const json = { name: 'Check', formula: { id: cardCheck } };
    expect((await vault.request('POST', '/reactors', { key, json })).status).toBe(201);
  });

  test('cannot be created, changed or deleted by tenants', async () => {
    await installOfficialFormulas(vault.ctx);
    const official = { ...formula, type: 'official' };
    const { id } = (await vault.request('POST', '/reactor-formulas', { json: formula })).body;
    for (const [method, path, json] of [
      ['POST', '/reactor-formulas', official],
      ['PUT', `/reactor-formulas/${id}`, official],
      ['PUT', `/reactor-formulas/${cardCheck}`, formula],
      ['PUT', `/reactor-formulas/${cardCheck}`, official],
      ['DELETE', `/reactor-formulas/${cardCheck}`, undefined],
    ] as const) {
      const answer = await vault.request(method, path, json === undefined ? {} : { json });
      expect(answer.status, `${method} ${path}: ${answer.text}`).toBe(403);
      expect(answer.body.detail).toContain('installed by the operator');
    }
    const still = await vault.request('GET', `/reactor-formulas/${cardCheck}`);
    expect(still.body.name).toBe('Card check');
  });
});

describe('the author of code must hold the permissions of its reactors’ applications', () => {
  test('so that other code needs all of that, and the rest of the formula nothing', async () => {
    const { id } = await create();
    const strong = await server.newKey(tenant, { permissions: ['token:read', 'proxy:delete'] });
    await useIn(id, { application: { id: strong.application_id } });
    const weak = await keyWith('reactor:update', 'token:read');
    const path = `/reactor-formulas/${id}`;
    const other = { ...formula, code: 'module.exports = async ({ svc }) => ({ raw: svc })' };
    const refused = await send('PUT', path, other, weak);
    expect(refused.status, refused.text).toBe(403);
    expect(refused.body.detail).toContain('proxy:delete');
    expect((await send('GET', path)).body.code).toBe(code);
    const renamed = { ...formula, name: 'Renamed', configuration: [{ name: 'A', type: 'string' }] };
    expect((await send('PUT', path, renamed, weak)).status).toBe(200);
    const equal = await keyWith('reactor:update', 'token:read', 'proxy:delete');
    expect((await send('PUT', path, other, equal)).status).toBe(200);
  });
});
