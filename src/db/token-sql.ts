// The texts of the statements on tokens: tokens and their log rows together, one JSON parameter for all rows. Who runs
// them, and when, is hot.ts; lists are in token-list.ts.

/** The columns of the log but for the tenant's, with the types that rows in JSON are read as. */
const LOG_COLUMNS = [
  'id uuid',
  'actor_id uuid',
  'actor_type text',
  'entity_type text',
  'entity_ids text[]',
  'operation text',
  'message text',
  'created_at timestamptz',
  'disclosure text',
  'outcome text',
  'trace_id text',
  'ip text',
  'reactor_id uuid',
  'proxy_id uuid',
  'destination_host text',
  'is_list boolean',
];
const LOG_RECORD = LOG_COLUMNS.join(', ');
const LOG_NAMES = LOG_COLUMNS.map((column) => column.split(' ', 1)[0]).join(', ');

/** Rows of the log from a relation that has its columns. @param values in place of columns of the same name. */
const insertLogsFrom = (from: string, values: Record<string, string> = {}): string => `
INSERT INTO audit_log (tenant_id, ${LOG_NAMES})
SELECT $1::uuid, ${LOG_NAMES.split(', ')
  .map((name) => values[name] ?? (name === 'is_list' ? 'coalesce(r.is_list, false)' : `r.${name}`))
  .join(', ')}
FROM ${from}`;

export const INSERT_TOKENS = `
WITH i AS (
  SELECT * FROM json_to_recordset($2::json) AS r(
    id text, type text, sealed text, fingerprint text, fingerprint_expression text, container text, metadata jsonb,
    search_indexes text[], search_digests text[], expires_at timestamptz, masked boolean, cvc_sealed text,
    cvc_expires_at timestamptz, created_at timestamptz, created_by uuid, log_id uuid, actor_type text, message text, trace_id text, ip text,
    reactor_id uuid, proxy_id uuid)
), t AS (
  INSERT INTO tokens (tenant_id, id, type, sealed, fingerprint, fingerprint_expression, container, metadata,
    search_indexes, search_digests, expires_at, masked, created_at, created_by)
  SELECT $1::uuid, id, type, decode(sealed, 'base64'), fingerprint, fingerprint_expression, container, metadata,
    search_indexes, search_digests, expires_at, masked, created_at, created_by FROM i ORDER BY id
), c AS (
  INSERT INTO token_cvcs (tenant_id, id, sealed, expires_at)
  SELECT $1::uuid, id, decode(cvc_sealed, 'base64'), cvc_expires_at FROM i WHERE cvc_sealed IS NOT NULL
), n AS (
  INSERT INTO token_counts (tenant_id, id, type, change, last_created_at)
  SELECT $1::uuid, gen_random_uuid(), type, count(*), max(created_at) FROM i GROUP BY type
)
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at,
  disclosure, trace_id, ip, reactor_id, proxy_id)
SELECT $1::uuid, i.log_id, i.created_by, i.actor_type, i.type, of.ids, 'create', i.message, i.created_at, 'none',
  i.trace_id, i.ip, i.reactor_id, i.proxy_id
FROM (SELECT log_id, array_agg(id) AS ids FROM i GROUP BY log_id) AS of
JOIN i ON i.log_id = of.log_id AND i.message IS NOT NULL`;

export const INSERT_LOGS = insertLogsFrom(`json_to_recordset($2::json) AS r(${LOG_RECORD})`);

/**
 * Writes a refusal, unless there are so many ($4) of the tenant since an id ($3). Rows with one message ($5) are counted apart
 * from all others.
 */
export const INSERT_REFUSAL = `${insertLogsFrom(`json_to_record($2::json) AS r(${LOG_RECORD})`)}
WHERE (SELECT count(*) FROM (
  SELECT FROM audit_log WHERE tenant_id = $1 AND outcome = 'refused' AND id >= $3::uuid AND (message = $5) = (r.message = $5) LIMIT $4::int
) AS recent) < $4::int
RETURNING id`;

/**
 * Sealed bytes that one request reads: all of them are in memory at once. Beyond it rows come without them, but for a
 * single one, which was let in.
 */
const SEALED_BYTES_MAX = 16 * 1024 * 1024;

