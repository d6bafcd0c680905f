// Wraps and unwraps keys under the root key. This provider holds the root key in memory; a key management service can
// implement the same three functions.
import { hkdfSync } from 'node:crypto';
import type { RandomBytes } from './random.ts';
import { encodeParts, SealBroken } from './seal.ts';
import type { Sensitive } from './sensitive.ts';
import {
  prepareXaesKey,
  XAES_KEY_BYTES,
  XAES_NONCE_BYTES,
  XAES_TAG_BYTES,
  type XaesKey,
  xaesDecrypt,
  xaesEncrypt,
} from './xaes.ts';

export interface KeyProvider {
  describe(): { name: string; root_key_id: string };
  /** @param context what the key is for; must be the same to unwrap. */
  wrap(key: Uint8Array, context: readonly string[]): Promise<Buffer>;
  /** @throws RootKeyUnknown; SealBroken. */
  unwrap(wrapped: Uint8Array, context: readonly string[]): Promise<Buffer>;
}

/** A key was wrapped under a root key that is not configured. Ids of root keys are not secret. */
export class RootKeyUnknown extends Error {
  override readonly name = 'RootKeyUnknown';
  readonly needed: string;
  readonly atHand: readonly string[];
  constructor(needed: string, atHand: readonly string[]) {
    super('a key was wrapped under a root key that is not at hand');
    this.needed = needed;
    this.atHand = atHand;
  }
}

/** format | root key id | nonce | wrapped key and tag. */
const FORMAT_VERSION = 1;
const ROOT_KEY_ID_BYTES = 16;
const NONCE_AT = 1 + ROOT_KEY_ID_BYTES;
const BODY_AT = NONCE_AT + XAES_NONCE_BYTES;
const FORMAT_LABEL = 'strongroom wrapped key/1';

/** HKDF (RFC 5869) derives a separate key for each purpose, so that the public id does not reveal the wrapping key. */
const derive = (rootKey: Uint8Array, purpose: string, bytes: number): Buffer =>
  Buffer.from(hkdfSync('sha256', rootKey, '', purpose, bytes));

/**
 * Creates a provider with root keys in memory.
 * @param rootKeys 32 bytes each. The first wraps; all unwrap.
 */
export const localKeyProvider = (rootKeys: readonly Sensitive<Uint8Array>[], randomBytes: RandomBytes): KeyProvider => {
  const keys = new Map<string, XaesKey>();
  for (const rootKey of rootKeys) {
    const bytes = rootKey.reveal();
    if (bytes.length !== XAES_KEY_BYTES) throw new RangeError('a root key has 32 bytes');
    const id = derive(bytes, 'strongroom root key id', ROOT_KEY_ID_BYTES).toString('hex');
    keys.set(id, prepareXaesKey(derive(bytes, 'strongroom wrap', 32)));
  }
  const [first] = keys;
  if (!first) throw new RangeError('a key provider needs a root key');
  const [wrappingId, wrappingKey] = first;
  const associatedData = (id: string, context: readonly string[]) =>
    Buffer.from(encodeParts([FORMAT_LABEL, id, ...context]));

  return {
    describe: () => ({ name: 'local', root_key_id: wrappingId }),
    wrap: async (key, context) => {
      const nonce = randomBytes(XAES_NONCE_BYTES);
      const body = xaesEncrypt(wrappingKey, nonce, key, associatedData(wrappingId, context));
      return Buffer.concat([Buffer.of(FORMAT_VERSION), Buffer.from(wrappingId, 'hex'), nonce, body]);
    },
    unwrap: async (wrapped, context) => {
      if (wrapped.length < BODY_AT + XAES_TAG_BYTES || wrapped[0] !== FORMAT_VERSION) throw new SealBroken();
      const id = Buffer.from(wrapped.subarray(1, NONCE_AT)).toString('hex');
      const key = keys.get(id);
      if (!key) throw new RootKeyUnknown(id, [...keys.keys()]);
      try {
        return xaesDecrypt(
          key,
          wrapped.subarray(NONCE_AT, BODY_AT),
          wrapped.subarray(BODY_AT),
          associatedData(id, context),
        );
      } catch (error) {
        throw new SealBroken(error);
      }
    },
  };
};
