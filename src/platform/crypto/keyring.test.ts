// The keyring seals with the newest key, opens with all, and forgets keys of security codes in time.
import { afterEach, expect, test, vi } from 'vitest';
import { fingerprint } from './digest.ts';
import { combineProviders, RootKeyUnknown, type RootKeys } from './key-provider.ts';
import { localKeyProvider } from './local-key-provider.ts';
import {
  createKeyring,
  KEY_ACTIVE_AFTER_MS,
  type Keyring,
  type KeyStore,
  type TenantKeyRow,
  TenantKeysGone,
} from './keyring.ts';
import { randomBytesFromKernel } from './random.ts';
import { type Binding, keyIdOf, open, seal, SealBroken } from './seal.ts';
import { Sensitive } from './sensitive.ts';
import { EPHEMERAL_SLOT_MS, type EphemeralKeyRow, slotIdOf } from './slots.ts';

const TENANT = '0b7d8f0c-6f0e-4a55-8d1c-3f5f1f0e7c11';
const CVC_TTL_MS = 3_600_000;
const START_MS = Date.UTC(2026, 0, 1, 12);
const binding: Binding = { environment: 'test', tenant_id: TENANT, record: 'token', id: '1', field: 'cvc' };

/** Rows in memory, as a database would hold them, and how often tenants' keys were read. */
const createRows = (clock: { ms: number }) => {
  const tenantRows: TenantKeyRow[] = [];
  const ephemeralRows = new Map<string, EphemeralKeyRow>();
  const counts = { tenantReads: 0 };
  const vault: { wrapped_pepper: Uint8Array } = { wrapped_pepper: Buffer.alloc(0) };
  const store: KeyStore = {
    findWrappedPepper: async () => vault.wrapped_pepper,
    async findTenantKeys(tenantId) {
      counts.tenantReads += 1;
      return tenantRows
        .filter((row) => row.tenant_id === tenantId)
        .map((row) => ({ ...row, age_ms: clock.ms - row.created_at.getTime() }));
    },
    findEphemeralKey: async (id) => ephemeralRows.get(id),
    findEphemeralKeys: async (ids) =>
      ids.flatMap((id) => {
        const row = ephemeralRows.get(id);
        return row ? [row] : [];
      }),
    async addEphemeralKeys(rows, wrapped_pepper) {
      if (!Buffer.from(wrapped_pepper).equals(vault.wrapped_pepper)) return;
      for (const row of rows) ephemeralRows.set(row.id, ephemeralRows.get(row.id) ?? row);
    },
  };
  return { tenantRows, ephemeralRows, counts, vault, store };
};

const localProvider = (...bytes: number[]): RootKeys =>
  combineProviders(
    bytes.map((byte) => localKeyProvider(new Sensitive<Uint8Array>(Buffer.alloc(32, byte)), randomBytesFromKernel)),
  );

type World = ReturnType<typeof createRows> & {
  clock: { ms: number };
  keyring: Keyring;
  another(): Keyring;
};

const createWorld = async (provider = localProvider(1), environment = 'test'): Promise<World> => {
  const clock = { ms: START_MS };
  const rows = createRows(clock);
  rows.vault.wrapped_pepper = await provider.wrap(Buffer.alloc(32), ['pepper', environment]);
  const another = (): Keyring =>
    createKeyring({
      provider,
      store: rows.store,
      environment,
      now: () => new Date(clock.ms),
      randomBytes: randomBytesFromKernel,
      cvcTtlMs: CVC_TTL_MS,
    });
  return { ...rows, clock, keyring: another(), another };
};

const newRows = async ({ keyring, clock }: World, tenantId: string): Promise<TenantKeyRow[]> => {
  const { rows } = await keyring.newTenantKeys(tenantId, ['data', 'digest']);
  return rows.map((row) => ({ ...row, created_at: new Date(clock.ms) }));
};

const addTenant = async (world: World, tenantId = TENANT): Promise<void> => {
  world.tenantRows.push(...(await newRows(world, tenantId)));
};

test('a new tenant gets a data key and a digest key, with ids of their own', async () => {
  const { keyring } = await createWorld();
  const { rows } = await keyring.newTenantKeys(TENANT, ['data', 'digest']);
  expect(rows.map((row) => row.purpose).toSorted()).toEqual(['data', 'digest']);
  expect(new Set(rows.map((row) => row.id)).size).toBe(2);
  for (const row of rows) {
    expect(row.tenant_id).toBe(TENANT);
    expect(row.id).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  }
});

