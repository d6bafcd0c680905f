// The closed lists of codes in problem documents: of a problem, and of each sentence in its `errors`. Clients depend on them.
import { depthProblem, type Json, JSON_DEPTH_MAX, numberProblem, walkJson } from './json.ts';
import type { Slices } from './slices.ts';

// Checks that a JSON value can be stored exactly: its numbers and its depth.

type JsonProblem = { path: (string | number)[]; sentence: string; code: FieldCode };

const sentenceOn = (value: Json, depth: number): string | undefined => {
  if (typeof value === 'number') return numberProblem(value);
  return typeof value === 'object' && value !== null && depth === JSON_DEPTH_MAX ? depthProblem() : undefined;
};

/** The first reason why a parsed value cannot be stored exactly, or undefined. Stops at JSON_DEPTH_MAX. */
export function* findJsonProblem(root: Json): Slices<JsonProblem | undefined> {
  const walk = walkJson(root);
  while (walk.next()) {
    const sentence = sentenceOn(walk.value, walk.depth);
    if (sentence !== undefined)
      return { path: walk.path(), sentence, code: typeof walk.value === 'number' ? 'inexact_number' : 'too_deep' };
    if (walk.isPauseDue()) yield;
  }
  return undefined;
}

/** The kinds of failures: each has a status, and a code of its own unless a cause below says more. */
export const failureKinds = {
  invalid_input: [400, 'Properties of the request are not valid: `errors` and `codes` name them'],
  bad_request: [400, 'The request as a whole cannot be served: `detail` says why'],
  unauthorized: [401, 'The API key is missing or not valid'],
  forbidden: [403, 'The caller may not do this: `detail` says why'],
  not_found: [404, 'There is no such record or path, or it belongs to another tenant'],
  method_not_allowed: [405, 'The path does not have the method: `Allow` lists those that it has'],
  request_timeout: [408, 'The request arrived too slowly'],
  conflict: [409, 'The request contradicts what is stored: `detail` says how'],
  gone: [410, 'The page or form was for one use, and is used or ended'],
  length_required: [411, 'The body needs a `Content-Length`'],
  payload_too_large: [413, 'The request or its response is above a limit'],
  uri_too_long: [414, 'The path is too long'],
  unsupported_media_type: [415, 'The body has another type or charset than the operation takes'],
  unsupported_content_coding: [415, 'The body has a `Content-Encoding` that the operation does not take'],
  expectation_failed: [417, 'The header `Expect` has another value than `100-continue`'],
  unprocessable: [422, 'The request is valid, but cannot be done: `detail` says why'],
  too_many_requests: [429, 'A limit is reached: wait for `Retry-After`'],
  headers_too_large: [431, 'The headers are too large'],
  code_failed: [500, 'Code of the tenant failed, with the status that its error has: `errors` has its message'],
  internal: [500, 'The server failed: its operator finds the cause by `trace_id`'],
  not_implemented: [501, 'The request has a `Transfer-Encoding` other than `chunked`'],
  bad_gateway: [502, 'The destination cannot be reached or trusted, or its response is not valid'],
  unavailable: [503, 'The server cannot serve the request right now: send it again'],
  gateway_timeout: [504, 'The destination did not respond in time'],
} as const satisfies Record<string, readonly [status: number, meaning: string]>;

export type ErrorCode = keyof typeof failureKinds;

/** Causes that a client can tell apart by more than the kind of the failure. */
export const failureCauses = {
  misplaced_key: ['unauthorized', 'An API key is in another header than `SVC-API-KEY`'],
  permission_missing: ['forbidden', 'The caller lacks the permission that `detail` names'],
  second_factor_needed: ['forbidden', 'The member must give the second factor again'],
  already_exists: ['conflict', 'A record with this id, value or pair exists'],
  in_use: ['conflict', 'Other records need the record'],
  too_many_records: ['conflict', 'There are as many records as there may be: delete some first'],
  idempotency_in_progress: ['conflict', 'The first request with this idempotency key is under way'],
  idempotency_not_shown: ['conflict', 'The response to this idempotency key is gone, or may not be shown today'],
  outcome_unknown: ['conflict', 'The request was sent, and its outcome is not known: `forward_id` names its record'],
  answer_not_kept: ['conflict', 'The request was answered, and its response was not kept'],
  idempotency_key_reused: ['unprocessable', 'The idempotency key was used for another request'],
  code_not_runnable: ['unprocessable', 'The code does not compile, or exports no function'],
  too_many_failures: ['too_many_requests', 'Too many authentications failed from this address'],
  rate_limit: ['too_many_requests', "The application's `rate_limit` is reached"],
  daily_limit: ['too_many_requests', 'A daily limit of the application is reached'],
  too_many_runs: ['too_many_requests', 'The tenant runs as much code as it may at the same time'],
  no_tenant: ['unavailable', 'The vault has no tenant yet'],
  sealed: ['unavailable', 'The vault is sealed'],
} as const satisfies Record<string, readonly [kind: ErrorCode, meaning: string]>;

export type FailureCause = keyof typeof failureCauses;

/** The `code` of a problem. */
export type ProblemCode = ErrorCode | FailureCause;

/** The codes of sentences in `errors`. */
export const fieldCodes = {
  required: 'A value is needed here',
  wrong_type: 'The value has another JSON type than the property takes',
  not_allowed: 'The value is none of those that the property takes, or may not be there for this caller',
  too_small: 'The number is too small, or the text or list too short',
  too_large: 'The number is too large, or the text or list too long',
  check_digit: 'The check digit of the number is wrong',
  in_the_past: 'The time must be in the future',
  unknown_name: 'The operation has no such property or parameter',
  not_supported: 'A property of the earlier API that this server does not have',
  not_json: 'The text is not JSON',
  duplicate_name: 'An object of the body has the name twice',
  forbidden_name: 'An object of the body has a name that could change a prototype',
  too_deep: 'Arrays and objects are nested too deep',
  inexact_number: 'A double would change the number: send it as a string',
  not_storable: 'The text has NUL or half of a surrogate pair',
  bad_expression: 'An expression is not valid here, or cannot be evaluated',
  bad_query: 'The search query is not valid',
  permission_missing: 'In a partial batch: the caller lacks the permission that the sentence names, for this item',
  not_found: 'In a partial batch: there is no such token, or it belongs to another tenant',
  already_exists: 'In a partial batch: a token with this id exists, or an item before has it',
  daily_limit: 'In a partial batch: the item is over a daily limit of the application',
  thrown: "A text of the tenant's code",
  invalid: 'The value does not have the form that the sentence names',
} as const satisfies Record<string, string>;

export type FieldCode = keyof typeof fieldCodes;
