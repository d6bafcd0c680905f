// Node's util.
'use strict';

const { checkFunction, invalidArgType, nodeError } = require('./errors.cjs');

// util.types: what a value is, asked of the engine and not of what the value says of itself.

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

const byPrototype = (make) => {
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
  isMapIterator: byPrototype(() => Object.getPrototypeOf(new Map().entries())),
  isSetIterator: byPrototype(() => Object.getPrototypeOf(new Set().entries())),
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

const promisified = Symbol.for('nodejs.util.promisify.custom');

const promisify = (original) => {
  checkFunction(original, 'original');
  const custom = original[promisified];
  if (custom !== undefined) {
    checkFunction(custom, 'util.promisify.custom');
    return Object.defineProperty(custom, promisified, { value: custom, configurable: true });
  }
  const promising = function (...args) {
    return new Promise((resolve, reject) => {
      Reflect.apply(original, this, [
        ...args,
        (error, value) => {
          if (error) reject(error);
          else resolve(value);
        },
      ]);
    });
  };
  Object.setPrototypeOf(promising, Object.getPrototypeOf(original));
  Object.defineProperty(promising, promisified, { value: promising, configurable: true });
  return Object.defineProperties(promising, Object.getOwnPropertyDescriptors(original));
};

promisify.custom = promisified;

const falsyReason = (reason) => {
  const error = nodeError(Error, 'ERR_FALSY_VALUE_REJECTION', 'Promise was rejected with falsy value');
  error.reason = reason;
  return error;
};

const callbackify = (original) => {
  checkFunction(original, 'original');
  const { nextTick } = require('./ticks.cjs');
  const calling = function (...args) {
    const callback = args.pop();
    checkFunction(callback, 'last argument');
    Reflect.apply(original, this, args).then(
      (value) => nextTick(callback, [null, value]),
      (reason) => nextTick(callback, [reason || falsyReason(reason)]),
    );
  };
  const descriptors = Object.getOwnPropertyDescriptors(original);
  if (typeof descriptors.length?.value === 'number') descriptors.length.value++;
  if (typeof descriptors.name?.value === 'string') descriptors.name.value += 'Callbackified';
  return Object.defineProperties(calling, descriptors);
};

const inherits = (child, parent) => {
  checkFunction(child, 'ctor');
  checkFunction(parent, 'superCtor');
  if (parent.prototype === undefined) throw invalidArgType('superCtor.prototype', 'of type object', parent.prototype);
  Object.defineProperty(child, 'super_', { value: parent, writable: true, configurable: true });
  Object.setPrototypeOf(child.prototype, parent.prototype);
};

const deprecate = (original, message, code) => {
  let isWarned = false;
  return Object.setPrototypeOf(function (...args) {
    if (!isWarned)
      require('./console.cjs').console.warn(`DeprecationWarning: ${code === undefined ? '' : `[${code}] `}${message}`);
    isWarned = true;
    return new.target ? Reflect.construct(original, args, new.target) : Reflect.apply(original, this, args);
  }, original);
};

const debuglog = () => Object.assign(() => {}, { enabled: false });

const toUSVString = (value) =>
  `${value}`.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '\uFFFD');

const util = {
  promisify,
  callbackify,
  inherits,
  deprecate,
  debuglog,
  debug: debuglog,
  types,
  isDeepStrictEqual: (a, b) => require('library/assert').isDeepStrictEqual(a, b),
  toUSVString,
  get TextEncoder() {
    return require('library/encoding').TextEncoder;
  },
  get TextDecoder() {
    return require('library/encoding').TextDecoder;
  },
  isArray: Array.isArray,
  isBoolean: (value) => typeof value === 'boolean',
  isBuffer: (value) => require('./buffer.cjs').Buffer.isBuffer(value),
  isDate: types.isDate,
  isError: (value) => types.isNativeError(value) || value instanceof Error,
  isFunction: (value) => typeof value === 'function',
  isNull: (value) => value === null,
  isNullOrUndefined: (value) => value == null,
  isNumber: (value) => typeof value === 'number',
  isObject: (value) => typeof value === 'object' && value !== null,
  isPrimitive: (value) => (typeof value !== 'object' && typeof value !== 'function') || value === null,
  isRegExp: types.isRegExp,
  isString: (value) => typeof value === 'string',
  isSymbol: (value) => typeof value === 'symbol',
  isUndefined: (value) => value === undefined,
};

/** Large, and most code that loads util uses none of it. */
for (const name of ['inspect', 'format', 'formatWithOptions', 'stripVTControlCharacters'])
  Object.defineProperty(util, name, {
    get: () => require('./inspect.cjs')[name],
    enumerable: true,
    configurable: true,
  });

module.exports = util;
