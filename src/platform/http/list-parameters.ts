// Lists in the API: the parameters that select a page, the filters that lists share, and the schema of a page.
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
import { CREATED_AT } from './schemas.ts';

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

/** An end of an interval. Fractions of a millisecond are rounded up at both ends, so that no entry can be between two intervals. */
export const boundary = (description: string) =>
  z
    .string('must be given once')
    .transform((text, ctx) => {
      // A plus sign that was not encoded arrives as a space.
      const date = parseDate(text.replace(/ (?=\d{2}:?\d{2}$)/, '+'), 'up');
      if (date === undefined) ctx.addIssue('must be a date such as 2026-11-20T18:04:05Z');
      return date ?? z.NEVER;
    })
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
