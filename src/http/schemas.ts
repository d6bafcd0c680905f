// Shapes that every feature shares: the problem, the failures an operation declares, and what its route says to a reader
// of the document beyond its schemas.
import { z } from 'zod';
import { APPLICATION_ID } from './openapi-examples.ts';

export const problem = z
  .object({
    type: z.string().optional().meta({
      description: 'The kind of problem. Left out where it is `about:blank`: the title says it all.',
      format: 'uri-reference',
      example: 'about:blank',
    }),
    title: z.string().meta({
      description: 'A title that is the same for all problems of this kind.',
      example: 'One or more validation errors occurred.',
    }),
    status: z.int().meta({ description: 'The status of the response.', example: 400 }),
    detail: z
      .string()
      .optional()
      .meta({ description: 'What went wrong, in a sentence for people.', example: 'The token was not found.' }),
    errors: z
      .record(z.string(), z.array(z.string()))
      .optional()
      .meta({
        description:
          'Sentences about each property that is wrong, by its path: `card.data.number`, `[0].type`, or empty for the whole body. They never hold a value.',
        example: { 'card.data.number': ['must have a valid check digit'] },
      }),
    trace_id: z.string().meta({
      description: 'The trace id of the request, which is in the header SVC-TRACE-ID and in the log too.',
      example: '5d0f2c1a-7b3e-4d69-8a14-93e1c5b7f206',
    }),
  })
  .meta({ id: 'Problem', description: 'RFC 9457 problem details.' });

/** However it is spelled, it is one id. */
const givenUuid = z.guid('must be a UUID').toLowerCase();

/** An application as the bodies of other records name it. */
export const applicationReference = z
  .object(
    {
      id: givenUuid.nullish().meta({ description: 'The id of the application.', example: APPLICATION_ID }),
    },
    'must be an object with an id',
  )
  .meta({ id: 'ApplicationReference', description: 'An application, named by its id.' });

export type FailureStatus = 400 | 401 | 403 | 404 | 408 | 409 | 413 | 415 | 417 | 422 | 429 | 431 | 500 | 503;

/** The failures an operation declares; http/openapi.ts turns each into a reference to components.responses. */
export const failures = <Status extends FailureStatus>(...statuses: Status[]) =>
  Object.fromEntries(statuses.map((status) => [status, problem])) as Record<Status, typeof problem>;

/** The failures of every operation that takes a key: 401, 403, 429, 500, 503, and 400 for a path or query that cannot be read. */
export const commonFailures = [400, 401, 403, 429, 500, 503] as const;

/** Those of one with a JSON body, which may be sent with an idempotency key, beside the common ones. */
export const bodyFailures = [...commonFailures, 409, 413, 415, 422] as const;

/** A success without a body. */
export const noContent = z.null().meta({ description: 'Nothing.' });

/** Named examples of a body: `value` is the body itself. */
export type Examples = Record<string, { summary: string; value: unknown }>;

/**
 * What the document says of a route that takes whatever comes: no schema checks it, so none can say it. References lead into
 * the components of http/openapi-parts.ts.
 */
export type ForwardedOperation = {
  security: Record<string, string[]>[];
  parameters: { $ref: string }[];
  requestBody?: { $ref: string };
  responses: Record<string, { $ref: string }>;
};

declare module 'fastify' {
  interface FastifySchema {
    /** What the successful response is, in a sentence. */
    answer?: string;
    /** Permissions the operation needs beside the one of its route, for the document. */
    alsoNeeds?: string[];
    /** Whether the operation does without a body as well. */
    isBodyOptional?: boolean;
    /** Of the request body, and of the successful response. */
    examples?: { request?: Examples; response: Examples };
    /** In place of schemas. */
    forwarded?: ForwardedOperation;
  }
}
