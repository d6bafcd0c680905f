// Event, CustomEvent and EventTarget. What a listener throws does not reach whoever dispatched.
'use strict';

const { invalidArgType } = require('./errors.cjs');

const custom = Symbol.for('nodejs.util.inspect.custom');
const { now } = require('./performance.cjs').performance;

class Event {
  #type;
  #bubbles;
  #cancelable;
  #composed;
  #isPrevented = false;
  #isStopped = false;
  #isStoppedAtOnce = false;
  #target = null;
  #isDispatching = false;
  #timeStamp = now();

  constructor(type, options = {}) {
    if (arguments.length === 0) throw new TypeError('The "type" argument must be specified');
    this.#type = `${type}`;
    this.#bubbles = !!options?.bubbles;
    this.#cancelable = !!options?.cancelable;
    this.#composed = !!options?.composed;
  }

  get type() {
    return this.#type;
  }

  get target() {
    return this.#target;
  }

  get currentTarget() {
    return this.#isDispatching ? this.#target : null;
  }

  get srcElement() {
    return this.#target;
  }

  get bubbles() {
    return this.#bubbles;
  }

  get cancelable() {
    return this.#cancelable;
  }

  get composed() {
    return this.#composed;
  }

  get defaultPrevented() {
    return this.#cancelable && this.#isPrevented;
  }

  get returnValue() {
    return !this.defaultPrevented;
  }

  get cancelBubble() {
    return this.#isStopped;
  }

  get eventPhase() {
    return this.#isDispatching ? 2 : 0;
  }

  get timeStamp() {
    return this.#timeStamp;
  }

  get isTrusted() {
    return false;
  }

  preventDefault() {
    this.#isPrevented = true;
  }

  stopPropagation() {
    this.#isStopped = true;
  }

  stopImmediatePropagation() {
    this.#isStopped = true;
    this.#isStoppedAtOnce = true;
  }

  composedPath() {
    return this.#isDispatching ? [this.#target] : [];
  }

  static dispatch(event, target, listeners, remove) {
    event.#target = target;
    event.#isDispatching = true;
    for (const listener of listeners) {
      if (listener.isRemoved) continue;
      if (listener.once) remove(listener);
      callListener(listener.callback, target, event);
      if (event.#isStoppedAtOnce) break;
    }
    event.#isDispatching = false;
  }

  static isDispatching(event) {
    return event.#isDispatching;
  }

  [custom](depth, options, inspect) {
    if (depth !== null && depth < 0) return this.constructor.name;
    const { type, defaultPrevented, cancelable, timeStamp } = this;
    return `${this.constructor.name} ${inspect({ type, defaultPrevented, cancelable, timeStamp }, options)}`;
  }

  get [Symbol.toStringTag]() {
    return 'Event';
  }
}

const { dispatch, isDispatching } = Event;
// Friends of this module, not of foreign code.
delete Event.dispatch;
delete Event.isDispatching;
Object.assign(Event, { NONE: 0, CAPTURING_PHASE: 1, AT_TARGET: 2, BUBBLING_PHASE: 3 });

const callListener = (callback, target, event) => {
  try {
    const result = typeof callback === 'function' ? callback.call(target, event) : callback.handleEvent(event);
    if (typeof result?.then === 'function') result.then(undefined, throwLater);
  } catch (error) {
    throwLater(error);
  }
};

const throwLater = (error) =>
  require('./ticks.cjs').nextTick(() => {
    throw error;
  }, []);

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

class EventTarget {
  #listeners = new Map();

  addEventListener(type, callback, options = {}) {
    if (callback == null) return;
    if (typeof callback !== 'function' && typeof callback !== 'object')
      throw invalidArgType('listener', 'an instance of EventListener', callback);
    const {
      once = false,
      capture = false,
      signal,
    } = typeof options === 'boolean' ? { capture: options } : (options ?? {});
    if (signal?.aborted) return;
    const name = `${type}`;
    const listeners = this.#listeners.get(name) ?? [];
    if (listeners.some((known) => known.callback === callback && known.capture === !!capture)) return;
    const listener = { callback, once: !!once, capture: !!capture, isRemoved: false };
    this.#listeners.set(name, [...listeners, listener]);
    signal?.addEventListener('abort', () => this.#remove(name, listener), { once: true });
  }

  removeEventListener(type, callback, options = {}) {
    const capture = !!(typeof options === 'boolean' ? options : options?.capture);
    const name = `${type}`;
    const listener = this.#listeners
      .get(name)
      ?.find((known) => known.callback === callback && known.capture === capture);
    if (listener !== undefined) this.#remove(name, listener);
  }

  #remove(name, listener) {
    listener.isRemoved = true;
    const left = (this.#listeners.get(name) ?? []).filter((known) => known !== listener);
    if (left.length === 0) this.#listeners.delete(name);
    else this.#listeners.set(name, left);
  }

  dispatchEvent(event) {
    if (!(event instanceof Event)) throw invalidArgType('event', 'an instance of Event', event);
    if (isDispatching(event)) {
      const { DOMException } = require('./dom-exception.cjs');
      throw new DOMException('The event is already being dispatched', 'InvalidStateError');
    }
    const { type } = event;
    dispatch(event, this, this.#listeners.get(type) ?? [], (listener) => this.#remove(type, listener));
    return !event.defaultPrevented;
  }

  [custom](depth, options, inspect) {
    return `${this.constructor.name} ${inspect({}, options)}`;
  }

  get [Symbol.toStringTag]() {
    return 'EventTarget';
  }
}

const defineHandler = (Target, type) => {
  const handlers = new WeakMap();
  Object.defineProperty(Target.prototype, `on${type}`, {
    get() {
      return handlers.get(this)?.handler ?? null;
    },
    set(handler) {
      const known = handlers.get(this);
      if (known !== undefined) {
        this.removeEventListener(type, known.listener);
        handlers.delete(this);
      }
      if (typeof handler !== 'function') return;
      const listener = function (event) {
        handler.call(this, event);
      };
      handlers.set(this, { handler, listener });
      this.addEventListener(type, listener);
    },
    enumerable: true,
    configurable: true,
  });
};

module.exports = { Event, CustomEvent, EventTarget, defineHandler };
