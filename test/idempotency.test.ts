// Idempotency keys over HTTP: an operation is done once for repeated requests, also at once. After a crash: test/process.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type RequestOptions, startServer, type TestServer, type TestTenant } from './support/server.ts';
import { isDistributed } from './support/database.ts';

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());
afterEach(() => {
  server.clock.offsetMs = 0;
});

const HOUR_MS = 3_600_000;
const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };

let keys = 0;
const newKeyText = () => `key-${(keys += 1)}`;

/** A request with an idempotency key. */
const send = (idempotencyKey: string, method: string, path: string, options: RequestOptions = {}): Promise<Answer> =>
  server.request(method, path, { ...options, headers: { 'svc-idempotency-key': idempotencyKey, ...options.headers } });

const countTokens = async (of: TestTenant = server.tenant): Promise<number> =>
  (await server.sql('SELECT count(*)::int AS count FROM tokens WHERE tenant_id = $1', [of.tenant_id]))[0].count;

const isReplay = ({ headers }: Answer) => headers.get('svc-idempotent-replayed') === 'true';

/** The second answer is the first one again: status, body, Location, and word that it is. */
const expectReplay = (first: Answer, second: Answer): void => {
  expect(isReplay(first)).toBe(false);
  expect(isReplay(second), second.text).toBe(true);
  expect([second.status, second.text]).toEqual([first.status, first.text]);
  for (const name of ['location', 'content-type']) expect(second.headers.get(name), name).toBe(first.headers.get(name));
};

const mergePatch = { 'content-type': 'application/merge-patch+json' };