test('the newest keys seal and digest, older ones still open, in any order of rows', async () => {
  const world = await createWorld();
  await addTenant(world);
  const before = await world.keyring.tenantKeys(TENANT);
  const sealed = seal(before.data, binding, 'value', randomBytesFromKernel);
  world.clock.ms += 1_000;
  world.tenantRows.unshift(...(await newRows(world, TENANT)));
  world.keyring.forgetTenant(TENANT);
  // Other processes may not have loaded the new key yet.
  world.clock.ms += KEY_ACTIVE_AFTER_MS - 1;
  const early = await world.keyring.tenantKeys(TENANT);
  expect(early.data.id).toBe(before.data.id);
  expect(early.find(world.tenantRows.find((row) => row.purpose === 'data')?.id ?? '')).toBeDefined();
  world.keyring.forgetTenant(TENANT);
  world.clock.ms += 1;

  const after = await world.keyring.tenantKeys(TENANT);
  expect(after.data.id).toBe(world.tenantRows.find((row) => row.purpose === 'data')?.id);
  expect(after.digest.id).toBe(world.tenantRows.find((row) => row.purpose === 'digest')?.id);
  const old = after.find(keyIdOf(sealed));
  expect(old?.id).toBe(before.data.id);
  expect(old && open(old, binding, sealed).toString()).toBe('value');
  expect(after.find(after.data.id)?.id).toBe(after.data.id);
  expect(after.find(after.digest.id)).toBeUndefined();
  expect(after.find('00000000-0000-4000-8000-000000000000')).toBeUndefined();
});

test('loads of one tenant that overlap share one read, and later ones need none', async () => {
  const world = await createWorld();
  await addTenant(world);
  const loaded = await Promise.all(Array.from({ length: 20 }, () => world.keyring.tenantKeys(TENANT)));
  expect(new Set(loaded).size).toBe(1);
  await world.keyring.tenantKeys(TENANT);
  expect(world.counts.tenantReads).toBe(1);
});

test('a load that failed is tried again', async () => {
  const world = await createWorld();
  await expect(world.keyring.tenantKeys(TENANT)).rejects.toThrow(TenantKeysGone);
  await addTenant(world);
  await expect(world.keyring.tenantKeys(TENANT)).resolves.toBeDefined();
});

test('a forgotten tenant is read again, even when its keys were just being read', async () => {
  const world = await createWorld();
  await addTenant(world);
  const loading = world.keyring.tenantKeys(TENANT);
  world.keyring.forgetTenant(TENANT);
  world.tenantRows.length = 0;
  await loading.catch(() => undefined);
  await expect(world.keyring.tenantKeys(TENANT)).rejects.toThrow(TenantKeysGone);
});

test('a tenant without keys, or without one of the two, is gone', async () => {
  for (const purpose of ['data', 'digest'] as const) {
    const world = await createWorld();
    await addTenant(world);
    world.tenantRows.splice(0, 2, ...world.tenantRows.filter((row) => row.purpose === purpose));
    await expect(world.keyring.tenantKeys(TENANT)).rejects.toThrow(TenantKeysGone);
  }
});

test("tenants share no keys: neither opens the other's values, nor has its fingerprints", async () => {
  const other = '0b7d8f0c-6f0e-4a55-8d1c-3f5f1f0e7c12';
  const world = await createWorld();
  await addTenant(world);
  await addTenant(world, other);
  const one = await world.keyring.tenantKeys(TENANT);
  const two = await world.keyring.tenantKeys(other);
  const sealed = seal(one.data, binding, 'value', randomBytesFromKernel);
  expect(two.find(keyIdOf(sealed))).toBeUndefined();
  expect(() => open({ ...one.data, key: two.data.key }, binding, sealed)).toThrow(SealBroken);
  expect(fingerprint(one.digest, 'card', '4242')).not.toBe(fingerprint(two.digest, 'card', '4242'));
});

test('a key row moved to another tenant, id, purpose or environment is refused', async () => {
  const other = '0b7d8f0c-6f0e-4a55-8d1c-3f5f1f0e7c12';
  for (const moved of [
    { tenant_id: other },
    { id: '5f0c954e-38f5-4c1b-9d64-7a3a7e0f6a01' },
    { purpose: 'digest' as const },
  ]) {
    const world = await createWorld();
    await addTenant(world);
    await addTenant(world, other);
    const index = world.tenantRows.findIndex((row) => row.purpose === 'data');
    const row = world.tenantRows[index] as TenantKeyRow;
    world.tenantRows[index] = { ...row, ...moved };
    await expect(world.keyring.tenantKeys(moved.tenant_id ?? TENANT)).rejects.toThrow(SealBroken);
  }
  const world = await createWorld();
  await addTenant(world);
  const live = await createWorld(localProvider(1), 'live');
  live.tenantRows.push(...world.tenantRows);
  await expect(live.keyring.tenantKeys(TENANT)).rejects.toThrow(SealBroken);
});

