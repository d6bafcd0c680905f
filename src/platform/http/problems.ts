// Serializes every error as a problem document (RFC 9457). Errors of libraries become a generic problem: the client never gets
// a message of a parser, a driver or a library.
import { STATUS_CODES } from 'node:http';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { App } from './app-type.ts';
import { hasZodFastifySchemaValidationErrors } from 'fastify-type-provider-zod';
import {
  AppError,
  badRequest,
  fieldErrors,
  internal,
  invalidField,
  invalidInput,
  notFound,
  payloadTooLarge,
  unavailable,
  unsupportedMediaType,
} from '../base/errors.ts';
import { formatPath } from '../json/json.ts';
import type { FieldCode, ProblemCode } from '../json/problem-codes.ts';
import { CHUNKS_RULE } from '../base/small-chunks.ts';
import { sendAnswer } from './answers.ts';
import { TOO_MANY_CHUNKS } from './metered-bodies.ts';
import { ownProxyHeaders } from './proxy-answer-headers.ts';
import { headersOf, traceIdsOf } from './trace.ts';

export type Problem = {
  title: string;
  status: number;
  code: ProblemCode;
  detail?: string;
  instance?: string;
  errors?: Record<string, string[]>;
  codes?: Record<string, FieldCode[]>;
  forward_id?: string;
  trace_id: string;
  otel_trace_id?: string;
};

/** A PATCH is a merge patch (RFC 7396) by either name: many clients send all JSON as `application/json`. */
export const patchMediaTypes: readonly string[] = ['application/merge-patch+json', 'application/json'];

/** @throws unsupportedMediaType for a PATCH of another type. */
export const requirePatchType = ({ headers }: FastifyRequest): void => {
  const [type = ''] = (headers['content-type'] ?? '').split(';', 1);
  if (!patchMediaTypes.includes(type.trim().toLowerCase()))
    throw unsupportedMediaType(`The body must be ${patchMediaTypes.join(' or ')}.`);
};

const CHALLENGE = 'ApiKey header="SVC-API-KEY"';

/** Headers, as clients depend on the attributes of the problem. */
const CODE_LINE = 'svc-code-line';
const CODE_ERROR = 'svc-code-error';

/** The path of an error that belongs to no part of the request. */
const REQUEST = 'request';

const VALIDATION_TITLE = 'One or more validation errors occurred.';

/**
 * The title is the phrase of the status, except for validation errors. Errors that a tenant's code throws have the title of
 * validation errors too, with their class as `detail`: clients of the earlier API expect it.
 */
export const problemOf = (error: AppError, trace_id: string, otel_trace_id?: string): Problem => {
  const invalid = error.code === 'invalid_input';
  const problem: Problem = {
    title: invalid || error.code === 'code_failed' ? VALIDATION_TITLE : (STATUS_CODES[error.status] ?? 'Error'),
    status: error.status,
    code: error.problemCode,
    trace_id,
  };
  if (otel_trace_id !== undefined) problem.otel_trace_id = otel_trace_id;
  if (!invalid) problem.detail = error.message;
  if (error.forwardId !== undefined) problem.forward_id = error.forwardId;
  const { errors, codes } = error;
  if (errors && codes) Object.assign(problem, { errors, codes });
  return problem;
};

/** Errors of Fastify by their code. */
const fastifyErrors: Record<string, (bodyBytesMax: number) => AppError> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () => unsupportedMediaType('The body must be application/json.'),
  FST_ERR_CTP_BODY_TOO_LARGE: (most) => payloadTooLarge(`The body must be at most ${most} bytes.`),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    invalidField('headers.content-length', 'the body does not have the length that Content-Length says'),
  FST_ERR_BAD_URL: () => invalidField('path', 'must be percent-encoded UTF-8'),
  FST_ERR_MAX_PARAM_LENGTH: () => notFound('resource'),
};

export const toAppError = (error: unknown, bodyBytesMax: number): AppError => {
  if (error instanceof AppError) return error;
  if (hasZodFastifySchemaValidationErrors(error)) {
    const issues = error.validation.map((issue): [string, string] => {
      const path = issue.instancePath
        .split('/')
        .slice(1)
        .map((step) => (/^\d+$/.test(step) ? Number(step) : step));
      return [formatPath(path), issue.message ?? 'is not valid'];
    });
    return invalidInput(fieldErrors(issues));
  }
  const { code, statusCode } = error as FastifyError;
  const known = typeof code === 'string' && Object.hasOwn(fastifyErrors, code) ? fastifyErrors[code] : undefined;
  if (known) return known(bodyBytesMax);
  if (statusCode === 503) return unavailable(error);
  // Another error of Fastify about the request. Its message stays on the server.
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return invalidInput(fieldErrors([[REQUEST, 'the request is not valid']]), error);
  return internal(error);
};

