// The current server upgrades the vault of an earlier version in place, and gives the same responses.
import { createHmac } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDelivering } from '../src/modules/webhooks/deliver.ts';
import { migrate } from '../src/platform/maintenance/migrate.ts';
import { migrationsDir } from '../src/platform/services/open-database.ts';
import { createEmptyDatabase } from './support/database.ts';
import { openBrowser } from './support/people.ts';
import { startServer, startServerBefore, type TestServer, upstreamOn } from './support/server.ts';
import { startUpstream, type Upstream } from './support/upstream.ts';

type Recorded = { key: string; method: string; path: string; json?: unknown; status: number; body: any };

type Vault = {
  made_at: string;
  keys: Record<'first' | 'reveal' | 'redacted' | 'bound' | 'other', string>;
  member: { email: string; password: string };
  idempotent: { headers: Record<string, string>; json: unknown; path: string; body: unknown };
  ids: string[];
  /** Tokens by what binds them. */
  bound: Record<'host' | 'reactor' | 'allowance' | 'reactor_id' | 'other_reactor_id' | 'proxy_key', string>;
  webhook: { id: string; secret: string; announced: string };
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
  /** What it answered, as the current version does: what has changed since is in CHANGELOG.md. */
  asToday(vault: Vault, recorded: Pick<Recorded, 'key' | 'json' | 'body'>): any;
};

