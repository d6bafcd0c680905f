// What of punycode is about whole domains, where the host knows how, and about characters.
'use strict';

const { domainToASCII, domainToUnicode } = require('./url.cjs');

module.exports = {
  version: '2.1.0',
  toASCII: domainToASCII,
  toUnicode: domainToUnicode,
  ucs2: {
    decode: (text) => Array.from(text, (char) => char.codePointAt(0)),
    encode: (points) => String.fromCodePoint(...points),
  },
};
