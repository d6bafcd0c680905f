// Drives the CommonJS module of the client for Node.
require('./driver.cjs').run(require('@strongroom/node'));
