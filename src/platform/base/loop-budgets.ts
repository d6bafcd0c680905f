// Gives each tenant a budget of event-loop time. A tenant that has used more than its share waits before its next request is read.
// turns.ts decides whose work is next. But one tenant that always has work would keep the loop busy all the time: each request
// of another tenant would wait long, however short its own work is.
import { performance as ofProcess } from 'node:perf_hooks';
import { AppError } from './errors.ts';
import type { Account } from './event-loop.ts';

/** A tenant counts as active for so long after it has asked. */
const ACTIVE_MS = 1_000;

/** Longer debts are forgiven: one request that took seconds must not keep its tenant out for minutes. */
const DEBT_MS_MAX = 500;

/** Unused time that is kept: what a page or a backend asks at once. Clients without a secret key can have many addresses. */
const CREDIT_MS_MAX = 100;
const CREDIT_OF_ADDRESS_MS_MAX = 5;

/**
 * A run may bring its tenant so far into debt. Beyond, its next messages wait a little. Requests that wait keep the debt near zero,
 * so that it says more than that others wait.
 */
const UNDER_WAY_DEBT_MS = 50;

/** How long a request waits. Beyond, its client is told when to come back. */
export const BUDGET_WAIT_MS_MAX = 5_000;

/** The share is looked at so often while requests wait: others come and go. */
const LOOK_MS = 25;

/** Active tenants are counted so often. */
const COUNT_MS = 25;

/** The cost of a request is estimated from about so many of its tenant. */
const ESTIMATED_FROM = 32;

/** Accounts that are remembered. The one that has not asked for longest is forgotten. */
const BUDGETS_MAX = 10_000;

type Waiting = { begin(): void };

type Budget = {
  account: Account;
  /** Negative for a credit. */
  debtMs: number;
  /** Paid for requests before they ran, by the estimate of their cost. */
  prepaidMs: number;
  /** Up to when the debt was reduced, by `performance.now()`. */
  atMs: number;
  askedAtMs: number;
  /** For the estimate: time used, and requests. */
  usedMs: number;
  requests: number;
  /** The longest time between two marks since `longestCallbacks` was asked. */
  longestMs: number;
  waiting: Set<Waiting>;
  timer: NodeJS.Timeout | undefined;
};

/** Clients without a secret key: the tenant whose key or proxy they use, or `anonymous`, with their address. */
export const isAddress = (account: Account): boolean => account.includes(' open ');
const groupOf = (account: Account): string => account.slice(0, account.indexOf(' open '));

export type LoopBudgets = {
  /** Counts time of the event loop. Every callback that belongs to an account does so, see event-loop.ts. */
  spend(account: Account, usedMs: number): void;
  /**
   * To be asked before a request is read. Resolves when its account has no debt; undefined where it has none, or where no other
   * tenant has asked lately.
   * @throws too_many_requests, also after BUDGET_WAIT_MS_MAX, and where the client has gone.
   */
  enter(account: Account, signal?: () => AbortSignal): Promise<void> | undefined;
  /** How long nothing more should be read for work that is under way, in ms, at most LOOK_MS. */
  restMs(account: Account): number;
  /** The longest callback of each account since the last call, in ms. */
  takeLongest(): Map<Account, number>;
};

/** @returns reads the idle part of the event loop since it was last read. */
export const createIdleShare = (): (() => number) => {
  let before = ofProcess.eventLoopUtilization();
  return () => {
    const now = ofProcess.eventLoopUtilization();
    const { idle, active } = ofProcess.eventLoopUtilization(now, before);
    before = now;
    return idle / Math.max(1, idle + active);
  };
};

