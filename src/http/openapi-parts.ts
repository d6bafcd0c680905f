// The parts of the OpenAPI document that no single route says: its front page, its tags, who may call, and the failures.
// Knows no route; http/openapi.ts puts it together with theirs.
import {
  AppError,
  codeFailure,
  conflict,
  fieldErrors,
  forbidden,
  internal,
  invalidField,
  invalidInput,
  notFound,
  payloadTooLarge,
  unauthorized,
  unavailable,
  unsupportedMediaType,
} from '../errors.ts';
import { version } from '../version.ts';
import { cardTokenId } from './openapi-examples.ts';
import { problemOf } from './problems.ts';
import type { FailureStatus } from './schemas.ts';

/** In the form of a key, with a checksum that no key can have: nobody's, and no scanner's false alarm. */
const KEY_IN_DOCUMENTS = 'svc_test_ExampleExample00_ExampleExampleExampleExample00000000000';
const TRACE_ID_IN_DOCUMENTS = '5d0f2c1a-7b3e-4d69-8a14-93e1c5b7f206';

const description = `Strongroom is a vault: it takes card, bank and personal data and hands back tokens. Reactors run code on the values inside the vault, and the proxy sends them out in requests to other services.

Send the API key of an application as \`SVC-API-KEY\`. Each operation names the permission that it needs, also under \`x-permissions\`.

Every failure is a problem of RFC 9457 in \`application/problem+json\`: \`errors\` leads from the path of each bad property to sentences about it, \`trace_id\` names the request. Problems of the proxy are \`{ "proxy_error": ... }\` in \`application/json\`; an answer with the header \`SVC-PROXY-DESTINATION-STATUS\` came from the destination.

Bodies are JSON in UTF-8, at most 64 levels deep, with numbers that a double holds exactly. No object may have the key \`__proto__\`. Names, ids, metadata and filters have no NUL and no lone surrogate. Absent attributes are left out of responses. Values under \`x-extensible-enum\` may become more. Lists have \`page\` and \`size\`; those of tokens and logs also give \`next\`, to be sent as \`start\`. A POST, PUT or PATCH with \`SVC-IDEMPOTENCY-KEY\` is done once.

Limits, expressions and the rules in full: https://github.com/strongroom/strongroom/blob/main/docs/api.md`;

export const info = {
  title: 'Strongroom',
  version,
  description,
  contact: { name: 'Strongroom', url: 'https://github.com/strongroom/strongroom' },
  license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
};

export const servers = [
  { url: 'http://127.0.0.1:8080', description: 'A vault on this machine, as `npm start` starts it.' },
];

export const tags = [
  {
    name: 'Tokenize',
    description:
      'Replaces values by tokens. One request takes one value or many, and the answer has the same structure.',
  },
  {
    name: 'Tokens',
    description:
      'Creates, lists, reads, changes, deletes and searches tokens, and replaces expressions by the values of tokens.',
  },
  { name: 'Token associations', description: 'Links from a parent token to its child tokens.' },
  { name: 'Logs', description: 'The audit log: who did what to which entity. It can only be read.' },
  {
    name: 'Reactor formulas',
    description:
      "Reusable code with its contracts for configuration and arguments: the tenant's own, and official formulas that the operator installs.",
  },
  { name: 'Reactors', description: 'Configured instances of a formula. A client invokes them with arguments.' },
  {
    name: 'Proxy',
    description:
      'Forwards a request to a destination, with the values of tokens in place of expressions, and returns the answer.',
  },
  {
    name: 'Proxies',
    description: 'Stored routes of the proxy: a fixed destination, with code that transforms requests and responses.',
  },
  { name: 'Applications', description: 'The clients of the API. Each has an API key, permissions and access rules.' },
  { name: 'Permissions', description: 'The permissions that an application can have.' },
  { name: 'Tenants', description: 'The tenant of the API key: its settings and its usage.' },
  { name: 'Members', description: 'The people of the tenant. Each of them has full access to it.' },
  {
    name: 'Invitations',
    description: 'Invitations by e-mail. A person who accepts one becomes a member of the tenant.',
  },
  { name: 'Health', description: 'Checks for load balancers and supervisors. They need no key.' },
];

export const tagGroups = [
  { name: 'Vault', tags: ['Tokenize', 'Tokens', 'Token associations'] },
  { name: 'Compute', tags: ['Reactor formulas', 'Reactors'] },
  { name: 'Network', tags: ['Proxy', 'Proxies'] },
  {
    name: 'Administration',
    tags: ['Logs', 'Applications', 'Permissions', 'Tenants', 'Members', 'Invitations', 'Health'],
  },
];

