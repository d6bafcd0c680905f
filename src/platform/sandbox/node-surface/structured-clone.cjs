// structuredClone for everything that is data; what is not is a DataCloneError.
'use strict';

const { types } = require('./util.cjs');

const refuse = (value) => {
  const { DOMException } = require('./dom-exception.cjs');
  const shown =
    typeof value === 'symbol' || typeof value === 'function'
      ? String(value)
      : Object.prototype.toString.call(value).replace(/^\[object (.*)\]$/, '#<$1>');
  return new DOMException(`${shown} could not be cloned.`, 'DataCloneError');
};

const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

const cloneError = (value, clone) => {
  const Base = Object.hasOwn(ERRORS, value.name) ? ERRORS[value.name] : Error;
  const made = new Base(Object.hasOwn(value, 'message') ? `${value.message}` : undefined);
  Object.defineProperty(made, 'stack', { value: value.stack, writable: true, configurable: true });
  if (Object.hasOwn(value, 'cause'))
    Object.defineProperty(made, 'cause', { value: clone(value.cause), writable: true, configurable: true });
  return made;
};

const BOXED = [
  ['isNumberObject', Number],
  ['isStringObject', String],
  ['isBooleanObject', Boolean],
  ['isBigIntObject', BigInt],
];

const cloneKind = (value, remember, clone) => {
  for (const [test, Kind] of BOXED) {
    if (types[test](value)) return remember(Object(Kind.prototype.valueOf.call(value)));
  }
  if (types.isDate(value)) return remember(new Date(Date.prototype.getTime.call(value)));
  if (types.isRegExp(value)) return remember(new RegExp(value.source, value.flags));
  if (types.isArrayBuffer(value)) return remember(ArrayBuffer.prototype.slice.call(value, 0));
  if (ArrayBuffer.isView(value)) return remember(cloneView(value, clone));
  if (types.isMap(value)) return cloneMap(value, remember(new Map()), clone);
  if (types.isSet(value)) return cloneSet(value, remember(new Set()), clone);
  if (types.isNativeError(value)) return remember(cloneError(value, clone));
  if (Array.isArray(value)) return cloneArray(value, remember([]), clone);
  if (
    [types.isWeakMap, types.isWeakSet, types.isPromise, types.isSymbolObject, types.isGeneratorObject].some((test) =>
      test(value),
    )
  )
    throw refuse(value);
  return cloneProperties(value, remember({}), clone);
};

const cloneView = (value, clone) => {
  const buffer = clone(value.buffer);
  if (types.isDataView(value)) return new DataView(buffer, value.byteOffset, value.byteLength);
  const kind = Object.getOwnPropertyDescriptor(
    Object.getPrototypeOf(Uint8Array.prototype),
    Symbol.toStringTag,
  ).get.call(value);
  return new globalThis[kind](buffer, value.byteOffset, value.length);
};

const cloneMap = (value, copy, clone) => {
  for (const [key, item] of Map.prototype.entries.call(value)) copy.set(clone(key), clone(item));
  return copy;
};

const cloneSet = (value, copy, clone) => {
  for (const item of Set.prototype.values.call(value)) copy.add(clone(item));
  return copy;
};

const cloneArray = (value, copy, clone) => {
  copy.length = value.length;
  return cloneProperties(value, copy, clone);
};

const cloneProperties = (value, copy, clone) => {
  for (const key of Object.keys(value)) {
    if (Object.hasOwn(value, key))
      Object.defineProperty(copy, key, {
        value: clone(value[key]),
        writable: true,
        enumerable: true,
        configurable: true,
      });
  }
  return copy;
};

exports.structuredClone = function (value, options = {}) {
  if (arguments.length === 0) throw new TypeError('The "value" argument must be specified');
  const copies = new Map();
  for (const transferred of options?.transfer ?? []) {
    if (!types.isArrayBuffer(transferred)) throw refuse(transferred);
    copies.set(transferred, transferred.transfer ? transferred.transfer() : transferred.slice(0));
  }
  const clone = (item) => {
    if (typeof item === 'function' || typeof item === 'symbol') throw refuse(item);
    if (typeof item !== 'object' || item === null) return item;
    return copies.has(item)
      ? copies.get(item)
      : cloneKind(
          item,
          (copy) => {
            copies.set(item, copy);
            return copy;
          },
          clone,
        );
  };
  return clone(value);
};
