// Pages of lists, for every list in one way: by number with totals, or by a cursor that stays right while records are
// added. Knows neither the wire's parameters nor where records are kept.
import { z } from 'zod';
import { invalidField } from './errors.ts';

/** decisions.md section 1. */
export const PAGE_SIZE_DEFAULT = 20;
export const PAGE_SIZE_MAX = 100;

/** No list is that long; a number beyond it is a mistake. */
export const PAGE_NUMBER_MAX = 1_000_000_000;

/** A cursor holds a time and an id of up to 400 characters, each of them up to three bytes. */
const CURSOR_LENGTH_MAX = 4_000;

export const outOfRange = (least: number, most: number) => `must be a whole number from ${least} to ${most}`;

const wholeNumber = (most: number) =>
  z.int(outOfRange(1, most)).min(1, outOfRange(1, most)).max(most, outOfRange(1, most));

/** @param sentence what is said of one that is no text. */
export const cursorSchema = (sentence: string) =>
  z
    .string(sentence)
    .min(1, 'must be the `next` of an earlier page')
    .max(CURSOR_LENGTH_MAX, 'must be the `next` of an earlier page');

/** A page as JSON asks for it, where a number is a number. What is left out is as `pageOf` says. */
export const pageFields = {
  page: wholeNumber(PAGE_NUMBER_MAX).optional(),
  size: wholeNumber(PAGE_SIZE_MAX).optional(),
  start: cursorSchema('must be a text').optional(),
};

/** What a caller asks for. With `start`, a cursor that an earlier page gave; else the page of that number, from 1. */
export type PageRequest = { size: number; page: number; start?: string | undefined };

export const pageOf = ({ page = 1, size = PAGE_SIZE_DEFAULT, start }: Partial<PageRequest>): PageRequest => ({
  page,
  size,
  start,
});

/** What a page says of itself. Totals only where pages have numbers. */
export type Pagination = {
  total_items?: number;
  page_number?: number;
  page_size: number;
  total_pages?: number;
  /** There are more than `total_items`: counting stopped there. */
  total_is_capped?: true;
  next?: string;
};

export type Page<T> = { pagination: Pagination; data: T[] };

/** Records that are counted off to find a page; beyond it a cursor is the way (security.md G1: no long scans). */
export const PAGE_OFFSET_MAX = 100_000;

export type PageSource<Row, After> = {
  /** So many records behind so many others, and how many there are. With a limit of 0 only that. */
  page(offset: number, limit: number): Promise<{ rows: Row[]; total: number; capped: boolean }>;
  /** Where the list can go on from a record. `parse` gives undefined for what `of` never made. */
  cursor?: {
    of(row: Row): string[];
    parse(parts: string[]): After | undefined;
    list(after: After, limit: number): Promise<Row[]>;
  };
};

/** The page of a source that counts and lists apart: nothing is listed behind the last. */
export const countThenList =
  <Row>(
    count: () => Promise<{ total: number; capped: boolean }>,
    list: (offset: number, limit: number, isCapped: boolean) => Promise<Row[]>,
  ) =>
  async (offset: number, limit: number): Promise<{ rows: Row[]; total: number; capped: boolean }> => {
    const { total, capped } = await count();
    const isPast = !capped && offset >= total;
    return { rows: isPast || limit === 0 ? [] : await list(offset, limit, capped), total, capped };
  };

const encodeCursor = (parts: string[]): string => Buffer.from(JSON.stringify(parts)).toString('base64url');

const decodeCursor = (text: string): string[] => {
  try {
    const parts: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    return Array.isArray(parts) && parts.every((part) => typeof part === 'string') ? parts : [];
  } catch {
    return [];
  }
};

/** @throws invalidInput for a cursor that no page gave, and for a page too far off to be counted to. */
export const readPage = async <Row, After>(
  request: PageRequest,
  source: PageSource<Row, After>,
): Promise<{ pagination: Pagination; rows: Row[] }> => {
  const { size, page, start } = request;
  const { cursor } = source;
  // One more than the page: whether there is a next one.
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
    throw invalidField('page', `must begin within the first ${PAGE_OFFSET_MAX} records; go on by \`start\``);
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
