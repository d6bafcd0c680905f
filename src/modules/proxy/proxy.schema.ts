// OpenAPI descriptions of /proxy. They validate nothing: forward.ts does.
import type { FastifySchema } from 'fastify';
import {
  AppError,
  codeFailure,
  failure,
  fieldErrors,
  forbidden,
  invalidField,
  notFound,
  payloadTooLarge,
  unauthorized,
  unavailable,
} from '../../platform/base/errors.ts';
import { echoModes } from '../access/echo-mode.ts';
import { MAY_HAVE_ACTED } from '../../platform/base/egress-fault.ts';
import { CARD_TOKEN_ID, IDEMPOTENCY_KEY_LENGTH_MAX, TRACE_ID } from '../../platform/http/schemas.ts';
import {
  type Components,
  errorResponse,
  headerReferences,
  responseReference,
} from '../../platform/http/openapi/components.ts';
import { problemOf } from '../../platform/http/problems.ts';
import { megabytes } from '../../platform/base/size-text.ts';
import { EXPANDED_BYTES_MAX } from '../tokens/expressions/meter.ts';
import { BODY_TOO_LARGE } from './watch.ts';

const description = `Forwards the request to a destination, with the values of tokens in place of expressions, and returns the response of the destination. The destination is that of a stored proxy (\`SVC-PROXY-KEY\`), or the URL in \`SVC-PROXY-URL\`. Expressions may stand in the path, the query, the headers and the body.

The headers of the request are forwarded, except \`SVC-*\`, those of the connection, and those that reverse proxies set (\`Forwarded\`, \`X-Forwarded-*\`, \`Via\` and similar). The response has the status, headers and body of the destination, except headers about caching and browsers, which the vault sets. A response with \`SVC-PROXY-DESTINATION-STATUS\` came from a destination. An error of the proxy itself is a \`proxy_error\`. With \`SVC-DRY-RUN: true\` and an API key nothing is opened, run or sent: the response says what decides about each token, and shows the request with masks in place of values.`;

const below = {
  '/': '',
  '/*': ' The path and the query are appended to those of the destination.',
};

const actor = 'A stored proxy with `require_auth: false` needs no API key: without one, its application is the caller.';

/** An API key, an API key with the key of a stored proxy, or the key of a stored proxy alone. */
const security: Record<string, string[]>[] = [
  { ApiKey: [] },
  { ApiKey: [], ProxyKeyHeader: [] },
  { ApiKey: [], ProxyKeyQuery: [] },
  { ProxyKeyHeader: [] },
  { ProxyKeyQuery: [] },
];

const securitySchemes = {
  ProxyKeyHeader: {
    type: 'apiKey',
    in: 'header',
    name: 'SVC-PROXY-KEY',
    description: 'The key of a stored proxy. An API key is also needed unless `require_auth` of the proxy is false.',
  },
  ProxyKeyQuery: {
    type: 'apiKey',
    in: 'query',
    name: 'svc-proxy-key',
    description:
      'The key of a stored proxy, for clients that cannot set a header. If a request has both, they must be equal. The proxy does not forward it.',
  },
};

const parameters = {
  ProxyKey: {
    name: 'SVC-PROXY-KEY',
    in: 'header',
    required: false,
    description: 'The key of the stored proxy to use. With it, the server ignores `SVC-PROXY-URL`.',
    schema: { type: 'string' },
  },
  ProxyPath: {
    name: 'path',
    in: 'path',
    required: true,
    description:
      'The path to append to the path of the destination. Slashes are forwarded as they are. Values of expressions are percent-encoded.',
    schema: { type: 'string' },
    example: 'charges',
  },
  EchoGuard: {
    name: 'SVC-ECHO-GUARD',
    in: 'header',
    required: false,
    description:
      'Searches the response for the values that the request opened: `mask` writes the id of the token in place of a value, `block` answers 502. It can only make the guard stricter than the proxy or the application says.',
    schema: { type: 'string', enum: [...echoModes] },
    example: 'mask',
  },
  IdempotencyKey: {
    name: 'SVC-IDEMPOTENCY-KEY',
    in: 'header',
    required: false,
    description:
      'Sends the request once, however often it comes with this key within 24 hours: a repetition gets the first response, with `SVC-IDEMPOTENT-REPLAYED: true`. It needs an API key and counts for one application. The destination does not get it. A plain `Idempotency-Key` is forwarded, and is for the destination.',
    schema: { type: 'string', maxLength: IDEMPOTENCY_KEY_LENGTH_MAX },
    example: 'order-4711',
  },
  ProxyUrl: {
    name: 'SVC-PROXY-URL',
    in: 'header',
    required: false,
    description:
      'The base URL to forward to, without a stored proxy: an https URL with the name of a host, not an address.',
    schema: { type: 'string', format: 'uri' },
    example: 'https://api.example.com/v1',
  },
};

