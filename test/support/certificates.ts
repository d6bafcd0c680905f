// Certificates for tests, made in memory: a certificate authority, and valid and invalid certificates.
import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import {
  basicConstraints,
  bits,
  type Certificate,
  certify,
  extension,
  generatePair,
  issue,
  type Issuer,
  keyUsage,
  sequence,
  yes,
} from '../../src/platform/crypto/issue-certificate.ts';

export { type Certificate, selfSignedCertificateFor } from '../../src/platform/crypto/issue-certificate.ts';

const authorityPair = generatePair();
const authority: Issuer = { name: 'Test authority', key: authorityPair.privateKey };

/** PEM of the authority that `certificateFor` signs with. */
export const testCa = issue(
  authority,
  authority.name,
  authorityPair,
  [-1, 30],
  [
    extension(basicConstraints, sequence(yes), true),
    // keyCertSign alone.
    extension(keyUsage, bits(Buffer.of(0b0000_0100), 2), true),
  ],
);

/** @param hosts as `certify`. */
export const certificateFor = (...hosts: string[]): Certificate => certify(hosts, [-1, 30], authority);

export const expiredCertificateFor = (...hosts: string[]): Certificate => certify(hosts, [-3, -1], authority);

const numberOf = (text = ''): bigint => BigInt(`0x${Buffer.from(text, 'base64url').toString('hex') || '0'}`);
const textOf = (value: bigint): string => {
  const hex = value.toString(16);
  return Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex').toString('base64url');
};

/** The inverse of `value` modulo `modulus`. */
const inverse = (value: bigint, modulus: bigint): bigint => {
  let [before, rest, one, other] = [modulus, value, 0n, 1n];
  while (rest > 0n) [before, rest, one, other] = [rest, before % rest, other, one - (before / rest) * other];
  return ((one % modulus) + modulus) % modulus;
};

/**
 * A certificate that is slow to verify: an RSA key of 3,072 bits whose public exponent is as long as the modulus, since the private
 * one is the usual public one. OpenSSL accepts long exponents up to this length of the modulus.
 */
export const slowCertificateFor = (...hosts: string[]): Certificate => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 3_072 });
  const key = privateKey.export({ format: 'jwk' });
  const [p, q] = [numberOf(key.p), numberOf(key.q)];
  const d = 65_537n;
  const e = inverse(d, (p - 1n) * (q - 1n));
  const jwk = { ...key, e: textOf(e), d: textOf(d), dp: textOf(d % (p - 1n)), dq: textOf(d % (q - 1n)) };
  const own = createPrivateKey({ key: jwk, format: 'jwk' });
  return certify(hosts, [-1, 30], authority, { privateKey: own, publicKey: createPublicKey(own) });
};
