// Defines the globals that code has in addition to the language's own, each created on first use, and removes those of the
// engine that code must not have.
'use strict';

const { defineProperty } = require('./primordials.cjs');

// Shared memory is a clock, WebAssembly's memory is not counted by the isolate's limit, and the engine's console
// writes nowhere.
const ABSENT = ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'console'];

// Each name, and after it the module that has it.
// prettier-ignore
const LAZY = [
  'Buffer', 'buffer', 'atob', 'buffer', 'btoa', 'buffer', 'URL', 'url', 'URLSearchParams', 'url',
  'TextEncoder', 'text-coding', 'TextDecoder', 'text-coding', 'structuredClone', 'structured-clone',
  'Event', 'event-target', 'EventTarget', 'event-target', 'CustomEvent', 'event-target', 'DOMException', 'dom-exception',
  'AbortController', 'event-target', 'AbortSignal', 'event-target', 'Blob', 'blob', 'File', 'blob', 'FormData', 'blob',
  'fetch', 'fetch', 'Headers', 'fetch', 'Request', 'fetch', 'Response', 'fetch',
  'setTimeout', 'timers', 'setInterval', 'timers', 'setImmediate', 'timers', 'clearTimeout', 'timers',
  'clearInterval', 'timers', 'clearImmediate', 'timers', 'queueMicrotask', 'timers',
  'FinalizationRegistry', 'finalization', 'console', 'console', 'process', 'process', 'performance', 'performance', 'crypto', 'crypto-bridge',
];

// What is required is named in full, so that the bundler finds it.
const load = (name) => {
  switch (name) {
    case 'buffer':
      return require('./buffer.cjs');
    case 'url':
      return require('./url.cjs');
    case 'text-coding':
      return require('library/encoding');
    case 'structured-clone':
      return require('./structured-clone.cjs');
    case 'event-target':
      return require('./event-target.cjs');
    case 'dom-exception':
      return require('./dom-exception.cjs');
    case 'blob':
      return require('./blob.cjs');
    case 'fetch':
      return require('./fetch.cjs');
    case 'timers':
      return require('./timers.cjs');
    case 'finalization':
      return require('./finalization.cjs');
    case 'console':
      return require('./console.cjs');
    case 'process':
      return { process: require('./process.cjs') };
    case 'performance':
      return require('./performance.cjs');
    case 'crypto-bridge':
      return require('./crypto-bridge.cjs');
  }
};

// Foreign code may have run: what it gave Object.prototype is not looked at.
const set = (name, value) =>
  defineProperty(globalThis, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });

// Nothing foreign has run yet: an object with a prototype will do, which is made sooner than one without.
const setLazy = (name, moduleName) =>
  defineProperty(globalThis, name, {
    get() {
      const value = load(moduleName)[name];
      // A library looks for the engine's own while the module that it makes ours of is loaded.
      if (value !== undefined) set(name, value);
      return value;
    },
    set(value) {
      set(name, value);
    },
    enumerable: false,
    configurable: true,
  });

exports.install = () => {
  for (let i = 0; i < ABSENT.length; i++) delete globalThis[ABSENT[i]];
  set('global', globalThis);
  for (let i = 0; i < LAZY.length; i += 2) setLazy(LAZY[i], LAZY[i + 1]);
};
