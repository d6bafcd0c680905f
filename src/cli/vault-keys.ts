// The commands that change the keys of a vault and list them: the root key, and the data keys of tenants.
import { setTimeout as pause } from 'node:timers/promises';
import { LEAST_ID } from '../platform/crypto/ids.ts';
import { rotateDataKey } from '../modules/access/data-keys.ts';
import type { Context } from '../modules.ts';
import { parseWrapped, type RootKeyName } from '../platform/crypto/key-provider.ts';
import { createResealRows } from '../platform/keys/reseal.ts';
import { createRotationRows, rotateRoot } from '../platform/keys/rotate-root.ts';
import { SealBroken } from '../platform/crypto/seal.ts';
import { SEALED_TABLES } from '../platform/base/tables.ts';
import { releaseLease, takeLease } from '../platform/db/leases.ts';
import { StartError } from '../platform/base/errors.ts';
import { PROGRAM } from '../platform/base/program.ts';

/** Longer than a slice of keys takes, also where a key service is slow. After a kill, the next run waits so long. */
const LEASE_MS = 15_000;
const LEASE_POLL_MS = 500;
const LEASE_NAME = 'rotate-root';
const REPORT_EVERY_MS = 2_000;

/** Waits for the lease of a run that was killed, or ends. @throws StartError where another run holds it on. */
const takeRotationLease = async (ctx: Context, holder: string, report: (line: string) => void): Promise<void> => {
  const endMs = performance.now() + LEASE_MS + LEASE_POLL_MS;
  for (let attempts = 0; !(await takeLease(ctx.db, LEASE_NAME, holder, LEASE_MS)); attempts += 1) {
    if (attempts === 0)
      report('Another rotation of the root key is running, or was killed a moment ago. Waiting for it.');
    if (performance.now() > endMs)
      throw new StartError('Another rotation of the root key is running. This one has changed nothing.');
    await pause(LEASE_POLL_MS);
  }
};

const rootKeyText = ({ name, root_key_id }: RootKeyName): string => `${name} ${root_key_id}`;

/** Wraps every key under the first configured root key. @throws StartError; a further run continues. */
export const rotateRootKey = async (ctx: Context, report: (line: string) => void) => {
  const holder = ctx.newUuid();
  await takeRotationLease(ctx, holder, report);
  const rows = createRotationRows(ctx.db);
  let dueMs = 0;
  try {
    const result = await rotateRoot({
      provider: ctx.provider,
      environment: ctx.environment,
      rows,
      goOn: async (done, total) => {
        if (!(await takeLease(ctx.db, LEASE_NAME, holder, LEASE_MS)))
          throw new StartError(
            'Another rotation of the root key has taken over. Run it again to see that all is done.',
          );
        if (performance.now() < dueMs) return;
        dueMs = performance.now() + REPORT_EVERY_MS;
        report(`Keys: ${done} of ${total}`);
      },
    });
    return { ...result, root_key: rootKeyText(ctx.provider.describe()) };
  } finally {
    await releaseLease(ctx.db, LEASE_NAME, holder).catch(() => undefined);
  }
};

/** @param tenant_id undefined for all. @returns how many tenants have a new key, and those whose last rotation is not over. */
export const rotateTenantKeys = async (
  ctx: Context,
  tenant_id: string | undefined,
): Promise<{ made: number; early: string[] }> => {
  const result = { made: 0, early: [] as string[] };
  const rotate = async (id: string): Promise<void> => {
    const outcome = await rotateDataKey(ctx, id);
    if (outcome === 'made') result.made += 1;
    if (outcome === 'early') result.early.push(id);
    if (outcome === 'gone' && tenant_id !== undefined)
      throw new StartError(`There is no such tenant: ${id}. List them: ${PROGRAM} tenants list`);
  };
  if (tenant_id !== undefined) await rotate(tenant_id.toLowerCase());
  else
    for (let after: string | undefined = LEAST_ID; after !== undefined;) {
      const ids = await createResealRows(ctx.db).findTenantIdsAfter(after);
      for (const id of ids) await rotate(id);
      after = ids.at(-1);
    }
  return result;
};

/** Rows whose keys one statement counts: some hundred milliseconds. */
const COUNT_ROWS = 20_000;
const SLICE_KEYS = 1_000;

export type ListedVaultKey = {
  tenant_id: string;
  id: string;
  purpose: string;
  created_at: Date;
  root_key: string;
  /** Number of values that are sealed under it, if it is a data key. */
  rows?: number;
};

/** How many values are sealed under each key of a tenant, by its id without dashes. */
const countRows = async (ctx: Context, tenant_id: string): Promise<Map<string, number>> => {
  const rows = createResealRows(ctx.db);
  const counts = new Map<string, number>();
  for (const table of SEALED_TABLES) {
    for (let after = table.id === 'uuid' ? LEAST_ID : ''; ;) {
      const slice = await rows.countSlice(table, tenant_id, after, COUNT_ROWS);
      if (slice.length === 0) break;
      for (const { key, count, last } of slice) {
        if (key !== null) counts.set(key, (counts.get(key) ?? 0) + count);
        if (last > after) after = last;
      }
    }
  }
  return counts;
};

const rootKeyOf = (wrapped: Uint8Array): string => {
  try {
    return rootKeyText(parseWrapped(wrapped));
  } catch (error) {
    if (error instanceof SealBroken) return 'not readable';
    throw error;
  }
};

/** Lists the keys of one tenant or all, with the root keys that they are wrapped under. @param found called for each key. */
export const listVaultKeys = async (
  ctx: Context,
  tenant_id: string | undefined,
  found: (key: ListedVaultKey) => void,
): Promise<{ root_key: string; isFirst: boolean; keys: number }[]> => {
  const rows = createRotationRows(ctx.db);
  const underRoot = new Map<string, number>(ctx.provider.list().map((root) => [rootKeyText(root), 0]));
  const noteRoot = (wrapped: Uint8Array): string => {
    const root = rootKeyOf(wrapped);
    underRoot.set(root, (underRoot.get(root) ?? 0) + 1);
    return root;
  };
  const pepper = await rows.findPepper();
  if (pepper) noteRoot(pepper);
  for (const { wrapped } of await rows.findEphemeralKeys()) noteRoot(wrapped);
  let counted: { tenant_id: string; counts: Map<string, number> } | undefined;
  for (let slice = await rows.findTenantKeysAfter(undefined, SLICE_KEYS); slice.length > 0;) {
    for (const { tenant_id: of, id, purpose, created_at, wrapped } of slice) {
      const key = { tenant_id: of, id, purpose, created_at, root_key: noteRoot(wrapped) };
      if (tenant_id !== undefined && of !== tenant_id.toLowerCase()) continue;
      if (counted?.tenant_id !== of) counted = { tenant_id: of, counts: await countRows(ctx, of) };
      found(key.purpose === 'data' ? { ...key, rows: counted.counts.get(id.replaceAll('-', '')) ?? 0 } : key);
    }
    slice = await rows.findTenantKeysAfter(slice.at(-1), SLICE_KEYS);
  }
  const first = rootKeyText(ctx.provider.describe());
  return [...underRoot].map(([root_key, keys]) => ({ root_key, isFirst: root_key === first, keys }));
};
