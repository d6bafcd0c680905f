// Formulas through the front door: code with its contracts, compiled before it is kept, sealed, and a tenant's own.
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Permission, permissions } from '../src/access/permissions.ts';
import { installOfficialFormulas } from '../src/runtime/official.ts';
import { sweep } from '../src/vault/sweep.ts';
import { hearNotices } from './support/notices.ts';
import { type Answer, startServer, type TestServer, type TestTenant } from './support/server.ts';

let server: TestServer;
let tenant: TestTenant;
let stranger: TestTenant;

beforeAll(async () => {
  server = await startServer();
  tenant = await server.newTenant();
  stranger = await server.newTenant();
});
afterAll(() => server.close());

const UNKNOWN_ID = '7d6f1f5e-0000-4000-8000-000000000000';

const code = 'module.exports = async (req) => ({ raw: req.args });\n';
const formula = { name: 'Echo', type: 'private', code };

const contracts = {
  configuration: [{ name: 'API_KEY', description: 'Of the shop', type: 'string' }],
  request_parameters: [
    { name: 'card.number', description: 'The card', type: 'string', optional: false },
    { name: 'amount', type: 'number', optional: true },
  ],
};

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
  test('is made and told as it was sent, with who made it', async () => {
    const answer = await send('POST', '/reactor-formulas', {
      ...formula,
      ...contracts,
      description: 'Says it again',
      icon: goodPng,
    });
    expect(answer.status, answer.text).toBe(201);
    const { id, created_at, ...rest } = answer.body;
    expect(answer.headers.get('location')).toBe(`/reactor-formulas/${id}`);
    expect(new Date(created_at).toISOString()).toBe(created_at);
    expect(rest).toEqual({
      name: 'Echo',
      description: 'Says it again',
      type: 'private',
      status: 'verified',
      icon: goodPng,
      code,
      ...contracts,
      created_by: tenant.application_id,
    });
    expect((await send('GET', `/reactor-formulas/${id}`)).body).toEqual(answer.body);
    const listed = (await send('GET', '/reactor-formulas')).body.data;
    expect(listed.find((each: { id: string }) => each.id === id)).toEqual(answer.body);
  });

  test('takes null for what may be left out, and nothing that is not its to choose', async () => {
    const made = await create({
      description: null,
      icon: null,
      configuration: null,
      request_parameters: null,
      status: 'coming_soon',
      created_by: UNKNOWN_ID,
      tenant_id: UNKNOWN_ID,
    });
    expect(made).toEqual({
      id: expect.any(String),
      ...formula,
      status: 'verified',
      configuration: [],
      request_parameters: [],
      created_by: tenant.application_id,
      created_at: expect.any(String),
    });
  });

  test('is found by its id in any case', async () => {
    const { id } = await create();
    expect((await send('GET', `/reactor-formulas/${id.toUpperCase()}`)).body.id).toBe(id);
  });

  test('is replaced as a whole, and its reactors run the new code at once', async () => {
    const made = await create({ ...contracts, description: 'Old', icon: goodPng, code: 'module.exports = () => ({})' });
    const plain = await create({ code: "module.exports = () => ({ raw: 'old' })" });
    const reactor = await useIn(plain.id);
    const react = async () => (await send('POST', `/reactors/${reactor.id}/react`, {})).body;
    expect(await react()).toEqual({ raw: 'old' });
    const answer = await send('PUT', `/reactor-formulas/${made.id}`, { ...formula, name: 'Renamed' });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body).toEqual({
      id: made.id,
      ...formula,
      name: 'Renamed',
      status: 'verified',
      configuration: [],
      request_parameters: [],
      created_by: tenant.application_id,
      created_at: made.created_at,
      modified_by: tenant.application_id,
      modified_at: expect.any(String),
    });
    expect((await send('GET', `/reactor-formulas/${made.id}`)).body).toEqual(answer.body);
    const renewed = { ...formula, code: "module.exports = () => ({ raw: 'new' })" };
    expect((await send('PUT', `/reactor-formulas/${plain.id}`, renewed)).status).toBe(200);
    expect(await react()).toEqual({ raw: 'new' });
  });

  test('is deleted, and is gone', async () => {
    const { id } = await create();
    const answer = await send('DELETE', `/reactor-formulas/${id}`);
    expect(answer.status).toBe(204);
    expect(answer.text).toBe('');
    expect((await send('GET', `/reactor-formulas/${id}`)).status).toBe(404);
    expect((await send('DELETE', `/reactor-formulas/${id}`)).status).toBe(404);
    expect(await server.sql('SELECT * FROM reactor_formulas WHERE id = $1', [id])).toEqual([]);
  });

  test('is in the log with every deed, and with who did it', async () => {
    const { id } = await create();
    await send('GET', `/reactor-formulas/${id}`);
    await send('PUT', `/reactor-formulas/${id}`, formula);
    await send('DELETE', `/reactor-formulas/${id}`);
    const rows = await server.sql(
      `SELECT operation, message, actor_id, actor_type, entity_type FROM audit_log
       WHERE tenant_id = $1 AND entity_ids = ARRAY[$2] ORDER BY id`,
      [tenant.tenant_id, id],
    );
    const deed = (operation: string, message: string) => ({
      operation,
      message,
      actor_id: tenant.application_id,
      actor_type: 'application',
      entity_type: 'reactor_formula',
    });
    expect(rows).toEqual([
      deed('create', 'Reactor formula created'),
      deed('read', 'Reactor formula retrieved'),
      deed('update', 'Reactor formula updated'),
      deed('delete', 'Reactor formula deleted'),
    ]);
    const listed = await create();
    await send('GET', '/reactor-formulas?name=Echo');
    const [{ count }] = await server.sql(
      `SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND operation = 'read' AND $2 = ANY(entity_ids)`,
      [tenant.tenant_id, listed.id],
    );
    expect(count).toBe('1');
  });

  test('is made once under an idempotency key', async () => {
    const headers = { 'svc-idempotency-key': 'formula-once' };
    const json = { ...formula, name: 'Once' };
    const first = await send('POST', '/reactor-formulas', json, tenant.api_key, headers);
    const second = await send('POST', '/reactor-formulas', json, tenant.api_key, headers);
    expect(second.headers.get('svc-idempotent-replayed')).toBe('true');
    expect(second.text).toBe(first.text);
    expect(idsOf(await send('GET', '/reactor-formulas?name=Once'))).toEqual([first.body.id]);
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

  test('tells every process of a change, so that none runs what was', async () => {
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
  const cases: [name: string, change: unknown, field: string][] = [
    ['none', undefined, ''],
    ['no object', [], ''],
    ['no name', { name: undefined }, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a name too long', { name: 'x'.repeat(201) }, 'name'],
    ['a name with NUL', { name: 'a\0b' }, 'name'],
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
    // security.md R18
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
  test.each(cases)('with %s is refused by the name of the field', async (_name, change, field) => {
    const { id } = await create();
    const isObject = typeof change === 'object' && !Array.isArray(change);
    const body = isObject ? { ...formula, ...change } : change;
    for (const [method, path] of [
      ['POST', '/reactor-formulas'],
      ['PUT', `/reactor-formulas/${id}`],
    ] as const) {
      const answer = await send(method, path, body);
      expect(answer.status, answer.text).toBe(400);
      expect(Object.keys(answer.body.errors)).toEqual([field]);
    }
  });

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

describe('the list', () => {
  let owner: TestTenant;
  const ids: string[] = [];
  const names = ['100% sure', '100_percent', 'back\\slash', 'Größe', 'Card check', 'card CHARGE', 'a*b'];
  const list = (query: string) => send('GET', `/reactor-formulas${query}`, undefined, owner.api_key);
  beforeAll(async () => {
    owner = await server.newTenant();
    for (const name of names) {
      server.clock.offsetMs += 1_000;
      ids.unshift((await create({ name }, owner.api_key)).id);
    }
  });

  test('has pages, newest first, of this tenant alone', async () => {
    const all = await list('');
    expect(idsOf(all)).toEqual(ids);
    expect(all.body.pagination).toEqual({ total_items: 7, page_number: 1, page_size: 20, total_pages: 1 });
    const second = await list('?page=2&size=3');
    expect(idsOf(second)).toEqual(ids.slice(3, 6));
    expect(second.body.pagination).toEqual({ total_items: 7, page_number: 2, page_size: 3, total_pages: 3 });
    const past = await list('?page=9');
    expect(past.body).toMatchObject({ data: [], pagination: { total_items: 7 } });
  });

  const searches: [name: string, found: string[]][] = [
    ['100%25 sure', ['100% sure']],
    ['100%25*', ['100% sure']],
    ['100_*', ['100_percent']],
    ['100*', ['100% sure', '100_percent']],
    ['_00*', []],
    ['%25', []],
    ['back\\slash', ['back\\slash']],
    ['back\\*', ['back\\slash']],
    ['*\\slash', ['back\\slash']],
    ['card*', ['Card check', 'card CHARGE']],
    ['CARD CHARGE', ['card CHARGE']],
    ['*check', ['Card check']],
    ['card', []],
    ['GR%C3%96SSE', []],
    ['gr%C3%B6%C3%9Fe', ['Größe']],
    ['gro%CC%88%C3%9F*', ['Größe']],
    ['*', names],
    ['a*b', ['a*b']],
    ['*a*c*e*', ['Card check', 'card CHARGE']],
  ];
  test.each(searches)('searched for %s finds what it says, all else literal', async (name, found) => {
    const answer = await list(`?name=${name}`);
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body.data.map((each: { name: string }) => each.name).toSorted()).toEqual(found.toSorted());
    expect(answer.body.pagination.total_items).toBe(found.length);
  });

  test.each([
    'page=0',
    'page=x',
    'size=0',
    'size=101',
    'name=',
    `name=${'x'.repeat(401)}`,
    'name=%00',
    'name=a&name=b',
  ])('refuses ?%s by its name', async (query) => {
    const answer = await list(`?${query}`);
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual([query.split('=', 1)[0]]);
  });

  test('of more than fits one answer is a 413 that says how to go on', async () => {
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

  test('are nobody else’s to make, change or delete', async () => {
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

describe('whoever writes the code uses what its reactors’ applications may', () => {
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

const routes: [method: string, path: string, permission: Permission, json?: unknown][] = [
  ['POST', '/reactor-formulas', 'reactor:create', formula],
  ['GET', '/reactor-formulas', 'reactor:read'],
  ['GET', '/reactor-formulas/ID', 'reactor:read'],
  ['PUT', '/reactor-formulas/ID', 'reactor:update', formula],
  ['DELETE', '/reactor-formulas/ID', 'reactor:delete'],
];

describe.each(routes)('%s %s', (method, path, permission, json) => {
  const at = (id: string) => path.replace('ID', id);

  test('refuses no key, and a key without its permission', async () => {
    const { id } = await create();
    expect((await server.request(method, at(id), { key: null, json })).status).toBe(401);
    const others = await keyWith(...permissions.filter((each) => each !== permission));
    const answer = await send(method, at(id), json, others);
    expect(answer.status).toBe(403);
    expect(answer.body.detail).toContain(permission);
    expect((await send('GET', `/reactor-formulas/${id}`)).status).toBe(200);
  });

  test.runIf(path.includes('ID'))(
    "answers a stranger's id byte for byte like an unknown one, and a bad one by its name",
    async () => {
      const trace = { 'svc-trace-id': 'the-same' };
      const theirs = await create({}, stranger.api_key);
      const logs = async () => (await server.sql("SELECT count(*) FROM audit_log WHERE outcome = 'success'"))[0].count;
      const before = await logs();
      const foreign = await send(method, at(theirs.id), json, tenant.api_key, trace);
      const unknown = await send(method, at(UNKNOWN_ID), json, tenant.api_key, trace);
      expect(foreign.status).toBe(404);
      expect(foreign.text).toBe(unknown.text);
      expect(await logs()).toBe(before);
      expect((await send('GET', `/reactor-formulas/${theirs.id}`, undefined, stranger.api_key)).body).toEqual(theirs);
      const bad = await send(method, at('not-an-id'), json);
      expect(bad.status).toBe(400);
      expect(Object.keys(bad.body.errors)).toEqual(['id']);
    },
  );
});

test('formulas of a tenant that was deleted are swept away', async () => {
  const gone = await server.newTenant();
  const { id } = await create({}, gone.api_key);
  expect((await send('DELETE', '/tenants/self', undefined, gone.api_key)).status).toBe(204);
  await sweep(server.ctx);
  expect(await server.sql('SELECT * FROM reactor_formulas WHERE id = $1', [id])).toEqual([]);
});
