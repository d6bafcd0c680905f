// Writes a review as JSON or as CSV (RFC 4180), with the digest that an attestation names.
import { csvCell } from '../../platform/base/csv-cell.ts';
import type { Reservation } from '../../platform/base/accounts.ts';
import { sha256Hex } from '../../platform/crypto/digest.ts';
import type { Work } from '../access/work.ts';
import type { AnswersContext } from './context.ts';
import { reviewAccess, type ReviewRow } from './review.ts';

export const reviewFormats = ['json', 'csv'] as const;

export type ReviewFormat = (typeof reviewFormats)[number];

/** The order of the columns. */
const columns = [
  'kind',
  'id',
  'name',
  'type',
  'application_id',
  'reveals',
  'uses',
  'changes',
  'other_permissions',
  'reveals_tokens',
  'uses_tokens',
  'changes_tokens',
  'hosts',
  'limits',
  'live_sessions',
  'last_used_at',
  'created_at',
  'age_days',
  'expires_at',
  'orphan',
] as const satisfies readonly (keyof ReviewRow)[];

const cellOf = (value: ReviewRow[keyof ReviewRow]): string => {
  if (value === undefined) return '';
  return csvCell(Array.isArray(value) ? value.join('; ') : String(value));
};

const csvLine = (cells: readonly string[]): string => `${cells.join(',')}\r\n`;

export type ReviewFile = { text: string; digest: string; reservations: Reservation[] };

/**
 * The whole file. Its memory is reserved page by page, until it is sent.
 * @throws as reviewAccess; too_many_requests and unavailable where there is no memory for it.
 */
export const writeReview = async (ctx: AnswersContext, work: Work, format: ReviewFormat): Promise<ReviewFile> => {
  const reservations: Reservation[] = [];
  const parts: string[] = [];
  const add = (text: string): void => {
    reservations.push(ctx.accounts.reserve(work.tenant_id, 'unsent_bytes', text.length));
    parts.push(text);
  };
  const write = {
    json: (rows: ReviewRow[]) => rows.map((row) => `${JSON.stringify(row)},\n`).join(''),
    csv: (rows: ReviewRow[]) => rows.map((row) => csvLine(columns.map((column) => cellOf(row[column])))).join(''),
  }[format];
  try {
    if (format === 'csv') add(csvLine(columns));
    const review = await reviewAccess(ctx, work, (rows) => add(write(rows)));
    const text = format === 'csv' ? parts.join('') : wholeJson(review, parts.join(''));
    return { text, digest: sha256Hex(text), reservations };
  } catch (error) {
    for (const each of reservations) each.release();
    throw error;
  }
};

/** @param rows each with a comma and a line end. */
const wholeJson = (review: object, rows: string): string =>
  `${JSON.stringify(review).slice(0, -1)},"rows":[\n${rows.slice(0, -2)}\n]}\n`;