test('keys under a root key that is not at hand are refused by name', async () => {
  const world = await createWorld();
  await addTenant(world);
  const elsewhere = await createWorld(localProvider(2));
  elsewhere.tenantRows.push(...world.tenantRows);
  await expect(elsewhere.keyring.tenantKeys(TENANT)).rejects.toThrow(RootKeyUnknown);
});

test('an ephemeral key serves the values of one slot, and the next slot has another', async () => {
  const { keyring, clock } = await createWorld();
  const first = await keyring.ephemeralKey();
  clock.ms = START_MS + EPHEMERAL_SLOT_MS - 1;
  expect((await keyring.ephemeralKey()).id).toBe(first.id);
  clock.ms += 1;
  expect((await keyring.ephemeralKey()).id).not.toBe(first.id);
});

test('a security code opens until its key is destroyed, a TTL after the end of its slot', async () => {
  const { keyring, clock, ephemeralRows } = await createWorld();
  const key = await keyring.ephemeralKey();
  const sealed = seal(key, binding, '123', randomBytesFromKernel);
  const destroyMs = START_MS + EPHEMERAL_SLOT_MS + CVC_TTL_MS;
  expect(ephemeralRows.get(key.id)?.destroy_at.getTime()).toBe(destroyMs);

  clock.ms = destroyMs - 1;
  const found = await keyring.findEphemeralKey(keyIdOf(sealed));
  expect(found && open(found, binding, sealed).toString()).toBe('123');
  clock.ms = destroyMs;
  expect(await keyring.findEphemeralKey(keyIdOf(sealed))).toBeUndefined();
});

test('a key whose row is gone opens nothing, though its slot still runs', async () => {
  const { keyring, ephemeralRows } = await createWorld();
  const { id } = await keyring.ephemeralKey();
  expect(await keyring.findEphemeralKey(id)).toBeDefined();
  ephemeralRows.clear();
  expect(await keyring.findEphemeralKey(id)).toBeUndefined();
});

test('keys whose rows are gone are stored again until they are to be destroyed, and open codes', async () => {
  const { keyring, ephemeralRows, store, clock } = await createWorld();
  const earlier = seal(await keyring.ephemeralKey(), binding, '123', randomBytesFromKernel);
  clock.ms += EPHEMERAL_SLOT_MS;
  const before = seal(await keyring.ephemeralKey(), binding, '456', randomBytesFromKernel);
  ephemeralRows.clear();
  const since = seal(await keyring.ephemeralKey(), binding, '789', randomBytesFromKernel);
  await keyring.restoreEphemeralKeys(store);
  for (const [sealed, code] of [
    [earlier, '123'],
    [before, '456'],
    [since, '789'],
  ] as const) {
    const found = await keyring.findEphemeralKey(keyIdOf(sealed));
    expect(found && open(found, binding, sealed).toString()).toBe(code);
  }
  // The first is to be destroyed now, the second half a minute later.
  ephemeralRows.clear();
  clock.ms += CVC_TTL_MS;
  await keyring.restoreEphemeralKeys(store);
  expect([...ephemeralRows.keys()]).toEqual([keyIdOf(before)]);
  ephemeralRows.clear();
  clock.ms += EPHEMERAL_SLOT_MS;
  await keyring.restoreEphemeralKeys(store);
  expect(ephemeralRows.size).toBe(0);
});

test('keys that are stored again are wrapped by the root key of today', async () => {
  const world = await createWorld(localProvider(1, 2));
  const sealed = seal(await world.keyring.ephemeralKey(), binding, '123', randomBytesFromKernel);
  world.vault.wrapped_pepper = await localProvider(2).wrap(Buffer.alloc(32), ['pepper', 'test']);
  world.ephemeralRows.clear();
  await world.keyring.restoreEphemeralKeys(world.store);
  const later = createKeyring({
    provider: localProvider(2),
    store: world.store,
    environment: 'test',
    now: () => new Date(world.clock.ms),
    randomBytes: randomBytesFromKernel,
    cvcTtlMs: CVC_TTL_MS,
  });
  const found = await later.findEphemeralKey(keyIdOf(sealed));
  expect(found && open(found, binding, sealed).toString()).toBe('123');
});

test('of two processes that store a slot again both seal under the key of the first', async () => {
  const world = await createWorld();
  const other = world.another();
  await world.keyring.ephemeralKey();
  world.ephemeralRows.clear();
  await other.ephemeralKey();
  await world.keyring.restoreEphemeralKeys(world.store);
  const sealed = seal(await world.keyring.ephemeralKey(), binding, '123', randomBytesFromKernel);
  const found = await other.findEphemeralKey(keyIdOf(sealed));
  expect(found && open(found, binding, sealed).toString()).toBe('123');
});

