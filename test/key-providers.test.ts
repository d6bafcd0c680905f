// Each key provider wraps and unwraps by one contract, fails clearly while its service is away, and a rotation moves between them.
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rotateRootKey } from '../src/cli/vault-keys.ts';
import { awsKmsProviders } from '../src/platform/crypto/aws-kms.ts';
import { haveOneRootKey, type KeyProvider, parseWrapped } from '../src/platform/crypto/key-provider.ts';
import { localKeyProvider } from '../src/platform/crypto/local-key-provider.ts';
import { pkcs11Providers } from '../src/platform/crypto/pkcs11/client.ts';
import { randomBytesFromKernel } from '../src/platform/crypto/random.ts';
import { SealBroken } from '../src/platform/crypto/seal.ts';
import { Sensitive } from '../src/platform/crypto/sensitive.ts';
import { vaultTransitProviders, type VaultTransitConfig } from '../src/platform/crypto/vault-transit.ts';
import { callCommand } from './support/command.ts';
import {
  APPROLE,
  AWS_CREDENTIALS,
  type Failure,
  type KeyServiceServer,
  kmsArn,
  OTHER_REGION,
  startKms,
  startTransit,
  TRANSIT_TOKEN,
  type TransitServer,
} from './support/key-services.ts';
import { startServer, TEST_ROOT_KEY } from './support/server.ts';
import { createToken, hasSoftHsm, type SoftHsm } from './support/softhsm.ts';

let hsm: SoftHsm | undefined;
let transit: TransitServer;
let kms: KeyServiceServer;

beforeAll(async () => {
  // As the SDK of AWS finds them.
  Object.assign(process.env, AWS_CREDENTIALS);
  transit = await startTransit(['one', 'two']);
  kms = await startKms(['one', 'two']);
  if (hasSoftHsm) hsm = createToken(['one', 'two']);
});
afterAll(async () => {
  await transit.close();
  await kms.close();
  hsm?.close();
});

const transitConfig = (credentials: VaultTransitConfig['credentials']): VaultTransitConfig => ({
  address: transit.url,
  namespace: undefined,
  mount: 'transit',
  keys: ['one', 'two'],
  caFile: undefined,
  credentials,
});
const rootKey = (byte: number) => new Sensitive<Uint8Array>(Buffer.alloc(32, byte));

/** Two root keys of each provider, made anew, so that no failure of an earlier test is remembered. */
const makers: Record<string, (attemptMs?: number) => Promise<KeyProvider[]>> = {
  local: async () => [1, 2].map((byte) => localKeyProvider(rootKey(byte), randomBytesFromKernel)),
  'vault-transit': async (attemptMs) =>
    vaultTransitProviders(transitConfig({ kind: 'token', token: TRANSIT_TOKEN }), attemptMs),
  'aws-kms': (attemptMs) => awsKmsProviders({ keys: [kmsArn('one'), kmsArn('two')], endpoint: kms.url }, attemptMs),
  ...(hasSoftHsm && { pkcs11: () => pkcs11Providers((hsm as SoftHsm).config(), randomBytesFromKernel) }),
};
const services: Record<string, () => KeyServiceServer> = { 'vault-transit': () => transit, 'aws-kms': () => kms };

const key = Buffer.alloc(32, 0xaa);
const context = ['tenant key', 'test', '0b7d8f0c-6f0e-4a55-8d1c-3f5f1f0e7c11', 'data', 'id'];