/** @param reserve counts a request that waits, and refuses too many: what it returns gives that back. */
export const createLoopBudgets = (
  reserve: (account: Account) => { release(): void },
  readIdleShare: () => number,
): LoopBudgets => {
  /** The one that asked last is the last. */
  const budgets = new Map<Account, Budget>();
  let countedAtMs = -Infinity;
  let tenants = 0;
  /** Tenants in debt, and the part of the loop that was idle since the last count, which they divide. */
  let debtors = 0;
  let idleShare = 0;
  /** Active addresses, by group. */
  let addresses = new Map<string, number>();

  const count = (now: number): void => {
    if (now - countedAtMs < COUNT_MS) return;
    countedAtMs = now;
    idleShare = readIdleShare();
    tenants = 0;
    debtors = 0;
    addresses = new Map();
    for (const { account, askedAtMs, waiting, debtMs } of budgets.values()) {
      if (now - askedAtMs > ACTIVE_MS && waiting.size === 0) continue;
      if (!isAddress(account)) {
        tenants += 1;
        if (debtMs > 0) debtors += 1;
      } else addresses.set(groupOf(account), (addresses.get(groupOf(account)) ?? 0) + 1);
    }
  };

  /**
   * The share of the loop. Tenants divide the whole. Tenants in debt divide the idle part too: a busy tenant beside many that ask
   * little would else wait while the loop is idle. Clients without a secret key do not reduce these shares: the clients of one tenant
   * have together what one more tenant would have, and divide that by their addresses.
   */
  const shareOf = (account: Account): number => {
    const ofTenant = 1 / Math.max(1, tenants);
    if (!isAddress(account)) return ofTenant + ((1 - ofTenant) * idleShare) / Math.max(1, debtors);
    return 1 / Math.max(1, tenants + addresses.size) / Math.max(1, addresses.get(groupOf(account)) ?? 1);
  };

  const find = (account: Account, now: number): Budget => {
    let budget = budgets.get(account);
    if (!budget) {
      const debtMs = isAddress(account) ? 0 : -CREDIT_MS_MAX;
      const empty = { debtMs, prepaidMs: 0, askedAtMs: -Infinity, usedMs: 0, requests: 0, longestMs: 0 };
      budget = { account, ...empty, atMs: now, waiting: new Set(), timer: undefined };
      budgets.set(account, budget);
      const [earliest] = budgets.values();
      if (budgets.size > BUDGETS_MAX && earliest?.waiting.size === 0) budgets.delete(earliest.account);
    }
    return budget;
  };

  /** Reduces the debt by the share of the time that has passed. */
  const refill = (budget: Budget, now: number): number => {
    count(now);
    const share = shareOf(budget.account);
    const credit = isAddress(budget.account) ? CREDIT_OF_ADDRESS_MS_MAX : CREDIT_MS_MAX;
    budget.debtMs = share === 1 ? Math.min(0, budget.debtMs) : budget.debtMs - (now - budget.atMs) * share;
    budget.debtMs = Math.max(-credit, budget.debtMs);
    budget.atMs = now;
    return share;
  };

  const estimate = ({ usedMs, requests }: Budget): number => Math.min(DEBT_MS_MAX, usedMs / Math.max(1, requests));

  /** A request begins. Its cost is not known yet: without an estimate all that wait would begin together. */
  const begin = (budget: Budget): void => {
    const cost = estimate(budget);
    budget.debtMs += cost;
    budget.prepaidMs += cost;
    budget.requests += 1;
    if (budget.requests < 2 * ESTIMATED_FROM) return;
    budget.usedMs /= 2;
    budget.requests /= 2;
  };

  const beginWaiting = (budget: Budget): void => {
    const share = refill(budget, performance.now());
    for (const each of budget.waiting) {
      if (budget.debtMs > 0) break;
      budget.waiting.delete(each);
      begin(budget);
      each.begin();
    }
    clearTimeout(budget.timer);
    if (budget.waiting.size > 0)
      budget.timer = setTimeout(beginWaiting, Math.min(LOOK_MS, budget.debtMs / share), budget);
  };

  const wait = async (budget: Budget, signal: AbortSignal | undefined): Promise<void> => {
    const place = reserve(budget.account);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = { begin: resolve };
    const refuse = (): void => {
      const seconds = Math.max(1, Math.ceil(budget.debtMs / shareOf(budget.account) / 1_000));
      const sentence = 'Others ask too, and their share of the time of the server is used up. Try again.';
      reject(new AppError('too_many_requests', sentence, { retryAfterSeconds: seconds }));
    };
    const late = setTimeout(refuse, BUDGET_WAIT_MS_MAX);
    // The client has gone: the refusal only ends the wait.
    signal?.addEventListener('abort', refuse);
    budget.waiting.add(waiting);
    if (budget.waiting.size === 1) beginWaiting(budget);
    try {
      await promise;
    } finally {
      clearTimeout(late);
      signal?.removeEventListener('abort', refuse);
      budget.waiting.delete(waiting);
      place.release();
    }
  };

  return {
    spend: (account, usedMs) => {
      const now = performance.now();
      const budget = find(account, now);
      refill(budget, now);
      const paid = Math.min(budget.prepaidMs, usedMs);
      budget.prepaidMs -= paid;
      budget.debtMs = Math.min(DEBT_MS_MAX, budget.debtMs + usedMs - paid);
      budget.usedMs += usedMs;
      if (usedMs > budget.longestMs) budget.longestMs = usedMs;
    },
    enter: (account, signal) => {
      const now = performance.now();
      const budget = find(account, now);
      // One that comes back is counted at once.
      if (now - budget.askedAtMs > ACTIVE_MS) countedAtMs = -Infinity;
      budget.askedAtMs = now;
      budgets.delete(account);
      budgets.set(account, budget);
      refill(budget, now);
      if (budget.debtMs > 0 || budget.waiting.size > 0) return wait(budget, signal?.());
      begin(budget);
      return undefined;
    },
    restMs: (account) => {
      const budget = budgets.get(account);
      if (!budget) return 0;
      const share = refill(budget, performance.now());
      return Math.min(LOOK_MS, Math.max(0, budget.debtMs - UNDER_WAY_DEBT_MS) / share);
    },
    takeLongest: () => {
      const longest = new Map<Account, number>();
      for (const budget of budgets.values()) {
        if (budget.longestMs > 0) longest.set(budget.account, budget.longestMs);
        budget.longestMs = 0;
      }
      return longest;
    },
  };
};
