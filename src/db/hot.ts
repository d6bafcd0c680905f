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
  FIND_API_KEY,
  FIND_BY_FINGERPRINTS,
  FIND_PLACES,
  FIND_RECORDS,
  FIND_TOKENS,
  FIND_VALUES,
  INSERT_ASSOCIATION,
  INSERT_LOGS,
  INSERT_REFUSAL,
  INSERT_TOKENS,
  INSERT_UNIQUE_TOKENS,
  LINK_TOKEN,
  LOCK_FINGERPRINTS,
  LOCK_FOR_DELETE,
  LOCK_TOKEN,
  PUT_CVC,
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
  /** Whether a mask hides its value from a plain permission. */
  masked: boolean;
  cvc_sealed?: string | undefined;
  cvc_expires_at?: string | undefined;
  created_at: string;
  created_by: string;
  log_id: string;
};

/** What the rows of the log say of tokens that are created, beside what the tokens say. */
export type NewTokenLog = Pick<NewLog, 'actor_type' | 'message' | 'trace_id' | 'ip' | 'reactor_id' | 'proxy_id'>;

/** A row of the log: one operation, over one or more entities of a kind. What is undefined is NULL. */
export type NewLog = {
  id: string;
  actor_id: string | null;
  actor_type: string | null;
  entity_type: string;
  entity_ids: string[];
  operation: string;
  message: string;
  created_at: string;
  disclosure: string;
  outcome: string;
  trace_id?: string | undefined;
  ip?: string | undefined;
  reactor_id?: string | undefined;
  proxy_id?: string | undefined;
  destination_host?: string | undefined;
  is_list?: boolean | undefined;
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

/** `masked`: whether a mask hides the value from a plain permission; null where that is not known yet. */
export type TokenPlace = Pick<StoredToken, 'id' | 'container' | 'expires_at'> & { masked: boolean | null };

/** A card's security code beside it, as it is kept: it may have expired. */
export type FoundCvc = { cvc_sealed: Buffer | null; cvc_expires_at: Date | null };

/** What a transaction of creates writes, once it knows which fingerprints are there. */
export type ChosenTokens = {
  rows: NewToken[];
  created: NewTokenLog;
  logs: NewLog[];
  /** Tokens that become children of one, if they are not already. */
  links?: { parent_id: string; child_ids: string[]; created_at: string; created_by: string } | undefined;
  answer?: KeptAnswer | undefined;
};

/** A token's columns after a change, and what becomes of its CVC: another, none, or (undefined) as it was. */
export type ChangedToken = {
  row: Omit<NewToken, 'id' | 'type' | 'created_at' | 'created_by' | 'log_id'> & {
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

/** What must be unique, and among what. */
export type UniqueAmong = {
  fingerprints: readonly Fingerprint[];
  /** LIKE patterns of containers. Tokens elsewhere do not count. */
  containers: readonly string[];
};

export type PlannedChange<T> = {
  /** A fingerprint that no other token may have; undefined where that does not matter. */
  unique: UniqueAmong | undefined;
  /** @param equal other tokens with that fingerprint, oldest first. */
  change: (equal: StoredToken[]) => { changed: ChangedToken; result: T };
};

/** A request for this few tokens goes together with others; more are a statement's work by themselves. */
const TOGETHER_IDS_MAX = 10;

/** Rows in JSON. The first of each `log_id` has what only the log keeps. */
const jsonOf = (rows: readonly NewToken[], created: NewTokenLog): string[] => {
  const logged = new Set<string>();
  return rows.map((row) => {
    if (logged.has(row.log_id)) return JSON.stringify(row);
    logged.add(row.log_id);
    return JSON.stringify({ ...row, ...created });
  });
};

export type HotStatements = ReturnType<typeof createHotStatements>;

const byId = <Row extends { id: string }>(rows: Row[]): Map<string, Row> => new Map(rows.map((row) => [row.id, row]));

const lives = (row: Pick<StoredToken, 'expires_at'>, now: Date): boolean =>
  row.expires_at === null || row.expires_at > now;

export const createHotStatements = ({ query, transaction }: Statements, batchesMax: number) => {
  const tokens = createBatcher(async (tenantId, rows) => {
    await query('insert-tokens', INSERT_TOKENS, [tenantId, rows]);
  }, batchesMax);
  const uniqueTokens = createBatcher(async (tenantId, rows) => {
    const found = await query('insert-unique-tokens', INSERT_UNIQUE_TOKENS, [tenantId, rows]);
    const existing: (string | undefined)[] = [];
    for (const { place, existing: id } of found as { place: number; existing: string }[]) existing[place - 1] = id;
    return existing;
  }, batchesMax);
  const logs = createBatcher(async (tenantId, rows) => {
    // Whatever keeps the log from being written: nothing is answered without it (decisions.md section 8).
    await query('insert-logs', INSERT_LOGS, [tenantId, rows]).catch((error: unknown) => {
      throw unavailable(error);
    });
  }, batchesMax);

  /** Looks tokens up by their ids, those of several requests together. */
  const createLookUp = <Row extends StoredValue>(name: string, text: string) => {
    const find = async (tenantId: string, ids: string[]): Promise<Row[]> =>
      (await query(name, text, [tenantId, ids])) as Row[];
    const findOne = createCoalescer<Row>(async (tenantId, ids) => byId(await find(tenantId, ids)), batchesMax);
    const findFew = async (tenantId: string, ids: string[]): Promise<Row[]> => {
      const rows = (await Promise.all(ids.map((id) => findOne(tenantId, id)))).filter((row) => row !== undefined);
      // A value that had no room beside those of other requests may have it alone.
      return rows.some(({ sealed }) => sealed === null) ? find(tenantId, ids) : rows;
    };
    /** Those that live. */
    return async (tenantId: string, ids: string[], now: Date): Promise<Row[]> =>
      (await (ids.length <= TOGETHER_IDS_MAX ? findFew : find)(tenantId, ids)).filter((row) => lives(row, now));
  };
  const findTokens = createLookUp<StoredToken>('find-tokens', FIND_TOKENS);
  const findRecords = createLookUp<StoredToken & FoundCvc>('find-records', FIND_RECORDS);
  const findValues = createLookUp<StoredValue & FoundCvc>('find-values', FIND_VALUES);

  const lockFingerprints = async (
    on: Query,
    tenantId: string,
    unique: UniqueAmong | undefined,
    now: Date,
  ): Promise<Map<string, StoredToken[]>> => {
    if (!unique || unique.fingerprints.length === 0) return new Map();
    const prints = unique.fingerprints.map(({ fingerprint }) => fingerprint);
    const expressions = unique.fingerprints.map(({ fingerprint_expression }) => fingerprint_expression);
    await on('lock-fingerprints', LOCK_FINGERPRINTS, [tenantId, prints]);
    const values = [tenantId, prints, expressions, now, unique.containers];
    const found = (await on('find-fingerprints', FIND_BY_FINGERPRINTS, values)) as StoredToken[];
    return Map.groupBy(found, (row) => nameOf(row as Fingerprint));
  };

  return {
    /** Writes tokens, their CVCs and their log rows, all or nothing. @throws conflict for an id that is taken; unavailable. */
    async insertTokens(tenantId: string, rows: NewToken[], created: NewTokenLog): Promise<void> {
      await tokens.submit(tenantId, jsonOf(rows, created));
    },

    /**
     * Writes tokens as `insertTokens` does, but for those with `seen` that have an equal one in a container that one of these
     * LIKE patterns matches. Of equal tokens that are written at once, one is.
     * @returns for each row the id of the token that is there; undefined for a row that was written.
     * @throws conflict for an id that is taken; unavailable.
     */
    insertUniqueTokens: (
      tenantId: string,
      rows: (NewToken & { seen?: readonly string[] | undefined })[],
      created: NewTokenLog,
    ): Promise<(string | undefined)[]> => uniqueTokens.submit(tenantId, jsonOf(rows, created)),

    /** Appends log rows. Resolves after commit. */
    async insertLogs(tenantId: string, rows: NewLog[]): Promise<void> {
      await logs.submit(
        tenantId,
        rows.map((row) => JSON.stringify(row)),
      );
    },

    /**
     * Appends the row of a refusal, unless the tenant has so many since an id.
     * @param apart the message of rows that are counted apart from all others.
     * @returns whether it was written.
     */
    insertRefusal: async (
      tenantId: string,
      row: NewLog,
      from_id: string,
      most: number,
      apart: string,
    ): Promise<boolean> =>
      (await query('insert-refusal', INSERT_REFUSAL, [tenantId, JSON.stringify(row), from_id, most, apart])).length > 0,

    /**
     * Writes tokens in a transaction of their own: where what is written depends on the fingerprints that are there,
     * each under a lock, and for all that must be written with them.
     * @throws conflict for an id that is taken, or an idempotency key that another took over; notFound for a parent that is gone; unavailable.
     */
    insertTokensTogether: (
      tenantId: string,
      unique: UniqueAmong,
      now: Date,
      choose: (findEqual: (of: Fingerprint) => StoredToken[]) => ChosenTokens,
    ): Promise<void> =>
      transaction(async (on) => {
        const equal = await lockFingerprints(on, tenantId, unique, now);
        const chosen = choose((of) => equal.get(nameOf(of)) ?? []);
        if (chosen.rows.length > 0)
          await on('insert-tokens', INSERT_TOKENS, [tenantId, `[${jsonOf(chosen.rows, chosen.created).join()}]`]);
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
        const equal = [...(await lockFingerprints(on, tenantId, unique, now)).values()].flat();
        const { changed, result } = change(equal.filter((other) => other.id !== id));
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

    findToken: async (tenantId: string, id: string, now: Date): Promise<StoredToken | undefined> =>
      (await findTokens(tenantId, [id], now))[0],

    /** A token with its security code: for a reader who may see it. */
    findRecord: async (tenantId: string, id: string, now: Date): Promise<(StoredToken & FoundCvc) | undefined> =>
      (await findRecords(tenantId, [id], now))[0],

    /** Tokens of one request: whole, or only what it takes to open them. */
    findRecords,
    findValues,

    /** Where tokens are that live. */
    findPlaces: async (tenantId: string, ids: string[], now: Date): Promise<TokenPlace[]> =>
      ((await query('find-places', FIND_PLACES, [tenantId, ids])) as TokenPlace[]).filter((row) => lives(row, now)),

    async findApiKey(publicId: string): Promise<FoundApiKey | undefined> {
      return (await query('find-api-key', FIND_API_KEY, [publicId]))[0] as FoundApiKey | undefined;
    },

    drain: () => Promise.all([tokens.drain(), uniqueTokens.drain(), logs.drain()]),
  };
};
