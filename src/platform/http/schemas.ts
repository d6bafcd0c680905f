// Schemas that several modules share, the failures that an operation declares, and the options of a route that are for the
// OpenAPI document.
import { z } from 'zod';
import {
  CURSOR_EXAMPLE,
  cursorSchema,
  outOfRange,
  PAGE_NUMBER_MAX,
  PAGE_OFFSET_MAX,
  PAGE_SIZE_DEFAULT,
  PAGE_SIZE_MAX,
  pageFields,
  paginationSchema,
} from '../base/pagination.ts';
import { parseDate } from '../json/dates.ts';
import { isStorableText, NOT_STORABLE } from '../json/json.ts';
import { optional } from '../base/optional.ts';
import { failureCauses, failureKinds, fieldCodes } from '../json/problem-codes.ts';

// Lists in the API: the parameters that select a page, the filters that lists share, and the schema of a page.

/** Values of one repeated parameter: as many as fit into a URL of ordinary length. */
const REPEATED_MAX = 100;

/** A whole number in decimal digits, as a query has it; given once. */
const wholeNumber = (least: number, most: number, description: string, otherwise: number) =>
  z
    .string(`must be given once, as a whole number from ${least} to ${most}`)
    .regex(/^\d{1,10}$/, outOfRange(least, most))
    .transform(Number)
    .refine((number) => number >= least && number <= most, outOfRange(least, most))
    .optional()
    .transform((number) => number ?? otherwise)
    .meta({ description, type: 'integer', minimum: least, maximum: most, default: otherwise, example: otherwise });

const PAGE_DESCRIPTION = `The number of the page, from 1. A page must begin within the first ${PAGE_OFFSET_MAX} records.`;
const SIZE_DESCRIPTION = 'The maximum number of records on a page.';

/** The parameters that select a page by its number. */
export const pageQuery = (sizeMax = PAGE_SIZE_MAX) => ({
  page: wholeNumber(1, PAGE_NUMBER_MAX, PAGE_DESCRIPTION, 1),
  size: wholeNumber(1, sizeMax, SIZE_DESCRIPTION, PAGE_SIZE_DEFAULT),
});

/** The parameters that select a page by its number or by a cursor. */
export const cursorQuery = (example = CURSOR_EXAMPLE) => ({
  ...pageQuery(),
  start: cursorSchema('must be given once').optional().meta({
    description:
      'The `next` of an earlier page. The page begins after the last record of that page, even if records were added since. The server then ignores `page` and returns no totals.',
    example,
  }),
});

/** The same for a JSON body. */
export const cursorBody = () => ({
  page: pageFields.page.meta({ description: `${PAGE_DESCRIPTION} Left out: 1.`, example: 1 }),
  size: pageFields.size.meta({
    description: `${SIZE_DESCRIPTION} Left out: ${PAGE_SIZE_DEFAULT}.`,
    example: PAGE_SIZE_DEFAULT,
  }),
  start: pageFields.start.meta({
    description: 'The `next` of an earlier page, to continue after its last record.',
    example: CURSOR_EXAMPLE,
  }),
});

/** A parameter that may be repeated: `?id=a&id=b`. */
export const repeated = <T extends z.ZodType>(item: T, description: string, example: unknown) =>
  z
    .union([item, z.array(item).max(REPEATED_MAX, `must be given at most ${REPEATED_MAX} times`)], {
      // The error of the form that was sent: one value or several.
      error: ({ input, errors }) => (errors as z.core.$ZodIssue[][])[Array.isArray(input) ? 1 : 0]?.[0]?.message,
    })
    .transform((value): z.output<T>[] => (Array.isArray(value) ? value : [value]))
    .optional()
    .meta({ description, 'x-repeated': true, example: [example] });

/** Longer than any name: each character of a name may stand between two stars. */
const NAME_FILTER_LENGTH_MAX = 400;

/** A filter by name: `*` matches any run of characters, everything else is literal. */
export const nameQuery = (description: string, example: string) =>
  z
    .string('must be given once')
    .min(1, `must have 1 to ${NAME_FILTER_LENGTH_MAX} characters`)
    .max(NAME_FILTER_LENGTH_MAX, `must have 1 to ${NAME_FILTER_LENGTH_MAX} characters`)
    .refine(isStorableText, NOT_STORABLE)
    .optional()
    .meta({
      description: `${description} \`*\` matches any run of characters. Upper and lower case are the same.`,
      example,
    });

/** The page of a list. @param id the name of its schema. */
export const pageSchema = <T extends z.ZodType>(item: T, id: string) =>
  z
    .object({ pagination: paginationSchema, data: z.array(item).meta({ description: 'The records of the page.' }) })
    .meta({ id, description: 'A page of a list of records.' });

/** The pagination of a first and only page, for examples. */
export const onlyPage = (items: number) => ({
  total_items: items,
  page_number: 1,
  page_size: PAGE_SIZE_DEFAULT,
  total_pages: 1,
});

/** A time as clients write it. @param refusal for anything but a text. */
export const instant = (refusal = 'must be text') =>
  z.string(refusal).transform((text, ctx) => {
    // A plus sign that was not encoded arrives as a space.
    const date = parseDate(text.replace(/ (?=\d{2}:?\d{2}$)/, '+'), 'up');
    if (date === undefined) ctx.addIssue('must be a date such as 2026-11-20T18:04:05Z');
    return date ?? z.NEVER;
  });

/** An end of an interval. Fractions of a millisecond are rounded up at both ends, so that no entry can be between two intervals. */
export const boundary = (description: string) =>
  instant('must be given once')
    .optional()
    .meta({
      description: `${description} An RFC 3339 timestamp, a date alone, or a time without a zone, which is UTC.`,
      type: 'string',
      example: CREATED_AT,
    });

export const oneOf = <T extends string>(values: readonly T[], description: string, example: T) =>
  z
    .enum(values, `must be given once, as one of ${values.join(', ')}`)
    .optional()
    .meta({ description, example });

export const oneUuid = (description: string, example: string) =>
  z
    .guid({ error: ({ input }) => (Array.isArray(input) ? 'must be given once' : 'must be a UUID') })
    .toLowerCase()
    .optional()
    .meta({ description, example });

export const oneText = (most: number, description: string, example: string) =>
  z
    .string('must be given once')
    .min(1, `must have 1 to ${most} characters`)
    .max(most, `must have 1 to ${most} characters`)
    .refine(isStorableText, NOT_STORABLE)
    .optional()
    .meta({ description, example });

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
