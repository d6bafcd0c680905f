// Node's path for POSIX: the package's, with Node's checks and errors.
'use strict';

const { checkString } = require('./errors.cjs');
const posix = require('path-browserify');

const TEXTS = {
  basename: ['path'],
  dirname: ['path'],
  extname: ['path'],
  isAbsolute: ['path'],
  normalize: ['path'],
  parse: ['path'],
  relative: ['from', 'to'],
};

for (const [name, texts] of Object.entries(TEXTS)) {
  const original = posix[name];
  posix[name] = (...args) => {
    texts.forEach((text, i) => checkString(args[i], text));
    return original(...args);
  };
}

for (const name of ['join', 'resolve']) {
  const original = posix[name];
  posix[name] = (...paths) => {
    for (const path of paths) checkString(path, 'path');
    return original(...paths);
  };
}

posix.posix = posix;
posix.toNamespacedPath = (path) => path;
module.exports = posix;
