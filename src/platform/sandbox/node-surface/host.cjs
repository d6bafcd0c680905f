// The one way out of the isolate. Only texts, numbers and booleans go through, and the function never leaves this module.
'use strict';

const {
  Error,
  RangeError,
  TypeError,
  defineProperty,
  indexOf,
  indirectEval,
  parseJson,
  slice,
  toJson,
} = require('./primordials.cjs');

let host;
let slowHost;

// What takes long: the code waits here, and other runs of its tenant go on.
const slow = { __proto__: null, pbkdf2: true, scrypt: true, generateKeyPair: true };
const ask = (operation, json) =>
  slow[operation] ? slowHost.applySyncPromise(undefined, [operation, json]) : host('crypto', operation, json);

const unwrap = (text) => {
  const answer = parseJson(text);
  const { error } = answer;
  if (error === undefined) return answer.ok;
  const ErrorClass = error.name === 'TypeError' ? TypeError : error.name === 'RangeError' ? RangeError : Error;
  const thrown = new ErrorClass(error.message);
  if (error.code !== undefined) defineProperty(thrown, 'code', property(error.code));
  throw thrown;
};

const property = (value) => ({ __proto__: null, value, writable: true, enumerable: true, configurable: true });

// What the executor cuts off anyway need not be copied out.
const LOG_TEXT_MAX = 64 * 1024;

module.exports = {
  __proto__: null,
  connect(hostFunction, slowReference) {
    host = hostFunction;
    slowHost = slowReference;
  },
  done: (ok, json) => host('done', ok, json),
  call: (id, kind, json) => host('call', id, kind, json),
  timer: (id, delayMs) => host('timer', id, delayMs),
  untimer: (id) => host('untimer', id),
  log: (level, text) => host('log', level, text),
  clipLog: (text) => (text.length > LOG_TEXT_MAX ? slice(text, 0, LOG_TEXT_MAX) : text),
  source: (name) => host('source', name),
  // A module that is not in the prelude's text (bundle.ts), as a function. Its text comes from the host alone.
  loadPart(name) {
    const text = host('part', slice(name, indexOf(name, '/') + 1));
    if (typeof text !== 'string') throw new Error(`The part '${name}' cannot be loaded`);
    return indirectEval(text);
  },
  crypto: (operation, input) => unwrap(ask(operation, toJson(input))),
  url: (operation, first, second, third) =>
    // The host counts arguments: one that is undefined is not passed.
    parseJson(
      third !== undefined
        ? host('url', operation, first, second, third)
        : second !== undefined
          ? host('url', operation, first, second)
          : host('url', operation, first),
    ),
};
