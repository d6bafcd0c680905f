// Backup and restore through the command line, with a real server: what comes back, and what leaves nothing.
import { execFile } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Decrypter, Encrypter, generateX25519Identity, identityToRecipient } from 'age-encryption';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { KEPT_TABLES, LEFT_TABLES } from '../src/platform/db/backup/tables.ts';
import { migrate } from '../src/platform/db/migrate.ts';
import { migrationsDir } from '../src/platform/open-database.ts';
import { sweep } from '../src/modules/tokens/sweep.ts';
import { createDatabase, createEmptyDatabase, type TestDatabase } from './support/database.ts';
import { root, runCommand, sourceEnvironment, spawnServer, untilReady } from './support/process.ts';
import { startServer, TEST_ROOT_KEY, type TestServer } from './support/server.ts';

type Ended = { code: number; stdout: string; stderr: string };

let directory: string;
let identityFile: string;
let identity: string;
let recipient: string;
let server: TestServer;

const environmentOf = (url: string): Record<string, string> => ({
  NODE_ENV: 'test',
  DATABASE_URL: url,
  MASTER_KEY: TEST_ROOT_KEY,
  DATA_DIR: join(directory, 'none'),
});

const cli = (url: string, args: string[], more: Record<string, string> = {}): Promise<Ended> =>
  runCommand(args, { ...environmentOf(url), ...more }, directory).then(
    (output) => ({ code: 0, ...output }),
    (error: Ended) => error,
  );

const fileNamed = (name: string): string => join(directory, name);

const backUp = async (url: string, name: string): Promise<string> => {
  const file = fileNamed(name);
  const { code, stderr } = await cli(url, ['backup', file, '--to', recipient]);
  expect([code, stderr]).toEqual([0, expect.stringMatching(/^Counting: .*\n(?:.*\n)*Writing: /)]);
  return file;
};

const restore = (url: string, file: string, ...more: string[]): Promise<Ended> =>
  cli(url, ['restore', file, '--identity', identityFile, ...more]);

const queryOf = async (database: TestDatabase, sql: string, values: unknown[] = []): Promise<any[]> => {
  const client = new Client(database.address);
  await client.connect();
  try {
    return (await client.query(sql, values)).rows;
  } finally {
    await client.end();
  }
};

const withEmpty = async (work: (database: TestDatabase) => Promise<void>): Promise<void> => {
  const database = await createEmptyDatabase();
  try {
    await work(database);
  } finally {
    await database.drop();
  }
};

/** A refused restore leaves no row of the backup, and may be tried again. */
const expectNothing = async (database: TestDatabase): Promise<void> => {
  const [{ there }] = await queryOf(database, "SELECT to_regclass('tenants') IS NOT NULL AS there");
  if (!there) return;
  for (const table of KEPT_TABLES)
    expect([table, await queryOf(database, `SELECT count(*)::int AS count FROM ${table}`)]).toEqual([
      table,
      [{ count: 0 }],
    ]);
};

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'strongroom-backup-'));
  identity = await generateX25519Identity();
  recipient = await identityToRecipient(identity);
  identityFile = fileNamed('backup.key');
  writeFileSync(identityFile, `# public key: ${recipient}\n${identity}\n`, { mode: 0o600 });
  server = await startServer();
});
afterAll(async () => {
  await server.close();
  rmSync(directory, { recursive: true, force: true });
});

const tokenize = async (data: string, at = server, more: object = {}): Promise<string> => {
  const { status, body } = await at.tokenize({ type: 'token', data, ...more });
  expect(status).toBe(200);
  return body.id;
};

test('each table of the schema is in the backup, or left out with a reason', async () => {
  const tables = await server.sql(`SELECT relname::text AS name FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1`);
  expect(tables.map(({ name }) => name)).toEqual([...KEPT_TABLES, ...Object.keys(LEFT_TABLES)].toSorted());
});

