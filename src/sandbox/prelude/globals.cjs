// The list of globals that authors have beside the language's own, each made when it is first touched; and of those of
// the engine that they must not have. Each context defines them all, most runs touch none: they are kept cheap.
'use strict';

const { defineProperty } = require('./primordials.cjs');

// Shared memory is a clock, WebAssembly's memory is not counted by the isolate's limit, and the engine's console goes
// to nobody.
const ABSENT = ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'console'];

// prettier-ignore
const LAZY = [
  'Buffer', 'atob', 'btoa', 'URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder', 'structuredClone',
  'Event', 'EventTarget', 'CustomEvent', 'DOMException', 'AbortController', 'AbortSignal', 'Blob', 'File', 'FormData',
  'fetch', 'Headers', 'Request', 'Response',
  'setTimeout', 'setInterval', 'setImmediate', 'clearTimeout', 'clearInterval', 'clearImmediate', 'queueMicrotask',
  'console', 'process', 'performance', 'crypto',
];

const moduleOf = (name) => {
  switch (name) {
    case 'Buffer':
    case 'atob':
    case 'btoa':
      return require('./buffer.cjs');
    case 'URL':
    case 'URLSearchParams':
      return require('./url.cjs');
    case 'TextEncoder':
    case 'TextDecoder':
      return require('./text-coding.cjs');
    case 'structuredClone':
      return require('./structured-clone.cjs');
    case 'Event':
    case 'EventTarget':
    case 'CustomEvent':
      return require('./event-target.cjs');
    case 'DOMException':
      return require('./dom-exception.cjs');
    case 'AbortController':
    case 'AbortSignal':
      return require('./abort.cjs');
    case 'Blob':
    case 'File':
    case 'FormData':
      return require('./blob.cjs');
    case 'fetch':
    case 'Headers':
    case 'Request':
    case 'Response':
      return require('./fetch.cjs');
    case 'console':
      return require('./console.cjs');
    case 'process':
      return { process: require('./process.cjs') };
    case 'performance':
      return require('./performance.cjs');
    case 'crypto':
      return require('./web-crypto.cjs');
    default:
      return require('./timers.cjs');
  }
};

// Foreign code may have run: what it gave Object.prototype is not looked at.
const set = (name, value) =>
  defineProperty(globalThis, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });

// Nothing foreign has run yet: an object with a prototype will do, which is made sooner than one without.
const setLazy = (name) =>
  defineProperty(globalThis, name, {
    get() {
      const value = moduleOf(name)[name];
      set(name, value);
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
  for (let i = 0; i < LAZY.length; i++) setLazy(LAZY[i]);
};
