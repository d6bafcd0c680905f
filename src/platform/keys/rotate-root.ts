// Wraps every key of a vault under the first configured root key, while servers run. Repeated after a failure, it continues.
import { LEAST_ID } from '../crypto/ids.ts';
import type { Database } from '../db/database.ts';
import { tenantKeyContext, type TenantKeyRow } from '../crypto/keyring.ts';
import { ephemeralKeyContext, type EphemeralKeyRow } from '../crypto/slots.ts';
import { unavailable } from '../base/errors.ts';
import { haveOneRootKey, type RootKeys, RootKeyUnknown } from '../crypto/key-provider.ts';
import { SealBroken } from '../crypto/seal.ts';
import { pepperContext } from './vault-keys.ts';

// Rows that hold wrapped keys, as a rotation of the root key reads and replaces them.

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

type RotationRows = ReturnType<typeof createRotationRows>;

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

/** Keys that are read at once. */
const SLICE_KEYS = 100;
/** Keys that are wrapped at once: key services limit requests. */
const KEYS_AT_ONCE = 8;
/** Passes over all keys. The second finds what servers wrapped before they noticed that the rotation had begun; then none is left. */
const PASSES_MAX = 10;

export type RotationResult = {
  /** Keys that this run has wrapped under the new root key. */
  rotated: number;
  /** Keys that no root key at hand opens, by tenant. They stay as they are. */
  broken: { tenant_id: string | undefined; id: string }[];
};

type Rotation = {
  provider: RootKeys;
  environment: string;
  rows: RotationRows;
  /** Called before each slice, and told how far the first pass is. @throws to end the rotation. */
  goOn(done: number, total: number): Promise<void>;
};

type Stale = {
  tenant_id: string | undefined;
  id: string;
  wrapped: Uint8Array;
  context: string[];
  /** @returns false where the key was changed or deleted meanwhile: the next pass looks again. */
  replace(wrapped: Uint8Array): Promise<boolean>;
};

/** Runs work for each item, a limited number at a time. @throws what the first failing work throws. */
const forEachOf = async <T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> => {
  const queue = [...items];
  const worker = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
};

/**
 * Wraps the pepper first. From then on every process wraps new keys as the pepper is wrapped, see `KeyStore`, so that the passes
 * over the other keys come to an end.
 * @throws RootKeyUnknown or SealBroken where the pepper does not open; unavailable; what `goOn` throws.
 */
export const rotateRoot = async ({ provider, environment, rows, goOn }: Rotation): Promise<RotationResult> => {
  const pepper = await rows.findPepper();
  if (!pepper) throw unavailable(new Error('the database has no instance row'));
  const plain = await provider.unwrap(pepper, pepperContext(environment));
  const fresh = await provider.wrap(plain, pepperContext(environment));
  plain.fill(0);
  const isCurrent = (wrapped: Uint8Array): boolean => {
    try {
      return haveOneRootKey(wrapped, fresh);
    } catch {
      return false;
    }
  };
  let rotated = 0;
  if (!isCurrent(pepper)) {
    if (!(await rows.replacePepper(pepper, fresh))) throw unavailable(new Error('the pepper was changed meanwhile'));
    rotated += 1;
  }

  const broken = new Map<string, RotationResult['broken'][number]>();
  const rewrap = async ({ tenant_id, id, wrapped, context, replace }: Stale): Promise<void> => {
    try {
      const key = await provider.unwrap(wrapped, context);
      const again = await provider.wrap(key, context);
      key.fill(0);
      if (await replace(again)) rotated += 1;
    } catch (error) {
      if (!(error instanceof RootKeyUnknown) && !(error instanceof SealBroken)) throw error;
      broken.set(id, { tenant_id, id });
    }
  };
  /** @returns how many keys were not wrapped under the new root key. */
  const rewrapAll = async (keys: readonly Stale[]): Promise<number> => {
    const stale = keys.filter(({ id, wrapped }) => !isCurrent(wrapped) && !broken.has(id));
    await forEachOf(stale, KEYS_AT_ONCE, rewrap);
    return stale.length;
  };

  const pass = async (): Promise<number> => {
    const total = await rows.countTenantKeys();
    const ephemeral = await rows.findEphemeralKeys();
    let found = await rewrapAll(
      ephemeral.map((row) => ({
        tenant_id: undefined,
        id: row.id,
        wrapped: row.wrapped,
        context: ephemeralKeyContext(environment, row),
        replace: (wrapped) => rows.replaceEphemeralKey(row, wrapped),
      })),
    );
    let done = 0;
    for (let slice = await rows.findTenantKeysAfter(undefined, SLICE_KEYS); slice.length > 0;) {
      await goOn(done, total);
      found += await rewrapAll(
        slice.map((row) => ({
          ...row,
          context: tenantKeyContext(environment, row),
          replace: (wrapped) => rows.replaceTenantKey(row, wrapped),
        })),
      );
      done += slice.length;
      slice = await rows.findTenantKeysAfter(slice.at(-1), SLICE_KEYS);
    }
    await goOn(done, total);
    return found;
  };
  for (let passes = 0; (await pass()) > 0;) {
    passes += 1;
    if (passes === PASSES_MAX) throw unavailable(new Error('keys are still wrapped under an earlier root key'));
  }
  return { rotated, broken: [...broken.values()] };
};
