// One run: loads the author's file, calls its function, and reports exactly once. Nothing that is thrown gets past it.
'use strict';

const { apply, defineProperty, parseJson, toJson } = require('./primordials.cjs');
const host = require('./host.cjs');
const ticks = require('./ticks.cjs');

let isFinished = false;

const finish = (ok, json) => {
  if (!isFinished) {
    isFinished = true;
    host.done(ok, json);
  }
};

const fail = (thrown) => {
  if (!isFinished) finish(false, require('./report.cjs').describeThrown(thrown));
};

// The list of modules is made when the first of them is asked for.
const makeRequire = () => {
  const requireModule = (name) => require('./require.cjs').requireModule(name);
  requireModule.resolve = (name) => require('./require.cjs').resolve(name);
  requireModule.cache = {};
  requireModule.main = undefined;
  defineProperty(requireModule, 'name', { __proto__: null, value: 'require', configurable: true });
  return requireModule;
};

const load = (userFunction) => {
  const loadedModule = { exports: {}, id: '.', filename: '/formula.js', loaded: false, children: [], paths: [] };
  apply(userFunction, loadedModule.exports, [loadedModule.exports, makeRequire(), loadedModule, '/formula.js', '/']);
  loadedModule.loaded = true;
  const { exports: loadedExports } = loadedModule;
  if (typeof loadedExports === 'function') return loadedExports;
  const fallback = loadedExports?.default;
  return typeof fallback === 'function' ? fallback : undefined;
};

const noFunction = () => finish(false, '{"code":"NO_FUNCTION"}');

// Without the error, a copy such as {...args.body} would be empty, and the code would pass that on.
const refuseLostBody = (args, message) => {
  const attributes = { __proto__: null, enumerable: true, configurable: true };
  defineProperty(args, 'body', {
    ...attributes,
    get: () => {
      throw new Error(message);
    },
    set: (value) => {
      defineProperty(args, 'body', { ...attributes, value, writable: true });
    },
  });
};

const makeRequest = (json) => {
  const { args, configuration, has_svc: hasService, lost_body: lostBody } = parseJson(json);
  if (lostBody !== undefined) refuseLostBody(args, lostBody);
  const svc = hasService === true ? require('./svc.cjs').createService() : null;
  const request = { args, configuration, svc };
  defineProperty(request, 'bt', { __proto__: null, value: svc, writable: true, configurable: true });
  return request;
};

const reportResult = (value) => {
  let json;
  try {
    json = toJson(value);
  } catch (thrown) {
    finish(false, require('./report.cjs').describeNotJson(thrown));
    return;
  }
  finish(true, json === undefined ? 'null' : json);
};

const invoke = async (userFunction, json) => {
  try {
    const exported = load(userFunction);
    if (exported === undefined) {
      noFunction();
      return;
    }
    reportResult(await apply(exported, undefined, [makeRequest(json)]));
  } catch (thrown) {
    fail(thrown);
  }
};

const check = (userFunction) => {
  if (load(userFunction) === undefined) noFunction();
  else finish(true, '');
};

const entries = {
  __proto__: null,
  invoke: (userFunction, json) => {
    invoke(userFunction, json);
  },
  check,
  tick: (timerId) => require('./timers.cjs').tick(timerId),
  settle: (callId, ok, json) => require('./calls.cjs').settle(callId, ok, json),
};

ticks.onUncaught(fail);

const enter = (kind, first, second, third) => {
  try {
    ticks.runSlice(() => entries[kind](first, second, third));
  } catch (thrown) {
    try {
      fail(thrown);
    } catch {
      finish(false, '{"code":"THROWN","message":"Unknown error"}');
    }
  }
};

// What the script of the prelude evaluates to: takes the way out of the isolate, and returns the way in.
module.exports = (hostFunction, slowHost) => {
  host.connect(hostFunction, slowHost);
  require('./globals.cjs').install();
  return enter;
};
