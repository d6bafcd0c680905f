// What each tenant may hold: who gets it, in which order, what is kept for others, and that no reservation is stuck.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import {
  type Account,
  accountLimits,
  createAccounts,
  type Limit,
  type LimitName,
  limitsOfWorker,
  openAccount,
} from './accounts.ts';
import type { CoreClock } from './core-time.ts';
import { AppError } from './errors.ts';
import type { Slices } from '../json/slices.ts';

const open = (limit: Partial<Limit> = {}, waitMs = 5_000) => {
  const accounts = createAccounts({
    response_bytes: { ofAll: 100, ofTenantMax: 60, ofTenantLeast: 0, ofRequestMax: 0, ...limit },
  });
  const granted: string[] = [];
  const reserve = (account: Account, amount: number) => accounts.reserve(account, 'response_bytes', amount);
  /** The code of the refusal. */
  const refusal = (account: Account, amount: number) => accounts.findRefusal(account, 'response_bytes', amount)?.code;
  /** Waits in the background, and notes when it is granted. */
  const ask = (account: Account, amount: number, signal?: AbortSignal) => {
    const end = accounts.reserveInTime(account, 'response_bytes', amount, { waitMs, signal }).then(
      (reservation) => {
        granted.push(`${account}${amount}`);
        return reservation;
      },
      (error: unknown) => (error instanceof AppError ? error.code : 'aborted'),
    );
    return end;
  };
  return { accounts, granted, reserve, refusal, ask };
};

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a tenant has its share, and not more; the refusal names the limit', () => {
  const { reserve } = open();
  const held = reserve('a', 60);
  expect(() => reserve('a', 1)).toThrow('The tenant has reached the limit of response bytes. Try again.');
  expect(() => reserve('b', 41)).toThrow('The server has reached its limit of response bytes. Try again.');
  held.release();
  expect(reserve('a', 60)).toBeDefined();
});

test('what is held is given back once: in part, whole, and not again', () => {
  const { reserve, refusal } = open();
  const held = reserve('a', 60);
  held.shrinkTo(70);
  expect(refusal('a', 1)).toBe('too_many_requests');
  held.shrinkTo(20);
  reserve('a', 40);
  held.shrinkTo(30);
  expect(refusal('a', 1)).toBe('too_many_requests');
  held.release();
  held.release();
  expect(refusal('a', 20)).toBeUndefined();
  expect(refusal('a', 21)).toBe('too_many_requests');
});

test('a refused reservation changes nothing, and what is held already counts beyond the limit', () => {
  const { accounts, reserve, refusal } = open();
  expect(() => reserve('a', 61)).toThrow(AppError);
  const over = accounts.hold('a', 'response_bytes', 200);
  expect(refusal('b', 1)).toBe('unavailable');
  over.release();
  expect(refusal('a', 60)).toBeUndefined();
});

test('a quarter is kept for tenants that hold little', () => {
  const { reserve, refusal } = open({ ofTenantMax: 25, ofTenantLeast: 5 });
  for (const tenant of ['a', 'b', 'c']) reserve(tenant, 25);
  expect(refusal('d', 6)).toBe('unavailable');
  for (const tenant of ['d', 'e', 'f', 'g', 'h']) reserve(tenant, 5);
  for (const tenant of ['a', 'd']) expect(refusal(tenant, 1)).toMatch(/^(too_many_requests|unavailable)$/);
});

test('shares shrink while more tenants are active, down to a least one', () => {
  const { reserve, refusal } = open({ ofTenantLeast: 30 });
  const held = reserve('a', 10);
  expect(refusal('a', 50)).toBeUndefined();
  reserve('b', 1);
  expect(refusal('a', 40)).toBeUndefined();
  expect(refusal('a', 41)).toBe('too_many_requests');
  for (const tenant of ['c', 'd', 'e', 'f', 'g']) reserve(tenant, 1);
  expect(refusal('a', 20)).toBeUndefined();
  expect(refusal('a', 21)).toBe('too_many_requests');
  // One alone fits always where the limit allows it: otherwise it would never be granted.
  held.release();
  expect(refusal('a', 60)).toBeUndefined();
});

