// Node's util.
'use strict';

const types = require('./types.cjs');
const { checkFunction, invalidArgType, nodeError } = require('./errors.cjs');

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
    return require('./text-coding.cjs').TextEncoder;
  },
  get TextDecoder() {
    return require('./text-coding.cjs').TextDecoder;
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
