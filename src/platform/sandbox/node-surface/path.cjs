// Node's path for POSIX: the package path-browserify.
'use strict';

const posix = require('library/path');

module.exports = Object.assign(posix, { posix, toNamespacedPath: (path) => path });