describe.each(Object.keys(makers))('the provider %s', (name) => {
  const opened: KeyProvider[] = [];
  const make = async () => {
    const providers = await (makers[name] as () => Promise<KeyProvider[]>)();
    opened.push(...providers);
    return providers as [KeyProvider, KeyProvider];
  };
  afterAll(() => opened.forEach((provider) => provider.close?.()));

  test('unwraps what it wrapped, which names the root key and shows nothing of the key', async () => {
    const [one] = await make();
    const wrapped = await one.wrap(key, context);
    expect(await one.unwrap(wrapped, context)).toEqual(key);
    expect(wrapped.includes(key.subarray(0, 8))).toBe(false);
    expect(await one.wrap(key, context)).not.toEqual(wrapped);
    const { name: named, root_key_id } = parseWrapped(wrapped);
    expect({ name: named, root_key_id }).toEqual(one.describe());
    expect(named).toBe(name);
  });

  test('unwraps for the same context only, of which every part counts', async () => {
    const [one] = await make();
    const wrapped = await one.wrap(key, context);
    const others = [...context.keys()].map((index) => context.with(index, 'other'));
    for (const other of [...others, context.slice(0, -1), [...context, ''], []])
      await expect(one.unwrap(wrapped, other), other.join()).rejects.toThrow(SealBroken);
  });

  test('refuses what was changed or cut, and what another root key wrapped', async () => {
    const [one, two] = await make();
    const wrapped = await one.wrap(key, context);
    const { body } = parseWrapped(wrapped);
    // The last bytes of the body, past names and versions.
    for (const back of [1, 9, 20]) {
      const changed = Buffer.from(wrapped);
      changed[changed.length - back - 3] = changed.at(-back - 3) === 65 ? 66 : 65;
      await expect(one.unwrap(changed, context)).rejects.toThrow(SealBroken);
    }
    for (const size of [0, 1, 5, wrapped.length - body.length, wrapped.length - 8])
      await expect(one.unwrap(wrapped.subarray(0, size), context)).rejects.toThrow(SealBroken);
    await expect(two.unwrap(wrapped, context)).rejects.toThrow();
    expect(haveOneRootKey(wrapped, await two.wrap(key, context))).toBe(false);
  });
});

/** A service that never answers is given up after this time. */
const SLOW_MS = 200;

describe.each(Object.keys(services))('the service of %s', (name) => {
  const service = () => (services[name] as () => KeyServiceServer)();
  const make = async (attemptMs?: number): Promise<KeyProvider> =>
    (await makers[name]?.(attemptMs))?.[0] as KeyProvider;

  test.each<[Failure, number, number]>([
    ['down', 3, 0],
    ['rubbish', 3, 0],
    ['slow', 3, 0],
    // It may concern one key only.
    ['forbidden', 1, 1],
  ])('that is %s makes a call fail after %i attempts, and the next after %i', async (failure, attempts, further) => {
    const provider = await make(failure === 'slow' ? SLOW_MS : undefined);
    service().failure = failure;
    service().calls = 0;
    const failed = await provider.wrap(key, context).catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: 'unavailable', retryAfterSeconds: 1, cause: { name: 'KeyServiceFault' } });
    expect(service().calls).toBe(attempts);
    expect(provider.isAvailable?.()).toBe(false);
    await expect(provider.wrap(key, context)).rejects.toMatchObject({ code: 'unavailable' });
    expect(service().calls).toBe(attempts + further);
    service().failure = 'none';
  });

  test('that refuses some calls is asked again, a few calls at a time', async () => {
    const provider = await make();
    service().failure = 'busy';
    service().calls = 0;
    expect(await provider.unwrap(await provider.wrap(key, context), context)).toEqual(key);
    service().failure = 'none';
    const wrapped = await Promise.all(Array.from({ length: 40 }, () => provider.wrap(key, context)));
    expect(new Set(wrapped.map((each) => each.toString('hex'))).size).toBe(40);
  });
});

describe('vault-transit', () => {
  test('signs in by AppRole, and again when its token was revoked', async () => {
    const [provider] = vaultTransitProviders(transitConfig({ kind: 'approle', ...APPROLE })) as [KeyProvider];
    transit.logins = 0;
    const wrapped = await provider.wrap(key, context);
    await provider.unwrap(wrapped, context);
    expect(transit.logins).toBe(1);
    transit.revokeTokens();
    expect(await provider.unwrap(wrapped, context)).toEqual(key);
    expect(transit.logins).toBe(2);
  });

  test('reads a token file for each call, and names no token in its error', async () => {
    const path = join(tmpdir(), `strongroom-token-${process.pid}`);
    writeFileSync(path, 'hvs.wrong\n');
    const [provider] = vaultTransitProviders(transitConfig({ kind: 'token_file', path })) as [KeyProvider];
    const failed = await provider.wrap(key, context).catch((error: Error) => error);
    expect(failed).toMatchObject({ code: 'unavailable' });
    expect(String((failed as Error).cause)).not.toContain('hvs.wrong');
    expect(String((failed as Error).cause)).toContain('refused the credentials');
  });
});

