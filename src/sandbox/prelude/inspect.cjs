// util.inspect: Node's output for the same options, byte for byte where test/programs looks.
'use strict';

const { widthOf } = require('./text-width.cjs');
const { quote, showNumber, showPrimitive } = require('./inspect-primitives.cjs');
const types = require('./types.cjs');

const custom = Symbol.for('nodejs.util.inspect.custom');

const defaultOptions = {
  showHidden: false,
  depth: 2,
  colors: false,
  customInspect: true,
  showProxy: false,
  maxArrayLength: 100,
  maxStringLength: 10_000,
  breakLength: 80,
  compact: 3,
  sorted: false,
  getters: false,
  numericSeparator: false,
};

const inspectionColors = {
  bold: [1, 22],
  italic: [3, 23],
  underline: [4, 24],
  inverse: [7, 27],
  white: [37, 39],
  grey: [90, 39],
  gray: [90, 39],
  black: [30, 39],
  blue: [34, 39],
  cyan: [36, 39],
  green: [32, 39],
  magenta: [35, 39],
  red: [31, 39],
  yellow: [33, 39],
};

const styles = {
  special: 'cyan',
  number: 'yellow',
  bigint: 'yellow',
  boolean: 'yellow',
  undefined: 'grey',
  null: 'bold',
  string: 'green',
  symbol: 'green',
  date: 'magenta',
  regexp: 'red',
  module: 'underline',
};

const paint = (text, kind) => {
  const color = inspectionColors[styles[kind]];
  return color === undefined ? text : `\x1B[${color[0]}m${text}\x1B[${color[1]}m`;
};

const plain = (text) => text;

const makeContext = (options) => {
  const ctx = { ...defaultOptions, budget: {}, indentation: 0, level: 0, seen: [], circular: undefined };
  if (typeof options === 'object' && options !== null) {
    for (const name of Object.keys(options)) ctx[name] = options[name];
  }
  ctx.stylize = ctx.colors ? paint : plain;
  if (ctx.maxArrayLength === null) ctx.maxArrayLength = Infinity;
  if (ctx.maxStringLength === null) ctx.maxStringLength = Infinity;
  return ctx;
};

const inspect = (value, options, depth, colors) => {
  const given =
    typeof options === 'boolean'
      ? { showHidden: options, ...(depth === undefined ? {} : { depth }), ...(colors === undefined ? {} : { colors }) }
      : options;
  return showValue(makeContext(given), value, 0, true);
};

const publicOptions = (ctx, depth) => {
  const options = { ...ctx, depth, stylize: ctx.stylize };
  for (const inner of ['budget', 'indentation', 'level', 'seen', 'circular']) delete options[inner];
  return options;
};

const showCustom = (ctx, value, depth, maybeCustom) => {
  const left = ctx.depth === null ? null : ctx.depth - depth;
  let shown = maybeCustom.call(value, left, publicOptions(ctx, left), inspect);
  if (shown !== value)
    return typeof shown !== 'object' || shown === null
      ? `${String(shown)}`.replaceAll('\n', `\n${' '.repeat(ctx.indentation)}`)
      : showValue(ctx, shown, depth);
};

const showValue = (ctx, value, depth, isTop = false) => {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null)
    return showPrimitive(ctx, value, isTop);
  if (ctx.customInspect) {
    const maybeCustom = value[custom];
    const isOwn = maybeCustom === inspect || value.constructor?.prototype === value;
    if (typeof maybeCustom === 'function' && !isOwn) {
      let shown = showCustom(ctx, value, depth, maybeCustom);
      if (shown !== undefined) return shown;
    }
  }
  if (ctx.seen.includes(value)) {
    ctx.circular ??= new Map();
    if (!ctx.circular.has(value)) ctx.circular.set(value, ctx.circular.size + 1);
    return ctx.stylize(`[Circular *${ctx.circular.get(value)}]`, 'special');
  }
  return showObject(ctx, value, depth);
};

const constructorNameOf = (value) => {
  for (let proto = value; proto !== null; proto = Object.getPrototypeOf(proto)) {
    const maker = Object.getOwnPropertyDescriptor(proto, 'constructor')?.value;
    if (typeof maker === 'function' && maker.name !== '' && isInstance(value, maker)) return `${maker.name}`;
  }
  return null;
};

const isInstance = (value, maker) => {
  try {
    return value instanceof maker;
  } catch {
    return false;
  }
};

const prefixOf = (name, tag, fallback, size = '') => {
  const label = name === null ? `[${fallback}${size}: null prototype] ` : `${name}${size} `;
  return tag !== '' && name !== tag ? `${label}[${tag}] ` : label;
};