/** Every version with a dump. A release adds its own: test/fixtures/README.md. */
const versions: Record<string, Version> = {
  '0.2.0': {
    asToday: (_vault, { body }) => {
      const { trace_id: _, ...rest } = body;
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

describe.each(Object.entries(versions))('the dump of %s', (name, { asToday }) => {
  const vault = JSON.parse(fixture(`vault-${name}.json`)) as Vault;
  const statements = JSON.parse(fixture(`statements-${name}.json`)) as Record<string, string>;
  let server: TestServer;
  let upstream: Upstream;
  /** A minute: the security codes of the dump are still alive. */
  let laterMs = 60_000;
  const now = (): Date => new Date(new Date(vault.made_at).getTime() + laterMs);
  let database: Awaited<ReturnType<typeof restore>>;

  beforeAll(async () => {
    database = await restore(name);
    upstream = await startUpstream();
    server = await startServerBefore(upstreamOn(upstream.port), {}, { now }, { database });
  });
  afterAll(async () => {
    await server.close();
    await upstream.close();
  });

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

  it.each(['token', 'rule'] as const)(
    'sends a value that is bound by its %s to its host, and nowhere else',
    async (by) => {
      const id = by === 'token' ? vault.bound.host : vault.ids[0];
      const key = by === 'token' ? vault.keys.first : vault.keys.bound;
      const send = (host: string) =>
        server.request('POST', '/proxy', {
          key,
          headers: { 'svc-proxy-url': `https://${host}:${upstream.port}/` },
          json: { card: `{{ ${id} | json: '$.number' }}` },
        });
      upstream.received.length = 0;
      const elsewhere = await send('other.upstream.test');
      expect([elsewhere.status, Object.keys(elsewhere.body.proxy_error.errors)]).toEqual([403, ['bound_to.hosts']]);
      expect(upstream.received).toEqual([]);
      const passed = await send('upstream.test');
      expect(passed.status, passed.text).toBe(200);
      expect(String(upstream.received[0]?.body)).toMatch(/"card":"40{8,}\d+"/);
    },
  );

  it('runs a reactor with a value that is bound to it, counts the use, and runs no other with it', async () => {
    const { reactor, reactor_id, other_reactor_id } = vault.bound;
    const react = (id: string) =>
      server.request('POST', `/reactors/${id}/react`, {
        key: vault.keys.first,
        json: { args: { card: `{{ ${reactor} }}` } },
      });
    const refused = await react(other_reactor_id);
    expect([refused.status, Object.keys(refused.body.errors)]).toEqual([403, ['bound_to.reactors']]);
    expect((await react(reactor_id)).status).toBe(200);
    const { body } = await server.request('GET', `/tokens/${reactor}`, { key: vault.keys.first });
    expect([body.uses, body.bound_to.max_uses]).toEqual([2, 3]);
  });

  it('allows what an allowance allows, through the proxy that it was made for', async () => {
    const charge = (amount: number) =>
      server.request('POST', '/proxy', {
        key: vault.keys.first,
        headers: { 'svc-proxy-key': vault.bound.proxy_key, 'svc-dry-run': 'true' },
        json: { amount, currency: 'usd', card: `{{ ${vault.bound.allowance} }}` },
      });
    expect((await charge(2000)).body).toMatchObject({ decision: 'allowed' });
    const above = (await charge(2001)).body;
    expect([above.decision, JSON.stringify(above)]).toEqual([
      'refused',
      expect.stringContaining('max_amount is 2000 usd, the request has 2001'),
    ]);
  });

  it('delivers the event that waited for a webhook, signed with its secret', async () => {
    const { id, secret, announced } = vault.webhook;
    const json = { url: `https://upstream.test:${upstream.port}/hooks` };
    expect((await server.request('PATCH', `/webhooks/${id}`, { key: vault.keys.first, json })).status).toBe(200);
    upstream.received.length = 0;
    // Its first attempts failed.
    laterMs += 10 * 60_000;
    const delivering = createDelivering(server.ctx);
    await delivering.settle();
    await delivering.stop();
    const [event] = upstream.received.filter(({ url }) => url === '/hooks');
    const headers = new Map(event?.headers.map(([key, value]) => [key.toLowerCase(), value]));
    const body = String(event?.body);
    expect(JSON.parse(body)).toMatchObject({
      id: headers.get('webhook-id'),
      type: 'token.created',
      data: { id: announced },
    });
    const signed = `${headers.get('webhook-id')}.${headers.get('webhook-timestamp')}.${body}`;
    const signature = createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64')).update(signed);
    expect(headers.get('webhook-signature')).toBe(`v1,${signature.digest('base64')}`);
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

  // What a later release does to this one: its servers serve on while the tables get a column, its values, and its constraint.
  it('serves on through a migration that adds, backfills and contracts', async () => {
    const key = vault.keys.first;
    const next = mkdtempSync(join(tmpdir(), 'strongroom-next-'));
    const release = async (migration: string, sql: string): Promise<void> => {
      mkdirSync(join(next, migration));
      writeFileSync(join(next, migration, 'migration.sql'), sql);
      expect((await migrate(database.address, next)).applied).toEqual([migration]);
    };
    const use = async (data: string): Promise<void> => {
      const made = await server.request('POST', '/tokens', { key, json: { type: 'token', data } });
      expect(made.status, made.text).toBe(201);
      const read = await server.request('GET', `/tokens/${vault.ids[0]}`, { key: vault.keys.reveal });
      expect(read.body).toEqual(before.body);
      const application = { name: data, type: 'private', permissions: ['token:create'] };
      expect((await server.request('POST', '/applications', { key, json: application })).status).toBe(201);
    };
    const before = await server.request('GET', `/tokens/${vault.ids[0]}`, { key: vault.keys.reveal });
    expect(before.status).toBe(200);
    try {
      cpSync(migrationsDir, next, { recursive: true });
      await use('before');
      await release(
        '20990101000000_adds',
        'ALTER TABLE tokens ADD COLUMN label TEXT; ALTER TABLE applications ADD COLUMN label TEXT;',
      );
      await use('between');
      await release(
        '20990101000100_backfills',
        "UPDATE tokens SET label = 'none'; UPDATE applications SET label = 'none';",
      );
      await use('beside');
      expect(await server.sql('SELECT FROM tokens WHERE label IS NULL')).toHaveLength(1);
      await release(
        '20990201000000_contracts',
        `UPDATE tokens SET label = 'none' WHERE label IS NULL;
         ALTER TABLE tokens ALTER COLUMN label SET DEFAULT 'none', ALTER COLUMN label SET NOT NULL;
         ALTER TABLE applications DROP COLUMN label;`,
      );
      await use('after');
      expect(await server.sql("SELECT FROM tokens WHERE label <> 'none'")).toEqual([]);
      expect((await migrate(database.address, migrationsDir)).applied).toEqual([]);
      const logged = server.logLines.filter((line) => /"alarm"/.test(line));
      expect(logged).toEqual([]);
    } finally {
      rmSync(next, { recursive: true, force: true });
    }
  });
});

describe('a vault of a build before 0.2.0', () => {
  it('is refused at start with what to do, and stays as it is', async () => {
    const database = await createEmptyDatabase();
    const client = new Client(database.address);
    await client.connect();
    try {
      // As its first migration left it.
      await migrate(database.address, migrationsDir);
      await client.query("UPDATE _prisma_migrations SET migration_name = '20261121000000_vault'");
      const tables = async () => (await client.query('SELECT count(*) FROM pg_class')).rows;
      const before = await tables();
      const started = startServer({}, {}, { database });
      await expect(started).rejects.toThrow(/^The vault in the database is of a build before 0\.2\.0.*export.*import/);
      await expect(started).rejects.toMatchObject({ code: 'earlier' });
      expect(await tables()).toEqual(before);
    } finally {
      await client.end();
      await database.drop();
    }
  });
});
