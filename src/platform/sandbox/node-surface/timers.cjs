// Timers. The host keeps the time and knows them by number; what they call stays here.
'use strict';

const { Error, Promise } = require('./primordials.cjs');
const host = require('./host.cjs');
const ticks = require('./ticks.cjs');
const { abortError, checkFunction } = require('./errors.cjs');

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

const start = (callback, delayMs, args, isRepeated) => {
  checkFunction(callback);
  const timer = { id: ++lastId, delayMs, callback, args, isRepeated };
  arm(timer);
  return new Timeout(timer);
};

const setTimeout = (callback, delay, ...args) => start(callback, toDelay(delay), args, false);
const setInterval = (callback, delay, ...args) => start(callback, toDelay(delay), args, true);

const clear = (timeout) => {
  if (timeout instanceof Timeout) timeout.close();
  else if (typeof timeout === 'number' || typeof timeout === 'string') disarm(Number(timeout));
};

const setImmediate = (callback, ...args) => start(callback, 0, args, false);

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

const wait = (begin, end, value, signal) =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(abortError(signal));
      return;
    }
    const waiting = begin(() => resolve(value));
    signal?.addEventListener(
      'abort',
      () => {
        end(waiting);
        reject(abortError(signal));
      },
      { once: true },
    );
  });

const promises = {
  setTimeout: (delay, value, { signal } = {}) => wait((callback) => setTimeout(callback, delay), clear, value, signal),
  setImmediate: (value, { signal } = {}) => wait((callback) => setImmediate(callback), clear, value, signal),
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
  clearImmediate: clear,
  queueMicrotask,
  promises,
  tick,
};
