// Password hashes: their cost, the pepper, and the limited queue.
import { expect, test } from 'vitest';
import { AppError } from '../base/errors.ts';
import { prepareDigestKey } from './digest.ts';
import { createPasswords, isAllowedLength } from './password.ts';

const pepper = prepareDigestKey('pepper', Buffer.alloc(32, 1));
const otherPepper = prepareDigestKey('pepper', Buffer.alloc(32, 2));
const { hash: hashPassword, verify: verifyPassword } = createPasswords(pepper);
const password = 'correct horse battery';

test('a hash is argon2id with 19 MiB, two passes and a new salt, and only its password matches', async () => {
  const [one, other] = await Promise.all([hashPassword(password), hashPassword(password)]);
  expect(one).toMatch(/^\$argon2id\$v=19\$m=19456,p=1,t=2\$|^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  expect(one).not.toBe(other);
  expect(await verifyPassword(password, one)).toBe(true);
  expect(await verifyPassword(`${password} `, one)).toBe(false);
  expect(await verifyPassword('', one)).toBe(false);
});

test('no password matches a hash under another pepper', async () => {
  expect(await createPasswords(otherPepper).verify(password, await hashPassword(password))).toBe(false);
});

test('an account that is not there takes the same work, and no password opens it', async () => {
  const timeOf = async (hash: string | undefined): Promise<number> => {
    const before = process.cpuUsage();
    for (let round = 0; round < 3; round += 1) expect(await verifyPassword(password, hash)).toBe(false);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  const known = await hashPassword('another password');
  await timeOf(known);
  // CPU time, not the clock's: a factor of five tells work from none on any machine.
  expect((await timeOf(undefined)) * 5).toBeGreaterThan(await timeOf(known));
});

test('what comes after a NUL counts, and one character written in two ways is one password', async () => {
  const hash = await hashPassword('caf\u00e9 caf\u00e9 caf\u00e9');
  expect(await verifyPassword('cafe\u0301 cafe\u0301 cafe\u0301', hash)).toBe(true);
  const withNul = await hashPassword('long enough\0one');
  expect(await verifyPassword('long enough\0two', withNul)).toBe(false);
});

test.each([
  ['twelve chars', true],
  ['eleven char', false],
  ['', false],
  ['\u{1f600}'.repeat(11), false],
  ['\u{1f600}'.repeat(128), true],
  ['x'.repeat(128), true],
  ['x'.repeat(129), false],
])('12 to 128 characters are a password: %j', (text, isFair) => {
  expect(isAllowedLength(text)).toBe(isFair);
});

/** 66 hashes, of which a busy machine may take a second for each ten. */
const CROWD_TIMEOUT_MS = 30_000;

test(
  'of many at once, those beyond the queue are refused for now, and the queue is empty after',
  async () => {
    const settled = await Promise.allSettled(Array.from({ length: 80 }, () => verifyPassword(password, undefined)));
    const refused = settled.filter((each) => each.status === 'rejected').map(({ reason }) => reason as AppError);
    expect(refused).toHaveLength(80 - 2 - 64);
    expect(refused.every((error) => error.code === 'unavailable' && error.retryAfterSeconds === 1)).toBe(true);
    expect(await verifyPassword(password, undefined)).toBe(false);
  },
  CROWD_TIMEOUT_MS,
);