/** Puts the bound on rows: the sizes are read from the headers of large values, which stay where they are. */
export const boundSealed = (columns: string, rows: string): string => `
SELECT ${columns.replace('sealed', `CASE WHEN so_far <= ${SEALED_BYTES_MAX} OR so_far = octet_length(sealed) THEN sealed END AS sealed`)}
FROM (SELECT *, sum(octet_length(sealed)) OVER (ROWS UNBOUNDED PRECEDING) AS so_far FROM (${rows}) AS unbounded) AS bounded`;

export const TOKEN_COLUMNS = `id, type, sealed, fingerprint, fingerprint_expression, container, metadata, search_indexes,
  expires_at, created_at, created_by, modified_at, modified_by`;

/**
 * Rows by a list of ids, each looked up by itself: with `id = ANY` PostgreSQL may prefer an index by tenant alone on a
 * table it has not analysed yet, and reads all of it (measured: twenty times the work at 50,000 tokens). Behind a
 * sub-select it does not see how long the list is, and keeps one plan: otherwise it plans anew for each short one, which
 * takes longer than finding the rows (measured: 0.35 ms against 0.2). The price, which statements by one id and long lists
 * have always had: a plan that was made for a nearly empty table is kept until the table is next analysed, and after an
 * import of 60,000 tokens each id takes milliseconds until then.
 */
const byIds = (columns: string, table: string, ids: string): string => `
SELECT found.* FROM unnest((SELECT ${ids}::text[])) AS wanted(id)
CROSS JOIN LATERAL (SELECT ${columns} FROM ${table} WHERE tenant_id = $1 AND id = wanted.id LIMIT 1) AS found`;

/** Expired ones too: look-ups of several moments share the statement, and each knows its own time. */
export const FIND_TOKENS = byIds(TOKEN_COLUMNS, 'tokens', '$2');

const VALUE_COLUMNS = 'id, type, sealed, container, expires_at';

/** With the security codes of cards, expired ones too; one statement, for a second one costs as much as the first. */
const withCvcs = (columns: string, tokens = byIds(columns, 'tokens', '$2')): string =>
  boundSealed(
    `${columns}, cvc_sealed, cvc_expires_at`,
    `SELECT f.*, c.sealed AS cvc_sealed, c.expires_at AS cvc_expires_at FROM (${tokens}) AS f
LEFT JOIN LATERAL (
  SELECT sealed, expires_at FROM token_cvcs WHERE f.type = 'card' AND tenant_id = $1 AND id = f.id LIMIT 1
) AS c ON true`,
  );

/** What it takes to open tokens and to decide over them: each further column costs as much to take apart as to open one. */
export const FIND_VALUES = withCvcs(VALUE_COLUMNS);

/** Whole tokens with the security codes of cards. */
export const FIND_RECORDS = withCvcs(TOKEN_COLUMNS);

/** Where tokens are, whether a mask hides them, and until when they live. */
export const FIND_PLACES = byIds('id, container, masked, expires_at', 'tokens', '$2');

/** Tokens with one fingerprint that are looked at: a caller may see the tenth where it may not see the nine before. */
const EQUAL_TOKENS_MAX = 10;

/**
 * The oldest tokens that are equal to others, by their fingerprints ($2) and expressions ($3), in containers that one of
 * these LIKE patterns matches ($5). A creator who chose another expression chose what its fingerprint says: that is no proof
 * that the data is the same, so that only tokens with the same expression count. OFFSET 0 keeps PostgreSQL from walking all
 * tokens by their time in the hope of meeting an equal one soon. IS NOT DISTINCT FROM keeps it from an index that begins
 * with the tenant: on a small table all indexes seem equal, and the plan is kept until the table is next analysed.
 */
export const FIND_BY_FINGERPRINTS = boundSealed(
  TOKEN_COLUMNS,
  `SELECT found.* FROM (SELECT DISTINCT * FROM unnest($2::text[], $3::text[])) AS wanted(fingerprint, expression)
CROSS JOIN LATERAL (
  SELECT * FROM (
    SELECT ${TOKEN_COLUMNS} FROM tokens
    WHERE tenant_id IS NOT DISTINCT FROM $1 AND fingerprint = wanted.fingerprint AND fingerprint_expression = wanted.expression
      AND (expires_at IS NULL OR expires_at > $4) AND container LIKE ANY ($5::text[])
    OFFSET 0
  ) AS equal ORDER BY created_at, id LIMIT ${EQUAL_TOKENS_MAX}
) AS found`,
);