test('clients of open proxies have a quarter for themselves, and one address half of that', () => {
  const { reserve, refusal } = open({ ofAll: 1000, ofTenantMax: 80 });
  const first = openAccount('a', '192.0.2.1');
  reserve(first, 10);
  expect(refusal(first, 1)).toBe('too_many_requests');
  expect(refusal(openAccount('a', '192.0.2.1:4711'), 1)).toBe('too_many_requests');
  reserve(openAccount('a', '192.0.2.2'), 10);
  expect(refusal(openAccount('a', '192.0.2.3'), 1)).toBe('too_many_requests');
  expect(refusal('a', 80)).toBeUndefined();
  expect(refusal(openAccount('b', '192.0.2.1'), 10)).toBeUndefined();
});

test('an anonymous client has enough for one of the largest requests', () => {
  const { reserve, refusal } = open({ ofAll: 1000, ofTenantMax: 80, ofRequestMax: 30 });
  reserve(openAccount('a', '192.0.2.1'), 30);
  expect(refusal(openAccount('a', '192.0.2.1'), 1)).toBe('too_many_requests');
  reserve(openAccount('a', '192.0.2.2'), 30);
  expect(refusal(openAccount('a', '192.0.2.3'), 1)).toBe('too_many_requests');
});

test('addresses of one IPv6 network are one client', () => {
  expect(openAccount('a', '2001:db8:1:2::1')).toBe(openAccount('a', '2001:db8:1:ffff::9'));
});

test('first come, first served within a tenant: a small one does not pass a large one', async () => {
  const { granted, reserve, ask } = open();
  const held = reserve('a', 30);
  void ask('a', 40);
  void ask('a', 10);
  await turn();
  expect(granted).toEqual([]);
  held.release();
  await turn();
  expect(granted).toEqual(['a40', 'a10']);
});

test('a tenant that has its share keeps no other waiting, and none passes one that waits for all', async () => {
  const { granted, reserve, ask } = open({ ofTenantLeast: 5 });
  const held = reserve('a', 60);
  void ask('a', 20);
  void ask('b', 10);
  await turn();
  expect(granted).toEqual(['b10']);
  void ask('c', 30);
  void ask('d', 6);
  await turn();
  expect(granted).toEqual(['b10']);
  // What is kept for those that hold little is theirs at once.
  void ask('e', 5);
  await turn();
  expect(granted).toEqual(['b10', 'e5']);
  held.release();
  await turn();
  expect(granted).toEqual(['b10', 'e5', 'a20', 'c30', 'd6']);
});

test('a reservation that gives up lets the next ones in', async () => {
  const { granted, reserve, ask } = open();
  reserve('a', 50);
  const leaving = new AbortController();
  const large = ask('b', 60, leaving.signal);
  void ask('c', 25);
  await turn();
  expect(granted).toEqual([]);
  leaving.abort();
  expect(await large).toBe('aborted');
  await turn();
  expect(granted).toEqual(['c25']);
});

test('the wait ends with the refusal, and what comes later is granted', async () => {
  const { granted, reserve, ask } = open({}, 20);
  const held = reserve('a', 60);
  expect(await ask('a', 1)).toBe('too_many_requests');
  expect(await ask('b', 41)).toBe('unavailable');
  held.release();
  await ask('a', 60);
  expect(granted).toEqual(['a60']);
});

test('what never fits does not wait, nor does one that has been left', async () => {
  const { ask } = open();
  expect(await ask('a', 61)).toBe('too_many_requests');
  expect(await ask('a', 1, AbortSignal.abort())).toBe('aborted');
});

test('so many of a tenant wait and no more, and others are granted meanwhile', async () => {
  const { granted, reserve, ask } = open();
  const held = reserve('a', 60);
  for (let each = 0; each < 128; each += 1) void ask('a', 1);
  expect(await ask('a', 2)).toBe('too_many_requests');
  void ask('b', 1);
  held.release();
  await turn();
  // The share of the tenant holds for those that waited: 50 of 100, with two active.
  expect(granted).toEqual(['b1', ...Array(50).fill('a1')]);
});

