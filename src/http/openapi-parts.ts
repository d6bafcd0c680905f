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

const description = `Strongroom is a vault: it takes card, bank and personal data and hands back tokens. What the values are needed for happens
inside (reactors) or on their way out (the proxy).

## Authentication

Every operation but the health checks takes an API key in the header \`SVC-API-KEY\`:

\`\`\`
SVC-API-KEY: ${KEY_IN_DOCUMENTS}
\`\`\`

A key belongs to an application of a tenant. A missing, a malformed and an unknown key get the same 401; \`Authorization\` is
not looked at in its place. Each operation names the permission it needs, also under \`x-permissions\`; without it the answer is a 403 that
names it. A permission may be limited to containers. What belongs to another tenant is a 404, as if it did not exist.

A stored proxy has a key of its own, sent as \`SVC-PROXY-KEY\`. One whose \`require_auth\` is false needs no API key beside it.

## Errors

Every failure is a problem of RFC 9457 in \`application/problem+json\`: \`title\`, \`status\` and \`trace_id\`, with a \`detail\`
for a person, or with \`errors\`: from the path of each bad property to sentences about it, all of them at once. A problem
never repeats a value that was sent. A path answers methods that it does not have with 405 and \`Allow\`. 429 and 503 carry
\`Retry-After\` in seconds. Problems of the proxy stand in a frame, \`{ "proxy_error": ... }\`, as \`application/json\`; what has the
header \`SVC-PROXY-DESTINATION-STATUS\` came from the destination.

The header \`SVC-TRACE-ID\` (1 to 128 printable ASCII characters) names a request in the response, in problems and in the
log. Without it the trace id of a W3C \`traceparent\` counts, or a new one is drawn.

## Requests and responses

Bodies are JSON in UTF-8 (to the proxy: anything), sent as \`application/json\` or \`application/*+json\`. Absent attributes are left out of responses.
Timestamps are RFC 3339 in UTC. Ids are opaque text. Unknown attributes are ignored, so that clients may be older or newer
than the vault; changes to the interface only add. A trailing slash in a path makes no difference; below \`/proxy/\` it is the
destination's, and kept.

## Lists

A list answers with \`pagination\` and \`data\`: newest first, 20 records unless \`size\` says otherwise (100 at most), the page that \`page\`
names. A page behind the last is empty. \`total_items\` is exact for all records and for types of tokens; other filters are counted up to
10,000, and \`total_is_capped\` says so. Lists of tokens and logs also give \`next\`: sent as \`start\`, it goes on behind the last record,
whatever was added since, and without totals. Arrays are repeated parameters: \`?id=a&id=b\`. Unknown parameters are ignored.

## Repeating a request

A POST, PUT or PATCH with the header \`SVC-IDEMPOTENCY-KEY\` (or \`Idempotency-Key\`) is done once: the first successful answer is kept for
24 hours, sealed, and given again with \`SVC-IDEMPOTENT-REPLAYED: true\`, whatever the body says. Failures are not kept, but for one: once
the code of a reactor has called out (\`fetch\`, \`svc\`), the answer stands, whatever it is, for what was done out there may stand too;
trying again takes a new key. While the first request is under way the answer is 409; the same key with another method or path is 422. A
key counts for one application. Answers that hold an API key or the configuration of a reactor, and those of invocations, are kept as long
as a card security code. Searching and detokenizing are simply done again, and so is what is sent through the proxy.

Without a key, a request that is sent twice counts twice. An \`id\` of your own (409 the second time) and \`deduplicate_token\` help too.

## Limits

| What | Limit |
|---|---|
| Request body | 1 MiB unless the operator sets \`BODY_BYTES_MAX\`; 413 above |
| Nesting of JSON | 64 levels |
| Numbers | exact as doubles: whole numbers within 2^53, others as strings |
| Values in one tokenize request | 10,000 |
| Metadata of a token | 50 keys of 200 characters, values of 500 |
| Search indexes of a token | 10 |
| An expression | 400 characters |
| A token id of your own | 3 to 400 characters |
| A card security code (CVC) | kept for one hour unless the operator sets \`CVC_TTL\`, a day at most; then gone for good |
| Expressions in one request | 1,000, over 100 tokens, expanding to 10 MB |
| Body of a request to the proxy | 32 MiB unless the operator sets \`PROXY_BODY_MAX\`; 10 MB with expressions in it, 5 MB where a transform reads it |
| Time of a request to a destination | 25 seconds |
| A search query | 200 characters |
| Records on a page | 100, of members 50; pages begin within the first 100,000 records, cursors go on |
| Values of a repeated parameter | 100 |
| Code of a formula or a transform | 50,000 characters |
| Configuration and parameters of a formula, configuration of a proxy | 25 each |
| A text in the configuration of a reactor or a proxy | 4,000 characters |
| Hosts in \`allowed_hosts\` | 50 |
| Members and invitations of a tenant | 10,000 |
| An invitation | good for 72 hours after it was last sent |
| Mails | 10 an hour to one address, 200 an hour of one tenant; 429 above |
| Failed authentications | 100 a minute from one address; 429 above |

## Expressions

\`mask\`, \`fingerprint_expression\`, \`search_indexes\` and \`id\` of a token request may hold expressions over the data that
comes with them: \`{{ data.number | reveal_last: 4 }}\`. The head is \`data\` or a path below it; filters follow, each behind a
bar, with arguments behind a colon. A mask may be any JSON with expressions at its leaves. Fingerprints may read \`metadata\`
too. Expressions are evaluated once, when the token is made: what a token holds is data, never an expression.

Elsewhere expressions refer to tokens by their ids: \`{{ 0f6ad6a4-5b1c-4f0e-9a35-0f3d2b1c4e5f | json: '$.number' }}\`, or to the whole record by
\`{{ token: 0f6ad6a4-5b1c-4f0e-9a35-0f3d2b1c4e5f | json: '$.metadata.order' }}\`. Detokenizing and reactors look for them in the texts of
JSON, the proxy in the path, the query, the headers and the body of a request, whose values are encoded for their place.

## Events

There are no events and no webhooks.`;

