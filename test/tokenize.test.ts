// POST /tokenize over HTTP: every shape, every type, every invalid input.
import { type ClientRequest, request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { holdRow } from './support/held-rows.ts';
import { startServer, type TestServer } from './support/server.ts';
import { withoutDrawn } from './support/text.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };

const countTokens = async () => {
  const [row] = await server.sql(`SELECT (SELECT count(*) FROM tokens) +
    (SELECT count(*) FROM audit_log WHERE outcome = 'success') AS n`);
  return Number(row.n);
};

/** A refusal: 400 that names the place, repeats no value, and stores nothing. */
const expectRefused = async (body: unknown, path: string, secret?: string) => {
  const before = await countTokens();
  const answer = await server.tokenize(body);
  expect(answer.status, answer.text).toBe(400);
  expect(Object.keys(answer.body.errors)).toContain(path);
  if (secret !== undefined) expect(answer.text).not.toContain(secret);
  expect(await countTokens()).toBe(before);
  return answer;
};

describe('the response keeps the structure of the request', () => {
  test('a bare string becomes a JSON string that is a token id', async () => {
    const answer = await server.tokenize('hello');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toContain('application/json');
    expect(answer.body).toMatch(uuid);
  });

  test('objects and arrays nest, keys and order stay, null stays null', async () => {
    const answer = await server.tokenize({ b: ['x', { a: 'y', none: null }], a: { deep: [[['z']]] }, n: 5, t: true });
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.body)).toEqual(['b', 'a', 'n', 't']);
    expect(answer.body.b[0]).toMatch(uuid);
    expect(answer.body.b[1]).toEqual({ a: expect.stringMatching(uuid), none: null });
    expect(answer.body.a.deep[0][0][0]).toMatch(uuid);
    expect(answer.body.n).toMatch(uuid);
    expect(answer.body.t).toMatch(uuid);
  });

  test('empty containers and null alone come back as they are', async () => {
    for (const body of [{}, [], null, { a: {}, b: [] }]) expect((await server.tokenize(body)).body).toEqual(body);
  });

  test('hostile names are plain own keys of the answer', async () => {
    const names = ['toString', 'hasOwnProperty', 'then', 'length', '', 'constructor', 'toJSON', 'valueOf'];
    const answer = await server.tokenize(Object.fromEntries(names.map((name) => [name, { [name]: 'v' }])));
    expect(answer.status).toBe(200);
    for (const name of names) expect(answer.body[name][name]).toMatch(uuid);
    expect(({} as any).polluted).toBeUndefined();
  });

  test('a value comes back exactly as it went in', async () => {
    const values = [
      '',
      '\u0000',
      '\ud800',
      '💳',
      ' x ',
      'a\r\nb',
      0.1,
      -5,
      Number.MAX_SAFE_INTEGER,
      true,
      false,
      '{{ x }}',
    ];
    const ids = (await server.tokenize(values)).body as string[];
    for (const [index, id] of ids.entries())
      expect((await server.request('GET', `/tokens/${id}`)).body.data).toEqual(values[index]);
  });

  test('an object with type but no data is structure and is walked', async () => {
    const answer = await server.tokenize({ type: 'card', number: 'x' });
    expect(answer.body).toEqual({ type: expect.stringMatching(uuid), number: expect.stringMatching(uuid) });
  });
});

describe('cards', () => {
  test('a card answers with mask and masked data, without its security code', async () => {
    const { body, status } = await server.tokenize({ type: 'card', data: card, metadata: { order: '1' } });
    expect(status).toBe(200);
    const masked = { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 };
    expect(body).toMatchObject({
      type: 'card',
      tenant_id: server.tenant.tenant_id,
      mask: masked,
      data: masked,
      fingerprint_expression: '{{ data.number }}',
      containers: ['/pci/high/'],
      metadata: { order: '1' },
      created_by: server.tenant.application_id,
    });
    expect(body.fingerprint).toMatch(/^[1-9A-HJ-NP-Za-km-z]{20,100}$/);
    expect(Object.keys(body.data)).not.toContain('cvc');
    expect(withoutDrawn(JSON.stringify(body))).not.toContain('737');
  });

  test('numbers of 13 to 19 digits show the last four only', async () => {
    for (const number of ['4222222222222', '378282246310005', '6759649826438453', '6304000000000000000'].filter(luhn)) {
      const { body } = await server.tokenize([{ type: 'card', data: { number } }]);
      expect(body[0].data.number).toBe('X'.repeat(number.length - 4) + number.slice(-4));
    }
  });

  test('a plain permission reads a card masked, a reveal rule reads it whole with its code', async () => {
    const { body } = await server.tokenize({ type: 'card', data: card });
    const masked = await server.request('GET', `/tokens/${body.id}`);
    expect(masked.body.data).toEqual({ number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 });
    const rules = [{ priority: 1, container: '/pci/', transform: 'reveal', permissions: ['token:read'] }];
    const reader = await server.newKey(server.tenant, { rules });
    const raw = await server.request('GET', `/tokens/${body.id}`, { key: reader.api_key });
    expect(raw.body.data).toEqual(card);
    expect((await server.request('GET', `/tokens/${body.id}/`, { key: reader.api_key })).status).toBe(200);
  });

  test('a redact rule leaves data out', async () => {
    const { body } = await server.tokenize({ type: 'card', data: card });
    const rules = [{ priority: 1, container: '/', transform: 'redact', permissions: ['token:read', 'token:create'] }];
    const reader = await server.newKey(server.tenant, { rules });
    const answer = await server.request('GET', `/tokens/${body.id}`, { key: reader.api_key });
    expect(Object.keys(answer.body)).not.toContain('data');
    expect(withoutDrawn(answer.text)).not.toContain('4242"');
    expect(Object.keys((await server.tokenize({ type: 'card', data: card }, reader.api_key)).body)).not.toContain(
      'data',
    );
  });

  test('the security code is unreadable from its TTL on, and its key is destroyed by the sweep', async () => {
    const { sweep } = await import('../src/modules/tokens/sweep.ts');
    const { body } = await server.tokenize({ type: 'card', data: card });
    const rules = [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }];
    const reader = await server.newKey(server.tenant, { rules });
    const read = () => server.request('GET', `/tokens/${body.id}`, { key: reader.api_key });
    expect((await read()).body.data.cvc).toBe('737');
    const [{ id }] = await server.sql('SELECT id FROM token_cvcs ORDER BY expires_at DESC LIMIT 1');
    expect(id).toBeDefined();
    server.clock.offsetMs += 3_600_000 + 1000;
    try {
      expect((await read()).body.data).toEqual({ number: card.number, expiration_month: 12, expiration_year: 2030 });
      server.clock.offsetMs += 60_000;
      await sweep(server.ctx);
      expect(await server.sql('SELECT 1 FROM token_cvcs WHERE tenant_id = $1', [server.tenant.tenant_id])).toEqual([]);
      expect(await server.sql('SELECT 1 FROM ephemeral_keys')).toEqual([]);
    } finally {
      server.clock.offsetMs = 0;
    }
  });

  test('the keys of security codes live in an unlogged table', async () => {
    const [row] = await server.sql(`SELECT relpersistence FROM pg_class WHERE relname = 'ephemeral_keys'`);
    expect(row.relpersistence).toBe('u');
  });
});