test('so many of all wait and no more, and what needs no wait is granted', async () => {
  const { accounts, reserve, refusal, ask } = open({ ofAll: 12, ofTenantLeast: 2 });
  reserve('a', 5);
  for (let each = 0; each < 1_000; each += 1) void ask(`b${each}`, 6);
  expect(await ask('c', 6)).toBe('unavailable');
  expect(refusal('c', 2)).toBeUndefined();
  accounts.close();
});

test('closing ends the wait, and nothing is granted after it', async () => {
  const { accounts, reserve, ask } = open();
  const held = reserve('a', 60);
  const waiting = [ask('a', 1), ask('a', 60), ask('b', 60)];
  accounts.close();
  expect(await Promise.all(waiting)).toEqual(['unavailable', 'unavailable', 'unavailable']);
  expect(await ask('b', 1)).toBe('unavailable');
  held.release();
});

test('closing grants nothing to one that waits behind another', async () => {
  const { accounts, granted, reserve, ask } = open();
  reserve('a', 50);
  const waiting = [ask('b', 60), ask('c', 25)];
  await turn();
  accounts.close();
  expect(await Promise.all(waiting)).toEqual(['unavailable', 'unavailable']);
  expect(granted).toEqual([]);
});

test('anonymous clients of a tenant wait as one tenant does, and one address as half of it', async () => {
  const { accounts, reserve, ask } = open({ ofRequestMax: 1 });
  const held = [reserve('a', 60), reserve('b', 15)];
  const clientOf = (each: number): Account => openAccount('a', `192.0.2.${each}`);
  const refused: unknown[] = [];
  const askRepeatedly = (times: number, account: (each: number) => Account): void => {
    for (let each = 0; each < times; each += 1) void ask(account(each), 1).then((end) => refused.push(end));
  };
  askRepeatedly(65, () => clientOf(1));
  await turn();
  expect(refused).toEqual(['unavailable']);
  askRepeatedly(65, (each) => clientOf(2 + each));
  await turn();
  expect(refused).toEqual(['unavailable', 'unavailable']);
  // The line of the others is as long as ever.
  const other = ask('c', 1);
  for (const each of held) each.release();
  expect(await other).toHaveProperty('release');
  accounts.close();
});

test('each worker has a part of the limits, and room for one of the largest requests', () => {
  const BODY_BYTES_MAX = 64 * 1024 * 1024;
  for (const workers of [1, 2, 3, 4, 7, 64]) {
    const accounts = createAccounts(limitsOfWorker(workers, BODY_BYTES_MAX));
    const largest = { ...accountLimits, body_bytes: { ofTenantLeast: 0, ofRequestMax: BODY_BYTES_MAX } };
    for (const [name, limit] of Object.entries(largest) as [LimitName, Limit][])
      for (const account of ['a', openAccount('a', '192.0.2.1')]) {
        const most = limit.ofRequestMax ?? (account === 'a' ? limit.ofTenantLeast : 0);
        expect([workers, name, account, accounts.findRefusal(account, name, most)?.code]).toEqual([
          workers,
          name,
          account,
          undefined,
        ]);
      }
  }
  const runs = createAccounts(limitsOfWorker(4, BODY_BYTES_MAX));
  runs.hold('a', 'runs', 32);
  expect(runs.findRefusal('a', 'runs', 1)?.code).toBe('too_many_requests');
});

