// The hot path: what is written and read of tokens, in batches, alone, or in transactions. The texts of the statements are
// in token-sql.ts. Knows columns and bytes; what they mean is the vault's affair.
import { createBatcher } from './batcher.ts';
import { createCoalescer } from './coalescer.ts';
import { notFound, unavailable } from '../errors.ts';
import { type KeptAnswer, keepAnswer } from './idempotency.ts';
import type { Query, Statements } from './statements.ts';
import {
  DELETE_ASSOCIATION,
  DELETE_CVC,
  DELETE_TOKEN,
  FIND_AND_LOG_VALUES,
  FIND_API_KEY,
  FIND_BY_FINGERPRINTS,
  FIND_CVCS,
  FIND_RECORDS,
  FIND_TOKENS,
  FIND_VALUES,
  INSERT_ASSOCIATION,
  INSERT_LOGS,
  INSERT_TOKENS,
  LINK_TOKEN,
  LOCK_FINGERPRINTS,
  LOCK_FOR_DELETE,
  LOCK_TOKEN,
  type LoggedLookUpTexts,
  PUT_CVC,
  READ_TOKENS,
  UPDATE_TOKEN,
} from './token-sql.ts';

/** A token about to be written. `sealed` and `cvc_sealed` are base64. Tokens of one `log_id` share a row of the log. */
export type NewToken = {
  id: string;
  type: string;
  sealed: string;
  fingerprint?: string | undefined;
  fingerprint_expression?: string | undefined;
  container: string;
  metadata?: Record<string, string> | undefined;
  search_indexes?: string[] | undefined;
  search_digests?: string[] | undefined;
  expires_at?: string | undefined;
  cvc_sealed?: string | undefined;
  cvc_expires_at?: string | undefined;
  created_at: string;
  created_by: string;
  actor_type: string;
  log_id: string;
  message: string;
};

/** A row of the log: one deed, over one or more entities of a kind. */
export type NewLog = {
  id: string;
  actor_id: string | null;
  actor_type: string | null;
  entity_type: string;
  entity_ids: string[];
  operation: string;
  message: string;
  created_at: string;
};

/** A stored token; absent values are null. */
export type StoredToken = {
  id: string;
  type: string;
  /** Null where the rows of a request hold more than SEALED_BYTES_MAX together. */
  sealed: Buffer;
  fingerprint: string | null;
  fingerprint_expression: string | null;
  container: string;
  metadata: Record<string, string> | null;
  search_indexes: string[] | null;
  expires_at: Date | null;
  created_at: Date;
  created_by: string | null;
  modified_at: Date | null;
  modified_by: string | null;
};

export type FoundApiKey = {
  tenant_id: string;
  application_id: string;
  digest: Buffer;
  permissions: string[];
  rules: unknown;
  allowed_hosts: string[] | null;
  settings: Record<string, string>;
};

/** As much of a stored token as it takes to open it and to decide over it. */
export type StoredValue = Pick<StoredToken, 'id' | 'type' | 'sealed' | 'container' | 'expires_at'>;

/** A card's security code beside it, as it is kept: it may have expired. */
export type FoundCvc = { cvc_sealed: Buffer | null; cvc_expires_at: Date | null };

/**
 * What is asked of one token, and the log rows of that: where a row names no entity, it tells of the token. `created_at` is
 * the moment it must live in.
 */
export type LoggedLookUp = {
  token_id: string;
  rows: (Omit<NewLog, 'entity_type' | 'entity_ids'> & Partial<Pick<NewLog, 'entity_type' | 'entity_ids'>>)[];
};

/** What a transaction of creates writes, once it knows which fingerprints are there. */
export type ChosenTokens = {
  rows: NewToken[];
  logs: NewLog[];
  /** Tokens that become children of one, if they are not already. */
  links?: { parent_id: string; child_ids: string[]; created_at: string; created_by: string } | undefined;
  answer?: KeptAnswer | undefined;
};

/** A token's columns after a change, and what becomes of its CVC: another, none, or (undefined) as it was. */
export type ChangedToken = {
  row: Omit<NewToken, 'id' | 'type' | 'created_at' | 'created_by' | 'actor_type' | 'log_id' | 'message'> & {
    modified_at: string;
    modified_by: string;
  };
  cvc: 'keep' | 'remove' | 'replace';
  log: NewLog;
  answer?: KeptAnswer | undefined;
};

