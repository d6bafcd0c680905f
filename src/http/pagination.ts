// Lists on the wire: the parameters a page is asked for by, and the shape it comes in. One piece for every list.
import { z } from 'zod';
import type { PageRequest } from '../paging.ts';

/** decisions.md section 1. */
export const PAGE_SIZE_DEFAULT = 20;
const PAGE_SIZE_MAX = 100;

/** No list is that long; a number beyond it is a mistake. */
const PAGE_NUMBER_MAX = 1_000_000_000;

/** A cursor holds a time and an id of up to 400 characters, each of them up to three bytes. */
const CURSOR_LENGTH_MAX = 4_000;

/** Values of one repeated parameter: as many as fit a URL of ordinary length. */
const REPEATED_MAX = 100;

const outOfRange = (least: number, most: number) => `must be a whole number from ${least} to ${most}`;

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

/** The same in a body, where a number is a number. */
const bodyNumber = (least: number, most: number, description: string, otherwise: number) =>
  z
    .int(outOfRange(least, most))
    .min(least, outOfRange(least, most))
    .max(most, outOfRange(least, most))
    .optional()
    .meta({ description, default: otherwise, example: otherwise });

const PAGE_DESCRIPTION = 'Which page, from 1.';
const SIZE_DESCRIPTION = 'Records on a page.';

/** The parameters of a page by number. */
export const pageQuery = (sizeMax = PAGE_SIZE_MAX) => ({
  page: wholeNumber(1, PAGE_NUMBER_MAX, PAGE_DESCRIPTION, 1),
  size: wholeNumber(1, sizeMax, SIZE_DESCRIPTION, PAGE_SIZE_DEFAULT),
});

const cursor = (sentence: string, description: string) =>
  z
    .string(sentence)
    .min(1, 'must be the `next` of an earlier page')
    .max(CURSOR_LENGTH_MAX, 'must be the `next` of an earlier page')
    .optional()
    .meta({ description, example: 'WyIxNzkwMDAwMDAwMDAwIiwiMGY2YWQ2YTQiXQ' });

/** The parameters of a page by number or by cursor. */
export const cursorQuery = (sizeMax = PAGE_SIZE_MAX) => ({
  ...pageQuery(sizeMax),
  start: cursor(
    'must be given once',
    'The `next` of an earlier page: goes on behind its last record, however many were added since. `page` does not count then, and no totals are given.',
  ),
});

/** The same in a body. */
export const cursorBody = () => ({
  page: bodyNumber(1, PAGE_NUMBER_MAX, PAGE_DESCRIPTION, 1),
  size: bodyNumber(1, PAGE_SIZE_MAX, SIZE_DESCRIPTION, PAGE_SIZE_DEFAULT),
  start: cursor('must be a text', 'The `next` of an earlier page.'),
});

export const pageOf = ({ page = 1, size = PAGE_SIZE_DEFAULT, start }: Partial<PageRequest>): PageRequest => ({
  page,
  size,
  start,
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

export const pagination = z
  .object({
    total_items: z.int().optional().meta({ description: 'All records there are. Not with a cursor.', example: 1 }),
    page_number: z.int().optional().meta({ description: 'This page, from 1. Not with a cursor.', example: 1 }),
    page_size: z.int().meta({ description: 'Most records of a page.', example: PAGE_SIZE_DEFAULT }),
    total_pages: z.int().optional().meta({ description: 'All pages there are. Not with a cursor.', example: 1 }),
    total_is_capped: z.literal(true).optional().meta({
      description: 'Present where there are more than `total_items`: filtered lists are counted up to 10,000.',
      example: true,
    }),
    next: z.string().optional().meta({
      description: 'Where there is more: send it as `start`. Lists of tokens and logs have it.',
      example: 'WyIxNzkwMDAwMDAwMDAwIiwiMGY2YWQ2YTQiXQ',
    }),
  })
  .meta({ id: 'Pagination', description: 'Where a page stands in its list.' });

/** The page of a list. @param id the name of its schema. */
export const pageSchema = <T extends z.ZodType>(item: T, id: string) =>
  z.object({ pagination, data: z.array(item) }).meta({ id });

/** The pagination of a first and only page, for examples. */
export const onlyPage = (items: number) => ({
  total_items: items,
  page_number: 1,
  page_size: PAGE_SIZE_DEFAULT,
  total_pages: 1,
});
