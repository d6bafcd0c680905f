// console and the two streams of process: formatted as Node does, handed out line by line, kept nowhere.
'use strict';

const { now } = require('./primordials.cjs');
const host = require('./host.cjs');

/** Plain texts need no formatting, whose library is large. */
const format = (args) => {
  let text = '';
  for (let i = 0; i < args.length; i++) {
    if (typeof args[i] !== 'string' || (i === 0 && args.length > 1 && args[i].includes('%')))
      return require('./inspect.cjs').format(...args);
    text += i === 0 ? args[i] : ` ${args[i]}`;
  }
  return text;
};
let indentation = '';

const write = (level, text) => {
  const lines = indentation === '' ? text : indentation + text.replaceAll('\n', `\n${indentation}`);
  host.log(level, host.clipLog(lines));
};

const logAt =
  (level) =>
  (...args) =>
    write(level, format(args));

const warn = logAt('warn');
const counts = new Map();
const timers = new Map();

const elapsed = (label) => {
  const startedAt = timers.get(`${label}`);
  if (startedAt === undefined) {
    warn(`Warning: No such label '${label}' for console.time()`);
    return;
  }
  return `${label}: ${now() - startedAt}ms`;
};

const console = {
  log: logAt('log'),
  info: logAt('info'),
  debug: logAt('debug'),
  warn,
  error: logAt('error'),
  trace(...args) {
    const { stack = '' } = new Error('Trace');
    const frames = stack.split('\n').slice(2).join('\n');
    write('error', `Trace${args.length > 0 ? ': ' : ''}${format(args)}\n${frames}`);
  },
  dir(value, options) {
    write('log', require('./inspect.cjs').inspect(value, { customInspect: false, ...options }));
  },
  assert(condition, ...args) {
    if (!condition) {
      if (typeof args[0] === 'string') args[0] = `Assertion failed: ${args[0]}`;
      else args.unshift('Assertion failed');
      warn(...args);
    }
  },
  table(data, columns) {
    if (data === null || typeof data !== 'object') console.log(data);
    else write('log', require('./inspect.cjs').drawTable(data, columns));
  },
  group(...args) {
    if (args.length > 0) console.log(...args);
    indentation += '  ';
  },
  groupEnd() {
    indentation = indentation.slice(2);
  },
  count(label = 'default') {
    const count = (counts.get(`${label}`) ?? 0) + 1;
    counts.set(`${label}`, count);
    console.log(`${label}: ${count}`);
  },
  countReset(label = 'default') {
    counts.delete(`${label}`);
  },
  time(label = 'default') {
    timers.set(`${label}`, now());
  },
  timeLog(label = 'default', ...args) {
    const text = elapsed(label);
    if (text !== undefined) console.log(text, ...args);
  },
  timeEnd(label = 'default') {
    const text = elapsed(label);
    timers.delete(`${label}`);
    if (text !== undefined) console.log(text);
  },
  clear() {},
};

console.dirxml = console.log;
console.groupCollapsed = console.group;

const stream = (level) => ({
  isTTY: false,
  columns: 80,
  writable: true,
  write(text) {
    write(level, `${text}`.replace(/\n$/, ''));
    return true;
  },
  end() {},
  on() {
    return this;
  },
  once() {
    return this;
  },
});

exports.console = console;
exports.stdout = stream('log');
exports.stderr = stream('error');
