// A pg client that closes its connection when PostgreSQL does not answer in time, so that no query waits for ever.
import { Client, type ClientConfig } from 'pg';
import { findOperation, mark, type Operation } from '../base/event-loop.ts';

/**
 * Creates a class of clients with a timeout for each query. When it ends, the connection is closed, its queries reject, and the
 * pool opens another connection. One timer serves all queries of a connection. pg's own `query_timeout` makes one for each query,
 * which keeps the query and its values alive: 800 bytes for each stored token reached the old generation, 4 with this class.
 * @param queryTimeoutMs counted from when the query is first in the connection's queue.
 */
export const createTimedClient = (queryTimeoutMs: number) =>
  class TimedClient extends Client {
    /** Queries that PostgreSQL has not answered. */
    #pending = 0;
    /** Operations of the queries, in the order of their answers. */
    readonly #operations: (Operation | undefined)[] = [];
    readonly #timer = setTimeout(() => this.#closeConnection(), queryTimeoutMs).unref();

    constructor(config?: string | ClientConfig) {
      super(config);
      this.connection.on('readyForQuery', () => {
        this.#operations.shift();
        if (this.#pending > 0) this.#pending -= 1;
        if (this.#pending > 0) this.#timer.refresh();
      });
      // TLS replaces the stream. Its reader parses the rows of an answer, which may be megabytes.
      for (const event of ['connect', 'sslconnect'])
        this.connection.once(event, () =>
          this.connection.stream.prependListener('data', () => mark(this.#operations[0])),
        );
      // The query fails too. The pool listens to idle clients only: without a listener, a connection that is lost within a
      // transaction would end the process.
      this.on('error', () => undefined);
      this.once('end', () => clearTimeout(this.#timer));
    }

    // oxlint-disable-next-line typescript/no-explicit-any -- as many signatures as pg has, passed on as they are
    override query(config: any, values?: any, callback?: any): any {
      // A queued query must not extend the timeout of the one before it.
      if (this.#pending === 0) this.#timer.refresh();
      this.#pending += 1;
      this.#operations.push(findOperation());
      return super.query(config, values, callback);
    }

    /** Closes the connection at once: what waits for an answer fails. */
    closeNow(reason: string): void {
      this.connection.stream.destroy(new Error(reason));
    }

    #closeConnection(): void {
      if (this.#pending > 0) this.closeNow('PostgreSQL does not answer');
    }
  };
