// Loads the root key of a vault and verifies it: a start with a wrong root key or environment fails before any write.
import { link, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Config } from '../config/config.ts';
import { parseRootKey } from '../config/keys.ts';
import { AppError, StartError } from '../base/errors.ts';
import { makeDirectory, syncDirectory, writePrivate } from '../base/files.ts';
import { type DigestKey, prepareDigestKey } from '../crypto/digest.ts';
import { newUuid } from '../crypto/ids.ts';
import { awsKmsProviders } from '../crypto/aws-kms.ts';
import {
  combineProviders,
  type KeyProvider,
  parseWrapped,
  RootKeyUnknown,
  type RootKeys,
} from '../crypto/key-provider.ts';
import { KeyServiceFault } from '../crypto/key-service.ts';
import { localKeyProvider } from '../crypto/local-key-provider.ts';
import { pkcs11Providers } from '../crypto/pkcs11/client.ts';
import { randomBytesFromKernel } from '../crypto/random.ts';
import { SealBroken } from '../crypto/seal.ts';
import { Sensitive } from '../crypto/sensitive.ts';
import { vaultTransitProviders } from '../crypto/vault-transit.ts';

export const ROOT_KEY_BYTES = 32;
/** Bytes of the pepper: as many as a digest under it has. */
const PEPPER_BYTES = 32;

export type Environment = 'test' | 'live';

export const environmentOf = (config: Config): Environment => (config.mode === 'production' ? 'live' : 'test');

const rootKeyPath = (config: Config) => join(config.dataDir, 'master.key');

/** The configured root key, or the one that a development server generated; undefined if there is neither. */
export const findRootKeyBytes = async (config: Config): Promise<Buffer | undefined> => {
  if (config.rootKey) return config.rootKey;
  const path = rootKeyPath(config);
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw new StartError(`The root key ${path} cannot be read. Make it readable: chmod 600 ${path}`);
  });
  if (text === undefined) return undefined;
  const key = parseRootKey(text);
  if (key) return key;
  throw new StartError(`The root key ${path} is not 32 bytes in base64. Restore it from your backup.`);
};

/** The key that `findRootKeyBytes` finds, in a form that is never logged. */
const readRootKey = async (config: Config): Promise<Sensitive<Uint8Array> | undefined> => {
  const key = await findRootKeyBytes(config);
  return key && new Sensitive<Uint8Array>(key);
};

/** The root keys of a configuration: the first wraps after the next rotation. @param local that of the provider `local`. */
const rootKeysOf = async (config: Config, local: Sensitive<Uint8Array> | undefined): Promise<RootKeys> => {
  const { names, vaultTransit, awsKms, pkcs11 } = config.keyProviders;
  const localProvider = (key: Sensitive<Uint8Array>) => localKeyProvider(key, randomBytesFromKernel);
  const providers: KeyProvider[] = [];
  for (const name of names) {
    if (name === 'local' && local) providers.push(localProvider(local));
    if (name === 'vault-transit' && vaultTransit) providers.push(...vaultTransitProviders(vaultTransit));
    if (name === 'aws-kms' && awsKms) providers.push(...(await awsKmsProviders(awsKms)));
    if (name === 'pkcs11' && pkcs11) providers.push(...(await pkcs11Providers(pkcs11, randomBytesFromKernel)));
  }
  providers.push(...config.previousRootKeys.map((key) => localProvider(new Sensitive<Uint8Array>(key))));
  return combineProviders(providers);
};

/** Whether the configuration is complete without a local root key. */
const isElsewhere = ({ keyProviders: { names } }: Config): boolean => !names.includes('local');

/** The key provider of an existing vault. Never generates a key. @throws StartError if the root key is missing or wrong. */
export const openVault = async (config: Config, instance: Instance, environment: Environment): Promise<RootKeys> => {
  checkEnvironment(instance, environment);
  const key = await readRootKey(config);
  if (!key && !isElsewhere(config))
    throw new StartError(
      `The root key is missing: this vault's data was sealed under the key that was in ${rootKeyPath(config)}. Nothing was written. Restore that file from your backup, or set MASTER_KEY to the key.`,
    );
  const provider = await rootKeysOf(config, key);
  try {
    await openPepper(provider, instance, environment);
  } catch (error) {
    provider.close();
    throw error;
  }
  return provider;
};

