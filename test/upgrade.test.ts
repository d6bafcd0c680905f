// A vault that an earlier version filled: the current server upgrades it in place and answers as that version did.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sweep } from '../src/vault/sweep.ts';
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
  await client.query(fixture(`${name}.sql`));
  await client.end();
  return database;
};

/** What an earlier version answered, as the current one does: what has changed since is in CHANGELOG.md. */
const asToday = (vault: Vault, { key, json, body }: Pick<Recorded, 'key' | 'json' | 'body'>) => {
  const { trace_id: _, ...rest } = body;
  // Who sees nothing of the value sees no fingerprint.
  if (key === vault.keys.redacted) delete rest.fingerprint;
  // Terms about values find what their caller sees: of a token with a mask, nothing.
  const { query } = (json ?? {}) as { query?: string };
  if (query?.startsWith('data:6789')) return { pagination: { total_items: 0 }, data: [] };
  return rest;
};

describe.each(['vault-60669a8'])('the dump %s', (name) => {
  const vault = JSON.parse(fixture(`${name}.json`)) as Vault;
  let server: TestServer;

  beforeAll(async () => {
    const database = await restore(name);
    // A minute later: the security codes of the dump are still alive.
    const now = new Date(new Date(vault.made_at).getTime() + 60_000);
    server = await startServer({}, { now: () => now }, { database });
  });
  afterAll(() => server.close());

  it.each(vault.recorded.map((recorded, index) => [`${index} ${recorded.method} ${recorded.path}`, recorded] as const))(
    'answers as before: %s',
    async (_name, { key, method, path, json, status, body }) => {
      const answer = await server.request(method, path, { key, ...(json === undefined ? {} : { json }) });
      expect(answer.status, answer.text).toBe(status);
      expect(answer.body).toMatchObject(asToday(vault, { key, json, body }));
    },
  );

  it('looks into its tokens once and finds values by search only where no mask hides them', async () => {
    const unknown = () => server.sql("SELECT id FROM tokens WHERE masked IS NULL AND type = 'token'");
    expect((await unknown()).length).toBeGreaterThan(0);
    await sweep(server.ctx);
    expect(await unknown()).toEqual([]);
    const [{ masked }] = await server.sql("SELECT count(*)::int AS masked FROM tokens WHERE masked AND type = 'token'");
    expect(masked).toBe(1);
    const json = { query: 'data:"a plain text"' };
    const answer = await server.request('POST', '/tokens/search', { key: vault.keys.first, json });
    expect(answer.body.data).toHaveLength(1);
  });

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
});