describe('a backup of a vault in use', () => {
  test('brings back every token that was acknowledged before it began', async () => {
    const source = await startServer();
    const { api_key, tenant_id } = source.tenant;
    const written = new Map<string, string>();
    let count = 0;
    let isGoingOn = true;
    const write = async (): Promise<void> => {
      while (isGoingOn) {
        const data = `value ${(count += 1)} \\ \t "ü"`;
        written.set(await tokenize(data, source), data);
      }
    };
    const writers = Array.from({ length: 4 }, write);
    await expect.poll(() => written.size, { timeout: 20_000 }).toBeGreaterThan(300);
    const card = await source.tokenize({
      type: 'card',
      data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2040, cvc: '123' },
    });
    expect(card.status).toBe(200);
    const before = new Map(written);
    const file = await backUp(source.databaseUrl, 'in-use.age');
    expect(written.size).toBeGreaterThan(before.size);
    isGoingOn = false;
    await Promise.all(writers);
    await source.close();

    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(directory).filter((name) => name.endsWith('.partial'))).toEqual([]);
    const bytes = readFileSync(file);
    expect(bytes.toString('latin1')).toMatch(/^age-encryption\.org\/v1\n/);
    for (const secret of [tenant_id, 'Test', card.body.id, 'strongroom']) expect(bytes.includes(secret)).toBe(false);

    const database = await createEmptyDatabase();
    const restored = await restore(database.url, file);
    expect([restored.code, restored.stdout]).toEqual([0, expect.stringContaining('No erasure list was given')]);
    expect(restored.stderr).toMatch(/^Restoring: /);
    const target = await startServer({}, {}, { database });
    try {
      for (const [id, data] of before) {
        const { body } = await target.request('GET', `/tokens/${id}`, { key: api_key });
        expect([id, body.data]).toEqual([id, data]);
      }
      const read = await target.request('GET', `/tokens/${card.body.id}`, { key: api_key });
      expect([read.status, read.body.data.number]).toEqual([200, expect.stringContaining('4242')]);
      expect(await target.sql('SELECT FROM token_cvcs')).toEqual([]);
      expect(await target.sql('SELECT FROM ephemeral_keys')).toEqual([]);
      expect((await target.tokenize({ type: 'token', data: 'new' }, api_key)).status).toBe(200);
    } finally {
      await target.close();
    }
  });

  test('is restored over the empty tables of a migrated database too', async () => {
    const file = await backUp(server.databaseUrl, 'over-tables.age');
    const database = await createDatabase();
    const { code, stdout } = await restore(database.url, file);
    expect([code, stdout]).toEqual([0, expect.stringContaining('Restored: ')]);
    expect(await queryOf(database, 'SELECT id FROM tenants')).toEqual([{ id: server.tenant.tenant_id }]);
    await database.drop();
  });

  test('has a manifest, which names no value', async () => {
    const file = await backUp(server.databaseUrl, 'manifest.age');
    const decrypter = new Decrypter();
    decrypter.addIdentity(identity);
    const plain = gunzipSync(await decrypter.decrypt(readFileSync(file)));
    const manifest = JSON.parse(plain.subarray(0, plain.indexOf('\n')).toString());
    expect(manifest).toMatchObject({
      strongroom: 'backup',
      format: 1,
      product: '0.1.0',
      environment: 'test',
      root_key_id: server.ctx.provider.describe().root_key_id,
      made_at: expect.stringMatching(/Z$/),
      migrations: expect.arrayContaining(['20261124040000_erasures']),
    });
    expect(manifest.tables.map(({ name }: { name: string }) => name)).toEqual(KEPT_TABLES);
    const tokens = manifest.tables.find(({ name }: { name: string }) => name === 'tokens');
    expect(tokens.sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(plain.includes(TEST_ROOT_KEY)).toBe(false);
  });
});

