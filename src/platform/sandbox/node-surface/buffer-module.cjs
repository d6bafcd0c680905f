// The module `buffer` as code requires it: the one of the surface, with Blob, which is made of buffers itself.
'use strict';

const buffer = require('./buffer.cjs');
const { Blob } = require('./blob.cjs');

module.exports = { ...buffer, Blob };
