// fetch, Headers, Request and Response. Bodies are whole and in memory; where a request may go is decided outside.
'use strict';

const { Buffer } = require('./buffer.cjs');
const { viewBytes } = require('./bytes.cjs');
const { call } = require('./calls.cjs');
const { Headers } = require('./headers.cjs');
const { URL, URLSearchParams } = require('./url.cjs');
const { DOMException } = require('./dom-exception.cjs');

const isAsyncIterable = (value) => typeof value === 'object' && value !== null && Symbol.asyncIterator in value;

const extractBody = (body) => {
  if (body == null) return;
  const { Blob, FormData, bytesOfBlob, encodeForm } = require('./blob.cjs');
  if (body instanceof URLSearchParams)
    return { bytes: Buffer.from(body.toString()), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  if (body instanceof FormData) return encodeForm(body);
  if (body instanceof Blob) return { bytes: bytesOfBlob(body), type: body.type || undefined };
  const view = viewBytes(body);
  if (view !== undefined) return { bytes: Buffer.from(view) };
  return isAsyncIterable(body)
    ? { bytes: collect(body) }
    : { bytes: Buffer.from(`${body}`, 'utf8'), type: 'text/plain;charset=UTF-8' };
};

const collect = async (iterable) => {
  const chunks = [];
  for await (const chunk of iterable) chunks.push(typeof chunk === 'string' ? Buffer.from(chunk) : viewBytes(chunk));
  return Buffer.concat(chunks);
};

class Body {
  #bytes;
  #stream;
  #isUsed = false;

  constructor(bytes) {
    this.#bytes = bytes;
  }

  get bodyUsed() {
    return this.#isUsed;
  }

  get body() {
    if (this.#bytes === undefined || this.#bytes instanceof Promise) return null;
    this.#stream ??= require('./body-stream.cjs').streamOf(this.#bytes, () => {
      this.#isUsed = true;
    });
    return this.#stream;
  }

  async #read() {
    if (this.#isUsed || this.#stream?.locked) throw new TypeError('Body is unusable: Body has already been read');
    if (this.#bytes === undefined) return Buffer.alloc(0);
    this.#isUsed = true;
    return this.#bytes;
  }

  static peek(body) {
    if (body.#isUsed) throw new TypeError('Body is unusable: Body has already been read');
    return body.#bytes;
  }

  static take(body) {
    const bytes = peek(body);
    if (bytes !== undefined) body.#isUsed = true;
    return bytes;
  }

  async text() {
    const text = (await this.#read()).toString('utf8');
    return text.charCodeAt(0) === 65_279 ? text.slice(1) : text;
  }

  async json() {
    return JSON.parse(await this.text());
  }

  async arrayBuffer() {
    return new Uint8Array(await this.#read()).buffer;
  }

  async bytes() {
    return new Uint8Array(await this.#read());
  }

  async blob() {
    const { Blob } = require('./blob.cjs');
    return new Blob([await this.#read()], { type: this.headers.get('content-type') ?? '' });
  }

  async formData() {
    const { FormData } = require('./blob.cjs');
    if (!(this.headers.get('content-type') ?? '').startsWith('application/x-www-form-urlencoded'))
      throw new TypeError('Could not parse content as FormData.');
    const form = new FormData();
    for (const [name, value] of new URLSearchParams(await this.text())) form.append(name, value);
    return form;
  }
}

const { peek, take } = Body;
delete Body.peek;
delete Body.take;
const METHODS = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']);
const FORBIDDEN = new Set(['CONNECT', 'TRACE', 'TRACK']);

const toMethod = (method) => {
  const text = `${method}`;
  const upper = text.toUpperCase();
  if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text)) throw new TypeError(`'${text}' is not a valid HTTP method.`);
  if (FORBIDDEN.has(upper)) throw new TypeError(`'${text}' HTTP method is unsupported.`);
  return METHODS.has(upper) ? upper : text;
};

const parseAddress = (input) => {
  let url;
  try {
    url = new URL(input);
  } catch (error) {
    throw new TypeError(`Failed to parse URL from ${input}`, { cause: error });
  }
  if (url.username !== '' || url.password !== '')
    throw new TypeError(`Request cannot be constructed from a URL that includes credentials: ${input}`);
  return url.href;
};

class Request extends Body {
  #url;
  #method;
  #headers;
  #redirect;
  #signal;

  constructor(input, init = {}) {
    const source = input instanceof Request ? input : undefined;
    const options = init ?? {};
    const method = options.method === undefined ? (source?.method ?? 'GET') : toMethod(options.method);
    const given = extractBody(options.body);
    if (given !== undefined && (method === 'GET' || method === 'HEAD'))
      throw new TypeError('Request with GET/HEAD method cannot have body.');
    super(given === undefined && source !== undefined ? take(source) : given?.bytes);
    this.#url = source?.url ?? parseAddress(`${input}`);
    this.#method = method;
    this.#headers = new Headers(options.headers ?? source?.headers);
    if (given?.type !== undefined && !this.#headers.has('content-type')) this.#headers.set('content-type', given.type);
    this.#redirect = options.redirect ?? source?.redirect ?? 'follow';
    this.#signal = options.signal ?? source?.signal ?? undefined;
  }

  get url() {
    return this.#url;
  }

  get method() {
    return this.#method;
  }

  get headers() {
    return this.#headers;
  }

  get redirect() {
    return this.#redirect;
  }

  get signal() {
    return this.#signal;
  }

  clone() {
    peek(this);
    let { url, method, headers, redirect, signal } = this;
    return new Request(url, { method, headers, redirect, signal, body: peek(this) });
  }

  get [Symbol.toStringTag]() {
    return 'Request';
  }
}

const NULL_BODY = new Set([101, 204, 205, 304]);

class Response extends Body {
  #status;
  #statusText;
  #headers;
  #url = '';
  #redirected = false;
  #type = 'default';

  constructor(body, { status = 200, statusText = '', headers } = {}) {
    if (!Number.isInteger(status) || status < 200 || status > 599)
      throw new RangeError('init["status"] must be in the range of 200 to 599, inclusive.');
    const given = extractBody(body);
    if (given !== undefined && NULL_BODY.has(status))
      throw new TypeError(`Response constructor: Invalid response status code ${status}`);
    super(given?.bytes);
    this.#status = status;
    this.#statusText = `${statusText}`;
    this.#headers = new Headers(headers);
    if (given?.type !== undefined && !this.#headers.has('content-type')) this.#headers.set('content-type', given.type);
  }

  static arrived({ status, status_text: statusText, headers, body, url, redirected }) {
    const bytes = NULL_BODY.has(status) ? undefined : Buffer.from(body ?? '', 'base64');
    const response = new Response(bytes, { status, statusText: statusText ?? '', headers });
    response.#url = url ?? '';
    response.#redirected = redirected === true;
    response.#type = 'basic';
    return response;
  }

  static json(data, init = {}) {
    const headers = new Headers(init.headers);
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return new Response(JSON.stringify(data), { ...init, headers });
  }

  static redirect(url, status = 302) {
    return new Response(null, { status, headers: { location: new URL(url).href } });
  }

  get status() {
    return this.#status;
  }

  get statusText() {
    return this.#statusText;
  }

  get ok() {
    return this.#status >= 200 && this.#status <= 299;
  }

  get headers() {
    return this.#headers;
  }

  get url() {
    return this.#url;
  }

  get redirected() {
    return this.#redirected;
  }

  get type() {
    return this.#type;
  }

  clone() {
    const { status, statusText, headers } = this;
    const copy = new Response(peek(this), { status, statusText, headers });
    copy.#url = this.#url;
    copy.#redirected = this.#redirected;
    copy.#type = this.#type;
    return copy;
  }

  get [Symbol.toStringTag]() {
    return 'Response';
  }
}

const { arrived } = Response;
delete Response.arrived;
const abortReason = (signal) => signal.reason ?? new DOMException('This operation was aborted', 'AbortError');

const abortable = (promise, signal) => {
  if (signal == null) return promise;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(abortReason(signal));
      return;
    }
    signal.addEventListener('abort', () => reject(abortReason(signal)), { once: true });
    promise.then(resolve, reject);
  });
};

const send = ({ url, method, headers, bytes, redirect }) =>
  call('fetch', { url, method, headers, body: bytes === undefined ? null : bytes.toString('base64'), redirect });

const fetch = async (input, init) => {
  const request = new Request(input, init);
  let { signal, url, method, headers, redirect } = request;
  if (signal?.aborted) throw abortReason(signal);
  const bytes = await take(request);
  if (!headers.has('accept')) headers.set('accept', '*/*');
  const sent = send({ url, method, headers: [...headers], bytes, redirect });
  sent.catch(() => {});
  let answer;
  try {
    answer = await abortable(sent, signal);
  } catch (error) {
    throw signal?.aborted ? error : new TypeError('fetch failed', { cause: error });
  }
  return arrived(answer);
};

module.exports = { fetch, Headers, Request, Response, send };
