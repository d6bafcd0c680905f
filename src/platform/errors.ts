// The closed list of error codes. Each error has a public message and a private cause; platform/http/problems.ts serializes it
// as a problem document.
import { formatPath } from './json/json.ts';

const statusOf = {
  invalid_input: 400,
  bad_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  conflict: 409,
  gone: 410,
  length_required: 411,
  payload_too_large: 413,
  uri_too_long: 414,
  unsupported_media_type: 415,
  /** The response lists the supported codings: none for the API, a few for the proxy. */
  unsupported_content_coding: 415,
  expectation_failed: 417,
  unprocessable: 422,
  too_many_requests: 429,
  headers_too_large: 431,
  /** Code of a tenant failed, with a status of its own: see codeFailure. */
  code_failed: 500,
  internal: 500,
  /** RFC 9112 section 6.1: a transfer coding that the server does not decode. */
  not_implemented: 501,
  /** The destination of the proxy cannot be reached, or its response is not valid. */
  bad_gateway: 502,
  unavailable: 503,
  gateway_timeout: 504,
} as const;

export type ErrorCode = keyof typeof statusOf;

/** Errors of a request by the path of the property: `data.number`, `[0].type`, empty for the whole body. Never has a value. */
export type FieldErrors = Record<string, string[]>;

export class AppError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly errors: FieldErrors | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** The line of the tenant's code that threw, from 1. */
  readonly codeLine: number | undefined;
  /** The permission that the caller lacks. */
  readonly permission: string | undefined;

  /** `message` is public: the client gets it. `cause` is private: only its code and class are logged. */
  constructor(
    code: ErrorCode,
    message: string,
    more: {
      cause?: unknown;
      errors?: FieldErrors | undefined;
      retryAfterSeconds?: number | undefined;
      codeLine?: number | undefined;
      permission?: string | undefined;
      /** Instead of the status of the code. */
      status?: number;
    } = {},
  ) {
    super(message, { cause: more.cause });
    this.name = 'AppError';
    this.code = code;
    this.status = more.status ?? statusOf[code];
    this.errors = more.errors;
    this.retryAfterSeconds = more.retryAfterSeconds;
    this.codeLine = more.codeLine;
    this.permission = more.permission;
  }
}

/** 400, with all field errors at once. */
export const invalidInput = (errors: FieldErrors, cause?: unknown) =>
  new AppError('invalid_input', 'One or more validation errors occurred.', { errors, cause });

/** 400, with one field error: `invalidField('data.number', 'must be 12 to 19 digits')`. */
export const invalidField = (path: string, sentence: string) => invalidInput(fieldErrors([[path, sentence]]));

/** 400, without a field error. */
export const badRequest = (detail: string) => new AppError('bad_request', detail);

/** 422: the request is valid, but cannot be done. With `errors` where a property is the cause. */
export const unprocessable = (detail: string, errors?: FieldErrors) =>
  new AppError('unprocessable', detail, { errors });

/** 401. The same for a missing, malformed and unknown key, so that an attacker learns nothing. */
export const unauthorized = (detail = 'The API key is missing or not valid.') => new AppError('unauthorized', detail);

/** 403 that names the permission the caller lacks. */
export const forbidden = (permission: string) =>
  new AppError('forbidden', `The permission ${permission} is needed for this.`, { permission });

/** 404. The same for a missing record and one of another tenant, byte for byte. */
export const notFound = (what: string) => new AppError('not_found', `The ${what} was not found.`);

export const conflict = (detail: string, cause?: unknown) => new AppError('conflict', detail, { cause });

export const payloadTooLarge = (detail: string) => new AppError('payload_too_large', detail);

export const unsupportedMediaType = (detail: string) => new AppError('unsupported_media_type', detail);

/** 503 with Retry-After: the database, the audit log or the key provider is unavailable, or a queue is full. */
export const unavailable = (cause?: unknown) =>
  new AppError('unavailable', 'The service cannot answer right now. Try again.', { cause, retryAfterSeconds: 1 });

/** 500. The cause is for operators only. */
export const internal = (cause?: unknown) => new AppError('internal', 'An internal error occurred.', { cause });

/**
 * The failure of a tenant's code. `errors` has text of the code: it is for the client, not for the log, and no part of it may
 * become part of the message.
 * @param detail from a closed list (modules/code/code-errors.ts).
 */
export const codeFailure = (
  status: number,
  detail: string,
  errors: FieldErrors,
  more: { retryAfterSeconds?: number | undefined; codeLine?: number | undefined } = {},
) => new AppError('code_failed', detail, { ...more, status, errors });

/** Field errors from pairs of path and sentence. */
export const fieldErrors = (entries: Iterable<readonly [path: string, sentence: string]>): FieldErrors => {
  // Without a prototype: the paths come from the client.
  const errors = Object.create(null) as FieldErrors;
  for (const [path, sentence] of entries) (errors[path] ??= []).push(sentence);
  return errors;
};

/** Further errors are counted, but not kept. */
const FIELD_ERRORS_MAX = 100;

/**
 * Collects the field errors of a request while it is checked.
 * A class: there is one for each token request, and a closure with accessors costs as much as parsing a card (measured).
 */
export class FieldErrorCollector {
  readonly errors: FieldErrors = fieldErrors([]);
  count = 0;
  #isStopped = false;

  add(path: readonly (string | number)[], sentence: string): void {
    this.count += 1;
    if (this.count <= FIELD_ERRORS_MAX) (this.errors[formatPath(path)] ??= []).push(sentence);
  }

  /** Ends the check: the rest of the request would cost more than its errors are worth. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Whether to end the check. The request is refused then. */
  get stopped(): boolean {
    return this.#isStopped || this.count >= FIELD_ERRORS_MAX;
  }
}

/** Ends a start or a command. The message is for the operator: what is wrong, why, and the command that fixes it. */
export class StartError extends Error {
  override readonly name: string = 'StartError';
  /** Whether a supervisor must not start again by itself, as where tokens lock after some wrong PINs. */
  readonly isFinal: boolean;
  constructor(message: string, options: ErrorOptions & { isFinal?: boolean } = {}) {
    super(message, options);
    this.isFinal = options.isFinal ?? false;
  }
}
