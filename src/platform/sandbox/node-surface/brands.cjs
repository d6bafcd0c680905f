// Marks errors of the SDK so that code can neither forge nor remove the mark: properties of an error are untrusted.
'use strict';

const { WeakMap, weakGet, weakSet } = require('./primordials.cjs');

const brands = new WeakMap();

// Foreign code may have run: a setter of Object.prototype would be called by `exports.brand = `, and keep the function.
module.exports = {
  __proto__: null,
  brand: (error, value) => weakSet(brands, error, value),
  brandOf: (thrown) =>
    (typeof thrown === 'object' && thrown !== null) || typeof thrown === 'function'
      ? weakGet(brands, thrown)
      : undefined,
};
