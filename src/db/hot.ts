// The statements of the hot path: raw SQL under a name, one JSON parameter, tokens and their log rows together.
// Knows columns and bytes; what they mean is the vault's affair.
import type { Pool, PoolClient } from 'pg';
import { createBatcher } from './batcher.ts';
import { unavailable } from '../errors.ts';
import { faultOf } from './faults.ts';

/** A token about to be written, with the log row of its creation. `sealed` and `cvc_sealed` are base64. */
export type NewToken = {
  id: string;
  type: string;
  sealed: string;
  fingerprint?: string | undefined;
  fingerprint_expression?: string | undefined;
  containers: string[];
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

export type NewLog = {
  id: string;
  actor_id: string | null;
  actor_type: string | null;
  entity_type: string;
  entity_id: string;
  operation: string;
  message: string;
  created_at: string;
};

/** A stored token; absent values are null. */
export type StoredToken = {
  id: string;
  type: string;
  sealed: Buffer;
  fingerprint: string | null;
  fingerprint_expression: string | null;
  containers: string[];
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
    id text, type text, sealed text, fingerprint text, fingerprint_expression text, containers text[], metadata jsonb,
    search_indexes text[], search_digests text[], expires_at timestamptz, cvc_sealed text, cvc_expires_at timestamptz,
    created_at timestamptz, created_by uuid, actor_type text, log_id uuid, message text)
), t AS (
  INSERT INTO tokens (tenant_id, id, type, sealed, fingerprint, fingerprint_expression, containers, metadata,
    search_indexes, search_digests, expires_at, created_at, created_by)
  SELECT $1::uuid, id, type, decode(sealed, 'base64'), fingerprint, fingerprint_expression, containers, metadata,
    search_indexes, search_digests, expires_at, created_at, created_by FROM i ORDER BY id
), c AS (
  INSERT INTO token_cvcs (tenant_id, id, sealed, expires_at)
  SELECT $1::uuid, id, decode(cvc_sealed, 'base64'), cvc_expires_at FROM i WHERE cvc_sealed IS NOT NULL
)
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_id, operation, message, created_at)
SELECT $1::uuid, log_id, created_by, actor_type, type, id, 'create', message, created_at FROM i`;

const INSERT_LOGS = `
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_id, operation, message, created_at)
SELECT $1::uuid, id, actor_id, actor_type, entity_type, entity_id, operation, message, created_at
FROM json_to_recordset($2::json) AS r(id uuid, actor_id uuid, actor_type text, entity_type text, entity_id text,
  operation text, message text, created_at timestamptz)`;

const TOKEN_COLUMNS = `id, type, sealed, fingerprint, fingerprint_expression, containers, metadata, search_indexes,
  expires_at, created_at, created_by, modified_at, modified_by`;

const FIND_TOKEN = `SELECT ${TOKEN_COLUMNS} FROM tokens
WHERE tenant_id = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3)`;

const FIND_CVC = `SELECT sealed FROM token_cvcs WHERE tenant_id = $1 AND id = $2 AND expires_at > $3`;

const FIND_BY_FINGERPRINTS = `SELECT DISTINCT ON (fingerprint) ${TOKEN_COLUMNS} FROM tokens
WHERE tenant_id = $1 AND fingerprint = ANY($2) AND (expires_at IS NULL OR expires_at > $3)
ORDER BY fingerprint, created_at, id`;

/** One fingerprint, one creator at a time: the second sees what the first has committed. Sorted, so that no two wait for each other. */
const LOCK_FINGERPRINTS = `SELECT pg_advisory_xact_lock(hashtextextended($1 || f, 0))
FROM (SELECT unnest($2::text[]) AS f ORDER BY 1) AS fingerprints`;

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

export type Deduplicated = { rows: NewToken[]; logs: NewLog[] };

export type HotStatements = ReturnType<typeof createHotStatements>;

export const createHotStatements = (pool: Pool, batchesMax: number) => {
  const query = async (name: string, text: string, values: unknown[], client: Pool | PoolClient = pool) => {
    try {
      return (await client.query({ name, text, values })).rows;
    } catch (error) {
      throw faultOf(error);
    }
  };
  const tokens = createBatcher(async (tenantId, rows) => {
    await query('insert-tokens', INSERT_TOKENS, [tenantId, rows]);
  }, batchesMax);
  const logs = createBatcher(async (tenantId, rows) => {
    // Whatever keeps the log from being written: nothing is answered without it (decisions.md section 8).
    await query('insert-logs', INSERT_LOGS, [tenantId, rows]).catch((error: unknown) => {
      throw unavailable(error);
    });
  }, batchesMax);

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
     * Writes tokens unless their fingerprint is there already: in one transaction, under a lock on each fingerprint.
     * @param choose is told the tokens found by fingerprint and answers with the rows and log rows to write.
     */
    async insertDeduplicated(
      tenantId: string,
      fingerprints: string[],
      now: Date,
      choose: (existing: Map<string, StoredToken>) => Deduplicated,
    ): Promise<void> {
      const client = await pool.connect().catch((error: unknown) => {
        throw faultOf(error);
      });
      let broken = false;
      try {
        await query('begin', 'BEGIN', [], client);
        await query('lock-fingerprints', LOCK_FINGERPRINTS, [tenantId, fingerprints], client);
        const found = await query('find-fingerprints', FIND_BY_FINGERPRINTS, [tenantId, fingerprints, now], client);
        const chosen = choose(new Map((found as StoredToken[]).map((row) => [row.fingerprint as string, row])));
        if (chosen.rows.length > 0)
          await query('insert-tokens', INSERT_TOKENS, [tenantId, JSON.stringify(chosen.rows)], client);
        if (chosen.logs.length > 0)
          await query('insert-logs', INSERT_LOGS, [tenantId, JSON.stringify(chosen.logs)], client);
        await query('commit', 'COMMIT', [], client);
      } catch (error) {
        await client.query('ROLLBACK').catch(() => (broken = true));
        throw error;
      } finally {
        client.release(broken);
      }
    },

    async findToken(tenantId: string, id: string, now: Date): Promise<StoredToken | undefined> {
      return (await query('find-token', FIND_TOKEN, [tenantId, id, now]))[0] as StoredToken | undefined;
    },

    async findCvc(tenantId: string, id: string, now: Date): Promise<Buffer | undefined> {
      return (await query('find-cvc', FIND_CVC, [tenantId, id, now]))[0]?.sealed as Buffer | undefined;
    },

    async findApiKey(publicId: string): Promise<FoundApiKey | undefined> {
      return (await query('find-api-key', FIND_API_KEY, [publicId]))[0] as FoundApiKey | undefined;
    },

    drain: () => Promise.all([tokens.drain(), logs.drain()]),
  };
};
