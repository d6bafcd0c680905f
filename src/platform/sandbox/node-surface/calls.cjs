// Calls that somebody outside answers: a promise for each, settled by its number once. Knows no kind of call.
'use strict';

const { Error, Promise, WeakMap, parseJson, toJson, weakGet, weakSet } = require('./primordials.cjs');
const host = require('./host.cjs');

let lastId = 0;
const pending = { __proto__: null };

// Said at once by the host, before anything is sent.
const refusals = {
  __proto__: null,
  BODY_TOO_LARGE: 'The body is larger than a call may send',
  CALL_LIMIT: 'The run made more calls than it may',
  NOT_JSON: 'What the call sends has no JSON',
};

// What the server said of a failed call, by its error: code may change the properties of an error.
const reasons = new WeakMap();

const makeFault = ({ code, message, status }) => {
  const error = new Error(message);
  weakSet(reasons, error, code === undefined ? message : `${code}: ${message}`);
  if (code !== undefined) error.code = code;
  if (status !== undefined) error.status = status;
  return error;
};

// `write` gives the input as JSON; what it throws, the call rejects with.
const callWith = (kind, write) =>
  new Promise((resolve, reject) => {
    const json = write();
    const id = ++lastId;
    pending[id] = { resolve, reject };
    const refusal = host.call(id, kind, json);
    if (typeof refusal === 'string' && refusal !== '') {
      delete pending[id];
      reject(makeFault({ code: refusal, message: refusals[refusal] ?? 'The call was refused' }));
    }
  });

exports.callWith = callWith;
exports.call = (kind, input) => callWith(kind, () => toJson(input));

exports.makeFault = makeFault;

// The message of an error, and of the failed call that caused it: `fetch failed` alone says nothing.
exports.messageWithReason = (error) => {
  const { message } = error;
  const reason = weakGet(reasons, error.cause);
  return typeof message === 'string' && reason !== undefined ? `${message} (${reason})` : message;
};

exports.settle = (id, ok, json) => {
  const waiting = pending[id];
  if (waiting !== undefined) {
    delete pending[id];
    if (ok) waiting.resolve(json === '' || json === undefined ? undefined : parseJson(json));
    else waiting.reject(makeFault(parseJson(json)));
  }
};
