// Node's assert: the package of this name, over our util.
'use strict';

module.exports = require('library/assert').assert;
