// A writer of the database who changes rows of tokens and codes gains nothing: each changed row is refused and counted.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startServer, type Answer, type TestServer, type TestTenant } from './support/server.ts';

const card = { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '737' };
const HOUR_MS = 3_600_000;

let server: TestServer;
/** A key that sees nothing of /secret/, and all of /open/. */
let attacker: TestTenant;

beforeAll(async () => {
  server = await startServer();
  attacker = await server.newKey(server.tenant, {
    permissions: ['token:create', 'token:update', 'token:read', 'token:search', 'token:delete'],
    rules: [
      { priority: 1, container: '/secret/', transform: 'redact', permissions: ['token:read', 'token:search'] },
      { priority: 2, container: '/open/', transform: 'reveal', permissions: ['token:read', 'token:search'] },
    ],
  });
});
afterAll(() => server.close());

const alarmsOf = (id: string): any[] =>
  server.logLines
    .filter((line) => line.includes('"alarm":"tampered"'))
    .map((line) => JSON.parse(line))
    .filter(({ row_id }) => row_id === id);

const counted = async (table: string): Promise<number> => {
  const text = await server.ctx.metricsText();
  return Number(new RegExp(`strongroom_tampered_rows_total\\{table="${table}"\\} (\\d+)`).exec(text)?.[1] ?? 0);
};

const newToken = async (request: object, key = server.tenant.api_key): Promise<string> => {
  const answer = await server.request('POST', '/tokens', { json: request, key });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id;
};

/** Restores the rows that a test has changed, as an attacker does who covers the traces. */
let saved: any[] = [];
const change = async (id: string, set: string, values: unknown[] = []): Promise<void> => {
  saved.push(...(await server.sql('SELECT * FROM tokens WHERE id = $1', [id])));
  await server.sql(`UPDATE tokens SET ${set} WHERE id = $1`, [id, ...values]);
};
afterEach(async () => {
  for (const {
    tenant_id,
    id,
    container,
    expires_at,
    type,
    fingerprint,
    fingerprint_expression,
    masked,
  } of saved.toReversed())
    await server.sql(
      `UPDATE tokens SET container = $3, expires_at = $4, type = $5, fingerprint = $6, fingerprint_expression = $7, masked = $8
       WHERE tenant_id = $1 AND id = $2`,
      [tenant_id, id, container, expires_at, type, fingerprint, fingerprint_expression, masked],
    );
  saved = [];
});

/** That a request is refused, shows nothing, and is counted with an alarm for the row. */
const refused = async (id: string, request: () => Promise<Answer>, secret: string, table = 'tokens'): Promise<void> => {
  const [alarms, count] = [alarmsOf(id).length, await counted(table)];
  const answer = await request();
  expect(answer.status, answer.text).toBe(500);
  expect(answer.body.detail).toBe('An internal error occurred.');
  expect(answer.text).not.toContain(secret);
  expect(alarmsOf(id).length).toBeGreaterThan(alarms);
  expect(alarmsOf(id).at(-1)).toMatchObject({ table, tenant_id: server.tenant.tenant_id, row_id: id });
  expect(server.logLines.join('')).not.toContain(secret);
  expect(await counted(table)).toBeGreaterThan(count);
};

const ask =
  (method: string, path: string, json?: unknown, headers = {}) =>
  () =>
    server.request(method, path, { key: attacker.api_key, ...(json === undefined ? {} : { json }), headers });

const merge = { 'content-type': 'application/merge-patch+json' };

