// The statements of the hot path: raw SQL under a name, one JSON parameter, tokens and their log rows together.
// Knows columns and bytes; what they mean is the vault's affair.
import { createBatcher } from './batcher.ts';
import { createCoalescer } from './coalescer.ts';
import { notFound, unavailable } from '../errors.ts';
import { type KeptAnswer, keepAnswer } from './idempotency.ts';
import type { Query, Statements } from './statements.ts';

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

export const INSERT_TOKENS = `
WITH i AS (
  SELECT * FROM json_to_recordset($2::json) AS r(
    id text, type text, sealed text, fingerprint text, fingerprint_expression text, container text, metadata jsonb,
    search_indexes text[], search_digests text[], expires_at timestamptz, cvc_sealed text, cvc_expires_at timestamptz,
    created_at timestamptz, created_by uuid, actor_type text, log_id uuid, message text)
), t AS (
  INSERT INTO tokens (tenant_id, id, type, sealed, fingerprint, fingerprint_expression, container, metadata,
    search_indexes, search_digests, expires_at, created_at, created_by)
  SELECT $1::uuid, id, type, decode(sealed, 'base64'), fingerprint, fingerprint_expression, container, metadata,
    search_indexes, search_digests, expires_at, created_at, created_by FROM i ORDER BY id
), c AS (
  INSERT INTO token_cvcs (tenant_id, id, sealed, expires_at)
  SELECT $1::uuid, id, decode(cvc_sealed, 'base64'), cvc_expires_at FROM i WHERE cvc_sealed IS NOT NULL
), n AS (
  INSERT INTO token_counts (tenant_id, id, type, change, last_created_at)
  SELECT $1::uuid, gen_random_uuid(), type, count(*), max(created_at) FROM i GROUP BY type
)
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at)
SELECT $1::uuid, log_id, created_by, actor_type, type, array_agg(id), 'create', message, created_at FROM i
GROUP BY log_id, created_by, actor_type, type, message, created_at`;

export const INSERT_LOGS = `
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at)
SELECT $1::uuid, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at
FROM json_to_recordset($2::json) AS r(id uuid, actor_id uuid, actor_type text, entity_type text, entity_ids text[],
  operation text, message text, created_at timestamptz)`;

/**
 * Sealed bytes that one request reads: all of them are in memory at once. Beyond it rows come without them, but for a
 * single one, which was let in.
 */
export const SEALED_BYTES_MAX = 16 * 1024 * 1024;

/** Puts the bound on rows: the sizes are read from the headers of large values, which stay where they are. */
export const boundSealed = (columns: string, rows: string): string => `
SELECT ${columns.replace('sealed', `CASE WHEN so_far <= ${SEALED_BYTES_MAX} OR so_far = octet_length(sealed) THEN sealed END AS sealed`)}
FROM (SELECT *, sum(octet_length(sealed)) OVER (ROWS UNBOUNDED PRECEDING) AS so_far FROM (${rows}) AS unbounded) AS bounded`;

export const TOKEN_COLUMNS = `id, type, sealed, fingerprint, fingerprint_expression, container, metadata, search_indexes,
  expires_at, created_at, created_by, modified_at, modified_by`;

/**
 * Rows by a list of ids, each looked up by itself: with `id = ANY` PostgreSQL may prefer an index by tenant alone on a
 * table it has not analysed yet, and reads all of it (measured: twenty times the work at 50,000 tokens).
 */
const byIds = (columns: string, table: string, ids: string): string => `
SELECT found.* FROM unnest(${ids}::text[]) AS wanted(id)
CROSS JOIN LATERAL (SELECT ${columns} FROM ${table} WHERE tenant_id = $1 AND id = wanted.id LIMIT 1) AS found`;

/** Expired ones too: look-ups of several moments share the statement, and each knows its own time. */
const FIND_TOKENS = byIds(TOKEN_COLUMNS, 'tokens', '$2');

