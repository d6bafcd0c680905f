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

exports.invalidArgType = (name, expected, value) => {
  const text = `The ${name.endsWith(' argument') ? name : `"${name}" ${name.includes('.') ? 'property' : 'argument'}`} must be ${expected}.${describeReceived(value)}`;
  return exports.nodeError(TypeError, 'ERR_INVALID_ARG_TYPE', text);
};

exports.checkFunction = (value, name = 'callback') => {
  if (typeof value !== 'function') throw exports.invalidArgType(name, 'of type function', value);
};

exports.checkString = (value, name) => {
  if (typeof value !== 'string') throw exports.invalidArgType(name, 'of type string', value);
};

exports.abortError = (signal) =>
  Object.assign(new Error('The operation was aborted', { cause: signal?.reason }), {
    name: 'AbortError',
    code: 'ABORT_ERR',
  });
