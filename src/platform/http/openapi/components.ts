// The parts of the OpenAPI document that belong to no single route: description, tags, security, headers and error responses.
// Their text is in openapi.md.
import { readFileSync } from 'node:fs';
import { maxHeaderSize } from 'node:http';
import { alreadyExists, AppError, failure, forbidden, internal, invalidField, notFound, payloadTooLarge, unauthorized, unavailable, unsupportedMediaType } from '../../base/errors.ts';
import { JSON_DEPTH_MAX } from '../../json/json.ts';
import { version } from '../../base/version.ts';
import { CARD_TOKEN_ID, EXAMPLE_API_KEY, TRACE_ID, type FailureStatus, IDEMPOTENCY_KEY_LENGTH_MAX, idempotencyKeyPattern } from '../schemas.ts';
import { problemOf } from '../problems.ts';
import { REQUEST_MS_MAX } from '../../base/times.ts';
import { TRACE_ID_LENGTH_MAX } from '../trace.ts';

const constants: Readonly<Record<string, number>> = {
  JSON_DEPTH_MAX,
  REQUEST_SECONDS_MAX: REQUEST_MS_MAX / 1000,
  HEADER_KIB_MAX: maxHeaderSize / 1024,
};

const text = readFileSync(new URL('./openapi.md', import.meta.url), 'utf8').replaceAll(/\{\{(\w+)\}\}/g, (_, name) => {
  const value = constants[name];
  if (value === undefined) throw new Error(`openapi.md names the constant ${name}, which does not exist.`);
  return String(value);
});

/** The sections of a Markdown text by their headings. @param mark the mark of their level, such as `##`. */
const sectionsOf = (markdown: string, mark: '#' | '##'): Map<string, string> =>
  new Map(
    markdown
      .split(new RegExp(`^${mark} `, 'm'))
      .slice(1)
      .map((section) => {
        const [heading = '', ...lines] = section.split('\n');
        return [heading, lines.join('\n').trim()];
      }),
  );

const sections = sectionsOf(text, '#');

/** @throws for a heading that the Markdown does not have: a name without a description. */
const textOf = (from: ReadonlyMap<string, string>, heading: string): string => {
  const found = from.get(heading);
  if (found === undefined) throw new Error(`openapi.md has no section ${heading}.`);
  return found;
};

export const info = {
  title: 'Strongroom',
  version,
  description: textOf(sections, 'Description'),
  contact: { name: 'Strongroom', url: 'https://github.com/strongroom/strongroom' },
  license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
};

export const servers = [
  { url: 'http://127.0.0.1:8080', description: 'A vault on this machine, as `npm start` starts it.' },
];

const SOURCE_URL = 'https://github.com/strongroom/strongroom/blob/main/';

/** A section of a tag is its description, and in a last line `See:` with its guide first, then its decisions. */
const tagOf = ([name, section]: [name: string, section: string]) => {
  const [description = '', links = ''] = section.split('\nSee: ');
  const [guide, ...decisions] = [...links.matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)].map(([, title = '', path = '']) => ({
    description: title,
    url: SOURCE_URL + path,
  }));
  return { name, description, ...(guide && { externalDocs: guide, 'x-decisions': decisions }) };
};

export const tags = [...sectionsOf(textOf(sections, 'Tags'), '##')].map(tagOf);

export const tagGroups = [
  { name: 'Vault', tags: ['Tokenize', 'Tokens', 'Token associations', 'Sessions'] },
  { name: 'Compute', tags: ['Reactor formulas', 'Reactors'] },
  { name: 'Network', tags: ['Proxy', 'Proxies', 'Forwards', 'Webhooks'] },
  {
    name: 'Administration',
    tags: ['Logs', 'Runs', 'Access', 'Applications', 'Permissions', 'Tenants', 'Members', 'Invitations', 'Health'],
  },
];

export const security = [{ ApiKey: [] }];

const securitySchemes = {
  ApiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'SVC-API-KEY',
    description: `The API key of an application, such as \`${EXAMPLE_API_KEY}\`.`,
  },
};

const parameters = {
  IdempotencyKey: {
    name: 'SVC-IDEMPOTENCY-KEY',
    in: 'header',
    required: false,
    description:
      'A key that makes it safe to repeat the request: the server keeps the first successful response and returns it again. `Idempotency-Key` means the same.',
    schema: {
      type: 'string',
      minLength: 1,
      maxLength: IDEMPOTENCY_KEY_LENGTH_MAX,
      pattern: idempotencyKeyPattern.source,
    },
  },
  Partial: {
    name: 'SVC-PARTIAL',
    in: 'header',
    required: false,
    description:
      '`true` does the items that are right, and responds with a 207 that has null in place of the others. Not with a public key. Faults of the request as a whole, and of its limits, still fail all of it.',
    schema: { type: 'string', enum: ['true'] },
  },
  TraceId: {
    name: 'SVC-TRACE-ID',
    in: 'header',
    required: false,
    description: `The trace id of the request, for its response and the log: 1 to ${TRACE_ID_LENGTH_MAX} printable ASCII characters. Without a valid one the server generates one.`,
    // Without an example: the try-it function of the reference would send it with each request.
    schema: { type: 'string' },
  },
};

