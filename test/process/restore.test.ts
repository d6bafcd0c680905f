// A restore that is refused leaves nothing: of damaged, forged and foreign files, with wrong keys, and into a database in use.
import { readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { Decrypter, Encrypter, generateX25519Identity } from 'age-encryption';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectNothing, fill, queryOf, shareBackups, tokenize, withEmpty } from '../support/backups.ts';
import { startServer } from '../support/server.ts';

const here = shareBackups();

describe('a restore leaves nothing', () => {
  let file: string;
  let bytes: Buffer;
  beforeAll(async () => {
    await fill(here.server);
    await tokenize(here.server, 'kept');
    file = await here.backups.backUp(here.server.databaseUrl, 'whole.age');
    bytes = readFileSync(file);
  });

  const changed = (name: string, content: Uint8Array): string => {
    writeFileSync(here.backups.fileNamed(name), content);
    return here.backups.fileNamed(name);
  };

  test('of a file that was cut off, wherever it was', () =>
    withEmpty(async (database) => {
      const places = [0, 10, 150, 250, 5_000, bytes.length >> 1, bytes.length - 17, bytes.length - 1];
      for (const length of places) {
        const { code, stderr } = await here.backups.restore(
          database.url,
          changed('cut.age', bytes.subarray(0, length)),
        );
        expect([length, code, stderr]).toEqual([length, 1, expect.stringContaining('Nothing was restored.')]);
        await expectNothing(database);
      }
      expect((await here.backups.restore(database.url, file)).code).toBe(0);
    }));

  test('of a file with a changed byte, or with bytes behind its end', () =>
    withEmpty(async (database) => {
      expect(bytes.length).toBeGreaterThan(70_000);
      for (const place of [5, 60, 130, 300, 70_000, bytes.length - 5]) {
        const flipped = Buffer.from(bytes);
        flipped[place] = (flipped[place] as number) ^ 1;
        const { code, stderr } = await here.backups.restore(database.url, changed('flipped.age', flipped));
        expect([place, code, stderr]).toEqual([place, 1, expect.stringContaining('Nothing was restored.')]);
        await expectNothing(database);
      }
      const longer = await here.backups.restore(
        database.url,
        changed('longer.age', Buffer.concat([bytes, Buffer.from('x')])),
      );
      expect(longer.code).toBe(1);
      await expectNothing(database);
    }));

  test('of a file that was made without the root key', () =>
    withEmpty(async (database) => {
      const decrypter = new Decrypter();
      decrypter.addIdentity(here.backups.identity);
      const plain = gunzipSync(await decrypter.decrypt(bytes));
      const end = plain.indexOf('\n');
      const packed = async (head: string, rest: Uint8Array) => {
        const encrypter = new Encrypter();
        encrypter.addRecipient(here.backups.recipient);
        return encrypter.encrypt(gzipSync(Buffer.concat([Buffer.from(head), rest])));
      };
      const head = plain.subarray(0, end).toString();
      const forged = await here.backups.restore(
        database.url,
        changed('forged.age', await packed(head.replace('"product":"', '"product":"9'), plain.subarray(end))),
      );
      expect([forged.code, forged.stderr]).toEqual([1, expect.stringContaining('was not made with the root key')]);
      const rows = Buffer.from(plain.subarray(end));
      const name = rows.indexOf('Test');
      rows.write('Tess', name);
      const altered = await here.backups.restore(database.url, changed('altered.age', await packed(head, rows)));
      expect([altered.code, altered.stderr]).toEqual([
        1,
        expect.stringMatching(/rows of \w+ .* not those of its manifest/),
      ]);
      await expectNothing(database);
    }));

  test('with a wrong identity, a wrong root key or the other environment', () =>
    withEmpty(async (database) => {
      const other = here.backups.fileNamed('other.key');
      writeFileSync(other, `${await generateX25519Identity()}\n`);
      const wrong = await here.backups.cli(database.url, ['restore', file, '--identity', other]);
      expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining(`No identity in ${other} opens`)]);
      writeFileSync(other, 'no key\n');
      const none = await here.backups.cli(database.url, ['restore', file, '--identity', other]);
      expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('has no identity')]);

      const MASTER_KEY = Buffer.alloc(32, 8).toString('base64');
      const root_key = await here.backups.cli(
        database.url,
        ['restore', file, '--identity', here.backups.identityFile],
        {
          MASTER_KEY,
        },
      );
      expect(root_key.code).toBe(1);
      const ids = [...root_key.stderr.matchAll(/root key .* ([0-9a-f]{32})$/gm)].map(([, id]) => id);
      expect(ids).toEqual([here.server.ctx.provider.describe().root_key_id, expect.any(String)]);
      expect(new Set(ids).size).toBe(2);

      const production = await here.backups.cli(
        database.url,
        ['restore', file, '--identity', here.backups.identityFile],
        {
          NODE_ENV: 'production',
        },
      );
      expect([production.code, production.stderr]).toEqual([1, expect.stringContaining('Set NODE_ENV')]);
      expect(
        await queryOf(database, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"),
      ).toEqual([]);
    }));

  test('in a database that is not empty: it stays as it is, and the way out is said', async () => {
    const other = await startServer();
    const { code, stderr } = await here.backups.restore(other.databaseUrl, file);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/is not empty.*Nothing was changed.*createdb/)]);
    expect(await other.sql('SELECT id FROM tenants')).toEqual([{ id: other.tenant.tenant_id }]);
    await other.close();
    await withEmpty(async (database) => {
      await queryOf(database, 'CREATE TABLE theirs (id int)');
      const theirs = await here.backups.restore(database.url, file);
      expect([theirs.code, theirs.stderr]).toEqual([1, expect.stringContaining('did not create')]);
    });
  });
});