describe('a backup is refused', () => {
  test('where the file exists, or another backup writes it', async () => {
    const file = fileNamed('exists.age');
    writeFileSync(file, 'mine');
    const refused = await cli(server.databaseUrl, ['backup', file, '--to', recipient]);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(`${file} exists`)]);
    expect(readFileSync(file, 'utf8')).toBe('mine');
    const other = fileNamed('other.age');
    writeFileSync(`${other}.partial`, 'theirs');
    const second = await cli(server.databaseUrl, ['backup', other, '--to', recipient]);
    expect([second.code, second.stderr]).toEqual([1, expect.stringContaining(`rm ${other}.partial`)]);
    expect(readFileSync(`${other}.partial`, 'utf8')).toBe('theirs');
    rmSync(`${other}.partial`);
  });

  test('for a text that is no recipient, and a directory that does not exist', async () => {
    const file = fileNamed('unwritten.age');
    const recipientRefused = await cli(server.databaseUrl, ['backup', file, '--to', 'age1nonsense']);
    expect([recipientRefused.code, recipientRefused.stderr]).toEqual([1, expect.stringContaining('--to')]);
    const nowhere = await cli(server.databaseUrl, ['backup', join(directory, 'no/where.age'), '--to', recipient]);
    expect([nowhere.code, nowhere.stderr]).toEqual([1, expect.stringContaining('the directory does not exist')]);
  });

  test('when the file cannot grow, and nothing of it is left', async () => {
    for (let index = 0; index < 40; index += 1)
      await server.tokenize(Array.from({ length: 50 }, () => ({ type: 'token', data: crypto.randomUUID() })));
    const file = fileNamed('full.age');
    // Blocks of 512 bytes or 1 KiB, as the shell counts them.
    const script = `ulimit -f 64; exec "$0" src/cli/main.ts backup "$1" --to "$2"`;
    const { code, stderr } = await new Promise<Ended>((resolve) => {
      execFile(
        'sh',
        ['-c', script, process.execPath, file, recipient],
        { cwd: root, env: { ...sourceEnvironment, ...environmentOf(server.databaseUrl), NODE_COMPILE_CACHE: '' } },
        (error, stdout, stderr) => resolve({ code: (error?.code as number | undefined) ?? 0, stdout, stderr }),
      );
    });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/cannot be written: the file is larger.*\(EFBIG\)/)]);
    expect(readdirSync(directory).filter((name) => name.startsWith('full'))).toEqual([]);
  });
});