/** What makes two tokens equal: the digest, and what it is a digest of. */
export type Fingerprint = { fingerprint: string; fingerprint_expression: string };

const nameOf = ({ fingerprint, fingerprint_expression }: Fingerprint): string =>
  `${fingerprint} ${fingerprint_expression}`;

export type PlannedChange<T> = {
  /** A fingerprint that no other token may have; undefined where that does not matter. */
  unique: Fingerprint | undefined;
  /** @param taken whether another token has that fingerprint. */
  change: (taken: boolean) => { changed: ChangedToken; result: T };
};

/** A request for this few tokens goes together with others; more are a statement's work by themselves. */
const TOGETHER_IDS_MAX = 10;

export type HotStatements = ReturnType<typeof createHotStatements>;

const byId = <Row extends { id: string }>(rows: Row[]): Map<string, Row> => new Map(rows.map((row) => [row.id, row]));

/** What is made of rows while the statement that found them commits; shown when it has. */
const afterCommit = async <T>(committed: Promise<unknown> | undefined, made: Promise<T>): Promise<T> => {
  // Heard below, also where it fails before the commit.
  made.catch(() => undefined);
  await committed;
  return made;
};

const lives = (row: StoredValue, now: Date): boolean => row.expires_at === null || row.expires_at > now;

