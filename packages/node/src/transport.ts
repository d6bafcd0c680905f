// Sends requests to the vault: timeouts, retries with one idempotency key, and pauses; its failures become errors.
import { type Faults, StrongroomError } from './errors.ts';
import { type Clock, pauseAfter, readExhaustion, readRetryAfter } from './pacing.ts';

/** What is known of an answer, for logs and metrics of the caller. It has no values. */
export type AnswerInfo = {
  /** Such as `POST /tokens`. */
  operation: string;
  status: number;
  traceId: string | undefined;
  /** What may be a typing error, such as a container that no token had before. */
  warning: string | undefined;
  /** The answer was kept by the server: an earlier request with the idempotency key did it. */
  isReplayed: boolean;
  attempts: number;
};

export type TransportOptions = {
  apiKey: string;
  /** Without a slash at its end. */
  baseUrl: string;
  fetch: typeof globalThis.fetch;
  timeoutMs: number;
  retries: number;
  waitMsMax: number;
  clock: Clock;
  onAnswer: ((info: AnswerInfo) => void) | undefined;
};

export type Request = {
  /** For errors. It has no ids. */
  operation: string;
  method: string;
  /** With its query. */
  path: string;
  headers: Record<string, string>;
  body?: RequestInit['body'] | undefined;
  isRepeatable: boolean;
  /** A destination answers it: its response is passed on, and not read. */
  isProxied?: boolean;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
};

type Answer = { response: Response; text: string };

/** Statuses after which the same request may succeed. */
const AGAIN = new Set([429, 502, 503, 504]);

/** The next handshake fails as well. */
const isCertificateError = (reason: string): boolean => /CERT|SIGNATURE|SIGNED|ISSUER/.test(reason);

const readReason = (error: unknown): string => {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if ('code' in cause && typeof cause.code === 'string') return cause.code;
  return 'no answer';
};

/** Nothing of the request was sent. */
const NOT_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/** The server may have done the request although its answer did not arrive. */
const mayBeDone = ({ status, cause }: StrongroomError): boolean =>
  status === undefined ? !NOT_SENT.has(readReason(cause)) : status === 502 || status === 504;

/** Else the vault answered, or something before it. */
const isOfDestination = ({ isProxied }: Request, { headers }: Response): boolean =>
  isProxied === true && headers.has('svc-proxy-destination-status');

const readString = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** Another server than the vault may use the same name for something else. */
const readFaults = (value: unknown): Faults | undefined => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const areTexts = (texts: unknown): boolean => Array.isArray(texts) && texts.every((text) => typeof text === 'string');
  return Object.values(value).every(areTexts) ? (value as Faults) : undefined;
};

const readLine = (headers: Headers): number | undefined => {
  const line = headers.get('svc-code-line');
  return line !== null && /^\d{1,9}$/.test(line) ? Number(line) : undefined;
};

/** @param problem of the server, or what a load balancer sent in its place. */
const readProblem = (operation: string, { response, text }: Answer, attempts: number): StrongroomError => {
  const { status, headers } = response;
  let problem: Record<string, any> = {};
  try {
    const parsed = JSON.parse(text) as Record<string, any> | null;
    problem = parsed?.['proxy_error'] ?? parsed ?? {};
  } catch {
    // Not an answer of the vault: its text may be anything, and is not shown.
  }
  const isProblem = typeof problem['code'] === 'string';
  return new StrongroomError({
    operation,
    status,
    code: isProblem ? problem['code'] : 'unexpected_answer',
    detail: isProblem ? readString(problem['detail']) : 'the answer is not one of the vault',
    ...(isProblem && { errors: readFaults(problem['errors']), codes: readFaults(problem['codes']) }),
    traceId: readString(problem['trace_id']) ?? headers.get('svc-trace-id') ?? undefined,
    codeError: headers.get('svc-code-error') ?? undefined,
    codeLine: readLine(headers),
    retryAfterMs: readRetryAfter(headers),
    attempts,
  });
};

const unexpected = (operation: string, { status }: Response, attempts: number): StrongroomError => {
  const detail = 'the answer is not one of the proxy';
  return new StrongroomError({ operation, status, code: 'unexpected_answer', detail, attempts });
};

const isAgain = (error: StrongroomError): boolean => {
  if (error.status === undefined) return error.code === 'connection_failed' || error.code === 'timeout';
  // Code of the tenant that failed with such a status fails again, or has done something already.
  if (error.code === 'code_failed') return false;
  return AGAIN.has(error.status) || error.code === 'idempotency_in_progress';
};

