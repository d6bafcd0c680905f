// The rows that hold wrapped keys, as the keyring asks for them, and the one that says what this database is.
import { createCoalescer } from './coalescer.ts';
import type { Guarded } from './prisma.ts';
import type { Query } from './statements.ts';
import { FIND_EPHEMERAL_KEYS } from './token-sql.ts';

type EphemeralKeyRow = { id: string; wrapped: Uint8Array; destroy_at: Date };

/** Ephemeral keys belong to no tenant: look-ups of all tenants share statements. */
const NO_TENANT = '';

/** @param batchesMax look-ups of ephemeral keys in flight at once. */
export const keyStatements = (guarded: Guarded, query: Query, batchesMax: number) => {
  const findEphemeralKey = createCoalescer<EphemeralKeyRow>(async (_, ids) => {
    const rows = (await query('find-ephemeral-keys', FIND_EPHEMERAL_KEYS, [ids])) as EphemeralKeyRow[];
    return new Map(rows.map((row) => [row.id, row]));
  }, batchesMax);
  return {
    keyStore: {
      findTenantKeys: (tenantId: string) =>
        guarded(async (client) => {
          const rows = await client.tenant_keys.findMany({ where: { tenant_id: tenantId } });
          return rows.map((row) => ({ ...row, purpose: row.purpose as 'data' | 'digest' }));
        }),
      findEphemeralKey: (id: string) => findEphemeralKey(NO_TENANT, id),
      addEphemeralKey: (row: { id: string; wrapped: Uint8Array; destroy_at: Date }) =>
        guarded(async (client) => {
          await client.ephemeral_keys.createMany({
            data: [{ ...row, wrapped: Uint8Array.from(row.wrapped) }],
            skipDuplicates: true,
          });
          return client.ephemeral_keys.findUniqueOrThrow({ where: { id: row.id } });
        }),
    },

    /** The instance row, or undefined in a database that is new, or not migrated yet. */
    findInstance: () =>
      guarded(async (client) => {
        const [{ there } = { there: false }] = await client.$queryRaw<{ there: boolean }[]>`
        SELECT to_regclass('instance') IS NOT NULL AS there`;
        return there ? ((await client.instance.findUnique({ where: { id: 1 } })) ?? undefined) : undefined;
      }),

    /** Marks this database as a vault of an environment; when another process was first, answers with what that one wrote. */
    addInstance: (row: { environment: string; wrapped_pepper: Uint8Array }) =>
      guarded(async (client) => {
        const wrapped_pepper = Uint8Array.from(row.wrapped_pepper);
        await client.instance.createMany({ data: [{ id: 1, ...row, wrapped_pepper }], skipDuplicates: true });
        return client.instance.findUniqueOrThrow({ where: { id: 1 } });
      }),
  };
};