export const createHotStatements = ({ query, queryEarly, transaction }: Statements, batchesMax: number) => {
  const tokens = createBatcher(async (tenantId, rows) => {
    await query('insert-tokens', INSERT_TOKENS, [tenantId, rows]);
  }, batchesMax);
  const logs = createBatcher(async (tenantId, rows) => {
    // Whatever keeps the log from being written: nothing is answered without it (decisions.md section 8).
    await query('insert-logs', INSERT_LOGS, [tenantId, rows]).catch((error: unknown) => {
      throw unavailable(error);
    });
  }, batchesMax);

  const findTokens = async (tenantId: string, ids: string[]): Promise<StoredToken[]> =>
    (await query('find-tokens', FIND_TOKENS, [tenantId, ids])) as StoredToken[];
  const lookUp = createCoalescer<string, StoredToken>(
    async (tenantId, ids) => ({ rows: byId(await findTokens(tenantId, [...new Set(ids)])) }),
    (id) => id,
    batchesMax,
  );
  const createLoggedLookUp = <Row extends { id: string }>(name: string, { several, one }: LoggedLookUpTexts) =>
    createCoalescer<LoggedLookUp, Row>(
      async (tenantId, asked) => {
        const ids = [...new Set(asked.map(({ token_id }) => token_id))];
        const logged = asked.flatMap(({ token_id, rows }) => rows.map((row) => ({ ...row, token_id })));
        // Whatever keeps the log from being written: nothing is answered without it (decisions.md section 8).
        const refuse = (error: unknown): never => {
          throw unavailable(error);
        };
        const { rows, committed } = await (
          ids.length === 1
            ? queryEarly(`${name}-one`, one, [tenantId, JSON.stringify(logged), ids[0]])
            : queryEarly(name, several, [tenantId, JSON.stringify(logged), ids])
        ).catch(refuse);
        return { rows: byId(rows as Row[]), committed: committed.catch(refuse) };
      },
      ({ token_id }) => token_id,
      batchesMax,
    );
  const read = createLoggedLookUp<StoredToken>('read-tokens', READ_TOKENS);
  const findAndLog = createLoggedLookUp<StoredValue & FoundCvc>('find-and-log-values', FIND_AND_LOG_VALUES);

  const findValues = async (tenantId: string, ids: string[]): Promise<(StoredValue & FoundCvc)[]> =>
    (await query('find-values', FIND_VALUES, [tenantId, ids])) as (StoredValue & FoundCvc)[];
  const lookUpValue = createCoalescer<string, StoredValue & FoundCvc>(
    async (tenantId, ids) => ({ rows: byId(await findValues(tenantId, [...new Set(ids)])) }),
    (id) => id,
    batchesMax,
  );
  const findFewValues = async (tenantId: string, ids: string[]): Promise<(StoredValue & FoundCvc)[]> => {
    const found = await Promise.all(ids.map((id) => lookUpValue(tenantId, id)));
    const rows = found.flatMap(({ row }) => row ?? []);
    // Where there was no room for a value beside those of others, there may be for one's own.
    return rows.some(({ sealed }) => sealed === null) ? findValues(tenantId, ids) : rows;
  };

  const lockFingerprints = async (
    on: Query,
    tenantId: string,
    wanted: readonly Fingerprint[],
    now: Date,
  ): Promise<Map<string, StoredToken>> => {
    if (wanted.length === 0) return new Map();
    const prints = wanted.map(({ fingerprint }) => fingerprint);
    const expressions = wanted.map(({ fingerprint_expression }) => fingerprint_expression);
    await on('lock-fingerprints', LOCK_FINGERPRINTS, [tenantId, prints]);
    const found = await on('find-fingerprints', FIND_BY_FINGERPRINTS, [tenantId, prints, expressions, now]);
    return new Map((found as StoredToken[]).map((row) => [nameOf(row as Fingerprint), row]));
  };

  return {
    /** Writes tokens, their CVCs and their log rows, all or nothing. @throws conflict for an id that is taken; unavailable. */
    insertTokens: (tenantId: string, rows: NewToken[]): Promise<void> =>
      tokens.submit(
        tenantId,
        rows.map((row) => JSON.stringify(row)),
      ),

    /** Appends log rows. Resolves after commit. */
    insertLogs: (tenantId: string, rows: NewLog[]): Promise<void> =>
      logs.submit(
        tenantId,
        rows.map((row) => JSON.stringify(row)),
      ),

    /**
     * Writes tokens in a transaction of their own: where what is written depends on the fingerprints that are there,
     * each under a lock, and for all that must be written with them.
     * @throws conflict for an id that is taken, or an idempotency key that another took over; notFound for a parent that is gone; unavailable.
     */
    insertTokensTogether: (
      tenantId: string,
      fingerprints: readonly Fingerprint[],
      now: Date,
      choose: (findExisting: (of: Fingerprint) => StoredToken | undefined) => ChosenTokens,
    ): Promise<void> =>
      transaction(async (on) => {
        const existing = await lockFingerprints(on, tenantId, fingerprints, now);
        const chosen = choose((of) => existing.get(nameOf(of)));
        if (chosen.rows.length > 0) await on('insert-tokens', INSERT_TOKENS, [tenantId, JSON.stringify(chosen.rows)]);
        for (const child_id of chosen.links?.child_ids ?? []) {
          const { parent_id, created_at, created_by } = chosen.links as NonNullable<ChosenTokens['links']>;
          await on('link-token', LINK_TOKEN, [tenantId, parent_id, child_id, created_at, created_by]);
        }
        if (chosen.logs.length > 0) await on('insert-logs', INSERT_LOGS, [tenantId, JSON.stringify(chosen.logs)]);
        if (chosen.answer) await keepAnswer(on, tenantId, chosen.answer);
      }),

    /**
     * Changes a token under a lock on its row.
     * @param plan is told the token as it stands, and decides on the change.
     * @returns what the change answers; undefined where there is no such token.
     */
    changeToken: <T>(
      tenantId: string,
      id: string,
      now: Date,
      plan: (row: StoredToken) => PlannedChange<T>,
    ): Promise<T | undefined> =>
      transaction(async (on) => {
        const [row] = (await on('lock-token', LOCK_TOKEN, [tenantId, id, now])) as StoredToken[];
        if (!row) return undefined;
        const { unique, change } = plan(row);
        const existing = await lockFingerprints(on, tenantId, unique === undefined ? [] : [unique], now);
        const { changed, result } = change([...existing.values()].some((other) => other.id !== id));
        const { cvc_sealed, cvc_expires_at, ...columns } = changed.row;
        await on('update-token', UPDATE_TOKEN, [tenantId, id, JSON.stringify(columns)]);
        if (changed.cvc === 'replace') await on('put-cvc', PUT_CVC, [tenantId, id, cvc_sealed, cvc_expires_at]);
        else if (changed.cvc === 'remove') await on('delete-cvc', DELETE_CVC, [tenantId, id]);
        await on('insert-logs', INSERT_LOGS, [tenantId, JSON.stringify([changed.log])]);
        if (changed.answer) await keepAnswer(on, tenantId, changed.answer);
        return result;
      }),

    /** @returns whether it was there, in that container. */
    deleteToken: (tenantId: string, id: string, container: string, log: NewLog): Promise<boolean> =>
      transaction(async (on) => {
        // Waits for a change under way: the statement after it sees the security code that it may have brought.
        await on('lock-for-delete', LOCK_FOR_DELETE, [tenantId, id]);
        return (await on('delete-token', DELETE_TOKEN, [tenantId, id, container, JSON.stringify(log)])).length > 0;
      }),

    /** Links two tokens. @throws conflict where the link is there; notFound where a token is gone. */
    insertAssociation: (
      tenantId: string,
      link: { parent_id: string; child_id: string; created_at: string; created_by: string },
      log: NewLog,
      answer: KeptAnswer | undefined,
    ): Promise<void> =>
      transaction(async (on) => {
        const { parent_id, child_id, created_at, created_by } = link;
        const values = [tenantId, parent_id, child_id, created_at, created_by];
        const made = await on('insert-association', INSERT_ASSOCIATION, values);
        if (made.length === 0) throw notFound('token');
        await on('insert-logs', INSERT_LOGS, [tenantId, JSON.stringify([log])]);
        if (answer) await keepAnswer(on, tenantId, answer);
      }),

    /** @returns whether the link was there. */
    deleteAssociation: (tenantId: string, parent_id: string, child_id: string, log: NewLog): Promise<boolean> =>
      transaction(async (on) => {
        const gone = await on('delete-association', DELETE_ASSOCIATION, [tenantId, parent_id, child_id]);
        if (gone.length === 0) return false;
        await on('insert-logs', INSERT_LOGS, [tenantId, JSON.stringify([log])]);
        return true;
      }),

    async findToken(tenantId: string, id: string, now: Date): Promise<StoredToken | undefined> {
      const { row } = await lookUp(tenantId, id);
      return row && lives(row, now) ? row : undefined;
    },

    /**
     * Finds a token and logs its reading, for a caller who may read whatever is there.
     * @param make what the caller is shown of it, made while the row of the log is written.
     * @returns what was made, after the commit; undefined where there is no such token.
     */
    async readToken<T>(
      tenantId: string,
      asked: LoggedLookUp,
      now: Date,
      make: (row: StoredToken) => Promise<T>,
    ): Promise<T | undefined> {
      const { row, committed } = await read(tenantId, asked);
      return row && lives(row, now) ? afterCommit(committed, make(row)) : undefined;
    },

    /** As `readToken`, also for a use: as much of the token as `findValues` gives. */
    async findAndLogValue<T>(
      tenantId: string,
      asked: LoggedLookUp,
      now: Date,
      make: (row: StoredValue & FoundCvc) => Promise<T>,
    ): Promise<T | undefined> {
      const { row, committed } = await findAndLog(tenantId, asked);
      if (!row || !lives(row, now)) return undefined;
      const makeOfOwn = async (): Promise<T | undefined> => {
        // Where there was no room for a value beside those of others, there may be for one's own.
        const own = row.sealed === null ? (await findValues(tenantId, [row.id]))[0] : row;
        return own && make(own);
      };
      return afterCommit(committed, makeOfOwn());
    },

    /** Tokens of one request: whole, or only what it takes to open them. */
    async findRecords(tenantId: string, ids: string[], now: Date): Promise<(StoredToken & FoundCvc)[]> {
      const rows = (await query('find-records', FIND_RECORDS, [tenantId, ids])) as (StoredToken & FoundCvc)[];
      return rows.filter((row) => lives(row, now));
    },

    async findValues(tenantId: string, ids: string[], now: Date): Promise<(StoredValue & FoundCvc)[]> {
      const rows = await (ids.length <= TOGETHER_IDS_MAX ? findFewValues : findValues)(tenantId, ids);
      return rows.filter((row) => lives(row, now));
    },

    /** Sealed CVCs by token id. */
    async findCvcs(tenantId: string, ids: string[], now: Date): Promise<Map<string, Buffer>> {
      const rows = (await query('find-cvcs', FIND_CVCS, [tenantId, ids, now])) as { id: string; sealed: Buffer }[];
      return new Map(rows.map(({ id, sealed }) => [id, sealed]));
    },

    async findApiKey(publicId: string): Promise<FoundApiKey | undefined> {
      return (await query('find-api-key', FIND_API_KEY, [publicId]))[0] as FoundApiKey | undefined;
    },

    drain: () => Promise.all([tokens.drain(), logs.drain()]),
  };
};
