// Node's EventEmitter: the package's, with Node's later functions and the errors of today.
'use strict';

const EventEmitter = require('events');
const { nodeError } = require('./errors.cjs');

const errorMonitor = Symbol('events.errorMonitor');
const { emit, addListener, prependListener } = EventEmitter.prototype;

const define = (target, name, value) =>
  Object.defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });

const unhandled = (thrown) => {
  let shown;
  try {
    shown = require('./inspect.cjs').inspect(thrown);
  } catch {
    shown = thrown;
  }
  const error = nodeError(Error, 'ERR_UNHANDLED_ERROR', `Unhandled error. (${shown})`);
  error.context = thrown;
  return error;
};

const checkListener = (listener) => require('./errors.cjs').checkFunction(listener, 'listener');

define(EventEmitter.prototype, 'emit', function (type, ...args) {
  if (type === 'error') {
    if (this.listenerCount(errorMonitor) > 0) emit.call(this, errorMonitor, ...args);
    if (this.listenerCount('error') === 0) throw args[0] instanceof Error ? args[0] : unhandled(args[0]);
  }
  return emit.call(this, type, ...args);
});

const addChecked = (add) =>
  function (type, listener) {
    checkListener(listener);
    return add.call(this, type, listener);
  };

define(EventEmitter.prototype, 'addListener', addChecked(addListener));
define(EventEmitter.prototype, 'on', EventEmitter.prototype.addListener);
define(EventEmitter.prototype, 'prependListener', addChecked(prependListener));

const on = (emitter, name, { signal } = {}) => {
  const events = [];
  const waiting = [];
  let failure;
  let isDone = false;
  const fail = (error) => {
    const next = waiting.shift();
    if (next === undefined) failure = error;
    else next.reject(error);
    finish();
  };
  const add = (...args) => {
    const next = waiting.shift();
    if (next === undefined) events.push(args);
    else next.resolve({ value: args, done: false });
  };
  const finish = () => {
    isDone = true;
    emitter.off(name, add);
    emitter.off('error', fail);
    for (const next of waiting.splice(0)) next.resolve({ value: undefined, done: true });
    return Promise.resolve({ value: undefined, done: true });
  };
  const abort = () => fail(require('./abort.cjs').makeAbortError(signal));
  if (signal?.aborted) throw require('./abort.cjs').makeAbortError(signal);
  signal?.addEventListener('abort', abort, { once: true });
  emitter.on(name, add);
  if (name !== 'error') emitter.on('error', fail);
  return {
    next() {
      if (events.length > 0) return Promise.resolve({ value: events.shift(), done: false });
      if (failure !== undefined) {
        const rejected = Promise.reject(failure);
        failure = undefined;
        return rejected;
      }
      return isDone
        ? finish()
        : new Promise((resolve, reject) => {
            waiting.push({ resolve, reject });
          });
    },
    return: finish,
    throw(error) {
      fail(error);
      return finish();
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
};

const once = (emitter, name, { signal } = {}) =>
  new Promise((resolve, reject) => {
    const { makeAbortError } = require('./abort.cjs');
    if (signal?.aborted) {
      reject(makeAbortError(signal));
      return;
    }
    if (typeof emitter.addEventListener === 'function') {
      emitter.addEventListener(name, (event) => resolve([event]), { once: true });
      return;
    }
    const done = () => {
      emitter.removeListener(name, succeed);
      emitter.removeListener('error', fail);
    };
    const succeed = (...args) => {
      done();
      resolve(args);
    };
    const fail = (error) => {
      done();
      reject(error);
    };
    emitter.once(name, succeed);
    if (name !== 'error') emitter.once('error', fail);
    signal?.addEventListener(
      'abort',
      () => {
        done();
        reject(makeAbortError(signal));
      },
      { once: true },
    );
  });

Object.assign(EventEmitter, {
  EventEmitter,
  on,
  once,
  errorMonitor,
  captureRejectionSymbol: Symbol.for('nodejs.rejection'),
  captureRejections: false,
  usingDomains: false,
  getEventListeners: (emitter, name) => emitter.listeners(name),
  listenerCount: (emitter, name) => emitter.listenerCount(name),
  setMaxListeners(count = 10, ...emitters) {
    if (emitters.length === 0) EventEmitter.defaultMaxListeners = count;
    for (const emitter of emitters) emitter.setMaxListeners?.(count);
  },
});

module.exports = EventEmitter;
