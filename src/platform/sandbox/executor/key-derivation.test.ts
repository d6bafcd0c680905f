import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { derivationRounds, derOf } from './key-derivation.ts';

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const encrypted = { type: 'pkcs8', cipher: 'aes-256-cbc', passphrase: 'secret' } as const;

test('the rounds of an encrypted key are read from PEM and from DER', () => {
  const pem = privateKey.export({ ...encrypted, format: 'pem' });
  const der = privateKey.export({ ...encrypted, format: 'der' });
  expect(derivationRounds(derOf(pem))).toBe(2048);
  expect(derivationRounds(derOf(der))).toBe(2048);
});

test('a key that says more rounds is read as it says', () => {
  const der = privateKey.export({ ...encrypted, format: 'der' });
  const at = der.indexOf(Buffer.from([0x02, 0x02, 0x08, 0x00]));
  const more = Buffer.concat([der.subarray(0, at), Buffer.from([0x02, 0x02, 0x7f, 0xff]), der.subarray(at + 4)]);
  expect(derivationRounds(more)).toBe(32_767);
});

test.each([
  ['an open key', privateKey.export({ type: 'pkcs8', format: 'der' })],
  ['nothing', Buffer.alloc(0)],
  ['a length beyond the end', Buffer.from('3084ffffffff06', 'hex')],
  ['an endless length', Buffer.from('30800000', 'hex')],
])('%s has none', (_, der) => {
  expect(derivationRounds(der)).toBeUndefined();
});