export const security = [{ ApiKey: [] }];

export const securitySchemes = {
  ApiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'SVC-API-KEY',
    description: `The API key of an application, such as \`${KEY_IN_DOCUMENTS}\`.`,
  },
  ProxyKeyHeader: {
    type: 'apiKey',
    in: 'header',
    name: 'SVC-PROXY-KEY',
    description:
      'The key of a stored proxy. It needs an API key beside it unless `require_auth` of the proxy is false.',
  },
  ProxyKeyQuery: {
    type: 'apiKey',
    in: 'query',
    name: 'svc-proxy-key',
    description:
      'The key of a stored proxy, for clients that cannot set a header. If a request has both, they must be equal. The proxy does not forward it.',
  },
};

/** A key for itself, a proxy's key beside it, or that one alone. */
export const proxySecurity: Record<string, string[]>[] = [
  { ApiKey: [] },
  { ApiKey: [], ProxyKeyHeader: [] },
  { ApiKey: [], ProxyKeyQuery: [] },
  { ProxyKeyHeader: [] },
  { ProxyKeyQuery: [] },
];

export const parameters = {
  IdempotencyKey: {
    name: 'SVC-IDEMPOTENCY-KEY',
    in: 'header',
    required: false,
    description:
      'A key that makes it safe to repeat the request: the server keeps the first successful answer and gives it again. `Idempotency-Key` means the same.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
  },
  ProxyKey: {
    name: 'SVC-PROXY-KEY',
    in: 'header',
    required: false,
    description: 'The key of the stored proxy to use. If it is there, the server ignores `SVC-PROXY-URL`.',
    schema: { type: 'string' },
  },
  ProxyPath: {
    name: 'path',
    in: 'path',
    required: true,
    description:
      'The path to append to the path of the destination. It may have slashes, which are forwarded as they are, and expressions, whose values are percent-encoded.',
    schema: { type: 'string' },
    example: 'charges',
  },
  ProxyUrl: {
    name: 'SVC-PROXY-URL',
    in: 'header',
    required: false,
    description:
      'The base URL to forward to, where no stored proxy is named: an https URL with the name of a host, not an address.',
    schema: { type: 'string', format: 'uri' },
  },
  TraceId: {
    name: 'SVC-TRACE-ID',
    in: 'header',
    required: false,
    description:
      'The trace id of the request, for its response and the log: 1 to 128 printable ASCII characters. Without one in this form the server draws one.',
    // No example: try-it would send it along with every request.
    schema: { type: 'string' },
  },
};

export const headers = {
  'Retry-After': {
    description: 'Seconds to wait before the next try.',
    required: true,
    schema: { type: 'integer', minimum: 0 },
    example: 1,
  },
  Location: {
    description: 'The path of the record that was created. Only with status 201, and then always.',
    required: false,
    schema: { type: 'string' },
    example: '/tokens/0f6ad6a4-5b1c-4f0e-9a35-0f3d2b1c4e5f',
  },
  'SVC-IDEMPOTENT-REPLAYED': {
    description:
      '`true` where a POST, PUT or PATCH repeats an idempotency key: the answer is the first one, and nothing was done again. Otherwise absent.',
    required: false,
    schema: { type: 'string' },
    example: 'true',
  },
  'SVC-PROXY-DESTINATION-STATUS': {
    description: 'The status that the destination answered with. Absent where no destination answered.',
    required: false,
    schema: { type: 'integer', minimum: 200, maximum: 999 },
    example: 200,
  },
  'SVC-TRACE-ID': {
    description: "The trace id of the request: the caller's, or one that the server drew.",
    required: true,
    schema: { type: 'string', minLength: 1, maxLength: 128 },
    example: TRACE_ID_IN_DOCUMENTS,
  },
  'WWW-Authenticate': {
    description: 'The header that takes the API key.',
    required: true,
    schema: { type: 'string' },
    example: 'ApiKey header="SVC-API-KEY"',
  },
};

export const headerReference = (name: keyof typeof headers) => ({ [name]: { $ref: `#/components/headers/${name}` } });

/** Its example is made by the rule that makes the real ones. */
type Failure = { name: string; description: string; error: AppError };