const keysOf = (ctx, value) => {
  const names = ctx.showHidden ? Object.getOwnPropertyNames(value) : Object.keys(value);
  const symbols = Object.getOwnPropertySymbols(value);
  let shown = ctx.showHidden
    ? symbols
    : symbols.filter((symbol) => Object.prototype.propertyIsEnumerable.call(value, symbol));
  return shown.length === 0 ? names : [...names, ...shown];
};

const isIndex = (key) => typeof key === 'string' && /^(0|[1-9]\d{0,9})$/.test(key) && Number(key) < 2 ** 32 - 1;

const tagOf = (ctx, value, name) => {
  let tag;
  try {
    tag = value[Symbol.toStringTag];
  } catch {
    return '';
  }
  if (
    typeof tag !== 'string' ||
    tag === '' ||
    tag === name ||
    (ctx.showHidden
      ? Object.hasOwn(value, Symbol.toStringTag)
      : Object.prototype.propertyIsEnumerable.call(value, Symbol.toStringTag))
  )
    return '';
  return tag;
};

const plan = (ctx, value) => {
  const name = constructorNameOf(value);
  let tag = tagOf(ctx, value, name);
  return require('./inspect-kinds.cjs').planKind(ctx, value, name, tag, {
    keysOf,
    isIndex,
    prefixOf,
    showValue,
    showProperty,
  });
};

const showObject = (ctx, value, depth) => {
  const planned = plan(ctx, value);
  if (planned.text !== undefined) return planned.text;
  const { keys, entries = () => [], braces, isArrayLike = false } = planned;
  if (keys.length === 0 && planned.count === 0) return `${braces[0]}${braces[1]}`;
  let { base = '' } = planned;
  if (ctx.depth !== null && depth > ctx.depth) {
    const name = constructorNameOf(value);
    const label = prefixOf(name, tagOf(ctx, value, name), Array.isArray(value) ? 'Array' : 'Object').slice(0, -1);
    return ctx.stylize(`[${name === null ? label.replace(/^\[|\]$/g, '').replace(/^(.*)$/, '$1') : label}]`, 'special');
  }
  ctx.seen.push(value);
  ctx.level = depth;
  const inner = depth + 1;
  const output = entries(inner);
  for (const key of keys) output.push(showProperty(ctx, value, inner, key, isArrayLike ? 'extra' : 'object'));
  ctx.seen.pop();
  if (ctx.circular?.has(value)) {
    const reference = ctx.stylize(`<ref *${ctx.circular.get(value)}>`, 'special');
    if (ctx.compact !== true) base = base === '' ? reference : `${reference} ${base}`;
    else braces[0] = `${reference} ${braces[0]}`;
  }
  if (ctx.sorted) sortEntries(ctx, output, keys.length, isArrayLike);
  return joinEntries(ctx, output, base, braces, isArrayLike, depth, value);
};

const sortEntries = (ctx, output, keyCount, isArrayLike) => {
  const compare = ctx.sorted === true ? undefined : ctx.sorted;
  if (isArrayLike) {
    if (keyCount > 1) output.splice(output.length - keyCount, keyCount, ...output.slice(-keyCount).sort(compare));
  } else output.sort(compare);
};

const KEY = /^[a-zA-Z_][a-zA-Z_0-9]*$/;

const showKey = (ctx, key, isEnumerable) => {
  if (typeof key === 'symbol') return `[${ctx.stylize(showPrimitive({ stylize: plain }, key), 'symbol')}]`;
  if (key === '__proto__') return "['__proto__']";
  if (isEnumerable) return KEY.test(key) ? ctx.stylize(key, 'name') : ctx.stylize(quote(key), 'string');
  return `[${key}]`;
};

