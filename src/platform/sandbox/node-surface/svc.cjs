// The methods of `req.svc`: a closed list, each one call. Decides nothing about what it may do.
'use strict';

const { freeze, indexOf, slice, toJson, TypeError } = require('./primordials.cjs');
const { call: callPlainly, callWith, makeFault } = require('./calls.cjs');
const host = require('./host.cjs');

// What `expression` and `literal` made in this run, each under a mark that the code puts into a request as text. No text
// from outside can be one: the UUID is drawn when the first is made.
let marksBegin;
let marksMade = 0;
const marks = { __proto__: null };

const mark = (made) => {
  marksBegin ??= `svc-${host.crypto('randomUUID', [[]])[0]}-`;
  const name = `${marksBegin}${++marksMade}`;
  marks[name] = made;
  return `{{${name}}}`;
};

const checkText = (value, what) => {
  if (typeof value !== 'string') throw new TypeError(`${what} must be a text`);
};

const expression = (id, filter) => {
  checkText(id, 'The id of svc.expression');
  if (filter != null) checkText(filter, 'The filter of svc.expression');
  return mark({ __proto__: null, id, filter });
};

const literal = (text) => {
  checkText(text, 'What svc.literal wraps');
  return mark({ __proto__: null, literal: text });
};

const isDigit = (character) => character >= '0' && character <= '9';

// However the code wrote the request, a mark is in it as it was made: it has no character that any format escapes.
const marksIn = (json) => {
  const found = { __proto__: null };
  for (let at = indexOf(json, marksBegin); at !== -1; at = indexOf(json, marksBegin, at + 1)) {
    let end = at + marksBegin.length;
    while (isDigit(json[end])) end += 1;
    const name = slice(json, at, end);
    if (marks[name] !== undefined) found[name] = marks[name];
  }
  return found;
};

const forward = (method, { headers, path, query, body } = {}) =>
  callWith('svc:proxy', () => {
    // Without a prototype it is written as an object, whatever code did to toJSON: the marks join it below.
    const json = toJson({ __proto__: null, method, headers, path, query, body });
    if (marksBegin === undefined) return json;
    return `${slice(json, 0, -1)},"marks":${toJson(marksIn(json))}}`;
  });

const call = (kind, input) =>
  marksBegin === undefined
    ? callPlainly(kind, input)
    : callWith(kind, () => {
        const json = toJson(input);
        if (indexOf(json, marksBegin) === -1) return json;
        const message = 'What svc.expression and svc.literal make is for svc.proxy alone.';
        throw makeFault({ code: 'INVALID_INPUT', message, status: 400 });
      });

exports.createService = () =>
  freeze({
    tokenize: (body) => call('svc:tokenize', { body }),
    detokenize: (body) => call('svc:detokenize', { body }),
    tokens: freeze({
      create: (token) => call('svc:tokens.create', { token }),
      retrieve: (id) => call('svc:tokens.retrieve', { id }),
      update: (id, patch) => call('svc:tokens.update', { id, patch }),
      delete: (id) => call('svc:tokens.delete', { id }),
      search: (query, options) =>
        call('svc:tokens.search', { ...options, ...(typeof query === 'object' && query !== null ? query : { query }) }),
    }),
    expression,
    literal,
    proxy: freeze({
      get: (options) => forward('GET', options),
      post: (options) => forward('POST', options),
      put: (options) => forward('PUT', options),
      patch: (options) => forward('PATCH', options),
      delete: (options) => forward('DELETE', options),
    }),
  });
