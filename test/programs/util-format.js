// Formats messages with placeholders.
// request: {"args":{"name":"Zoë"}}
const { format, inspect, isDeepStrictEqual, types } = require('util');

module.exports = ({ args: { name } }) => ({
  raw: [
    format('%s owes %d of %i (%f)', name, 12.5, 42.9, '1.25'),
    format('%j %o %O', { a: [1] }, [1], { b: { c: {} } }),
    format('%% %x %s', 'extra', { a: 1 }),
    format('no placeholders', 1, 'two', { three: 3 }),
    format(1, 2, '3'),
    format('%s %s %s %s', null, undefined, 1n, Symbol('x')),
    format('%s', class A {}),
    format('%s', () => 1),
    format('%d %i', 'abc', '0x10'),
    format('%c styled', 'color: red'),
    format('%s', [1, [2, [3]]]),
    format('%s', { toString: () => 'custom' }),
    format('%s', new Date(0)),
    format('%s', -0),
    format('%'),
    format('%s'),
    inspect(format),
    [
      isDeepStrictEqual({ a: [1, new Map([[1, 2]])] }, { a: [1, new Map([[1, 2]])] }),
      isDeepStrictEqual([1], ['1']),
      isDeepStrictEqual(NaN, NaN),
    ],
    [
      types.isDate(new Date()),
      types.isRegExp(/x/),
      types.isPromise({ then() {} }),
      types.isTypedArray(Buffer.alloc(1)),
      types.isNativeError(new TypeError()),
    ],
  ],
});
