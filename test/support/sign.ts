// Signs rows that a test has changed by SQL, as only a process with the root key can.
import type { Pool } from 'pg';
import type { Context } from '../../src/modules.ts';
import { SIGNED_TABLES, type SignedTableName } from '../../src/platform/base/tables.ts';
import { type HeadTable, tableOf } from '../../src/platform/db/signed-rows.ts';

/**
 * Signs one tenant or user with all that belongs to it, under its next version. One transaction: others would see rows that do not
 * verify in between.
 */
export const signAsItIs = async ({ db }: Context, pool: Pool, head: HeadTable, id: string): Promise<void> => {
  const client = await pool.connect();
  const sql = async (text: string, values?: unknown[]) => (await client.query(text, values)).rows;
  const sign = async (name: SignedTableName, owner: string, version: number | null): Promise<void> => {
    const key = tableOf(name).id;
    for (const row of await sql(`SELECT * FROM ${name} WHERE ${owner} = $1`, [id]))
      await sql(`UPDATE ${name} SET mac = $3 WHERE ${owner} = $1 AND ${key} = $2`, [
        id,
        row[key],
        db.signedRows.macOf(name, row, version),
      ]);
  };
  try {
    await sql('BEGIN');
    const [{ auth_version }] = await sql(
      `UPDATE ${head} SET auth_version = auth_version + 1 WHERE id = $1 RETURNING auth_version`,
      [id],
    );
    for (const name of Object.keys(SIGNED_TABLES) as SignedTableName[])
      if (tableOf(name).versionOf === head) await sign(name, head === 'users' ? 'user_id' : 'tenant_id', auth_version);
    await sign(head, 'id', null);
    await sql('COMMIT');
  } finally {
    client.release();
  }
};
