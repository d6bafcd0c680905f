// Rows of sealed values by the key in their header, and the data keys of tenants, for re-sealing after a rotation.
import type { Database } from '../db/database.ts';
import { createSigning } from '../db/signing.ts';
import { boundSealed } from '../db/statements.ts';
import { KEY_SETTLED_AFTER_MS } from '../crypto/keyring.ts';
import { AGE_MS } from './rows.ts';
import { type BoundRow, SEALED_HEADER_BYTES } from '../crypto/seal.ts';
import { EXPIRING_TABLES, type SealedTable } from '../base/tables.ts';
import { SIGNED_TABLES, type SignedTable, type SignedTableName } from '../base/tables.ts';

/** The table, where a MAC binds its sealed values: they are signed again with the new ones. */
const signedTableOf = (name: string): SignedTableName | undefined => {
  const table: SignedTable | undefined = (SIGNED_TABLES as Readonly<Record<string, SignedTable>>)[name];
  return table?.bound.includes('sealed') ? (name as SignedTableName) : undefined;
};

/** Tenants of one statement. */
const TENANTS_MAX = 1_000;

export type SealedRow = BoundRow & { id: string; type?: string; is_old: boolean; sealed: Buffer | null };

const header = `substring(sealed for ${SEALED_HEADER_BYTES})`;

/** A value that is sealed under the key of $3 comes without it. */
const findSlice = ({ name, id, isTyped, bound = [] }: SealedTable): string => {
  const columns = ['id', ...(isTyped ? ['type'] : []), ...bound, 'is_old', 'sealed'].join(', ');
  const rows = `SELECT ${columns.replace('sealed', 'CASE WHEN is_old THEN sealed END AS sealed')} FROM (
      SELECT *, coalesce(${header} <> $3, false) AS is_old FROM ${name}
      WHERE tenant_id = $1 AND id > $2::${id} ORDER BY id LIMIT $4) AS slice ORDER BY id`;
  return `${boundSealed(columns, rows)} ORDER BY id`;
};

/** Locks rows before `replace`. */
const lock = ({ name, id }: SealedTable): string =>
  `SELECT id FROM ${name} WHERE tenant_id = $1 AND id = ANY($2::${id}[]) ORDER BY id FOR NO KEY UPDATE`;

/** A row that was changed in the meantime keeps its new value. */
const replace = ({ name, id }: SealedTable): string => `
UPDATE ${name} t SET sealed = r.sealed
FROM unnest($2::text[], $3::bytea[], $4::bytea[]) AS r(id, old, sealed)
WHERE t.tenant_id = $1 AND t.id = r.id::${id} AND t.sealed = r.old`;

const countSlice = ({ name, id }: Pick<SealedTable, 'name' | 'id'>): string => `
SELECT key, count(*)::int AS count, max(id::text COLLATE "C") AS last FROM (
  SELECT id, encode(substring(sealed from 2 for 16), 'hex') AS key FROM ${name}
  WHERE tenant_id = $1 AND id > $2::${id} ORDER BY id LIMIT $3
) AS slice GROUP BY key`;

const COUNT_EXPIRING = EXPIRING_TABLES.map(
  (name) => `SELECT count(*)::int AS count FROM ${name} WHERE tenant_id = $1 AND ${header} = $2`,
);

const FIND_DATA_KEYS = `
SELECT id, ${AGE_MS} FROM tenant_keys WHERE tenant_id = $1 AND purpose = 'data' ORDER BY created_at DESC, id DESC`;
const FIND_TENANTS_WITH_OLD_KEYS = `
SELECT tenant_id FROM tenant_keys WHERE purpose = 'data' AND tenant_id > $1::uuid
GROUP BY tenant_id HAVING count(*) > 1 ORDER BY tenant_id LIMIT ${TENANTS_MAX}`;
const FIND_TENANTS = `SELECT id FROM tenants WHERE id > $1::uuid ORDER BY id LIMIT ${TENANTS_MAX}`;
/** By the clock of the database alone: a host whose clock is wrong must not delete a key that others still seal under. */
const DELETE_KEY = `
DELETE FROM tenant_keys WHERE tenant_id = $1 AND id = $2 AND purpose = 'data' AND EXISTS (
  SELECT FROM tenant_keys AS newest WHERE newest.tenant_id = $1 AND newest.id = $3 AND newest.purpose = 'data'
  AND newest.id <> $2 AND newest.created_at <= now() - interval '${KEY_SETTLED_AFTER_MS} milliseconds'
) RETURNING id`;

export type ResealRows = ReturnType<typeof createResealRows>;

export const createResealRows = ({
  signedRows,
  statements: { query, transaction },
}: Pick<Database, 'signedRows' | 'statements'>) => ({
  /** In the order of ids. @param keyHeader of the key that seals: its values come without `sealed`. */
  findSlice: async (table: SealedTable, tenant_id: string, after: string, keyHeader: Buffer, limit: number) =>
    (await query(`find-sealed-${table.name}`, findSlice(table), [tenant_id, after, keyHeader, limit])) as SealedRow[],
  replace: async (
    table: SealedTable,
    tenant_id: string,
    rows: readonly { id: string; old: Buffer; sealed: Buffer }[],
  ): Promise<void> => {
    const ids = rows.map(({ id }) => id);
    const columns = [ids, rows.map(({ old }) => old), rows.map(({ sealed }) => sealed)];
    const signed = signedTableOf(table.name);
    await transaction(async (within) => {
      const signing = createSigning(signedRows, tenant_id, within);
      if (signed) await signing.rewrite(signed, ids);
      await within(`lock-sealed-${table.name}`, lock(table), [tenant_id, ids]);
      await within(`reseal-${table.name}`, replace(table), [tenant_id, ...columns]);
      await signing.write();
    });
  },
  /** How many values of a table are under each key, by slices. `key` is null for rows without a value. */
  countSlice: async (table: SealedTable, tenant_id: string, after: string, limit: number) =>
    (await query(undefined, countSlice(table), [tenant_id, after, limit])) as {
      key: string | null;
      count: number;
      last: string;
    }[],
  countExpiring: async (tenant_id: string, keyHeader: Buffer): Promise<number> => {
    let count = 0;
    for (const text of COUNT_EXPIRING) {
      const [row] = (await query(undefined, text, [tenant_id, keyHeader])) as [{ count: number }];
      count += row.count;
    }
    return count;
  },

  findTenantIdsAfter: async (after: string): Promise<string[]> =>
    ((await query(undefined, FIND_TENANTS, [after])) as { id: string }[]).map(({ id }) => id),
  /** The data keys of a tenant, the one that seals first, or will: the newest before older ones. */
  findDataKeys: async (tenant_id: string) =>
    (await query(undefined, FIND_DATA_KEYS, [tenant_id])) as { id: string; age_ms: number }[],
  findTenantsWithOldKeys: async (after: string): Promise<string[]> =>
    ((await query(undefined, FIND_TENANTS_WITH_OLD_KEYS, [after])) as { tenant_id: string }[]).map(
      ({ tenant_id }) => tenant_id,
    ),
  /** @param newestId the key that seals. @returns whether it has sealed for so long that the older key is deleted. */
  deleteKey: async (tenant_id: string, id: string, newestId: string): Promise<boolean> =>
    (await query(undefined, DELETE_KEY, [tenant_id, id, newestId])).length > 0,
});
