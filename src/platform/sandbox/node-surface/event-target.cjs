// Event, CustomEvent and EventTarget: the package event-target-shim, which does the dispatch by the DOM standard.
// AbortController and AbortSignal on top of it, with Node's errors.
'use strict';

const {
  Event,
  EventTarget: Shim,
  defineEventAttribute,
  setErrorHandler,
  setWarningHandler,
} = require('library/event-target');
const { DOMException } = require('./dom-exception.cjs');
const { invalidArgType, nodeError } = require('./errors.cjs');
const { nextTick } = require('./ticks.cjs');
const { setTimeout } = require('./timers.cjs');

/** What a listener throws ends the run, and does not reach the code that dispatched the event. */
setErrorHandler((error) =>
  nextTick(() => {
    throw error;
  }, []),
);
setWarningHandler(() => {});

class CustomEvent extends Event {
  #detail;

  constructor(type, options = {}) {
    super(type, options);
    this.#detail = options?.detail ?? null;
  }

  get detail() {
    return this.#detail;
  }
}

class EventTarget extends Shim {
  dispatchEvent(event) {
    if (!(event instanceof Event)) throw invalidArgType('event', 'an instance of Event', event);
    return super.dispatchEvent(event);
  }

  get [Symbol.toStringTag]() {
    return 'EventTarget';
  }
}

// Only this file can abort a signal that has no controller.
const allowed = Symbol('allowed');

class AbortSignal extends EventTarget {
  #isAborted = false;
  #reason = undefined;

  constructor(key) {
    if (key !== allowed) throw nodeError(TypeError, 'ERR_ILLEGAL_CONSTRUCTOR', 'Illegal constructor');
    super();
  }

  get aborted() {
    return this.#isAborted;
  }

  get reason() {
    return this.#reason;
  }

  throwIfAborted() {
    if (this.#isAborted) throw this.#reason;
  }

  static abort(reason) {
    return signalAbort(new AbortSignal(allowed), reason);
  }

  static timeout(delay) {
    const signal = new AbortSignal(allowed);
    const expire = () =>
      signalAbort(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
    setTimeout(expire, delay);
    return signal;
  }

  static any(signals) {
    const combined = new AbortSignal(allowed);
    for (const signal of signals) {
      if (signal.aborted) return signalAbort(combined, signal.reason);
      signal.addEventListener('abort', () => signalAbort(combined, signal.reason), { once: true });
    }
    return combined;
  }

  static signalAbort(signal, reason = new DOMException('This operation was aborted', 'AbortError')) {
    if (!signal.#isAborted) {
      signal.#isAborted = true;
      signal.#reason = reason;
      signal.dispatchEvent(new Event('abort'));
    }
    return signal;
  }

  get [Symbol.toStringTag]() {
    return 'AbortSignal';
  }
}

const { signalAbort } = AbortSignal;
// Only a controller aborts.
delete AbortSignal.signalAbort;
defineEventAttribute(AbortSignal.prototype, 'abort');

class AbortController {
  #signal = new AbortSignal(allowed);

  get signal() {
    return this.#signal;
  }

  abort(reason) {
    signalAbort(this.#signal, reason);
  }

  get [Symbol.toStringTag]() {
    return 'AbortController';
  }
}

module.exports = { AbortController, AbortSignal, CustomEvent, Event, EventTarget };
