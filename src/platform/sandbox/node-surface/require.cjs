// The list of modules and packages that authors may require, each loaded when it is first asked for. There are no files.
'use strict';

const { apply, indirectEval, Error, TypeError } = require('./primordials.cjs');
const host = require('./host.cjs');

const modules = {
  __proto__: null,
  assert: () => require('library/assert').assert,
  'assert/strict': () => require('library/assert').assert.strict,
  // Blob is made of buffers itself.
  buffer: () => ({ ...require('./buffer.cjs'), Blob: require('./blob.cjs').Blob }),
  console: () => require('./console.cjs').console,
  crypto: () => require('./crypto.cjs'),
  events: () => require('./events.cjs'),
  http: () => require('./http.cjs').http,
  https: () => require('./http.cjs').https,
  os: () => require('./small-modules.cjs').os,
  path: () => require('library/path'),
  'path/posix': () => require('library/path'),
  perf_hooks: () => require('./performance.cjs'),
  process: () => require('./process.cjs'),
  punycode: () => require('./punycode.cjs'),
  querystring: () => require('./small-modules.cjs').querystring,
  stream: () => require('library/stream'),
  'stream/promises': () => require('library/stream').promises,
  string_decoder: () => require('library/string-decoder'),
  timers: () => makeTimers(),
  'timers/promises': () => require('./timers.cjs').promises,
  url: () => require('./url.cjs'),
  util: () => require('./util.cjs'),
  'util/types': () => require('./util.cjs').types,
};

// The module `timers`: what only a run calls is left out.
const makeTimers = () => {
  const { tick: _, ...visible } = require('./timers.cjs');
  return visible;
};

const withoutPrefix = (name) => (name.startsWith('node:') ? name.slice(5) : name);

const packages = [
  'axios',
  'crypto-js',
  'csv-parse',
  'csv-parse/sync',
  'fast-xml-parser',
  'jsonpath',
  'node-fetch',
  'uuid',
  'yup',
];

const SDK = ['@svc/reactor-formulas-sdk', '@basis-theory/basis-theory-reactor-formulas-sdk-js'];

const notFound = (name) => {
  const error = new Error(`Cannot find module '${name}'`);
  error.code = 'MODULE_NOT_FOUND';
  error.requireStack = [];
  return error;
};

const loaded = { __proto__: null };

const loadPackage = (name) => {
  const source = host.source(name);
  if (typeof source !== 'string') throw notFound(name);
  const loadedModule = { exports: {} };
  const wrapper = indirectEval(`(function (require, module, exports) {${source}\n})`);
  apply(wrapper, loadedModule.exports, [load, loadedModule, loadedModule.exports]);
  return loadedModule.exports;
};

const sdk = () => {
  const { classes } = require('./sdk.cjs');
  return { ...classes };
};

const find = (name) => {
  if (modules[withoutPrefix(name)] !== undefined) return modules[withoutPrefix(name)];
  if (packages.includes(name)) return () => loadPackage(name);
  if (name.startsWith('crypto-js/')) return () => cryptoJsPart(name.slice(10));
  if (SDK.includes(name)) return sdk;
};

const CRYPTO_JS_PARTS = {
  __proto__: null,
  'enc-base64': (all) => all.enc.Base64,
  'enc-base64url': (all) => all.enc.Base64url,
  'enc-hex': (all) => all.enc.Hex,
  'enc-latin1': (all) => all.enc.Latin1,
  'enc-utf8': (all) => all.enc.Utf8,
  'enc-utf16': (all) => all.enc.Utf16,
  'format-hex': (all) => all.format.Hex,
  core: (all) => all,
};

const cryptoJsPart = (part) => {
  const all = load('crypto-js');
  const special = CRYPTO_JS_PARTS[part];
  if (special !== undefined) return special(all);
  const [, group, rest = part] = /^(mode|pad)-(.+)$/.exec(part) ?? [];
  const shelf = group === undefined ? all : all[group];
  const name = Object.keys(shelf).find((key) => key.toLowerCase() === rest.replaceAll('-', '').toLowerCase());
  if (name === undefined) throw notFound(`crypto-js/${part}`);
  return shelf[name];
};

const load = (name) => {
  const key = SDK.includes(name) ? SDK[0] : withoutPrefix(name);
  if (key in loaded && (key === name || modules[key] !== undefined || key === SDK[0])) return loaded[key];
  const make = find(name);
  if (make === undefined) throw notFound(name);
  const loadedExports = make();
  loaded[key] = loadedExports;
  return loadedExports;
};

module.exports = {
  __proto__: null,
  requireModule(name) {
    if (typeof name !== 'string') throw require('./errors.cjs').invalidArgType('id', 'of type string', name);
    if (name === '')
      throw require('./errors.cjs').nodeError(
        TypeError,
        'ERR_INVALID_ARG_VALUE',
        "The argument 'id' must be a non-empty string. Received ''",
      );
    return load(name);
  },
  resolve(name) {
    if (find(name) === undefined) throw notFound(name);
    return name;
  },
};
