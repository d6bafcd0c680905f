// SQL of tokens, their log rows and links. A statement takes all its rows as one JSON parameter.
// batched-rows.ts and token-transactions.ts run these statements. Lists are in token-list.ts.
import { insertLogsFrom, LOG_RECORD } from '../../../platform/db/audit-rows.ts';
import { boundSealed } from '../../../platform/db/statements.ts';
import { countTokensFrom, insertCvcsFrom, insertTokensFrom, logTokensFrom, NEW_TOKENS } from './new-tokens-sql.ts';

export const INSERT_TOKENS = `
WITH new AS (SELECT * FROM ${NEW_TOKENS}
), t AS (${insertTokensFrom('new')}
), c AS (${insertCvcsFrom('new')}
), n AS (${countTokensFrom('new')}
)
${logTokensFrom('new')}`;

export const TOKEN_COLUMNS = `id, type, sealed, fingerprint, fingerprint_expression, container, metadata, search_indexes,
  expires_at, bound_to, masked, created_at, created_by, modified_at, modified_by`;

/** TOKEN_COLUMNS with their SQL types. */
export const TOKEN_TYPES = `id text, type text, sealed bytea, fingerprint text, fingerprint_expression text, container text,
  metadata jsonb, search_indexes text[], expires_at timestamptz, bound_to jsonb, masked boolean, created_at timestamptz, created_by uuid,
  modified_at timestamptz, modified_by uuid`;

/**
 * Looks up each id of a list separately. The alternatives are slower:
 *
 * | Statement | Measured |
 * |---|---|
 * | `id = ANY` on a table without statistics | may scan an index by tenant alone: 20 times the work at 50,000 tokens |
 * | ids not in a sub-select | PostgreSQL plans each short list again: 0.35 ms instead of 0.2 ms |
 *
 * The cost is a generic plan. If the table was nearly empty when it was made, an import of 60,000 tokens makes look-ups
 * take milliseconds until the table is analysed. Statements with one id or a long list have the same limit.
 */
const byIds = (columns: string, table: string, ids: string): string => `
SELECT found.* FROM unnest((SELECT ${ids}::text[])) AS wanted(id)
CROSS JOIN LATERAL (SELECT ${columns} FROM ${table} WHERE tenant_id = $1 AND id = wanted.id LIMIT 1) AS found`;

/** With expired tokens: requests share the statement, and each compares with its own time. */
export const FIND_TOKENS = byIds(TOKEN_COLUMNS, 'tokens', '$2');

export const VALUE_COLUMNS = 'id, type, sealed, container, expires_at, fingerprint, fingerprint_expression, bound_to';

/** Adds the security codes of cards, expired ones too. One statement, because a second one would cost as much again. */
const withCvcs = (columns: string, tokens = byIds(columns, 'tokens', '$2')): string =>
  boundSealed(
    `${columns}, cvc_sealed, cvc_expires_at`,
    `SELECT f.*, c.sealed AS cvc_sealed, c.expires_at AS cvc_expires_at FROM (${tokens}) AS f
LEFT JOIN LATERAL (
  SELECT sealed, expires_at FROM token_cvcs WHERE f.type = 'card' AND tenant_id = $1 AND id = f.id LIMIT 1
) AS c ON true`,
  );

/** The columns needed to open tokens and to decide about access. To parse one more column costs as much as to open a token. */
export const FIND_VALUES = withCvcs(VALUE_COLUMNS);

/** Whole tokens, with the security codes of cards. */
export const FIND_RECORDS = withCvcs(TOKEN_COLUMNS);

/** How many equal tokens are read for each fingerprint. The caller may be allowed to see only a later one. */
const EQUAL_TOKENS_MAX = 10;

/**
 * The oldest tokens with these fingerprints ($2), expressions ($3) and bounds ($6), in containers that one of the LIKE patterns
 * ($5) matches. Only tokens with the same expression count: the creator of a token chooses its expression, so a fingerprint of
 * another expression does not prove that the data is equal.
 *
 * OFFSET 0 keeps PostgreSQL from scanning all tokens by time in search of an equal one. IS NOT DISTINCT FROM keeps it from
 * an index that begins with the tenant: on a small table all indexes cost the same, and the plan is kept until the next
 * ANALYZE.
 */
export const FIND_BY_FINGERPRINTS = boundSealed(
  TOKEN_COLUMNS,
  `SELECT found.* FROM (SELECT DISTINCT * FROM unnest($2::text[], $3::text[], $6::jsonb[])) AS wanted(fingerprint, expression, bound)
CROSS JOIN LATERAL (
  SELECT * FROM (
    SELECT ${TOKEN_COLUMNS} FROM tokens
    WHERE tenant_id IS NOT DISTINCT FROM $1 AND fingerprint = wanted.fingerprint AND fingerprint_expression = wanted.expression
      AND (expires_at IS NULL OR expires_at > $4) AND container LIKE ANY ($5::text[])
      AND bound_to IS NOT DISTINCT FROM wanted.bound
    OFFSET 0
  ) AS equal ORDER BY created_at, id LIMIT ${EQUAL_TOKENS_MAX}
) AS found`,
);