describe('a restore leaves nothing', () => {
  let file: string;
  let bytes: Buffer;
  beforeAll(async () => {
    await tokenize('kept');
    file = await backUp(server.databaseUrl, 'whole.age');
    bytes = readFileSync(file);
  });

  const changed = (name: string, content: Uint8Array): string => {
    writeFileSync(fileNamed(name), content);
    return fileNamed(name);
  };

  test('of a file that was cut off, wherever it was', () =>
    withEmpty(async (database) => {
      const places = [0, 10, 150, 250, 5_000, bytes.length >> 1, bytes.length - 17, bytes.length - 1];
      for (const length of places) {
        const { code, stderr } = await restore(database.url, changed('cut.age', bytes.subarray(0, length)));
        expect([length, code, stderr]).toEqual([length, 1, expect.stringContaining('Nothing was restored.')]);
        await expectNothing(database);
      }
      expect((await restore(database.url, file)).code).toBe(0);
    }));

  test('of a file with a changed byte, or with bytes behind its end', () =>
    withEmpty(async (database) => {
      for (const place of [5, 60, 130, 300, 70_000, bytes.length - 5]) {
        const flipped = Buffer.from(bytes);
        flipped[place] = (flipped[place] as number) ^ 1;
        const { code, stderr } = await restore(database.url, changed('flipped.age', flipped));
        expect([place, code, stderr]).toEqual([place, 1, expect.stringContaining('Nothing was restored.')]);
        await expectNothing(database);
      }
      const longer = await restore(database.url, changed('longer.age', Buffer.concat([bytes, Buffer.from('x')])));
      expect(longer.code).toBe(1);
      await expectNothing(database);
    }));

  test('of a file that somebody without the root key made', () =>
    withEmpty(async (database) => {
      const decrypter = new Decrypter();
      decrypter.addIdentity(identity);
      const plain = gunzipSync(await decrypter.decrypt(bytes));
      const end = plain.indexOf('\n');
      const packed = async (head: string, rest: Uint8Array) => {
        const encrypter = new Encrypter();
        encrypter.addRecipient(recipient);
        return encrypter.encrypt(gzipSync(Buffer.concat([Buffer.from(head), rest])));
      };
      const head = plain.subarray(0, end).toString();
      const forged = await restore(
        database.url,
        changed('forged.age', await packed(head.replace('"product":"', '"product":"9'), plain.subarray(end))),
      );
      expect([forged.code, forged.stderr]).toEqual([1, expect.stringContaining('was not made with the root key')]);
      const rows = Buffer.from(plain.subarray(end));
      const name = rows.indexOf('Test');
      rows.write('Tess', name);
      const altered = await restore(database.url, changed('altered.age', await packed(head, rows)));
      expect([altered.code, altered.stderr]).toEqual([
        1,
        expect.stringMatching(/rows of \w+ .* not those of its manifest/),
      ]);
      await expectNothing(database);
    }));

  test('with a wrong identity, a wrong root key or the other environment', () =>
    withEmpty(async (database) => {
      const other = fileNamed('other.key');
      writeFileSync(other, `${await generateX25519Identity()}\n`);
      const wrong = await cli(database.url, ['restore', file, '--identity', other]);
      expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining(`No identity in ${other} opens`)]);
      writeFileSync(other, 'no key\n');
      const none = await cli(database.url, ['restore', file, '--identity', other]);
      expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('has no identity')]);

      const MASTER_KEY = Buffer.alloc(32, 8).toString('base64');
      const root_key = await cli(database.url, ['restore', file, '--identity', identityFile], { MASTER_KEY });
      expect(root_key.code).toBe(1);
      const ids = [...root_key.stderr.matchAll(/root key .* ([0-9a-f]{32})$/gm)].map(([, id]) => id);
      expect(ids).toEqual([server.ctx.provider.describe().root_key_id, expect.any(String)]);
      expect(new Set(ids).size).toBe(2);

      const production = await cli(database.url, ['restore', file, '--identity', identityFile], {
        NODE_ENV: 'production',
      });
      expect([production.code, production.stderr]).toEqual([1, expect.stringContaining('Set NODE_ENV')]);
      expect(
        await queryOf(database, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"),
      ).toEqual([]);
    }));

  test('in a database that is not empty: it stays as it is, and the way out is said', async () => {
    const other = await startServer();
    const { code, stderr } = await restore(other.databaseUrl, file);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/is not empty.*Nothing was changed.*createdb/)]);
    expect(await other.sql('SELECT id FROM tenants')).toEqual([{ id: other.tenant.tenant_id }]);
    await other.close();
    await withEmpty(async (database) => {
      await queryOf(database, 'CREATE TABLE theirs (id int)');
      const theirs = await restore(database.url, file);
      expect([theirs.code, theirs.stderr]).toEqual([1, expect.stringContaining('did not create')]);
    });
  });
});

describe('a backup of another version', () => {
  test('is migrated with its rows if it is older', async () => {
    const late = '20261124020100_search_names_of_applications';
    const older = await createEmptyDatabase();
    const all = await server.sql('SELECT migration_name AS name FROM _prisma_migrations');
    await migrate(
      older.address,
      migrationsDir,
      all.map(({ name }) => name).filter((name) => name !== late),
    );
    for (const table of ['instance', 'tenants', 'tenant_keys'])
      for (const { row } of await server.sql(`SELECT to_json(t) AS row FROM ${table} t`))
        await queryOf(older, `INSERT INTO ${table} SELECT * FROM json_populate_record(NULL::${table}, $1)`, [row]);
    const file = await backUp(older.url, 'older.age');
    await older.drop();
    await withEmpty(async (database) => {
      const { code } = await restore(database.url, file);
      expect(code).toBe(0);
      expect(await queryOf(database, 'SELECT id FROM tenants')).toEqual([{ id: server.tenant.tenant_id }]);
      const applied = await queryOf(database, 'SELECT FROM _prisma_migrations WHERE migration_name = $1', [late]);
      expect(applied).toHaveLength(1);
    });
    const current = await createDatabase();
    const { code, stderr } = await restore(current.url, file);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/newer than the backup.*createdb/)]);
    await current.drop();
  });

  test('is refused if it is newer', async () => {
    const newer = await startServer();
    await newer.sql(`INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at)
      VALUES ('1', '', '29990101000000_later', now())`);
    const file = await backUp(newer.databaseUrl, 'newer.age');
    await newer.close();
    await withEmpty(async (database) => {
      const { code, stderr } = await restore(database.url, file);
      expect([code, stderr]).toEqual([1, expect.stringMatching(/newer version.*29990101000000_later/)]);
      await expectNothing(database);
    });
  });
});

