// The list of globals that authors have beside the language's own, each made when it is first touched; and of those of
// the engine that they must not have.
'use strict';

const { defineProperty } = require('./primordials.cjs');

// Shared memory is a clock, WebAssembly's memory is not counted by the isolate's limit, and the engine's console goes
// to nobody.
const ABSENT = ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'console'];

const set = (name, value) =>
  defineProperty(globalThis, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });

const setLazy = (name, load) =>
  defineProperty(globalThis, name, {
    __proto__: null,
    get() {
      const value = load();
      set(name, value);
      return value;
    },
    set(value) {
      set(name, value);
    },
    enumerable: false,
    configurable: true,
  });

const from = (load, names) => {
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    setLazy(name, () => load()[name]);
  }
};

exports.install = () => {
  for (let i = 0; i < ABSENT.length; i++) delete globalThis[ABSENT[i]];
  set('global', globalThis);
  from(() => require('./buffer.cjs'), ['Buffer', 'atob', 'btoa']);
  from(() => require('./url.cjs'), ['URL', 'URLSearchParams']);
  from(() => require('./text-coding.cjs'), ['TextEncoder', 'TextDecoder']);
  from(() => require('./structured-clone.cjs'), ['structuredClone']);
  from(() => require('./event-target.cjs'), ['Event', 'EventTarget', 'CustomEvent']);
  from(() => require('./dom-exception.cjs'), ['DOMException']);
  from(() => require('./abort.cjs'), ['AbortController', 'AbortSignal']);
  from(() => require('./blob.cjs'), ['Blob', 'File', 'FormData']);
  from(() => require('./fetch.cjs'), ['fetch', 'Headers', 'Request', 'Response']);
  from(
    () => require('./timers.cjs'),
    ['setTimeout', 'setInterval', 'setImmediate', 'clearTimeout', 'clearInterval', 'clearImmediate', 'queueMicrotask'],
  );
  setLazy('console', () => require('./console.cjs').console);
  setLazy('process', () => require('./process.cjs'));
  setLazy('performance', () => require('./performance.cjs').performance);
  setLazy('crypto', () => require('./web-crypto.cjs').crypto);
};
