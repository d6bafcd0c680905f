// Statements on tokens that requests of one tenant share: batched inserts and look-ups by id.
import { createBatcher, createCoalescer } from '../../../platform/db/batcher.ts';
import type { Database } from '../../../platform/db/database.ts';
import type { Query } from '../../../platform/db/statements.ts';
import type { Transaction } from '../../../platform/db/transaction.ts';
import { traced, tracedBatcher } from '../../../platform/db/traced.ts';
import { jsonOf, type TokenGroups } from './token-groups.ts';
import type { FoundCvc, NewToken, NewTokenLog, StoredToken, StoredValue } from './token-row.ts';
import { insertGroups } from './token-transactions.ts';
import { FIND_RECORDS, FIND_TOKENS, FIND_VALUES, INSERT_TOKENS, INSERT_UNIQUE_TOKENS } from './token-sql.ts';

/** Look-ups of at most this many tokens are batched with other requests. Larger ones fill a statement by themselves. */
const TOGETHER_IDS_MAX = 10;

/** The tenant whose rows a statement may touch: a unit of work. */
type Scope = { readonly tenant_id: string };

/** A scope with transactions. */
type Writer = Scope & { transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> };

export type TokenRows = ReturnType<typeof createTokenRows>;

const byId = <Row extends { id: string }>(rows: Row[]): Map<string, Row> => new Map(rows.map((row) => [row.id, row]));

const lives = ({ expires_at }: Pick<StoredToken, 'expires_at'>, now: Date): boolean =>
  expires_at === null || expires_at > now;

export const createTokenRows = ({
  statements: { queryOf, queryForBatch },
  logMacs,
  batchesMax,
  accounts,
  metrics,
  tracing,
  beforeClose,
}: Pick<Database, 'statements' | 'logMacs' | 'batchesMax' | 'accounts' | 'metrics' | 'tracing' | 'beforeClose'>) => {
  const plainTokens = createBatcher(
    async (tenant_id, rows) => {
      await queryForBatch(tenant_id)('insert-tokens', INSERT_TOKENS, [tenant_id, rows]);
    },
    batchesMax,
    accounts,
    metrics,
    'tokens',
  );
  const plainUniqueTokens = createBatcher(
    async (tenant_id, rows) => {
      const text = INSERT_UNIQUE_TOKENS;
      const found = await queryForBatch(tenant_id)('insert-unique-tokens', text, [tenant_id, rows]);
      const existing: (string | undefined)[] = [];
      for (const { place, existing: id } of found as { place: number; existing: string }[]) existing[place - 1] = id;
      return existing;
    },
    batchesMax,
    accounts,
    metrics,
    'unique_tokens',
  );
  const tokens = tracedBatcher(plainTokens, tracing, 'insert-tokens');
  const uniqueTokens = tracedBatcher(plainUniqueTokens, tracing, 'insert-unique-tokens');
  beforeClose(() => Promise.all([tokens.drain(), uniqueTokens.drain()]));

  const textsOf = (tenant_id: string, rows: NewToken[], created: NewTokenLog): string[] | Promise<string[]> =>
    accounts.runInTurns(
      tenant_id,
      jsonOf(rows, created, (log) => logMacs.macOf(tenant_id, log)),
    );

  /** Looks up tokens by id, in one statement for several requests. */
  const createLookUp = <Row extends StoredValue>(name: string, text: string) => {
    const findBy =
      (queryFor: (tenant_id: string) => Query) =>
      async (tenant_id: string, ids: string[]): Promise<Row[]> =>
        (await queryFor(tenant_id)(name, text, [tenant_id, ids])) as Row[];
    const find = findBy(queryOf);
    const findInBatch = findBy(queryForBatch);
    const findOne = createCoalescer<Row>(
      async (tenant_id, ids) => byId(await findInBatch(tenant_id, ids)),
      batchesMax,
      accounts,
      metrics,
    );
    const findFew = async (tenant_id: string, ids: string[]): Promise<Row[]> => {
      const found = await traced(tracing, name, () => Promise.all(ids.map((id) => findOne(tenant_id, id))));
      const rows = found.filter((row) => row !== undefined);
      // The size limit of a batch can leave a value out. Read alone, the request has the whole limit.
      return rows.some(({ sealed }) => sealed === null) ? find(tenant_id, ids) : rows;
    };
    /** Without expired tokens. */
    return async ({ tenant_id }: Scope, ids: string[], now: Date): Promise<Row[]> =>
      (await (ids.length <= TOGETHER_IDS_MAX ? findFew : find)(tenant_id, ids)).filter((row) => lives(row, now));
  };
  const findTokens = createLookUp<StoredToken>('find-tokens', FIND_TOKENS);
  const findRecords = createLookUp<StoredToken & FoundCvc>('find-records', FIND_RECORDS);
  const findValues = createLookUp<StoredValue & FoundCvc>('find-values', FIND_VALUES);

  return {
    /** Writes tokens, security codes and log rows, all or nothing. @throws conflict for an id in use; unavailable. */
    async insertTokens({ tenant_id }: Scope, rows: NewToken[], created: NewTokenLog): Promise<void> {
      await tokens.submit(tenant_id, await textsOf(tenant_id, rows, created));
    },

    /** The same for the tokens of a large request, which waits among the other large ones. */
    insertTokenGroups: (work: Writer, groups: TokenGroups): Promise<void> =>
      tokens.submitAlone(work.tenant_id, groups, () => work.transaction((tx) => insertGroups(tx, groups))),

    /**
     * Writes tokens as `insertTokens` does, except rows with `seen` that have an equal token in a container which one of these
     * LIKE patterns matches. Of equal tokens in one batch, one is written. Each such row has a `log_id` of its own: the MAC of a log
     * row binds its tokens before it is known which of them are written.
     * @returns for each row the id of the existing token; undefined for a row that was written.
     * @throws conflict for an id in use; unavailable.
     */
    insertUniqueTokens: async (
      { tenant_id }: Scope,
      rows: (NewToken & { seen?: readonly string[] | undefined })[],
      created: NewTokenLog,
    ): Promise<(string | undefined)[]> => uniqueTokens.submit(tenant_id, await textsOf(tenant_id, rows, created)),

    /** Like all look-ups here: without expired tokens. */
    findToken: async (scope: Scope, id: string, now: Date): Promise<StoredToken | undefined> =>
      (await findTokens(scope, [id], now))[0],

    /** A token with its security code, for a caller who may see both. */
    findRecord: async (scope: Scope, id: string, now: Date): Promise<(StoredToken & FoundCvc) | undefined> =>
      (await findRecords(scope, [id], now))[0],

    /** Several tokens of one request: all columns, or only those needed to open them. */
    findRecords,
    findValues,
  };
};
