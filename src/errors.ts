// The closed list of what can go wrong, each with a public sentence and a private cause.
// Knows nothing of HTTP beyond the status a code stands for; http/problems.ts gives it its wire shape.

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
  payload_too_large: 413,
  uri_too_long: 414,
  unsupported_media_type: 415,
  /** Told with the codings that are supported: none of the API, a few of the proxy. */
  unsupported_content_coding: 415,
  expectation_failed: 417,
  unprocessable: 422,
  too_many_requests: 429,
  headers_too_large: 431,
  /** A tenant's code failed, and says with which status: see codeFailure. */
  code_failed: 500,
  internal: 500,
  /** The destination of the proxy cannot be reached, or does not answer as it should. */
  bad_gateway: 502,
  unavailable: 503,
  gateway_timeout: 504,
} as const;

export type ErrorCode = keyof typeof statusOf;

/** Property path (`data.number`, `[0].type`, empty for the whole) to sentences about it. Never holds a value. */
export type FieldErrors = Record<string, string[]>;

export class AppError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly errors: FieldErrors | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** Where in a tenant's code it was thrown, from 1. */
  readonly codeLine: number | undefined;
  /** The permission that the caller lacks. */
  readonly permission: string | undefined;

  /** `message` is public: it goes to the caller as it is. `cause` is private: it goes to our log by code and class only. */
  constructor(
    code: ErrorCode,
    message: string,
    more: {
      cause?: unknown;
      errors?: FieldErrors | undefined;
      retryAfterSeconds?: number | undefined;
      codeLine?: number | undefined;
      permission?: string | undefined;
      /** In place of the code's own. */
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

/** 400. All failing fields at once; see FieldErrors for the paths. */
export const invalidInput = (errors: FieldErrors, cause?: unknown) =>
  new AppError('invalid_input', 'One or more validation errors occurred.', { errors, cause });

/** 400 for one field: `invalidField('data.number', 'must be 13 to 19 digits')`. */
export const invalidField = (path: string, sentence: string) => invalidInput(fieldErrors([[path, sentence]]));

/** 400 with a sentence of its own, where no field is to blame. */
export const badRequest = (detail: string) => new AppError('bad_request', detail);

/** 422: understood, and not to be done. With `errors` where a property is to blame. */
export const unprocessable = (detail: string, errors?: FieldErrors) =>
  new AppError('unprocessable', detail, { errors });

/** 401. One body for a missing, malformed and unknown key, so that guessing teaches nothing. */
export const unauthorized = (detail = 'The API key is missing or not valid.') => new AppError('unauthorized', detail);

/** 403 that names the permission the caller lacks. */
export const forbidden = (permission: string) =>
  new AppError('forbidden', `The permission ${permission} is needed for this.`, { permission });

/** 404. Missing and forbidden-to-see look the same, across tenants byte for byte. */
export const notFound = (what: string) => new AppError('not_found', `The ${what} was not found.`);

export const conflict = (detail: string, cause?: unknown) => new AppError('conflict', detail, { cause });

export const payloadTooLarge = (detail: string) => new AppError('payload_too_large', detail);

export const unsupportedMediaType = (detail: string) => new AppError('unsupported_media_type', detail);

/** 503 with Retry-After: the database, the audit log or the key provider is away, or a queue is full. */
export const unavailable = (cause?: unknown) =>
  new AppError('unavailable', 'The service cannot answer right now. Try again.', { cause, retryAfterSeconds: 1 });

/** 500. The cause is for operators; the caller only learns that it was us. */
export const internal = (cause?: unknown) => new AppError('internal', 'An internal error occurred.', { cause });

/**
 * What a tenant's code answers in place of a result. `errors` are the words of the code, for its caller and not for our log:
 * none of them may become part of the message.
 * @param detail from a closed list (runtime/code-errors.ts).
 */
export const codeFailure = (
  status: number,
  detail: string,
  errors: FieldErrors,
  more: { retryAfterSeconds?: number | undefined; codeLine?: number | undefined } = {},
) => new AppError('code_failed', detail, { ...more, status, errors });

/** Gathers sentences under their paths, on an object without a prototype: paths come from outside. */
export const fieldErrors = (entries: Iterable<readonly [path: string, sentence: string]>): FieldErrors => {
  const errors = Object.create(null) as FieldErrors;
  for (const [path, sentence] of entries) (errors[path] ??= []).push(sentence);
  return errors;
};

/** A start or command that cannot go on. The message is for the operator: what, why, and the command that mends it. */
export class StartError extends Error {
  override readonly name: string = 'StartError';
}
