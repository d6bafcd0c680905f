// An IP address counts as the network of one client: neither one of its many addresses, nor the network of several clients.
import { expect, test } from 'vitest';
import { addressOfIp, placeOfIp } from './ip-place.ts';

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::FFFF:192.0.2.1', '192.0.2.1'],
  ['192.0.2.1:54321', '192.0.2.1'],
  ['[2001:db8:1:2::1]:54321', '2001:db8:1::/48'],
  ['[2001:db8:1:2::1]', '2001:db8:1::/48'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1::/48'],
  ['2001:db8:1:ffff::1', '2001:db8:1::/48'],
  ['2001:db8:1:2:ffff::1', '2001:db8:1::/48'],
  ['2001:0DB8:0001:0002::1', '2001:db8:1::/48'],
  ['2001:db8::', '2001:db8:0::/48'],
  ['2001:db8::1', '2001:db8:0::/48'],
  ['2001:db8::1:2:3:4:5', '2001:db8:0::/48'],
  ['64:ff9b::192.0.2.1', '64:ff9b:0::/48'],
  ['::1', '0:0:0::/48'],
  ['::', '0:0:0::/48'],
  ['fe80::1%eth0', 'fe80:0:0::/48'],
  ['no address', 'no address'],
  ['', ''],
])('%s is counted as %s', (ip, place) => {
  expect(placeOfIp(ip)).toBe(place);
});

test.each([
  ['192.0.2.1:54321', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['[2001:0DB8:0001:0002::1]:54321', '2001:db8:1:2::1'],
  ['2001:db8:1:2:0:0:0:1', '2001:db8:1:2::1'],
  ['fe80::1%eth0', 'fe80::1'],
  ['no address', 'no address'],
])('%s is the address %s', (ip, address) => {
  expect(addressOfIp(ip)).toBe(address);
});