/** Writes tokens, but for those with `seen` that have an equal one. The migration that makes the function says more. */
export const INSERT_UNIQUE_TOKENS = 'SELECT place, existing FROM insert_unique_tokens($1::uuid, $2::json)';

/** Locks live in memory that all tenants share: a request takes so many at most, however many fingerprints it has. */
const FINGERPRINT_LOCKS_MAX = 64;

/** One fingerprint, one creator at a time: the second sees what the first has committed. Sorted, so that no two wait for each other. */
export const LOCK_FINGERPRINTS = `SELECT pg_advisory_xact_lock(hashtext($1), lock)
FROM (SELECT DISTINCT abs(hashtext(f) % ${FINGERPRINT_LOCKS_MAX}) AS lock FROM unnest($2::text[]) AS f ORDER BY 1) AS locks`;

export const INSERT_ASSOCIATION = `
INSERT INTO token_associations (tenant_id, parent_id, child_id, child_created_at, created_at, created_by)
SELECT tenant_id, $2, id, created_at, $4, $5 FROM tokens WHERE tenant_id = $1 AND id = $3
RETURNING child_id`;

export const LINK_TOKEN = INSERT_ASSOCIATION.replace('RETURNING child_id', 'ON CONFLICT DO NOTHING');

export const DELETE_ASSOCIATION = `
DELETE FROM token_associations WHERE tenant_id = $1 AND parent_id = $2 AND child_id = $3 RETURNING child_id`;

export const LOCK_TOKEN = `SELECT ${TOKEN_COLUMNS} FROM tokens
WHERE tenant_id = $1 AND id = $2 AND (expires_at IS NULL OR expires_at > $3) FOR NO KEY UPDATE`;

/**
 * Every column that a change may touch, as the changed token has it. The setting holds until the end of the transaction: without
 * it the trigger tokens_forget_mask takes the statement for one of an earlier version, which does not know `masked`.
 */
export const UPDATE_TOKEN = `
UPDATE tokens SET sealed = decode(r.sealed, 'base64'), fingerprint = r.fingerprint,
  fingerprint_expression = r.fingerprint_expression, container = r.container, metadata = r.metadata,
  search_indexes = r.search_indexes, search_digests = r.search_digests, expires_at = r.expires_at,
  masked = r.masked, modified_at = r.modified_at, modified_by = r.modified_by
FROM json_to_record($3::json) AS r(sealed text, fingerprint text, fingerprint_expression text, container text,
  metadata jsonb, search_indexes text[], search_digests text[], expires_at timestamptz, masked boolean,
  modified_at timestamptz, modified_by uuid), set_config('strongroom.sets_masked', 'on', true)
WHERE tenant_id = $1 AND id = $2`;

export const PUT_CVC = `
INSERT INTO token_cvcs (tenant_id, id, sealed, expires_at) VALUES ($1, $2, decode($3, 'base64'), $4)
ON CONFLICT (tenant_id, id) DO UPDATE SET sealed = excluded.sealed, expires_at = excluded.expires_at`;

export const DELETE_CVC = 'DELETE FROM token_cvcs WHERE tenant_id = $1 AND id = $2';

export const LOCK_FOR_DELETE = 'SELECT FROM tokens WHERE tenant_id = $1 AND id = $2 FOR UPDATE';

/** With the token go its CVC and, by their foreign keys, its links. A container that changed meanwhile asks for a new decision. */
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

/** Keys of security codes, each looked up by itself, as tokens are. */
export const FIND_EPHEMERAL_KEYS = `
SELECT found.* FROM unnest((SELECT $1::text[])) AS wanted(id)
CROSS JOIN LATERAL (SELECT id, wrapped, destroy_at FROM ephemeral_keys WHERE id = wanted.id LIMIT 1) AS found`;

export const FIND_API_KEY = `SELECT k.tenant_id, k.application_id, k.digest, a.permissions, a.rules,
  a.allowed_hosts, t.settings
FROM api_keys k JOIN applications a ON a.tenant_id = k.tenant_id AND a.id = k.application_id
JOIN tenants t ON t.id = k.tenant_id
WHERE k.public_id = $1`;
