// Measures deletes with and without the triggers that record erasures: single deletes, and the sweep of a deleted tenant.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { migrate } from '../src/platform/maintenance/migrate.ts';
import { migrationsDir } from '../src/platform/services/open-database.ts';
import { SWEEP_ROWS_MAX } from '../src/platform/maintenance/sweep.ts';
import { startEmbeddedPostgres } from '../src/platform/dev-postgres/dev-postgres.ts';

const TOKENS = Number(process.env['DRILL_TOKENS'] ?? 100_000);
const DELETES = 2_000;
/** Pairs of rounds: one with the triggers, one without. */
const PAIRS = 5;

const directory = mkdtempSync(join(tmpdir(), 'strongroom-drill-erasures-'));
const postgres = await startEmbeddedPostgres({
  dataDir: directory,
  newPassword: () => 'drill',
  log: () => undefined,
});
await migrate(postgres.address, migrationsDir);
const client = new Client({ ...postgres.address, options: '-c strongroom.tenants=*' });
await client.connect();

/** Makes a tenant with tokens as long as those of cards. @returns its id. */
const fill = async (tokens: number): Promise<string> => {
  const { rows } = await client.query(
    `INSERT INTO tenants (id, name, created_at, modified_at) VALUES (gen_random_uuid(), 'Drill', now(), now()) RETURNING id`,
  );
  const { id } = rows[0] as { id: string };
  await client.query(
    `INSERT INTO tokens (tenant_id, id, type, sealed, fingerprint, container, masked, created_at)
     SELECT $1, gen_random_uuid(), 'card', decode(repeat(md5(n::text), 12), 'hex'), md5(n::text), '/pci/high/', true, now()
     FROM generate_series(1, $2::int) n`,
    [id, tokens],
  );
  await client.query('VACUUM ANALYZE tokens');
  return id;
};

const seconds = async (work: () => Promise<void>): Promise<number> => {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1000;
};

const deleteOneByOne = async (): Promise<number> => {
  const tenant = await fill(DELETES);
  const { rows } = await client.query('SELECT id FROM tokens WHERE tenant_id = $1', [tenant]);
  return seconds(async () => {
    for (const { id } of rows as { id: string }[])
      await client.query({
        name: 'delete',
        text: 'DELETE FROM tokens WHERE tenant_id = $1 AND id = $2',
        values: [tenant, id],
      });
  });
};

/** Deletes by steps as the sweep does. @param isDeleted whether the tenant is deleted first. */
const deleteAll = async (isDeleted: boolean): Promise<number> => {
  const tenant = await fill(TOKENS);
  if (isDeleted) await client.query('DELETE FROM tenants WHERE id = $1', [tenant]);
  return seconds(async () => {
    const text = `DELETE FROM tokens USING (SELECT tenant_id, id FROM tokens WHERE tenant_id = $1 LIMIT $2) AS old
      WHERE tokens.tenant_id = old.tenant_id AND tokens.id = old.id`;
    while (((await client.query(text, [tenant, SWEEP_ROWS_MAX])).rowCount ?? 0) > 0);
  });
};

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] as number;

const compare = async (drill: string, count: number, run: () => Promise<number>, pairs: number): Promise<void> => {
  const taken: Record<'ENABLE' | 'DISABLE', number[]> = { ENABLE: [], DISABLE: [] };
  for (let pair = 0; pair < pairs; pair += 1)
    for (const state of ['ENABLE', 'DISABLE'] as const) {
      await client.query(`ALTER TABLE tokens ${state} TRIGGER tokens_record_erasures`);
      taken[state].push(await run());
    }
  const perRow = (values: number[]): number => Math.round((median(values) / count) * 1e7) / 10;
  console.log(
    JSON.stringify({
      drill,
      rows: count,
      us_a_row_with: perRow(taken.ENABLE),
      us_a_row_without: perRow(taken.DISABLE),
    }),
  );
};

try {
  await compare('single deletes', DELETES, deleteOneByOne, PAIRS);
  await compare('sweep of expired tokens', TOKENS, () => deleteAll(false), PAIRS);
  await compare('sweep of a deleted tenant', TOKENS, () => deleteAll(true), PAIRS);
} finally {
  await client.end();
  await postgres.stop();
  rmSync(directory, { recursive: true, force: true });
}
