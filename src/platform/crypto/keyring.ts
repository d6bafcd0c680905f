// Unwraps and caches the keys of tenants, and manages the ephemeral keys of security codes.
// The newest key seals, from some minutes after it was made; older ones still open.
import { LRUCache } from 'lru-cache';
import { type DigestKey, prepareDigestKey } from './digest.ts';
import { unavailable } from '../base/errors.ts';
import { newUuid } from './ids.ts';
import { haveOneRootKey, type RootKeys } from './key-provider.ts';
import type { RandomBytes } from './random.ts';
import { createSealingKey, type SealingKey } from './seal.ts';
import { EPHEMERAL_SLOT_MS, ephemeralKeyContext, type EphemeralKeyRow, slotIdOf } from './slots.ts';
import { destroyXaesKey, XAES_KEY_BYTES } from './xaes.ts';

/** Tenants whose keys are cached at once: about 20 MB. */
const TENANTS_MAX = 10_000;
/** How long unwrapped keys are given to requests. They stay usable while the key provider is unavailable. */
const KEYS_CACHED_MS = 3 * 60_000;
/**
 * Requests that were given keys have this time to use them: then the keys are overwritten. Longer than a request may wait for its
 * turn at the database and for the statement. What takes longer holds the keys.
 */
const KEYS_GRACE_MS = 2 * 60_000;
/** Keys of tenants are in memory so long at most, beside those that a longer request holds. */
const TENANT_KEYS_TTL_MS = KEYS_CACHED_MS + KEYS_GRACE_MS;

/**
 * A new data key of a tenant that has one already seals only after this time. By then every process that caches keys has loaded
 * it, so that none meets a value whose key it does not know. By the clock of the database. Twice the time of the cache, since a
 * transaction may commit late, and another database server may have another clock after a failover.
 */
export const KEY_ACTIVE_AFTER_MS = 2 * TENANT_KEYS_TTL_MS;
/** After this time no process seals under an older data key: caches have expired, and the longest requests have ended. */
export const KEY_SETTLED_AFTER_MS = KEY_ACTIVE_AFTER_MS + 20 * 60_000;

/**
 * A data key seals values, and a digest key makes their digests. The wrapped key is bound to its purpose, so a writer of the database
 * cannot make one of the other.
 */
export type KeyPurpose = 'data' | 'digest';

/** The database adds the time. */
export type NewTenantKeyRow = { tenant_id: string; id: string; purpose: KeyPurpose; wrapped: Uint8Array };

export type TenantKeyRow = NewTenantKeyRow & { created_at: Date };

/** `age_ms`: at the time of reading. */
export type StoredTenantKey = TenantKeyRow & { age_ms: number };

/** Wrapped keys of a new tenant, or a new key of one. */
export type NewTenantKeys = {
  rows: NewTenantKeyRow[];
  /** The wrapped pepper: the keys are wrapped under its root key. The transaction that stores them verifies that it is unchanged. */
  wrapped_pepper: Uint8Array;
};

/** What stores ephemeral keys: the pool, or one connection. */
export interface EphemeralRows {
  findWrappedPepper(): Promise<Uint8Array>;
  findEphemeralKeys(ids: readonly string[]): Promise<EphemeralKeyRow[]>;
  /** Adds the rows that are missing; none where the pepper is wrapped again: so must these keys be. */
  addEphemeralKeys(rows: readonly EphemeralKeyRow[], wrapped_pepper: Uint8Array): Promise<void>;
}

export interface KeyStore extends EphemeralRows {
  findTenantKeys(tenantId: string): Promise<StoredTenantKey[]>;
  findEphemeralKey(id: string): Promise<EphemeralKeyRow | undefined>;
}

export type TenantKeys = {
  readonly data: SealingKey;
  readonly digest: DigestKey;
  /** A data key of the tenant, current or old, by id. */
  find(keyId: string): SealingKey | undefined;
};

