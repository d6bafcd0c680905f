// The command `db distribute` on plain PostgreSQL: it refuses without Citus and the owner role.
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import { superuser, urlOf } from '../../src/platform/dev-postgres/connection.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { runCommand } from '../support/process.ts';
import { TEST_ROOT_KEY } from '../support/server.ts';

const as = async (database: TestDatabase, user: string, texts: string[]): Promise<void> => {
  const client = new Client({ ...database.address, user });
  await client.connect();
  try {
    for (const text of texts) await client.query(text);
  } finally {
    await client.end();
  }
};

describe('db distribute', () => {
  const distribute = (DATABASE_URL: string) =>
    runCommand(['db', 'distribute'], { DATABASE_URL, MASTER_KEY: TEST_ROOT_KEY }).then(
      () => expect.unreachable('it was distributed'),
      (error: { code: number; stderr: string }) => error,
    );

  test('refuses another role than the owner, and a database without Citus, and changes nothing', async () => {
    const database = await createDatabase();
    const role = `reader_${randomUUID().slice(0, 8)}`;
    try {
      const grants = [
        `CREATE ROLE ${role} LOGIN PASSWORD 'reader'`,
        `GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${role}`,
      ];
      await as(database, superuser, grants);
      const reader = await distribute(urlOf({ ...database.address, user: role, password: 'reader' }));
      expect([reader.code, reader.stderr]).toEqual([1, expect.stringContaining(`The role "${role}" does not own`)]);
      const owner = await distribute(database.url);
      expect([owner.code, owner.stderr]).toEqual([1, expect.stringContaining('has no extension citus')]);
    } finally {
      await as(database, superuser, [`DROP OWNED BY ${role}`, `DROP ROLE ${role}`]);
      await database.drop();
    }
  });
});
