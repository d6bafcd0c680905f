// util.inspect and util.format: Node's own code, as the package node-inspect-extracted has it.
'use strict';

const { defineProperty } = require('./primordials.cjs');

/** The package copies the methods of all built-in objects when it is loaded, Atomics among them, which is not there. */
const loadWithAtomics = () => {
  const known = Object.getOwnPropertyDescriptor(globalThis, 'Atomics');
  defineProperty(globalThis, 'Atomics', { __proto__: null, value: {}, configurable: true });
  try {
    return require('library/inspect');
  } finally {
    if (known === undefined) delete globalThis.Atomics;
    else defineProperty(globalThis, 'Atomics', known);
  }
};

const { inspect, format, formatWithOptions, getStringWidth, stripVTControlCharacters } = loadWithAtomics();

module.exports = { inspect, format, formatWithOptions, getStringWidth, stripVTControlCharacters };
