// Maps a failed run to the response for its caller.
import { fieldName, fieldValue } from '../../platform/egress/headers.ts';
import { mayCodeSend } from '../../platform/http/proxy-answer-headers.ts';
import { AppError, codeFailure, failure, fieldErrors } from '../../platform/base/errors.ts';
import type { RunFault, RunLimits, ThrownResponse, ThrownSdkError } from '../../platform/sandbox/protocol/sandbox.ts';
import { nameOfFault } from '../runs/outcome.ts';

/** Statuses and details by the names of the classes that the SDK gives to code. */
const sdkErrors: ReadonlyMap<string, { status: number; detail: string }> = new Map([
  ['AuthenticationError', { status: 401, detail: 'Authentication Failed' }],
  ['AuthorizationError', { status: 403, detail: 'Forbidden' }],
  ['BadRequestError', { status: 400, detail: 'Bad Request' }],
  ['InvalidPaymentMethodError', { status: 402, detail: 'Invalid Payment Method' }],
  ['RateLimitError', { status: 429, detail: 'Rate Limit Exceeded' }],
  ['ReactorRuntimeError', { status: 500, detail: 'Reactor Runtime Error' }],
  ['ServiceUnavailableError', { status: 503, detail: 'Service Unavailable' }],
  ['InvalidReactorConfigurationError', { status: 400, detail: 'Invalid Reactor Configuration' }],
  ['InvalidReactorFormulaError', { status: 422, detail: 'Invalid Reactor Formula' }],
]);

const RUNTIME_ERROR = 'Reactor Runtime Error';

/** Bytes of all texts of an error together. */
const WORDS_BYTES_MAX = 4096;
const WORDS_KEYS_MAX = 50;

/** Each 429 and 503 has a Retry-After; code does not say one. */
const RETRY_AFTER_SECONDS = 1;

/** A response that the code made, ready to be sent. */
export class CodeResponse {
  readonly status: number;
  /** Headers by lower-case name. */
  readonly headers: Record<string, string>;
  /** Undefined for none. */
  readonly body: string | undefined;
  constructor(status: number, headers: Record<string, string>, body: string | undefined) {
    this.status = status;
    this.headers = headers;
    this.body = body;
  }
}

const clip = (text: string, bytesMax: number): string => {
  if (Buffer.byteLength(text) <= bytesMax) return text;
  // Never half a character.
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(Math.max(0, bytesMax)));
  return text.slice(0, read);
};

/** Texts by their names, cut to WORDS_BYTES_MAX in all. */
const clippedWords = (errors: Record<string, readonly string[]>) => {
  let bytesLeft = WORDS_BYTES_MAX;
  const take = (text: string): string => {
    const taken = clip(text, bytesLeft);
    bytesLeft -= Buffer.byteLength(taken);
    return taken;
  };
  const entries: [string, string, 'thrown'][] = [];
  for (const [name, texts] of Object.entries(errors).slice(0, WORDS_KEYS_MAX)) {
    const key = take(name);
    for (const text of Array.isArray(texts) ? (texts as unknown[]) : []) {
      if (typeof text !== 'string' || bytesLeft <= 0) continue;
      // An entry of the list takes memory too.
      bytesLeft -= 1;
      entries.push([key, take(text), 'thrown']);
    }
  }
  return fieldErrors(entries);
};

/** Line where code failed, and the name of its error. */
type CodeMarks = Partial<Pick<AppError, 'codeLine' | 'codeError'>>;

/** A 500 with a sentence of the server, or a message of the code. */
export const runtimeError = (message: string, status = 500, marks: CodeMarks = {}): AppError =>
  codeFailure(status, RUNTIME_ERROR, clippedWords({ error: [message] }), marks);

/** A 400 for data that the caller sent and that `svc` refused. @param message names the place. */
export const badInput = (message: string, codeLine?: number): AppError =>
  codeFailure(400, 'Bad Request', clippedWords({ error: [message] }), { codeLine });

/** V8's message where code uses `svc`, and it is null. */
const USES_SERVICE =
  /^Cannot read properties of null \(reading '(?:tokenize|detokenize|tokens|expression|literal|proxy)'\)$/;

/** Says why `svc` is null. */
export const withoutService = (fault: RunFault, noun: 'proxy' | 'reactor'): RunFault =>
  fault.code === 'THROWN' && USES_SERVICE.test(fault.message)
    ? { ...fault, message: `${fault.message}: the ${noun} has no application, so \`svc\` is null.` }
    : fault;

const megabytes = (bytes: number): string => `${Math.floor(bytes / 1024 / 1024)} MB`;
const seconds = (ms: number): string => `${ms / 1000} s`;

const tooLarge = ({ outputBytesMax }: Pick<RunLimits, 'outputBytesMax'>): AppError =>
  runtimeError(`The result must not be larger than ${megabytes(outputBytesMax)}.`);

const placeOf = ({ line, column }: { line?: number | undefined; column?: number | undefined }): string =>
  line === undefined ? '' : ` (line ${line}${column === undefined ? '' : `, column ${column}`})`;

