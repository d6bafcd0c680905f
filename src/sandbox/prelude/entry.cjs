// The door of the prelude: leaves one function on the global, `boot`, which takes the way out and returns the way in.
'use strict';

require('./primordials.cjs');

globalThis.boot = (hostFunction) => {
  delete globalThis.boot;
  require('./host.cjs').connect(hostFunction);
  require('./globals.cjs').install();
  return require('./run.cjs').enter;
};