export const FIND_TOKENS_OF_REQUEST = boundSealed(TOKEN_COLUMNS, FIND_TOKENS);

/** Reads and logs in one statement: what is read is logged when it has come, and what is not there is not logged. */
const READ_TOKENS = `
WITH i AS (
  SELECT * FROM json_to_recordset($2::json) AS r(token_id text, log_id uuid, actor_id uuid, actor_type text,
    message text, created_at timestamptz)
), f AS (
  ${byIds(TOKEN_COLUMNS, 'tokens', '$3')}
), l AS (
  INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at)
  SELECT $1::uuid, i.log_id, i.actor_id, i.actor_type, f.type, ARRAY[f.id], 'read', i.message, i.created_at
  FROM i JOIN f ON f.id = i.token_id AND (f.expires_at IS NULL OR f.expires_at > i.created_at)
)
SELECT * FROM f`;

const FIND_CVCS = `${byIds('id, sealed, expires_at', 'token_cvcs', '$2')} WHERE found.expires_at > $3`;

/**
 * Whoever chose another expression chose what its fingerprint says: it is no proof that the data is the same, so that
 * only tokens with the same expression count.
 */
const FIND_BY_FINGERPRINTS = boundSealed(
  TOKEN_COLUMNS,
  `SELECT DISTINCT ON (fingerprint, fingerprint_expression) ${TOKEN_COLUMNS} FROM tokens
WHERE tenant_id = $1 AND (fingerprint, fingerprint_expression) IN (SELECT * FROM unnest($2::text[], $3::text[]))
  AND (expires_at IS NULL OR expires_at > $4)
ORDER BY fingerprint, fingerprint_expression, created_at, id`,
);

/** Locks live in memory that all tenants share: a request takes so many at most, however many fingerprints it has. */
const FINGERPRINT_LOCKS_MAX = 64;

/** One fingerprint, one creator at a time: the second sees what the first has committed. Sorted, so that no two wait for each other. */
const LOCK_FINGERPRINTS = `SELECT pg_advisory_xact_lock(hashtext($1), lock)
FROM (SELECT DISTINCT abs(hashtext(f) % ${FINGERPRINT_LOCKS_MAX}) AS lock FROM unnest($2::text[]) AS f ORDER BY 1) AS locks`;

const INSERT_ASSOCIATION = `
INSERT INTO token_associations (tenant_id, parent_id, child_id, child_created_at, created_at, created_by)
SELECT tenant_id, $2, id, created_at, $4, $5 FROM tokens WHERE tenant_id = $1 AND id = $3
RETURNING child_id`;

const LINK_TOKEN = INSERT_ASSOCIATION.replace('RETURNING child_id', 'ON CONFLICT DO NOTHING');

const DELETE_ASSOCIATION = `
DELETE FROM token_associations WHERE tenant_id = $1 AND parent_id = $2 AND child_id = $3 RETURNING child_id`;

const LOCK_TOKEN = `SELECT ${TOKEN_COLUMNS} FROM tokens
WHERE tenant_id = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3) FOR NO KEY UPDATE`;

/** Every column that a change may touch, as the changed token has it. */
const UPDATE_TOKEN = `
UPDATE tokens SET sealed = decode(r.sealed, 'base64'), fingerprint = r.fingerprint,
  fingerprint_expression = r.fingerprint_expression, container = r.container, metadata = r.metadata,
  search_indexes = r.search_indexes, search_digests = r.search_digests, expires_at = r.expires_at,
  modified_at = r.modified_at, modified_by = r.modified_by
FROM json_to_record($3::json) AS r(sealed text, fingerprint text, fingerprint_expression text, container text,
  metadata jsonb, search_indexes text[], search_digests text[], expires_at timestamptz, modified_at timestamptz,
  modified_by uuid)
WHERE tenant_id = $1 AND id = $2`;

