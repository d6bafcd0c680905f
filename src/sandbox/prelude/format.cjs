// util.format and what console does with its arguments.
'use strict';

const { inspect, showNumber } = require('./inspect.cjs');

const hasOwnText = (value) => {
  if (typeof value.toString !== 'function') return false;
  let holder = value;
  while (holder !== null && !Object.hasOwn(holder, 'toString')) holder = Object.getPrototypeOf(holder);
  return holder === value || !isBuiltIn(holder?.constructor);
};

const isBuiltIn = (constructor) => typeof constructor === 'function' && globalThis[constructor.name] === constructor;

const asString = (value, options) => {
  if (typeof value === 'number') return showNumber(value);
  if (typeof value === 'bigint') return `${value}n`;
  return typeof value !== 'object' || value === null || hasOwnText(value)
    ? String(value)
    : inspect(value, { ...options, depth: 0, colors: false, compact: 3 });
};

const asNumber = (convert) => (value) =>
  typeof value === 'bigint' ? `${value}n` : showNumber(typeof value === 'symbol' ? NaN : convert(value));

const asJson = (value) => {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof TypeError && /circular/i.test(error.message)) return '[Circular]';
    throw error;
  }
};

const placeholders = {
  s: asString,
  d: asNumber(Number),
  i: asNumber((value) => Number.parseInt(value)),
  f: (value) => (typeof value === 'symbol' ? 'NaN' : showNumber(Number.parseFloat(value))),
  j: asJson,
  o: (value, options) => inspect(value, { ...options, showHidden: true, showProxy: true, depth: 4 }),
  O: (value, options) => inspect(value, options),
  c: () => '',
};

const formatAll = (args, options = {}) => {
  const [first] = args;
  if (args.length === 1 && typeof first === 'string') return first;
  let text = '';
  let used = 0;
  if (typeof first === 'string') {
    used = 1;
    text = first.replace(/%([sdifjoOc%])/g, (whole, kind) => {
      if (kind === '%') return '%';
      return used >= args.length ? whole : placeholders[kind](args[used++], options);
    });
  }
  for (let i = used; i < args.length; i++) {
    const gap = i > 0 ? ' ' : '';
    text += gap + (typeof args[i] === 'string' ? args[i] : inspect(args[i], options));
  }
  return text;
};

const format = (...args) => formatAll(args);
const formatWithOptions = (options, ...args) => formatAll(args, options);

module.exports = { format, formatAll, formatWithOptions };
