// Proxy keys: drawn, never derived from an id (security.md section 3, decision 6). A proxy is found by the keyed digest of
// its key; the key itself is sealed in the proxy, for those who may read it.
import type { Context } from '../context.ts';
import { proxyKeyDigest, randomBase62 } from '../crypto/digest.ts';

/** 32 base62 characters: 190 bits; decisions.md section 3 asks for at least 128. */
const PROXY_KEY_LENGTH = 32;

const shape = new RegExp(`^[0-9A-Za-z]{${PROXY_KEY_LENGTH}}$`);

/** The digest that a key is found by; undefined for a text that no key can be. */
export const digestOfProxyKey = ({ pepper }: Pick<Context, 'pepper'>, key: string): Buffer | undefined =>
  shape.test(key) ? proxyKeyDigest(pepper, key) : undefined;

/** Draws a key, with the digest to store. */
export const newProxyKey = (ctx: Pick<Context, 'pepper' | 'randomBytes'>): { key: string; digest: Buffer } => {
  const key = randomBase62(PROXY_KEY_LENGTH, ctx.randomBytes);
  return { key, digest: proxyKeyDigest(ctx.pepper, key) };
};