const headers = {
  'SVC-CVC': {
    description:
      'What became of the security codes that the request sent: `consumed`, `kept`, or `none` if it sent none. Absent where the proxy lets codes live to the end of their time.',
    required: false,
    schema: { type: 'string', enum: ['consumed', 'kept', 'none'] },
    example: 'consumed',
  },
  'SVC-FORWARD-ID': {
    description: 'The id of the record of a request with an idempotency key.',
    required: false,
    schema: { type: 'string', format: 'uuid' },
    example: '019ac3d5-7f63-7b1e-9a64-0f2d7c5b8e13',
  },
  'SVC-ECHOES': {
    description:
      'How many values the echo guard has masked in the response. A trailer where the body is not held. Absent where the guard is off.',
    required: false,
    schema: { type: 'integer', minimum: 0 },
    example: 0,
  },
  'SVC-PROXY-DESTINATION-STATUS': {
    description: 'The status of the response of the destination. Absent where no destination responded.',
    required: false,
    schema: { type: 'integer', minimum: 200, maximum: 999 },
    example: 200,
  },
};

const codeError = (status: number, message: string): AppError =>
  codeFailure(status, 'Reactor Runtime Error', fieldErrors([['error', message, 'thrown']]));

/** The errors of the proxy itself, by name. Code can cause further ones, with the error classes of the SDK. */
const failures: Record<string, [description: string, example: AppError]> = {
  ProxyBadRequest: [
    'The request cannot be forwarded. `errors` names what is wrong, `detail` names unknown tokens.',
    invalidField('SVC-PROXY-URL', 'The destination must be an https URL.'),
  ],
  ProxyUnauthorized: ['The proxy needs an API key, and it is missing, malformed or unknown.', unauthorized()],
  ProxyForbidden: [
    'The caller lacks `token:use` for a token, or a browser opened the URL as a page. Without an API key the caller is the application of the proxy.',
    forbidden('token:use'),
  ],
  ProxyNotFound: ['No proxy has this key, or it belongs to another tenant.', notFound('proxy')],
  ProxyCodeTimeout: [
    'A transform did not end in time: `errors.error` names the limit.',
    codeError(408, 'The code must end within 30 s.'),
  ],
  ProxyConflict: [
    'A request with this idempotency key is under way (`Retry-After`), its outcome is not known (`outcome_unknown`, with `forward_id`), or its response was not kept (`answer_not_kept`) or may not be shown today.',
    failure('outcome_unknown', 'The outcome of the first request is not known.', {
      forwardId: '019ac3d5-7f63-7b1e-9a64-0f2d7c5b8e13',
    }),
  ],
  ProxyPayloadTooLarge: [
    'The body is over a limit: of the operator, of bodies with expressions, of compressed bodies, or of what a transform can read. Or the response of the destination is over the limit of what a transform can read.',
    payloadTooLarge(BODY_TOO_LARGE),
  ],
  ProxyUnsupportedMediaType: [
    'The body has a `Content-Encoding` that the proxy cannot decode to look for expressions: `Accept-Encoding` names those that it can. Or it is text in a charset that the proxy does not read: `detail` names it.',
    new AppError(
      'unsupported_content_coding',
      'The Content-Encoding must be one or two of gzip, deflate, br: the proxy looks at the body.',
    ),
  ],
  ProxyUnprocessable: [
    'A transform returned a result that cannot be sent: `errors.error` says why. Or the idempotency key was used for another request.',
    codeError(
      422,
      'The request transform must return an object with `body` and `headers`: there is no body; return null to send none.',
    ),
  ],
  ProxyTooManyRequests: [
    'Too much code of the tenant is running, or too many authentications failed from one address.',
    failure('too_many_runs', 'The tenant runs as much code as it may. Wait and try again.'),
  ],
  ProxyInternalError: [
    'A transform failed, and `errors.error` has its message. Or the server failed, and `errors` is empty.',
    codeError(500, 'card is not defined'),
  ],
  ProxyBadGateway: [
    'The destination cannot be reached, its certificate is not valid, or its response is not valid HTTP.',
    new AppError('bad_gateway', 'No secure connection to the destination could be made.'),
  ],
  ProxyUnavailable: [
    'The database or an encryption key cannot be reached, or the server has no capacity to run code or to hold bodies.',
    unavailable(),
  ],
  ProxyGatewayTimeout: [
    'The destination did not respond in time. It may have done what the request asked for.',
    new AppError('gateway_timeout', `The destination did not answer in time. ${MAY_HAVE_ACTED}`),
  ],
};

