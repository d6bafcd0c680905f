// Reads pages of lists: by number with totals, or by a cursor that stays correct while records are added.
import { z } from 'zod';
import { invalidField } from './errors.ts';
import { optional } from './optional.ts';

export const PAGE_SIZE_DEFAULT = 20;
export const PAGE_SIZE_MAX = 100;

/** Matches are counted up to this number: an exact count of millions would cost more than the page. */
export const COUNTED_MAX = 10_000;

/** No list is that long; a number beyond it is a mistake. */
export const PAGE_NUMBER_MAX = 1_000_000_000;

/** A cursor holds a time and an id of up to 400 characters, each of them up to three bytes. */
const CURSOR_LENGTH_MAX = 4_000;

export const outOfRange = (least: number, most: number) => `must be a whole number from ${least} to ${most}`;

const wholeNumber = (most: number) =>
  z.int(outOfRange(1, most)).min(1, outOfRange(1, most)).max(most, outOfRange(1, most));

/** @param sentence the error for a value that is not a string. */
export const cursorSchema = (sentence: string) =>
  z
    .string(sentence)
    .min(1, 'must be the `next` of an earlier page')
    .max(CURSOR_LENGTH_MAX, 'must be the `next` of an earlier page');

/** The selection of a page in a JSON body. `pageOf` has the defaults. */
export const pageFields = {
  page: optional(wholeNumber(PAGE_NUMBER_MAX)),
  size: optional(wholeNumber(PAGE_SIZE_MAX)),
  start: optional(cursorSchema('must be a string')),
};

/** The page that a client selects: by `start`, the cursor of an earlier page, or else by its number from 1. */
export type PageRequest = { size: number; page: number; start?: string | undefined };

export const pageOf = ({ page = 1, size = PAGE_SIZE_DEFAULT, start }: Partial<PageRequest>): PageRequest => ({
  page,
  size,
  start,
});

export const CURSOR_EXAMPLE = 'WyIxNzkwMDAwMDAwMDAwIiwiMGY2YWQ2YTQiXQ';

/** Position of a page in its list. Only pages with numbers have totals. */
export const paginationSchema = z
  .object({
    total_items: z
      .int()
      .optional()
      .meta({ description: 'The number of records in the list. Left out with a cursor.', example: 1 }),
    page_number: z
      .int()
      .optional()
      .meta({ description: 'The number of this page, from 1. Left out with a cursor.', example: 1 }),
    page_size: z.int().meta({ description: 'The maximum number of records on this page.', example: PAGE_SIZE_DEFAULT }),
    total_pages: z
      .int()
      .optional()
      .meta({ description: 'The number of pages in the list. Left out with a cursor.', example: 1 }),
    total_is_capped: z
      .boolean()
      .optional()
      .meta({
        description: `True where the list has more than \`total_items\` records: the server counts filtered lists up to ${COUNTED_MAX.toLocaleString('en')}. Left out otherwise.`,
        example: true,
      }),
    next: z.string().optional().meta({
      description:
        'The cursor of the next page, to send as `start`. Only lists of tokens and logs have it. The last page has none.',
      example: CURSOR_EXAMPLE,
    }),
  })
  .meta({ id: 'Pagination', description: 'The position of a page in its list.' });

export type Pagination = z.infer<typeof paginationSchema>;

export type Page<T> = { pagination: Pagination; data: T[] };

/** The database skips at most so many records to find a page by number. Beyond, the client must use a cursor: no long scans. */
export const PAGE_OFFSET_MAX = 100_000;

export type PageSource<Row, After> = {
  /** The records at an offset, and the total. With a limit of 0 only the total. */
  page(offset: number, limit: number): Promise<{ rows: Row[]; total: number; capped: boolean }>;
  /** The parts of a cursor. `parse` returns undefined for parts that `of` did not make. */
  cursor?: {
    of(row: Row): string[];
    parse(parts: string[]): After | undefined;
    list(after: After, limit: number): Promise<Row[]>;
  };
};

/** The number of records. `capped` where counting stopped at COUNTED_MAX. */
export type Counted = { total: number; capped: boolean };

/** The page of a source with two queries. Lists nothing after the last record. */
export const countThenList =
  <Row>(count: () => Promise<Counted>, list: (offset: number, limit: number, isCapped: boolean) => Promise<Row[]>) =>
  async (offset: number, limit: number): Promise<{ rows: Row[]; total: number; capped: boolean }> => {
    const { total, capped } = await count();
    const isPast = !capped && offset >= total;
    return { rows: isPast || limit === 0 ? [] : await list(offset, limit, capped), total, capped };
  };

export const encodeCursor = (parts: string[]): string => Buffer.from(JSON.stringify(parts)).toString('base64url');

const decodeCursor = (text: string): string[] => {
  try {
    const parts: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    return Array.isArray(parts) && parts.every((part) => typeof part === 'string') ? parts : [];
  } catch {
    return [];
  }
};

/** @throws invalidInput for a cursor that no page returned, and for a page beyond PAGE_OFFSET_MAX. */
export const readPage = async <Row, After>(
  request: PageRequest,
  source: PageSource<Row, After>,
): Promise<{ pagination: Pagination; rows: Row[] }> => {
  const { size, page, start } = request;
  const { cursor } = source;
  // One record more than the page has, to know whether there is a next page.
  const withNext = (rows: Row[]): { rows: Row[]; next?: string } => {
    const last = rows[size - 1];
    if (!cursor || rows.length <= size || last === undefined) return { rows: rows.slice(0, size) };
    return { rows: rows.slice(0, size), next: encodeCursor(cursor.of(last)) };
  };

  if (start !== undefined) {
    const after = cursor?.parse(decodeCursor(start));
    if (!cursor || after === undefined) throw invalidField('start', 'must be the `next` of an earlier page');
    const { rows, next } = withNext(await cursor.list(after, size + 1));
    return { pagination: { page_size: size, ...(next !== undefined && { next }) }, rows };
  }

  const offset = (page - 1) * size;
  const isFar = offset > PAGE_OFFSET_MAX;
  const found = await source.page(isFar ? 0 : offset, isFar ? 0 : size + 1);
  const { total, capped } = found;
  if (isFar && (capped || offset < total))
    throw invalidField(
      'page',
      `must begin within the first ${PAGE_OFFSET_MAX} records; continue with \`start\``,
      'too_large',
    );
  const { rows, next } = withNext(found.rows);
  const pagination: Pagination = {
    total_items: total,
    page_number: page,
    page_size: size,
    total_pages: Math.ceil(total / size),
  };
  if (capped) pagination.total_is_capped = true;
  if (next !== undefined) pagination.next = next;
  return { pagination, rows };
};
