// Rows of wrapped keys for the keyring, and the instance row, which identifies the vault of a database.
import type { Database } from '../db/database.ts';
import { createCoalescer } from '../db/batcher.ts';
import type { Query } from '../db/statements.ts';
import { traced } from '../db/traced.ts';
import { unavailable } from '../base/errors.ts';
import type { StoredTenantKey } from '../crypto/keyring.ts';
import type { EphemeralKeyRow } from '../crypto/slots.ts';

const FIND = 'find-ephemeral-keys';

/** How old a key is. By the clock of the database, on which all processes agree. */
export const AGE_MS = '(extract(epoch FROM now() - created_at) * 1000)::float8 AS age_ms';

const FIND_TENANT_KEYS = `
SELECT tenant_id, id, purpose, wrapped, created_at, ${AGE_MS} FROM tenant_keys WHERE tenant_id = $1`;

/** Keys of security codes, each with a look-up of its own, as for tokens. */
export const FIND_EPHEMERAL_KEYS = `
SELECT found.* FROM unnest((SELECT $1::text[])) AS wanted(id)
CROSS JOIN LATERAL (SELECT id, wrapped, destroy_at FROM ephemeral_keys WHERE id = wanted.id LIMIT 1) AS found`;

const FIND_WRAPPED_PEPPER = 'SELECT wrapped_pepper FROM instance WHERE id = 1';

/**
 * The lock waits for a rotation that wraps the pepper again, and such a rotation waits for it. So keys under an earlier root key are
 * committed before the rotation looks for keys, or not at all. In one order, so that processes do not deadlock.
 */
const ADD_EPHEMERAL_KEYS = `
WITH vault AS (SELECT id FROM instance WHERE id = 1 AND wrapped_pepper = $4 FOR SHARE)
INSERT INTO ephemeral_keys (id, wrapped, destroy_at)
SELECT new.id, new.wrapped, new.destroy_at
FROM vault, unnest($1::text[], $2::bytea[], $3::timestamptz[]) AS new(id, wrapped, destroy_at) ORDER BY new.id
ON CONFLICT DO NOTHING`;

/** What stores ephemeral keys, on the pool or on one connection. */
export const ephemeralRowsOn = (query: Query) => ({
  findWrappedPepper: async (): Promise<Uint8Array> => {
    const [row] = await query('find-wrapped-pepper', FIND_WRAPPED_PEPPER, []);
    if (!row) throw unavailable(new Error('the database has no instance row'));
    return (row as { wrapped_pepper: Buffer }).wrapped_pepper;
  },
  addEphemeralKeys: async (rows: readonly EphemeralKeyRow[], wrapped_pepper: Uint8Array): Promise<void> => {
    await query('add-ephemeral-keys', ADD_EPHEMERAL_KEYS, [
      rows.map(({ id }) => id),
      rows.map(({ wrapped }) => Buffer.from(wrapped)),
      rows.map(({ destroy_at }) => destroy_at),
      wrapped_pepper,
    ]);
  },
  findEphemeralKeys: async (ids: readonly string[]): Promise<EphemeralKeyRow[]> =>
    query(FIND, FIND_EPHEMERAL_KEYS, [ids]),
});

/** Read before migrations: columns that every release has. */
const INSTANCE = { environment: true, wrapped_pepper: true };

/** Ephemeral keys belong to no tenant, so look-ups of all tenants share statements. */
const NO_TENANT = '';

/** @param batchesMax look-ups of ephemeral keys in flight at once. */
export const createKeyRows = (db: Database) => {
  const { prisma: guarded, batchesMax, accounts, metrics, tracing } = db;
  const { query, queryOf, queryForBatch } = db.statements;
  const findEphemeralKey = createCoalescer<EphemeralKeyRow>(
    async (_, ids) => {
      const rows = (await queryForBatch(undefined)(FIND, FIND_EPHEMERAL_KEYS, [ids])) as EphemeralKeyRow[];
      return new Map(rows.map((row) => [row.id, row]));
    },
    batchesMax,
    accounts,
    metrics,
  );
  return {
    keyStore: {
      findTenantKeys: async (tenantId: string) =>
        (await queryOf(tenantId)('find-tenant-keys', FIND_TENANT_KEYS, [tenantId])) as StoredTenantKey[],
      findEphemeralKey: (id: string) => traced(tracing, FIND, () => findEphemeralKey(NO_TENANT, id)),
      ...ephemeralRowsOn(query),
    },

    /** The instance row, or undefined in a database that is new, or not migrated yet. */
    findInstance: () =>
      guarded(async (client) => {
        const [{ there } = { there: false }] = await client.$queryRaw<{ there: boolean }[]>`
        SELECT to_regclass('instance') IS NOT NULL AS there`;
        return there
          ? ((await client.instance.findFirst({ where: { id: 1 }, select: INSTANCE })) ?? undefined)
          : undefined;
      }),

    /** Marks this database as a vault of an environment. Returns the existing row if another process was first. */
    addInstance: (row: { environment: string; wrapped_pepper: Uint8Array }) =>
      guarded(async (client) => {
        const wrapped_pepper = Uint8Array.from(row.wrapped_pepper);
        await client.instance.createMany({
          data: [{ id: 1, ...row, wrapped_pepper }],
          skipDuplicates: true,
        });
        return client.instance.findFirstOrThrow({ where: { id: 1 }, select: INSTANCE });
      }),
  };
};
