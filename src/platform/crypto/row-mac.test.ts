// The text that a MAC of a row is made of: names and values, so that a later column needs no second form.
import { expect, test } from 'vitest';
import { encodeRow } from './row-mac.ts';

const row = { tenant_id: 't', id: 'i', role: 'OWNER', address_digest: Buffer.of(1, 2), user_id: 'u' };

test('has the names and values of the bound columns, under the version of the head', () => {
  expect(JSON.parse(encodeRow('members', row, 3))).toEqual([
    ['version of its head', 3],
    ['tenant_id', 't'],
    ['id', 'i'],
    ['user_id', 'u'],
    ['role', 'OWNER'],
    ['address_digest', '0102'],
  ]);
});

test('leaves out columns without a value, so that a row from before a column keeps its MAC', () => {
  const application = { tenant_id: 't', id: 'i', type: 'private', permissions: ['token:read'], rules: [] };
  const before = encodeRow('applications', application, 1);
  for (const later of [null, undefined, []])
    expect(encodeRow('applications', { ...application, container: later, allowed_hosts: later }, 1)).toBe(before);
  for (const later of ['', 'x'])
    expect(encodeRow('applications', { ...application, container: later }, 1)).not.toBe(before);
});

test('tells one column from another, and a row from one with a version', () => {
  const one = encodeRow('applications', { daily_reveals: 5 }, null);
  expect(encodeRow('applications', { daily_uses: 5 }, null)).not.toBe(one);
  expect(encodeRow('applications', { daily_reveals: 5 }, 5)).not.toBe(one);
});
