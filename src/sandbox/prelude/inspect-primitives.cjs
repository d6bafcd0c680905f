// How primitives and property names are shown, with Node's choice of quotes.
'use strict';

const SHORT = { '\b': '\\b', '\t': '\\t', '\n': '\\n', '\f': '\\f', '\r': '\\r', '\\': '\\\\' };
const escapeChar = (char) => SHORT[char] ?? `\\x${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
// oxlint-disable-next-line no-control-regex
const ESCAPED = /[\u0000-\u001F\u007F-\u009F\\]/g;
const LONELY = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;

const quote = (text) => {
  let mark = "'";
  if (text.includes("'")) {
    if (text.includes('"')) {
      if (!text.includes('`') && !text.includes('${')) mark = '`';
    } else mark = '"';
  }
  let body = text.replace(ESCAPED, escapeChar);
  if (mark === "'") body = body.replaceAll("'", "\\'");
  body = body.replace(LONELY, (unit) => `\\u${unit.charCodeAt(0).toString(16).toUpperCase()}`);
  return mark + body + mark;
};

const showNumber = (value) => (Object.is(value, -0) ? '-0' : `${value}`);
const LINE_MIN = 16;

const showString = (ctx, value, isTop) => {
  let text = value;
  let rest = '';
  if (text.length > ctx.maxStringLength) {
    const left = text.length - ctx.maxStringLength;
    text = text.slice(0, ctx.maxStringLength);
    rest = `... ${left} more character${left > 1 ? 's' : ''}`;
  }
  const isLong = text.length > LINE_MIN && text.length > ctx.breakLength - ctx.indentation - 4;
  if (!isTop && ctx.compact !== true && isLong)
    return (
      text
        .split(/(?<=\n)/)
        .map((line) => ctx.stylize(quote(line), 'string'))
        .join(` +\n${' '.repeat(ctx.indentation + 2)}`) + rest
    );
  return ctx.stylize(quote(text), 'string') + rest;
};

const showPrimitive = (ctx, value, isTop) => {
  if (typeof value === 'string') return showString(ctx, value, isTop);
  if (typeof value === 'number') return ctx.stylize(showNumber(value), 'number');
  if (typeof value === 'bigint') return ctx.stylize(`${value}n`, 'bigint');
  return typeof value === 'symbol'
    ? ctx.stylize(String(value), 'symbol')
    : ctx.stylize(`${value}`, value === null ? 'null' : typeof value);
};

module.exports = { quote, showNumber, showPrimitive };
