// Makes X.509 certificates in memory, for servers of tests: Node can read certificates, and makes none.
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

export type Certificate = { cert: string; key: string };

const DAY_MS = 86_400_000;

/** https://www.itu.int/rec/T-REC-X.690: a tag, a length, what it holds. */
export const der = (tag: number, ...parts: Buffer[]): Buffer => {
  const content = Buffer.concat(parts);
  const length = content.byteLength;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
};

export const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts);
const setOf = (...parts: Buffer[]): Buffer => der(0x31, ...parts);
/** A set first bit would make it negative. */
const integer = (bytes: Buffer): Buffer =>
  der(0x02, (bytes[0] as number) >= 0x80 ? Buffer.concat([Buffer.of(0), bytes]) : bytes);
const octets = (...parts: Buffer[]): Buffer => der(0x04, ...parts);
export const bits = (bytes: Buffer, unused = 0): Buffer => der(0x03, Buffer.of(unused), bytes);
const text = (value: string): Buffer => der(0x0c, Buffer.from(value, 'utf8'));
export const yes = der(0x01, Buffer.of(0xff));
const explicit = (number: number, part: Buffer): Buffer => der(0xa0 + number, part);

/** Numbers of one byte each are written as they are; larger ones arrive here already encoded. */
const oid = (...bytes: number[]): Buffer => der(0x06, Buffer.from(bytes));
const commonName = oid(0x55, 0x04, 0x03);
const subjectAltName = oid(0x55, 0x1d, 0x11);
export const basicConstraints = oid(0x55, 0x1d, 0x13);
export const keyUsage = oid(0x55, 0x1d, 0x0f);
const ecdsaWithSha256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));

const nameOf = (value: string): Buffer => sequence(setOf(sequence(commonName, text(value))));

/** UTCTime, which holds until 2049. */
const time = (ms: number): Buffer =>
  der(0x17, Buffer.from(`${new Date(ms).toISOString().slice(2, 19).replace(/[-:T]/g, '')}Z`));

export const extension = (id: Buffer, value: Buffer, isCritical = false): Buffer =>
  sequence(id, ...(isCritical ? [yes] : []), octets(value));

const pem = (bytes: Buffer): string =>
  `-----BEGIN CERTIFICATE-----\n${(bytes.toString('base64').match(/.{1,64}/g) ?? []).join('\n')}\n-----END CERTIFICATE-----\n`;

export type Pair = { publicKey: KeyObject; privateKey: KeyObject };
export type Issuer = { name: string; key: KeyObject };

export const generatePair = (): Pair => generateKeyPairSync('ec', { namedCurve: 'prime256v1' });

/** RFC 5280 section 4.1. @param days from now, between which it is valid. */
export const issue = (
  issuer: Issuer,
  subject: string,
  pair: Pair,
  days: [from: number, to: number],
  extensions: Buffer[],
) => {
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

/** A certificate for hosts. @param hosts names, also with a wildcard as their first label. @param signedBy itself if absent. */
export const certify = (
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

/** A certificate that only those trust who are given it. @param hosts as `certify`. */
export const selfSignedCertificateFor = (...hosts: string[]): Certificate => certify(hosts, [-1, 30]);