/** The time of `performance.now` in these tests: only slices take time. */
let clockMs = 0;
const clock: CoreClock = { lastWaitedMs: () => 0, usedSince: (beganMs, _waited, now) => now - beganMs };
beforeEach(() => {
  vi.spyOn(performance, 'now').mockImplementation(() => clockMs);
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Work whose slices take two milliseconds each. */
function* slices(name: string, count: number, log: string[]): Slices<string> {
  for (let slice = 0; slice < count; slice += 1) {
    clockMs += 2;
    log.push(name);
    yield;
  }
  return name;
}

test('short work ends at once, without a promise', () => {
  const accounts = createAccounts({}, { clock });
  expect(accounts.runInTurns('a', slices('short', 0, []))).toBe('short');
});

test('long work of several tenants takes turns, and other work goes on between them', async () => {
  const accounts = createAccounts({}, { clock });
  const log: string[] = [];
  const works = ['a', 'a', 'a', 'b'].map((name) => accounts.runInTurns(name, slices(name, 5, log)));
  let looks = 0;
  let isDone = false;
  const look = (): void => {
    looks += 1;
    if (!isDone) setImmediate(look);
  };
  setImmediate(look);
  expect(await Promise.all(works)).toEqual(['a', 'a', 'a', 'b']);
  isDone = true;
  expect(looks).toBeGreaterThan(5);
  // After the first turns of all: b is done when it and a have had as much each.
  expect(log.slice(4).lastIndexOf('b')).toBeLessThan(10);
});

test('after a long slice its tenant rests: other work goes on, small and long', async () => {
  const accounts = createAccounts({}, { clock });
  const log: string[] = [];
  const indivisible = function* (name: string): Slices<string> {
    clockMs += 40;
    log.push(name);
    yield;
    log.push(`${name} again`);
    return name;
  };
  const long = accounts.runInTurns('a', indivisible('a'));
  // It rests by the clock, which stands: turns of the loop do not end the rest.
  const others = await Promise.all(['b', 'c'].map((name) => accounts.runInTurns(name, slices(name, 5, log))));
  expect(others).toEqual(['b', 'c']);
  const next = accounts.runInTurns('a', slices('a next', 1, log));
  expect(next).toBeInstanceOf(Promise);
  expect(log).not.toContain('a again');
  expect(log).not.toContain('a next');
  expect(accounts.figures().turns).toBe(2);
  clockMs += 40;
  expect(await Promise.all([long, next])).toEqual(['a', 'a next']);
  expect(accounts.figures().turns).toBe(0);
});

test('an account rests as long as it was charged, at most 100 ms, and its long work with it', async () => {
  const accounts = createAccounts({}, { clock });
  expect(accounts.whenPaid('a')).toBeUndefined();
  accounts.charge('a', 3);
  accounts.charge('a', 4);
  let isPaid = false;
  const paid = accounts.whenPaid('a')?.then(() => (isPaid = true));
  expect(accounts.whenPaid('b')).toBeUndefined();
  const log: string[] = [];
  const work = accounts.runInTurns('a', slices('a', 1, log));
  clockMs += 6;
  await new Promise((resolve) => setTimeout(resolve, 20));
  // The clock of the test stands.
  expect([isPaid, log]).toEqual([false, []]);
  clockMs += 1;
  expect([await paid, await work]).toEqual([true, 'a']);
  accounts.charge('a', 1_000);
  clockMs += 100;
  expect(accounts.whenPaid('a')).toBeUndefined();
});

test('what is left of a tenant that is served elsewhere has a tenth of the loop', () => {
  const accounts = createAccounts({}, { clock });
  const { heavyTenants } = accounts;
  for (const account of ['b', 'a']) heavyTenants.isElsewhere(account);
  accounts.chargeHeavy('a', 100);
  clockMs += 100;
  expect(accounts.restMs('a')).toBe(0);
  heavyTenants.socket = '/heavy.sock';
  accounts.charge('a', 2);
  accounts.charge('b', 2);
  expect(['a', 'b'].map((account) => accounts.restMs(account))).toEqual([18, 2]);
});

test('a tenant has so much long work and no more, and a failure of the work ends it', async () => {
  const accounts = createAccounts({ long_work: { ofTenantMax: 2, ofTenantLeast: 2 } }, { clock });
  const works = [1, 2].map(() => accounts.runInTurns('a', slices('a', 3, [])));
  await expect(accounts.runInTurns('a', slices('a', 3, []))).rejects.toThrow(
    'The tenant has reached the limit of long work',
  );
  await Promise.all(works);
  const failing = function* (): Slices<never> {
    yield* slices('a', 2, []);
    throw new Error('of the work');
  };
  await expect(accounts.runInTurns('a', failing())).rejects.toThrow('of the work');
  await accounts.runInTurns('a', slices('a', 2, []));
});

test('each limit keeps its share of all and its least of a tenant below its most', () => {
  for (const { ofAll, ofTenantMax, ofTenantLeast } of Object.values(accountLimits)) {
    expect(ofTenantLeast).toBeLessThanOrEqual(ofTenantMax / 2);
    // The largest share leaves the kept quarter alone.
    expect(ofTenantMax).toBeLessThanOrEqual(ofAll / 2);
  }
});
