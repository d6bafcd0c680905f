// The current server upgrades the vault of an earlier version in place, and gives the same responses.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contract } from '../src/contract.ts';
import { makeBindingKeys } from '../src/modules/access/data-keys.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { resealAll } from '../src/platform/crypto/reseal.ts';
import { createEmptyDatabase } from './support/database.ts';
import { openBrowser } from './support/people.ts';
import { startServer, type TestServer } from './support/server.ts';

type Recorded = { key: string; method: string; path: string; json?: unknown; status: number; body: any };

type Vault = {
  made_at: string;
  keys: Record<'first' | 'reveal' | 'redacted' | 'other', string>;
  member: { email: string; password: string };
  idempotent: { headers: Record<string, string>; json: unknown; path: string; body: unknown };
  ids: string[];
  recorded: Recorded[];
};

const fixture = (name: string): string => readFileSync(join(import.meta.dirname, 'fixtures', name), 'utf8');

/** Restores the dump of a version into a database of its own. */
const restore = async (name: string) => {
  const database = await createEmptyDatabase();
  const client = new Client(database.address);
  await client.connect();
  await client.query(fixture(`vault-${name}.sql`));
  await client.end();
  return database;
};

type Version = {
  /** Whether its server records which tokens have masks. What an earlier one left out, the sweep finds out. */
  recordsMasks: boolean;
  /** What it answered, as the current version does: what has changed since is in CHANGELOG.md. */
  asToday(vault: Vault, recorded: Pick<Recorded, 'key' | 'json' | 'body'>): any;
};

/** Every version with a dump. A release adds its own: test/fixtures/README.md. */
const versions: Record<string, Version> = {
  '60669a8': {
    recordsMasks: false,
    asToday: (vault, { key, json, body }) => {
      const { trace_id: _, ...rest } = body;
      // Who sees nothing of the value sees no fingerprint.
      if (key === vault.keys.redacted) delete rest.fingerprint;
      // Terms about values find what their caller sees: of a token with a mask, nothing.
      const { query } = (json ?? {}) as { query?: string };
      if (query?.startsWith('data:6789')) return { pagination: { total_items: 0 }, data: [] };
      return rest;
    },
  },
};

it('every dump is in the table', () => {
  const dumps = readdirSync(join(import.meta.dirname, 'fixtures')).flatMap(
    (file) => /^vault-(.+)\.sql$/.exec(file)?.[1] ?? [],
  );
  expect(Object.keys(versions).toSorted()).toEqual(dumps.toSorted());
});