const luhn = (digits: string) =>
  [...digits].toReversed().reduce((sum, digit, index) => {
    const value = Number(digit) * (index % 2 === 1 ? 2 : 1);
    return sum + (value > 9 ? value - 9 : value);
  }, 0) %
    10 ===
  0;

describe('the other types', () => {
  test.each([
    ['token', { any: ['json', 1, null] }, undefined, '/general/high/'],
    [
      'bank',
      { routing_number: '021000021', account_number: '000123456789' },
      { routing_number: '021000021', account_number: 'XXXXXXXX6789' },
      '/bank/high/',
    ],
    ['card_number', '4242424242424242', 'XXXXXXXXXXXX4242', '/pci/high/'],
    ['us_bank_account_number', '0012345', 'XXX2345', '/bank/high/'],
    ['us_bank_account_number', '123', 'XXX', '/bank/high/'],
    ['us_bank_routing_number', '021000021', 'XXXXX0021', '/bank/low/'],
    ['social_security_number', '123-45-6789', 'XXX-XX-6789', '/pii/high/'],
    ['employer_id_number', '12-3456789', 'XX-XXX6789', '/pii/high/'],
  ])('%s is masked and lies in its container', async (type, data, masked, container) => {
    const { body, status, text } = await server.tokenize({ type, data });
    expect(status, text).toBe(200);
    expect(body.data).toEqual(masked);
    expect(body.containers).toEqual([container]);
    expect(body.fingerprint).toBeTypeOf('string');
  });

  test('a mask of the caller decides what is shown and comes back as it was sent', async () => {
    const mask = { last: '{{ data.number | last4 }}', year: '{{ data.expiration_year }}' };
    const { body } = await server.tokenize({ type: 'card', data: card, mask });
    expect(body.mask).toEqual(mask);
    expect(body.data).toEqual({ last: '4242', year: 2030 });
    expect((await server.request('GET', `/tokens/${body.id}`)).body).toMatchObject({
      mask,
      data: { last: '4242', year: 2030 },
    });
  });
});

