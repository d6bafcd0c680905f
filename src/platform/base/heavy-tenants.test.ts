import { expect, test } from 'vitest';
import { createHeavyTenants, HEAVY_MS, HEAVY_STAY_MS } from './heavy-tenants.ts';

const SECOND_MS = 1_000;

const begin = () => {
  let nowMs = 0;
  return { tenants: createHeavyTenants(() => nowMs), pass: (ms: number) => (nowMs += ms) };
};

test('a tenant with much work is heavy while others ask, and for a while after', () => {
  const { tenants, pass } = begin();
  tenants.isElsewhere('other');
  tenants.isElsewhere('heavy');
  tenants.spend('heavy', HEAVY_MS);
  expect(tenants.take(false)).toEqual(['heavy']);
  expect(tenants.take(false)).toEqual([]);
  expect(tenants.isElsewhere('heavy')).toBe(true);
  expect(tenants.isElsewhere('other')).toBe(false);
  pass(HEAVY_STAY_MS - SECOND_MS);
  tenants.isElsewhere('other');
  expect(tenants.isElsewhere('heavy')).toBe(true);
  pass(SECOND_MS);
  expect(tenants.isElsewhere('heavy')).toBe(false);
});

test('a tenant that is alone is never elsewhere', () => {
  const { tenants, pass } = begin();
  for (let second = 0; second < 30; second += 1) {
    tenants.spend('only', HEAVY_MS);
    expect(tenants.isElsewhere('only')).toBe(false);
    expect(tenants.take(false)).toEqual([]);
    pass(SECOND_MS);
  }
  tenants.isElsewhere('second');
  expect(tenants.isElsewhere('only')).toBe(true);
  pass(10 * SECOND_MS + 1);
  expect(tenants.isElsewhere('only')).toBe(false);
});

test('a heavy worker tells of its tenants also where each is alone in it', () => {
  const { tenants } = begin();
  tenants.isElsewhere('only');
  tenants.spend('only', HEAVY_MS);
  expect(tenants.take(true)).toEqual(['only']);
});

test('what another process found counts here', () => {
  const { tenants } = begin();
  tenants.tell(['heavy']);
  tenants.isElsewhere('other');
  expect(tenants.isElsewhere('heavy')).toBe(true);
});

test('work spread over time makes no tenant heavy, nor does that of clients without a key', () => {
  const { tenants, pass } = begin();
  tenants.isElsewhere('other');
  for (let second = 0; second < 100; second += 1) {
    tenants.spend('steady', 45);
    tenants.spend('steady open 192.0.2.1', HEAVY_MS);
    expect(tenants.isElsewhere('steady')).toBe(false);
    tenants.isElsewhere('other');
    pass(SECOND_MS);
  }
  expect(tenants.take(true)).toEqual([]);
});

test('what a tenant began before its requests went to the heavy worker is left over', () => {
  const { tenants, pass } = begin();
  tenants.isElsewhere('heavy');
  tenants.isElsewhere('other');
  tenants.spend('heavy', HEAVY_MS);
  expect(tenants.isLeftOver('heavy')).toBe(false);
  tenants.socket = '/heavy.sock';
  expect(tenants.isLeftOver('heavy')).toBe(true);
  expect(tenants.isLeftOver('other')).toBe(false);
  pass(HEAVY_STAY_MS);
  expect(tenants.isLeftOver('heavy')).toBe(false);
});