/** Writes tokens, except those with `seen` that have an equal one. The function is in prisma/migrations/20261127120000_baseline. */
export const INSERT_UNIQUE_TOKENS = 'SELECT place, existing FROM insert_unique_tokens($1::uuid, $2::json)';

/** All tenants share the memory of locks. One request takes at most this many, for any number of fingerprints. */
const FINGERPRINT_LOCKS_MAX = 64;

/** Serializes transactions by fingerprint, so that the second sees the tokens of the first. Sorted, to avoid deadlocks. */
export const LOCK_FINGERPRINTS = `SELECT pg_advisory_xact_lock(hashtext($1), lock)
FROM (SELECT DISTINCT abs(hashtext(f) % ${FINGERPRINT_LOCKS_MAX}) AS lock FROM unnest($2::text[]) AS f ORDER BY 1) AS locks`;

export const INSERT_ASSOCIATION = `
INSERT INTO token_associations (tenant_id, parent_id, child_id, child_created_at, created_at, created_by)
SELECT tenant_id, $2, id, created_at, $4, $5 FROM tokens WHERE tenant_id = $1 AND id = $3
RETURNING child_id`;

export const LINK_TOKEN = INSERT_ASSOCIATION.replace('RETURNING child_id', 'ON CONFLICT DO NOTHING');

export const DELETE_ASSOCIATION = `
DELETE FROM token_associations WHERE tenant_id = $1 AND parent_id = $2 AND child_id = $3 RETURNING child_id`;

/** Locks a token for UPDATE_TOKEN. */
export const LOCK_TOKEN = `SELECT ${TOKEN_COLUMNS} FROM tokens
WHERE tenant_id = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3) FOR NO KEY UPDATE`;

/** Sets every column that a change may touch, after LOCK_TOKEN. Plain parameters: Citus refuses an UPDATE from JSON. */
export const UPDATE_TOKEN = `
UPDATE tokens SET sealed = decode($3, 'base64'), fingerprint = $4, fingerprint_expression = $5, container = $6,
  metadata = $7::jsonb, search_indexes = $8::text[], search_digests = $9::text[], digests_due = false,
  expires_at = $10, masked = $11, modified_at = $12, modified_by = $13, bound_to = $14::jsonb
WHERE tenant_id = $1 AND id = $2`;

export const PUT_CVC = `
INSERT INTO token_cvcs (tenant_id, id, sealed, expires_at) VALUES ($1, $2, decode($3, 'base64'), $4)
ON CONFLICT (tenant_id, id) DO UPDATE SET sealed = excluded.sealed, expires_at = excluded.expires_at,
  claimed_until = NULL, kept = 0`;

export const DELETE_CVC = 'DELETE FROM token_cvcs WHERE tenant_id = $1 AND id = $2';

export const LOCK_FOR_DELETE =
  'SELECT id, container, created_at FROM tokens WHERE tenant_id = $1 AND id = $2 FOR UPDATE';

/** Which ids are in use, by expired tokens too. */
export const FIND_TAKEN_IDS = 'SELECT id FROM tokens WHERE tenant_id = $1 AND id = ANY($2::text[])';

/**
 * Deletes a token and its security code; foreign keys delete its links. A token whose container has changed is not deleted,
 * because the permission was checked for the old container.
 */
export const DELETE_TOKEN = `
WITH gone AS (
  DELETE FROM tokens WHERE tenant_id = $1 AND id = $2 AND container = $3 RETURNING id, type
), c AS (
  DELETE FROM token_cvcs USING gone WHERE token_cvcs.tenant_id = $1 AND token_cvcs.id = gone.id
), n AS (
  INSERT INTO token_counts (tenant_id, id, type, change) SELECT $1::uuid, gen_random_uuid(), type, -1 FROM gone
)
${insertLogsFrom(`gone, json_to_record($4::json) AS r(${LOG_RECORD})`)}
RETURNING id`;

/** $1 the tenant, $2 ids of tokens that are locked. Foreign keys delete their links. */
export const DELETE_TOKENS = 'DELETE FROM tokens WHERE tenant_id = $1 AND id = ANY($2::text[]) RETURNING id';

export const DELETE_CVCS = 'DELETE FROM token_cvcs WHERE tenant_id = $1 AND id = ANY($2::text[])';

/** $2 types of tokens, one for each token. */
export const COUNT_DELETED = `
INSERT INTO token_counts (tenant_id, id, type, change)
SELECT $1::uuid, gen_random_uuid(), type, -count(*) FROM unnest($2::text[]) AS gone(type) GROUP BY type`;

/**
 * A page ends with the first token of its session. Columns that the MAC of the row binds stay as they are.
 * $1 the tenant, $2 the session, $3 ids of new tokens, $4 the time, $5 the digest of a page that this uses up, or null.
 */
export const ADD_TO_SESSION = `
UPDATE collect_sessions SET token_ids = token_ids || $3::text[]
WHERE tenant_id = $1 AND id = $2 AND expires_at > $4 AND cardinality(token_ids) + cardinality($3::text[]) <= max_tokens
  AND ($5::bytea IS NULL OR (page_digest = $5::bytea AND cardinality(token_ids) = 0))
RETURNING id`;