const failureResponses = Object.entries(failures).map(([name, [text, error]]) => {
  const proxy_error = { ...problemOf(error, TRACE_ID), errors: { ...error.errors }, codes: { ...error.codes } };
  // Without a schema: the destination may respond with the same status, and with any body.
  return [name, errorResponse(text, error, { 'application/json': { schema: {}, example: { proxy_error } } })] as const;
});

/** Requests and responses may have any body. */
const anyContent = (summary: string, json: unknown, other: unknown) => ({
  'application/json': { schema: {}, examples: { charge: { summary, value: json } } },
  '*/*': { schema: {}, examples: { charge: { summary, value: other } } },
});

const cardNumber = `{{ ${CARD_TOKEN_ID} | json: '$.number' }}`;
const charged = { id: 'ch_1', status: 'succeeded' };

export const proxyComponents: Components = {
  headers,
  parameters,
  requestBodies: {
    Forwarded: {
      required: false,
      description: `A body of any type. The proxy replaces expressions in JSON, forms, XML, HTML, other text and the text parts of multipart bodies, up to ${megabytes(EXPANDED_BYTES_MAX)}. It forwards other bodies as they are.`,
      content: anyContent('A charge with a card', { amount: 1250, number: cardNumber }, `number=${cardNumber}`),
    },
  },
  responses: {
    ...Object.fromEntries(failureResponses),
    DestinationAnswer: {
      description:
        'The response of the destination: its status, headers and body. A response transform may have changed it or taken its place.',
      headers: headerReferences(
        'SVC-TRACE-ID',
        'SVC-PROXY-DESTINATION-STATUS',
        'SVC-ECHOES',
        'SVC-CVC',
        'SVC-FORWARD-ID',
        'SVC-IDEMPOTENT-REPLAYED',
      ),
      content: anyContent('A response of a payment API', charged, charged),
    },
  },
  securitySchemes,
};

/** Responses by status. The destination may respond with any status, also with those of the proxy itself. */
const responses: Record<string, { $ref: string }> = {
  ...Object.fromEntries(Object.entries(failures).map(([name, [, { status }]]) => [status, responseReference(name)])),
  200: responseReference('DestinationAnswer'),
  default: responseReference('DestinationAnswer'),
};

const reference = (name: string) => ({ $ref: `#/components/parameters/${name}` });

/** @param url /proxy itself, or all paths below it. */
export const forwardedSchema = (method: string, url: keyof typeof below): FastifySchema => {
  const isBelow = url === '/*';
  const name = method.charAt(0) + method.slice(1).toLowerCase();
  return {
    operationId: isBelow ? `invokeProxyPath${name}` : `invokeProxy${name}`,
    summary: isBelow ? `Send a ${method} to a path of a destination` : `Send a ${method} to a destination`,
    description: `${description}${below[url]}\n\nPermission: \`token:use\`. ${actor}`,
    tags: ['Proxy'],
    forwarded: {
      security,
      parameters: [
        ...(isBelow ? ['ProxyPath'] : []),
        'ProxyKey',
        'ProxyUrl',
        'EchoGuard',
        ...(method === 'GET' ? [] : ['IdempotencyKey']),
      ].map(reference),
      // A GET may have a body, which is forwarded, but OpenAPI does not allow to describe it.
      ...(method !== 'GET' && { requestBody: { $ref: '#/components/requestBodies/Forwarded' } }),
      responses,
    },
  };
};
