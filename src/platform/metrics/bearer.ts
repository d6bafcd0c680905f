// Checks the bearer token that opens the metrics.
import { equalDigests, memoryDigest } from '../crypto/digest.ts';

const digestOf = (text: string): Uint8Array => Buffer.from(memoryDigest(text));

/** @param authorization the header of a request. Compares in constant time, whatever the length. */
export const isBearerOf = (token: string, authorization: string | undefined): boolean => {
  const [, given = ''] = /^Bearer +(\S+) *$/i.exec(authorization ?? '') ?? [];
  return equalDigests(digestOf(given), digestOf(token));
};