const PUT_CVC = `
INSERT INTO token_cvcs (tenant_id, id, sealed, expires_at) VALUES ($1, $2, decode($3, 'base64'), $4)
ON CONFLICT (tenant_id, id) DO UPDATE SET sealed = excluded.sealed, expires_at = excluded.expires_at`;

const DELETE_CVC = 'DELETE FROM token_cvcs WHERE tenant_id = $1 AND id = $2';

const LOCK_FOR_DELETE = 'SELECT FROM tokens WHERE tenant_id = $1 AND id = $2 FOR UPDATE';

/** With the token go its CVC and, by their foreign keys, its links. A container that changed meanwhile asks for a new decision. */
const DELETE_TOKEN = `
WITH gone AS (
  DELETE FROM tokens WHERE tenant_id = $1 AND id = $2 AND container = $3 RETURNING id, type
), c AS (
  DELETE FROM token_cvcs USING gone WHERE token_cvcs.tenant_id = $1 AND token_cvcs.id = gone.id
), n AS (
  INSERT INTO token_counts (tenant_id, id, type, change) SELECT $1::uuid, gen_random_uuid(), type, -1 FROM gone
)
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at)
SELECT $1::uuid, r.id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at
FROM gone, json_to_record($4::json) AS r(id uuid, actor_id uuid, actor_type text, entity_type text, entity_ids text[],
  operation text, message text, created_at timestamptz)
RETURNING id`;

const FIND_API_KEY = `SELECT k.tenant_id, k.application_id, k.digest, a.permissions, a.rules, t.settings
FROM api_keys k JOIN applications a ON a.tenant_id = k.tenant_id AND a.id = k.application_id
JOIN tenants t ON t.id = k.tenant_id
WHERE k.public_id = $1`;

export type FoundApiKey = {
  tenant_id: string;
  application_id: string;
  digest: Buffer;
  permissions: string[];
  rules: unknown;
  settings: Record<string, string>;
};

/** The log row of a token's reading, without what only the token knows. `created_at` is the moment it must live in. */
export type TokenRead = {
  token_id: string;
  log_id: string;
  actor_id: string;
  actor_type: string;
  message: string;
  created_at: string;
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

export type HotStatements = ReturnType<typeof createHotStatements>;

const lives = (row: StoredToken, now: Date): boolean => row.expires_at === null || row.expires_at > now;

export const createHotStatements = ({ query, transaction }: Statements, batchesMax: number) => {
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
  const byId = (rows: StoredToken[]) => new Map(rows.map((row) => [row.id, row]));
  const lookUp = createCoalescer<string, StoredToken>(
    async (tenantId, ids) => byId(await findTokens(tenantId, [...new Set(ids)])),
    (id) => id,
    batchesMax,
  );
  const read = createCoalescer<TokenRead, StoredToken>(
    async (tenantId, reads) => {
      const ids = [...new Set(reads.map(({ token_id }) => token_id))];
      const rows = query('read-tokens', READ_TOKENS, [tenantId, JSON.stringify(reads), ids]);
      // Whatever keeps the log from being written: nothing is answered without it (decisions.md section 8).
      return byId((await rows.catch((error: unknown) => Promise.reject(unavailable(error)))) as StoredToken[]);
    },
    ({ token_id }) => token_id,
    batchesMax,
  );

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
      const row = await lookUp(tenantId, id);
      return row && lives(row, now) ? row : undefined;
    },

    /** Finds a token and logs its reading, for a caller who may read whatever is there. Resolves after commit. */
    async readToken(tenantId: string, entry: TokenRead, now: Date): Promise<StoredToken | undefined> {
      const row = await read(tenantId, entry);
      return row && lives(row, now) ? row : undefined;
    },

    async findTokens(tenantId: string, ids: string[], now: Date): Promise<StoredToken[]> {
      const rows = (await query('find-tokens-of-request', FIND_TOKENS_OF_REQUEST, [tenantId, ids])) as StoredToken[];
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
