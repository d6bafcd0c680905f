// Says what the event loop works on: callbacks mark the operation that they belong to, where the watchdog's thread can read it.
import { AsyncLocalStorage } from 'node:async_hooks';
import { coreClock } from './core-time.ts';

/** Who holds or uses something: a tenant by its id, or clients of its open proxies and public keys, see `openAccount`. */
export type Account = string;

/** Names a kind of request: its account (accounts.ts), its route, and the id of the resource in its path. */
export type OperationName = { account: string; route: string; resource: string };

/** Longer ids belong to no resource, and are cut. */
const RESOURCE_LENGTH_MAX = 100;
/** Enough for the name as JSON, also with escapes. */
const NAME_BYTES_MAX = 2_048;

/** Told of the time that the event loop worked for an account. */
export type Payments = { spend(account: Account, usedMs: number): void };

/** A request, with the runs and calls that it makes. A class: there is one for each request. */
export class Operation {
  readonly route: string;
  readonly #payments: Payments | undefined;
  #account: () => string;
  #payer: string | undefined;
  #resource: string;
  #text: string | undefined;
  #usedMs = 0;
  #bytes = 0;

  /** @param account is asked when the operation is marked. @param payments what the account pays with. */
  constructor(route: string, account: () => string, resource = '', payments?: Payments) {
    this.route = route;
    this.#account = account;
    this.#resource = resource;
    this.#payments = payments;
  }

  get account(): string {
    return (this.#payer ??= this.#account());
  }

  /** Its account pays for time of the event loop. */
  pay(usedMs: number): void {
    this.#usedMs += usedMs;
    this.#payments?.spend(this.account, usedMs);
  }

  /** Time of the event loop that it has used so far. */
  get usedMs(): number {
    return this.#usedMs;
  }

  /** Bytes that it works on, such as those of its body. They allow it more time. */
  get bytes(): number {
    return this.#bytes;
  }

  addBytes(bytes: number): void {
    this.#bytes += bytes;
  }

  /** A part of it with a limit of its own, such as a call of a run. @param bytes that the part works on. */
  fork(bytes: number): Operation {
    const part = new Operation(this.route, () => this.account, this.#resource, this.#payments);
    part.addBytes(bytes);
    return part;
  }

  /** Changes who pays and what is used, once they are known. */
  rename(account: string, resource = this.#resource): void {
    this.#payer = account;
    this.#resource = resource;
    this.#text = undefined;
  }

  name(): OperationName {
    return { account: this.account, route: this.route, resource: this.#resource.slice(0, RESOURCE_LENGTH_MAX) };
  }

  /** The name as JSON. */
  text(): string {
    return (this.#text ??= JSON.stringify(this.name()));
  }
}

/**
 * Shared with the watchdog's thread. Numbers, by index: the heartbeats of the loop, the marks so far, the CPU time in ms of a callback
 * that was too long, and the lengths of the two names that follow: of what is marked, and of what held the loop.
 */
export const loopIndex = { turns: 0, marks: 1, heldMs: 2, nameBytes: 3, heldNameBytes: 4 } as const;
const NUMBERS_BYTES = 5 * Int32Array.BYTES_PER_ELEMENT;

export type LoopState = { numbers: Int32Array; name: Buffer; heldName: Buffer };

/** The views of the shared memory, in the main thread and in the watchdog's. */
export const viewLoopState = (memory: SharedArrayBuffer): LoopState => ({
  numbers: new Int32Array(memory, 0, NUMBERS_BYTES / Int32Array.BYTES_PER_ELEMENT),
  name: Buffer.from(memory, NUMBERS_BYTES, NAME_BYTES_MAX),
  heldName: Buffer.from(memory, NUMBERS_BYTES + NAME_BYTES_MAX, NAME_BYTES_MAX),
});

export const loopMemory = new SharedArrayBuffer(NUMBERS_BYTES + 2 * NAME_BYTES_MAX);
const state = viewLoopState(loopMemory);

const operations = new AsyncLocalStorage<Operation | undefined>();
let marked: Operation | undefined;
let markedAtMs = 0;
let markedWaitedMs = 0;
let willClear = false;

const show = (operation: Operation | undefined): void => {
  const now = performance.now();
  marked?.pay(coreClock.usedSince(markedAtMs, markedWaitedMs, now));
  marked = operation;
  markedAtMs = now;
  markedWaitedMs = coreClock.lastWaitedMs(now);
  state.numbers[loopIndex.nameBytes] = operation === undefined ? 0 : state.name.write(operation.text());
  // Last, and visible to the other thread with what was written before.
  Atomics.add(state.numbers, loopIndex.marks, 1);
};

/** When the last mark ended, and the time for which the loop had slept by then. */
let endedAtMs = 0;
let endedIdleMs = 0;

const clear = (): void => {
  willClear = false;
  show(undefined);
  endedAtMs = markedAtMs;
  endedIdleMs = performance.nodeTiming.idleTime;
};

/** Longer work is that of other callbacks without a mark. */
const NATIVE_MS_MAX = 20;

/**
 * Called in a callback that follows work of native code, such as the handshake of a TLS connection: the operation pays for what the
 * loop has done since the last mark.
 */
export const payForNative = (operation: Operation | undefined): void => {
  if (!operation) return;
  const now = performance.now();
  const usedMs = marked
    ? coreClock.usedSince(markedAtMs, markedWaitedMs, now)
    : now - endedAtMs - (performance.nodeTiming.idleTime - endedIdleMs);
  operation.pay(Math.min(Math.max(0, usedMs), NATIVE_MS_MAX));
  markedAtMs = now;
  markedWaitedMs = coreClock.lastWaitedMs(now);
};

/** The operation of this async context. */
export const findOperation = (): Operation | undefined => operations.getStore();

/**
 * Marks an operation as what the event loop works on, until the next mark or the end of this tick. The account of the operation pays
 * for that time. Called where a callback begins: with bytes of a client, an answer of the database, a destination or an executor,
 * and before a slice of long work.
 */
export const mark = (operation = operations.getStore()): void => {
  if (operation === marked) return;
  show(operation);
  if (operation === undefined || willClear) return;
  willClear = true;
  setImmediate(clear);
};

/** Runs work as part of an operation, with all that it starts and awaits. */
export const within = <T>(operation: Operation | undefined, work: () => T): T =>
  operations.run(operation, () => {
    mark(operation);
    return work();
  });

/** What held the event loop too long since the last call, by the watchdog. `name` is undefined where no operation was marked. */
export const takeHeld = (): { cpuMs: number; name: string | undefined } | undefined => {
  const cpuMs = Atomics.exchange(state.numbers, loopIndex.heldMs, 0);
  if (cpuMs === 0) return undefined;
  const bytes = state.numbers[loopIndex.heldNameBytes] ?? 0;
  return { cpuMs, name: bytes === 0 ? undefined : state.heldName.toString('utf8', 0, bytes) };
};
