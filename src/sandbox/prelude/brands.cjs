// Marks errors of the SDK so that nobody can forge or remove the mark: what an error says of itself is not believed.
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
