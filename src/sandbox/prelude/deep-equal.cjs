// Whether two values are deeply equal, loosely or strictly, as assert and util mean it. Ends on cycles.
'use strict';

const types = require('./types.cjs');

const isObject = (value) => typeof value === 'object' && value !== null;
const samePrimitive = (a, b, isStrict) => (isStrict ? Object.is(a, b) : a == b || (Number.isNaN(a) && Number.isNaN(b)));

const bytesOf = (value) =>
  types.isArrayBuffer(value) ? new Uint8Array(value) : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);

const sameBytes = (a, b) => {
  const left = bytesOf(a);
  const right = bytesOf(b);
  return left.length === right.length && left.every((byte, i) => byte === right[i]);
};

const sameItems = (a, b) => {
  for (let i = 0; i < a.length; i++) {
    if (!(a[i] === b[i] || (Number.isNaN(a[i]) && Number.isNaN(b[i])))) return false;
  }
  return a.length === b.length;
};

const unboxed = (value) => value.valueOf();

const KINDS = [
  [types.isDate, (a, b) => a.getTime() === b.getTime()],
  [types.isRegExp, (a, b) => a.source === b.source && a.flags === b.flags && a.lastIndex === b.lastIndex],
  [
    (value) => types.isNativeError(value) || value instanceof Error,
    (a, b, compare) =>
      a.message === b.message &&
      a.name === b.name &&
      Object.hasOwn(a, 'cause') === Object.hasOwn(b, 'cause') &&
      (!Object.hasOwn(a, 'cause') || compare(a.cause, b.cause)) &&
      compare(a.errors, b.errors),
  ],
  [
    types.isTypedArray,
    (a, b, _, isStrict) => (isStrict && !a.constructor.name.startsWith('Float') ? sameBytes(a, b) : sameItems(a, b)),
  ],
  [types.isArrayBuffer, sameBytes],
  [types.isDataView, sameBytes],
  [types.isSymbolObject, (a, b) => unboxed(a) === unboxed(b)],
  [types.isBoxedPrimitive, (a, b) => Object.is(unboxed(a), unboxed(b))],
];

const enumerableKeys = (value, isStrict) => {
  const keys = Object.keys(value);
  if (!isStrict) return keys;
  const symbols = Object.getOwnPropertySymbols(value);
  return [...keys, ...symbols.filter((symbol) => Object.prototype.propertyIsEnumerable.call(value, symbol))];
};

const sameProperties = (a, b, compare, isStrict) => {
  const keys = enumerableKeys(a, isStrict);
  return keys.length !== enumerableKeys(b, isStrict).length
    ? false
    : keys.every((key) => Object.prototype.propertyIsEnumerable.call(b, key) && compare(a[key], b[key]));
};

const sameSet = (a, b, compare, isStrict) => {
  if (a.size !== b.size) return false;
  const left = [...a].filter((item) => !b.has(item));
  const right = new Set([...b].filter((item) => !a.has(item)));
  return left.every((item) => {
    if (isStrict && !isObject(item)) return false;
    for (const other of right) {
      if (compare(item, other)) return right.delete(other);
    }
    return false;
  });
};

const sameMap = (a, b, compare, isStrict) => {
  if (a.size !== b.size) return false;
  const right = new Map([...b].filter(([key]) => !a.has(key)));
  for (const [key, value] of a) {
    if (b.has(key)) {
      if (!compare(value, b.get(key))) return false;
      continue;
    }
    if (isStrict && !isObject(key)) return false;
    const partner = [...right].find(([other, item]) => compare(key, other) && compare(value, item));
    if (partner === undefined) return false;
    right.delete(partner[0]);
  }
  return true;
};

const sameObjects = (a, b, compare, isStrict) => {
  if (
    (isStrict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) ||
    Object.prototype.toString.call(a) !== Object.prototype.toString.call(b) ||
    Array.isArray(a) !== Array.isArray(b) ||
    (Array.isArray(a) && a.length !== b.length)
  )
    return false;
  for (const [isKind, isSame] of KINDS) {
    if (isKind(a) !== isKind(b) || (isKind(a) && !isSame(a, b, compare, isStrict))) return false;
  }
  if (types.isTypedArray(a)) return true;
  if (
    types.isSet(a) !== types.isSet(b) ||
    types.isMap(a) !== types.isMap(b) ||
    (types.isSet(a) && !sameSet(a, b, compare, isStrict)) ||
    (types.isMap(a) && !sameMap(a, b, compare, isStrict))
  )
    return false;
  return sameProperties(a, b, compare, isStrict);
};

exports.isDeepEqual = (left, right, isStrict) => {
  const open = new Map();
  const compare = (a, b) => {
    if (a === b) return a !== 0 || !isStrict || Object.is(a, b);
    if (!isObject(a) || !isObject(b))
      return isStrict || (!isObject(a) && !isObject(b))
        ? typeof a !== 'function' && samePrimitive(a, b, isStrict)
        : false;
    if (open.get(a) === b) return true;
    const outer = open.get(a);
    open.set(a, b);
    const isSame = sameObjects(a, b, compare, isStrict);
    if (outer === undefined) open.delete(a);
    else open.set(a, outer);
    return isSame;
  };
  return compare(left, right);
};