describe.each(Object.entries(versions))('the dump of %s', (name, { recordsMasks, asToday }) => {
  const vault = JSON.parse(fixture(`vault-${name}.json`)) as Vault;
  const statements = JSON.parse(fixture(`statements-${name}.json`)) as Record<string, string>;
  let server: TestServer;
  let database: Awaited<ReturnType<typeof restore>>;

  beforeAll(async () => {
    database = await restore(name);
    // A minute later: the security codes of the dump are still alive.
    const now = new Date(new Date(vault.made_at).getTime() + 60_000);
    server = await startServer({}, { now: () => now }, { database });
  });
  afterAll(() => server.close());

  it.skipIf(recordsMasks)(
    'looks into its tokens once and finds values by search only where no mask hides them',
    async () => {
      const unknown = () => server.sql("SELECT id FROM tokens WHERE masked IS NULL AND type = 'token'");
      expect((await unknown()).length).toBeGreaterThan(0);
      await sweep(server.ctx);
      expect(await unknown()).toEqual([]);
      const [{ masked }] = await server.sql(
        "SELECT count(*)::int AS masked FROM tokens WHERE masked AND type = 'token'",
      );
      expect(masked).toBe(1);
      const json = { query: 'data:"a plain text"' };
      const answer = await server.request('POST', '/tokens/search', { key: vault.keys.first, json });
      expect(answer.body.data).toHaveLength(1);
    },
  );

  it.each(vault.recorded.map((recorded, index) => [`${index} ${recorded.method} ${recorded.path}`, recorded] as const))(
    'answers as before: %s',
    async (_name, { key, method, path, json, status, body }) => {
      const answer = await server.request(method, path, { key, ...(json === undefined ? {} : { json }) });
      expect(answer.status, answer.text).toBe(status);
      expect(answer.body).toMatchObject(asToday(vault, { key, json, body }));
    },
  );

  it('gives the kept answer of an idempotency key', async () => {
    const { path, headers, json, body } = vault.idempotent;
    const answer = await server.request('POST', path, { key: vault.keys.first, headers, json });
    expect(answer.headers.get('svc-idempotent-replayed')).toBe('true');
    expect(answer.body).toEqual(body);
  });

  it('lets its member sign in', async () => {
    const browser = openBrowser(server);
    const { email, password } = vault.member;
    expect((await browser.post('/console/sign-in', { email, password })).status).toBe(303);
    expect(await browser.isSignedIn()).toBe(true);
  });

  it('finds the token of an equal value that the earlier version stored', async () => {
    const [id] = vault.ids;
    const { body } = await server.request('GET', `/tokens/${id}`, { key: vault.keys.reveal });
    const made = await server.request('POST', '/tokens', {
      key: vault.keys.first,
      json: { type: 'card', data: body.data, deduplicate_token: true },
    });
    expect(made.body).toMatchObject({ id, _extras: { deduplicated: true } });
  });

  it.skipIf(recordsMasks)('does not find by its value what the earlier version gives a mask', async () => {
    const { UPDATE_TOKEN } = statements;
    const { api_key: key } = await server.newTenant({
      permissions: ['token:create', 'token:update', 'token:search', 'token:read'],
      rules: [{ priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'] }],
    });
    const json = { type: 'token', data: 'beside-the-old', search_indexes: ['{{ data }}'] };
    const { id, tenant_id } = (await server.request('POST', '/tokens', { key, json })).body;
    const found = async (): Promise<string[]> => {
      const query = { query: 'data:"beside-the-old"' };
      const { body } = await server.request('POST', '/tokens/search', { key, json: query });
      return body.data.map((each: { id: string }) => each.id);
    };
    const maskOf = async (): Promise<unknown> =>
      (await server.sql('SELECT masked FROM tokens WHERE id = $1', [id]))[0].masked;
    const patch = async (change: object): Promise<any> => {
      const answer = await server.request('PATCH', `/tokens/${id}`, {
        key,
        headers: { 'content-type': 'application/merge-patch+json' },
        body: JSON.stringify(change),
      });
      expect(answer.status, answer.text).toBe(200);
    };
    await patch({ metadata: { a: 'b' } });
    expect([await found(), await maskOf()]).toEqual([[id], false]);

    // The row as the earlier version writes it: with a mask, of which its statement says nothing.
    const row = `SELECT json_build_object('sealed', encode(sealed, 'base64'), 'container', container,
      'fingerprint', fingerprint, 'fingerprint_expression', fingerprint_expression, 'search_indexes', search_indexes,
      'search_digests', search_digests, 'modified_at', modified_at) AS row FROM tokens WHERE id = $1`;
    await patch({ mask: 'hidden' });
    const [{ row: withMask }] = await server.sql(row, [id]);
    await patch({ mask: null });
    expect([await found(), await maskOf()]).toEqual([[id], false]);
    await server.sql(UPDATE_TOKEN ?? '', [tenant_id, id, JSON.stringify(withMask)]);
    expect([await found(), await maskOf()]).toEqual([[], null]);
    await sweep(server.ctx);
    expect([await found(), await maskOf()]).toEqual([[], true]);
  });

  // Processes of two versions serve beside each other while an operator replaces them.
  it('takes every statement of the earlier version', async () => {
    const client = new Client(database.address);
    await client.connect();
    try {
      expect(Object.keys(statements).length).toBeGreaterThan(20);
      for (const [index, text] of Object.values(statements).entries())
        await client.query(`PREPARE "statement ${index}" AS ${text}`);
    } finally {
      await client.end();
    }
  });

  // By the names that the fixture of the first version gives them; `npm run drill:upgrade` does it with processes of any.
  it.runIf('READ_TOKENS.one' in statements)('shows what the earlier version writes', async () => {
    const { body: known } = await server.request('GET', `/tokens/${vault.ids[0]}`, { key: vault.keys.first });
    const { tenant_id, created_by: application_id } = known;
    const created_at = '2026-01-01T00:00:00.000Z';
    const id = 'of-the-earlier-version';
    const log = {
      id: '019b0000-0000-7000-8000-000000000001',
      actor_id: application_id,
      actor_type: 'application',
      entity_type: 'token',
      entity_ids: [id],
      operation: 'read',
      message: 'Token retrieved',
      created_at,
    };
    const token = {
      id,
      type: 'token',
      sealed: 'AAAA',
      container: '/general/high/',
      created_at,
      created_by: application_id,
    };
    const insert = { ...token, ...log, id, log_id: '019b0000-0000-7000-8000-000000000002', message: 'Token created' };
    const client = new Client(database.address);
    await client.connect();
    const run = async (statement: string, values: unknown[]) =>
      (await client.query(statements[statement] ?? '', values)).rows;
    try {
      await run('INSERT_TOKENS', [tenant_id, JSON.stringify([insert])]);
      await run('PUT_CVC', [tenant_id, id, 'AAAA', created_at]);
      await run('UPDATE_TOKEN', [tenant_id, id, JSON.stringify({ ...token, sealed: 'AAAB' })]);
      expect(await run('FIND_RECORDS', [tenant_id, [id]])).toMatchObject([{ id, type: 'token' }]);
      const read = { token_id: id, ...log, entity_type: undefined, entity_ids: undefined };
      expect(await run('READ_TOKENS.one', [tenant_id, JSON.stringify([read]), id])).toMatchObject([{ id }]);
      const deleted = { ...log, id: '019b0000-0000-7000-8000-000000000003', operation: 'delete' };
      expect(await run('DELETE_TOKEN', [tenant_id, id, '/general/high/', JSON.stringify(deleted)])).toHaveLength(1);
      // The earlier version knows nothing of erasures: a restore must not bring back what it deletes.
      expect(await server.sql('SELECT kind FROM erasures WHERE tenant_id = $1 AND id = $2', [tenant_id, id])).toEqual([
        { kind: 'token' },
      ]);
    } finally {
      await client.end();
    }
    const { body } = await server.request('GET', `/logs?entity_id=${id}`, { key: vault.keys.first });
    expect(body.data.map(({ operation, outcome }: any) => `${operation} ${outcome}`)).toEqual([
      'delete success',
      'create success',
      'read success',
    ]);
  });

  it('binds tokens to their rows after the contract step, and then refuses what is not bound', async () => {
    const [id] = vault.ids;
    const read = () => server.request('GET', `/tokens/${id}`, { key: vault.keys.reveal });
    const before = (await read()).body;
    const [{ sealed, container, tenant_id }] = await server.sql('SELECT * FROM tokens WHERE id = $1', [id]);
    const set = (column: 'sealed' | 'container', value: unknown) =>
      server.sql(`UPDATE tokens SET ${column} = $2 WHERE id = $1`, [id, value]);
    const moved = container.replace(/[^/]+\/$/, 'moved/');
    await set('container', moved);
    expect((await read()).body.containers).toEqual([moved]);
    await set('container', container);
    const card = { type: 'card', data: { ...before.data, cvc: '111' } };
    const during = (await server.request('POST', '/tokens', { key: vault.keys.first, json: card })).body.id;

    await contract(server.ctx, () => undefined, { isAlone: true });
    const again: string[] = [];
    await makeBindingKeys(server.ctx, (line) => again.push(line));
    expect(again.at(-1)).toBe('New data keys: 0');
    // New keys seal after some minutes, and the old ones go after some more, without kept answers under them.
    await server.sql("UPDATE tenant_keys SET created_at = created_at - interval '1 day'");
    await server.sql('DELETE FROM idempotency_keys');
    server.ctx.keyring.forgetTenants();
    await resealAll(server.ctx, new Map(), { goOn: async () => true });
    server.ctx.keyring.forgetTenants();
    const purposes = await server.sql('SELECT purpose FROM tenant_keys WHERE tenant_id = $1 ORDER BY 1', [tenant_id]);
    expect(purposes).toEqual([{ purpose: 'data-2' }, { purpose: 'digest' }]);

    expect((await read()).body).toEqual(before);
    // A code of before the contract step lives on.
    const { body } = await server.request('GET', `/tokens/${during}`, { key: vault.keys.reveal });
    expect(body.data.cvc).toBe('111');
    await set('container', moved);
    expect((await read()).status).toBe(500);
    await set('container', container);
    expect((await read()).status).toBe(200);
    await set('sealed', sealed);
    expect((await read()).status).toBe(500);
  });
});