/** Generates and stores the root key of a development server. If several processes do so at once, all return the same key. */
const makeRootKey = async (config: Config): Promise<Sensitive<Uint8Array>> => {
  const path = rootKeyPath(config);
  const key = randomBytesFromKernel(ROOT_KEY_BYTES);
  const made = await makeDirectory(config.dataDir);
  if (made !== undefined) await syncDirectory(dirname(made));
  // Written to a draft, then hard-linked: no process reads a partial key, and link() never replaces an existing one.
  const draft = `${path}.${newUuid()}`;
  try {
    await writePrivate(draft, `${key.toString('base64')}\n`);
    await link(draft, path);
    await syncDirectory(config.dataDir);
    return new Sensitive(key);
  } catch (error) {
    const first = (error as NodeJS.ErrnoException).code === 'EEXIST' ? await readRootKey(config) : undefined;
    if (first) return first;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
};

export const pepperContext = (environment: string): string[] => ['pepper', environment];

type Instance = { environment: string; wrapped_pepper: Uint8Array };

const checkEnvironment = (instance: Instance, environment: Environment): void => {
  if (instance.environment === environment) return;
  throw new StartError(
    `This database belongs to a ${instance.environment === 'live' ? 'production' : 'development'} vault and this server is the other kind. Point DATABASE_URL at another database, or set NODE_ENV as it was.`,
  );
};

/** @throws StartError for the failure of a key service. */
const throwProviderFault = (name: string, error: unknown): void => {
  if (!(error instanceof AppError && error.cause instanceof KeyServiceFault)) return;
  throw new StartError(
    `The key provider ${name} ${error.cause.message}. Nothing was written. Check its address, its key and the credentials: docs/operations/keys.md`,
  );
};

/** Unwraps the pepper. This also verifies the configuration: it succeeds only with the root key and environment that wrapped it. */
export const openPepper = async (
  provider: RootKeys,
  instance: Instance,
  environment: Environment,
): Promise<DigestKey> => {
  checkEnvironment(instance, environment);
  try {
    const bytes = await provider.unwrap(instance.wrapped_pepper, pepperContext(environment));
    const pepper = prepareDigestKey('pepper', bytes);
    // The prepared key has a copy.
    bytes.fill(0);
    return pepper;
  } catch (error) {
    const { name, root_key_id } = parseWrapped(instance.wrapped_pepper);
    throwProviderFault(name, error);
    if (error instanceof RootKeyUnknown && name !== 'local')
      throw new StartError(
        `The root key does not open this vault: its keys were wrapped under ${name} ${root_key_id}, which is not at hand. Nothing was written. Name ${name} in MASTER_KEY_PROVIDER, and that key in the variable of the provider: docs/operations/keys.md`,
      );
    if (!(error instanceof RootKeyUnknown) && !(error instanceof SealBroken)) throw error;
    throw new StartError(
      'The root key does not open this vault: MASTER_KEY is not the one its data was sealed under. Nothing was written. Set MASTER_KEY to the key from your secret manager (a development server keeps its own in DATA_DIR/master.key). Before a rotation, set MASTER_KEY_PREVIOUS to the key of today too. Where another key provider has the root key, name it in MASTER_KEY_PROVIDER.',
    );
  }
};

/** The key provider of a vault that is to be restored: a new key would open none of it. @throws StartError without a root key. */
export const openRootKey = async (config: Config): Promise<RootKeys> => {
  const key = await readRootKey(config);
  if (key || isElsewhere(config)) return rootKeysOf(config, key);
  throw new StartError(
    `There is no root key: a backup is restored with the root key of its vault. Set MASTER_KEY to the key from your secret manager, or put the file back: ${rootKeyPath(config)}`,
  );
};

/** The key provider of a new vault. The root key is on disk before any row needs it. */
export const newVaultProvider = async (config: Config): Promise<RootKeys> =>
  rootKeysOf(config, isElsewhere(config) ? undefined : ((await readRootKey(config)) ?? (await makeRootKey(config))));

/** @throws StartError where the key service gives none. */
export const newWrappedPepper = async (provider: RootKeys, environment: Environment): Promise<Uint8Array> => {
  try {
    return await provider.wrap(randomBytesFromKernel(PEPPER_BYTES), pepperContext(environment));
  } catch (error) {
    throwProviderFault(provider.describe().name, error);
    throw error;
  }
};
