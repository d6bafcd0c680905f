// Node's streams: the package's, over our own events, buffer and process.
'use strict';

const stream = require('readable-stream-all');

module.exports = stream;
