// Turns callbacks into promises and promises into callbacks.
// request: {"args":{"a":3,"b":4}}
const util = require('util');

const add = (a, b, callback) =>
  setTimeout(() => (typeof a === 'number' ? callback(null, a + b) : callback(new TypeError('a is no number'))), 1);
const twice = async (n) => {
  if (n < 0) throw new RangeError('negative');
  return n * 2;
};

module.exports = async ({ args: { a, b } }) => {
  const sum = await util.promisify(add)(a, b);
  const fault = await util
    .promisify(add)('x', b)
    .catch((error) => `${error.name}: ${error.message}`);
  const called = await new Promise((resolve) =>
    util.callbackify(twice)(sum, (error, value) => resolve([error, value])),
  );
  const failed = await new Promise((resolve) => util.callbackify(twice)(-1, (error) => resolve(error.message)));
  const special = Object.assign(() => {}, { [util.promisify.custom]: async () => 'custom' });
  const old = util.deprecate(() => 'still works', 'old() is deprecated', 'DEP1');
  function Parent() {}
  Parent.prototype.hi = () => 'hi';
  function Child() {}
  util.inherits(Child, Parent);
  const encoder = new util.TextEncoder();
  return {
    raw: {
      sum,
      fault,
      called,
      failed,
      special: await util.promisify(special)(),
      old: old(),
      child: [new Child().hi(), Child.super_ === Parent],
      bytes: Array.from(encoder.encode('é')),
      stripped: util.stripVTControlCharacters('\u001b[31mred\u001b[0m'),
    },
  };
};
