// Backups through the command line, with a real server: what comes back, what is refused, and backups of other versions.
import { execFile, execFileSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Decrypter } from 'age-encryption';
import { describe, expect, test } from 'vitest';
import { KEPT_TABLES } from '../../src/platform/base/tables.ts';
import { migrate } from '../../src/platform/maintenance/migrate.ts';
import { type Ended, expectNothing, fill, queryOf, shareBackups, tokenize, withEmpty } from '../support/backups.ts';
import { createDatabase, createEmptyDatabase } from '../support/database.ts';
import { root, sourceEnvironment } from '../support/process.ts';
import { startServer, TEST_ROOT_KEY } from '../support/server.ts';

const here = shareBackups();

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
        written.set(await tokenize(source, data), data);
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
    const file = await here.backups.backUp(source.databaseUrl, 'in-use.age');
    expect(written.size).toBeGreaterThan(before.size);
    isGoingOn = false;
    await Promise.all(writers);
    await source.close();

    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(here.backups.directory).filter((name) => name.endsWith('.partial'))).toEqual([]);
    const bytes = readFileSync(file);
    expect(bytes.toString('latin1')).toMatch(/^age-encryption\.org\/v1\n/);
    for (const secret of [tenant_id, 'Test', card.body.id, 'strongroom']) expect(bytes.includes(secret)).toBe(false);

    const database = await createEmptyDatabase();
    const restored = await here.backups.restore(database.url, file);
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
    const file = await here.backups.backUp(here.server.databaseUrl, 'over-tables.age');
    const database = await createDatabase();
    const { code, stdout } = await here.backups.restore(database.url, file);
    expect([code, stdout]).toEqual([0, expect.stringContaining('Restored: ')]);
    expect(await queryOf(database, 'SELECT id FROM tenants')).toEqual([{ id: here.server.tenant.tenant_id }]);
    await database.drop();
  });

  test('has a manifest, which names no value', async () => {
    const file = await here.backups.backUp(here.server.databaseUrl, 'manifest.age');
    const decrypter = new Decrypter();
    decrypter.addIdentity(here.backups.identity);
    const plain = gunzipSync(await decrypter.decrypt(readFileSync(file)));
    const manifest = JSON.parse(plain.subarray(0, plain.indexOf('\n')).toString());
    expect(manifest).toMatchObject({
      strongroom: 'backup',
      format: 1,
      product: '0.2.0',
      environment: 'test',
      root_key_id: here.server.ctx.provider.describe().root_key_id,
      made_at: expect.stringMatching(/Z$/),
      migrations: expect.arrayContaining(['20261127120000_baseline']),
    });
    expect(manifest.tables.map(({ name }: { name: string }) => name)).toEqual(KEPT_TABLES);
    const tokens = manifest.tables.find(({ name }: { name: string }) => name === 'tokens');
    expect(tokens.sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(plain.includes(TEST_ROOT_KEY)).toBe(false);
  });
});

describe('a backup is refused', () => {
  test('where the file exists, or another backup writes it', async () => {
    const file = here.backups.fileNamed('exists.age');
    writeFileSync(file, 'mine');
    const refused = await here.backups.cli(here.server.databaseUrl, ['backup', file, '--to', here.backups.recipient]);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(`${file} exists`)]);
    expect(readFileSync(file, 'utf8')).toBe('mine');
    const other = here.backups.fileNamed('other.age');
    writeFileSync(`${other}.partial`, 'theirs');
    const second = await here.backups.cli(here.server.databaseUrl, ['backup', other, '--to', here.backups.recipient]);
    expect([second.code, second.stderr]).toEqual([1, expect.stringContaining(`rm ${other}.partial`)]);
    expect(readFileSync(`${other}.partial`, 'utf8')).toBe('theirs');
    rmSync(`${other}.partial`);
  });

  test('for a text that is no recipient, and a directory that does not exist', async () => {
    const file = here.backups.fileNamed('unwritten.age');
    const recipientRefused = await here.backups.cli(here.server.databaseUrl, ['backup', file, '--to', 'age1nonsense']);
    expect([recipientRefused.code, recipientRefused.stderr]).toEqual([1, expect.stringContaining('--to')]);
    const nowhere = await here.backups.cli(here.server.databaseUrl, [
      'backup',
      join(here.backups.directory, 'no/where.age'),
      '--to',
      here.backups.recipient,
    ]);
    expect([nowhere.code, nowhere.stderr]).toEqual([1, expect.stringContaining('the directory does not exist')]);
  });

  test('when the file cannot grow, and nothing of it is left', async () => {
    await fill(here.server);
    const file = here.backups.fileNamed('full.age');
    // Blocks of 512 bytes or 1 KiB, as the shell counts them.
    const script = `ulimit -f 64; exec "$0" src/cli/main.ts backup "$1" --to "$2"`;
    const { code, stderr } = await new Promise<Ended>((resolve) => {
      execFile(
        'sh',
        ['-c', script, process.execPath, file, here.backups.recipient],
        {
          cwd: root,
          env: { ...sourceEnvironment, ...here.backups.environmentOf(here.server.databaseUrl), NODE_COMPILE_CACHE: '' },
        },
        (error, stdout, stderr) => resolve({ code: (error?.code as number | undefined) ?? 0, stdout, stderr }),
      );
    });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/cannot be written: the file is larger.*\(EFBIG\)/)]);
    expect(readdirSync(here.backups.directory).filter((name) => name.startsWith('full'))).toEqual([]);
  });
});

