// Backup and restore through the command line, with a real server: what comes back, and what leaves nothing.
import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Decrypter, Encrypter, generateX25519Identity } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { KEPT_TABLES, LEFT_TABLES } from '../src/platform/db/backup/tables.ts';
import { migrate } from '../src/platform/db/migrate.ts';
import { migrationsDir } from '../src/platform/open-database.ts';
import {
  type Backups,
  type Ended,
  expectNothing,
  openBackups,
  queryOf,
  runToEnd,
  withEmpty,
} from './support/backups.ts';
import { createDatabase, createEmptyDatabase } from './support/database.ts';
import { root, sourceEnvironment, spawnServer, untilReady } from './support/process.ts';
import { startServer, TEST_ROOT_KEY, type TestServer } from './support/server.ts';

let backups: Backups;
let server: TestServer;
beforeAll(async () => {
  [backups, server] = await Promise.all([openBackups(), startServer()]);
});
afterAll(async () => {
  await server.close();
  backups.close();
});

const tokenize = async (data: string, at = server, more: object = {}): Promise<string> => {
  const { status, body } = await at.tokenize({ type: 'token', data, ...more });
  expect(status).toBe(200);
  return body.id;
};

test('each table of the schema is in the backup, or left out with a reason', async () => {
  const tables = await server.sql(`SELECT relname::text AS name FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1`);
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
    await expect.poll(() => written.size, { timeout: 20_000 }).toBeGreaterThan(40);
    const card = await source.tokenize({
      type: 'card',
      data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2040, cvc: '123' },
    });
    expect(card.status).toBe(200);
    const before = new Map(written);
    const file = await backups.backUp(source.databaseUrl, 'in-use.age');
    expect(written.size).toBeGreaterThan(before.size);
    isGoingOn = false;
    await Promise.all(writers);
    await source.close();

    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(backups.directory).filter((name) => name.endsWith('.partial'))).toEqual([]);
    const bytes = readFileSync(file);
    expect(bytes.toString('latin1')).toMatch(/^age-encryption\.org\/v1\n/);
    for (const secret of [tenant_id, 'Test', card.body.id, 'strongroom']) expect(bytes.includes(secret)).toBe(false);

    const database = await createEmptyDatabase();
    const restored = await backups.restore(database.url, file);
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
    const file = await backups.backUp(server.databaseUrl, 'over-tables.age');
    const database = await createDatabase();
    const { code, stdout } = await backups.restore(database.url, file);
    expect([code, stdout]).toEqual([0, expect.stringContaining('Restored: ')]);
    expect(await queryOf(database, 'SELECT id FROM tenants')).toEqual([{ id: server.tenant.tenant_id }]);
    await database.drop();
  });

  test('has a manifest, which names no value', async () => {
    const file = await backups.backUp(server.databaseUrl, 'manifest.age');
    const decrypter = new Decrypter();
    decrypter.addIdentity(backups.identity);
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
    const file = backups.fileNamed('exists.age');
    writeFileSync(file, 'mine');
    const refused = await backups.cli(server.databaseUrl, ['backup', file, '--to', backups.recipient]);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(`${file} exists`)]);
    expect(readFileSync(file, 'utf8')).toBe('mine');
    const other = backups.fileNamed('other.age');
    writeFileSync(`${other}.partial`, 'theirs');
    const second = await backups.cli(server.databaseUrl, ['backup', other, '--to', backups.recipient]);
    expect([second.code, second.stderr]).toEqual([1, expect.stringContaining(`rm ${other}.partial`)]);
    expect(readFileSync(`${other}.partial`, 'utf8')).toBe('theirs');
    rmSync(`${other}.partial`);
  });

  test('for a text that is no recipient, and a directory that does not exist', async () => {
    const file = backups.fileNamed('unwritten.age');
    const recipientRefused = await backups.cli(server.databaseUrl, ['backup', file, '--to', 'age1nonsense']);
    expect([recipientRefused.code, recipientRefused.stderr]).toEqual([1, expect.stringContaining('--to')]);
    const nowhere = await backups.cli(server.databaseUrl, [
      'backup',
      join(backups.directory, 'no/where.age'),
      '--to',
      backups.recipient,
    ]);
    expect([nowhere.code, nowhere.stderr]).toEqual([1, expect.stringContaining('the directory does not exist')]);
  });

  test('when the file cannot grow, and nothing of it is left', async () => {
    for (let index = 0; index < 40; index += 1)
      await server.tokenize(Array.from({ length: 50 }, () => ({ type: 'token', data: crypto.randomUUID() })));
    const file = backups.fileNamed('full.age');
    // Blocks of 512 bytes or 1 KiB, as the shell counts them.
    const script = `ulimit -f 64; exec "$0" src/cli/main.ts backup "$1" --to "$2"`;
    const { code, stderr } = await new Promise<Ended>((resolve) => {
      execFile(
        'sh',
        ['-c', script, process.execPath, file, backups.recipient],
        {
          cwd: root,
          env: { ...sourceEnvironment, ...backups.environmentOf(server.databaseUrl), NODE_COMPILE_CACHE: '' },
        },
        (error, stdout, stderr) => resolve({ code: (error?.code as number | undefined) ?? 0, stdout, stderr }),
      );
    });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/cannot be written: the file is larger.*\(EFBIG\)/)]);
    expect(readdirSync(backups.directory).filter((name) => name.startsWith('full'))).toEqual([]);
  });
});