describe('fingerprints and deduplication', () => {
  test('equal values of a type agree within a tenant and never across', async () => {
    const other = await server.newTenant();
    const body = [
      { type: 'card', data: card },
      { type: 'card', data: { number: card.number } },
      { type: 'card_number', data: card.number },
    ];
    const [one, two, three] = (await server.tokenize(body)).body;
    expect(one.fingerprint).toBe(two.fingerprint);
    expect(three.fingerprint).not.toBe(one.fingerprint);
    const [foreign] = (await server.tokenize(body, other.api_key)).body;
    expect(foreign.fingerprint).not.toBe(one.fingerprint);
  });

  test('objects that differ in the order of their keys agree', async () => {
    const [one, two] = (
      await server.tokenize([
        { type: 'token', data: { a: 1, b: 2 } },
        { type: 'token', data: { b: 2, a: 1 } },
      ])
    ).body;
    expect(one.fingerprint).toBe(two.fingerprint);
  });

  test('deduplication answers with the token that is there, unchanged', async () => {
    const tenant = await server.newTenant();
    const request = { type: 'card', data: card, deduplicate_token: true };
    const first = (await server.tokenize(request, tenant.api_key)).body;
    expect(first._extras).toEqual({ deduplicated: false });
    const second = (await server.tokenize({ ...request, metadata: { a: 'b' } }, tenant.api_key)).body;
    expect(second.id).toBe(first.id);
    expect(second._extras).toEqual({ deduplicated: true });
    expect(second.metadata).toBeUndefined();
    const blind = await server.newKey(tenant, { permissions: ['token:create'] });
    const third = (await server.tokenize(request, blind.api_key)).body;
    expect(third._extras).toEqual({ deduplicated: false });
    expect(third.id).not.toBe(first.id);
    expect(Object.keys(third)).not.toContain('fingerprint');
  });

  test('a fingerprint chosen by the creator does not pass for another token (poisoning)', async () => {
    const tenant = await server.newTenant();
    const bait = {
      type: 'card',
      data: { number: '5555555555554444' },
      metadata: { x: card.number },
      fingerprint_expression: '{{ metadata.x }}',
    };
    const poisoned = (await server.tokenize(bait, tenant.api_key)).body;
    const honest = (await server.tokenize({ type: 'card', data: card, deduplicate_token: true }, tenant.api_key)).body;
    expect(honest.fingerprint).toBe(poisoned.fingerprint);
    expect(honest.id).not.toBe(poisoned.id);
    expect(honest.data.number).toBe('XXXXXXXXXXXX4242');
    // The older bait does not hide the honest token either, nor hold up an honest change.
    const again = (await server.tokenize({ type: 'card', data: card, deduplicate_token: true }, tenant.api_key)).body;
    expect(again).toMatchObject({ id: honest.id, _extras: { deduplicated: true } });
    const other = { type: 'card', data: { number: '378282246310005' } };
    await server.tokenize({ ...bait, metadata: { x: other.data.number } }, tenant.api_key);
    const changed = await server.request('PATCH', `/tokens/${honest.id}`, {
      key: tenant.api_key,
      headers: { 'content-type': 'application/merge-patch+json' },
      body: JSON.stringify({ data: other.data, deduplicate_token: true }),
    });
    expect(changed.status, changed.text).toBe(200);
  });

  test('fifty parallel requests that deduplicate make one token', async () => {
    const tenant = await server.newTenant();
    const request = { type: 'token', data: 'the same', deduplicate_token: true };
    const answers = await Promise.all(Array.from({ length: 50 }, () => server.tokenize(request, tenant.api_key)));
    expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1);
    expect(await server.sql('SELECT 1 FROM tokens WHERE tenant_id = $1', [tenant.tenant_id])).toHaveLength(1);
  });

  test('equal values in one request share a token', async () => {
    const item = { type: 'token', data: 'twice', deduplicate_token: true };
    const [one, two] = (await server.tokenize([item, item], (await server.newTenant()).api_key)).body;
    expect(one.id).toBe(two.id);
  });
});

