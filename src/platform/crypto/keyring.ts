// Unwraps and caches the keys of tenants, and manages the ephemeral keys of security codes.
// The newest key seals, from some minutes after it was made; older ones still open.
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type DigestKey, prepareDigestKey } from './digest.ts';
import { unavailable } from '../errors.ts';
import { newUuid } from './ids.ts';
import type { RootKeys } from './key-provider.ts';
import type { RandomBytes } from './random.ts';
import { createSealingKey, type SealingKey } from './seal.ts';
import { destroyXaesKey, XAES_KEY_BYTES } from './xaes.ts';

/** Tenants whose keys are cached at once: about 20 MB. */
const TENANTS_MAX = 10_000;
/** How long unwrapped keys are given to requests. They stay usable while the key provider is unavailable. */
const KEYS_CACHED_MS = 4 * 60_000;
/** Requests that were given keys have this time to use them: then the keys are overwritten. What takes longer holds them. */
const KEYS_GRACE_MS = 60_000;
/** Keys of tenants are in memory so long at most, beside those that a longer request holds. */
const TENANT_KEYS_TTL_MS = KEYS_CACHED_MS + KEYS_GRACE_MS;

/**
 * A new data key of a tenant that has one already seals only after this time. By then every process that caches keys has loaded
 * it, so that none meets a value whose key it does not know. Twice the time of the cache, for clocks that differ.
 */
export const KEY_ACTIVE_AFTER_MS = 2 * TENANT_KEYS_TTL_MS;
/** After this time no process seals under an older data key: caches have expired, and the longest requests have ended. */
export const KEY_SETTLED_AFTER_MS = KEY_ACTIVE_AFTER_MS + 20 * 60_000;

/** A key seals the codes of half a minute. With a sweep every 15 seconds, a code is unrecoverable before CVC_TTL plus a minute. */
export const EPHEMERAL_SLOT_MS = 30_000;

export type TenantKeyRow = {
  tenant_id: string;
  id: string;
  purpose: 'data' | 'digest';
  wrapped: Uint8Array;
  created_at: Date;
};

export type EphemeralKeyRow = { id: string; wrapped: Uint8Array; destroy_at: Date };

/** Wrapped keys of a new tenant, or a new key of one. */
export type NewTenantKeys = {
  rows: TenantKeyRow[];
  /** The wrapped pepper: the keys are wrapped under its root key. The transaction that stores them verifies that it is unchanged. */
  wrapped_pepper: Uint8Array;
};

export interface KeyStore {
  findWrappedPepper(): Promise<Uint8Array>;
  findTenantKeys(tenantId: string): Promise<TenantKeyRow[]>;
  findEphemeralKey(id: string): Promise<EphemeralKeyRow | undefined>;
  /**
   * Adds a row, or returns the existing one, so that all processes use the same key in a slot.
   * @returns undefined where the pepper is wrapped anew: so must this key be.
   */
  addEphemeralKey(row: EphemeralKeyRow, wrapped_pepper: Uint8Array): Promise<EphemeralKeyRow | undefined>;
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
  /** Generates wrapped keys of a tenant, one for each purpose. The caller stores the rows. */
  newTenantKeys(tenantId: string, purposes: readonly TenantKeyRow['purpose'][]): Promise<NewTenantKeys>;
  /** @throws TenantKeysGone; what the provider and the store throw. */
  tenantKeys(tenantId: string): Promise<TenantKeys>;
  /**
   * As tenantKeys, for work of more than a minute: the keys are not overwritten before `release` was called. It may be called
   * several times.
   */
  holdTenantKeys(tenantId: string): Promise<{ keys: TenantKeys; release: () => void }>;
  /** The key of the current slot, for sealing. */
  ephemeralKey(): Promise<SealingKey>;
  /**
   * Stores the key of the current slot again if the database lost it, so that the codes sealed in this slot can be opened: a
   * crash and a failover empty the unlogged table. @throws what the store throws.
   */
  restoreEphemeralKey(): Promise<void>;
  /** The key of a slot, for opening; undefined if it is destroyed or expired. */
  findEphemeralKey(keyId: string): Promise<SealingKey | undefined>;
  forgetTenant(tenantId: string): void;
  forgetTenants(): void;
  /** How many unwrapped keys are in memory: tenants that have some, and keys of security codes. */
  count(): { tenant: number; ephemeral: number };
  close(): void;
};