const failureResponses: Record<FailureStatus, Failure> = {
  400: {
    name: 'BadRequest',
    description: 'The request is not valid. `errors` names each property that is wrong.',
    error: invalidInput(fieldErrors([['card.data.number', 'must have a valid check digit']])),
  },
  401: { name: 'Unauthorized', description: 'The API key is missing, malformed or unknown.', error: unauthorized() },
  403: {
    name: 'Forbidden',
    description: 'The key lacks the permission that `detail` names.',
    error: forbidden('token:create'),
  },
  404: {
    name: 'NotFound',
    description: 'The record does not exist, or belongs to another tenant.',
    error: notFound('token'),
  },
  408: {
    name: 'Timeout',
    description:
      'The request did not arrive within 30 seconds, or the code that it invoked did not end in time: `errors.error` names the limit.',
    error: codeFailure(408, 'Reactor Runtime Error', fieldErrors([['error', 'The code must end within 30 s.']])),
  },
  409: {
    name: 'Conflict',
    description:
      'The request conflicts with the state of a record, or a request with this idempotency key is under way: `detail` says which.',
    error: conflict('A record with this id already exists.'),
  },
  413: {
    name: 'PayloadTooLarge',
    description: 'The body, or what it expands to, is larger than the limit.',
    error: payloadTooLarge('The body must be at most 1048576 bytes.'),
  },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The headers say that the body is not JSON in UTF-8, or that it is compressed.',
    error: unsupportedMediaType('The body must be application/json.'),
  },
  417: {
    name: 'ExpectationFailed',
    description: 'The header `Expect` asks for something other than `100-continue`.',
    error: new AppError('expectation_failed', 'Expect must be 100-continue.'),
  },
  422: {
    name: 'UnprocessableEntity',
    description:
      'The request is valid but cannot be done: `detail` says why, and `errors` names a property that is the cause.',
    error: new AppError('unprocessable', 'The idempotency key was used for another request.'),
  },
  429: {
    name: 'TooManyRequests',
    description:
      'Too many failed authentications from one address, too many mails of the tenant, or the tenant runs as much code as it may.',
    error: new AppError('too_many_requests', 'Too many failed authentications. Wait and try again.'),
  },
  431: {
    name: 'HeadersTooLarge',
    description: 'The headers are larger than 16 KiB.',
    error: new AppError('headers_too_large', 'The headers are too large.'),
  },
  500: {
    name: 'InternalError',
    description: 'The server failed. The log of its process has the cause under the trace id.',
    error: internal(),
  },
  503: {
    name: 'Unavailable',
    description:
      'The database or an encryption key cannot be reached, the server has no room to run more, or the vault has no tenant yet.',
    error: unavailable(),
  },
};

/** What the proxy itself answers, in its frame. Of code, its classes of the SDK have more. */
const proxyFailures = {
  400: {
    name: 'ProxyBadRequest',
    description: 'The request cannot be forwarded. `errors` names what is wrong, `detail` names unknown tokens.',
    error: invalidField('SVC-PROXY-URL', 'The destination must be an https URL.'),
  },
  401: {
    name: 'ProxyUnauthorized',
    description: 'The proxy needs an API key, and it is missing, malformed or unknown.',
    error: unauthorized(),
  },
  403: {
    name: 'ProxyForbidden',
    description:
      'The caller lacks `token:use` for a token, or a browser asked for the answer as a page. Without an API key the caller is the application of the proxy.',
    error: forbidden('token:use'),
  },
  404: {
    name: 'ProxyNotFound',
    description: 'No proxy has this key, or it belongs to another tenant.',
    error: notFound('proxy'),
  },
  408: {
    name: 'ProxyCodeTimeout',
    description: 'A transform did not end in time: `errors.error` names the limit.',
    error: codeFailure(408, 'Reactor Runtime Error', fieldErrors([['error', 'The code must end within 30 s.']])),
  },
  413: {
    name: 'ProxyPayloadTooLarge',
    description:
      'The body is over a limit: that of the operator, of bodies with expressions, of compressed bodies, or of what a transform can read. Or the answer is over the limit of what a transform can read.',
    error: payloadTooLarge('A body with expressions must be at most 10 MB.'),
  },
  415: {
    name: 'ProxyUnsupportedMediaType',
    description:
      'The body has a `Content-Encoding` that the proxy cannot decode to look for expressions: `Accept-Encoding` names those that it can. Or it is JSON in a charset that a transform cannot read.',
    error: new AppError(
      'unsupported_content_coding',
      'The Content-Encoding must be one or two of gzip, deflate, br: the proxy looks at the body.',
    ),
  },
  422: {
    name: 'ProxyUnprocessable',
    description: 'A transform returned a result that cannot be sent: `errors.error` says why.',
    error: codeFailure(
      422,
      'Reactor Runtime Error',
      fieldErrors([
        [
          'error',
          'The request transform must return an object with `body` and `headers`: there is no body; null is none to send.',
        ],
      ]),
    ),
  },
  429: {
    name: 'ProxyTooManyRequests',
    description: 'The tenant runs as much code as it may, or too many authentications failed from one address.',
    error: new AppError('too_many_requests', 'The tenant runs as much code as it may. Wait and try again.'),
  },
  500: {
    name: 'ProxyInternalError',
    description: 'A transform failed, and `errors.error` has its message. Or the server failed, and `errors` is empty.',
    error: codeFailure(500, 'Reactor Runtime Error', fieldErrors([['error', 'card is not defined']])),
  },
  502: {
    name: 'ProxyBadGateway',
    description: 'The destination cannot be reached, its certificate is not valid, or its answer is not valid HTTP.',
    error: new AppError('bad_gateway', 'No secure connection to the destination could be made.'),
  },
  503: {
    name: 'ProxyUnavailable',
    description:
      'The database or an encryption key cannot be reached, or the server has no room to run code or to hold bodies.',
    error: unavailable(),
  },
  504: {
    name: 'ProxyGatewayTimeout',
    description: 'The destination did not answer in time. It may have done what it was asked for.',
    error: new AppError('gateway_timeout', 'The destination did not answer in time.'),
  },
} satisfies Record<number, Failure>;

