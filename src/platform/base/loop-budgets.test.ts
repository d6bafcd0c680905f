import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { anonymousAccount, createAccounts } from './accounts.ts';
import { BUDGET_WAIT_MS_MAX } from './loop-budgets.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Asks, and gives the time for which the request waited once it begins. */
const createClient = (limits?: Parameters<typeof createAccounts>[0], idleShare = 0) => {
  const accounts = createAccounts(limits, { readIdleShare: () => idleShare });
  const { budgets } = accounts;
  const ask = (account: string): { waitedMs?: number; error?: unknown } => {
    const began = performance.now();
    const state: { waitedMs?: number; error?: unknown } = {};
    const begin = (): void => void (state.waitedMs = performance.now() - began);
    const entered = budgets.enter(account);
    if (entered) entered.then(begin, (error: unknown) => (state.error = error));
    else begin();
    return state;
  };
  return { accounts, budgets, ask };
};
/** What a tenant may use at once. */
const CREDIT = 100;

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test('a tenant alone never waits, whatever it uses and however many strangers ask', async () => {
  const { budgets, ask } = createClient();
  for (let each = 0; each < 50; each += 1) {
    ask(anonymousAccount('203.0.113.1'));
    expect(ask('a')).toEqual({ waitedMs: 0 });
    budgets.spend('a', 400);
    await pass(1);
  }
});

test('beside another one it waits until its share has paid, and the other one does not', async () => {
  const { budgets, ask } = createClient();
  expect(ask('b')).toEqual({ waitedMs: 0 });
  expect(ask('a')).toEqual({ waitedMs: 0 });
  budgets.spend('a', CREDIT + 150);
  const next = ask('a');
  await pass(150);
  expect(next).toEqual({});
  expect(ask('b')).toEqual({ waitedMs: 0 });
  await pass(200);
  expect(next.waitedMs).toBeGreaterThanOrEqual(300);
  expect(next.waitedMs).toBeLessThan(330);
});

test('a tenant in debt has its share, and what others leave idle', async () => {
  const { budgets, ask } = createClient({}, 0.5);
  for (const each of ['b', 'c', 'd']) ask(each);
  ask('a');
  budgets.spend('a', CREDIT + 250);
  const next = ask('a');
  // A quarter, and half of the other three quarters.
  await pass(390);
  expect(next).toEqual({});
  await pass(40);
  expect(next.waitedMs).toBeGreaterThanOrEqual(390);
});

test('its debt is forgiven once no other one has asked for a second, and beyond half a second', async () => {
  const { budgets, ask } = createClient();
  ask('b');
  ask('a');
  budgets.spend('a', 100_000);
  const next = ask('a');
  await pass(990);
  expect(next).toEqual({});
  await pass(100);
  // Half a second at a half of the loop; then the other one is gone.
  expect(next.waitedMs).toBeLessThan(1_050);
  expect(ask('a')).toEqual({ waitedMs: 0 });
});

test('requests that wait begin one after another, each when the one before is paid', async () => {
  const { budgets, ask } = createClient();
  ask('b');
  budgets.spend('a', CREDIT);
  ask('a');
  budgets.spend('a', 100);
  const waiting = Array.from({ length: 4 }, () => ask('a'));
  const begun = new Set<object>();
  for (let step = 0; step < 200; step += 1) {
    ask('b');
    await pass(10);
    for (const each of waiting) {
      if (each.waitedMs === undefined || begun.has(each)) continue;
      begun.add(each);
      budgets.spend('a', 100);
    }
  }
  const waited = waiting.map(({ waitedMs = Infinity }) => waitedMs);
  for (let each = 1; each < 4; each += 1)
    expect((waited[each] as number) - (waited[each - 1] as number)).toBeGreaterThan(150);
  expect(waited[3]).toBeLessThan(2_000);
});

test('one that waits too long, or beside too many of its tenant, is told when to come back', async () => {
  const limits = { waiting_requests: { ofAll: 40, ofTenantMax: 2, ofTenantLeast: 2 } };
  const { accounts, budgets, ask } = createClient(limits);
  ask('a');
  budgets.spend('a', CREDIT + 500);
  for (let each = 0; each < 40; each += 1) ask(`other ${each}`);
  const states = [ask('a'), ask('a'), ask('a')];
  await pass(0);
  expect(states[2]?.error).toMatchObject({ code: 'too_many_requests', retryAfterSeconds: 1 });
  expect(accounts.figures().limits.find(({ name }) => name === 'waiting_requests')?.held).toBe(2);
  for (let at = 0; at <= BUDGET_WAIT_MS_MAX; at += 500) {
    for (let each = 0; each < 40; each += 1) ask(`other ${each}`);
    await pass(500);
  }
  const late = states[0]?.error as { code: string; retryAfterSeconds: number } | undefined;
  expect(late?.code).toBe('too_many_requests');
  expect(late?.retryAfterSeconds).toBeGreaterThan(1);
  expect(accounts.figures().limits.find(({ name }) => name === 'waiting_requests')?.held).toBe(0);
});

test('addresses have a budget each, and all of them together that of one tenant', async () => {
  const { budgets, ask } = createClient();
  const [first = '', second = ''] = ['203.0.113.1', '203.0.113.2'].map(anonymousAccount);
  ask('a');
  ask(second);
  ask(first);
  budgets.spend(first, 50);
  const next = ask(first);
  expect(ask(second)).toEqual({ waitedMs: 0 });
  // A quarter of the loop: a half for the tenant, and a half for the two addresses.
  await pass(170);
  expect(next).toEqual({});
  await pass(60);
  expect(next.waitedMs).toBeGreaterThanOrEqual(175);
});

test('a client that leaves gives its place back', async () => {
  const { accounts, budgets, ask } = createClient();
  ask('b');
  ask('a');
  budgets.spend('a', CREDIT + 500);
  const controller = new AbortController();
  const entered = budgets.enter('a', () => controller.signal);
  controller.abort();
  await expect(entered).rejects.toMatchObject({ code: 'too_many_requests' });
  expect(accounts.figures().limits.find(({ name }) => name === 'waiting_requests')?.held).toBe(0);
});
