// process as code expects to find it. It says nothing of the real one, and can end nothing.
'use strict';

const { freeze, now } = require('./primordials.cjs');
const ticks = require('./ticks.cjs');
const { checkFunction } = require('./errors.cjs');

const startedAt = now();

const hrtime = (previous) => {
  const elapsed = now() - startedAt;
  const time = [Math.floor(elapsed / 1000), (elapsed % 1000) * 1_000_000];
  if (previous === undefined) return time;
  const difference = [time[0] - previous[0], time[1] - previous[1]];
  return difference[1] < 0 ? [difference[0] - 1, difference[1] + 1_000_000_000] : difference;
};

hrtime.bigint = () => BigInt(now() - startedAt) * 1000000n;
const nothing = () => process;

const refuse = (name) => () => {
  throw new Error(`process.${name} is not available here`);
};

const process = {
  title: 'node',
  version: 'v16.20.2',
  versions: freeze({ node: '16.20.2', v8: '9.4.146.26-node.26', uv: '1.43.0', modules: '93' }),
  release: freeze({ name: 'node', lts: 'Gallium' }),
  platform: 'linux',
  arch: 'x64',
  pid: 1,
  ppid: 0,
  argv: [],
  argv0: 'node',
  execArgv: [],
  execPath: '/node',
  env: freeze({ NODE_ENV: 'production' }),
  exitCode: undefined,
  features: freeze({}),
  config: freeze({ variables: freeze({}) }),
  nextTick(callback, ...args) {
    checkFunction(callback);
    ticks.nextTick(callback, args);
  },
  hrtime,
  uptime: () => (now() - startedAt) / 1000,
  cwd: () => '/',
  umask: () => 0o22,
  memoryUsage: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }),
  cpuUsage: () => ({ user: 0, system: 0 }),
  emitWarning: (warning) => require('./console.cjs').console.warn(`${warning}`),
  on: nothing,
  once: nothing,
  off: nothing,
  addListener: nothing,
  removeListener: nothing,
  removeAllListeners: nothing,
  prependListener: nothing,
  emit: () => false,
  listeners: () => [],
  listenerCount: () => 0,
  exit: refuse('exit'),
  abort: refuse('abort'),
  kill: refuse('kill'),
  chdir: refuse('chdir'),
  binding: refuse('binding'),
  get stdout() {
    return require('./console.cjs').stdout;
  },
  get stderr() {
    return require('./console.cjs').stderr;
  },
  [Symbol.toStringTag]: 'process',
};

module.exports = process;