const marksOf = (fault: Extract<RunFault, { code: 'THROWN' | 'SDK_ERROR' | 'SYNTAX' }>): CodeMarks => ({
  codeLine: fault.line,
  codeError: nameOfFault(fault),
});

/**
 * The response for a run that failed, or that threw a response. Errors of code are untrusted input, since an attacker may control
 * the executor: statuses and titles are looked up, texts are cut and go to the caller only.
 */
export const answerOfFault = (fault: RunFault, limits: RunLimits): AppError | CodeResponse => {
  switch (fault.code) {
    case 'SDK_ERROR':
      return sdkFailure(fault.error, marksOf(fault));
    case 'RESPONSE':
      return codeResponse(fault.response, limits);
    case 'THROWN':
      return runtimeError(fault.message || 'The code threw an error without a message.', 500, marksOf(fault));
    case 'SYNTAX':
      return runtimeError(`The code does not compile: ${fault.message}${placeOf(fault)}`, 500, marksOf(fault));
    case 'NO_FUNCTION':
      return runtimeError('The code exports no function.');
    case 'TIMEOUT_WALL':
      return runtimeError(`The code must end within ${seconds(limits.wallMs)}.`, 408);
    case 'TIMEOUT_CPU':
      return runtimeError(`The code must not take more than ${seconds(limits.cpuMs)} of CPU time.`, 408);
    case 'OUT_OF_MEMORY':
      return runtimeError(`The code must not take more than ${limits.memoryMb} MB of memory.`);
    case 'OUTPUT_TOO_LARGE':
      return tooLarge(limits);
    case 'EXECUTOR_DIED':
      return runtimeError('The process that ran the code ended before the code did.');
    case 'BUSY':
      return busy(fault);
    case 'NO_WALL':
      return noWall();
    case 'CANCELLED':
      return clientGone();
  }
};

/** The client disconnected, which ended the run. No client receives this error; the log has it. */
const clientGone = (): AppError => new AppError('request_timeout', 'The client disconnected before the response.');

/** The sandbox had no capacity for the run. */
export const busy = ({ over, retryAfterSeconds }: Extract<RunFault, { code: 'BUSY' }>): AppError =>
  over === 'tenant'
    ? failure('too_many_runs', 'The tenant runs as much code as it may. Wait and try again.', {
        retryAfterSeconds,
      })
    : new AppError('unavailable', 'There is no room to run code right now. Try again.', { retryAfterSeconds });

/** The server runs no code until the operator repairs the sandbox: the log of the start and `doctor` say how. */
export const noWall = (): AppError =>
  new AppError('unavailable', 'This server runs no code: it has no sandbox that it may use. Its operator sees why.');

/** The SDK never makes an error with another status than that of its class. */
const sdkFailure = ({ class: name, status, errors }: ThrownSdkError, marks: CodeMarks): AppError => {
  const known = sdkErrors.get(name);
  if (known?.status !== status) return runtimeError('The code threw an error of the SDK with a wrong class or status.');
  const waits = status === 429 || status === 503;
  const retryAfterSeconds = waits ? RETRY_AFTER_SECONDS : undefined;
  return codeFailure(status, known.detail, clippedWords(errors), { retryAfterSeconds, ...marks });
};

const RESPONSE_HEADERS_MAX = 50;
const RESPONSE_HEADERS_BYTES_MAX = 8192;

/** @returns the headers to send, or what is wrong with them. */
const responseHeaders = (given: Record<string, unknown>): Record<string, string> | string => {
  const entries = Object.entries(given);
  if (entries.length > RESPONSE_HEADERS_MAX) return `must have at most ${RESPONSE_HEADERS_MAX} headers`;
  const headers = Object.create(null) as Record<string, string>;
  let bytes = 0;
  for (const [name, value] of entries) {
    if (!fieldName.test(name)) return 'must have headers with valid names';
    if (typeof value !== 'string' || !fieldValue.test(value)) return 'must have headers with valid values';
    bytes += name.length + value.length;
    if (bytes > RESPONSE_HEADERS_BYTES_MAX) return `must have at most ${RESPONSE_HEADERS_BYTES_MAX} bytes of headers`;
    if (mayCodeSend(name)) headers[name.toLowerCase()] = value;
  }
  return headers;
};

const codeResponse = (
  { status, headers: given, body }: ThrownResponse,
  limits: Pick<RunLimits, 'outputBytesMax'>,
): AppError | CodeResponse => {
  const refuse = (sentence: string): AppError => runtimeError(`A CustomHttpResponseError ${sentence}.`);
  // A status below 200 is not of a final response.
  if (!Number.isInteger(status) || status < 200 || status > 599) return refuse('must have a status from 200 to 599');
  const headers = responseHeaders(given);
  if (typeof headers === 'string') return refuse(headers);
  // RFC 9110 section 6.4.1: responses without content.
  if (body === undefined || body === null || status === 204 || status === 205 || status === 304)
    return new CodeResponse(status, headers, undefined);
  headers['content-type'] ??= typeof body === 'string' ? 'text/plain; charset=utf-8' : 'application/json';
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  // The limit on output holds for thrown responses too.
  return Buffer.byteLength(text) > limits.outputBytesMax ? tooLarge(limits) : new CodeResponse(status, headers, text);
};
