// Each column of a table that authorises is bound by its MAC, or is left out knowingly.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createRowMacs, encodeRow } from '../../src/platform/crypto/row-mac.ts';
import { prepareDigestKey } from '../../src/platform/crypto/digest.ts';
import { CHECKED_OTHERWISE, SIGNED_TABLES, type SignedTable } from '../../src/platform/base/tables.ts';

const schema = readFileSync(new URL('../../prisma/schema.prisma', import.meta.url), 'utf8');

const models = [...schema.matchAll(/^model (\w+) \{\n(.*?)^\}/gms)].map(([, name = '', body = '']) => ({ name, body }));
const isRelation = (type: string): boolean => models.some(({ name }) => name === type);

/** The columns of each table. */
const columns = new Map(
  models.map(({ name, body }) => [
    name,
    [...body.matchAll(/^ {2}(\w+) +(\w+)/gm)].flatMap(([, column = '', type = '']) =>
      isRelation(type) ? [] : [column],
    ),
  ]),
);

test('no table is both signed and checked otherwise, and all are in the schema', () => {
  const named = [...Object.keys(SIGNED_TABLES), ...Object.keys(CHECKED_OTHERWISE)];
  expect(new Set(named).size).toBe(named.length);
  expect(named.filter((name) => !columns.has(name))).toEqual([]);
});

test.each(Object.entries<SignedTable>(SIGNED_TABLES))('each column of %s is bound, or has a reason', (name, table) => {
  const named = [...table.bound, ...Object.keys(table.unbound), 'mac'];
  if (name === 'tenants' || name === 'users') expect(table.bound).toContain('auth_version');
  expect(named.toSorted()).toEqual((columns.get(name) ?? []).toSorted());
  expect(table.bound).toContain(table.id);
  for (const column of table.digested) expect(table.bound).toContain(column);
});

describe('the encoding', () => {
  const at = new Date('2026-11-24T12:00:00.123Z');

  test('is the same for what drivers return differently', () => {
    const one = { public_id: 'a', digest: Buffer.from([1, 255]), expires_at: at, allowed_addresses: null };
    const other = { public_id: 'a', digest: Uint8Array.of(1, 255), expires_at: new Date(at), allowed_addresses: [] };
    expect(encodeRow('api_keys', one, 1)).toBe(encodeRow('api_keys', other, 1));
    const [rules, reordered] = [[{ b: 1, a: { d: [2], c: null } }], [{ a: { c: null, d: [2] }, b: 1 }]];
    expect(encodeRow('applications', { rules }, 1)).toBe(encodeRow('applications', { rules: reordered }, 1));
    expect(encodeRow('users', { second_factor_step: 5n }, null)).toBe(
      encodeRow('users', { second_factor_step: '5' }, null),
    );
  });

  test.each([
    [{ allowed_hosts: ['a', 'b'] }, { allowed_hosts: ['a,b'] }],
    [
      { allowed_hosts: ['a'], allowed_origins: [] },
      { allowed_hosts: [], allowed_origins: ['a'] },
    ],
    [{ rules: { a: 1 } }, { rules: [['a', 1]] }],
    [{ rules: [{ a: '1' }] }, { rules: [{ a: 1 }] }],
    [{ daily_uses: 1 }, { daily_reveals: 1 }],
    [{ container: null }, { container: 'null' }],
    [{ container: '' }, { container: null }],
  ])('tells %j and %j apart', (one, other) => {
    expect(encodeRow('applications', one, 1)).not.toBe(encodeRow('applications', other, 1));
  });

  test('a MAC holds for one row of one table under one version of one vault', () => {
    const [macs, others] = [1, 2].map((byte) => createRowMacs(prepareDigestKey('pepper', Buffer.alloc(32, byte))));
    if (!macs || !others) throw new Error('there are two');
    const sealed = Buffer.from('sealed');
    const row = { tenant_id: 't', id: 'i', sealed, version: 1 };
    const signed = { ...row, mac: macs.macOf('proxies', row, 7) };
    expect(macs.isIntact('proxies', signed, 7)).toBe(true);
    expect(macs.isIntact('proxies', { ...signed, sealed: Buffer.from('other') }, 7)).toBe(false);
    expect(macs.isIntact('proxies', signed, 6)).toBe(false);
    expect(macs.isIntact('proxies', signed, null)).toBe(false);
    expect(macs.isIntact('reactors', signed, 7)).toBe(false);
    expect(macs.isIntact('proxies', row, 7)).toBe(false);
    expect(others.isIntact('proxies', signed, 7)).toBe(false);
  });
});

test('rows of the audit log are inserted by statements that take a MAC, and by nothing else', () => {
  const root = join(import.meta.dirname, '../../src');
  const using = (pattern: RegExp): string[] =>
    readdirSync(root, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts') && !path.startsWith('generated'))
      .filter((path) => pattern.test(readFileSync(join(root, path), 'utf8')))
      .toSorted();
  expect(using(/INSERT INTO audit_log/)).toEqual([
    'modules/tokens/rows/new-tokens-sql.ts',
    'platform/db/audit-rows.ts',
    // A partition that is put back.
    'platform/db/log-partitions.ts',
  ]);
  expect(using(/\.audit_log\b/)).toEqual([]);
  expect(using(/\bas (?:SignedLog|LogMac)\b/)).toEqual(['platform/crypto/log-mac.ts', 'platform/db/log-macs.ts']);
});
