// Keeps what foreign code could change, before any of it runs. It is loaded first.
'use strict';

// `uncurry(method)(self, ...)` looks nothing up when it is called.
const uncurry = Function.prototype.bind.bind(Function.prototype.call);

// Without a prototype an object has no shape either, which each context would have to make name by name.
module.exports = {
  __proto__: null,
  apply: Reflect.apply,
  construct: Reflect.construct,
  defineProperty: Reflect.defineProperty,
  freeze: Object.freeze,
  isArray: Array.isArray,
  isInteger: Number.isInteger,
  keys: Object.keys,
  now: Date.now,
  parseJson: JSON.parse,
  toJson: JSON.stringify,
  indexOf: uncurry(String.prototype.indexOf),
  slice: uncurry(String.prototype.slice),
  weakGet: uncurry(WeakMap.prototype.get),
  weakSet: uncurry(WeakMap.prototype.set),
  // Compiles the curated packages and the parts, in the global scope. Their texts come from the host alone.
  // oxlint-disable-next-line no-eval
  indirectEval: eval,
  Error,
  Promise,
  RangeError,
  String,
  SyntaxError,
  TypeError,
  WeakMap,
};
