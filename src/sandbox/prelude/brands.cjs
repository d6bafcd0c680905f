// Marks errors of the SDK so that nobody can forge or remove the mark: what an error says of itself is not believed.
'use strict';

const { weakGet, weakSet } = require('./primordials.cjs');

const brands = new WeakMap();
exports.brand = (error, value) => weakSet(brands, error, value);

exports.brandOf = (thrown) =>
  (typeof thrown === 'object' && thrown !== null) || typeof thrown === 'function' ? weakGet(brands, thrown) : undefined;
