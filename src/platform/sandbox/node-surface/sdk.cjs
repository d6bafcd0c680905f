// The error classes of the SDK, with their statuses and what of an argument becomes the caller's errors.
'use strict';

const { isArray, keys, toJson } = require('./primordials.cjs');
const { brand } = require('./brands.cjs');
const { messageWithReason } = require('./calls.cjs');

const toText = (value) => {
  if (typeof value === 'string') return value;
  return value instanceof Error ? `${messageWithReason(value)}` : (toJson(value) ?? `${String(value)}`);
};

const toTexts = (value) => {
  if (!isArray(value)) return [toText(value)];
  const texts = [];
  for (let i = 0; i < value.length; i++) texts[i] = toText(value[i]);
  return texts;
};

const toErrors = (given, generic) => {
  if (given == null) return { error: [generic] };
  if (isArray(given)) return { error: toTexts(given) };
  if (typeof given !== 'object') return { error: [toText(given)] };
  if (given instanceof Error) return { error: [toText(given)] };
  const errors = {};
  for (const name of keys(given)) errors[name] = toTexts(given[name]);
  return errors;
};

const firstText = (errors) => {
  for (const name of keys(errors)) {
    if (errors[name].length > 0) return errors[name][0];
  }
};

class ReactorError extends Error {
  constructor(given, generic = 'Reactor error') {
    const errors = toErrors(given, generic);
    super(firstText(errors) ?? generic);
    this.errors = errors;
  }
}

const nameError = (error, name) =>
  Object.defineProperty(error, 'name', { value: name, writable: true, configurable: true });

const classes = { ReactorError };

const define = (name, status, detail, generic) => {
  const mark = { name, status, detail };
  const made = {
    [name]: class extends ReactorError {
      constructor(errors) {
        super(errors, generic);
        brand(nameError(this, name), mark);
        this.status = status;
        this.detail = detail;
      }
    },
  };
  classes[name] = made[name];
};

define('AuthenticationError', 401, 'Authentication Failed', 'Authentication failed');
define('AuthorizationError', 403, 'Forbidden', 'Forbidden');
define('BadRequestError', 400, 'Bad Request', 'Bad request');
define('InvalidPaymentMethodError', 402, 'Invalid Payment Method', 'Invalid payment method');
define('RateLimitError', 429, 'Rate Limit Exceeded', 'Rate limit exceeded');
define('ReactorRuntimeError', 500, 'Reactor Runtime Error', 'Reactor runtime error');
define('ServiceUnavailableError', 503, 'Service Unavailable', 'Service unavailable');
define('InvalidReactorConfigurationError', 400, 'Invalid Reactor Configuration', 'Invalid reactor configuration');
define('InvalidReactorFormulaError', 422, 'Invalid Reactor Formula', 'Invalid reactor formula');
const customMark = { name: 'CustomHttpResponseError' };

classes.CustomHttpResponseError = class extends Error {
  constructor({ status = 500, headers = {}, body = null } = {}) {
    super(`Custom HTTP response with status ${String(status)}`);
    brand(nameError(this, customMark.name), customMark);
    this.status = status;
    this.headers = headers;
    this.body = body;
  }
};

exports.classes = classes;
