// A small client of Node's https and http: a request is gathered, sent as one call, and its response is read as a stream.
// There is no server and no socket.
'use strict';

const { Buffer } = require('./buffer.cjs');
const { abortError } = require('./errors.cjs');
const EventEmitter = require('./events.cjs');
const { send } = require('./fetch.cjs');
const { Headers } = require('./headers.cjs');
const STATUS_CODES = require('library/status-codes');
const { Readable, Writable } = require('library/stream');
const { nextTick } = require('./ticks.cjs');
const timers = require('./timers.cjs');
const { URL, urlToHttpOptions } = require('./url.cjs');

const METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'];

/** The host has decoded the body. */
const DECODED = /^\s*((x-)?gzip|deflate|br)(\s*,\s*((x-)?gzip|deflate|br))*\s*$/i;
/** The host sets these itself. */
const FRAMING = /^(accept-encoding|connection|content-length|host|transfer-encoding)$/i;

class IncomingMessage extends Readable {
  httpVersion = '1.1';
  complete = true;
  aborted = false;

  constructor({ status, status_text: statusText, headers, body }, request) {
    super({ read() {} });
    const pairs = headers.filter(([name, value]) => name.toLowerCase() !== 'content-encoding' || !DECODED.test(value));
    const joined = new Headers(pairs);
    this.req = request;
    this.socket = request.socket;
    this.statusCode = status;
    this.statusMessage = statusText || (STATUS_CODES[status] ?? '');
    this.rawHeaders = pairs.flat();
    this.headers = Object.fromEntries(joined);
    if (joined.has('set-cookie')) this.headers['set-cookie'] = joined.getSetCookie();
    const bytes = Buffer.from(body ?? '', 'base64');
    if (bytes.length > 0) this.push(bytes);
    this.push(null);
  }

  setTimeout() {
    return this;
  }
}

const nothing = () => {};
const makeSocket = () =>
  Object.assign(new EventEmitter(), { setKeepAlive: nothing, setNoDelay: nothing, setTimeout: nothing });

const optionsOf = (input, options) => {
  const isUrl = typeof input === 'string' || input instanceof URL;
  return { ...(isUrl ? urlToHttpOptions(new URL(input)) : input), ...options };
};

const addressOf = ({ protocol, hostname, host, port, path = '/' }) => {
  const name = `${hostname ?? host ?? 'localhost'}`;
  const isBareV6 = /^[^[]*:.*:/.test(name);
  return `${protocol}//${isBareV6 ? `[${name}]` : name}${port == null || port === '' ? '' : `:${port}`}${path}`;
};

class ClientRequest extends Writable {
  #headers = new Map();
  #chunks = [];
  #timer;
  #address;

  constructor(protocol, input, ...rest) {
    const listener = rest.findLast((each) => typeof each === 'function');
    const options = { protocol, ...optionsOf(input, typeof rest[0] === 'object' ? rest[0] : undefined) };
    if (options.protocol !== protocol)
      throw new TypeError(`Protocol "${options.protocol}" not supported. Expected "${protocol}"`);
    super({ autoDestroy: false });
    const { method = 'GET', path = '/', auth, headers = {}, timeout, signal } = options;
    this.method = `${method}`.toUpperCase();
    this.path = path;
    this.protocol = protocol;
    this.host = options.hostname ?? options.host ?? 'localhost';
    this.socket = makeSocket();
    this.aborted = false;
    this.#address = addressOf(options);
    for (const [name, value] of Array.isArray(headers) ? headers : Object.entries(headers)) this.setHeader(name, value);
    if (auth && !this.hasHeader('authorization'))
      this.setHeader('Authorization', `Basic ${Buffer.from(`${auth}`).toString('base64')}`);
    if (listener !== undefined) this.once('response', listener);
    if (timeout !== undefined) this.setTimeout(timeout);
    const abort = () => this.destroy(abortError(signal));
    if (signal?.aborted) nextTick(abort, []);
    else signal?.addEventListener('abort', abort, { once: true });
    nextTick(() => this.emit('socket', this.socket), []);
  }

  setHeader(name, value) {
    if (value === undefined) throw new TypeError(`Invalid value "undefined" for header "${name}"`);
    const checked = new Headers();
    for (const each of [value].flat()) checked.append(name, each);
    this.#headers.set(name.toLowerCase(), { name, value });
    return this;
  }

  getHeader(name) {
    return this.#headers.get(`${name}`.toLowerCase())?.value;
  }

  hasHeader(name) {
    return this.#headers.has(`${name}`.toLowerCase());
  }

  removeHeader(name) {
    this.#headers.delete(`${name}`.toLowerCase());
  }

  getHeaders() {
    return Object.fromEntries([...this.#headers].map(([name, { value }]) => [name, value]));
  }

  getHeaderNames() {
    return [...this.#headers.keys()];
  }

  flushHeaders() {}
  setNoDelay() {}
  setSocketKeepAlive() {}

  setTimeout(delay, callback) {
    if (callback !== undefined) this.once('timeout', callback);
    timers.clearTimeout(this.#timer);
    this.#timer = delay > 0 ? timers.setTimeout(() => this.emit('timeout'), delay) : undefined;
    return this;
  }

  abort() {
    this.aborted = true;
    this.destroy();
  }

  _write(chunk, encoding, callback) {
    this.#chunks.push(Buffer.from(chunk));
    callback();
  }

  _final(callback) {
    callback();
    this.#send();
  }

  _destroy(error, callback) {
    timers.clearTimeout(this.#timer);
    const hangUp = () => Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
    callback(error ?? (this.res === undefined ? hangUp() : null));
  }

  async #send() {
    const headers = [...this.#headers.values()]
      .filter(({ name }) => !FRAMING.test(name))
      .flatMap(({ name, value }) => [value].flat().map((each) => [name, `${each}`]));
    const bytes = this.#chunks.length > 0 ? Buffer.concat(this.#chunks) : undefined;
    try {
      const answer = await send({ url: this.#address, method: this.method, headers, bytes, redirect: 'manual' });
      if (this.destroyed) return;
      timers.clearTimeout(this.#timer);
      this.res = new IncomingMessage(answer, this);
      this.res.once('close', () => this.destroy());
      if (this.listenerCount('response') === 0) this.res.resume();
      this.emit('response', this.res);
    } catch (error) {
      this.destroy(error);
    }
  }
}

class Agent {
  constructor(options = {}) {
    this.options = { ...options };
  }

  destroy() {}
}

const makeModule = (protocol) => {
  const request = (...args) => new ClientRequest(protocol, ...args);
  const get = (...args) => request(...args).end();
  return { Agent, globalAgent: new Agent(), request, get };
};

exports.https = makeModule('https:');
exports.http = { ...makeModule('http:'), METHODS, STATUS_CODES, ClientRequest, IncomingMessage };
