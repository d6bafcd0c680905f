// util.inspect and util.format: Node's own code, as the package node-inspect-extracted has it.
'use strict';

const { defineProperty } = require('./primordials.cjs');

/** The package copies the methods of all built-in objects when it is loaded, Atomics among them, which is not there. */
const loadWithAtomics = () => {
  const known = Object.getOwnPropertyDescriptor(globalThis, 'Atomics');
  defineProperty(globalThis, 'Atomics', { __proto__: null, value: {}, configurable: true });
  try {
    return require('library/inspect');
  } finally {
    if (known === undefined) delete globalThis.Atomics;
    else defineProperty(globalThis, 'Atomics', known);
  }
};

const { inspect, format, formatWithOptions, getStringWidth, stripVTControlCharacters } = loadWithAtomics();

// The box that console.table draws.

const VALUES = 'Values';
const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

const show = (value) =>
  inspect(value, {
    maxArrayLength: 3,
    breakLength: Infinity,
    depth: isObject(value) && !Array.isArray(value) ? -1 : 0,
  });

const rowsOf = (data) => {
  if (data instanceof Map)
    return { head: '(iteration index)', rows: [...data].map(([Key, Values], i) => [`${i}`, { Key, Values }]) };
  return data instanceof Set
    ? { head: '(iteration index)', rows: [...data].map((value, i) => [`${i}`, value]) }
    : { head: '(index)', rows: Object.keys(data).map((key) => [key, data[key]]) };
};

const drawTable = (data, wanted) => {
  const { head, rows } = rowsOf(data);
  const names = [];
  let hasValues = false;
  const cells = rows.map(([index, row]) => {
    const shown = new Map();
    if (!isObject(row)) {
      hasValues = true;
      shown.set(VALUES, show(row));
    } else {
      for (const name of wanted ?? Object.keys(row)) {
        if (!names.includes(name)) names.push(name);
        if (Object.hasOwn(row, name)) shown.set(name, show(row[name]));
      }
    }
    return [index, shown];
  });
  const heads = hasValues ? [...names, VALUES] : names;
  return draw(
    [head, ...heads],
    cells.map(([index, shown]) => [index, ...heads.map((name) => shown.get(name) ?? '')]),
  );
};

const draw = (heads, rows) => {
  const widths = heads.map(
    (head, i) => Math.max(getStringWidth(head), ...rows.map((row) => getStringWidth(row[i]))) + 2,
  );
  const line = (left, middle, right) => left + widths.map((width) => '\u2500'.repeat(width)).join(middle) + right;
  const fill = (row) =>
    `\u2502${row.map((cell, i) => ` ${cell}${' '.repeat(widths[i] - getStringWidth(cell) - 1)}`).join('\u2502')}\u2502`;
  return [
    line('\u250C', '\u252C', '\u2510'),
    fill(heads),
    line('\u251C', '\u253C', '\u2524'),
    ...rows.map(fill),
    line('\u2514', '\u2534', '\u2518'),
  ].join('\n');
};

module.exports = { drawTable, inspect, format, formatWithOptions, getStringWidth, stripVTControlCharacters };
