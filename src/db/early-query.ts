// A statement whose rows are handed on before it commits. Rows travel when the statement has run; with a Flush behind it
// PostgreSQL sends them at once, and not with the end of the commit, which takes as long as the disk does. Knows pg's
// way of running a query (its Submittable), which pg's own cursors and streams are made by too.
import { type Connection, Query, type QueryConfig } from 'pg';

declare module 'pg' {
  interface Query {
    portal: string;
    _result: { rows: unknown[] };
    /** Set where a row could not be read: the query fails at its end. */
    _canceledDueToError: unknown;
    handleCommandComplete(message: unknown, connection: Connection): void;
    _getRows(connection: Connection, rows: number | undefined): void;
  }
  interface Connection {
    sync(): void;
  }
}

export class EarlyQuery extends Query {
  readonly #onRows: (rows: unknown[]) => void;

  /**
   * @param config a named statement.
   * @param onRows gets all rows, before the commit.
   */
  constructor(config: QueryConfig, onRows: (rows: unknown[]) => void) {
    super(config);
    this.#onRows = onRows;
  }

  override _getRows(connection: Connection): void {
    connection.execute({ portal: this.portal, rows: undefined }, true);
    connection.flush();
    connection.sync();
  }

  override handleCommandComplete(message: unknown, connection: Connection): void {
    super.handleCommandComplete(message, connection);
    // oxlint-disable-next-line no-underscore-dangle -- pg's own names
    if (!this._canceledDueToError) this.#onRows(this._result.rows);
  }
}
