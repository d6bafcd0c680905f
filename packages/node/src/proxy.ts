// Sends a request to another API through the vault, which puts the values of tokens in the place of expressions.
import { checkHeader } from './calls.ts';
import { StrongroomError } from './errors.ts';
import { writeJson } from './json.ts';
import type { Request, Transport } from './transport.ts';

export type ProxyInit = Omit<RequestInit, 'redirect'> & {
  /** The key of a stored proxy, whose destination takes the request: the URL is then a path, such as `/charges`. */
  proxyKey?: string;
  /** A body as JSON. A string with `{{` that no expression made is an error. */
  json?: unknown;
  /** How long the destination has until the head of its response, in ms. */
  timeout?: number;
  traceId?: string;
};

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

/**
 * A `fetch` through the vault. It is sent once: only the destination knows what a repetition does.
 * @returns the response of the destination, whatever its status.
 * @throws StrongroomError where the destination did not answer.
 */
export const proxyFetch = async (transport: Transport, url: string | URL, init: ProxyInit = {}): Promise<Response> => {
  const { proxyKey, json, timeout, traceId, signal, body, method = 'GET' } = init;
  const verb = method.toUpperCase();
  if (!METHODS.includes(verb)) throw new TypeError(`The proxy sends ${METHODS.join(', ')} only.`);
  const { origin, path } = readTarget(url, proxyKey);
  checkHeader('traceId', traceId);
  checkHeader('proxyKey', proxyKey);
  const headers = readHeaders(init.headers);
  const operation = `${verb} /proxy`;
  if (json !== undefined && !headers.has('content-type')) headers.set('content-type', 'application/json');
  if (traceId !== undefined) headers.set('svc-trace-id', traceId);
  headers.set(
    ...((proxyKey === undefined ? ['svc-proxy-url', origin] : ['svc-proxy-key', proxyKey]) as [string, string]),
  );
  const request: Request = {
    operation,
    method: verb,
    path: `/proxy${path}`,
    headers: Object.fromEntries(headers),
    body: json === undefined ? (body ?? undefined) : writeJson(operation, json, true),
    isRepeatable: false,
    signal: signal ?? undefined,
    timeoutMs: timeout,
  };
  const isOfDestination = ({ headers: head }: Response): boolean => head.has('svc-proxy-destination-status');
  const answer = await transport.open(request, 1, (response) => !isOfDestination(response));
  const { response } = answer;
  if (isOfDestination(response)) return response;
  transport.check(request, answer, 1);
  const detail = 'the answer is not one of the proxy';
  throw new StrongroomError({ operation, status: response.status, code: 'unexpected_answer', detail });
};
