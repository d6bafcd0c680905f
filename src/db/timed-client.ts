// A client for the pool that neither waits for ever nor ends the process: its connection is cut where PostgreSQL falls
// silent, and whoever asked hears of every cut by the query that fails. Knows pg's connection, and nothing of what is asked.
import { Client, type ClientConfig } from 'pg';

/**
 * A class of clients that cut their connection when PostgreSQL takes longer than that for a query: what was asked
 * rejects, and the pool makes another connection. One clock for each connection, wound up by each query: pg's own
 * `query_timeout` makes a timer for each, and with it queries and their values outlived many collections (measured: 800
 * bytes for each token grew old, 4 without).
 * @param queryMaxMs as long may a query take, from when its turn comes.
 */
export const createTimedClient = (queryMaxMs: number) =>
  class TimedClient extends Client {
    /** Queries that PostgreSQL has not finished. */
    #asked = 0;
    readonly #clock = setTimeout(() => this.#giveUp(), queryMaxMs).unref();

    constructor(config?: string | ClientConfig) {
      super(config);
      this.connection.on('readyForQuery', () => {
        if (this.#asked > 0) this.#asked -= 1;
        if (this.#asked > 0) this.#clock.refresh();
      });
      // pg emits it beside failing the query. The pool listens to idle clients only: without this, a connection that is
      // cut within a transaction would end the process.
      this.on('error', () => undefined);
      this.once('end', () => clearTimeout(this.#clock));
    }

    // oxlint-disable-next-line typescript/no-explicit-any -- as many signatures as pg has, passed on as they are
    override query(config: any, values?: any, callback?: any): any {
      // What is behind another has its time from when its turn comes: it must not prolong the other's.
      if (this.#asked === 0) this.#clock.refresh();
      this.#asked += 1;
      return super.query(config, values, callback);
    }

    #giveUp(): void {
      if (this.#asked > 0) this.connection.stream.destroy(new Error('PostgreSQL does not answer'));
    }
  };
