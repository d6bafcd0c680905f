// Lists on the wire: the parameters a page is asked for by, the filters that lists share, and the shape a page comes in.
// One piece for every list.
import { z } from 'zod';
import {
  cursorSchema,
  outOfRange,
  PAGE_NUMBER_MAX,
  PAGE_OFFSET_MAX,
  PAGE_SIZE_DEFAULT,
  PAGE_SIZE_MAX,
  pageFields,
} from '../paging.ts';
import { isStorableText } from '../vault/json.ts';

export { pageOf } from '../paging.ts';

/** Values of one repeated parameter: as many as fit a URL of ordinary length. */
const REPEATED_MAX = 100;

/** A whole number in decimal digits, as a query spells it; given once. */
const wholeNumber = (least: number, most: number, description: string, otherwise: number) =>
  z
    .string(`must be given once, as a whole number from ${least} to ${most}`)
    .regex(/^\d{1,10}$/, outOfRange(least, most))
    .transform(Number)
    .refine((number) => number >= least && number <= most, outOfRange(least, most))
    .optional()
    .transform((number) => number ?? otherwise)
    .meta({ description, type: 'integer', minimum: least, maximum: most, default: otherwise, example: otherwise });

const PAGE_DESCRIPTION = `The number of the page, from 1. Pages begin within the first ${PAGE_OFFSET_MAX} records.`;
const SIZE_DESCRIPTION = 'The most records on a page.';

/** The parameters of a page by number. */
export const pageQuery = (sizeMax = PAGE_SIZE_MAX) => ({
  page: wholeNumber(1, PAGE_NUMBER_MAX, PAGE_DESCRIPTION, 1),
  size: wholeNumber(1, sizeMax, SIZE_DESCRIPTION, PAGE_SIZE_DEFAULT),
});

const CURSOR_EXAMPLE = 'WyIxNzkwMDAwMDAwMDAwIiwiMGY2YWQ2YTQiXQ';

/** The parameters of a page by number or by cursor. */
export const cursorQuery = (example = CURSOR_EXAMPLE) => ({
  ...pageQuery(),
  start: cursorSchema('must be given once').optional().meta({
    description:
      'The `next` of an earlier page. The page begins behind the last record of that one, however many were added since. `page` is ignored then, and there are no totals.',
    example,
  }),
});

/** The same in a body, where a number is a number. */
export const cursorBody = () => ({
  page: pageFields.page.meta({ description: `${PAGE_DESCRIPTION} Left out: 1.`, example: 1 }),
  size: pageFields.size.meta({
    description: `${SIZE_DESCRIPTION} Left out: ${PAGE_SIZE_DEFAULT}.`,
    example: PAGE_SIZE_DEFAULT,
  }),
  start: pageFields.start.meta({
    description: 'The `next` of an earlier page, to go on behind its last record.',
    example: CURSOR_EXAMPLE,
  }),
});

/** A parameter that may be repeated: `?id=a&id=b`. */
export const repeated = <T extends z.ZodType>(item: T, description: string, example: unknown) =>
  z
    .union([item, z.array(item).max(REPEATED_MAX, `must be given at most ${REPEATED_MAX} times`)], {
      // What is wrong is said by the form that was sent.
      error: ({ input, errors }) => (errors as z.core.$ZodIssue[][])[Array.isArray(input) ? 1 : 0]?.[0]?.message,
    })
    .transform((value): z.output<T>[] => (Array.isArray(value) ? value : [value]))
    .optional()
    .meta({ description, 'x-repeated': true, example: [example] });

/** Longer than any name: each of its characters may stand between two stars. */
const NAME_FILTER_LENGTH_MAX = 400;

/** What a list is searched by: `*` is any run of characters, everything else literal (decisions.md section 1). */
export const nameQuery = (description: string, example: string) =>
  z
    .string('must be given once')
    .min(1, `must have 1 to ${NAME_FILTER_LENGTH_MAX} characters`)
    .max(NAME_FILTER_LENGTH_MAX, `must have 1 to ${NAME_FILTER_LENGTH_MAX} characters`)
    .refine(isStorableText, 'must be text without NUL and in whole characters')
    .optional()
    .meta({ description: `${description} \`*\` stands for any run of characters; case does not count.`, example });

export const pagination = z
  .object({
    total_items: z
      .int()
      .optional()
      .meta({ description: 'The number of records in the list. Left out with a cursor.', example: 1 }),
    page_number: z
      .int()
      .optional()
      .meta({ description: 'The number of this page, from 1. Left out with a cursor.', example: 1 }),
    page_size: z
      .int()
      .meta({ description: 'The most records that a page of this size has.', example: PAGE_SIZE_DEFAULT }),
    total_pages: z
      .int()
      .optional()
      .meta({ description: 'The number of pages in the list. Left out with a cursor.', example: 1 }),
    total_is_capped: z.boolean().optional().meta({
      description:
        'True where the list has more than `total_items` records: the server counts filtered lists up to 10,000. Left out otherwise.',
      example: true,
    }),
    next: z.string().optional().meta({
      description:
        'The cursor of the next page, to send as `start`. Only lists of tokens and logs have it, and not on the last page.',
      example: CURSOR_EXAMPLE,
    }),
  })
  .meta({ id: 'Pagination', description: 'The place of a page in its list.' });

/** The page of a list. @param id the name of its schema. */
export const pageSchema = <T extends z.ZodType>(item: T, id: string) =>
  z
    .object({ pagination, data: z.array(item).meta({ description: 'The records of the page.' }) })
    .meta({ id, description: 'A page of a list of records.' });

/** The pagination of a first and only page, for examples. */
export const onlyPage = (items: number) => ({
  total_items: items,
  page_number: 1,
  page_size: PAGE_SIZE_DEFAULT,
  total_pages: 1,
});
