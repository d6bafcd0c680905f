// The columns of a row that its sealed value is bound to.
import { type BoundColumn, TOKEN_COLUMNS } from '../db/tables.ts';
import type { BoundColumns } from './seal.ts';

/** As the database has them, or as they are to be written. */
type BoundToken = { readonly [Column in BoundColumn]: string | Date | null | undefined };

export type BoundRow = Partial<BoundToken>;

/** For `Binding.row`. */
export const boundColumns = (row: BoundRow, columns: readonly BoundColumn[]): BoundColumns => {
  const bound: Partial<Record<BoundColumn, string | Date | null | undefined>> = {};
  for (const column of columns) bound[column] = row[column];
  return bound;
};

export const boundOfToken = (row: BoundToken): BoundColumns => boundColumns(row, TOKEN_COLUMNS);
