// Node's string_decoder: the package of this name.
'use strict';

module.exports = require('library/string-decoder');
