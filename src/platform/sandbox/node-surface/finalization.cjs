// FinalizationRegistry as the language allows it: one that never calls back. The engine's own calls back when it collects
// garbage, which is outside of the run, its time-out and its account.
'use strict';

const { TypeError } = require('./primordials.cjs');

exports.FinalizationRegistry = class FinalizationRegistry {
  constructor(cleanup) {
    if (typeof cleanup !== 'function') throw new TypeError('FinalizationRegistry: cleanup must be callable');
  }

  register() {}

  unregister() {
    return false;
  }
};
