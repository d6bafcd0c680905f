// Timers. The host keeps the time and knows them by number; what they call stays here.
'use strict';

const { Error, Promise } = require('./primordials.cjs');
const host = require('./host.cjs');
const ticks = require('./ticks.cjs');
const { checkFunction } = require('./errors.cjs');

// Longer delays are 1 ms in Node.
const DELAY_MAX = 2 ** 31 - 1;
let lastId = 0;
const pending = { __proto__: null };

const arm = (timer) => {
  if (host.timer(timer.id, timer.delayMs) === false) throw new Error('The run has more timers pending than it may');
  pending[timer.id] = timer;
};

const disarm = (id) => {
  if (pending[id] !== undefined) {
    delete pending[id];
    host.untimer(id);
  }
};

const toDelay = (value) => {
  const delay = Number(value);
  return delay >= 1 && delay <= DELAY_MAX ? Math.trunc(delay) : 1;
};

class Timeout {
  #timer;

  constructor(timer) {
    this.#timer = timer;
  }

  ref() {
    return this;
  }

  unref() {
    return this;
  }

  hasRef() {
    return true;
  }

  refresh() {
    if (pending[this.#timer.id] === undefined) return this;
    disarm(this.#timer.id);
    arm(this.#timer);
    return this;
  }

  close() {
    disarm(this.#timer.id);
    return this;
  }

  [Symbol.toPrimitive]() {
    return this.#timer.id;
  }
}

const start = (callback, delay, args, isRepeated) => {
  checkFunction(callback);
  const timer = { id: ++lastId, delayMs: toDelay(delay), callback, args, isRepeated };
  arm(timer);
  return new Timeout(timer);
};

const setTimeout = (callback, delay, ...args) => start(callback, delay, args, false);
const setInterval = (callback, delay, ...args) => start(callback, delay, args, true);

const clear = (timeout) => {
  if (timeout instanceof Timeout) timeout.close();
  else if (typeof timeout === 'number' || typeof timeout === 'string') disarm(Number(timeout));
};

class Immediate {
  #id;

  constructor(id) {
    this.#id = id;
  }

  ref() {
    return this;
  }

  unref() {
    return this;
  }

  hasRef() {
    return true;
  }

  static clear(immediate) {
    if (typeof immediate === 'object' && immediate !== null && #id in immediate) disarm(immediate.#id);
  }
}

const setImmediate = (callback, ...args) => {
  checkFunction(callback);
  const timer = { id: ++lastId, delayMs: 0, callback, args, isRepeated: false };
  arm(timer);
  return new Immediate(timer.id);
};

const clearImmediate = (immediate) => Immediate.clear(immediate);

const tick = (id) => {
  const timer = pending[id];
  if (timer !== undefined) {
    delete pending[id];
    // A callback may clear its own interval.
    if (timer.isRepeated) pending[id] = timer;
    ticks.runGuarded(timer.callback, timer.args);
    if (timer.isRepeated && pending[id] === timer) arm(timer);
  }
};

const queueMicrotask = (callback) => {
  checkFunction(callback);
  ticks.queueMicrotask(callback);
};

const abortedBy = (signal) => require('./abort.cjs').makeAbortError(signal);

const wait = (begin, end, value, signal) =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(abortedBy(signal));
      return;
    }
    const waiting = begin(() => resolve(value));
    signal?.addEventListener(
      'abort',
      () => {
        end(waiting);
        reject(abortedBy(signal));
      },
      { once: true },
    );
  });

const promises = {
  setTimeout: (delay, value, { signal } = {}) => wait((callback) => setTimeout(callback, delay), clear, value, signal),
  setImmediate: (value, { signal } = {}) => wait((callback) => setImmediate(callback), clearImmediate, value, signal),
  async *setInterval(delay, value, { signal } = {}) {
    while (true) {
      await wait((callback) => setTimeout(callback, delay), clear, undefined, signal);
      yield value;
    }
  },
};

const promisified = Symbol.for('nodejs.util.promisify.custom');
Object.defineProperty(setTimeout, promisified, { value: promises.setTimeout, configurable: true });
Object.defineProperty(setImmediate, promisified, { value: promises.setImmediate, configurable: true });

module.exports = {
  setTimeout,
  setInterval,
  setImmediate,
  clearTimeout: clear,
  clearInterval: clear,
  clearImmediate,
  queueMicrotask,
  promises,
  tick,
};
