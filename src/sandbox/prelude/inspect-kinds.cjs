// How each kind of object is shown: its head, its braces and its entries. Knows nothing of width and depth.
'use strict';

const types = require('./types.cjs');
const { quote, showNumber } = require('./inspect-primitives.cjs');

const bare = () => {
  const braces = ['{', '}'];
  braces.isBare = true;
  return braces;
};

const moreItems = (count) => `... ${count} more item${count > 1 ? 's' : ''}`;

const planArray = (ctx, value, name, tag, tools) => ({
  braces: [`${name === 'Array' && tag === '' ? '' : tools.prefixOf(name, tag, 'Array', `(${value.length})`)}[`, ']'],
  count: value.length,
  isArrayLike: true,
  keys: tools.keysOf(ctx, value).filter((key) => !tools.isIndex(key) && (ctx.showHidden || key !== 'length')),
  entries: (depth) => showElements(ctx, value, depth, tools),
});

const showElements = (ctx, value, depth, tools) => {
  const shown = [];
  const limit = Math.min(Math.max(0, ctx.maxArrayLength), value.length);
  let i = 0;
  for (; i < value.length && shown.length < limit; i++) {
    if (Object.hasOwn(value, i)) {
      shown.push(tools.showProperty(ctx, value, depth, `${i}`, 'element'));
      continue;
    }
    const next = nextIndex(value, i);
    const holes = next - i;
    shown.push(ctx.stylize(`<${holes} empty item${holes > 1 ? 's' : ''}>`, 'undefined'));
    i = next - 1;
  }
  if (i < value.length) shown.push(moreItems(value.length - i));
  return shown;
};

const nextIndex = (value, from) => {
  for (const key of Object.keys(value)) {
    if (Number(key) > from) return Number(key);
  }
  return value.length;
};

const planTyped = (ctx, value, name, tag, tools) => {
  const kind = Object.prototype.toString.call(value).slice(8, -1);
  const fallback = types.isTypedArray(value) ? kind : 'TypedArray';
  return {
    braces: [`${tools.prefixOf(name, tag, fallback, `(${value.length})`)}[`, ']'],
    count: value.length,
    isArrayLike: true,
    keys: tools.keysOf(ctx, value).filter((key) => !tools.isIndex(key)),
    entries: () => {
      const limit = Math.min(Math.max(0, ctx.maxArrayLength), value.length);
      const shown = [];
      for (let i = 0; i < limit; i++) {
        const isBig = typeof value[i] === 'bigint';
        shown.push(ctx.stylize(isBig ? `${value[i]}n` : showNumber(value[i]), isBig ? 'bigint' : 'number'));
      }
      if (value.length > limit) shown.push(moreItems(value.length - limit));
      return shown;
    },
  };
};

const limited = (ctx, items) => {
  const limit = Math.min(Math.max(0, ctx.maxArrayLength), items.length);
  return { shown: items.slice(0, limit), more: items.length > limit ? [moreItems(items.length - limit)] : [] };
};

const indented = (ctx, show) => {
  ctx.indentation += 2;
  const shown = show();
  ctx.indentation -= 2;
  return shown;
};

const planSet = (ctx, value, name, tag, tools) => ({
  braces: [`${tools.prefixOf(name, tag, 'Set', `(${value.size})`)}{`, '}'],
  count: value.size,
  keys: tools.keysOf(ctx, value),
  entries: (depth) =>
    indented(ctx, () => {
      const { shown, more } = limited(ctx, [...Set.prototype.values.call(value)]);
      return [...shown.map((item) => tools.showValue(ctx, item, depth)), ...more];
    }),
});

const planMap = (ctx, value, name, tag, tools) => ({
  braces: [`${tools.prefixOf(name, tag, 'Map', `(${value.size})`)}{`, '}'],
  count: value.size,
  keys: tools.keysOf(ctx, value),
  entries: (depth) =>
    indented(ctx, () => {
      const { shown, more } = limited(ctx, [...Map.prototype.entries.call(value)]);
      const show = ([key, item]) => `${tools.showValue(ctx, key, depth)} => ${tools.showValue(ctx, item, depth)}`;
      return [...shown.map(show), ...more];
    }),
});

const planFunction = (ctx, value, name, tag, tools) => {
  let base = functionBase(value, name, tag);
  const keys = tools
    .keysOf(ctx, value)
    .filter((key) => !ctx.showHidden || !['length', 'name', 'prototype'].includes(key));
  return keys.length === 0 ? { text: ctx.stylize(base, 'special') } : { base, braces: bare(), keys };
};

