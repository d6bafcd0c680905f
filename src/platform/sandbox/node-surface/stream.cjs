// Node's streams: the package's, over our own events, buffer and process.
'use strict';

const stream = require('library/stream');

module.exports = stream;
