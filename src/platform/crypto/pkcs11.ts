// The key provider of HSMs, by PKCS #11: AES-256-GCM with keys that do not leave the token.
import { StartError } from '../base/errors.ts';
import { formatNamed, type KeyProvider, parseWrapped, RootKeyUnknown } from './key-provider.ts';
import { bindToContext, contextBytes, createKeyService, KeyServiceFault, unbind } from './key-service.ts';
import { createPkcs11Client, type Pkcs11Client, PinRefused, TokenUnusable } from './pkcs11/client.ts';
import type { Opening } from './pkcs11/messages.ts';
import { GCM_IV_BYTES, GCM_TAG_BYTES } from './pkcs11/library.ts';
import type { RandomBytes } from './random.ts';
import { SealBroken } from './seal.ts';

export type Pkcs11Config = Opening & {
  /** Variables for the library. */
  environment: Record<string, string>;
};

const NAME = 'pkcs11';

/** @throws StartError: without an open token the keys have no ids. */
const openKeys = async (client: Pkcs11Client): Promise<string[]> => {
  try {
    return await client.open();
  } catch (error) {
    client.close();
    if (error instanceof TokenUnusable)
      throw new StartError(`${error.message} Nothing was written. See docs/operations/keys.md`, {
        isFinal: error instanceof PinRefused,
      });
    if (!(error instanceof KeyServiceFault)) throw error;
    throw new StartError(
      `The key provider ${NAME} ${error.message}. Nothing was written. Check PKCS11_MODULE and the HSM: docs/operations/keys.md`,
    );
  }
};

/** @returns a provider for each key, the one that wraps first. They share a process and its session. */
export const pkcs11Providers = async (
  { environment, ...opening }: Pkcs11Config,
  randomBytes: RandomBytes,
): Promise<KeyProvider[]> => {
  const client = createPkcs11Client(opening, environment);
  const root_key_ids = await openKeys(client);
  const service = createKeyService();
  return root_key_ids.map((root_key_id, key) => ({
    describe: () => ({ name: NAME, root_key_id }),
    isAvailable: () => service.isAvailable(),
    wrap: (secret, context) =>
      service.call(async (signal) => {
        const [iv, data] = [randomBytes(GCM_IV_BYTES), bindToContext(secret, context)];
        try {
          const encrypted = await client.send({ action: 'encrypt', key, iv, aad: contextBytes(context), data }, signal);
          return formatNamed({ name: NAME, root_key_id, version: '', body: Buffer.concat([iv, encrypted]) });
        } finally {
          data.fill(0);
        }
      }),
    unwrap: async (wrapped, context) => {
      const { root_key_id: needed, body } = parseWrapped(wrapped);
      if (needed !== root_key_id) throw new RootKeyUnknown(needed, [root_key_id]);
      if (body.length < GCM_IV_BYTES + GCM_TAG_BYTES) throw new SealBroken();
      const [iv, data] = [body.subarray(0, GCM_IV_BYTES), body.subarray(GCM_IV_BYTES)];
      return service.call(async (signal) =>
        unbind(await client.send({ action: 'decrypt', key, iv, aad: contextBytes(context), data }, signal), context),
      );
    },
    close: () => client.close(),
  }));
};
