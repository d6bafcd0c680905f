// What the module wrapper gives, and requires that come late or twice.
// request: {"args":{}}
exports.unused = true;
const first = require('node:util');

module.exports = async () => {
  const again = require('util');
  let missing;
  try {
    require('./other-file');
  } catch (error) {
    missing = error.code;
  }
  let empty;
  try {
    require('');
  } catch (error) {
    empty = error.code;
  }
  return {
    raw: {
      same: first === again,
      kinds: [typeof module, typeof exports, typeof require, typeof __filename, typeof __dirname],
      promises: require('timers/promises') === require('timers').promises,
      posix: require('path/posix') === require('path').posix,
      strict: require('assert/strict') === require('assert').strict,
      buffer: require('buffer').Buffer === Buffer,
      missing,
      empty,
    },
  };
};
