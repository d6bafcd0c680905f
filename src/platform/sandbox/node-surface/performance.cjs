// performance.now in whole milliseconds since the context was made: a finer clock would serve attacks only.
'use strict';

const { now } = require('./primordials.cjs');

const timeOrigin = now();

exports.performance = {
  timeOrigin,
  now: () => now() - timeOrigin,
  mark: () => {},
  measure: () => {},
  toJSON: () => ({ timeOrigin }),
};