describe('a token', () => {
  const SECRET = 'a-secret-of-another-container';

  test('that was moved to a readable container is not shown, used, changed, found or listed', async () => {
    const id = await newToken({
      data: SECRET,
      type: 'token',
      containers: ['/secret/'],
      search_indexes: ['{{ data }}'],
    });
    expect((await ask('GET', `/tokens/${id}`)()).body.data).toBeUndefined();
    await change(id, "container = '/open/'");
    await refused(id, ask('GET', `/tokens/${id}`), SECRET);
    await refused(id, ask('GET', `/tokens?id=${id}`), SECRET);
    await refused(id, ask('POST', '/detokenize', { a: `{{ ${id} }}` }), SECRET);
    await refused(id, ask('POST', '/tokens/search', { query: `data:"${SECRET}"` }), SECRET);
    await refused(id, ask('PATCH', `/tokens/${id}`, { metadata: { a: 'b' } }, merge), SECRET);
  });

  test('whose expiry was put off or taken away stays unreadable', async () => {
    const at = new Date(Date.now() + HOUR_MS);
    const id = await newToken({ data: SECRET, type: 'token', containers: ['/open/'], expires_at: at.toISOString() });
    expect((await ask('GET', `/tokens/${id}`)()).body.data).toBe(SECRET);
    for (const set of ["expires_at = expires_at + interval '1 ms'", "expires_at = 'infinity'", 'expires_at = NULL']) {
      await change(id, set);
      await refused(id, ask('GET', `/tokens/${id}`), SECRET);
    }
  });

  test('of another type, or with the whole row of another token, does not open', async () => {
    const [one, two] = [
      await newToken({ data: SECRET, type: 'token', containers: ['/secret/'] }),
      await newToken({ data: 'known', type: 'token', containers: ['/open/'] }),
    ];
    await change(two, "type = 'card_number'");
    await refused(two, ask('GET', `/tokens/${two}`), 'known');
    await change(
      two,
      `(sealed, type, fingerprint, fingerprint_expression) =
       (SELECT sealed, type, fingerprint, fingerprint_expression FROM tokens WHERE id = $2)`,
      [one],
    );
    await refused(two, ask('GET', `/tokens/${two}`), SECRET);
  });

  test('whose fingerprint or expression was swapped is not handed out by deduplication', async () => {
    const part = { type: 'token', containers: ['/open/'], fingerprint_expression: '{{ data.number }}' };
    const wanted = { ...part, data: { number: '4711' }, deduplicate_token: true };
    const of = async (id: string) =>
      (await server.sql('SELECT fingerprint, fingerprint_expression FROM tokens WHERE id = $1', [id]))[0];
    const honest = await newToken(wanted);
    const prints = await of(honest);
    await server.request('DELETE', `/tokens/${honest}`);
    const evil = await newToken({ ...part, data: { number: '1', note: 'of the attacker' } });
    await change(evil, 'fingerprint = $2', [prints.fingerprint]);
    await refused(evil, ask('POST', '/tokens', wanted), 'of the attacker');
    // Rules without a hidden container: one statement for several requests looks for equal tokens and writes.
    await refused(evil, () => server.request('POST', '/tokens', { json: wanted }), 'of the attacker');
    const two = { a: wanted, b: { ...wanted, data: { number: '2' } } };
    await refused(evil, ask('POST', '/tokenize', two), 'of the attacker');
    const parent = await newToken({ data: { number: 'parent' }, ...part });
    await refused(evil, ask('POST', `/tokens/${parent}/children`, wanted), 'of the attacker');
    await refused(
      evil,
      ask('PATCH', `/tokens/${parent}`, { data: { number: '4711' }, deduplicate_token: true }, merge),
      'of the attacker',
    );

    // The fingerprint of another part, which its creator chose, passed off as that of the number.
    const chosen = await newToken({
      ...part,
      data: { number: '1', note: '4711', more: 'of the attacker' },
      fingerprint_expression: '{{ data.note }}',
    });
    expect((await of(chosen)).fingerprint).toBe(prints.fingerprint);
    await server.request('DELETE', `/tokens/${evil}`);
    await change(chosen, 'fingerprint_expression = $2', [prints.fingerprint_expression]);
    await refused(chosen, ask('POST', '/tokens', wanted), 'of the attacker');
  });

  test('that is gone just after deduplication found it is not handed out: a new one is written', async () => {
    const json = { data: 'found and gone', type: 'token', containers: ['/open/'], deduplicate_token: true };
    const gone = await newToken(json);
    await server.sql(`CREATE FUNCTION delete_found() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN DELETE FROM tokens WHERE id = '${gone}'; RETURN NULL; END $$`);
    await server.sql(
      'CREATE TRIGGER delete_found AFTER INSERT ON token_counts FOR EACH STATEMENT EXECUTE FUNCTION delete_found()',
    );
    const answer = await server.request('POST', '/tokens', { json });
    await server.sql('DROP FUNCTION delete_found CASCADE');
    expect(answer.body).toMatchObject({ _extras: { deduplicated: false } });
    expect(answer.body.id).not.toBe(gone);
    expect((await ask('GET', `/tokens/${answer.body.id}`)()).status).toBe(200);
  });

  test('whose mask was denied is not found by its value', async () => {
    const { api_key: key } = await server.newKey(server.tenant, { permissions: ['token:search'] });
    const id = await newToken({
      data: 'masked-value',
      type: 'token',
      mask: '{{ data | reveal_last: 2 }}',
      containers: ['/open/'],
      search_indexes: ['{{ data }}'],
    });
    const search = () => server.request('POST', '/tokens/search', { key, json: { query: 'data:"masked-value"' } });
    expect((await search()).body.data).toEqual([]);
    await change(id, 'masked = false');
    await refused(id, search, 'masked-value');
  });

  test('that was moved does not bring a kept answer back', async () => {
    const id = await newToken({ data: SECRET, type: 'token', containers: ['/open/'] });
    const headers = { 'svc-idempotency-key': 'kept-answer' };
    const first = await ask('PATCH', `/tokens/${id}`, { metadata: { a: 'b' } }, { ...merge, ...headers })();
    expect(first.status).toBe(200);
    await change(id, "container = '/open/deeper/'");
    await refused(id, ask('PATCH', `/tokens/${id}`, { metadata: { a: 'b' } }, { ...merge, ...headers }), SECRET);
  });

  test('is shown as it was before where its whole row is put back: this is not noticed', async () => {
    const id = await newToken({ data: SECRET, type: 'token', containers: ['/open/'] });
    const [{ sealed }] = await server.sql('SELECT sealed FROM tokens WHERE id = $1', [id]);
    const moved = await server.request('PATCH', `/tokens/${id}`, {
      body: JSON.stringify({ containers: ['/secret/'] }),
      headers: merge,
    });
    expect(moved.status).toBe(200);
    await server.sql("UPDATE tokens SET sealed = $2, container = '/open/' WHERE id = $1", [id, sealed]);
    expect((await ask('GET', `/tokens/${id}`)()).body.data).toBe(SECRET);
  });
});

