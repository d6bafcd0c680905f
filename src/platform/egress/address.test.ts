// Classification of addresses against vectors, and addresses of this machine.
import { readFileSync } from 'node:fs';
import type { networkInterfaces } from 'node:os';
import { describe, expect, test } from 'vitest';
import { isOwnAddress, isPrivateAddress, isPublicAddress, isReachable, isSameAddress } from './address.ts';

type Case = { kind: 'address'; address: string; class: string; outcome: 'public' | 'private' | 'refused' };

const cases = (
  JSON.parse(readFileSync(new URL('../../../test/vectors/addresses.json', import.meta.url), 'utf8')) as (
    | Case
    | { kind: 'destination' }
  )[]
).filter((each) => each.kind === 'address');

type Interfaces = ReturnType<typeof networkInterfaces>;

const interfacesWith = (...addresses: string[]): Interfaces => ({
  none: undefined,
  eth0: addresses.map((address) => ({
    address,
    netmask: '',
    mac: '',
    internal: false,
    cidr: null,
    ...(address.includes(':') ? { family: 'IPv6' as const, scopeid: 0 } : { family: 'IPv4' as const }),
  })),
});

describe('an address is public only when it is known to be', () => {
  test.each(cases)('$address ($class): $outcome', ({ address, outcome }) => {
    expect(['public', 'private', 'refused']).toContain(outcome);
    expect(isPublicAddress(address)).toBe(outcome === 'public');
    expect(isPrivateAddress(address)).toBe(outcome === 'private');
    const elsewhere = interfacesWith('192.0.2.1');
    expect(isReachable(address, false, elsewhere)).toBe(outcome === 'public');
    expect(isReachable(address, true, elsewhere)).toBe(outcome !== 'refused');
  });
});

test('a public address of this machine is not reached, unless the operator named the host', () => {
  const interfaces = interfacesWith('93.184.216.34', '2606:4700:4700::1111');
  for (const own of ['93.184.216.34', '2606:4700:4700::1111', '2606:4700:4700:0:0:0:0:1111']) {
    expect(isOwnAddress(own, interfaces)).toBe(true);
    expect(isReachable(own, false, interfaces)).toBe(false);
    expect(isReachable(own, true, interfaces)).toBe(true);
  }
  for (const other of ['93.184.216.35', '2606:4700:4700::1112']) {
    expect(isOwnAddress(other, interfaces)).toBe(false);
    expect(isReachable(other, false, interfaces)).toBe(true);
  }
});

test('without being told, the own addresses are those of the machine', () => {
  expect(isOwnAddress('127.0.0.1')).toBe(true);
  expect(isOwnAddress('192.0.2.1')).toBe(false);
});

test('addresses are compared as addresses, and what is none equals nothing', () => {
  for (const [one, other] of [
    ['1.2.3.4', '1.2.3.4'],
    ['1.2.3.4', '::ffff:1.2.3.4'],
    ['::FFFF:102:304', '1.2.3.4'],
    ['2606:4700::1', '2606:4700:0:0:0:0:0:1'],
    ['FE80::1', 'fe80::1'],
  ]) {
    expect(isSameAddress(one, other)).toBe(true);
    expect(isSameAddress(other, one)).toBe(true);
  }
  for (const [one, other] of [
    ['1.2.3.4', '1.2.3.5'],
    ['1.2.3.4', '::102:304'],
    ['2606:4700::1', '2606:4700::2'],
    ['1.2.3.4', undefined],
    [undefined, undefined],
    ['', ''],
    ['example.com', 'example.com'],
    ['127.1', '127.0.0.1'],
  ]) {
    expect(isSameAddress(one, other)).toBe(false);
    expect(isSameAddress(other, one)).toBe(false);
  }
});