const functionBase = (value, name, tag) => {
  const source = Function.prototype.toString.call(value);
  if (source.startsWith('class') && source.endsWith('}')) return classBase(value, name, tag);
  const kind = `${types.isAsyncFunction(value) ? 'Async' : ''}${types.isGeneratorFunction(value) ? 'Generator' : ''}Function`;
  const title = name === null ? `${kind} (null prototype)` : kind;
  const own = value.name === '' ? ' (anonymous)' : `: ${value.name}`;
  const suffix = `${name !== kind && name !== null ? ` ${name}` : ''}${tag !== '' && name !== tag ? ` [${tag}]` : ''}`;
  return `[${title}${own}]${suffix}`;
};

const classBase = (value, name, tag) => {
  let base = `class ${Object.hasOwn(value, 'name') && value.name ? value.name : '(anonymous)'}`;
  if (name !== 'Function' && name !== null) base += ` [${name}]`;
  if (tag !== '' && name !== tag) base += ` [${tag}]`;
  if (name === null) base += ' extends [null prototype]';
  else {
    const parent = Object.getPrototypeOf(value).name;
    if (parent) base += ` extends ${parent}`;
  }
  return `[${base}]`;
};

const planError = (ctx, value, name, tag, tools) => {
  const keys = tools.keysOf(ctx, value).filter((key) => !ctx.showHidden || !['name', 'message', 'stack'].includes(key));
  let stack;
  try {
    stack = value.stack ? String(value.stack) : Error.prototype.toString.call(value);
  } catch {
    stack = '[object Error]';
  }
  const isShown = (key) => stack.includes(`${value[key]}`);
  const own = keys.filter((key) => !(['name', 'message', 'stack'].includes(key) && isShown(key)));
  for (const hidden of ['cause', 'errors']) {
    if (Object.hasOwn(value, hidden) && !own.includes(hidden) && (hidden === 'cause' || Array.isArray(value.errors)))
      own.push(hidden);
  }
  const text = indentLines(ctx, bracket(improveStack(stack, value, name)));
  return own.length === 0 ? { text } : { base: text, braces: bare(), keys: own };
};

const improveStack = (stack, value, name) => {
  const shown = typeof value.name === 'string' ? value.name : 'Error';
  return !(name === null || !/^[A-Z]/.test(name) || stack.startsWith(name) || shown.includes(name)) &&
    shown.endsWith('Error') &&
    stack.startsWith(shown)
    ? name + stack.slice(shown.length)
    : stack;
};

const bracket = (stack) => (stack.indexOf('\n    at') === -1 ? `[${stack}]` : stack);

const indentLines = (ctx, text) =>
  ctx.indentation === 0 ? text : text.split('\n').join(`\n${' '.repeat(ctx.indentation)}`);

const planBoxed = (ctx, value, name, tag, tools) => {
  const kind = ['Number', 'String', 'Boolean', 'BigInt', 'Symbol'].find((each) => types[`is${each}Object`](value));
  const inner = { Number, String, Boolean, BigInt, Symbol }[kind].prototype.valueOf.call(value);
  let base = `[${kind}`;
  if (kind !== name) base += name === null ? ' (null prototype)' : ` (${name})`;
  base += `: ${typeof inner === 'string' ? quote(inner) : typeof inner === 'bigint' ? `${inner}n` : typeof inner === 'number' ? showNumber(inner) : String(inner)}]`;
  if (tag !== '' && tag !== name) base += ` [${tag}]`;
  const keys = tools.keysOf(ctx, value).filter((key) => kind !== 'String' || (!tools.isIndex(key) && key !== 'length'));
  return keys.length === 0 ? { text: ctx.stylize(base, kind.toLowerCase()) } : { base, braces: bare(), keys };
};

const planWithBase = (ctx, value, tools, base, style) => {
  const keys = tools.keysOf(ctx, value).filter((key) => key !== 'lastIndex');
  return keys.length === 0 ? { text: ctx.stylize(base, style) } : { base, braces: bare(), keys };
};

const planDate = (ctx, value, name, tag, tools) => {
  const time = Date.prototype.getTime.call(value);
  const text = Number.isNaN(time) ? Date.prototype.toString.call(value) : Date.prototype.toISOString.call(value);
  const label = tools.prefixOf(name, tag, 'Date');
  return planWithBase(ctx, value, tools, label === 'Date ' ? text : `${label}${text}`, 'date');
};

