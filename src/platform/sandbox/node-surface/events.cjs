// Node's events: the package of this name, with the functions that came to Node later.
'use strict';

const EventEmitter = require('library/events');
const { abortError } = require('./errors.cjs');

const errorMonitor = Symbol('events.errorMonitor');
const { once } = EventEmitter;
const { emit } = EventEmitter.prototype;

EventEmitter.prototype.emit = function (type, ...args) {
  if (type === 'error') emit.call(this, errorMonitor, ...args);
  return emit.call(this, type, ...args);
};

const onAbort = (signal, listener) => {
  if (signal?.aborted) listener(abortError(signal));
  else signal?.addEventListener('abort', () => listener(abortError(signal)), { once: true });
};

/** An endless stream of the events' arguments. */
const on = (emitter, name, { signal } = {}) => {
  const { Readable } = require('library/stream');
  const add = (...args) => events.push(args);
  const fail = (error) => events.destroy(error);
  const events = new Readable({
    objectMode: true,
    read() {},
    destroy(error, callback) {
      emitter.off(name, add);
      emitter.off('error', fail);
      callback(error);
    },
  });
  emitter.on(name, add);
  if (name !== 'error') emitter.on('error', fail);
  onAbort(signal, fail);
  return events[Symbol.asyncIterator]();
};

Object.assign(EventEmitter, {
  on,
  once: (emitter, name, { signal } = {}) =>
    Promise.race([once(emitter, name), new Promise((_, reject) => onAbort(signal, reject))]),
  errorMonitor,
  captureRejectionSymbol: Symbol.for('nodejs.rejection'),
  captureRejections: false,
  usingDomains: false,
  getEventListeners: (emitter, name) => emitter.listeners(name),
  setMaxListeners(count = 10, ...emitters) {
    if (emitters.length === 0) EventEmitter.defaultMaxListeners = count;
    for (const emitter of emitters) emitter.setMaxListeners?.(count);
  },
});

module.exports = EventEmitter;