/** The tenant has no keys because it was deleted. Its sealed values can no longer be opened. */
export class TenantKeysGone extends Error {
  override readonly name = 'TenantKeysGone';
  constructor() {
    super('the tenant has no keys');
  }
}

export type Keyring = {
  /** Generates wrapped keys of a tenant. The caller stores the rows. */
  newTenantKeys(tenantId: string, purposes: readonly KeyPurpose[]): Promise<NewTenantKeys>;
  /** @throws TenantKeysGone; what the provider and the store throw. */
  tenantKeys(tenantId: string): Promise<TenantKeys>;
  /**
   * Does what tenantKeys does, for work of more than a minute: the keys are not overwritten before `release` was called. It may
   * be called several times.
   */
  holdTenantKeys(tenantId: string): Promise<{ keys: TenantKeys; release: () => void }>;
  /** The key of the current slot, for sealing. */
  ephemeralKey(): Promise<SealingKey>;
  /**
   * Stores the living keys with which this process sealed again where they are missing, so that codes can still be opened: a
   * crash and a failover empty the unlogged table, and end all connections. Called on each new connection, before its first query.
   * @throws what `rows` and the provider throw.
   */
  restoreEphemeralKeys(rows: EphemeralRows): Promise<void>;
  /** The key of a slot, for opening; undefined if it is destroyed or expired. @throws SealBroken where its row was changed. */
  findEphemeralKey(keyId: string): Promise<SealingKey | undefined>;
  forgetTenant(tenantId: string): void;
  forgetTenants(): void;
  /** How many unwrapped keys are in memory: tenants that have some, and keys of security codes. */
  count(): { tenant: number; ephemeral: number };
  close(): void;
};

const byAge = (one: TenantKeyRow, other: TenantKeyRow): number =>
  one.created_at.getTime() - other.created_at.getTime() || (one.id < other.id ? -1 : 1);

/** What a wrapped key of a tenant is bound to. */
export const tenantKeyContext = (
  environment: string,
  { tenant_id, purpose, id }: Pick<TenantKeyRow, 'tenant_id' | 'purpose' | 'id'>,
): string[] => ['tenant key', environment, tenant_id, purpose, id];

/** Two rotations of the root key do not follow each other so closely that each attempt meets one. */
const WRAPS_MAX = 3;