const planRegExp = (ctx, value, name, tag, tools) => {
  const label = tools.prefixOf(name, tag, 'RegExp');
  const text = RegExp.prototype.toString.call(value);
  return planWithBase(ctx, value, tools, label === 'RegExp ' ? text : `${label}${text}`, 'regexp');
};

const BYTES_SHOWN_MAX = 50;

const planArrayBuffer = (ctx, value, name, tag, tools) => {
  const bytes = new Uint8Array(value);
  const shown = [...bytes.subarray(0, Math.min(BYTES_SHOWN_MAX, ctx.maxArrayLength))].map((byte) =>
    byte.toString(16).padStart(2, '0'),
  );
  const left = bytes.length - shown.length;
  const text = `${shown.join(' ')}${left > 0 ? ` ... ${left} more byte${left > 1 ? 's' : ''}` : ''}`;
  return {
    braces: [`${tools.prefixOf(name, tag, 'ArrayBuffer')}{`, '}'],
    keys: tools.keysOf(ctx, value),
    entries: () => [
      `${ctx.stylize('[Uint8Contents]', 'special')}: <${text}>`,
      `byteLength: ${ctx.stylize(`${bytes.length}`, 'number')}`,
    ],
  };
};

const planDataView = (ctx, value, name, tag, tools) => ({
  braces: [`${tools.prefixOf(name, tag, 'DataView')}{`, '}'],
  keys: tools.keysOf(ctx, value),
  entries: (depth) => [
    `byteLength: ${ctx.stylize(`${value.byteLength}`, 'number')}`,
    `byteOffset: ${ctx.stylize(`${value.byteOffset}`, 'number')}`,
    `buffer: ${tools.showValue(ctx, value.buffer, depth)}`,
  ],
});

const planOpaque = (ctx, value, name, tag, tools, kind, text) => ({
  braces: [`${tools.prefixOf(name, tag, kind)}{`, '}'],
  keys: tools.keysOf(ctx, value),
  entries: () => [ctx.stylize(text, 'special')],
});

const planIterator = (ctx, value, tag, tools) => ({
  braces: [`[${tag}] {`, '}'],
  keys: tools.keysOf(ctx, value),
  entries: () => [],
});

const planPlain = (ctx, value, name, tag, tools) => {
  const keys = tools.keysOf(ctx, value);
  if (types.isArgumentsObject(value)) return { braces: ['[Arguments] {', '}'], count: 0, keys };
  return {
    braces: [`${name === 'Object' && tag === '' ? '' : tools.prefixOf(name, tag, 'Object')}{`, '}'],
    count: 0,
    keys,
  };
};

exports.planKind = (ctx, value, name, tag, tools) => {
  if (typeof value === 'function') return planFunction(ctx, value, name, tag, tools);
  if (Array.isArray(value)) return planArray(ctx, value, name, tag, tools);
  if (types.isSet(value)) return planSet(ctx, value, name, tag, tools);
  if (types.isMap(value)) return planMap(ctx, value, name, tag, tools);
  if (types.isTypedArray(value)) return planTyped(ctx, value, name, tag, tools);
  if (types.isMapIterator(value)) return planIterator(ctx, value, 'Map Iterator', tools);
  if (types.isSetIterator(value)) return planIterator(ctx, value, 'Set Iterator', tools);
  if (types.isNativeError(value) || value instanceof Error) return planError(ctx, value, name, tag, tools);
  if (types.isDate(value)) return planDate(ctx, value, name, tag, tools);
  if (types.isRegExp(value)) return planRegExp(ctx, value, name, tag, tools);
  if (types.isArrayBuffer(value)) return planArrayBuffer(ctx, value, name, tag, tools);
  if (types.isDataView(value)) return planDataView(ctx, value, name, tag, tools);
  if (types.isPromise(value)) return planOpaque(ctx, value, name, tag, tools, 'Promise', '<pending>');
  if (types.isWeakSet(value)) return planOpaque(ctx, value, name, tag, tools, 'WeakSet', '<items unknown>');
  if (types.isWeakMap(value)) return planOpaque(ctx, value, name, tag, tools, 'WeakMap', '<items unknown>');
  return types.isBoxedPrimitive(value)
    ? planBoxed(ctx, value, name, tag, tools)
    : planPlain(ctx, value, name, tag, tools);
};
