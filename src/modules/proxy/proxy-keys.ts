// Generates proxy keys and computes the keyed digest that finds a proxy.
// A key is random, not derived from an id. It is sealed in the proxy, for callers who may read proxies.
import type { ReactorsContext } from '../reactors/context.ts';
import { proxyKeyDigest, randomBase62 } from '../../platform/crypto/digest.ts';

/** 32 base62 characters have 190 bits. At least 128 are needed against guessing. */
const PROXY_KEY_LENGTH = 32;

const shape = new RegExp(`^[0-9A-Za-z]{${PROXY_KEY_LENGTH}}$`);

/** The digest that finds a key; undefined for a text that has not the form of a key. */
export const digestOfProxyKey = ({ pepper }: Pick<ReactorsContext, 'pepper'>, key: string): Buffer | undefined =>
  shape.test(key) ? proxyKeyDigest(pepper, key) : undefined;

/** Generates a key and the digest to store. */
export const newProxyKey = (ctx: Pick<ReactorsContext, 'pepper' | 'randomBytes'>): { key: string; digest: Buffer } => {
  const key = randomBase62(PROXY_KEY_LENGTH, ctx.randomBytes);
  return { key, digest: proxyKeyDigest(ctx.pepper, key) };
};
