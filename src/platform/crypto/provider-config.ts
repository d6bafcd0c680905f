// Which key providers a configuration names, and what each needs.
import type { AwsKmsConfig } from './aws-kms.ts';
import type { Pkcs11Config } from './pkcs11/client.ts';
import type { VaultTransitConfig } from './vault-transit.ts';

export const PROVIDER_NAMES = ['local', 'vault-transit', 'aws-kms', 'pkcs11'] as const;

export type ProviderName = (typeof PROVIDER_NAMES)[number];

export type KeyProvidersConfig = {
  /** The first wraps; the others open what they wrapped, until a rotation has moved all keys to the first. */
  names: ProviderName[];
  vaultTransit: VaultTransitConfig | undefined;
  awsKms: AwsKmsConfig | undefined;
  pkcs11: Pkcs11Config | undefined;
};

/** The variables, parsed one by one. */
export type ProviderVariables = {
  MASTER_KEY_PROVIDER: ProviderName[];
  VAULT_ADDR?: string | undefined;
  VAULT_NAMESPACE?: string | undefined;
  VAULT_CACERT?: string | undefined;
  VAULT_TOKEN?: string | undefined;
  VAULT_TOKEN_FILE?: string | undefined;
  VAULT_ROLE_ID?: string | undefined;
  VAULT_SECRET_ID?: string | undefined;
  VAULT_TRANSIT_MOUNT: string;
  VAULT_TRANSIT_KEY?: string[] | undefined;
  AWS_KMS_KEY?: string[] | undefined;
  AWS_KMS_ENDPOINT?: string | undefined;
  PKCS11_MODULE?: string | undefined;
  PKCS11_TOKEN?: string | undefined;
  PKCS11_KEY?: string[] | undefined;
  PKCS11_PIN?: string | undefined;
};

const credentialsOf = (values: ProviderVariables): VaultTransitConfig['credentials'] | undefined => {
  const { VAULT_TOKEN: token, VAULT_TOKEN_FILE: path, VAULT_ROLE_ID: role_id, VAULT_SECRET_ID: secret_id } = values;
  if (token !== undefined) return { kind: 'token', token };
  if (path !== undefined) return { kind: 'token_file', path };
  return role_id !== undefined && secret_id !== undefined ? { kind: 'approle', role_id, secret_id } : undefined;
};

/** Credentials of other systems, and options of Node: the library of a vendor needs none. */
const WITHHELD_FROM_LIBRARIES = /^(?:PG|AWS_|NODE_OPTIONS$)/;

const pkcs11Of = (
  { PKCS11_MODULE: module, PKCS11_TOKEN: token, PKCS11_KEY: keys, PKCS11_PIN: pin }: ProviderVariables,
  environment: Record<string, string>,
  problems: string[],
): Pkcs11Config | undefined => {
  if (module === undefined)
    problems.push("PKCS11_MODULE: needed with pkcs11: the path of the library of the HSM's vendor");
  if (token === undefined) problems.push('PKCS11_TOKEN: needed with pkcs11: the label of the token');
  if (keys === undefined) problems.push('PKCS11_KEY: needed with pkcs11: the label of the AES key');
  if (pin === undefined) problems.push('PKCS11_PIN_FILE: needed with pkcs11, or PKCS11_PIN: the PIN of the user');
  if (module === undefined || token === undefined || keys === undefined || pin === undefined) return undefined;
  const kept = Object.entries(environment).filter(([name]) => !WITHHELD_FROM_LIBRARIES.test(name));
  return { module, token, keys, pin, environment: Object.fromEntries(kept) };
};

/**
 * @param foreign variables that are none of Strongroom's: a library of an HSM may need some.
 * @param problems gets a sentence for each variable that is missing.
 */
export const keyProvidersOf = (
  values: ProviderVariables,
  foreign: Record<string, string>,
  problems: string[],
): KeyProvidersConfig => {
  const names = values.MASTER_KEY_PROVIDER;
  const config: KeyProvidersConfig = { names, vaultTransit: undefined, awsKms: undefined, pkcs11: undefined };
  if (names.includes('vault-transit')) {
    const { VAULT_ADDR: address, VAULT_TRANSIT_KEY: keys } = values;
    const credentials = credentialsOf(values);
    if (address === undefined)
      problems.push('VAULT_ADDR: needed with vault-transit, such as https://vault.internal:8200');
    if (keys === undefined) problems.push('VAULT_TRANSIT_KEY: needed with vault-transit: the name of the key');
    if (credentials === undefined)
      problems.push(
        'VAULT_TOKEN_FILE: needed with vault-transit, or VAULT_TOKEN, or VAULT_ROLE_ID and VAULT_SECRET_ID',
      );
    if (address !== undefined && keys !== undefined && credentials !== undefined)
      config.vaultTransit = {
        address,
        keys,
        credentials,
        namespace: values.VAULT_NAMESPACE,
        caFile: values.VAULT_CACERT,
        mount: values.VAULT_TRANSIT_MOUNT,
      };
  }
  if (names.includes('aws-kms')) {
    if (values.AWS_KMS_KEY === undefined) problems.push('AWS_KMS_KEY: needed with aws-kms: the ARN of the key');
    else config.awsKms = { keys: values.AWS_KMS_KEY, endpoint: values.AWS_KMS_ENDPOINT };
  }
  if (names.includes('pkcs11')) config.pkcs11 = pkcs11Of(values, foreign, problems);
  return config;
};