test('a code whose time or whose key was prolonged is gone', async () => {
  const { ctx } = server;
  const shown = async (id: string) => (await ask('GET', `/tokens/${id}`)()).body.data.cvc;
  const id = await newToken({ data: card, type: 'card', containers: ['/open/'] });
  expect(await shown(id)).toBe('737');
  const [before] = await server.sql('SELECT expires_at FROM token_cvcs WHERE id = $1', [id]);
  const count = await counted('token_cvcs');
  await server.sql("UPDATE token_cvcs SET expires_at = expires_at + interval '1 ms' WHERE id = $1", [id]);
  expect(await shown(id)).toBeUndefined();
  expect(alarmsOf(id)).toMatchObject([{ table: 'token_cvcs' }]);
  expect(await counted('token_cvcs')).toBe(count + 1);
  await server.sql('UPDATE token_cvcs SET expires_at = $2 WHERE id = $1', [id, before.expires_at]);
  expect(await shown(id)).toBe('737');

  await server.sql("UPDATE ephemeral_keys SET destroy_at = destroy_at + interval '1 day'");
  expect(await shown(id)).toBeUndefined();
  server.clock.offsetMs += ctx.config.cvcTtlMs + 60_000;
  await server.sql("UPDATE token_cvcs SET expires_at = expires_at + interval '1 day' WHERE id = $1", [id]);
  expect(await shown(id)).toBeUndefined();
  expect(alarmsOf(id)).toHaveLength(3);
});