const byAge = (one: TenantKeyRow, other: TenantKeyRow): number =>
  one.created_at.getTime() - other.created_at.getTime() || (one.id < other.id ? -1 : 1);

/** The id of a slot is its time as a UUID of version 8 (RFC 9562 section 5.8). */
const slotId = (startMs: number): string => {
  const bytes = createHash('sha256').update(`ephemeral slot ${startMs}`).digest();
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`;
};

/** What a wrapped key of a tenant is bound to. */
export const tenantKeyContext = (
  environment: string,
  { tenant_id, purpose, id }: Pick<TenantKeyRow, 'tenant_id' | 'purpose' | 'id'>,
): string[] => ['tenant key', environment, tenant_id, purpose, id];

export const ephemeralKeyContext = (environment: string, id: string): string[] => ['ephemeral key', environment, id];

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
        if (!data || row.created_at.getTime() + KEY_ACTIVE_AFTER_MS <= now().getTime()) data = sealing;
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

  /** The current slot with its key, and the key as it is stored. */
  type Slot = { startMs: number; wrapped: Promise<Uint8Array>; key: Promise<SealingKey> };
  let slot: Slot | undefined;

  let dropSlot: NodeJS.Timeout | undefined;

  const isCurrent = ({ startMs }: Slot): boolean => now().getTime() < startMs + EPHEMERAL_SLOT_MS;

  /** Stores the key of a slot, or returns the one that another process has stored. */
  const storeEphemeralKey = async (startMs: number, key: Uint8Array): Promise<Uint8Array> => {
    const id = slotId(startMs);
    const destroy_at = new Date(startMs + EPHEMERAL_SLOT_MS + parts.cvcTtlMs);
    for (let wrapsLeft = WRAPS_MAX; wrapsLeft > 0; wrapsLeft -= 1) {
      const wrapped_pepper = await store.findWrappedPepper();
      const wrapped = await provider.wrapAs(wrapped_pepper, key, ephemeralKeyContext(environment, id));
      const stored = await store.addEphemeralKey({ id, wrapped, destroy_at }, wrapped_pepper);
      if (stored) return stored.wrapped;
    }
    throw unavailable();
  };

  /** @param offered the key to store, where no other process has stored one for the slot. */
  const openSlot = (startMs: number, offered: Promise<Uint8Array>): Slot => {
    const id = slotId(startMs);
    const wrapped = offered.then((key) => storeEphemeralKey(startMs, key));
    const key = wrapped.then(async (stored) =>
      createSealingKey(id, await provider.unwrap(stored, ephemeralKeyContext(environment, id))),
    );
    const opened: Slot = { startMs, wrapped, key };
    slot = opened;
    key.catch(() => {
      if (slot === opened) slot = undefined;
    });
    return opened;
  };

  return {
    async newTenantKeys(tenantId, purposes) {
      const wrapped_pepper = await store.findWrappedPepper();
      const rows: TenantKeyRow[] = [];
      for (const purpose of purposes) {
        const row = { tenant_id: tenantId, id: newUuid(), purpose, created_at: now() };
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
      const { key } = openSlot(startMs, Promise.resolve(randomBytes(XAES_KEY_BYTES)));
      // Without further codes no new key would replace this one, so a timer removes it from memory.
      clearTimeout(dropSlot);
      dropSlot = setTimeout(() => (slot = undefined), startMs + EPHEMERAL_SLOT_MS - now().getTime()).unref();
      return key;
    },

    async restoreEphemeralKey() {
      if (!slot || !isCurrent(slot)) return;
      const { startMs, wrapped } = slot;
      const context = ephemeralKeyContext(environment, slotId(startMs));
      await openSlot(
        startMs,
        wrapped.then((stored) => provider.unwrap(stored, context)),
      ).key;
    },

    async findEphemeralKey(keyId) {
      const row = await store.findEphemeralKey(keyId);
      if (!row || now() >= row.destroy_at) return undefined;
      const key = await provider.unwrap(row.wrapped, ephemeralKeyContext(environment, row.id));
      // Unwrapping may be slow: the key may have expired meanwhile.
      return now() >= row.destroy_at ? undefined : createSealingKey(row.id, key);
    },

    forgetTenant: (tenantId) => void tenants.delete(tenantId),
    forgetTenants: () => tenants.clear(),
    count: () => ({ tenant: tenants.size, ephemeral: slot ? 1 : 0 }),

    close() {
      isClosed = true;
      tenants.clear();
      clearTimeout(dropSlot);
      slot = undefined;
    },
  };
};
