// Small modules of Node: os and querystring.
'use strict';

const { Buffer } = require('./buffer.cjs');
const { nodeError } = require('./errors.cjs');

// Says the same of every machine: nothing of the real one is known in here.
const os = {
  EOL: '\n',
  arch: () => 'x64',
  platform: () => 'linux',
  type: () => 'Linux',
  release: () => '',
  hostname: () => 'localhost',
  homedir: () => '/',
  tmpdir: () => '/tmp',
  endianness: () => 'LE',
  cpus: () => [],
  networkInterfaces: () => ({}),
  totalmem: () => 0,
  freemem: () => 0,
  uptime: () => 0,
  loadavg: () => [0, 0, 0],
};

// querystring.
const escape = (value) => {
  const text = typeof value === 'string' ? value : typeof value === 'object' ? String(value) : `${value}`;
  try {
    return encodeURIComponent(text);
  } catch {
    throw nodeError(URIError, 'ERR_INVALID_URI', 'URI malformed');
  }
};

const unescapeBuffer = (text) =>
  Buffer.from(
    text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );

const unescape = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return unescapeBuffer(text).toString();
  }
};

const toText = (value) => {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return `${value}`;
  return typeof value === 'bigint' || typeof value === 'boolean' ? `${value}` : '';
};

const stringify = (object, separator = '&', equals = '=', options = {}) => {
  if (object === null || typeof object !== 'object') return '';
  const encode = options?.encodeURIComponent ?? querystring.escape;
  const pair = (key, value) => `${encode(key)}${equals || '='}${encode(toText(value))}`;
  return Object.keys(object)
    .flatMap((key) =>
      Array.isArray(object[key]) ? object[key].map((value) => pair(key, value)) : [pair(key, object[key])],
    )
    .join(separator || '&');
};

const PAIRS_MAX = 1000;

const parse = (text, separator = '&', equals = '=', options = {}) => {
  const parsed = Object.create(null);
  if (typeof text !== 'string' || text === '') return parsed;
  const limit = typeof options?.maxKeys === 'number' ? options.maxKeys : PAIRS_MAX;
  const decode = options?.decodeURIComponent ?? querystring.unescape;
  const read = (part) => {
    const spaced = part.replaceAll('+', ' ');
    try {
      return decode(spaced);
    } catch {
      return unescape(spaced);
    }
  };
  const parts = text.split(separator || '&').filter((part) => part !== '');
  for (const part of limit > 0 ? parts.slice(0, limit) : parts) {
    const at = part.indexOf(equals || '=');
    const key = read(at === -1 ? part : part.slice(0, at));
    const value = at === -1 ? '' : read(part.slice(at + (equals || '=').length));
    if (key in parsed) {
      if (Array.isArray(parsed[key])) parsed[key].push(value);
      else parsed[key] = [parsed[key], value];
    } else parsed[key] = value;
  }
  return parsed;
};

const querystring = { escape, unescape, unescapeBuffer, stringify, parse, encode: stringify, decode: parse };

module.exports = { os, querystring };
