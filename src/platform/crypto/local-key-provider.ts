// The key provider that holds its root key in memory.
import { hkdfSync } from 'node:crypto';
import {
  contextText,
  formatLocal,
  type KeyProvider,
  LOCAL_ID_BYTES,
  parseWrapped,
  RootKeyUnknown,
} from './key-provider.ts';
import type { RandomBytes } from './random.ts';
import { SealBroken } from './seal.ts';
import type { Sensitive } from './sensitive.ts';
import {
  destroyXaesKey,
  prepareXaesKey,
  XAES_KEY_BYTES,
  XAES_NONCE_BYTES,
  XAES_TAG_BYTES,
  xaesDecrypt,
  xaesEncrypt,
} from './xaes.ts';

const NAME = 'local';
const FORMAT_LABEL = 'strongroom wrapped key/1';

/** HKDF (RFC 5869) derives a separate key for each purpose, so that the public id does not reveal the wrapping key. */
const derive = (rootKey: Uint8Array, purpose: string, bytes: number): Buffer =>
  Buffer.from(hkdfSync('sha256', rootKey, '', purpose, bytes));

/** The public id of a local root key. */
export const localRootKeyId = (rootKey: Uint8Array): string =>
  derive(rootKey, 'strongroom root key id', LOCAL_ID_BYTES).toString('hex');

/** @param rootKey 32 bytes. The provider keeps no copy: what is derived from it is overwritten when the provider is closed. */
export const localKeyProvider = (rootKey: Sensitive<Uint8Array>, randomBytes: RandomBytes): KeyProvider => {
  const bytes = rootKey.reveal();
  if (bytes.length !== XAES_KEY_BYTES) throw new RangeError('a root key has 32 bytes');
  const root_key_id = localRootKeyId(bytes);
  const wrappingBytes = derive(bytes, 'strongroom wrap', XAES_KEY_BYTES);
  const wrappingKey = prepareXaesKey(wrappingBytes);
  wrappingBytes.fill(0);
  let isClosed = false;
  const associatedData = (context: readonly string[]) =>
    Buffer.from(contextText(FORMAT_LABEL, [root_key_id, ...context]));

  return {
    describe: () => ({ name: NAME, root_key_id }),
    wrap: async (key, context) => {
      const nonce = randomBytes(XAES_NONCE_BYTES);
      return formatLocal(
        root_key_id,
        Buffer.concat([nonce, xaesEncrypt(wrappingKey, nonce, key, associatedData(context))]),
      );
    },
    unwrap: async (wrapped, context) => {
      const { name, root_key_id: needed, body } = parseWrapped(wrapped);
      if (name !== NAME || body.length < XAES_NONCE_BYTES + XAES_TAG_BYTES) throw new SealBroken();
      if (needed !== root_key_id) throw new RootKeyUnknown(needed, [root_key_id]);
      try {
        const nonce = body.subarray(0, XAES_NONCE_BYTES);
        return xaesDecrypt(wrappingKey, nonce, body.subarray(XAES_NONCE_BYTES), associatedData(context));
      } catch (error) {
        throw new SealBroken(error);
      }
    },
    close() {
      if (isClosed) return;
      isClosed = true;
      destroyXaesKey(wrappingKey);
    },
  };
};
