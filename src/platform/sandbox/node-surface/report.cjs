// Makes of what was thrown a text for the host, bounded, whatever it is: a proxy, a getter that throws, a text without
// end. Never throws itself.
'use strict';

const { RangeError, String, isArray, isInteger, keys, parseJson, slice, toJson } = require('./primordials.cjs');
const { brandOf } = require('./brands.cjs');
const { messageWithReason } = require('./calls.cjs');

const MESSAGE_MAX = 4096;
const STACK_MAX = 8192;
const NAME_MAX = 200;
const ERRORS_MAX = 100;
const ERRORS_LENGTH_MAX = 64 * 1024;
const UNKNOWN = '{"code":"THROWN","message":"Unknown error"}';
const clip = (text, max) => (text.length > max ? slice(text, 0, max) : text);

const attempt = (read, max) => {
  try {
    const value = read();
    return typeof value === 'string' ? clip(value, max) : undefined;
  } catch {
    return;
  }
};

const describeValue = (thrown) => {
  if (typeof thrown === 'string') return clip(thrown, MESSAGE_MAX);
  if ((typeof thrown === 'object' && thrown !== null) || typeof thrown === 'function')
    return (
      attempt(() => messageWithReason(thrown), MESSAGE_MAX) ??
      attempt(() => require('./inspect.cjs').inspect(thrown), MESSAGE_MAX) ??
      attempt(() => String(thrown), MESSAGE_MAX)
    );
  return attempt(() => String(thrown), MESSAGE_MAX);
};

const describePlain = (thrown) => {
  const isObject = (typeof thrown === 'object' && thrown !== null) || typeof thrown === 'function';
  return toJson({
    __proto__: null,
    code: 'THROWN',
    message: describeValue(thrown) ?? 'Unknown error',
    name: isObject ? attempt(() => thrown.name, NAME_MAX) : undefined,
    stack: isObject ? attempt(() => thrown.stack, STACK_MAX) : undefined,
  });
};

const textOf = (value) => clip(typeof value === 'string' ? value : (toJson(value) ?? 'null'), MESSAGE_MAX);

const boundErrors = (errors) => {
  const bounded = { __proto__: null };
  let left = ERRORS_LENGTH_MAX;
  const take = (text) => {
    const taken = clip(text, left);
    left -= taken.length;
    return taken;
  };
  const names = keys(errors);
  for (let i = 0; i < names.length && i < ERRORS_MAX && left > 0; i++) {
    const given = errors[names[i]];
    const texts = isArray(given) ? given : [given];
    const shown = [];
    for (let j = 0; j < texts.length && j < ERRORS_MAX && left > 0; j++) shown[j] = take(textOf(texts[j]));
    bounded[take(clip(names[i], NAME_MAX))] = shown;
  }
  return bounded;
};

const readErrors = (thrown) => {
  try {
    return boundErrors(thrown.errors);
  } catch {
    return { __proto__: null };
  }
};

const describeSdkError = (thrown, { name, status, detail }) =>
  toJson({
    __proto__: null,
    code: 'SDK_ERROR',
    error: {
      __proto__: null,
      class: name,
      status,
      detail: attempt(() => thrown.detail, MESSAGE_MAX) ?? detail,
      errors: readErrors(thrown),
    },
    stack: attempt(() => thrown.stack, STACK_MAX),
  });

const describeResponse = (thrown) => {
  const { status, headers, body } = thrown;
  if (!isInteger(status) || status < 100 || status > 599)
    throw new RangeError('The status of a CustomHttpResponseError is a whole number from 100 to 599');
  const texts = { __proto__: null };
  const names = keys(headers ?? {});
  for (let i = 0; i < names.length; i++) {
    const value = headers[names[i]];
    if (value != null) texts[names[i]] = isArray(value) ? value.join(', ') : `${value}`;
  }
  const bodyJson = toJson(body);
  const response = {
    __proto__: null,
    status,
    headers: texts,
    body: bodyJson === undefined ? null : parseJson(bodyJson),
  };
  return toJson({ __proto__: null, code: 'RESPONSE', response });
};

const describeBranded = (thrown, brand) => {
  if (brand.name !== 'CustomHttpResponseError') return describeSdkError(thrown, brand);
  try {
    return describeResponse(thrown);
  } catch (fault) {
    return describePlain(fault);
  }
};

// Foreign code has run: an assignment to `exports` would ask Object.prototype for a setter.
module.exports = {
  __proto__: null,
  describeThrown(thrown) {
    try {
      const brand = brandOf(thrown);
      return brand === undefined ? describePlain(thrown) : describeBranded(thrown, brand);
    } catch {
      return UNKNOWN;
    }
  },
  describeNotJson(thrown) {
    try {
      return describePlain(thrown);
    } catch {
      return UNKNOWN;
    }
  },
};