const showAccessor = (ctx, descriptor, value, depth) => {
  const label = descriptor.set === undefined ? 'Getter' : 'Getter/Setter';
  if (
    !(
      ctx.getters === true ||
      (ctx.getters === 'get' && descriptor.set === undefined) ||
      (ctx.getters === 'set' && descriptor.set !== undefined)
    )
  )
    return ctx.stylize(`[${label}]`, 'special');
  try {
    const got = descriptor.get.call(value);
    ctx.indentation += 2;
    let shown = showValue(ctx, got, depth);
    ctx.indentation -= 2;
    return got === null || typeof got !== 'object'
      ? `${ctx.stylize(`[${label}:`, 'special')} ${shown}${ctx.stylize(']', 'special')}`
      : `${ctx.stylize(`[${label}]`, 'special')} ${shown}`;
  } catch (error) {
    return ctx.stylize(`[${label}: <Inspection threw (${error?.message})>]`, 'special');
  }
};

const showProperty = (ctx, value, depth, key, place) => {
  const descriptor = Object.getOwnPropertyDescriptor(value, key) ?? { value: value[key], enumerable: true };
  let shown;
  let gap = ' ';
  if (descriptor.get !== undefined) shown = showAccessor(ctx, descriptor, value, depth);
  else if (descriptor.set !== undefined) shown = ctx.stylize('[Setter]', 'special');
  else if (!('value' in descriptor)) shown = ctx.stylize('undefined', 'undefined');
  else {
    const indent = ctx.compact !== true || place !== 'object' ? 2 : 3;
    ctx.indentation += indent;
    shown = showValue(ctx, descriptor.value, depth);
    if (indent === 3 && ctx.breakLength < widthOf(shown)) gap = `\n${' '.repeat(ctx.indentation)}`;
    ctx.indentation -= indent;
  }
  return place === 'element' ? shown : `${showKey(ctx, key, descriptor.enumerable)}:${gap}${shown}`;
};

const joinEntries = (ctx, output, base, braces, isArrayLike, depth, value) => {
  let lines = output;
  const before = base === '' ? '' : `${base} `;
  if (lines.length === 0 && !braces.keepSpaces)
    return braces[0] === '' || braces.isBare ? base : `${before}${braces[0]}${braces[1]}`;
  const newLine = `\n${' '.repeat(ctx.indentation)}`;
  if (ctx.compact !== true) {
    if (typeof ctx.compact === 'number' && ctx.compact >= 1) {
      const count = lines.length;
      if (isArrayLike && count > 6) lines = groupElements(ctx, lines, value);
      if (ctx.level - depth < ctx.compact && count === lines.length) {
        const start = lines.length + ctx.indentation + braces[0].length + base.length + 10;
        if (fitsOnLine(ctx, lines, start, base)) {
          const joined = lines.join(', ');
          if (!joined.includes('\n')) return `${before}${braces[0]} ${joined} ${braces[1]}`;
        }
      }
    }
    return `${before}${braces[0]}${newLine}  ${lines.join(`,${newLine}  `)}${newLine}${braces[1]}`;
  }
  if (fitsOnLine(ctx, lines, 0, base))
    return `${braces[0]}${base === '' ? '' : ` ${base}`} ${lines.join(', ')} ${braces[1]}`;
  const first = base === '' && braces[0].length === 1 ? ' ' : `${base === '' ? '' : ` ${base}`}${newLine}  `;
  return `${braces[0]}${first}${lines.join(`,${newLine}  `)} ${braces[1]}`;
};

const fitsOnLine = (ctx, lines, start, base) => {
  let total = lines.length + start;
  if (total + lines.length > ctx.breakLength) return false;
  for (const line of lines) {
    total += ctx.colors ? widthOf(line) : line.length;
    if (total > ctx.breakLength) return false;
  }
  return base === '' || !base.includes('\n');
};

const groupElements = (ctx, lines, value) => {
  const hasMore = ctx.maxArrayLength < lines.length;
  const count = hasMore ? lines.length - 1 : lines.length;
  let gap = 2;
  const widths = [];
  let total = 0;
  let widest = 0;
  for (let i = 0; i < count; i++) {
    widths[i] = widthOf(lines[i]);
    total += widths[i] + gap;
    widest = Math.max(widest, widths[i]);
  }
  const cell = widest + gap;
  if (cell * 3 + ctx.indentation >= ctx.breakLength || !(total / cell > 5 || widest <= 6)) return lines;
  const typical = Math.max(cell - 3 - Math.sqrt(cell - total / lines.length), 1);
  const columns = Math.min(
    Math.round(Math.sqrt(2.5 * typical * count) / typical),
    Math.floor((ctx.breakLength - ctx.indentation) / cell),
    ctx.compact * 4,
    15,
  );
  if (columns <= 1) return lines;
  const columnWidths = [];
  for (let column = 0; column < columns; column++) {
    let width = 0;
    for (let i = column; i < count; i += columns) width = Math.max(width, widths[i]);
    columnWidths[column] = width + gap;
  }
  const isNumeric = value === undefined || isAllNumbers(value, lines.length);
  const rows = [];
  for (let i = 0; i < count; i += columns) {
    const last = Math.min(i + columns, count) - 1;
    let row = '';
    for (let j = i; j <= last; j++) {
      let width = columnWidths[j - i] + lines[j].length - widths[j];
      if (j < last) row += isNumeric ? `${lines[j]}, `.padStart(width) : `${lines[j]}, `.padEnd(width);
      else row += isNumeric ? lines[j].padStart(width - gap) : lines[j];
    }
    rows.push(row);
  }
  if (hasMore) rows.push(lines[count]);
  return rows;
};

const isAllNumbers = (value, length) => {
  for (let i = 0; i < length; i++) {
    if (typeof value[i] !== 'number' && typeof value[i] !== 'bigint') return false;
  }
  return true;
};

inspect.custom = custom;
inspect.defaultOptions = defaultOptions;
inspect.colors = inspectionColors;
inspect.styles = styles;
module.exports = { inspect, types, showNumber };
