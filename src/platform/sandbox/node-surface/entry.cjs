// The door of the prelude: what its script evaluates to, a function that takes the way out and returns the way in.
'use strict';

require('./primordials.cjs');

module.exports = (hostFunction, slowHost) => {
  require('./host.cjs').connect(hostFunction, slowHost);
  require('./globals.cjs').install();
  return require('./run.cjs').enter;
};
