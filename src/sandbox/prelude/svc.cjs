// The methods of `req.svc`: a closed list, each one call. Decides nothing about what it may do.
'use strict';

const { freeze } = require('./primordials.cjs');
const { call } = require('./calls.cjs');

const forward = (method, { headers, path, query, body } = {}) =>
  call('svc:proxy', { method, headers, path, query, body });

exports.createService = () =>
  freeze({
    tokenize: (body) => call('svc:tokenize', { body }),
    detokenize: (body) => call('svc:detokenize', { body }),
    tokens: freeze({
      create: (token) => call('svc:tokens.create', { token }),
      retrieve: (id) => call('svc:tokens.retrieve', { id }),
      update: (id, patch) => call('svc:tokens.update', { id, patch }),
      delete: (id) => call('svc:tokens.delete', { id }),
      search: (query, { page, size } = {}) =>
        typeof query === 'object' && query !== null
          ? call('svc:tokens.search', { query: query.query, page: query.page, size: query.size })
          : call('svc:tokens.search', { query, page, size }),
    }),
    proxy: freeze({
      get: (options) => forward('GET', options),
      post: (options) => forward('POST', options),
      put: (options) => forward('PUT', options),
      patch: (options) => forward('PATCH', options),
      delete: (options) => forward('DELETE', options),
    }),
  });
