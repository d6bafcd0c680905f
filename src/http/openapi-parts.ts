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
  { name: 'Tokenize', description: 'Turns values into tokens: one or many, in the structure they come in.' },
  {
    name: 'Tokens',
    description: 'Makes, lists, reads, changes, ends and finds tokens, and puts values back in their place.',
  },
  { name: 'Token associations', description: 'Links between tokens, from a parent to its children.' },
  { name: 'Logs', description: 'What was done to what, by whom. Read only.' },
  {
    name: 'Reactor formulas',
    description: "Code with its contracts: a tenant's own, and official formulas that the operator installs.",
  },
  { name: 'Reactors', description: 'Formulas with their configuration: what is invoked.' },
  {
    name: 'Proxy',
    description:
      'Requests to other services, with the values of tokens in the place of expressions, and their answers.',
  },
  { name: 'Proxies', description: 'Stored routes of the proxy: a fixed destination, with code before and behind it.' },
  { name: 'Applications', description: 'Who calls: permissions, access rules, and an API key that is shown once.' },
  { name: 'Permissions', description: 'What an application may be allowed.' },
  { name: 'Tenants', description: 'The owner of everything, its settings and its usage.' },
  { name: 'Members', description: 'People who may do everything in the tenant.' },
  { name: 'Invitations', description: 'How people become members: by a link in a mail.' },
  { name: 'Health', description: 'For whoever starts, stops and watches the vault. Needs no key and tells no detail.' },
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
    description: 'The key of a stored proxy. Without an API key beside it only where `require_auth` is false.',
  },
  ProxyKeyQuery: {
    type: 'apiKey',
    in: 'query',
    name: 'svc-proxy-key',
    description:
      'The same, for callers that can set no header. Where both are there they must be equal. It is not forwarded.',
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
      'Makes repeating the request safe: the first successful answer is kept and given again. `Idempotency-Key` means the same.',
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
  },
  ProxyKey: {
    name: 'SVC-PROXY-KEY',
    in: 'header',
    required: false,
    description: 'The key of the stored proxy to use. It wins over `SVC-PROXY-URL`.',
    schema: { type: 'string' },
  },
  ProxyPath: {
    name: 'path',
    in: 'path',
    required: true,
    description:
      'What is appended to the path of the destination. It may have slashes, which stay as they are spelled, and expressions, whose values are percent-encoded.',
    schema: { type: 'string' },
    example: 'charges',
  },
  ProxyUrl: {
    name: 'SVC-PROXY-URL',
    in: 'header',
    required: false,
    description: 'Where the request goes, unless a stored proxy says it: an https URL with the name of a host.',
    schema: { type: 'string', format: 'uri' },
  },
  TraceId: {
    name: 'SVC-TRACE-ID',
    in: 'header',
    required: false,
    description:
      'Names the request in its response and in the log: 1 to 128 printable ASCII characters. Another is drawn where it is absent or not of this form.',
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
    description: "The status that the destination answered with. Absent where the answer is not the destination's.",
    required: false,
    schema: { type: 'integer', minimum: 200, maximum: 999 },
    example: 200,
  },
  'SVC-TRACE-ID': {
    description: "The request's trace id: the caller's, or one that was drawn.",
    required: true,
    schema: { type: 'string', minLength: 1, maxLength: 128 },
    example: TRACE_ID_IN_DOCUMENTS,
  },
  'WWW-Authenticate': {
    description: 'Which header the key belongs in.',
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
    description: 'The request is not valid. `errors` names every bad property.',
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
    description: "There is no such record, or it is another tenant's.",
    error: notFound('token'),
  },
  408: {
    name: 'Timeout',
    description:
      'The request did not arrive within 30 seconds. Or code that it runs did not end in time: `errors.error` names the limit.',
    error: codeFailure(408, 'Reactor Runtime Error', fieldErrors([['error', 'The code must end within 30 s.']])),
  },
  409: {
    name: 'Conflict',
    description: 'A chosen id is taken, or the record is in use.',
    error: conflict('A record with this id already exists.'),
  },
  413: {
    name: 'PayloadTooLarge',
    description: 'The body, or what it asks for, is larger than the operator allows.',
    error: payloadTooLarge('The body must be at most 1048576 bytes.'),
  },
  415: {
    name: 'UnsupportedMediaType',
    description: 'The body is not JSON in UTF-8, by its own account.',
    error: unsupportedMediaType('The body must be application/json.'),
  },
  417: {
    name: 'ExpectationFailed',
    description: 'The header `Expect` asks for something other than `100-continue`.',
    error: new AppError('expectation_failed', 'Expect must be 100-continue.'),
  },
  422: {
    name: 'UnprocessableEntity',
    description: 'Understood, and not to be done: `detail` says why, with `errors` where a property is to blame.',
    error: new AppError('unprocessable', 'The idempotency key was used for another request.'),
  },
  429: {
    name: 'TooManyRequests',
    description:
      'Too many failed authentications from one address, too many mails to one address or of one tenant, or the tenant runs as much code as it may.',
    error: new AppError('too_many_requests', 'Too many failed authentications. Wait and try again.'),
  },
  431: {
    name: 'HeadersTooLarge',
    description: 'The headers are larger than 16 KiB.',
    error: new AppError('headers_too_large', 'The headers are too large.'),
  },
  500: { name: 'InternalError', description: 'It was us. The log has more under the trace id.', error: internal() },
  503: {
    name: 'Unavailable',
    description: 'The database or a key is away, or the vault has no tenant yet.',
    error: unavailable(),
  },
};

