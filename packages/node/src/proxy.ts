// Sends a request to another API through the vault, which puts the values of tokens in the place of expressions.
import { checkHeader } from './calls.ts';
import { writeForm, writeJson } from './json.ts';
import type { Transport } from './transport.ts';

export type ProxyInit = Pick<RequestInit, 'method' | 'headers' | 'body' | 'signal'> & {
  /**
   * The vault then sends the request once, and returns the first response again. The client repeats it where an answer is lost. For
   * POST, PUT, PATCH and DELETE. Not the destination's key: that is a header.
   */
  idempotencyKey?: string;
  /** The key of a stored proxy, whose destination takes the request: the URL is then a path, such as `/charges`. */
  proxyKey?: string;
  /** A body as JSON. A string with `{{` that no expression made is an error. */
  json?: unknown;
  /** A body as a form, `application/x-www-form-urlencoded`. Strings with `{{` are errors there too. */
  form?: Record<string, unknown>;
  /** How long the destination has until the head of its response, in ms. */
  timeout?: number;
  traceId?: string;
};

const OPTIONS = new Set('method headers body json form signal timeout proxyKey idempotencyKey traceId'.split(' '));

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** @throws TypeError without the value, which the message of `Headers` has. */
const readHeaders = (given: RequestInit['headers']): Headers => {
  try {
    return new Headers(given);
  } catch {
    throw new TypeError('A header has a name or a value that HTTP does not allow.');
  }
};

/** The URL parser takes out dots and clamps them to the origin: no path leads out of `/proxy`, to the vault itself. */
const readTarget = (url: string | URL, proxyKey: string | undefined): { origin: string; path: string } => {
  const text = String(url);
  if (proxyKey !== undefined && !text.startsWith('/'))
    throw new TypeError('With a proxyKey the URL is a path, such as /charges: the proxy has the rest.');
  const base = proxyKey === undefined ? undefined : 'https://proxy.invalid';
  const parsed = URL.canParse(text, base) ? new URL(text, base) : undefined;
  if (parsed?.protocol !== 'https:' || parsed.username !== '' || (proxyKey && parsed.host !== 'proxy.invalid'))
    throw new TypeError('The URL must be an https URL without credentials, or a path with a proxyKey.');
  return { origin: parsed.origin, path: `${parsed.pathname}${parsed.search}` };
};

/** A body that is the same in each attempt: a form of `fetch` has another boundary each time, and a stream ends. */
const hold = async (body: NonNullable<RequestInit['body']>, headers: Headers): Promise<Uint8Array<ArrayBuffer>> => {
  const held = new Response(body);
  const type = held.headers.get('content-type');
  if (type !== null && !headers.has('content-type')) headers.set('content-type', type);
  return new Uint8Array(await held.arrayBuffer());
};

const checkInit = (init: ProxyInit): void => {
  const unknown = Object.keys(init).find((name) => !OPTIONS.has(name));
  if (unknown !== undefined) throw new TypeError(`There is no option ${unknown}.`);
  const { method = 'GET', idempotencyKey, json, form, body } = init;
  const verb = method.toUpperCase();
  if (!METHODS.includes(verb)) throw new TypeError(`The proxy sends ${METHODS.join(', ')} only.`);
  if (idempotencyKey !== undefined && verb === 'GET')
    throw new TypeError('A GET has no idempotencyKey: it may be repeated as it is.');
  if ([json, form, body ?? undefined].filter((each) => each !== undefined).length > 1)
    throw new TypeError('A request has one of json, form and body.');
};

/** The body of a request. Says its type in the headers, unless the caller does. */
const writeBody = (operation: string, { json, form, body }: ProxyInit, headers: Headers): ProxyInit['body'] => {
  if (json === undefined && form === undefined) return body;
  const type = form ? 'application/x-www-form-urlencoded' : 'application/json';
  if (!headers.has('content-type')) headers.set('content-type', type);
  return form ? writeForm(operation, form) : writeJson(operation, json, true);
};

/**
 * A `fetch` through the vault. Without `idempotencyKey` it is sent once: only the destination knows what a repetition does.
 * @returns the response of the destination, whatever its status.
 * @throws StrongroomError where the destination did not answer.
 */
export const proxyFetch = async (transport: Transport, url: string | URL, init: ProxyInit = {}): Promise<Response> => {
  const { proxyKey, idempotencyKey, timeout, traceId, signal, method = 'GET' } = init;
  checkInit(init);
  const { origin, path } = readTarget(url, proxyKey);
  for (const [name, text] of Object.entries({ traceId, proxyKey, idempotencyKey })) checkHeader(name, text);
  const headers = readHeaders(init.headers);
  const operation = `${method.toUpperCase()} /proxy`;
  if (traceId !== undefined) headers.set('svc-trace-id', traceId);
  if (idempotencyKey !== undefined) headers.set('svc-idempotency-key', idempotencyKey);
  headers.set(
    ...((proxyKey === undefined ? ['svc-proxy-url', origin] : ['svc-proxy-key', proxyKey]) as [string, string]),
  );
  const content = writeBody(operation, init, headers) ?? undefined;
  const isHeld = idempotencyKey !== undefined && content !== undefined;
  const sent = isHeld ? await hold(content, headers) : content;
  return (await transport.send({
    operation,
    method: method.toUpperCase(),
    path: `/proxy${path}`,
    headers: Object.fromEntries(headers),
    body: sent,
    isProxied: true,
    isRepeatable: idempotencyKey !== undefined,
    signal: signal ?? undefined,
    timeoutMs: timeout,
  })) as Response;
};
