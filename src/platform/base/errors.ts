// The closed list of error codes. Each error has a public message and a private cause; platform/http/problems.ts serializes it
// as a problem document.
import { formatPath } from '../json/json.ts';
import {
  type ErrorCode,
  type FailureCause,
  failureCauses,
  failureKinds,
  type FieldCode,
  type ProblemCode,
} from '../json/problem-codes.ts';

export type { ErrorCode, FieldCode } from '../json/problem-codes.ts';

/** What is wrong with a property. Never has a value. */
export type FieldError = {
  /** `data.number`, `[0].type`, or empty for the whole body. */
  readonly path: string;
  readonly sentence: string;
  readonly code: FieldCode;
};

export type FieldErrors = readonly FieldError[];

/** The path of the whole body in problems. */
const WHOLE_BODY = 'body';

/** A part of each field error by its path, for a problem: no path is empty there. */
export const byPath = <Part extends 'sentence' | 'code'>(
  part: Part,
  errors: FieldErrors,
): Record<string, FieldError[Part][]> => {
  // Without a prototype: the paths come from the client.
  const found = Object.create(null) as Record<string, FieldError[Part][]>;
  for (const error of errors) (found[error.path === '' ? WHOLE_BODY : error.path] ??= []).push(error[part]);
  return found;
};

/** The log row of a refusal that is about more than a permission. */
export type RefusedAs = {
  operation: 'use';
  entity_type: string;
  entity_ids: string[];
  message: string;
  destination_host: string | undefined;
};

type ErrorParts = {
  cause?: unknown;
  fieldErrors?: FieldErrors | undefined;
  failureCause?: FailureCause | undefined;
  retryAfterSeconds?: number | undefined;
  codeLine?: number | undefined;
  codeError?: string | undefined;
  permission?: string | undefined;
  refused?: RefusedAs | undefined;
  forwardId?: string | undefined;
  /** Instead of the status of the code. */
  status?: number;
};

export class AppError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly fieldErrors: FieldErrors | undefined;
  /** What the client is told, where it is more than `code`. */
  readonly failureCause: FailureCause | undefined;
  readonly retryAfterSeconds: number | undefined;
  /** The line of the tenant's code that threw, from 1. */
  readonly codeLine: number | undefined;
  /** The name of its error, from a closed list: never a text of code. */
  readonly codeError: string | undefined;
  /** The permission that the caller lacks. */
  readonly permission: string | undefined;
  readonly refused: RefusedAs | undefined;
  /** The record of the forwarded request that the error is about. */
  readonly forwardId: string | undefined;

  /** `message` is public: the client gets it. `cause` is private: only its code and class are logged. */
  constructor(code: ErrorCode, message: string, more: ErrorParts = {}) {
    super(message, { cause: more.cause });
    this.name = 'AppError';
    this.code = code;
    this.status = more.status ?? failureKinds[code][0];
    this.fieldErrors = more.fieldErrors;
    this.failureCause = more.failureCause;
    this.retryAfterSeconds = more.retryAfterSeconds;
    this.codeLine = more.codeLine;
    this.codeError = more.codeError;
    this.permission = more.permission;
    this.refused = more.refused;
    this.forwardId = more.forwardId;
  }

  /** The sentences about each property, by its path. */
  get errors(): Record<string, string[]> | undefined {
    return this.fieldErrors && byPath('sentence', this.fieldErrors);
  }

  /** The codes of the sentences in `errors`, in their order. */
  get codes(): Record<string, FieldCode[]> | undefined {
    return this.fieldErrors && byPath('code', this.fieldErrors);
  }

  get problemCode(): ProblemCode {
    return this.failureCause ?? this.code;
  }
}

/** 400, with all field errors at once. */
export const invalidInput = (fieldErrors: FieldErrors, cause?: unknown) =>
  new AppError('invalid_input', 'One or more validation errors occurred.', { fieldErrors, cause });

/** 400, with one field error: `invalidField('data.number', 'must be 12 to 19 digits')`. */
export const invalidField = (path: string, sentence: string, code: FieldCode = 'invalid') =>
  invalidInput([{ path, sentence, code }]);

/** 400, without a field error. */
export const badRequest = (detail: string) => new AppError('bad_request', detail);

/** 422: the request is valid, but cannot be done. */
export const unprocessable = (detail: string) => new AppError('unprocessable', detail);

/** 401. The same for a missing, malformed and unknown key, so that an attacker learns nothing. */
export const unauthorized = (detail = 'The API key is missing or not valid.') => new AppError('unauthorized', detail);

/** 403 that names the permission the caller lacks. */
export const forbidden = (permission: string) =>
  failure('permission_missing', `The permission ${permission} is needed for this.`, { permission });

/** 404. The same for a missing record and one of another tenant, byte for byte. */
export const notFound = (what: string) => new AppError('not_found', `The ${what} was not found.`);

export const conflict = (detail: string, cause?: unknown) => new AppError('conflict', detail, { cause });

/** 409 for what cannot be there twice. */
export const alreadyExists = (detail = 'A record with this id already exists.', cause?: unknown) =>
  failure('already_exists', detail, { cause });

/** 409 where there are as many records as there may be. */
export const tooManyRecords = (detail: string) => failure('too_many_records', detail);

export const payloadTooLarge = (detail: string) => new AppError('payload_too_large', detail);

export const unsupportedMediaType = (detail: string) => new AppError('unsupported_media_type', detail);

/** 503 with Retry-After: the database, the audit log or the key provider is unavailable, or a queue is full. */
export const unavailable = (cause?: unknown) =>
  new AppError('unavailable', 'The service cannot answer right now. Try again.', { cause, retryAfterSeconds: 1 });

/** 500. The cause is for operators only. */
export const internal = (cause?: unknown) => new AppError('internal', 'An internal error occurred.', { cause });

/** A failure with a code of its own. */
export const failure = (failureCause: FailureCause, detail: string, more: ErrorParts = {}) =>
  new AppError(failureCauses[failureCause][0], detail, { ...more, failureCause });

/**
 * The failure of a tenant's code. `fieldErrors` has text of the code: it is for the client, not for the log, and no part of it may
 * become part of the message.
 * @param detail from a closed list (modules/code/code-errors.ts).
 */
export const codeFailure = (
  status: number,
  detail: string,
  fieldErrors: FieldErrors,
  more: Pick<ErrorParts, 'retryAfterSeconds' | 'codeLine' | 'codeError'> = {},
) => new AppError('code_failed', detail, { ...more, status, fieldErrors });

/** Field errors from pairs of path and sentence, with a code where one says more than that the value is invalid. */
export const fieldErrors = (
  entries: Iterable<readonly [path: string, sentence: string, code?: FieldCode]>,
): FieldErrors => Array.from(entries, ([path, sentence, code = 'invalid']) => ({ path, sentence, code }));

/** Further errors are counted, but not kept. */
const FIELD_ERRORS_MAX = 100;

/**
 * Collects the field errors of a request while it is checked.
 * A class: there is one for each token request, and a closure with accessors costs as much as parsing a card (measured).
 */
export class FieldErrorCollector {
  readonly errors: FieldError[] = [];
  count = 0;
  #isStopped = false;

  add(path: readonly (string | number)[], sentence: string, code: FieldCode = 'invalid'): void {
    this.count += 1;
    if (this.count <= FIELD_ERRORS_MAX) this.errors.push({ path: formatPath(path), sentence, code });
  }

  /** Ends the check: the rest of the request would cost more than its errors are worth. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Whether the rest of the request is not worth its cost, whatever else is right. */
  get isSpent(): boolean {
    return this.#isStopped;
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