/** What the proxy itself answers, in its frame. Of code, its classes of the SDK have more. */
const proxyFailures = {
  400: {
    name: 'ProxyBadRequest',
    description: 'The request cannot be forwarded as it is. `errors` names the places, `detail` unknown tokens.',
    error: invalidField('SVC-PROXY-URL', 'The destination must be an https URL.'),
  },
  401: {
    name: 'ProxyUnauthorized',
    description: 'The API key is missing, malformed or unknown, and the proxy asks for one.',
    error: unauthorized(),
  },
  403: {
    name: 'ProxyForbidden',
    description:
      'Whoever acts lacks `token:use`, at all or on the container of a token. Or a browser would show the answer as a page.',
    error: forbidden('token:use'),
  },
  404: {
    name: 'ProxyNotFound',
    description: "No proxy has this key, or it is another tenant's.",
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
      'The body is larger than the operator allows, than one with expressions or a compressed one may be, or than a transform can read; or the answer is larger than that.',
    error: payloadTooLarge('A body with expressions must be at most 10 MB.'),
  },
  415: {
    name: 'ProxyUnsupportedMediaType',
    description:
      'The body is in a coding that cannot be undone to look for expressions: `Accept-Encoding` says which can. Or it is JSON in a charset that a transform cannot read.',
    error: new AppError(
      'unsupported_content_coding',
      'The Content-Encoding must be one or two of gzip, deflate, br: the proxy looks at the body.',
    ),
  },
  422: {
    name: 'ProxyUnprocessable',
    description: 'A transform returned what cannot be sent: `errors.error` says what is wrong with it.',
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
    description: 'A transform failed: `errors.error` has its message. Or it was us, and `errors` is empty.',
    error: codeFailure(500, 'Reactor Runtime Error', fieldErrors([['error', 'card is not defined']])),
  },
  502: {
    name: 'ProxyBadGateway',
    description: 'The destination cannot be reached or trusted, or does not answer as it should.',
    error: new AppError('bad_gateway', 'No secure connection to the destination could be made.'),
  },
  503: {
    name: 'ProxyUnavailable',
    description: 'The database, the log or a key is away, or there is no room to run code or to hold bodies.',
    error: unavailable(),
  },
  504: {
    name: 'ProxyGatewayTimeout',
    description: 'The destination did not answer in time. What it was asked for may have been done.',
    error: new AppError('gateway_timeout', 'The destination did not answer in time.'),
  },
} satisfies Record<number, Failure>;

/** A request to the proxy may hold anything; so may what comes back. */
export const requestBodies = {
  Forwarded: {
    required: false,
    description:
      'Of any type. Expressions are looked for in JSON, forms, XML, HTML, other text and the text parts of multipart bodies, up to 10 MB; everything else passes untouched.',
    content: {
      'application/json': {
        schema: {},
        examples: {
          charge: {
            summary: 'A charge, with a card in it',
            value: { amount: 1250, number: `{{ ${cardTokenId} | json: '$.number' }}` },
          },
        },
      },
      '*/*': {
        schema: {},
        examples: { charge: { summary: 'As text', value: `number={{ ${cardTokenId} | json: '$.number' }}` } },
      },
    },
  },
};

const destinationExamples = {
  charge: { summary: 'Of an API of payments', value: { id: 'ch_1', status: 'succeeded' } },
};

const destinationAnswer = {
  description:
    'What the destination answers: status, headers and body as they are. Or what a transform made of it, or answered in its place.',
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