test('an embedded database is backed up beside its server, and restored into another directory', async () => {
  const [from, to] = [fileNamed('from'), fileNamed('to')];
  const source = await spawnServer(from);
  await untilReady(source);
  const { api_key } = source.credentials();
  const headers = { 'svc-api-key': api_key, 'content-type': 'application/json' };
  const body = JSON.stringify({ type: 'token', data: 'embedded' });
  const created = await fetch(`${source.base_url}/tokenize`, { method: 'POST', headers, body });
  const { id } = (await created.json()) as { id: string };
  const file = fileNamed('embedded.age');
  const command = (DATA_DIR: string, ...args: string[]): Promise<Ended> =>
    runCommand(args, { DATA_DIR }, directory).then(
      (output) => ({ code: 0, ...output }),
      (error: Ended) => error,
    );
  expect((await command(from, 'backup', file, '--to', recipient)).code).toBe(0);
  const beside = await command(from, 'restore', file, '--identity', identityFile);
  expect([beside.code, beside.stderr]).toEqual([1, expect.stringContaining('Another server is running')]);
  source.child.kill();
  await source.exited;

  const keyless = await command(to, 'restore', file, '--identity', identityFile);
  expect([keyless.code, keyless.stderr]).toEqual([1, expect.stringContaining('There is no root key')]);
  mkdirSync(to);
  copyFileSync(join(from, 'master.key'), join(to, 'master.key'));
  const restored = await command(to, 'restore', file, '--identity', identityFile);
  expect([restored.code, restored.stdout]).toEqual([0, expect.stringContaining('Restored: ')]);
  const target = await spawnServer(to);
  await untilReady(target);
  const read = await fetch(`${target.base_url}/tokens/${id}`, { headers });
  expect([read.status, ((await read.json()) as { data: string }).data]).toEqual([200, 'embedded']);
  target.child.kill();
  await target.exited;
});

test('a verification opens tokens of every tenant, and leaves no database behind', async () => {
  const second = await server.newTenant();
  await server.tokenize({ type: 'token', data: 'of the second' }, second.api_key);
  const file = await backUp(server.databaseUrl, 'verified.age');
  const databases = 'SELECT datname FROM pg_database WHERE datname LIKE $1';
  const { code, stdout } = await restore(server.databaseUrl, file, '--verify');
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(/rows in 24 tables, as the manifest says\. \d+ sampled tokens of \d+ tenants open\./),
  ]);
  expect(await server.sql(databases, ['strongroom_verify_%'])).toEqual([]);
  // A token of another place does not open: the report says so.
  const [{ id }] = await server.sql('SELECT id FROM tokens WHERE tenant_id = $1', [second.tenant_id]);
  await server.sql("UPDATE tokens SET sealed = sealed || '\\x00' WHERE tenant_id = $1 AND id = $2", [
    second.tenant_id,
    id,
  ]);
  const broken = await backUp(server.databaseUrl, 'broken.age');
  const failed = await restore(server.databaseUrl, broken, '--verify');
  expect([failed.code, failed.stdout]).toEqual([
    1,
    expect.stringContaining(`tenant ${second.tenant_id}: 1 of 1 sampled tokens do not open`),
  ]);
  expect(await server.sql(databases, ['strongroom_verify_%'])).toEqual([]);
});