export const createKeyring = (parts: {
  provider: RootKeys;
  store: KeyStore;
  environment: string;
  now: () => Date;
  randomBytes: RandomBytes;
  cvcTtlMs: number;
}): Keyring => {
  const { provider, store, environment, now, randomBytes } = parts;

  type Loaded = { keys: TenantKeys; destroy: () => void };

  const load = async (tenantId: string): Promise<Loaded> => {
    const rows = (await store.findTenantKeys(tenantId)).toSorted(byAge);
    const dataKeys = new Map<string, SealingKey>();
    let data: SealingKey | undefined;
    let digest: DigestKey | undefined;
    for (const row of rows) {
      const key = await provider.unwrap(row.wrapped, tenantKeyContext(environment, row));
      if (row.purpose === 'digest') digest = prepareDigestKey(row.id, key);
      else {
        const sealing = createSealingKey(row.id, key);
        dataKeys.set(row.id, sealing);
        if (!data || row.age_ms >= KEY_ACTIVE_AFTER_MS) data = sealing;
      }
      // The prepared keys are copies.
      key.fill(0);
    }
    const destroy = (): void => {
      for (const { key } of dataKeys.values()) destroyXaesKey(key);
      dataKeys.clear();
    };
    if (!data || !digest) {
      destroy();
      throw new TenantKeysGone();
    }
    return { keys: { data, digest, find: (keyId) => dataKeys.get(keyId) }, destroy };
  };

  /** The keys of a tenant from their load until they are overwritten. */
  type Entry = { loading: Promise<Loaded>; timer: NodeJS.Timeout | undefined; holds: number; isOver: boolean };

  /** Overwrites keys that are no longer given out, unless a request holds them. Node clears a digest key when it is collected. */
  const overwrite = (entry: Entry): void => {
    entry.isOver = true;
    if (entry.holds > 0) return;
    entry.loading.then(
      ({ destroy }) => destroy(),
      () => undefined,
    );
    // A second call must not end a cipher twice.
    entry.loading = Promise.reject(new TenantKeysGone());
    entry.loading.catch(() => undefined);
  };

  let isClosed = false;
  const tenants = new LRUCache<string, Entry>({
    max: TENANTS_MAX,
    // For whatever reason an entry leaves the cache.
    dispose: (entry) => {
      clearTimeout(entry.timer);
      if (isClosed) overwrite(entry);
      else entry.timer = setTimeout(() => overwrite(entry), KEYS_GRACE_MS).unref();
    },
  });

  const entryOf = (tenantId: string): Entry => {
    const known = tenants.get(tenantId);
    if (known) return known;
    const entry: Entry = { loading: load(tenantId), timer: undefined, holds: 0, isOver: false };
    const drop = (): void => {
      if (tenants.peek(tenantId) === entry) tenants.delete(tenantId);
    };
    tenants.set(tenantId, entry);
    entry.timer = setTimeout(drop, KEYS_CACHED_MS).unref();
    // Do not cache a failed load.
    entry.loading.catch(drop);
    return entry;
  };

  let slot: { startMs: number; key: Promise<SealingKey> } | undefined;

  let dropSlot: NodeJS.Timeout | undefined;

  /** Rows of the keys with which this process sealed, wrapped as the database has them, until they are to be destroyed. */
  const storedRows = new Map<string, EphemeralKeyRow>();

  const keepRow = (row: EphemeralKeyRow): void => {
    const { id, wrapped, destroy_at } = row;
    storedRows.set(id, { id, wrapped, destroy_at });
    setTimeout(() => storedRows.delete(id), destroy_at.getTime() - now().getTime()).unref();
  };

  /** Stores keys where they are missing, wrapped by the root key that wraps the pepper. @returns the stored rows. */
  const storeEphemeralKeys = async (
    rows: EphemeralRows,
    keys: readonly { id: string; destroy_at: Date; wrapAs(wrapped_pepper: Uint8Array): Promise<Uint8Array> }[],
  ): Promise<EphemeralKeyRow[]> => {
    const ids = keys.map(({ id }) => id);
    for (let wrapsLeft = WRAPS_MAX; wrapsLeft > 0; wrapsLeft -= 1) {
      const wrapped_pepper = await rows.findWrappedPepper();
      const wrapped = await Promise.all(
        keys.map(async ({ id, destroy_at, wrapAs }) => ({ id, destroy_at, wrapped: await wrapAs(wrapped_pepper) })),
      );
      await rows.addEphemeralKeys(wrapped, wrapped_pepper);
      const stored = await rows.findEphemeralKeys(ids);
      if (stored.length === ids.length) return stored;
    }
    throw unavailable();
  };

  const unwrapSlot = async (row: EphemeralKeyRow): Promise<SealingKey> => {
    const key = await provider.unwrap(row.wrapped, ephemeralKeyContext(environment, row));
    return createSealingKey(row.id, key);
  };

  /** Generates a key for the slot and stores it. If another process has stored one, that one is used. */
  const openSlot = async (startMs: number): Promise<SealingKey> => {
    const id = slotIdOf(startMs);
    const destroy_at = new Date(startMs + EPHEMERAL_SLOT_MS + parts.cvcTtlMs);
    const context = ephemeralKeyContext(environment, { id, destroy_at });
    const key = randomBytes(XAES_KEY_BYTES);
    const wrapAs = (wrapped_pepper: Uint8Array): Promise<Buffer> => provider.wrapAs(wrapped_pepper, key, context);
    const [row] = await storeEphemeralKeys(store, [{ id, destroy_at, wrapAs }]);
    if (!row) throw unavailable();
    keepRow(row);
    return unwrapSlot(row);
  };

  /** @returns the key as it was wrapped, unless the root key was rotated since. */
  const wrapAgain = async (row: EphemeralKeyRow, wrapped_pepper: Uint8Array): Promise<Uint8Array> => {
    const { wrapped } = row;
    if (haveOneRootKey(wrapped, wrapped_pepper)) return wrapped;
    const context = ephemeralKeyContext(environment, row);
    return provider.wrapAs(wrapped_pepper, await provider.unwrap(wrapped, context), context);
  };

  return {
    async newTenantKeys(tenantId, purposes) {
      const wrapped_pepper = await store.findWrappedPepper();
      const rows: NewTenantKeyRow[] = [];
      for (const purpose of purposes) {
        const row = { tenant_id: tenantId, id: newUuid(), purpose };
        const key = randomBytes(XAES_KEY_BYTES);
        rows.push({ ...row, wrapped: await provider.wrapAs(wrapped_pepper, key, tenantKeyContext(environment, row)) });
      }
      return { rows, wrapped_pepper };
    },

    tenantKeys: async (tenantId) => (await entryOf(tenantId).loading).keys,

    async holdTenantKeys(tenantId) {
      const entry = entryOf(tenantId);
      entry.holds += 1;
      let isHeld = true;
      const release = (): void => {
        if (!isHeld) return;
        isHeld = false;
        entry.holds -= 1;
        if (entry.isOver && entry.holds === 0) overwrite(entry);
      };
      try {
        return { keys: (await entry.loading).keys, release };
      } catch (error) {
        release();
        throw error;
      }
    },

    ephemeralKey() {
      const startMs = Math.floor(now().getTime() / EPHEMERAL_SLOT_MS) * EPHEMERAL_SLOT_MS;
      if (slot?.startMs === startMs) return slot.key;
      const key = openSlot(startMs);
      const opened = { startMs, key };
      slot = opened;
      key.catch(() => {
        if (slot === opened) slot = undefined;
      });
      // Without further codes no new key would replace this one, so a timer removes it from memory.
      clearTimeout(dropSlot);
      dropSlot = setTimeout(() => (slot = undefined), startMs + EPHEMERAL_SLOT_MS - now().getTime()).unref();
      return key;
    },

    async restoreEphemeralKeys(rows) {
      const living = [...storedRows.values()].filter(({ destroy_at }) => now() < destroy_at);
      if (living.length === 0) return;
      const found = new Set((await rows.findEphemeralKeys(living.map(({ id }) => id))).map(({ id }) => id));
      const missing = living.filter(({ id }) => !found.has(id));
      if (missing.length > 0) {
        const keys = missing.map((row) => ({ ...row, wrapAs: (pepper: Uint8Array) => wrapAgain(row, pepper) }));
        for (const row of await storeEphemeralKeys(rows, keys)) keepRow(row);
      }
      // Another process may have stored another key for the current slot first: the next code is sealed under that one.
      slot = undefined;
    },

    async findEphemeralKey(keyId) {
      const row = await store.findEphemeralKey(keyId);
      if (!row || now() >= row.destroy_at) return undefined;
      const key = await unwrapSlot(row);
      // Unwrapping may be slow: the key may have expired meanwhile.
      return now() >= row.destroy_at ? undefined : key;
    },

    forgetTenant: (tenantId) => void tenants.delete(tenantId),
    forgetTenants: () => tenants.clear(),
    count: () => ({ tenant: tenants.size, ephemeral: slot ? 1 : 0 }),

    close() {
      isClosed = true;
      tenants.clear();
      clearTimeout(dropSlot);
      slot = undefined;
      storedRows.clear();
    },
  };
};
