// Names the tenants whose rows a statement may see, in the same round trip. Row-level security hides all other rows.
import { escapeLiteral, Pool, Query, type ClientBase, type QueryConfig, type QueryResult, type Submittable } from 'pg';

/** What the policies of the tables read (the baseline migration). It holds until the end of the transaction. */
const SETTING = 'strongroom.tenants';

/** For the server's own work, and for look-ups before a caller is known. */
export const ALL_TENANTS = '*';

/** Value of the setting: ids, divided by commas. */
export const namesOf = (tenant_ids: Iterable<string>): string => [...new Set(tenant_ids)].join(',');

/** Returns no row, so that the answer is short. Each connection prepares it before its first statement. */
export const NAME_TENANTS = {
  name: 'name-tenants',
  text: `SELECT WHERE set_config('${SETTING}', $1, true) IS NULL`,
};

/** Names other tenants within a transaction. @returns those that were named before. */
const RENAME_TENANTS = `SELECT current_setting('${SETTING}') AS before, set_config('${SETTING}', $1::text, true)`;

/** Runs work that sees rows of all tenants, within a transaction of one. For what a person or an address has in other tenants. */
export const amongAllTenants = async <T>(
  // oxlint-disable-next-line typescript/no-explicit-any -- as Query in statements.ts, which imports this file
  { query }: { query(name: string, text: string, values: unknown[]): Promise<any[]> },
  work: () => Promise<T>,
): Promise<T> => {
  const [{ before }] = await query('rename-tenants', RENAME_TENANTS, [ALL_TENANTS]);
  const result = await work();
  await query('rename-tenants', RENAME_TENANTS, [before]);
  return result;
};

/** For a whole session of a command: migrations, backups and restores. */
export const SEE_ALL_TENANTS = `SET ${SETTING} = '${ALL_TENANTS}'`;

/** The messages of the extended protocol, as pg's Connection sends them. */
type Wire = { bind(message: { statement: string; values: string[] }): void; execute(message: object): void };

/** What pg's Query has beside its types: it makes the messages of one statement, and takes the answers. */
type PreparedQuery = Submittable & {
  prepare(wire: Wire): void;
  handleCommandComplete(message: unknown, wire: Wire): void;
};
const PreparedQuery = Query as unknown as new (config: QueryConfig) => PreparedQuery;

/**
 * A statement with NAME_TENANTS before it. Both are sent at once, with one Sync at the end, so that PostgreSQL runs them in one
 * transaction.
 */
class NamingQuery extends PreparedQuery {
  readonly #tenants: string;
  #isNamed = false;

  constructor(tenants: string, config: QueryConfig) {
    super({ ...config, queryMode: 'extended' } as QueryConfig);
    this.#tenants = tenants;
  }

  override prepare(wire: Wire): void {
    wire.bind({ statement: NAME_TENANTS.name, values: [this.#tenants] });
    wire.execute({});
    super.prepare(wire);
  }

  override handleCommandComplete(message: unknown, wire: Wire): void {
    if (this.#isNamed) super.handleCommandComplete(message, wire);
    this.#isNamed = true;
  }
}

/** Runs one statement that sees rows of the named tenants only. @param client the pool, or a connection of it. */
export const queryNaming = (client: Pool | ClientBase, tenants: string, config: QueryConfig): Promise<QueryResult> => {
  const query = new NamingQuery(tenants, config);
  // pg answers by a promise for its own configurations, its pool also for queries.
  if (client instanceof Pool) return client.query(query) as unknown as Promise<QueryResult>;
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, result: QueryResult): void => (error ? reject(error) : resolve(result));
    (client.query as (query: Submittable, done: unknown) => void).call(client, query, done);
  });
};

/**
 * Begins a transaction whose statements see rows of the named tenants only. By SET, which takes no snapshot: the transaction may
 * still choose its isolation.
 */
export const beginNaming = (client: ClientBase, tenants: string): Promise<QueryResult> =>
  client.query(`BEGIN; SET LOCAL ${SETTING} = ${escapeLiteral(tenants)}`);