describe('a repeated request', () => {
  test.each([
    ['one text', 'value'],
    ['a structure', { a: ['x', { type: 'card', data: card }], none: null }],
    ['nothing to make', { none: null }],
    ['null', null],
  ])('POST /tokenize of %s makes its tokens once', async (_, body) => {
    const key = newKeyText();
    const first = await send(key, 'POST', '/tokenize', { json: body });
    expect(first.status, first.text).toBe(200);
    const made = await countTokens();
    expectReplay(first, await send(key, 'POST', '/tokenize', { json: body }));
    expect(await countTokens()).toBe(made);
  });

  test('POST /tokens makes one token, and gives its Location again', async () => {
    const key = newKeyText();
    const request = { json: { type: 'card', data: card, metadata: { order: '1' } } };
    const first = await send(key, 'POST', '/tokens', request);
    expect([first.status, first.headers.get('location')]).toEqual([201, `/tokens/${first.body.id}`]);
    const made = await countTokens();
    expectReplay(first, await send(key, 'POST', '/tokens', request));
    expectReplay(first, await send(key, 'POST', '/tokens/', request));
    expect(await countTokens()).toBe(made);
  });

  test('PATCH changes once, and repeats the first response', async () => {
    const { id } = (await server.request('POST', '/tokens', { json: { data: 'one' } })).body;
    const key = newKeyText();
    const patch = (data: string, as = newKeyText()) =>
      send(as, 'PATCH', `/tokens/${id}`, { body: JSON.stringify({ data }), headers: mergePatch });
    const first = await patch('two', key);
    expect(first.status, first.text).toBe(200);
    expect((await patch('three')).status).toBe(200);
    expectReplay(first, await patch('two', key));
    expect((await server.request('GET', `/tokens/${id}`)).body.data).toBe('three');
  });

  test('POST of a child makes and links one', async () => {
    const parent = (await server.request('POST', '/tokens', { json: { data: 'parent' } })).body.id;
    const key = newKeyText();
    const first = await send(key, 'POST', `/tokens/${parent}/children`, { json: { data: 'child' } });
    expect(first.status, first.text).toBe(201);
    expectReplay(first, await send(key, 'POST', `/tokens/${parent}/children`, { json: { data: 'child' } }));
    const { body } = await server.request('GET', `/tokens/${parent}/children`);
    expect(body.data.map(({ id }: { id: string }) => id)).toEqual([first.body.id]);
  });

  test('POST of a link is 204 again instead of a conflict', async () => {
    const [parent, child] = (await server.tokenize(['parent', 'child'])).body;
    const key = newKeyText();
    const first = await send(key, 'POST', `/tokens/${parent}/children/${child}`);
    expect(first.status, first.text).toBe(204);
    expectReplay(first, await send(key, 'POST', `/tokens/${parent}/children/${child}`));
    expect((await send(newKeyText(), 'POST', `/tokens/${parent}/children/${child}`)).status).toBe(409);
  });

  test('POST with deduplication says again what was found then', async () => {
    const tenant = await server.newTenant();
    const request = { json: { data: 'equal', deduplicate_token: true }, key: tenant.api_key };
    const [one, two] = [newKeyText(), newKeyText()];
    const made = await send(one, 'POST', '/tokens', request);
    const found = await send(two, 'POST', '/tokens', request);
    expect([made.body._extras, found.body._extras]).toEqual([{ deduplicated: false }, { deduplicated: true }]);
    expectReplay(made, await send(one, 'POST', '/tokens', request));
    expectReplay(found, await send(two, 'POST', '/tokens', request));
  });

  test('with another path or method is refused with 422, and does nothing', async () => {
    const { id } = (await server.request('POST', '/tokens', { json: { data: 'one' } })).body;
    const key = newKeyText();
    expect((await send(key, 'POST', '/tokens', { json: { data: 'x' } })).status).toBe(201);
    const made = await countTokens();
    for (const answer of [
      await send(key, 'POST', '/tokenize', { json: 'x' }),
      await send(key, 'POST', `/tokens/${id}/children`, { json: { data: 'x' } }),
      await send(key, 'PATCH', `/tokens/${id}`, { body: '{"data":"two"}', headers: mergePatch }),
    ]) {
      expect(answer.status, answer.text).toBe(422);
      expect(isReplay(answer)).toBe(false);
    }
    expect(await countTokens()).toBe(made);
    expect((await server.request('GET', `/tokens/${id}`)).body.data).toBe('one');
  });

  test('of another application, and of another tenant, is a request of its own', async () => {
    const key = newKeyText();
    const request = (of: TestTenant) => send(key, 'POST', '/tokens', { json: { data: 'x' }, key: of.api_key });
    const callers = [
      server.tenant,
      await server.newKey(server.tenant, { permissions: ['token:create'] }),
      await server.newTenant(),
    ];
    const answers: Answer[] = [];
    for (const caller of callers) answers.push(await request(caller));
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(3);
    for (const [index, caller] of callers.entries()) expectReplay(answers[index] as Answer, await request(caller));
  });

  test('needs the permission every time, also for a kept response', async () => {
    const key = newKeyText();
    await send(key, 'POST', '/tokens', { json: { data: 'x' } });
    const reader = await server.newKey(server.tenant, { permissions: ['token:read'] });
    expect((await send(key, 'POST', '/tokens', { json: { data: 'x' }, key: reader.api_key })).status).toBe(403);
    expect((await send(key, 'POST', '/tokens', { json: { data: 'x' }, key: null })).status).toBe(401);
  });

  test('gets the first answer for 24 hours, and is a new one from then on', async () => {
    const tenant = await server.newTenant();
    const key = newKeyText();
    const request = () => send(key, 'POST', '/tokens', { json: { data: 'x' }, key: tenant.api_key });
    const first = await request();
    server.clock.offsetMs = 24 * HOUR_MS - 60_000;
    expectReplay(first, await request());
    server.clock.offsetMs = 24 * HOUR_MS + 60_000;
    const second = await request();
    expect([second.status, isReplay(second)]).toEqual([201, false]);
    expect(second.body.id).not.toBe(first.body.id);
    expectReplay(second, await request());
    expect(await countTokens(tenant)).toBe(2);
  });

  test('fifty at once make one token: each gets the first answer, or 409 while it is made', async () => {
    for (const [path, json] of [
      ['/tokens', { data: 'x' }],
      ['/tokenize', ['x']],
    ] as const) {
      const tenant = await server.newTenant();
      const key = newKeyText();
      const request = () => send(key, 'POST', path, { json, key: tenant.api_key });
      const answers = await Promise.all(Array.from({ length: 50 }, request));
      expect(await countTokens(tenant)).toBe(1);
      const done = answers.filter(({ status }) => status !== 409);
      expect(done.filter((answer) => !isReplay(answer))).toHaveLength(1);
      expect(new Set(done.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
      const last = await request();
      expect([isReplay(last), last.text]).toEqual([true, done[0]?.text]);
      const [{ count }] = await server.sql(
        `SELECT count(*)::int AS count FROM audit_log
         WHERE tenant_id = $1 AND entity_type = 'token' AND outcome = 'success'`,
        [tenant.tenant_id],
      );
      expect(count).toBe(1);
    }
  });
});

describe('a failure is not kept', () => {
  test('a request that was not valid, not permitted or in conflict may be sent again, mended', async () => {
    const key = newKeyText();
    const { id } = (await server.request('POST', '/tokens', { json: { id: `taken-${key}`, data: 'x' } })).body;
    const creator = await server.newKey(server.tenant, {
      rules: [{ priority: 1, container: '/general/', transform: 'mask', permissions: ['token:create'] }],
    });
    const attempt = (json: unknown) => send(key, 'POST', '/tokens', { json, key: creator.api_key });
    for (const [json, status] of [
      [{ type: 'card', data: { number: '1' } }, 400],
      [{ data: 'x', containers: ['/pci/'] }, 403],
      [{ data: 'x', id }, 409],
      ['no object', 400],
    ] as const) {
      const refused = await attempt(json);
      expect([refused.status, isReplay(refused)], refused.text).toEqual([status, false]);
    }
    const made = await attempt({ data: 'x' });
    expect(made.status, made.text).toBe(201);
    expectReplay(made, await attempt({ data: 'x' }));
  });

  test('a body that cannot be read, or of the wrong type, leaves the key free', async () => {
    const key = newKeyText();
    const { id } = (await server.request('POST', '/tokens', { json: { data: 'x' } })).body;
    const patch = (headers: Record<string, string>, body: string) =>
      send(key, 'PATCH', `/tokens/${id}`, { headers, body });
    expect((await patch({ 'content-type': 'text/plain' }, '{"data":"y"}')).status).toBe(415);
    expect((await patch(mergePatch, '{"data":')).status).toBe(400);
    expect(
      (await send(key, 'PATCH', '/tokens/no-such-token', { headers: mergePatch, body: '{"data":"y"}' })).status,
    ).toBe(404);
    const changed = await patch(mergePatch, '{"data":"y"}');
    expect([changed.status, isReplay(changed)]).toEqual([200, false]);
  });
});

describe('the header', () => {
  test('goes by either name, and by both if they agree', async () => {
    const key = newKeyText();
    const request = (headers: Record<string, string>) =>
      server.request('POST', '/tokens', { json: { data: 'x' }, headers });
    const first = await request({ 'idempotency-key': key });
    expect(first.status).toBe(201);
    expectReplay(first, await request({ 'svc-idempotency-key': key }));
    expectReplay(first, await request({ 'SVC-Idempotency-Key': key, 'Idempotency-Key': key }));
  });

  test.each([
    ['two different ones', { 'svc-idempotency-key': 'a', 'idempotency-key': 'b' }],
    ['an empty one', { 'svc-idempotency-key': '' }],
    ['one beside an empty one', { 'svc-idempotency-key': 'a', 'idempotency-key': '' }],
    ['a space within', { 'svc-idempotency-key': 'a b' }],
    ['more than ASCII', { 'svc-idempotency-key': 'ä' }],
    ['256 characters', { 'svc-idempotency-key': 'x'.repeat(256) }],
    ['a control character', { 'idempotency-key': 'a\tb' }],
  ])('with %s is refused, and nothing is done', async (_, headers) => {
    const made = await countTokens();
    const answer = await server.request('POST', '/tokens', { json: { data: 'x' }, headers });
    expect(answer.status, answer.text).toBe(400);
    expect(Object.keys(answer.body.errors)).toEqual(['SVC-IDEMPOTENCY-KEY']);
    expect(await countTokens()).toBe(made);
  });

  test('may have 255 characters, and any that is printed', async () => {
    for (const key of ['x'.repeat(255), `"'{}%;\\--/*${newKeyText()}`]) {
      const first = await send(key, 'POST', '/tokens', { json: { data: 'x' } });
      expect(first.status, first.text).toBe(201);
      expectReplay(first, await send(key, 'POST', '/tokens', { json: { data: 'x' } }));
    }
  });

  test('means nothing to a read, a deletion, a detokenization and a search: they are done again', async () => {
    const key = newKeyText();
    const tenant = await server.newTenant();
    const post = (path: string, json: unknown) => send(key, 'POST', path, { json, key: tenant.api_key });
    const { id } = (await server.request('POST', '/tokens', { json: { data: 'one' }, key: tenant.api_key })).body;
    expect((await post('/detokenize', `{{ ${id} }}`)).body).toBe('one');
    expect((await post('/tokens/search', { query: 'type:token' })).body.pagination.total_items).toBe(1);
    await server.request('PATCH', `/tokens/${id}`, {
      body: '{"data":"two"}',
      headers: mergePatch,
      key: tenant.api_key,
    });
    await server.tokenize('another', tenant.api_key);
    for (const answer of [
      await post('/detokenize', `{{ ${id} }}`),
      await post('/tokens/search', { query: 'type:token' }),
      await send(key, 'GET', `/tokens/${id}`, { key: tenant.api_key }),
      await send(key, 'DELETE', `/tokens/${id}`, { key: tenant.api_key }),
    ])
      expect([answer.status < 300, isReplay(answer)]).toEqual([true, false]);
    expect((await send(key, 'DELETE', `/tokens/${id}`, { key: tenant.api_key })).status).toBe(404);
    const [{ count }] = await server.sql('SELECT count(*)::int AS count FROM idempotency_keys WHERE tenant_id = $1', [
      tenant.tenant_id,
    ]);
    expect(count).toBe(0);
  });
});

describe('what is kept', () => {
  test('holds neither key nor answer in the clear', async () => {
    const tenant = await server.newTenant();
    const key = 'needle-in-the-key';
    const json = {
      id: 'needle-in-the-id',
      data: 'needle in the data',
      metadata: { note: 'needle in the metadata' },
      mask: '{{ data | upcase }}',
    };
    const first = await send(key, 'POST', '/tokens', { json, key: tenant.api_key });
    expect(first.text.toLowerCase()).toContain('needle in the data');
    const rows = await server.sql('SELECT * FROM idempotency_keys WHERE tenant_id = $1', [tenant.tenant_id]);
    expect(rows).toHaveLength(1);
    expect(rows[0].sealed.length).toBeGreaterThan(first.text.length);
    const bytes = [...Object.values(rows[0]).map(String), rows[0].sealed.toString('latin1')].join('\n');
    expect(bytes.toLowerCase()).not.toContain('needle');
    expect(bytes).not.toContain(Buffer.from('needle').toString('base64').slice(0, 7));
    expect(bytes).not.toContain('/tokens');
  });

  test('with an API key in it is replayed for CVC_TTL only, while its short-lived key exists', async () => {
    const tenant = await server.newTenant();
    const make = (key: string) =>
      send(key, 'POST', '/applications', {
        json: { name: 'Made', type: 'private', permissions: ['token:read'] },
        key: tenant.api_key,
      });
    const [one, two] = [newKeyText(), newKeyText()];
    const first = await make(one);
    expect([first.status, first.body.key], first.text).toEqual([201, expect.stringMatching(/^svc_/)]);
    expectReplay(first, await make(one));
    await make(two);
    await server.sql('DELETE FROM ephemeral_keys');
    // What was answered is lost, that it was done is not: no second application is made.
    expect((await make(two)).status).toBe(409);
    const countMade = async (): Promise<number> =>
      (
        await server.sql(`SELECT count(*)::int AS count FROM applications WHERE tenant_id = $1 AND name = 'Made'`, [
          tenant.tenant_id,
        ])
      )[0].count;
    expect(await countMade()).toBe(2);
    server.clock.offsetMs = HOUR_MS + 1000;
    const again = await make(one);
    expect([again.status, isReplay(again)]).toEqual([409, false]);
    expect(await countMade()).toBe(2);
  });

  test('with an API key in it is not done twice where CVC_TTL keeps nothing at all', async () => {
    const brief = await startServer({ CVC_TTL: '0' });
    try {
      const make = () =>
        brief.request('POST', '/applications', {
          json: { name: 'Made', permissions: ['token:read'] },
          headers: { 'svc-idempotency-key': 'once' },
        });
      const answers = await Promise.all(Array.from({ length: 6 }, make));
      expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409, 409, 409]);
      expect((await make()).status).toBe(409);
      expect(await brief.sql(`SELECT id FROM applications WHERE name = 'Made'`)).toHaveLength(1);
    } finally {
      await brief.close();
    }
  });

  test('does not open in the place of another answer', async () => {
    const tenant = await server.newTenant();
    const make = (key: string) => send(key, 'POST', '/tokens', { json: { data: key }, key: tenant.api_key });
    const [one, two] = [newKeyText(), newKeyText()];
    await make(one);
    await make(two);
    await server.sql(
      `UPDATE idempotency_keys AS mine SET sealed = theirs.sealed FROM idempotency_keys AS theirs
       WHERE mine.tenant_id = $1 AND theirs.tenant_id = $1 AND mine.id <> theirs.id`,
      [tenant.tenant_id],
    );
    const answer = await make(one);
    expect(answer.status).toBe(500);
    expect(server.logLines.join('')).toContain('seal_broken');
  });

  test.skipIf(isDistributed)(
    'is not overtaken: a request whose claim another took over meanwhile does nothing',
    async () => {
      const tenant = await server.newTenant();
      const key = newKeyText();
      // Another process takes the key over just before the operation commits, as if this process had lost its claim.
      await server.sql(`CREATE FUNCTION overtake() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN UPDATE idempotency_keys SET claim = gen_random_uuid() WHERE tenant_id = NEW.tenant_id; RETURN NEW; END $$`);
      await server.sql('CREATE TRIGGER overtake BEFORE INSERT ON tokens FOR EACH ROW EXECUTE FUNCTION overtake()');
      try {
        const answer = await send(key, 'POST', '/tokens', { json: { data: 'x' }, key: tenant.api_key });
        expect(answer.status, answer.text).toBe(409);
        expect(await countTokens(tenant)).toBe(0);
      } finally {
        await server.sql('DROP FUNCTION overtake CASCADE');
      }
    },
  );
});
