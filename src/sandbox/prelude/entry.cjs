// The door of the prelude: what its script evaluates to, a function that takes the way out and returns the way in.
'use strict';

require('./primordials.cjs');

module.exports = (hostFunction) => {
  require('./host.cjs').connect(hostFunction);
  require('./globals.cjs').install();
  return require('./run.cjs').enter;
};
