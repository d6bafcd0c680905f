// Node's http and https for those who ask: a request is gathered, sent as one call, and its answer is read as a stream.
// There is no server and no socket.
'use strict';

const { Buffer } = require('./buffer.cjs');
const EventEmitter = require('./events.cjs');
const { Readable, Writable } = require('./stream.cjs');
const { URL, urlToHttpOptions } = require('./url.cjs');
const { send } = require('./fetch.cjs');
const { STATUS_CODES } = require('./http-status.cjs');
const { invalidArgType, nodeError } = require('./errors.cjs');

const METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'];

const SINGLE = new Set([
  'age',
  'authorization',
  'content-length',
  'content-type',
  'etag',
  'expires',
  'from',
  'host',
  'if-modified-since',
  'if-unmodified-since',
  'last-modified',
  'location',
  'max-forwards',
  'proxy-authorization',
  'referer',
  'retry-after',
  'server',
  'user-agent',
]);

const addHeader = (headers, name, value) => {
  if (name === 'set-cookie') (headers[name] ??= []).push(value);
  else if (Object.hasOwn(headers, name)) {
    if (!SINGLE.has(name)) headers[name] += `${name === 'cookie' ? '; ' : ', '}${value}`;
  } else headers[name] = value;
};

const DECODED = /^\s*((x-)?gzip|deflate|br)(\s*,\s*((x-)?gzip|deflate|br))*\s*$/i;

class IncomingMessage extends Readable {
  constructor(answer, request) {
    const bytes = Buffer.from(answer.body ?? '', 'base64');
    super({ read() {} });
    this.httpVersion = '1.1';
    this.httpVersionMajor = 1;
    this.httpVersionMinor = 1;
    this.statusCode = answer.status;
    this.statusMessage = answer.status_text || (STATUS_CODES[answer.status] ?? '');
    this.headers = {};
    this.rawHeaders = [];
    this.trailers = {};
    this.rawTrailers = [];
    this.aborted = false;
    this.complete = false;
    this.req = request;
    this.url = '';
    this.method = null;
    this.socket = request.socket;
    for (const [name, value] of answer.headers) {
      if (!(name.toLowerCase() === 'content-encoding' && DECODED.test(value))) {
        this.rawHeaders.push(name, value);
        addHeader(this.headers, name.toLowerCase(), value);
      }
    }
    if (bytes.length > 0) this.push(bytes);
    this.complete = true;
    this.push(null);
  }

  get connection() {
    return this.socket;
  }

  setTimeout() {
    return this;
  }
}

const makeSocket = () =>
  Object.assign(new EventEmitter(), {
    encrypted: true,
    authorized: true,
    destroyed: false,
    setKeepAlive() {},
    setNoDelay() {},
    setTimeout() {},
    destroy() {},
  });

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const checkHeader = (name, value) => {
  if (typeof name !== 'string' || !TOKEN.test(name))
    throw nodeError(TypeError, 'ERR_INVALID_HTTP_TOKEN', `Header name must be a valid HTTP token ["${name}"]`);
  if (value === undefined)
    throw nodeError(TypeError, 'ERR_HTTP_INVALID_HEADER_VALUE', `Invalid value "undefined" for header "${name}"`);
  if (/[^\t\u0020-\u007E\u0080-\u00FF]/.test(`${value}`))
    throw nodeError(TypeError, 'ERR_INVALID_CHAR', `Invalid character in header content ["${name}"]`);
};

const optionsFrom = (input, options) => {
  if (typeof input === 'string') return { ...urlToHttpOptions(new URL(input)), ...options };
  return input instanceof URL ? { ...urlToHttpOptions(input), ...options } : { ...input };
};

const addressOf = ({ protocol, hostname, host, port, path = '/' }, secure) => {
  const name = `${hostname ?? host ?? 'localhost'}`;
  const bracketed = name.includes(':') && !name.startsWith('[') && !/^[^:]+:\d+$/.test(name) ? `[${name}]` : name;
  const usual = secure ? 443 : 80;
  const portText = port == null || port === '' || Number(port) === usual ? '' : `:${port}`;
  return `${protocol ?? (secure ? 'https:' : 'http:')}//${bracketed}${portText}${path}`;
};

const socketHangUp = () => Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });

class ClientRequest extends Writable {
  #headers = new Map();
  #chunks = [];
  #redirect = 'manual';
  #timer;
  #address;

