// Errors in Node's words: code, class and message. Knows nothing of what the functions do that throw them.
'use strict';

exports.nodeError = (Base, code, message) => {
  const error = new Base(message);
  const name = error.name;
  Object.defineProperty(error, 'name', { value: `${name} [${code}]`, writable: true, configurable: true });
  // The engine writes the stack when it is first read: now, while the name has the code in it.
  void error.stack;
  delete error.name;
  error.code = code;
  return error;
};

const describeReceived = (value) => {
  if (value == null) return ` Received ${value}`;
  if (typeof value === 'function') return ` Received function ${value.name}`;
  const { inspect } = require('./inspect.cjs');
  if (typeof value === 'object')
    return value.constructor && value.constructor.name
      ? ` Received an instance of ${value.constructor.name}`
      : ` Received ${inspect(value, { depth: -1 })}`;
  let text = inspect(value, { colors: false });
  if (text.length > 28) text = `${text.slice(0, 25)}...`;
  return ` Received type ${typeof value} (${text})`;
};

exports.describeReceived = describeReceived;

exports.invalidArgType = (name, expected, value) => {
  let text = `The ${name.endsWith(' argument') ? name : `"${name}" ${name.includes('.') ? 'property' : 'argument'}`} must be ${expected}.${describeReceived(value)}`;
  return exports.nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
};

const groupDigits = (value) => `${value}`.replace(/(?<=\d)(?=(\d{3})+$)/g, '_');

exports.outOfRange = (name, range, value) => {
  let received;
  if (Number.isInteger(value) && Math.abs(value) > 2 ** 32) received = groupDigits(value);
  else if (typeof value === 'bigint')
    received = `${value > 2n ** 32n || value < -(2n ** 32n) ? groupDigits(value) : value}n`;
  else received = require('./inspect.cjs').inspect(value);
  return exports.nodeError(
    RangeError,
    'ERR_OUT_OF_RANGE',
    `The value of "${name}" is out of range. It must be ${range}. Received ${received}`,
  );
};

exports.checkFunction = (value, name = 'callback') => {
  if (typeof value !== 'function') throw exports.invalidArgType(name, 'of type function', value);
};

exports.checkString = (value, name) => {
  if (typeof value !== 'string') throw exports.invalidArgType(name, 'of type string', value);
};