describe('a restore leaves nothing', () => {
  let file: string;
  let bytes: Buffer;
  beforeAll(async () => {
    await tokenize('kept');
    file = await backups.backUp(server.databaseUrl, 'whole.age');
    bytes = readFileSync(file);
  });

  const changed = (name: string, content: Uint8Array): string => {
    writeFileSync(backups.fileNamed(name), content);
    return backups.fileNamed(name);
  };

  test('of a file that was cut off, wherever it was', () =>
    withEmpty(async (database) => {
      const places = [0, 10, 150, 250, 5_000, bytes.length >> 1, bytes.length - 17, bytes.length - 1];
      for (const length of places) {
        const { code, stderr } = await backups.restore(database.url, changed('cut.age', bytes.subarray(0, length)));
        expect([length, code, stderr]).toEqual([length, 1, expect.stringContaining('Nothing was restored.')]);
        await expectNothing(database);
      }
      expect((await backups.restore(database.url, file)).code).toBe(0);
    }));

  test('of a file with a changed byte, or with bytes behind its end', () =>
    withEmpty(async (database) => {
      for (const place of [5, 60, 130, 300, 70_000, bytes.length - 5]) {
        const flipped = Buffer.from(bytes);
        flipped[place] = (flipped[place] as number) ^ 1;
        const { code, stderr } = await backups.restore(database.url, changed('flipped.age', flipped));
        expect([place, code, stderr]).toEqual([place, 1, expect.stringContaining('Nothing was restored.')]);
        await expectNothing(database);
      }
      const longer = await backups.restore(
        database.url,
        changed('longer.age', Buffer.concat([bytes, Buffer.from('x')])),
      );
      expect(longer.code).toBe(1);
      await expectNothing(database);
    }));

  test('of a file that was made without the root key', () =>
    withEmpty(async (database) => {
      const decrypter = new Decrypter();
      decrypter.addIdentity(backups.identity);
      const plain = gunzipSync(await decrypter.decrypt(bytes));
      const end = plain.indexOf('\n');
      const packed = async (head: string, rest: Uint8Array) => {
        const encrypter = new Encrypter();
        encrypter.addRecipient(backups.recipient);
        return encrypter.encrypt(gzipSync(Buffer.concat([Buffer.from(head), rest])));
      };
      const head = plain.subarray(0, end).toString();
      const forged = await backups.restore(
        database.url,
        changed('forged.age', await packed(head.replace('"product":"', '"product":"9'), plain.subarray(end))),
      );
      expect([forged.code, forged.stderr]).toEqual([1, expect.stringContaining('was not made with the root key')]);
      const rows = Buffer.from(plain.subarray(end));
      const name = rows.indexOf('Test');
      rows.write('Tess', name);
      const altered = await backups.restore(database.url, changed('altered.age', await packed(head, rows)));
      expect([altered.code, altered.stderr]).toEqual([
        1,
        expect.stringMatching(/rows of \w+ .* not those of its manifest/),
      ]);
      await expectNothing(database);
    }));

  test('with a wrong identity, a wrong root key or the other environment', () =>
    withEmpty(async (database) => {
      const other = backups.fileNamed('other.key');
      writeFileSync(other, `${await generateX25519Identity()}\n`);
      const wrong = await backups.cli(database.url, ['restore', file, '--identity', other]);
      expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining(`No identity in ${other} opens`)]);
      writeFileSync(other, 'no key\n');
      const none = await backups.cli(database.url, ['restore', file, '--identity', other]);
      expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('has no identity')]);

      const MASTER_KEY = Buffer.alloc(32, 8).toString('base64');
      const root_key = await backups.cli(database.url, ['restore', file, '--identity', backups.identityFile], {
        MASTER_KEY,
      });
      expect(root_key.code).toBe(1);
      const ids = [...root_key.stderr.matchAll(/root key .* ([0-9a-f]{32})$/gm)].map(([, id]) => id);
      expect(ids).toEqual([server.ctx.provider.describe().root_key_id, expect.any(String)]);
      expect(new Set(ids).size).toBe(2);

      const production = await backups.cli(database.url, ['restore', file, '--identity', backups.identityFile], {
        NODE_ENV: 'production',
      });
      expect([production.code, production.stderr]).toEqual([1, expect.stringContaining('Set NODE_ENV')]);
      expect(
        await queryOf(database, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"),
      ).toEqual([]);
    }));

  test('in a database that is not empty: it stays as it is, and the way out is said', async () => {
    const other = await startServer();
    const { code, stderr } = await backups.restore(other.databaseUrl, file);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/is not empty.*Nothing was changed.*createdb/)]);
    expect(await other.sql('SELECT id FROM tenants')).toEqual([{ id: other.tenant.tenant_id }]);
    await other.close();
    await withEmpty(async (database) => {
      await queryOf(database, 'CREATE TABLE theirs (id int)');
      const theirs = await backups.restore(database.url, file);
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
    const file = await backups.backUp(older.url, 'older.age');
    await older.drop();
    await withEmpty(async (database) => {
      const { code } = await backups.restore(database.url, file);
      expect(code).toBe(0);
      expect(await queryOf(database, 'SELECT id FROM tenants')).toEqual([{ id: server.tenant.tenant_id }]);
      const applied = await queryOf(database, 'SELECT FROM _prisma_migrations WHERE migration_name = $1', [late]);
      expect(applied).toHaveLength(1);
    });
    const current = await createDatabase();
    const { code, stderr } = await backups.restore(current.url, file);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/newer than the backup.*createdb/)]);
    await current.drop();
  });

  test('is refused if it is newer', async () => {
    const newer = await startServer();
    await newer.sql(`INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at)
      VALUES ('1', '', '29990101000000_later', now())`);
    const file = await backups.backUp(newer.databaseUrl, 'newer.age');
    await newer.close();
    await withEmpty(async (database) => {
      const { code, stderr } = await backups.restore(database.url, file);
      expect([code, stderr]).toEqual([1, expect.stringMatching(/newer version.*29990101000000_later/)]);
      await expectNothing(database);
    });
  });
});