const headers = {
  'Retry-After': {
    description: 'Seconds to wait before the next attempt.',
    required: true,
    schema: { type: 'integer', minimum: 0 },
    example: 1,
  },
  Location: {
    description: 'The path of the record that was created. Only with status 201, and then always.',
    required: false,
    schema: { type: 'string' },
    example: `/tokens/${CARD_TOKEN_ID}`,
  },
  'RateLimit-Policy': {
    description:
      'The limits of the application, only if it has any: `q` requests or tokens in `w` seconds (draft-ietf-httpapi-ratelimit-headers).',
    required: false,
    schema: { type: 'string' },
    example: '"rate_limit";q=200;w=2, "daily_reveals";q=1000;w=86400',
  },
  RateLimit: {
    description:
      'What is left of the limits that the request counts for: `r` requests or tokens, and `t` seconds until all are free again.',
    required: false,
    schema: { type: 'string' },
    example: '"rate_limit";r=199;t=1',
  },
  'SVC-IDEMPOTENT-REPLAYED': {
    description:
      '`true` where the server repeats the response to an earlier request with this idempotency key and does nothing else. Otherwise absent.',
    required: false,
    schema: { type: 'string' },
    example: 'true',
  },
  'SVC-TRACE-ID': {
    description: 'The trace id of the request: from the client, or generated by the server.',
    required: true,
    schema: { type: 'string', minLength: 1, maxLength: TRACE_ID_LENGTH_MAX },
    example: TRACE_ID,
  },
  'SVC-WARNING': {
    description:
      'What may be a mistake of a request that was done: a container of a create that held no token before, and that no access rule of the tenant names. Otherwise absent.',
    required: false,
    schema: { type: 'string' },
    example: 'The container /pci/hihg/ held no token before, and no access rule names it.',
  },
  'WWW-Authenticate': {
    description: 'The header that takes the API key.',
    required: true,
    schema: { type: 'string' },
    example: 'ApiKey header="SVC-API-KEY"',
  },
};

export const headerReferences = (...names: string[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

export const responseReference = (name: string) => ({ $ref: `#/components/responses/${name}` });

const failures: Record<FailureStatus, [name: string, example: AppError]> = {
  400: ['BadRequest', invalidField('card.data.number', 'must have a valid check digit', 'check_digit')],
  401: ['Unauthorized', unauthorized()],
  403: ['Forbidden', forbidden('token:create')],
  404: ['NotFound', notFound('token')],
  408: ['Timeout', new AppError('request_timeout', 'The request did not arrive in time.')],
  409: ['Conflict', alreadyExists()],
  413: ['PayloadTooLarge', payloadTooLarge('The body must be at most 1048576 bytes.')],
  415: ['UnsupportedMediaType', unsupportedMediaType('The body must be application/json.')],
  417: ['ExpectationFailed', new AppError('expectation_failed', 'The header Expect must be 100-continue.')],
  422: ['UnprocessableEntity', failure('idempotency_key_reused', 'The idempotency key was used for another request.')],
  429: ['TooManyRequests', failure('too_many_failures', 'Too many failed authentications. Wait and try again.')],
  431: ['HeadersTooLarge', new AppError('headers_too_large', 'The headers are too large.')],
  500: ['InternalError', internal()],
  503: ['Unavailable', unavailable()],
};

export const isFailure = (status: string): boolean => status in failures;

export const failureReference = (status: string) => responseReference(failures[Number(status) as FailureStatus][0]);

/** An error response whose example is made by the function that makes the real ones. */
export const errorResponse = (description: string, error: AppError, content: Record<string, unknown>) => ({
  description,
  headers: headerReferences(
    'SVC-TRACE-ID',
    ...(error.status === 401 ? ['WWW-Authenticate'] : []),
    ...(error.status === 429 || error.status === 503 ? ['Retry-After'] : []),
    ...(error.status === 429 ? ['RateLimit-Policy', 'RateLimit'] : []),
  ),
  content,
});

const descriptions = sectionsOf(textOf(sections, 'Responses'), '##');

const responses = Object.fromEntries(
  Object.values(failures).map(([name, error]) => [
    name,
    errorResponse(textOf(descriptions, name), error, {
      'application/problem+json': {
        schema: { $ref: '#/components/schemas/Problem' },
        example: problemOf(error, TRACE_ID),
      },
    }),
  ]),
);

/** Definitions by kind and name, such as `parameters.TraceId`. */
export type Components = Record<string, Record<string, unknown>>;

export const components: Components = { headers, parameters, responses, securitySchemes };