test('two processes on one store agree on the key of a slot, also when they begin it at once', async () => {
  const world = await createWorld();
  const other = world.another();
  const [one, two] = await Promise.all([world.keyring.ephemeralKey(), other.ephemeralKey()]);
  expect(two.id).toBe(one.id);
  const sealed = seal(one, binding, '123', randomBytesFromKernel);
  expect(open(two, binding, sealed).toString()).toBe('123');
  const found = await other.findEphemeralKey(one.id);
  expect(found && open(found, binding, sealed).toString()).toBe('123');
  expect(world.ephemeralRows.size).toBe(1);
});

test("an ephemeral key's row put under another id is refused", async () => {
  const { keyring, clock, ephemeralRows } = await createWorld();
  const first = await keyring.ephemeralKey();
  clock.ms += EPHEMERAL_SLOT_MS;
  const second = await keyring.ephemeralKey();
  const row = ephemeralRows.get(first.id) as EphemeralKeyRow;
  ephemeralRows.set(second.id, { ...row, id: second.id });
  await expect(keyring.findEphemeralKey(second.id)).rejects.toThrow(SealBroken);
});

test('a slot whose time of destruction was changed is refused', async () => {
  const { keyring, clock, ephemeralRows } = await createWorld();
  const { id } = await keyring.ephemeralKey();
  expect(id).toBe(slotIdOf(clock.ms));
  const row = ephemeralRows.get(id) as EphemeralKeyRow;
  ephemeralRows.set(id, { ...row, destroy_at: new Date(row.destroy_at.getTime() + 1) });
  await expect(keyring.findEphemeralKey(id)).rejects.toThrow(SealBroken);
  ephemeralRows.set(id, row);
  expect((await keyring.findEphemeralKey(id))?.id).toBe(id);
});

test('a slot that could not be begun is tried again', async () => {
  const world = await createWorld();
  const add = world.store.addEphemeralKeys;
  world.store.addEphemeralKeys = () => Promise.reject(new Error('the database is away'));
  await expect(world.keyring.ephemeralKey()).rejects.toThrow('away');
  world.store.addEphemeralKeys = add;
  await expect(world.keyring.ephemeralKey()).resolves.toBeDefined();
});

test('a closed keyring has forgotten its keys', async () => {
  const world = await createWorld();
  await addTenant(world);
  await world.keyring.tenantKeys(TENANT);
  world.keyring.close();
  await world.keyring.tenantKeys(TENANT);
  expect(world.counts.tenantReads).toBe(2);
});

afterEach(() => {
  vi.useRealTimers();
});

test('keys are cached for three minutes, and overwritten after five: then they seal nothing', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const world = await createWorld();
  await addTenant(world);
  const { keyring, counts } = world;
  const keys = await keyring.tenantKeys(TENANT);
  const sealed = seal(keys.data, binding, 'value', randomBytesFromKernel);
  await vi.advanceTimersByTimeAsync(3 * 60_000 - 1);
  expect(await keyring.tenantKeys(TENANT)).toBe(keys);
  await vi.advanceTimersByTimeAsync(2 * 60_000);
  // A request that was given the keys at the last moment still uses them.
  expect(open(keys.data, binding, sealed).toString()).toBe('value');
  await vi.advanceTimersByTimeAsync(1);
  expect(() => seal(keys.data, binding, 'value', randomBytesFromKernel)).toThrow();
  expect(keys.data.key.derivation).toEqual(Buffer.alloc(32));
  expect(keys.find(keys.data.id)).toBeUndefined();
  const again = await keyring.tenantKeys(TENANT);
  expect(counts.tenantReads).toBe(2);
  expect(open(again.data, binding, sealed).toString()).toBe('value');
});

test('held keys and those of a forgotten tenant are overwritten when their users are done', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const world = await createWorld();
  await addTenant(world);
  const { keys, release } = await world.keyring.holdTenantKeys(TENANT);
  world.keyring.forgetTenant(TENANT);
  await vi.advanceTimersByTimeAsync(30 * 60_000);
  seal(keys.data, binding, 'value', randomBytesFromKernel);
  release();
  release();
  await vi.advanceTimersByTimeAsync(0);
  expect(() => seal(keys.data, binding, 'value', randomBytesFromKernel)).toThrow();
  const forgotten = await world.keyring.tenantKeys(TENANT);
  world.keyring.forgetTenants();
  seal(forgotten.data, binding, 'value', randomBytesFromKernel);
  await vi.advanceTimersByTimeAsync(2 * 60_000);
  expect(() => seal(forgotten.data, binding, 'value', randomBytesFromKernel)).toThrow();
});