describe('a backup of another version', () => {
  test('is migrated with its rows if it is older', async () => {
    const file = await here.backups.backUp(here.server.databaseUrl, 'older.age');
    // A later release: this one with a migration more.
    const later = mkdtempSync(join(tmpdir(), 'strongroom-later-'));
    const migrations = join(later, 'prisma/migrations');
    const name = '29990101000000_later';
    try {
      for (const path of ['src', 'prisma/migrations', 'package.json'])
        cpSync(join(root, path), join(later, path), { recursive: true });
      symlinkSync(join(root, 'node_modules'), join(later, 'node_modules'));
      mkdirSync(join(migrations, name));
      writeFileSync(
        join(migrations, name, 'migration.sql'),
        "ALTER TABLE tenants ADD COLUMN label TEXT; UPDATE tenants SET label = 'filled';",
      );
      await withEmpty(async (database) => {
        execFileSync(
          process.execPath,
          [join(later, 'src/cli/main.ts'), 'restore', file, '--identity', here.backups.identityFile],
          { env: { ...sourceEnvironment, ...here.backups.environmentOf(database.url) }, stdio: 'ignore' },
        );
        const rows = await queryOf(database, 'SELECT id, label FROM tenants');
        expect(rows).toContainEqual({ id: here.server.tenant.tenant_id, label: 'filled' });
        const applied = await queryOf(database, 'SELECT FROM _prisma_migrations WHERE migration_name = $1', [name]);
        expect(applied).toHaveLength(1);
      });
      const current = await createDatabase();
      await migrate(current.address, migrations);
      const { code, stderr } = await here.backups.restore(current.url, file);
      expect([code, stderr]).toEqual([1, expect.stringMatching(/newer than the backup.*createdb/)]);
      await current.drop();
    } finally {
      rmSync(later, { recursive: true, force: true });
    }
  });

  test('is refused if it is of a build before 0.2.0', async () => {
    const earlier = await startServer();
    const file = await earlier
      .sql(
        "UPDATE _prisma_migrations SET migration_name = '20261121000000_vault' WHERE migration_name LIKE '%_baseline'",
      )
      .then(() => here.backups.backUp(earlier.databaseUrl, 'earlier.age'));
    await earlier.close();
    await withEmpty(async (database) => {
      const { code, stderr } = await here.backups.restore(database.url, file);
      expect([code, stderr]).toEqual([1, expect.stringMatching(/is of a build before 0\.2\.0.*export.*import/)]);
      await expectNothing(database);
    });
  });

  test('is refused if it is newer', async () => {
    const newer = await startServer();
    await newer.sql(`INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at)
      VALUES ('1', '', '29990101000000_later', now())`);
    const file = await here.backups.backUp(newer.databaseUrl, 'newer.age');
    await newer.close();
    await withEmpty(async (database) => {
      const { code, stderr } = await here.backups.restore(database.url, file);
      expect([code, stderr]).toEqual([1, expect.stringMatching(/newer version.*29990101000000_later/)]);
      await expectNothing(database);
    });
  });
});