describe('ids, aliases, expiry, indexes', () => {
  test('a chosen id is the id, a taken one is a 409 and nothing of its batch is stored', async () => {
    const id = 'order-4711.card';
    expect((await server.tokenize({ type: 'token', data: 'a', id })).body.id).toBe(id);
    expect((await server.request('GET', `/tokens/${id}`)).body.data).toBe('a');
    const before = await countTokens();
    const taken = await server.tokenize([
      { type: 'token', data: 'b' },
      { type: 'token', data: 'c', id },
    ]);
    expect(taken.status).toBe(409);
    expect(await countTokens()).toBe(before);
    expect((await server.tokenize({ type: 'token', data: 'a', id }, (await server.newTenant()).api_key)).status).toBe(
      200,
    );
  });

  test.each([
    ['a right-to-left override', 'abc\u202edef'],
    ['an isolate', 'abc\u2066def'],
    ['a zero-width space', 'abc\u200bdef'],
    ['a soft hyphen', 'abc\u00addef'],
    ['a line separator', 'abc\u2028def'],
    ['a control', 'abc\u0085def'],
    ['a byte order mark', '\ufeffabcdef'],
  ])('an id with %s is refused, as an expression that names it is', async (_name, id) => {
    const sentence = 'must not contain line ends, controls or hidden characters';
    const answer = await expectRefused({ type: 'token', data: 'a', id }, 'id');
    expect(answer.body.errors).toEqual({ id: [sentence] });
    expect((await server.request('POST', '/detokenize', { json: { a: `{{ ${id} }}` } })).status).toBe(400);
  });

  test('concurrent requests of which one is bad: the others are stored', async () => {
    const id = 'collides';
    await server.tokenize({ type: 'token', data: 'first', id });
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        server.tokenize({ type: 'token', data: 'x', ...(index % 4 === 0 ? { id } : {}) }),
      ),
    );
    expect(answers.filter((answer) => answer.status === 409)).toHaveLength(10);
    expect(answers.filter((answer) => answer.status === 200)).toHaveLength(30);
  });

  test('an alias resembles its value and is not the value', async () => {
    const answer = await server.tokenize({
      type: 'card',
      data: card,
      id: '{{ data.number | alias_preserve_format: 6, 4 }}',
    });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.body.id).toMatch(/^424242\d{6}4242$/);
    expect(answer.body.id).not.toBe(card.number);
    const ssn = { type: 'social_security_number', data: '123-45-6789', id: '{{ data | alias_preserve_format: 0, 4 }}' };
    expect((await server.tokenize(ssn)).body.id).toMatch(/^\d{3}-\d\d-6789$/);
  });

  test.each([
    ["{{ data.number | append: 'x' | alias_preserve_format: 16 }}"],
    ['{{ data.number | slice: 0, 12 | alias_preserve_format }}'],
    ["{{ data.number | alias_card | append: 'x' }}"],
    ['{{ data.number | alias_preserve_format: 12 }}'],
    ['{{ data.number | alias_preserve_length: 0, 12 }}'],
    ['{{ data.expiration_year | alias_preserve_format: 3 }}'],
    ['4242424242424242-{{ data.number | alias_card }}'],
    ['{{ data | alias_preserve_format }}'],
  ])('an alias never publishes its value: %s', async (id) => {
    await expectRefused({ type: 'card', data: card, id }, 'id', card.number);
  });

  test('a token is unreadable from expires_at on, and swept later with a log row', async () => {
    const { sweep } = await import('../src/modules/tokens/sweep.ts');
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    const { body } = await server.tokenize({ type: 'token', data: 'x', expires_at });
    expect(body.expires_at).toBe(expires_at);
    expect((await server.request('GET', `/tokens/${body.id}`)).status).toBe(200);
    server.clock.offsetMs = 61_000;
    try {
      expect((await server.request('GET', `/tokens/${body.id}`)).status).toBe(404);
      await sweep(server.ctx);
    } finally {
      server.clock.offsetMs = 0;
    }
    expect(await server.sql('SELECT 1 FROM tokens WHERE id = $1', [body.id])).toEqual([]);
    expect(
      await server.sql(`SELECT 1 FROM audit_log WHERE $1 = ANY(entity_ids) AND operation = 'delete'`, [body.id]),
    ).toHaveLength(1);
  });

  test('every documented form of a date is read', async () => {
    const forms = {
      '8/26/2030 7:23:57 PM -07:00': '2030-08-27T02:23:57.000Z',
      '9/27/2030': '2030-09-27T00:00:00.000Z',
      '2030-09-27': '2030-09-27T00:00:00.000Z',
      '2030-09-27T10:00:00': '2030-09-27T10:00:00.000Z',
      '2030-09-27T10:00:00+02:00': '2030-09-27T08:00:00.000Z',
    };
    for (const [expires_at, read] of Object.entries(forms))
      expect((await server.tokenize({ type: 'token', data: 'x', expires_at })).body.expires_at).toBe(read);
  });

  test('search indexes are stored as digests only', async () => {
    const { body } = await server.tokenize({
      type: 'token',
      // With signs that no digest has.
      data: 'find me 9.31',
      search_indexes: ['{{ data }}', '{{ data | last4 }}'],
    });
    expect(body.search_indexes).toEqual(['{{ data }}', '{{ data | last4 }}']);
    const [row] = await server.sql('SELECT search_digests FROM tokens WHERE id = $1', [body.id]);
    expect(row.search_digests).toHaveLength(2);
    expect(JSON.stringify(row)).not.toMatch(/find me|9\.31/);
  });
});

describe('containers and rights', () => {
  test('token:create is checked on each destination container, and all or nothing', async () => {
    const rules = [{ priority: 1, container: '/a/', transform: 'mask', permissions: ['token:create'] }];
    const { api_key } = await server.newKey(server.tenant, { rules });
    const inside = { type: 'token', data: 'x', containers: ['/A/Sub/'] };
    const made = await server.tokenize(inside, api_key);
    expect(made.status).toBe(200);
    expect(made.body.containers).toEqual(['/a/sub/']);
    const before = await countTokens();
    for (const containers of [['/b/'], ['/ab/'], ['/']]) {
      const refused = await server.tokenize([inside, { type: 'token', data: 'x', containers }], api_key);
      expect(refused.status).toBe(403);
      expect(refused.body.detail).toContain('token:create');
    }
    expect(await countTokens()).toBe(before);
  });

  test.each(['/a', 'a/', '/a/../b/', '/a%2f', '//', '/a b/', '', '/a/\u0000/'])(
    'the container %j is refused',
    async (container) => {
      await expectRefused({ type: 'token', data: 'x', containers: [container] }, 'containers[0]');
    },
  );

  test('requests that arrive together share their commits', async () => {
    const { tenant_id, api_key } = await server.newTenant();
    // The first batch waits for the lock, the others for the first batch.
    const held = await holdRow(server, 'LOCK TABLE tokens IN SHARE MODE', []);
    let arrived = 0;
    const count = () => void (arrived += 1);
    server.app.server.on('request', count);
    const cards = Array.from({ length: 32 }, () => server.tokenize({ type: 'card', data: card }, api_key));
    await held.waiting(1);
    await expect.poll(() => arrived, { timeout: 10_000 }).toBe(32);
    server.app.server.off('request', count);
    await held.letGo();
    expect((await Promise.all(cards)).map(({ status }) => status)).toEqual(Array(32).fill(200));
    const commits = await server.sql('SELECT count(*) FROM tokens WHERE tenant_id = $1 GROUP BY xmin::text', [
      tenant_id,
    ]);
    expect(commits.length).toBeLessThan(16);
  });

  test('every created token has its log row, in the same statement', async () => {
    const tenant = await server.newTenant();
    await server.tokenize({ a: 'x', b: { type: 'card', data: card } }, tenant.api_key);
    const rows = await server.sql(
      `SELECT t.type, l.entity_type, l.operation, l.message, l.actor_id, l.actor_type, t.xmin = l.xmin AS together
       FROM tokens t JOIN audit_log l ON l.tenant_id = t.tenant_id AND t.id = ANY(l.entity_ids) WHERE t.tenant_id = $1`,
      [tenant.tenant_id],
    );
    expect(rows).toHaveLength(2);
    for (const row of rows)
      expect(row).toEqual({
        type: row.type,
        entity_type: row.type,
        operation: 'create',
        message: 'Token created',
        actor_id: tenant.application_id,
        actor_type: 'application',
        together: true,
      });
  });

  test('a read is in the log before the answer leaves; no log, no answer', async () => {
    const { body } = await server.tokenize({ type: 'token', data: 'unlogged-secret' });
    await server.sql('ALTER TABLE audit_log RENAME TO audit_log_away');
    try {
      const answer = await server.request('GET', `/tokens/${body.id}`);
      expect(answer.status).toBe(503);
      expect(answer.text).not.toContain('unlogged-secret');
    } finally {
      await server.sql('ALTER TABLE audit_log_away RENAME TO audit_log');
    }
    await server.request('GET', `/tokens/${body.id}`);
    expect(
      await server.sql(`SELECT message FROM audit_log WHERE $1 = ANY(entity_ids) AND operation = 'read'`, [body.id]),
    ).toEqual([{ message: 'Token revealed' }]);
  });
});

