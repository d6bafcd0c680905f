// Schemas that several modules share, the failures that an operation declares, and the options of a route that are for the
// OpenAPI document.
import { z } from 'zod';
import { optional } from '../base/optional.ts';
import { failureCauses, failureKinds, fieldCodes } from '../json/problem-codes.ts';

export const TENANT_ID = '7f4c2b1e-9d3a-4a57-8f61-2c5b8e0d9a13';
export const APPLICATION_ID = 'c1a8f0d4-2e6b-4b39-9a75-6d0e3f8b1c52';
export const REACTOR_ID = '3b9d5f02-7c1e-4a86-b0f4-8e2d6a91c7b3';
export const PROXY_ID = '91e4c6a8-0d2b-4f57-a3c9-5b7f1d8e2046';
export const CARD_TOKEN_ID = '0f6ad6a4-5b1c-4f0e-9a35-0f3d2b1c4e5f';
export const TRACE_ID = '5e8f2a90-1c3d-4b7e-9a64-0f2d7c5b8e13';
export const OTEL_TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';

/** In the form of an API key, with a checksum that no key has: no secret, and no finding of a secret scanner. */
export const EXAMPLE_API_KEY = 'svc_test_ExampleExample00_ExampleExampleExampleExample00000000000';

export const CREATED_AT = '2026-11-20T18:04:05.123Z';

export const created = { created_by: APPLICATION_ID, created_at: CREATED_AT };
export const modified = { modified_by: APPLICATION_ID, modified_at: '2026-11-21T09:30:00.000Z' };

/** In problems and in the log. */
export const otelTraceId = z.string().meta({
  description: 'The trace id of OpenTelemetry (W3C Trace Context). Left out if the server does not trace requests.',
  example: OTEL_TRACE_ID,
});

export const problem = z
  .object({
    type: z.string().optional().meta({
      description: 'The type of problem. Left out where it is `about:blank`: then the title is all there is.',
      format: 'uri-reference',
      example: 'about:blank',
    }),
    title: z.string().meta({
      description: 'The title of all problems of this type.',
      example: 'One or more validation errors occurred.',
    }),
    status: z.int().meta({ description: 'The status of the response.', example: 400 }),
    code: z.string().meta({
      description: 'The kind or cause of the failure, for programs. Stable, unlike texts.',
      example: 'invalid_input',
      'x-extensible-enum': Object.keys({ ...failureKinds, ...failureCauses }),
    }),
    detail: z
      .string()
      .optional()
      .meta({ description: 'What is wrong, in a sentence.', example: 'The token was not found.' }),
    errors: z
      .record(z.string(), z.array(z.string()))
      .optional()
      .meta({
        description:
          'Messages about each property that is not valid, by its path: `card.data.number`, `[0].type`, or `body` for the whole body. They never contain a value.',
        example: { 'card.data.number': ['must have a valid check digit'] },
      }),
    codes: z
      .record(z.string(), z.array(z.string().meta({ 'x-extensible-enum': Object.keys(fieldCodes) })))
      .optional()
      .meta({
        description: 'A code for each message in `errors`: by the same paths, in the same order.',
        example: { 'card.data.number': ['check_digit'] },
      }),
    trace_id: z.string().meta({
      description: 'The trace id of the request, as in the header `SVC-TRACE-ID` and in the log.',
      example: TRACE_ID,
    }),
    otel_trace_id: otelTraceId.optional(),
  })
  .meta({ id: 'Problem', description: 'RFC 9457 problem details.' });

/** A time in a record. */
export const date = (description: string, example = CREATED_AT) =>
  z.string().meta({ description, format: 'date-time', example });

/** An id in a record. */
export const uuid = (description: string, example: string) => z.string().meta({ description, format: 'uuid', example });

/** A UUID that a client sends. Lower case, so that one id has one spelling. */
export const givenUuid = z.guid('must be a UUID').toLowerCase();

/** The attributes that say who created and changed a record, and when. */
export const history = {
  created_by: uuid(
    'The id of the application or user that created it. Left out where the operator did.',
    APPLICATION_ID,
  ).optional(),
  created_at: date('When it was created.'),
  modified_by: uuid('The id of the application or user that changed it last.', APPLICATION_ID).optional(),
  modified_at: date('When it was changed last.').optional(),
};

/** An application in the body of another record. */
export const applicationReference = z
  .object(
    {
      id: optional(givenUuid).meta({ description: 'The id of the application.', example: APPLICATION_ID }),
    },
    'must be an object with an id',
  )
  .meta({ id: 'ApplicationReference', description: 'An application, named by its id.' });

/** The form of `SVC-IDEMPOTENCY-KEY`: printable ASCII without spaces. */
export const idempotencyKeyPattern = /^[!-~]+$/;
export const IDEMPOTENCY_KEY_LENGTH_MAX = 255;

export type FailureStatus = 400 | 401 | 403 | 404 | 408 | 409 | 413 | 415 | 417 | 422 | 429 | 431 | 500 | 503;

/** The failures that an operation declares. In the document each becomes a reference to `components.responses`. */
export const failures = <Status extends FailureStatus>(...statuses: Status[]) =>
  Object.fromEntries(statuses.map((status) => [status, problem])) as Record<Status, typeof problem>;

/** The failures of every operation that needs a key. 400 is for a path or query that is not valid. */
export const commonFailures = [400, 401, 403, 429, 500, 503] as const;

/** The failures of an operation with a JSON body, which may have an idempotency key. */
export const bodyFailures = [...commonFailures, 409, 413, 415, 422] as const;

/** A success without body. */
export const noContent = z.null().meta({ description: 'Nothing.' });

/** Named examples of a body: `value` is the body itself. */
export type Examples = Record<string, { summary: string; value: unknown }>;

/** The document of an operation that forwards any request, and so has no schemas. Its references are to components. */
export type ForwardedOperation = {
  security: Record<string, string[]>[];
  parameters: { $ref: string }[];
  requestBody?: { $ref: string };
  responses: Record<string, { $ref: string }>;
};

declare module 'fastify' {
  interface FastifySchema {
    /** The description of the successful response. */
    answer?: string;
    /** Permissions that the operation needs beside the one of its route. */
    alsoNeeds?: string[];
    /** Whether the body may be left out. */
    isBodyOptional?: boolean;
    /** Examples of the request body and of the successful response. */
    examples?: { request?: Examples; response: Examples };
    /** Examples of the response to a partial batch. With them, the operation has the header SVC-PARTIAL. */
    partial?: Examples;
    /** Instead of schemas. */
    forwarded?: ForwardedOperation;
  }
}