const problemFor = ({ request }: FastifyReply, error: AppError): Problem =>
  problemOf(error, request.id, request.otel_trace_id);

export const sendProblem = (reply: FastifyReply, error: AppError): FastifyReply => {
  const headers: Record<string, string> = { 'content-type': 'application/problem+json' };
  if (error.status === 401) headers['www-authenticate'] = CHALLENGE;
  // RFC 5789 section 2.2.
  if (error.status === 415 && reply.request.method === 'PATCH') headers['accept-patch'] = patchMediaTypes.join(', ');
  if (error.retryAfterSeconds !== undefined) headers['retry-after'] = String(error.retryAfterSeconds);
  if (error.codeLine !== undefined) headers[CODE_LINE] = String(error.codeLine);
  if (error.codeError !== undefined) headers[CODE_ERROR] = error.codeError;
  // RFC 9110 section 15.5.16.
  if (error.code === 'unsupported_content_coding') headers['accept-encoding'] = 'identity';
  return sendAnswer(reply, {
    status: error.status,
    headers,
    body: JSON.stringify(problemFor(reply, error)),
  });
};

/** An error of the proxy: the problem within `proxy_error`, so that clients can tell it from a response of the destination. */
export const sendProxyProblem = (reply: FastifyReply, error: AppError): FastifyReply => {
  if (error.status === 401) reply.header('www-authenticate', CHALLENGE);
  if (error.retryAfterSeconds !== undefined) reply.header('retry-after', String(error.retryAfterSeconds));
  if (error.codeLine !== undefined) reply.header(CODE_LINE, String(error.codeLine));
  if (error.codeError !== undefined) reply.header(CODE_ERROR, error.codeError);
  const problem = problemFor(reply, error);
  if (error.code === 'bad_request') problem.title = 'Invalid proxy request';
  problem.errors ??= {};
  problem.codes ??= {};
  return reply
    .status(error.status)
    .headers(ownProxyHeaders)
    .type('application/json')
    .send(JSON.stringify({ proxy_error: problem }));
};

/**
 * Sends a problem document for every error.
 * @param refused called with each error before it is sent, to write it to the audit log.
 */
export const addErrorHandler = (
  app: App,
  bodyBytesMax: number,
  refused: (request: FastifyRequest, error: AppError) => Promise<void>,
): void => {
  app.setErrorHandler(async (error, request: FastifyRequest, reply) => {
    const problem = toAppError(error, bodyBytesMax);
    await refused(request, problem);
    // An error of a tenant's code is no error of the server.
    if (problem.status >= 500 && problem.code !== 'code_failed')
      request.log.error({ ...traceIdsOf(request), error: problem, code: problem.code }, 'a request failed');
    return sendProblem(reply, problem);
  });
};

/** Errors of Fastify before its hooks run, such as for an invalid path, with the headers that the hooks would have set. */
export const sendFrameworkProblem = (
  reply: FastifyReply,
  error: unknown,
  bodyBytesMax: number,
  servesProxy: boolean,
): void => {
  reply.headers(headersOf(reply.request.id));
  const isForwarded = servesProxy && /^\/proxy(?:[/?]|$)/.test(reply.request.raw.url ?? '');
  (isForwarded ? sendProxyProblem : sendProblem)(reply, toAppError(error, bodyBytesMax));
};

/** Errors of Node's HTTP parser and of the meter, beside the framework: a whole response for the socket. */
export const rawProblem = (code: string | undefined, trace_id: string): string => {
  const known: Record<string, AppError> = {
    HPE_HEADER_OVERFLOW: new AppError('headers_too_large', 'The headers are too large.'),
    ERR_HTTP_REQUEST_TIMEOUT: new AppError('request_timeout', 'The request did not arrive in time.'),
    [TOO_MANY_CHUNKS]: badRequest(`The body has ${CHUNKS_RULE}. Send it in larger chunks.`),
  };
  const error = known[code ?? ''] ?? invalidField(REQUEST, 'the request is not valid HTTP');
  const body = JSON.stringify(problemOf(error, trace_id));
  return [
    `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`,
    'Content-Type: application/problem+json',
    ...Object.entries(headersOf(trace_id)).map(([name, value]) => `${name}: ${value}`),
    'Connection: close',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n');
};