/** A request to the proxy may hold anything; so may what comes back. */
export const requestBodies = {
  Forwarded: {
    required: false,
    description:
      'A body of any type. The proxy replaces expressions in JSON, forms, XML, HTML, other text and the text parts of multipart bodies, up to 10 MB. It forwards other bodies as they are.',
    content: {
      'application/json': {
        schema: {},
        examples: {
          charge: {
            summary: 'A charge with a card',
            value: { amount: 1250, number: `{{ ${cardTokenId} | json: '$.number' }}` },
          },
        },
      },
      '*/*': {
        schema: {},
        examples: { charge: { summary: 'A form', value: `number={{ ${cardTokenId} | json: '$.number' }}` } },
      },
    },
  },
};

const destinationExamples = {
  charge: { summary: 'An answer of a payment API', value: { id: 'ch_1', status: 'succeeded' } },
};

const destinationAnswer = {
  description:
    'The answer of the destination: its status, headers and body. A response transform may have changed it, or answered in its place.',
  headers: { ...headerReference('SVC-TRACE-ID'), ...headerReference('SVC-PROXY-DESTINATION-STATUS') },
  content: {
    'application/json': { schema: {}, examples: destinationExamples },
    '*/*': { schema: {}, examples: destinationExamples },
  },
};

const responseReference = (name: string) => ({ $ref: `#/components/responses/${name}` });

/** By status. Any but those of the proxy itself, and those too, may be the destination's. */
export const proxyResponses: Record<string, { $ref: string }> = {
  ...Object.fromEntries(Object.entries(proxyFailures).map(([status, { name }]) => [status, responseReference(name)])),
  200: responseReference('DestinationAnswer'),
  default: responseReference('DestinationAnswer'),
};

export const failureReference = (status: string) => {
  return responseReference(failureResponses[Number(status) as FailureStatus].name);
};

export const isFailure = (status: string): boolean => Number(status) in failureResponses;

const failureHeaders = ({ status }: AppError) => ({
  ...headerReference('SVC-TRACE-ID'),
  ...(status === 401 ? headerReference('WWW-Authenticate') : {}),
  ...(status === 429 || status === 503 ? headerReference('Retry-After') : {}),
});

const problemResponses = Object.values(failureResponses).map(({ name, description: sentence, error }) => {
  const media = {
    schema: { $ref: '#/components/schemas/Problem' },
    example: problemOf(error, TRACE_ID_IN_DOCUMENTS),
  };
  const content = { 'application/problem+json': media };
  return [name, { description: sentence, headers: failureHeaders(error), content }] as const;
});

const proxyErrorResponses = Object.values(proxyFailures).map(({ name, description: sentence, error }) => {
  const media = {
    // The destination may answer with the same status, and with any body.
    schema: {},
    example: { proxy_error: { ...problemOf(error, TRACE_ID_IN_DOCUMENTS), errors: { ...error.errors } } },
  };
  return [
    name,
    { description: sentence, headers: failureHeaders(error), content: { 'application/json': media } },
  ] as const;
});

export const responses: Record<string, unknown> = {
  ...Object.fromEntries([...problemResponses, ...proxyErrorResponses]),
  DestinationAnswer: destinationAnswer,
};