describe('bad input is a 400 that names the place and stores nothing', () => {
  test('one bad item in fifty refuses all', async () => {
    const items: unknown[] = Array.from({ length: 49 }, (_, index) => `v${index}`);
    await expectRefused(
      [...items, { type: 'card', data: { number: '4242424242424241' } }],
      '[49].data.number',
      '4242424242424241',
    );
  });

  test('all failing fields are named at once', async () => {
    const answer = await expectRefused(
      { a: { type: 'card', data: { number: '1', expiration_month: 13, cvc: '12' } }, b: [{ type: 'nope', data: 1 }] },
      'a.data.number',
    );
    expect(Object.keys(answer.body.errors).sort()).toEqual([
      'a.data.cvc',
      'a.data.expiration_month',
      'a.data.number',
      'b[0].type',
    ]);
    expect(answer.body).toMatchObject({ title: 'One or more validation errors occurred.', status: 400 });
  });

  test.each([
    ['spaces', '4242 4242 4242 4242'],
    ['dashes', '4242-4242-4242-4242'],
    ['11 digits', '42424242424'],
    ['20 digits', '42424242424242424242'],
    ['full-width digits', '４２４２４２４２４２４２４２４２'],
    ['Arabic digits', '٤٢٤٢٤٢٤٢٤٢٤٢٤٢٤٢'],
    ['a wrong check digit', '4242424242424243'],
    ['a number', 4242424242424242],
    ['a line end', '4242424242424242\n'],
  ])('a card number with %s', async (_, number) => {
    await expectRefused({ type: 'card', data: { number } }, 'data.number', String(number).trim());
  });

  test.each([
    ['expiration_month', [0, 13, '1', 1.5, -1]],
    ['expiration_year', [1, 99_999, '2030', 30]],
    ['cvc', ['', '12', '12345', 'x'.repeat(10_240), 12, 12_345, 1.5]],
  ])('%s out of range', async (field, values) => {
    for (const value of values)
      await expectRefused({ type: 'card', data: { number: card.number, [field]: value } }, `data.${field}`);
  });

  test('a security code as a number is read as its digits', async () => {
    const answer = await server.tokenize({ type: 'card', data: { ...card, cvc: 9876 } });
    expect(answer.status).toBe(200);
    expect(withoutDrawn(answer.text)).not.toContain('9876');
  });

  test.each([
    [{ type: 'card', data: null }, 'data'],
    [{ type: 'card', data: [] }, 'data'],
    [{ type: 'unknown', data: 'x' }, 'type'],
    [{ type: { a: 1 }, data: 'x' }, 'type'],
    [{ x: { type: null, data: 'x' } }, 'x.type'],
    [{ type: 'token', data: 'x', id: 'a/b' }, 'id'],
    [{ type: 'token', data: 'x', id: 'ab' }, 'id'],
    [{ type: 'token', data: 'x', id: 'search' }, 'id'],
    [{ type: 'token', data: 'secret-value', id: '{{ data }}' }, 'id'],
    [{ type: 'token', data: 'x', id: 'a'.repeat(401) }, 'id'],
    [{ type: 'token', data: 'x', id: 'nul\u0000' }, 'id'],
    [{ type: 'token', data: 'x', metadata: { a: 1 } }, 'metadata.a'],
    [{ type: 'token', data: 'x', metadata: { a: '\u0000' } }, 'metadata.a'],
    [{ type: 'token', data: 'x', metadata: { a: '\ud800' } }, 'metadata.a'],
    [{ type: 'token', data: 'x', metadata: { a: 'v'.repeat(501) } }, 'metadata.a'],
    [
      { type: 'token', data: 'x', metadata: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`k${n}`, 'v'])) },
      'metadata',
    ],
    [{ type: 'token', data: 'x', search_indexes: Array.from({ length: 1000 }, () => '{{ data }}') }, 'search_indexes'],
    [{ type: 'token', data: 'x', search_indexes: ['{{ data.missing }}'] }, 'search_indexes[0]'],
    [{ type: 'token', data: 'x', search_indexes: ['{{ data'] }, 'search_indexes[0]'],
    [{ type: 'token', data: 'x', fingerprint_expression: '{{ {{ data }} }}' }, 'fingerprint_expression'],
    [{ type: 'token', data: 'x', fingerprint_expression: 'the same for all' }, 'fingerprint_expression'],
    [
      { type: 'token', data: 'x', fingerprint_expression: '{{ data | alias_preserve_format }}' },
      'fingerprint_expression',
    ],
    [{ type: 'token', data: 'x', search_indexes: ['{{ data }}', 'the same for all'] }, 'search_indexes[1]'],
    [{ type: 'token', data: 'x', metadata: { a: 'b' }, search_indexes: ['{{ metadata.a }}'] }, 'search_indexes[0]'],
    [{ type: 'token', data: 'x', fingerprint_expression: `{{ data }}${' '.repeat(10_240)}` }, 'fingerprint_expression'],
    [{ type: 'token', data: 'x', fingerprint_expression: '{{ data | nope }}' }, 'fingerprint_expression'],
    [{ type: 'card', data: card, fingerprint_expression: '{{ data.cvc }}' }, 'fingerprint_expression'],
    [{ type: 'card', data: card, search_indexes: ['{{ data.cvc }}'] }, 'search_indexes[0]'],
    [{ type: 'token', data: 'x', mask: '{{ data | nope }}' }, 'mask'],
    [{ type: 'token', data: 'x', expires_at: '2026-02-30' }, 'expires_at'],
    [{ type: 'token', data: 'x', expires_at: '2020-01-01' }, 'expires_at'],
    [{ type: 'token', data: 'x', expires_at: '2030-01-01T00:00:00+25:00' }, 'expires_at'],
    [{ type: 'token', data: 'x', containers: ['/a/', '/b/'] }, 'containers'],
    [{ type: 'token', data: 'x', deduplicate_token: 'yes' }, 'deduplicate_token'],
    [{ type: 'bank', data: { routing_number: '021000022', account_number: '1' } }, 'data.routing_number'],
    [{ type: 'bank', data: { routing_number: '021000021', account_number: '1'.repeat(18) } }, 'data.account_number'],
    [{ type: 'social_security_number', data: '123456-789' }, 'data'],
    [{ type: 'employer_id_number', data: '123-456789' }, 'data'],
    [{ type: 'us_bank_account_number', data: '12' }, 'data'],
  ])('%j is refused at %s', async (body, path) => {
    await expectRefused(body, path);
  });

  test('the mask of a card cannot reach its security code', async () => {
    const answer = await server.tokenize({
      type: 'card',
      data: card,
      mask: { all: '{{ data | stringify }}', c: '{{ data.cvc | default: nil }}' },
    });
    expect(answer.status).toBe(200);
    expect(withoutDrawn(answer.text)).not.toContain('737');
  });

  test('the default expressions of every type are expressions a caller may send', async () => {
    const { findTokenType, tokenTypeNames } = await import('../src/modules/tokens/token-types.ts');
    const data: Record<string, unknown> = {
      card,
      bank: { routing_number: '021000021', account_number: '1' },
      card_number: card.number,
      us_bank_routing_number: '021000021',
      social_security_number: '123-45-6789',
      employer_id_number: '12-3456789',
    };
    for (const name of tokenTypeNames) {
      const type = findTokenType(name);
      const request = {
        type: name,
        data: data[name] ?? '12345',
        fingerprint_expression: type?.fingerprint_expression,
        search_indexes: type?.search_indexes,
      };
      expect((await server.tokenize(request)).status, name).toBe(200);
    }
  });

  test('a number that a double cannot hold exactly is refused where it stands', async () => {
    const send = (text: string) =>
      server.request('POST', '/tokenize', { headers: { 'content-type': 'application/json' }, body: text });
    for (const number of [
      '1e-400',
      '1.00000000000000000001',
      '123456789012345678.5',
      '12345678901234567.1',
      '0.1000000000000000055511151231257827',
      '9007199254740993',
      '1152921504606846976',
      '1e400',
      '4.9e-325',
      `0.${'0'.repeat(400)}1`,
      `1${'0'.repeat(400)}`,
    ]) {
      const answer = await send(`{"a":[true,{"b c":"1e-400, 1e-400","n" :\t${number}}]}`);
      expect(answer.status, number).toBe(400);
      expect(Object.keys(answer.body.errors), number).toEqual(['a[1].n']);
      // The trace id is drawn, and may look like a number.
      expect(answer.text.replace(answer.body.trace_id, '')).not.toContain(number.slice(0, 12));
      expect((await send(`[{"type":"token","data":${number}}]`)).status, number).toBe(400);
      expect((await send(number)).body.errors, number).toHaveProperty('body');
    }
    for (const number of [
      '1e2',
      '1.0',
      '1.50e-7',
      '0.1',
      '9007199254740991',
      '123456789.125',
      '0e999',
      '5e-324',
      '-1E+5',
    ])
      expect((await send(`{"a":${number},"b":"1e-400,12345678901234567.1"}`)).status, number).toBe(200);
    const { body } = await send('[{"type":"token","data":[1e2,1.5000000000000000000000]}]');
    expect((await server.request('GET', `/tokens/${body[0].id}`)).body.data).toEqual([100, 1.5]);
  });

  test('numbers that would not come back exactly', async () => {
    for (const text of [
      '1e400',
      '-1e400',
      '9007199254740993',
      '-0',
      '[1e999]',
      '{"type":"token","data":{"a":[1e999]}}',
    ]) {
      const answer = await server.request('POST', '/tokenize', {
        headers: { 'content-type': 'application/json' },
        body: text,
      });
      expect(answer.status, text).toBe(400);
    }
  });

  const times = <T>(length: number, value: T): T[] => Array.from({ length }, () => value);

  test('all masks of a request together show 10 MB; more is a 413 and stores nothing', async () => {
    const before = await countTokens();
    // Each of these alone shows less than 10 MB.
    const copies = (data: string) =>
      times(70, { type: 'token', data: 'x', mask: times(9, '{{ data }}') }).map((each) => ({ ...each, data }));
    const answer = await server.tokenize({
      a: { type: 'token', data: 'x'.repeat(500_000), mask: times(12, '{{ data }}') },
      b: { type: 'token', data: 'y'.repeat(500_000), mask: times(12, '{{ data }}') },
    });
    expect(answer.status).toBe(413);
    expect(answer.text.length).toBeLessThan(1000);
    expect((await server.tokenize(copies('x'.repeat(14_000)))).status).toBe(200);
    expect(
      (await server.tokenize({ type: 'token', data: '\0'.repeat(150_000), mask: times(12, '{{ data }}') })).status,
    ).toBe(413);
    // 70 tokens, and one row of the log that tells of them.
    expect(await countTokens()).toBe(before + 71);
  });

  test.each([
    [
      'filters over long texts',
      { data: 'x'.repeat(800_000), mask: times(9, `{{ data ${'| reveal_last: 4 '.repeat(19)}}}`) },
    ],
    ['JSONPaths', { data: [1], mask: times(15_000, "{{ data | json: '$[0:1]' }}") }],
    ['a JSONPath that explodes', { data: times(300, times(300, 1)), mask: "{{ data | json: '$..[?@..*]..*..*' }}" }],
    ['copies of many values', { data: times(200_000, 1), mask: times(50, '{{ data }}') }],
    ['digests', { data: 'v', mask: times(12_000, `{{ data ${"| hmac: 'sha-512', 'k' ".repeat(3)}}}`) }],
    ['placeholders', { data: 1, mask: times(51, '{{data}}'.repeat(1000)) }],
  ])('the work of a request is bounded, and what is left is not looked at: %s', async (_name, request) => {
    const costly = { type: 'token', ...request };
    const answer = await expectRefused(
      { a: costly, b: [{ type: 'token', data: 1, mask: '{{ data | nope }}' }] },
      'a.mask',
    );
    expect(Object.keys(answer.body.errors)).toEqual(['a.mask']);
    expect(answer.body.errors['a.mask']).toHaveLength(1);
  });

  test('the work of a request counts in all its expressions together', async () => {
    const item = { type: 'token', data: 'x'.repeat(9000), mask: `{{ data ${'| upcase '.repeat(19)}| last4 }}` };
    expect((await server.tokenize(times(30, item))).status).toBe(200);
    const answer = await server.tokenize(times(100, item));
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toHaveLength(1);
  });

  test('a hundred problems are named, and the rest is not looked at', async () => {
    const answer = await server.tokenize(times(9000, { type: 'token', data: 1, mask: '{{ data | nope }}' }));
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.errors)).toHaveLength(100);
  });

  test('nesting: 64 levels pass, more do not, and 100,000 cost no stack', async () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
    const send = (text: string) =>
      server.request('POST', '/tokenize', { headers: { 'content-type': 'application/json' }, body: text });
    expect((await send(nested(64))).status).toBe(200);
    for (const depth of [65, 1000, 100_000]) expect((await send(nested(depth))).status).toBe(400);
    expect((await send(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`)).status).toBe(400);
  });

  test('more than 10,000 leaves, and exactly as many', async () => {
    expect((await server.tokenize(Array.from({ length: 10_001 }, () => 'x'))).status).toBe(400);
    const most = await server.tokenize(Array.from({ length: 10_000 }, () => 'x'));
    expect(most.status).toBe(200);
    expect(most.body).toHaveLength(10_000);
  });

  test('bodies over the limit are a 413, by length and in chunks', async () => {
    const limit = server.ctx.config.bodyBytesMax;
    const at = JSON.stringify('x'.repeat(limit - 2));
    const headers = { 'content-type': 'application/json' };
    expect((await server.request('POST', '/tokenize', { headers, body: at })).status).toBe(200);
    const over = await server.request('POST', '/tokenize', { headers, body: `${at} ` });
    expect(over.status).toBe(413);
    expect(over.body.detail).toContain(String(limit));
    const sendChunks = (begin: (sent: ClientRequest) => void): Promise<unknown> =>
      new Promise((resolve) => {
        const { api_key } = server.tenant;
        const options = { method: 'POST', headers: { ...headers, 'svc-api-key': api_key } };
        const sent = request(`${server.base_url}/tokenize`, options, ({ statusCode }) => resolve(statusCode));
        sent.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code));
        begin(sent);
      });
    expect(
      await sendChunks((sent) => {
        sent.write(at);
        sent.end(' ');
      }),
    ).toBe(413);
    const endless = await sendChunks((sent) => {
      const write = (): void => {
        while (!sent.destroyed && sent.write(Buffer.alloc(65_536, 0x20)));
      };
      sent.on('drain', write);
      write();
    });
    // The server hangs up on who goes on: whether the answer is read before is the client's luck.
    expect([413, 'EPIPE', 'ECONNRESET']).toContain(endless);
    expect((await server.tokenize('the next one')).status).toBe(200);
  });

  test('prototype keys are a 400 at every depth', async () => {
    for (const text of [
      '{"__proto__":{"polluted":1}}',
      '{"a":[{"__proto__":"x"}]}',
      '{"constructor":{"prototype":{"polluted":1}}}',
      '{"type":"token","data":"x","metadata":{"__proto__":"x"}}',
    ]) {
      const answer = await server.request('POST', '/tokenize', {
        headers: { 'content-type': 'application/json' },
        body: text,
      });
      expect(answer.status, text).toBe(400);
    }
    expect(({} as any).polluted).toBeUndefined();
  });

  test('one key twice is a 400 that names the place, at every depth', async () => {
    const before = await countTokens();
    for (const [body, path] of [
      ['{"type":"card","type":"token","data":"x"}', 'type'],
      ['{"type":"token","data":{"a":[{"number":"1","n\\u0075mber":"2"}]}}', 'data.a[0].number'],
      ['[{"type":"token","data":"x","metadata":{"a":"1","a":"1"}}]', '[0].metadata.a'],
    ] as const) {
      const answer = await server.request('POST', '/tokenize', {
        headers: { 'content-type': 'application/json' },
        body,
      });
      expect(answer.status, answer.text).toBe(400);
      expect(answer.body.errors).toEqual({ [path]: ['must not be there twice in one object'] });
    }
    expect(await countTokens()).toBe(before);
  });

  test('malformed JSON is not repeated, in the answer or the log', async () => {
    const number = '5555555555554444';
    for (const text of [
      `{"n":"${number}`,
      `{"n":${number}}}`,
      `["${number}",]`,
      `${number}x`,
      `{"${number}"}`,
      `{'n':'${number}'}`,
    ]) {
      const answer = await server.request('POST', '/tokenize', {
        headers: { 'content-type': 'application/json' },
        body: text,
      });
      expect(answer.status, text).toBe(400);
      expect(answer.text).not.toContain(number);
    }
    expect(server.logLines.join('')).not.toContain(number);
  });

  test('encodings other than UTF-8', async () => {
    const send = (body: Uint8Array<ArrayBuffer>, type = 'application/json') =>
      server.request('POST', '/tokenize', { headers: { 'content-type': type }, body });
    expect((await send(new Uint8Array([0x22, 0xff, 0xfe, 0x22]))).status).toBe(400);
    expect((await send(new Uint8Array(Buffer.from('"x"', 'utf16le')))).status).toBe(400);
    expect((await send(new Uint8Array(Buffer.from('"x"')), 'application/json; charset=utf-16')).status).toBe(415);
    expect((await send(new Uint8Array([0xef, 0xbb, 0xbf, 0x22, 0x78, 0x22]))).status).toBe(200);
  });

  test('a Content-Encoding is a 415 that says which codings there are, whether it is true or not', async () => {
    const send = (coding: string, body: string | Uint8Array<ArrayBuffer>) =>
      server.request('POST', '/tokenize', {
        headers: { 'content-type': 'application/json', 'content-encoding': coding },
        body,
      });
    const plain = '"x"';
    for (const [coding, body] of [
      ['gzip', new Uint8Array(gzipSync(plain))],
      ['gzip', plain],
      ['br', plain],
      ['identity, gzip', plain],
      ['unknown', plain],
    ] as const) {
      const answer = await send(coding, body);
      expect(answer.status, answer.text).toBe(415);
      expect(answer.headers.get('accept-encoding')).toBe('identity');
    }
    for (const coding of ['identity', 'Identity', '']) expect((await send(coding, plain)).status, coding).toBe(200);
  });

  test('the charset of a content type may be in quotation marks', async () => {
    const send = (type: string) =>
      server.request('POST', '/tokenize', { headers: { 'content-type': type }, body: '"x"' });
    for (const type of ['"utf-8"', '"UTF-8"', 'utf-8', 'UTF-8 ; x=y', '"utf-8" ;x="y"'])
      expect((await send(`application/json; charset=${type}`)).status, type).toBe(200);
    for (const type of ['"utf-16"', '"utf-8', '"latin1"', 'utf-80', '"utf-8"; charset=utf-16'])
      expect((await send(`application/json; charset=${type}`)).status, type).toBe(415);
  });

  test('content types: JSON or 415, never unvalidated', async () => {
    const send = (type: string) =>
      server.request('POST', '/tokenize', {
        headers: { 'content-type': type },
        body: '{"type":"card","data":{"number":"1"}}',
      });
    for (const type of [
      'APPLICATION/JSON; charset=UTF-8',
      'application/json',
      'application/vnd.api+json',
      ' application/json',
    ])
      expect((await send(type)).status, type).toBe(400);
    for (const type of [
      'text/plain',
      'application/jsonx',
      'application/json garbage',
      'multipart/form-data',
      'application/x-www-form-urlencoded',
      'application/xml',
    ])
      expect((await send(type)).status, type).toBe(415);
  });

  test('an empty body is a 400, with any content type', async () => {
    for (const headers of [{}, { 'content-type': 'application/json' }, { 'content-type': 'text/plain' }] as Record<
      string,
      string
    >[])
      expect((await server.request('POST', '/tokenize', { headers })).status).toBe(400);
  });
});
