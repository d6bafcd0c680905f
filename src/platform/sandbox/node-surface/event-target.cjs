// Event, CustomEvent and EventTarget: the package event-target-shim, which does the dispatch by the DOM standard.
'use strict';

const { Event, EventTarget: Shim, setErrorHandler, setWarningHandler } = require('library/event-target');
const { invalidArgType } = require('./errors.cjs');
const { nextTick } = require('./ticks.cjs');

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

module.exports = { Event, CustomEvent, EventTarget };
