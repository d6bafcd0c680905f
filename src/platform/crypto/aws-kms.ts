// The key provider of AWS KMS. Its client is loaded only where the configuration names the provider.
import { StartError } from '../base/errors.ts';
import { formatNamed, type KeyProvider, parseWrapped } from './key-provider.ts';
import {
  badAnswer,
  bindToContext,
  createKeyService,
  KeyServiceFault,
  noAnswer,
  notAllowed,
  refusedWith,
  unbind,
} from './key-service.ts';
import { SealBroken } from './seal.ts';

export type AwsKmsConfig = {
  /** ARNs of keys: the first wraps. */
  keys: string[];
  /** In place of the public endpoint of the region. */
  endpoint: string | undefined;
};

const NAME = 'aws-kms';

/** The names of errors of KMS: the reference of its API lists them. */
const BROKEN = ['InvalidCiphertextException', 'IncorrectKeyException'];
const NOT_ALLOWED = [
  'AccessDeniedException',
  'UnrecognizedClientException',
  'InvalidSignatureException',
  'ExpiredTokenException',
  'CredentialsProviderError',
  'IncompleteSignature',
];
const UNUSABLE = ['NotFoundException', 'DisabledException', 'KMSInvalidStateException', 'InvalidKeyUsageException'];

const faultOfKms = (error: unknown): Error => {
  const { name, $metadata } = error as { name?: string; $metadata?: { httpStatusCode?: number } };
  if (error instanceof KeyServiceFault || error instanceof SealBroken) return error;
  if (name !== undefined && BROKEN.includes(name)) return new SealBroken(error);
  if (name !== undefined && NOT_ALLOWED.includes(name)) return notAllowed(error);
  if (name !== undefined && UNUSABLE.includes(name))
    return new KeyServiceFault('has no such key, or it is disabled', false, error);
  const status = $metadata?.httpStatusCode;
  // A 400 with a name that is in no list may be passing, as KMS throttles with this status.
  if (status === undefined || status === 200 || status === 400) return noAnswer(error);
  return refusedWith(status);
};

/** In the log of the account, and for policies of the key. `place` has the rest of the context. */
const encryptionContext = ([purpose = '', environment = '', tenant = '', ...rest]: readonly string[]) => ({
  strongroom: 'wrapped key',
  purpose,
  environment,
  ...(tenant !== '' && { [purpose === 'tenant key' ? 'tenant' : 'place']: tenant }),
  ...(rest.length > 0 && { id: rest.join('/') }),
});

/** @param attemptMs as of `createKeyService`. @returns a provider for each key, the one that wraps first. */
export const awsKmsProviders = async ({ keys, endpoint }: AwsKmsConfig, attemptMs?: number): Promise<KeyProvider[]> => {
  const { KMSClient, EncryptCommand, DecryptCommand } = await import('@aws-sdk/client-kms');
  const makeRegion = (region: string) => ({
    // One attempt: key-service.ts repeats. Credentials come from where the SDK finds them: variables, files, or the instance.
    client: new KMSClient({ region, maxAttempts: 1, ...(endpoint !== undefined && { endpoint }) }),
    service: createKeyService(attemptMs),
  });
  const regions = new Map<string, ReturnType<typeof makeRegion>>();
  const regionOf = (arn: string) => {
    // arn:aws:kms:REGION:ACCOUNT:key/ID
    const name = arn.split(':')[3];
    if (name === undefined) throw new StartError('AWS_KMS_KEY must be the ARN of a key.');
    const region = regions.get(name) ?? makeRegion(name);
    regions.set(name, region);
    return region;
  };
  const providerOf = (root_key_id: string, { client, service }: ReturnType<typeof makeRegion>): KeyProvider => ({
    describe: () => ({ name: NAME, root_key_id }),
    isAvailable: () => service.isAvailable(),
    wrap: (key, context) =>
      service.call(async (abortSignal) => {
        const Plaintext = bindToContext(key, context);
        const input = { KeyId: root_key_id, Plaintext, EncryptionContext: encryptionContext(context) };
        try {
          const { CiphertextBlob: body } = await client.send(new EncryptCommand(input), { abortSignal });
          if (!body || body.length === 0) throw badAnswer();
          return formatNamed({ name: NAME, root_key_id, version: '', body });
        } catch (error) {
          throw faultOfKms(error);
        } finally {
          Plaintext.fill(0);
        }
      }),
    unwrap: async (wrapped, context) => {
      const { body } = parseWrapped(wrapped);
      const input = { KeyId: root_key_id, CiphertextBlob: body, EncryptionContext: encryptionContext(context) };
      return service.call(async (abortSignal) => {
        try {
          const { Plaintext } = await client.send(new DecryptCommand(input), { abortSignal });
          if (!Plaintext) throw badAnswer();
          return unbind(Buffer.from(Plaintext), context);
        } catch (error) {
          throw faultOfKms(error);
        }
      });
    },
  });
  return keys.map((arn) => providerOf(arn, regionOf(arn)));
};
