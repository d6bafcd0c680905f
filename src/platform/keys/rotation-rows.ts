// Rows that hold wrapped keys, as a rotation of the root key reads and replaces them.
import { LEAST_ID } from '../crypto/ids.ts';
import type { Database } from '../db/database.ts';
import type { TenantKeyRow } from '../crypto/keyring.ts';
import type { EphemeralKeyRow } from '../crypto/slots.ts';

const FIND_PEPPER = 'SELECT wrapped_pepper FROM instance WHERE id = 1';
const COUNT_TENANT_KEYS = 'SELECT count(*)::int AS count FROM tenant_keys';
const FIND_TENANT_KEYS = `
SELECT tenant_id, id, purpose, wrapped, created_at FROM tenant_keys WHERE (tenant_id, id) > ($1::uuid, $2::uuid)
ORDER BY tenant_id, id LIMIT $3`;
const FIND_EPHEMERAL_KEYS = 'SELECT id, wrapped, destroy_at FROM ephemeral_keys ORDER BY id';

/** Each replaces the value that was read, and nothing that another process has written since. */
const REPLACE_PEPPER = 'UPDATE instance SET wrapped_pepper = $2 WHERE id = 1 AND wrapped_pepper = $1 RETURNING id';
const REPLACE_TENANT_KEY = `
UPDATE tenant_keys SET wrapped = $4 WHERE tenant_id = $1 AND id = $2 AND wrapped = $3 RETURNING id`;
const REPLACE_EPHEMERAL_KEY = 'UPDATE ephemeral_keys SET wrapped = $3 WHERE id = $1 AND wrapped = $2 RETURNING id';

export type RotationRows = ReturnType<typeof createRotationRows>;

export const createRotationRows = ({ statements: { query } }: Pick<Database, 'statements'>) => ({
  findPepper: async (): Promise<Buffer | undefined> => {
    const [row] = (await query(undefined, FIND_PEPPER, [])) as { wrapped_pepper: Buffer }[];
    return row?.wrapped_pepper;
  },
  replacePepper: async (old: Uint8Array, wrapped: Uint8Array): Promise<boolean> =>
    (await query(undefined, REPLACE_PEPPER, [old, wrapped])).length > 0,

  countTenantKeys: async (): Promise<number> =>
    ((await query(undefined, COUNT_TENANT_KEYS, [])) as [{ count: number }])[0].count,
  /** In the order of tenants and ids. @param after the last one of the slice before. */
  findTenantKeysAfter: async (
    after: Pick<TenantKeyRow, 'tenant_id' | 'id'> | undefined,
    limit: number,
  ): Promise<TenantKeyRow[]> =>
    (await query('find-tenant-keys-after', FIND_TENANT_KEYS, [
      after?.tenant_id ?? LEAST_ID,
      after?.id ?? LEAST_ID,
      limit,
    ])) as TenantKeyRow[],
  replaceTenantKey: async ({ tenant_id, id, wrapped: old }: TenantKeyRow, wrapped: Uint8Array): Promise<boolean> =>
    (await query('replace-tenant-key', REPLACE_TENANT_KEY, [tenant_id, id, old, wrapped])).length > 0,

  /** One for each half minute of CVC_TTL: some thousands at most. */
  findEphemeralKeys: async (): Promise<EphemeralKeyRow[]> =>
    (await query(undefined, FIND_EPHEMERAL_KEYS, [])) as EphemeralKeyRow[],
  replaceEphemeralKey: async ({ id, wrapped: old }: EphemeralKeyRow, wrapped: Uint8Array): Promise<boolean> =>
    (await query(undefined, REPLACE_EPHEMERAL_KEY, [id, old, wrapped])).length > 0,
});
