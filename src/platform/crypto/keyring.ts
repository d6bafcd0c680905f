// Unwraps and caches the keys of tenants, and manages the ephemeral keys of security codes.
// The newest key seals; older ones still open.
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type DigestKey, prepareDigestKey } from './digest.ts';
import { newUuid } from './ids.ts';
import type { KeyProvider } from './key-provider.ts';
import type { RandomBytes } from './random.ts';
import { createSealingKey, type SealingKey } from './seal.ts';
import { XAES_KEY_BYTES } from './xaes.ts';

/** Tenants whose keys are in memory at once: about 20 MB. */
const TENANTS_MAX = 10_000;
/** How long unwrapped keys are cached. They stay usable while the key provider is unavailable. */
const TENANT_KEYS_TTL_MS = 5 * 60_000;

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

export interface KeyStore {
  findTenantKeys(tenantId: string): Promise<TenantKeyRow[]>;
  findEphemeralKey(id: string): Promise<EphemeralKeyRow | undefined>;
  /** Adds a row, or returns the existing one, so that all processes use the same key in a slot. */
  addEphemeralKey(row: EphemeralKeyRow): Promise<EphemeralKeyRow>;
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
  /** Generates the wrapped data and digest key of a new tenant. The caller stores the rows. */
  newTenantKeys(tenantId: string): Promise<TenantKeyRow[]>;
  /** @throws TenantKeysGone; what the provider and the store throw. */
  tenantKeys(tenantId: string): Promise<TenantKeys>;
  /** The key of the current slot, for sealing. */
  ephemeralKey(): Promise<SealingKey>;
  /**
   * Stores the living keys with which this process sealed again, so that codes can still be opened: a crash and a failover empty
   * the unlogged table, and end all connections. Called on each new connection, before its first query.
   * @param addMissing adds the rows that are missing. @throws what it throws.
   */
  restoreEphemeralKeys(addMissing: (rows: readonly EphemeralKeyRow[]) => Promise<void>): Promise<void>;
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

export const createKeyring = (parts: {
  provider: KeyProvider;
  store: KeyStore;
  environment: string;
  now: () => Date;
  randomBytes: RandomBytes;
  cvcTtlMs: number;
}): Keyring => {
  const { provider, store, environment, now, randomBytes } = parts;
  const tenantContext = (row: { tenant_id: string; purpose: string; id: string }): string[] => [
    'tenant key',
    environment,
    row.tenant_id,
    row.purpose,
    row.id,
  ];
  const ephemeralContext = (id: string): string[] => ['ephemeral key', environment, id];

  const load = async (tenantId: string): Promise<TenantKeys> => {
    const rows = (await store.findTenantKeys(tenantId)).toSorted(byAge);
    const dataKeys = new Map<string, SealingKey>();
    let data: SealingKey | undefined;
    let digest: DigestKey | undefined;
    for (const row of rows) {
      const key = await provider.unwrap(row.wrapped, tenantContext(row));
      if (row.purpose === 'digest') digest = prepareDigestKey(row.id, key);
      else {
        data = createSealingKey(row.id, key);
        dataKeys.set(row.id, data);
      }
    }
    if (!data || !digest) throw new TenantKeysGone();
    return { data, digest, find: (keyId) => dataKeys.get(keyId) };
  };

  const tenants = new LRUCache<string, Promise<TenantKeys>>({ max: TENANTS_MAX, ttl: TENANT_KEYS_TTL_MS });

  let slot: { startMs: number; key: Promise<SealingKey> } | undefined;

  let dropSlot: NodeJS.Timeout | undefined;

  /** Rows of the keys with which this process sealed, wrapped as the database has them, until they are to be destroyed. */
  const storedRows = new Map<string, EphemeralKeyRow>();

  const keepRow = (row: EphemeralKeyRow): void => {
    const { id, wrapped, destroy_at } = row;
    storedRows.set(id, { id, wrapped, destroy_at });
    setTimeout(() => storedRows.delete(id), destroy_at.getTime() - now().getTime()).unref();
  };

  /** Generates a key for the slot and stores it. If another process has stored one, that one is used. */
  const openSlot = async (startMs: number): Promise<SealingKey> => {
    const id = slotId(startMs);
    const row = await store.addEphemeralKey({
      id,
      wrapped: await provider.wrap(randomBytes(XAES_KEY_BYTES), ephemeralContext(id)),
      destroy_at: new Date(startMs + EPHEMERAL_SLOT_MS + parts.cvcTtlMs),
    });
    keepRow(row);
    return createSealingKey(id, await provider.unwrap(row.wrapped, ephemeralContext(id)));
  };

  return {
    async newTenantKeys(tenantId) {
      const rows: TenantKeyRow[] = [];
      for (const purpose of ['data', 'digest'] as const) {
        const row = { tenant_id: tenantId, id: newUuid(), purpose, created_at: now() };
        rows.push({ ...row, wrapped: await provider.wrap(randomBytes(XAES_KEY_BYTES), tenantContext(row)) });
      }
      return rows;
    },

    tenantKeys(tenantId) {
      const known = tenants.get(tenantId);
      if (known) return known;
      const loading = load(tenantId);
      tenants.set(tenantId, loading);
      // Do not cache a failed load.
      loading.catch(() => {
        if (tenants.peek(tenantId) === loading) tenants.delete(tenantId);
      });
      return loading;
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

    async restoreEphemeralKeys(addMissing) {
      const living = [...storedRows.values()].filter(({ destroy_at }) => now() < destroy_at);
      if (living.length === 0) return;
      await addMissing(living);
      // Another process may have stored another key for the current slot first: the next code is sealed under that one.
      slot = undefined;
    },

    async findEphemeralKey(keyId) {
      const row = await store.findEphemeralKey(keyId);
      if (!row || now() >= row.destroy_at) return undefined;
      const key = await provider.unwrap(row.wrapped, ephemeralContext(row.id));
      // Unwrapping may be slow: the key may have expired meanwhile.
      return now() >= row.destroy_at ? undefined : createSealingKey(row.id, key);
    },

    forgetTenant: (tenantId) => void tenants.delete(tenantId),
    forgetTenants: () => tenants.clear(),
    count: () => {
      tenants.purgeStale();
      return { tenant: tenants.size, ephemeral: slot ? 1 : 0 };
    },

    close() {
      tenants.clear();
      clearTimeout(dropSlot);
      slot = undefined;
      storedRows.clear();
    },
  };
};
