// Certificates for tests, made in memory: a certificate authority, and valid and invalid certificates.
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

export type Certificate = { cert: string; key: string };

const DAY_MS = 86_400_000;

/** https://www.itu.int/rec/T-REC-X.690: a tag, a length, what it holds. */
const der = (tag: number, ...parts: Buffer[]): Buffer => {
  const content = Buffer.concat(parts);
  const length = content.byteLength;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
};

const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts);
const setOf = (...parts: Buffer[]): Buffer => der(0x31, ...parts);
/** A set first bit would make it negative. */
const integer = (bytes: Buffer): Buffer =>
  der(0x02, (bytes[0] as number) >= 0x80 ? Buffer.concat([Buffer.of(0), bytes]) : bytes);
const octets = (...parts: Buffer[]): Buffer => der(0x04, ...parts);
const bits = (bytes: Buffer, unused = 0): Buffer => der(0x03, Buffer.of(unused), bytes);
const text = (value: string): Buffer => der(0x0c, Buffer.from(value, 'utf8'));
const yes = der(0x01, Buffer.of(0xff));
const explicit = (number: number, part: Buffer): Buffer => der(0xa0 + number, part);

/** Numbers of one byte each are written as they are; larger ones arrive here already encoded. */
const oid = (...bytes: number[]): Buffer => der(0x06, Buffer.from(bytes));
const commonName = oid(0x55, 0x04, 0x03);
const subjectAltName = oid(0x55, 0x1d, 0x11);
const basicConstraints = oid(0x55, 0x1d, 0x13);
const keyUsage = oid(0x55, 0x1d, 0x0f);
const ecdsaWithSha256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));

const nameOf = (value: string): Buffer => sequence(setOf(sequence(commonName, text(value))));

/** UTCTime, which holds until 2049. */
const time = (ms: number): Buffer =>
  der(0x17, Buffer.from(`${new Date(ms).toISOString().slice(2, 19).replace(/[-:T]/g, '')}Z`));

const extension = (id: Buffer, value: Buffer, isCritical = false): Buffer =>
  sequence(id, ...(isCritical ? [yes] : []), octets(value));

const pem = (bytes: Buffer): string =>
  `-----BEGIN CERTIFICATE-----\n${(bytes.toString('base64').match(/.{1,64}/g) ?? []).join('\n')}\n-----END CERTIFICATE-----\n`;

type Pair = { publicKey: KeyObject; privateKey: KeyObject };
type Issuer = { name: string; key: KeyObject };

const generatePair = (): Pair => generateKeyPairSync('ec', { namedCurve: 'prime256v1' });

/** RFC 5280 section 4.1. */
const issue = (issuer: Issuer, subject: string, pair: Pair, days: [from: number, to: number], extensions: Buffer[]) => {
  const now = Date.now();
  const body = sequence(
    explicit(0, integer(Buffer.of(2))),
    integer(Buffer.concat([Buffer.of(1), randomBytes(15)])),
    ecdsaWithSha256,
    nameOf(issuer.name),
    sequence(...days.map((each) => time(now + each * DAY_MS))),
    nameOf(subject),
    pair.publicKey.export({ type: 'spki', format: 'der' }),
    explicit(3, sequence(...extensions)),
  );
  return pem(sequence(body, ecdsaWithSha256, bits(sign('sha256', body, issuer.key))));
};

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

const certify = (
  hosts: string[],
  days: [from: number, to: number],
  signedBy?: Issuer,
  pair = generatePair(),
): Certificate => {
  const subject = 'Test server';
  const names = hosts.map((host) => der(0x82, Buffer.from(host, 'ascii')));
  const issuer = signedBy ?? { name: subject, key: pair.privateKey };
  return {
    cert: issue(issuer, subject, pair, days, [extension(subjectAltName, sequence(...names))]),
    key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
};

/** @param hosts names, also with a wildcard as their first label. */
export const certificateFor = (...hosts: string[]): Certificate => certify(hosts, [-1, 30], authority);

export const expiredCertificateFor = (...hosts: string[]): Certificate => certify(hosts, [-3, -1], authority);

export const selfSignedCertificateFor = (...hosts: string[]): Certificate => certify(hosts, [-1, 30]);

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
