// Runs long work in turns between tenants, with looks at the sockets between them, and rests of accounts that took longer.
import { setTimeout as pause } from 'node:timers/promises';
import type { CoreClock } from './core-time.ts';
import { type Account, findOperation, mark, type Operation } from './event-loop.ts';
import type { HeavyTenants } from './heavy-tenants.ts';
import type { Slices } from '../json/slices.ts';

/**
 * Long work runs for so long between two looks at the sockets. A request of another tenant needs about six looks, so it
 * waits six times this.
 */
const TURN_MS = 1;

/** The same while other long work waits: enough for a few cards, which must not wait for large bodies. */
const SMALL_TURN_MS = 0.25;

/**
 * A slice of more than a turn, such as the decryption of a megabyte, is followed by a rest of the same length, in which its
 * account does no long work: a request of another tenant would wait for such a slice at each of its looks.
 */
const REST_MS_MAX = 100;

/**
 * A tenant whose requests go to the heavy worker has a tenth of the loop here, for what began before: a run may take 30 seconds. Each
 * turn is followed by a rest of so many times its length.
 */
const LEFT_OVER_RESTS = 9;

/** While it rests, so much work of an account waits. More, which is small, is done: it must not use up the limit of long work. */
const RESTING_MAX = 16;

/** Work that waits for its next turn. `step` does one slice. @returns whether it was the last. */
type LongWork = { step(): boolean };

/** How work is limited. */
export type WorkLimits = {
  /** Counts work that needs more than one turn. @throws too_many_requests. */
  admit(account: Account, name: 'long_work', amount: number): { release(): void };
  /** @throws payload_too_large where the operation may use no more CPU time. */
  check(operation: Operation | undefined): void;
};

/** `restUntilMs`: by `performance.now()`. */
type Line = { usedMs: number; restUntilMs: number; works: LongWork[] };

/** `runTurns` runs slices in turns; its `admit` counts those that need more than one. */
export const createTurns = (heavyTenants: Pick<HeavyTenants, 'spend' | 'isLeftOver'>, clock: CoreClock) => {
  /** Accounts with work that waits, and those that rest. */
  const lines = new Map<Account, Line>();
  let isNext = false;
  let timer: NodeJS.Timeout | undefined;

  const findLeastUsed = (isReady: (line: Line) => boolean): [Account, Line] | undefined => {
    let least: [Account, Line] | undefined;
    for (const each of lines) if (isReady(each[1]) && each[1].usedMs < (least?.[1].usedMs ?? Infinity)) least = each;
    return least;
  };

  /** A line of an account that has none. One that comes later owes nothing for the past, and is owed nothing. */
  const newLine = (): Line => ({ usedMs: findLeastUsed(() => true)?.[1].usedMs ?? 0, restUntilMs: 0, works: [] });

  /** Charges an account for its turn. A short one needs no rest, except of a tenant that is served elsewhere. */
  const chargeTurn = (account: Account, usedMs: number): void => {
    const line = lines.get(account);
    if (usedMs > 2 * TURN_MS || (usedMs > SMALL_TURN_MS && heavyTenants.isLeftOver(account))) charge(account, usedMs);
    else if (line) line.usedMs += usedMs;
  };

  const charge = (account: Account, usedMs: number): void => {
    const line = lines.get(account) ?? newLine();
    const now = performance.now();
    line.usedMs += usedMs;
    const restMs = usedMs * (heavyTenants.isLeftOver(account) ? LEFT_OVER_RESTS : 1);
    line.restUntilMs = Math.min(Math.max(line.restUntilMs, now) + restMs, now + REST_MS_MAX);
    lines.set(account, line);
    schedule();
  };

  const restMs = (account: Account): number => Math.max(0, (lines.get(account)?.restUntilMs ?? 0) - performance.now());

  const whenPaid = (account: Account): Promise<void> | undefined => {
    const rest = restMs(account);
    // Again after the rest: the account may have been charged meanwhile.
    return rest > 0 ? pause(rest).then(() => whenPaid(account)) : undefined;
  };

  /** The next turn, or the end of the first rest. */
  const schedule = (): void => {
    if (isNext) return;
    const now = performance.now();
    let waitMs = Infinity;
    for (const [account, { works, restUntilMs }] of lines)
      if (works.length === 0 && restUntilMs <= now) lines.delete(account);
      else waitMs = Math.min(waitMs, restUntilMs - now);
    clearTimeout(timer);
    isNext = waitMs <= 0;
    if (isNext) setImmediate(turn);
    else if (waitMs < Infinity) timer = setTimeout(turn, waitMs);
  };

  const turn = (): void => {
    isNext = false;
    const began = performance.now();
    const waitedMs = clock.lastWaitedMs(began);
    const found = findLeastUsed(({ works, restUntilMs }) => works.length > 0 && restUntilMs <= began);
    if (found) {
      const [account, line] = found;
      let now = began;
      while (now - began < TURN_MS) {
        const work = line.works.shift();
        if (!work) break;
        // To the end of its line: a small one does not wait for a large one.
        if (!work.step()) line.works.push(work);
        now = performance.now();
      }
      const used = clock.usedSince(began, waitedMs, now);
      chargeTurn(account, used);
      heavyTenants.spend(account, used);
    }
    schedule();
  };

  const enqueue = (account: Account, work: LongWork): void => {
    const line = lines.get(account) ?? newLine();
    line.works.push(work);
    lines.set(account, line);
    schedule();
  };

  const wait = async <T>(account: Account, slices: Slices<T>, { admit, check }: WorkLimits): Promise<T> => {
    const place = admit(account, 'long_work', 1);
    const operation = findOperation();
    try {
      return await new Promise((resolve, reject) => {
        const step = (): boolean => {
          mark(operation);
          try {
            check(operation);
            const next = slices.next();
            if (next.done) resolve(next.value);
            return next.done === true;
          } catch (error) {
            reject(error);
            return true;
          }
        };
        enqueue(account, { step });
      });
    } finally {
      place.release();
    }
  };

  const runTurns = <T>(account: Account, slices: Slices<T>, limits: WorkLimits): T | Promise<T> => {
    const operation = findOperation();
    mark(operation);
    limits.check(operation);
    const began = performance.now();
    const waitedMs = clock.lastWaitedMs(began);
    const line = lines.get(account);
    if (line && line.restUntilMs > began && line.works.length < RESTING_MAX) return wait(account, slices, limits);
    const endMs = began + (lines.size > 0 ? SMALL_TURN_MS : TURN_MS);
    for (;;) {
      const next = slices.next();
      const now = performance.now();
      if (!next.done && now < endMs) continue;
      const used = clock.usedSince(began, waitedMs, now);
      chargeTurn(account, used);
      if (used > 2 * TURN_MS) heavyTenants.spend(account, used);
      return next.done ? next.value : wait(account, slices, limits);
    }
  };

  const countWaiting = (): number => {
    let count = 0;
    for (const { works } of lines.values()) count += works.length;
    return count;
  };

  return { runTurns, countWaiting, charge, restMs, whenPaid };
};
