// What a key can and cannot do, in sentences: each permission is said, rules in the order in which they decide.
import { describe, expect, test } from 'vitest';
import { accessRuleSchema, type AskedRule } from './access-rule.ts';
import { type Permission, permissions } from './permissions.ts';
import { type Rights, summarizeRights } from './rights-summary.ts';

const rule = (fields: object): AskedRule =>
  accessRuleSchema.parse({ priority: 1, transform: 'reveal', permissions: ['token:read'], ...fields });

const rights = (fields: Partial<Rights>): Rights => ({ type: 'private', permissions: [], rules: [], ...fields });

const canOf = (fields: Partial<Rights>): string[] => summarizeRights(rights(fields)).can;

const TOKENS_CANNOT = [
  'read a token, by value or by mask',
  'use tokens in reactors or through proxies',
  'store, change, delete or search tokens',
];

test('a key without rights can nothing, and what it cannot is all there is', () => {
  const { can, cannot } = summarizeRights(rights({}));
  expect(can).toEqual([]);
  expect(cannot).toEqual([
    ...TOKENS_CANNOT,
    'read or change sessions for browsers, applications and their keys, reactors and their code, proxies with their keys and code, who may do what, webhooks and their deliveries, cards that agents hand over, forwarded requests that have an idempotency key, the log, usage reports, people, invitations or the tenant and its settings',
  ]);
});

test('a key with every permission has nothing that it cannot', () => {
  expect(summarizeRights(rights({ permissions })).cannot).toEqual([]);
});

test.each(permissions)('%s adds a sentence, and takes one away', (permission: Permission) => {
  const none = summarizeRights(rights({}));
  const { can, cannot } = summarizeRights(rights({ permissions: [permission] }));
  expect(can.length).toBeGreaterThan(0);
  expect(cannot.join()).not.toBe(none.cannot.join());
  const without = permissions.filter((each) => each !== permission);
  expect(canOf({ permissions: without }).join()).not.toBe(canOf({ permissions }).join());
});

describe('rules', () => {
  test('name their tokens, and how much of them is shown', () => {
    expect(canOf({ rules: [rule({ container: '/pci/' })] })).toEqual(['read the values of tokens below /pci/']);
    expect(canOf({ rules: [rule({ container: '/', transform: 'mask' })] })).toEqual(['read the masks of all tokens']);
    const conditions = [
      { attribute: 'id', operator: 'equals', value: 'x' },
      { attribute: 'container', operator: 'starts_with', value: '/pci/' },
    ];
    expect(canOf({ rules: [rule({ conditions, transform: 'redact' })] })).toEqual([
      'see tokens whose id is x and whose container begins with /pci/ without value and mask',
    ]);
  });

  test('of a search read what they find, and count as reading', () => {
    const search = (transform: string) =>
      summarizeRights(rights({ rules: [rule({ container: '/', transform, permissions: ['token:search'] })] }));
    expect(search('reveal').can).toEqual(['search all tokens, and read the values of those found']);
    expect(search('reveal').cannot.join()).not.toMatch(/read a token|read the value/);
    expect(search('mask').cannot[0]).toBe('read the value of a token');
    expect(summarizeRights(rights({ permissions: ['token:search'] })).cannot.join()).not.toMatch(
      /read a token|read the value/,
    );
  });

  test('that mask leave no value, and say so', () => {
    const summary = summarizeRights(rights({ rules: [rule({ container: '/pci/', transform: 'mask' })] }));
    expect(summary.cannot[0]).toBe('read the value of a token');
    const both = [rule({ container: '/pci/', transform: 'mask' }), rule({ container: '/', priority: 2 })];
    expect(summarizeRights(rights({ rules: both })).cannot[0]).not.toBe('read the value of a token');
  });

  test('are said in the order of their priority, and those that never decide are left out', () => {
    const rules = [
      rule({ container: '/pci/high/', priority: 3 }),
      rule({ container: '/pci/', priority: 2, transform: 'mask' }),
      rule({ container: '/general/', priority: 4 }),
    ];
    expect(canOf({ rules, permissions: ['token:read'] })).toEqual([
      'read the masks of tokens below /pci/',
      'read the values of other tokens below /general/',
      'read the masks of all other tokens, and the values of those without a mask',
    ]);
    expect(canOf({ rules: [rule({ container: '/' })], permissions: ['token:read'] })).toEqual([
      'read the values of all tokens',
    ]);
  });
});

test('use says where values may go', () => {
  const use = [rule({ container: '/pci/', permissions: ['token:use'] })];
  expect(canOf({ rules: use, allowed_hosts: ['a.test', 'b.test'] })).toEqual([
    'use the values of tokens below /pci/ in reactors and through proxies',
    'send them to a.test and b.test only',
  ]);
  expect(canOf({ permissions: ['token:use'] })[1]).toBe('send them to any host, also to one that returns their values');
  const bound = { container: '/pci/', permissions: ['token:use'], bound_to: { hosts: ['a.test'] } };
  const only = 'use the values of tokens below /pci/ in reactors and through proxies, only to a.test';
  expect(canOf({ rules: [rule(bound)] })).toEqual([only]);
  expect(canOf({ rules: [rule(bound)], permissions: ['token:use'] })).toHaveLength(3);
  expect(canOf({ rules: [rule({ ...bound, bound_to: { max_uses: 1 } })] })).toHaveLength(2);
});

test('code, limits and what is public are said', () => {
  expect(canOf({ permissions: ['reactor:read', 'reactor:update'], daily_uses: 1000 })).toEqual([
    'read and change reactors and their code',
    'decide what code does with the values of its callers',
    'use at most 1,000 tokens a day',
  ]);
  const open = { type: 'public', permissions: ['token:create'] as const };
  expect(canOf({ ...open, allowed_origins: ['https://shop.test'], container: '/pci/' })).toEqual([
    'store tokens in /pci/',
    'be used by apps, and by pages of https://shop.test',
  ]);
  expect(canOf(open)).toEqual(['store tokens, in the container of their type', 'be used by apps, and by no page']);
});
