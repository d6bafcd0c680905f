// util.types: what a value is, asked of the engine and not of what the value says of itself.
'use strict';

const uncurry = Function.prototype.bind.bind(Function.prototype.call);
const getter = (proto, name) => uncurry(Object.getOwnPropertyDescriptor(proto, name).get);
const tagged = uncurry(Object.prototype.toString);

const passes = (method) => (value) => {
  try {
    method(value);
    return true;
  } catch {
    return false;
  }
};

const typedArrayTag = getter(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag);
const weakHas = uncurry(WeakMap.prototype.has);
const weakSetHas = uncurry(WeakSet.prototype.has);
const then = uncurry(Promise.prototype.then);
const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';
const byTag = (name) => (value) => isObject(value) && tagged(value) === `[object ${name}]`;

const inherits = (make) => {
  const proto = make();
  return (value) => isObject(value) && (value === proto || Object.prototype.isPrototypeOf.call(proto, value));
};

const isBoxed = {
  isNumberObject: passes(uncurry(Number.prototype.valueOf)),
  isStringObject: passes(uncurry(String.prototype.valueOf)),
  isBooleanObject: passes(uncurry(Boolean.prototype.valueOf)),
  isBigIntObject: passes(uncurry(BigInt.prototype.valueOf)),
  isSymbolObject: passes(uncurry(Symbol.prototype.valueOf)),
};

const boxed = (test) => (value) => typeof value === 'object' && value !== null && test(value);

const types = {
  isDate: passes(uncurry(Date.prototype.getTime)),
  isRegExp: (value) =>
    isObject(value) && tagged(value) === '[object RegExp]' && passes(getter(RegExp.prototype, 'source'))(value),
  isMap: passes(getter(Map.prototype, 'size')),
  isSet: passes(getter(Set.prototype, 'size')),
  isWeakMap: passes((value) => weakHas(value, types)),
  isWeakSet: passes((value) => weakSetHas(value, types)),
  isPromise: (value) => typeof value === 'object' && value !== null && value instanceof Promise && passes(then)(value),
  isArrayBuffer: passes(getter(ArrayBuffer.prototype, 'byteLength')),
  isAnyArrayBuffer: (value) => types.isArrayBuffer(value),
  isSharedArrayBuffer: () => false,
  isDataView: passes(getter(DataView.prototype, 'buffer')),
  isArrayBufferView: ArrayBuffer.isView,
  isTypedArray: (value) => isObject(value) && typedArrayTag(value) !== undefined,
  isNativeError: (value) =>
    isObject(value) && (Error.isError ? Error.isError(value) : tagged(value) === '[object Error]'),
  isArgumentsObject: byTag('Arguments'),
  isMapIterator: inherits(() => Object.getPrototypeOf(new Map().entries())),
  isSetIterator: inherits(() => Object.getPrototypeOf(new Set().entries())),
  isGeneratorObject: byTag('Generator'),
  isAsyncFunction: (value) => typeof value === 'function' && tagged(value).startsWith('[object Async'),
  isGeneratorFunction: (value) => typeof value === 'function' && /^\[object (Async)?GeneratorF/.test(tagged(value)),
  isModuleNamespaceObject: byTag('Module'),
  isBoxedPrimitive: (value) =>
    typeof value === 'object' && value !== null && Object.values(isBoxed).some((test) => test(value)),
  isProxy: () => false,
  isExternal: () => false,
  isKeyObject: (value) => value instanceof require('./crypto-bridge.cjs').KeyObject,
  isCryptoKey: () => false,
};

for (const [name, test] of Object.entries(isBoxed)) types[name] = boxed(test);

for (const kind of 'Uint8 Int8 Uint16 Int16 Uint32 Int32 Float32 Float64 BigInt64 BigUint64'.split(' '))
  types[`is${kind}Array`] = (value) => isObject(value) && typedArrayTag(value) === `${kind}Array`;

types.isUint8ClampedArray = (value) => isObject(value) && typedArrayTag(value) === 'Uint8ClampedArray';
module.exports = types;
