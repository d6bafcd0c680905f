// Well-formed API keys that a test knows beforehand.
import { crc32Base62 } from '../../src/platform/crypto/digest.ts';

/** @param kind `test`, `live` or `sess`. @param publicPart one character for all of the public part, @param secret one for all others. */
export const knownKey = (kind: string, publicPart: string, secret = publicPart): string => {
  const body = `svc_${kind}_${publicPart.repeat(16)}_${secret.repeat(33)}`;
  return body + crc32Base62(body);
};
