// TextEncoder and TextDecoder: the package @exodus/bytes, with all encodings of the standard but those of several bytes.
'use strict';

const { TextEncoder, TextDecoder } = require('library/encoding');

module.exports = { TextEncoder, TextDecoder };