  constructor(input, options, callback, secure = true) {
    super({ decodeStrings: true, autoDestroy: false });
    const given = typeof options === 'function' ? undefined : options;
    const listener = typeof options === 'function' ? options : callback;
    const settings = optionsFrom(input, given);
    const expected = secure ? 'https:' : 'http:';
    const { method = 'GET', path = '/', auth, headers, timeout, signal } = settings;
    const protocol = settings.protocol ?? expected;
    if (protocol !== expected)
      throw nodeError(
        TypeError,
        'ERR_INVALID_PROTOCOL',
        `Protocol "${protocol}" not supported. Expected "${expected}"`,
      );
    if (/[^\u0021-\u00FF]/.test(path))
      throw nodeError(TypeError, 'ERR_UNESCAPED_CHARACTERS', 'Request path contains unescaped characters');
    if (typeof method !== 'string') throw invalidArgType('options.method', 'of type string', method);
    this.method = method.toUpperCase();
    this.path = path;
    this.protocol = protocol;
    this.host = settings.hostname ?? settings.host ?? 'localhost';
    this.socket = makeSocket();
    this.aborted = false;
    this.#address = addressOf(settings, secure);
    const pairs = Array.isArray(headers) ? headers : Object.entries(headers ?? {});
    for (const [name, value] of pairs) this.setHeader(name, value);
    if (auth && !this.hasHeader('authorization'))
      this.setHeader('Authorization', `Basic ${Buffer.from(`${auth}`).toString('base64')}`);
    if (listener !== undefined) this.once('response', listener);
    if (timeout !== undefined) this.setTimeout(timeout);
    this.#watch(signal);
    require('./ticks.cjs').nextTick(() => this.emit('socket', this.socket), []);
  }

  #watch(signal) {
    if (signal === undefined) return;
    const abort = () => this.destroy(require('./abort.cjs').makeAbortError(signal));
    if (signal.aborted) require('./ticks.cjs').nextTick(abort, []);
    else signal.addEventListener('abort', abort, { once: true });
  }

  get connection() {
    return this.socket;
  }

  setHeader(name, value) {
    checkHeader(name, value);
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

  getRawHeaderNames() {
    return [...this.#headers.values()].map(({ name }) => name);
  }

  flushHeaders() {}
  setNoDelay() {}
  setSocketKeepAlive() {}

  setTimeout(delay, callback) {
    const timers = require('./timers.cjs');
    if (callback !== undefined) this.once('timeout', callback);
    if (this.#timer !== undefined) timers.clearTimeout(this.#timer);
    this.#timer = delay > 0 ? timers.setTimeout(() => this.emit('timeout'), delay) : undefined;
    return this;
  }

  abort() {
    if (!this.aborted) {
      this.aborted = true;
      require('./ticks.cjs').nextTick(() => this.emit('abort'), []);
      this.destroy();
    }
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
    this.#stopTimer();
    callback(error ?? (this.res === undefined ? socketHangUp() : null));
  }

  #stopTimer() {
    if (this.#timer !== undefined) require('./timers.cjs').clearTimeout(this.#timer);
  }

  #headerPairs() {
    const pairs = [];
    for (const { name, value } of this.#headers.values()) {
      if (!/^(accept-encoding|connection|content-length|host|transfer-encoding)$/i.test(name)) {
        for (const each of Array.isArray(value) ? value : [value]) pairs.push([name, `${each}`]);
      }
    }
    return pairs;
  }

  async #send() {
    const bytes = this.#chunks.length > 0 ? Buffer.concat(this.#chunks) : undefined;
    try {
      const answer = await send({
        url: this.#address,
        method: this.method,
        headers: this.#headerPairs(),
        bytes,
        redirect: this.#redirect,
      });
      if (this.destroyed) return;
      this.#stopTimer();
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
    this.maxSockets = options.maxSockets ?? Infinity;
    this.keepAlive = options.keepAlive ?? false;
  }

  destroy() {}
}

const makeModule = (secure) => {
  const protocol = secure ? 'https:' : 'http:';
  class ModuleAgent extends Agent {
    protocol = protocol;
    defaultPort = secure ? 443 : 80;
  }
  Object.defineProperty(ModuleAgent, 'name', { value: 'Agent' });
  const request = (input, options, callback) => new ClientRequest(input, options, callback, secure);
  const get = (input, options, callback) => {
    const started = request(input, options, callback);
    started.end();
    return started;
  };
  return { Agent: ModuleAgent, globalAgent: new ModuleAgent(), request, get };
};

exports.https = makeModule(true);
exports.http = { ...makeModule(false), METHODS, STATUS_CODES, ClientRequest, IncomingMessage, maxHeaderSize: 16_384 };