test('vault-transit tells a refusal of a key from a changed ciphertext; other keys serve on', async () => {
  const config = { ...transitConfig({ kind: 'approle', ...APPROLE }), keys: ['one', 'gone'] };
  const [one, gone] = vaultTransitProviders(config) as [KeyProvider, KeyProvider];
  const wrapped = await one.wrap(key, context);
  const causeOf = (failing: Promise<unknown>) => failing.catch((error: Error) => String(error.cause));
  transit.minVersion = 2;
  expect(await causeOf(one.unwrap(wrapped, context))).toContain('lower min_decryption_version');
  transit.minVersion = 1;
  expect(await causeOf(gone.unwrap(wrapped, context))).toContain('no such key');
  expect(await one.unwrap(wrapped, context)).toEqual(key);
});

test('aws-kms asks the region of each key', async () => {
  const keys = [kmsArn('one'), kmsArn('far', OTHER_REGION)];
  for (const provider of await awsKmsProviders({ keys, endpoint: kms.url }))
    expect(await provider.unwrap(await provider.wrap(key, context), context)).toEqual(key);
});

test('a rotation moves a vault from a local root key to Vault, a next version, and KMS', async () => {
  const local = await startServer();
  const made = await local.tokenize({ type: 'token', data: 'kept' });
  const { databaseUrl: url } = local;
  const kept = { database: { url, address: undefined as never, drop: async () => undefined } };
  const vaultVariables = {
    MASTER_KEY_PROVIDER: 'vault-transit',
    VAULT_ADDR: transit.url,
    VAULT_ROLE_ID: APPROLE.role_id,
    VAULT_SECRET_ID: APPROLE.secret_id,
    VAULT_TRANSIT_KEY: 'two',
  };
  const kmsVariables = { AWS_KMS_KEY: kmsArn('two'), AWS_KMS_ENDPOINT: kms.url };
  const key = local.tenant.api_key;
  const readAt = (server: typeof local) => server.request('GET', `/tokens/${made.body.id}`, { key });

  const both = await startServer({ ...vaultVariables, MASTER_KEY: '', MASTER_KEY_PREVIOUS: TEST_ROOT_KEY }, {}, kept);
  expect((await readAt(both)).status).toBe(200);
  const first = await rotateRootKey(both.ctx, () => undefined);
  expect(first).toMatchObject({ broken: [], root_key: 'vault-transit transit/two' });
  transit.rotate('two');
  expect((await rotateRootKey(both.ctx, () => undefined)).rotated).toBe(first.rotated);
  expect((await rotateRootKey(both.ctx, () => undefined)).rotated).toBe(0);

  // Away: cached keys serve, a key that no cache holds is a 503, and no start succeeds.
  expect((await readAt(both)).status).toBe(200);
  const other = await both.newTenant();
  transit.failure = 'down';
  expect((await readAt(both)).status).toBe(200);
  const refused = await both.tokenize({ data: 'x' }, other.api_key);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  expect((await both.request('GET', '/readyz')).body).toMatchObject({ status: 'ok', key_provider: 'unavailable' });
  const command = await callCommand(['tenants', 'list'], {
    env: { NODE_ENV: 'test', DATABASE_URL: url, ...vaultVariables },
  });
  expect([command.code, command.stderr]).toEqual([1, expect.stringContaining('vault-transit does not answer')]);
  transit.failure = 'none';
  await expect
    .poll(async () => (await both.tokenize({ data: 'x' }, other.api_key)).status, { timeout: 5_000 })
    .toBe(200);
  expect((await both.request('GET', '/readyz')).body).not.toHaveProperty('key_provider');
  await both.close();

  const moved = await startServer(
    { ...vaultVariables, ...kmsVariables, MASTER_KEY: '', MASTER_KEY_PROVIDER: 'aws-kms,vault-transit' },
    {},
    kept,
  );
  expect(await rotateRootKey(moved.ctx, () => undefined)).toMatchObject({ broken: [] });
  await moved.close();
  const alone = await startServer({ ...kmsVariables, MASTER_KEY: '', MASTER_KEY_PROVIDER: 'aws-kms' }, {}, kept);
  expect((await readAt(alone)).status).toBe(200);
  await alone.close();
  await local.close();
});
