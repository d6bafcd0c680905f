// Node's module `timers`.
'use strict';

const { tick: _, ...visible } = require('./timers.cjs');

module.exports = visible;
