// Rows of wrapped keys for the keyring, and the instance row, which identifies the vault of a database.
import type { Database } from '../db/database.ts';
import { createCoalescer } from '../db/coalescer.ts';
import type { Query } from '../db/statements.ts';

/** Keys of security codes, each with a look-up of its own, as for tokens. */
export const FIND_EPHEMERAL_KEYS = `
SELECT found.* FROM unnest((SELECT $1::text[])) AS wanted(id)
CROSS JOIN LATERAL (SELECT id, wrapped, destroy_at FROM ephemeral_keys WHERE id = wanted.id LIMIT 1) AS found`;

export const ADD_MISSING_KEYS = `
INSERT INTO ephemeral_keys (id, wrapped, destroy_at)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::timestamptz[]) AS kept(id, wrapped, destroy_at) ORDER BY id
ON CONFLICT DO NOTHING`;

type EphemeralKeyRow = { id: string; wrapped: Uint8Array; destroy_at: Date };

/** Ephemeral keys belong to no tenant, so look-ups of all tenants share statements. */
const NO_TENANT = '';

/** @param batchesMax look-ups of ephemeral keys in flight at once. */
export const createKeyRows = ({ prisma: guarded, statements: { query }, batchesMax, accounts, metrics }: Database) => {
  const findEphemeralKey = createCoalescer<EphemeralKeyRow>(
    async (_, ids) => {
      const rows = (await query('find-ephemeral-keys', FIND_EPHEMERAL_KEYS, [ids])) as EphemeralKeyRow[];
      return new Map(rows.map((row) => [row.id, row]));
    },
    batchesMax,
    accounts,
    metrics,
  );
  return {
    keyStore: {
      findTenantKeys: (tenantId: string) =>
        guarded(async (client) => {
          const rows = await client.tenant_keys.findMany({ where: { tenant_id: tenantId } });
          return rows.map((row) => ({ ...row, purpose: row.purpose as 'data' | 'digest' }));
        }),
      findEphemeralKey: (id: string) => findEphemeralKey(NO_TENANT, id),
      addEphemeralKey: (row: EphemeralKeyRow) =>
        guarded(async (client) => {
          await client.ephemeral_keys.createMany({
            data: [{ ...row, wrapped: Uint8Array.from(row.wrapped) }],
            skipDuplicates: true,
          });
          return client.ephemeral_keys.findUniqueOrThrow({ where: { id: row.id } });
        }),
    },

    /** Adds the keys that are missing, on a connection. In one order, so that processes do not deadlock. */
    addMissingKeys: (on: Query, rows: readonly EphemeralKeyRow[]): Promise<unknown> =>
      on(undefined, ADD_MISSING_KEYS, [
        rows.map(({ id }) => id),
        rows.map(({ wrapped }) => Buffer.from(wrapped)),
        rows.map(({ destroy_at }) => destroy_at),
      ]),

    /** The instance row, or undefined in a database that is new, or not migrated yet. */
    findInstance: () =>
      guarded(async (client) => {
        const [{ there } = { there: false }] = await client.$queryRaw<{ there: boolean }[]>`
        SELECT to_regclass('instance') IS NOT NULL AS there`;
        return there ? ((await client.instance.findUnique({ where: { id: 1 } })) ?? undefined) : undefined;
      }),

    /** Marks this database as a vault of an environment. Returns the existing row if another process was first. */
    addInstance: (row: { environment: string; wrapped_pepper: Uint8Array }) =>
      guarded(async (client) => {
        const wrapped_pepper = Uint8Array.from(row.wrapped_pepper);
        await client.instance.createMany({ data: [{ id: 1, ...row, wrapped_pepper }], skipDuplicates: true });
        return client.instance.findUniqueOrThrow({ where: { id: 1 } });
      }),
  };
};
