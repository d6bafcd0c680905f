// Parses, validates and normalises the client certificate that a proxy presents to its destination.
// Messages never quote a certificate or key.
import { checkPrimeSync, createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';

/** PEM texts: the certificate followed by its intermediates, and the private key of the certificate. */
export type ClientCertificate = { certificate: string; private_key: string };

type Problem = [field: keyof ClientCertificate, sentence: string];

const block = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

const expiryOf = ({ validTo }: X509Certificate): Date => new Date(validTo);

/** @returns undefined if the text has no certificate, or an invalid one. */
const findChain = (text: string): [X509Certificate, ...X509Certificate[]] | undefined => {
  try {
    const [first, ...others] = (text.match(block) ?? []).map((certificate) => new X509Certificate(certificate));
    // X509Certificate does not validate dates.
    return first && !Number.isNaN(expiryOf(first).getTime()) ? [first, ...others] : undefined;
  } catch {
    return undefined;
  }
};

/** The time of a signature, which blocks the event loop, grows with the cube of this. */
const RSA_BITS_MAX = 4096;

const curves = new Set(['prime256v1', 'secp384r1', 'secp521r1']);

const isPrime = (number: string | undefined): boolean =>
  number !== undefined && checkPrimeSync(Buffer.from(number, 'base64url'));

/** Whether the key signs in a few milliseconds. With factors that are not prime, OpenSSL takes hundreds. */
const isQuick = (key: KeyObject): boolean => {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details = {} } = key;
  if (type === 'ec') return curves.has(details.namedCurve ?? '');
  if (type !== 'rsa') return type === 'ed25519';
  if ((details.modulusLength ?? Infinity) > RSA_BITS_MAX) return false;
  const { p, q } = key.export({ format: 'jwk' });
  return isPrime(p) && isPrime(q);
};

/** @returns the key, or a sentence on why it cannot be used. */
const findKey = (text: string): KeyObject | string => {
  try {
    const key = createPrivateKey(text);
    return isQuick(key)
      ? key
      : `must be of RSA with at most ${RSA_BITS_MAX} bits, of P-256, P-384 or P-521, or Ed25519`;
  } catch (error) {
    return (error as { code?: unknown }).code === 'ERR_MISSING_PASSPHRASE'
      ? 'must not be encrypted'
      : 'must be a private key in PEM';
  }
};

/**
 * Parses a certificate and its key. Drops all other text: users may paste a private key beside the certificate, which
 * responses show.
 */
export const parseClientCertificate = (
  given: ClientCertificate,
): { parsed: ClientCertificate; problems?: undefined } | { parsed?: undefined; problems: Problem[] } => {
  const problems: Problem[] = [];
  const chain = findChain(given.certificate);
  if (!chain) problems.push(['certificate', 'must be a certificate in PEM, or several']);
  const key = findKey(given.private_key);
  if (typeof key === 'string') problems.push(['private_key', key]);
  else if (chain && !chain[0].checkPrivateKey(key))
    problems.push(['private_key', 'must be the key of the first certificate']);
  if (!chain || typeof key === 'string' || problems.length > 0) return { problems };
  return {
    parsed: {
      certificate: chain.map((certificate) => certificate.toString()).join(''),
      private_key: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    },
  };
};

/** The fields of a parsed certificate that responses show. */
export const describeCertificate = (certificate: string): { fingerprint_sha256: string; expires_at: Date } => {
  const first = new X509Certificate(certificate);
  return { fingerprint_sha256: first.fingerprint256, expires_at: expiryOf(first) };
};
