// The interface of key providers, the format of wrapped keys, and the set of root keys that a process has at hand.
import { encodeParts, SealBroken } from './seal.ts';

/** Wraps keys under one root key. */
export interface KeyProvider {
  describe(): RootKeyName;
  /** @param context what the key is for; must be the same to unwrap. @throws unavailable. */
  wrap(key: Uint8Array, context: readonly string[]): Promise<Buffer>;
  /** @throws RootKeyUnknown; SealBroken; unavailable. */
  unwrap(wrapped: Uint8Array, context: readonly string[]): Promise<Buffer>;
  /** Whether its last call got an answer; absent where it needs no other process. */
  isAvailable?(): boolean;
  /** Overwrites what it holds of the root key. */
  close?(): void;
}

/** Ids of root keys are not secret. */
export type RootKeyName = { name: string; root_key_id: string };

/** All root keys at hand, as one provider: the first wraps, and each unwraps what it wrapped. */
export type RootKeys = KeyProvider & {
  /** Wraps under the root key that wrapped another key. @throws RootKeyUnknown; unavailable. */
  wrapAs(other: Uint8Array, key: Uint8Array, context: readonly string[]): Promise<Buffer>;
  /** Every root key, the one that wraps first. */
  list(): RootKeyName[];
  isAvailable(): boolean;
  close(): void;
};

/** A key was wrapped under a root key that is not configured. */
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

/**
 * Version 1, of local root keys: 1 | root key id (16 bytes) | body.
 * Version 2, of all others: 2 | provider | root key id | version of the root key | body. Each part has its length before it.
 */
const LOCAL_FORMAT = 1;
const NAMED_FORMAT = 2;
const LOCAL_NAME = 'local';
export const LOCAL_ID_BYTES = 16;
const LOCAL_BODY_AT = 1 + LOCAL_ID_BYTES;
/** Ids of key services are paths or ARNs. */
const PART_BYTES_MAX = 2_048;

/** What a wrapped key says of itself. `version` is empty where the provider does not tell versions of a root key apart. */
export type WrappedKey = RootKeyName & { version: string; body: Uint8Array };

export const formatLocal = (root_key_id: string, body: Uint8Array): Buffer =>
  Buffer.concat([Buffer.of(LOCAL_FORMAT), Buffer.from(root_key_id, 'hex'), body]);

export const formatNamed = ({ name, root_key_id, version, body }: WrappedKey): Buffer => {
  const parts = [name, root_key_id, version].flatMap((part) => {
    const bytes = Buffer.from(part, 'utf8');
    if (bytes.length > PART_BYTES_MAX) throw new RangeError('the name of a root key is too long');
    const length = Buffer.alloc(2);
    length.writeUInt16BE(bytes.length);
    return [length, bytes];
  });
  return Buffer.concat([Buffer.of(NAMED_FORMAT), ...parts, body]);
};

/** @throws SealBroken for bytes that are no wrapped key. */
export const parseWrapped = (wrapped: Uint8Array): WrappedKey => {
  const bytes = Buffer.from(wrapped);
  if (bytes[0] === LOCAL_FORMAT && bytes.length > LOCAL_BODY_AT) {
    const root_key_id = bytes.subarray(1, LOCAL_BODY_AT).toString('hex');
    return { name: LOCAL_NAME, root_key_id, version: '', body: bytes.subarray(LOCAL_BODY_AT) };
  }
  if (bytes[0] !== NAMED_FORMAT) throw new SealBroken();
  let at = 1;
  const read = (): string => {
    const length = at + 2 <= bytes.length ? bytes.readUInt16BE(at) : Infinity;
    if (length > PART_BYTES_MAX || at + 2 + length > bytes.length) throw new SealBroken();
    at += 2 + length;
    return bytes.toString('utf8', at - length, at);
  };
  const [name, root_key_id, version] = [read(), read(), read()];
  return { name, root_key_id, version, body: bytes.subarray(at) };
};

/** Whether two keys are wrapped under one root key, of one version. */
export const haveOneRootKey = (one: Uint8Array, other: Uint8Array): boolean => {
  const [a, b] = [parseWrapped(one), parseWrapped(other)];
  return isSameRootKey(a, b) && a.version === b.version;
};

export const isSameRootKey = (one: RootKeyName, other: RootKeyName): boolean =>
  one.name === other.name && one.root_key_id === other.root_key_id;

/** The context of a key as one text that no other context has. */
export const contextText = (label: string, context: readonly string[]): string => encodeParts([label, ...context]);

/** @param providers at least one; the first wraps. */
export const combineProviders = (providers: readonly KeyProvider[]): RootKeys => {
  const [first] = providers;
  if (!first) throw new RangeError('a key provider needs a root key');
  const list = (): RootKeyName[] => providers.map((provider) => provider.describe());
  const find = (wrapped: Uint8Array): KeyProvider => {
    const needed = parseWrapped(wrapped);
    const found = providers.find((provider) => isSameRootKey(provider.describe(), needed));
    if (found) return found;
    throw new RootKeyUnknown(
      needed.root_key_id,
      list().map(({ root_key_id }) => root_key_id),
    );
  };
  return {
    list,
    isAvailable: () => providers.every((provider) => provider.isAvailable?.() ?? true),
    close: () => providers.forEach((provider) => provider.close?.()),
    describe: () => first.describe(),
    wrap: (key, context) => first.wrap(key, context),
    wrapAs: async (other, key, context) => find(other).wrap(key, context),
    unwrap: async (wrapped, context) => find(wrapped).unwrap(wrapped, context),
  };
};
