// The one way out of the isolate. Only texts, numbers and booleans go through, and the function never leaves this module.
'use strict';

const { Error, RangeError, TypeError, defineProperty, parseJson, slice, toJson } = require('./primordials.cjs');

let host;

exports.connect = (hostFunction) => {
  host = hostFunction;
};

exports.done = (ok, json) => host('done', ok, json);
exports.call = (id, kind, json) => host('call', id, kind, json);
exports.timer = (id, delayMs) => host('timer', id, delayMs);
exports.untimer = (id) => host('untimer', id);
exports.log = (level, text) => host('log', level, text);
exports.source = (name) => host('source', name);
const errorClasses = { __proto__: null, TypeError, RangeError };

const unwrap = (text) => {
  const answer = parseJson(text);
  const { error } = answer;
  if (error === undefined) return answer.ok;
  const thrown = new (errorClasses[error.name] ?? Error)(error.message);
  if (error.code !== undefined) defineProperty(thrown, 'code', property(error.code));
  throw thrown;
};

const property = (value) => ({ __proto__: null, value, writable: true, enumerable: true, configurable: true });
exports.crypto = (operation, input) => unwrap(host('crypto', operation, toJson(input)));

exports.url = (operation, first, second, third) =>
  // The host counts arguments: one that is undefined is not passed.
  parseJson(
    third !== undefined
      ? host('url', operation, first, second, third)
      : second !== undefined
        ? host('url', operation, first, second)
        : host('url', operation, first),
  );

// What the executor cuts off anyway need not be copied out.
const LOG_TEXT_MAX = 64 * 1024;
exports.clipLog = (text) => (text.length > LOG_TEXT_MAX ? slice(text, 0, LOG_TEXT_MAX) : text);