test('an embedded database is backed up beside its server, and restored into another directory', async () => {
  const [from, to] = [backups.fileNamed('from'), backups.fileNamed('to')];
  const source = await spawnServer(from);
  await untilReady(source);
  const { api_key } = source.credentials();
  const headers = { 'svc-api-key': api_key, 'content-type': 'application/json' };
  const body = JSON.stringify({ type: 'token', data: 'embedded' });
  const created = await fetch(`${source.base_url}/tokenize`, { method: 'POST', headers, body });
  const { id } = (await created.json()) as { id: string };
  const file = backups.fileNamed('embedded.age');
  const command = (DATA_DIR: string, ...args: string[]): Promise<Ended> =>
    runToEnd(args, { DATA_DIR }, backups.directory);
  expect((await command(from, 'backup', file, '--to', backups.recipient)).code).toBe(0);
  const beside = await command(from, 'restore', file, '--identity', backups.identityFile);
  expect([beside.code, beside.stderr]).toEqual([1, expect.stringContaining('Another server is running')]);
  source.child.kill();
  await source.exited;

  const keyless = await command(to, 'restore', file, '--identity', backups.identityFile);
  expect([keyless.code, keyless.stderr]).toEqual([1, expect.stringContaining('There is no root key')]);
  mkdirSync(to);
  copyFileSync(join(from, 'master.key'), join(to, 'master.key'));
  const restored = await command(to, 'restore', file, '--identity', backups.identityFile);
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
  const file = await backups.backUp(server.databaseUrl, 'verified.age');
  const databases = 'SELECT datname FROM pg_database WHERE datname LIKE $1';
  const { code, stdout } = await backups.restore(server.databaseUrl, file, '--verify');
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(
      new RegExp(
        `rows in ${KEPT_TABLES.length} tables, as the manifest says\\. \\d+ sampled tokens of \\d+ tenants open\\.`,
      ),
    ),
  ]);
  expect(await server.sql(databases, ['strongroom_verify_%'])).toEqual([]);
  // A token of another place does not open: the report says so.
  const [{ id }] = await server.sql('SELECT id FROM tokens WHERE tenant_id = $1', [second.tenant_id]);
  await server.sql("UPDATE tokens SET sealed = sealed || '\\x00' WHERE tenant_id = $1 AND id = $2", [
    second.tenant_id,
    id,
  ]);
  const broken = await backups.backUp(server.databaseUrl, 'broken.age');
  const failed = await backups.restore(server.databaseUrl, broken, '--verify');
  expect([failed.code, failed.stdout]).toEqual([
    1,
    expect.stringContaining(`tenant ${second.tenant_id}: 1 of 1 sampled tokens do not open`),
  ]);
  expect(await server.sql(databases, ['strongroom_verify_%'])).toEqual([]);
});