describe('erasures', () => {
  test('are replayed: what was deleted after the backup does not come back', async () => {
    const source = await startServer();
    const { tenant } = source;
    const again = crypto.randomUUID();
    await tokenize('VALUE-first', source, { id: again });
    expect((await source.request('DELETE', `/tokens/${again}`)).status).toBe(204);
    await tokenize('VALUE-second', source, { id: again });
    const kept = await tokenize('kept', source);
    const erased = await tokenize('VALUE-erased', source);
    const expired = await tokenize('expired', source);
    const other = await source.newTenant();
    const ofOther = await source.tokenize({ type: 'token', data: 'VALUE-gone' }, other.api_key);
    const application = await source.newKey(tenant, { permissions: ['token:create'] });
    const revoked = await source.newKey(tenant, { permissions: ['token:create'] });
    const living = await source.newKey(tenant, { permissions: ['token:create'] });
    const proxy = await source.request('POST', '/proxies', {
      json: { name: 'Shop', destination_url: 'https://api.example.com' },
    });
    const backup = await backUp(source.databaseUrl, 'erasures.age');

    expect((await source.request('DELETE', `/tokens/${erased}`)).status).toBe(204);
    const soon = new Date(Date.now() + 60_000).toISOString();
    const patched = await source.request('PATCH', `/tokens/${expired}`, {
      json: { expires_at: soon },
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    expect(patched.status).toBe(200);
    source.clock.offsetMs = 120_000;
    await sweep(source.ctx);
    source.clock.offsetMs = 0;
    expect((await source.request('DELETE', `/applications/${application.application_id}`)).status).toBe(204);
    const publicPart = revoked.api_key.slice(0, revoked.api_key.lastIndexOf('_'));
    const revoke = ['keys', 'revoke', publicPart, '--tenant', tenant.tenant_id];
    expect((await cli(source.databaseUrl, revoke)).code).toBe(0);
    expect((await source.request('DELETE', `/proxies/${proxy.body.id}`)).status).toBe(204);
    expect((await source.request('DELETE', '/tenants/self', { key: other.api_key })).status).toBe(204);
    const list = fileNamed('erasures');
    const exported = await cli(source.databaseUrl, ['erasures', 'export', list]);
    expect([exported.code, exported.stdout]).toEqual([0, expect.stringMatching(/erasures {5}8$/m)]);
    expect((await cli(source.databaseUrl, ['erasures', 'export', list])).stderr).toContain('exists');
    expect(readFileSync(list).includes('VALUE')).toBe(false);
    await source.close();

    const database = await createEmptyDatabase();
    const { code, stdout, stderr } = await restore(database.url, backup, '--erasures', list);
    expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
    expect(stdout).toContain(
      '(8 entries). Deleted again: 1 tenant, 1 application, 1 api_key, 1 proxy, 0 member, 0 invitation, 2 token.',
    );
    const target = await startServer({}, {}, { database });
    try {
      const read = async (id: string, key = tenant.api_key) =>
        (await target.request('GET', `/tokens/${id}`, { key })).status;
      expect(await Promise.all([kept, again, erased, expired].map((id) => read(id)))).toEqual([200, 200, 404, 404]);
      expect(await read(ofOther.body.id, other.api_key)).toBe(401);
      const create = async ({ api_key }: { api_key: string }) =>
        (await target.tokenize({ type: 'token', data: 'x' }, api_key)).status;
      expect(await Promise.all([living, revoked, application].map(create))).toEqual([200, 401, 401]);
      expect(await target.sql('SELECT FROM proxies')).toEqual([]);
      expect(await target.sql('SELECT FROM proxy_keys')).toEqual([]);
      // The sweep removes what the deleted tenant had, and its tokens are no erasures of their own.
      await sweep(target.ctx);
      expect(await target.sql('SELECT FROM tokens WHERE tenant_id = $1', [other.tenant_id])).toEqual([]);
      const usage = await target.request('GET', '/tenants/self/reports/usage', { key: tenant.api_key });
      const stored = await target.sql('SELECT count(*)::int AS count FROM tokens WHERE tenant_id = $1', [
        tenant.tenant_id,
      ]);
      expect(usage.body.token_report.metrics_by_type.token.count).toBe(stored[0].count);
      const kinds = await target.sql('SELECT kind, count(*)::int AS count FROM erasures GROUP BY kind ORDER BY kind');
      expect(kinds).toEqual([
        { kind: 'api_key', count: 2 },
        { kind: 'application', count: 1 },
        { kind: 'proxy', count: 1 },
        { kind: 'tenant', count: 1 },
        { kind: 'token', count: 3 },
      ]);
    } finally {
      await target.close();
    }
  });

  test('are replayed in a vault that came back by other means', async () => {
    const source = await startServer();
    const [kept, erased] = [await tokenize('kept', source), await tokenize('erased', source)];
    const [row] = await source.sql('SELECT to_json(t) AS row FROM tokens t WHERE id = $1', [erased]);
    await source.request('DELETE', `/tokens/${erased}`);
    const list = fileNamed('replayed');
    expect((await cli(source.databaseUrl, ['erasures', 'export', list])).code).toBe(0);
    // As a recovery to an earlier time would.
    await source.sql('INSERT INTO tokens SELECT * FROM json_populate_record(NULL::tokens, $1)', [row.row]);
    expect((await source.request('GET', `/tokens/${erased}`)).status).toBe(200);
    const { code, stdout } = await cli(source.databaseUrl, ['erasures', 'replay', list]);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/\(1 entries\)\. Deleted again: .* 1 token\.\n$/)]);
    expect((await source.request('GET', `/tokens/${erased}`)).status).toBe(404);
    expect((await source.request('GET', `/tokens/${kept}`)).status).toBe(200);
    await source.close();
  });

  test('are forgotten after ERASURES_KEPT_DAYS', async () => {
    const source = await startServer({ ERASURES_KEPT_DAYS: '2' });
    const id = await tokenize('old', source);
    await source.request('DELETE', `/tokens/${id}`);
    await sweep(source.ctx);
    expect(await source.sql('SELECT id, kind FROM erasures')).toEqual([{ id, kind: 'token' }]);
    source.clock.offsetMs = 2 * 86_400_000 + 60_000;
    await sweep(source.ctx);
    expect(await source.sql('SELECT FROM erasures')).toEqual([]);
    await source.close();
  });

  test('a changed list, and one of another vault, is refused before any row is written', () =>
    withEmpty(async (database) => {
      const backup = await backUp(server.databaseUrl, 'list.age');
      const id = await tokenize('to be erased');
      await server.request('DELETE', `/tokens/${id}`);
      const list = fileNamed('list');
      await cli(server.databaseUrl, ['erasures', 'export', list]);
      const text = readFileSync(list, 'utf8');
      const [head, seal, ...rows] = text.split('\n') as [string, string, ...string[]];
      const variants = {
        head: [head.replace('"rows":', '"rows": '), seal, ...rows].join('\n'),
        rows: [head, seal, ...rows].join('\n').replace(id, crypto.randomUUID()),
        end: text.slice(0, -3),
        more: `${text}x`,
      };
      for (const [name, content] of Object.entries(variants)) {
        writeFileSync(fileNamed(`list-${name}`), content);
        const { code, stderr } = await restore(database.url, backup, '--erasures', fileNamed(`list-${name}`));
        expect([name, code, stderr]).toEqual([name, 1, expect.stringMatching(/Nothing was restored\.|root key/)]);
        await expectNothing(database);
      }
      const swapped = await restore(database.url, backup, '--erasures', backup);
      expect([swapped.code, swapped.stderr]).toEqual([1, expect.stringContaining('was cut off or changed')]);
    }));
});