export const info = {
  title: 'Strongroom',
  version,
  description,
  contact: { name: 'Strongroom', url: 'https://github.com/strongroom/strongroom' },
  license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
};

export const servers = [{ url: '/', description: 'The vault that serves this document.' }];

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
    description: 'The same, for callers that can set no header. It is not forwarded.',
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
  ProxyKeyInQuery: {
    name: 'svc-proxy-key',
    in: 'query',
    required: false,
    description: 'As `SVC-PROXY-KEY`; where both are there they must be equal. It is not forwarded.',
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
      'Names the request in its response and in the log. Another is taken where it is absent or not of this form.',
    // No example: try-it would send it along with every request.
    schema: { type: 'string', minLength: 1, maxLength: 128, pattern: '^[ -~]+$' },
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
    description: 'Where what was made can be found.',
    required: true,
    schema: { type: 'string' },
    example: '/tokens/0f6ad6a4-5b1c-4f0e-9a35-0f3d2b1c4e5f',
  },
  'SVC-IDEMPOTENT-REPLAYED': {
    description: 'Present where the answer is one that was kept: nothing was done this time.',
    required: false,
    schema: { type: 'string', enum: ['true'] },
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
    name: 'CodeTimeout',
    description: 'The code did not end in time: `errors.error` names the limit.',
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
  422: {
    name: 'UnprocessableEntity',
    description: 'Understood, and not to be done: `detail` says why, with `errors` where a property is to blame.',
    error: new AppError('unprocessable', 'The idempotency key was used for another request.'),
  },
  429: {
    name: 'TooManyRequests',
    description: 'Too many failed authentications from one address.',
    error: new AppError('too_many_requests', 'Too many failed authentications. Wait and try again.'),
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
      'The body is larger than the operator allows, than one with expressions may be, or than a transform can read; or the answer is larger than that.',
    error: payloadTooLarge('A body with expressions must be at most 10 MB.'),
  },
  415: {
    name: 'ProxyUnsupportedMediaType',
    description: 'The body is compressed, and a transform would have to read it.',
    error: unsupportedMediaType('A body that code transforms must not be compressed.'),
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

const destinationAnswer = {
  description:
    'What the destination answers: status, headers and body as they are. Or what a transform made of it, or answered in its place.',
  headers: { ...headerReference('SVC-TRACE-ID'), ...headerReference('SVC-PROXY-DESTINATION-STATUS') },
  content: {
    '*/*': {
      schema: {},
      examples: { charge: { summary: 'Of an API of payments', value: { id: 'ch_1', status: 'succeeded' } } },
    },
  },
};

const responseReference = (name: string) => ({ $ref: `#/components/responses/${name}` });

/** By status; `default` is whatever the destination answers. */
export const proxyResponses: Record<string, { $ref: string }> = {
  ...Object.fromEntries(Object.entries(proxyFailures).map(([status, { name }]) => [status, responseReference(name)])),
  default: responseReference('DestinationAnswer'),
};

/** Clients of the earlier public API decode application/json alone: both are named, the first is what is sent. */
const problemMediaTypes = ['application/problem+json', 'application/json'];

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
  const content = Object.fromEntries(problemMediaTypes.map((type) => [type, media]));
  return [name, { description: sentence, headers: failureHeaders(error), content }] as const;
});

const proxyErrorResponses = Object.values(proxyFailures).map(({ name, description: sentence, error }) => {
  const media = {
    schema: { $ref: '#/components/schemas/ProxyProblem' },
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