export class Transport {
  readonly #options: TransportOptions;
  /** Until then the application's rate limit lets nothing through. */
  #pausedUntil = 0;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /**
   * Sends once, and reads what the vault answers within the time of the request.
   * @throws StrongroomError without an answer; the reason of the signal.
   */
  async #open(request: Request, attempts: number): Promise<Answer> {
    const { apiKey, baseUrl, fetch, timeoutMs } = this.#options;
    const { operation, method, path, headers, body, signal } = request;
    signal?.throwIfAborted();
    const ms = request.timeoutMs ?? timeoutMs;
    const timer = new AbortController();
    const timeout = setTimeout(() => timer.abort(), ms);
    try {
      const response = await fetch(baseUrl + path, {
        method,
        headers: { ...headers, 'svc-api-key': apiKey },
        ...(body !== undefined && { body, duplex: 'half' }),
        // To another address the key and the values would go along.
        redirect: 'manual',
        signal: signal ? AbortSignal.any([signal, timer.signal]) : timer.signal,
      } as RequestInit);
      return { response, text: isOfDestination(request, response) ? '' : await response.text() };
    } catch (error) {
      signal?.throwIfAborted();
      if (timer.signal.aborted) {
        const detail = `the server did not answer within ${ms} ms`;
        throw new StrongroomError({ operation, code: 'timeout', detail, attempts, cause: error });
      }
      const reason = readReason(error);
      const code = isCertificateError(reason) ? 'certificate_refused' : 'connection_failed';
      throw new StrongroomError({ operation, code, detail: reason, attempts, cause: error });
    } finally {
      clearTimeout(timeout);
    }
  }

  /**
   * Sends a request until it is answered, within the limits of retries and of waiting.
   * @returns what the server answered to a success: parsed JSON, or undefined; the response of a destination.
   * @throws StrongroomError; the reason of the signal.
   */
  async send(request: Request): Promise<unknown> {
    const { retries, waitMsMax, clock } = this.#options;
    const { signal, isRepeatable } = request;
    let failures = 0;
    let waitedMs = 0;
    let isUnknown = false;
    for (let attempts = 1; ; attempts += 1) {
      const pauseMs = this.#pausedUntil - clock.now();
      if (pauseMs > 0 && waitedMs + pauseMs <= waitMsMax) {
        waitedMs += pauseMs;
        await clock.sleep(pauseMs, signal);
      }
      try {
        return await this.#attempt(request, attempts);
      } catch (error) {
        if (!(error instanceof StrongroomError)) throw error;
        // The request whose answer was lost has deleted it.
        if (isUnknown && request.method === 'DELETE' && !request.isProxied && error.code === 'not_found')
          return undefined;
        isUnknown ||= mayBeDone(error);
        const { status, retryAfterMs } = error;
        const isTold = status === 429 && retryAfterMs !== undefined;
        // A server that says when to come again is not one that fails: time limits these retries, not their number.
        failures += isTold ? 0 : 1;
        const waitMs = Math.max(pauseAfter(isTold ? attempts : failures), retryAfterMs ?? 0);
        const mayRepeat = isRepeatable && retries > 0 && failures <= retries && waitedMs + waitMs <= waitMsMax;
        if (!mayRepeat || !isAgain(error)) throw error;
        waitedMs += waitMs;
        await clock.sleep(waitMs, signal);
      }
    }
  }

  /** @throws StrongroomError for an answer that is no success. */
  #check(request: Request, answer: Answer, attempts: number): void {
    const { operation } = request;
    const { response } = answer;
    const { status, headers, ok } = response;
    this.#options.onAnswer?.({
      operation,
      status,
      traceId: headers.get('svc-trace-id') ?? undefined,
      warning: headers.get('svc-warning') ?? undefined,
      isReplayed: headers.get('svc-idempotent-replayed') === 'true',
      attempts,
    });
    if (!ok) throw readProblem(operation, answer, attempts);
  }

  async #attempt(request: Request, attempts: number): Promise<unknown> {
    const answer = await this.#open(request, attempts);
    const { response, text } = answer;
    if (isOfDestination(request, response)) return response;
    const exhaustedMs = readExhaustion(response.headers);
    if (exhaustedMs > 0) this.#pausedUntil = Math.max(this.#pausedUntil, this.#options.clock.now() + exhaustedMs);
    this.#check(request, answer, attempts);
    if (request.isProxied) throw unexpected(request.operation, response, attempts);
    if (response.status === 204 || text === '') return undefined;
    try {
      return JSON.parse(text) as unknown;
    } catch {
      throw readProblem(request.operation, answer, attempts);
    }
  }
}
