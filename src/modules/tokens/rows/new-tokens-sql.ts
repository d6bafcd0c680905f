// The parts of the SQL that writes new tokens: one statement joins them, and a function for Citus runs them in turn.

/** The new tokens of $2, with their security codes and log rows. */
export const NEW_TOKENS = `json_to_recordset($2::json) AS r(
    id text, type text, sealed text, fingerprint text, fingerprint_expression text, container text, metadata jsonb,
    search_indexes text[], search_digests text[], expires_at timestamptz, bound_to jsonb, masked boolean, cvc_sealed text,
    cvc_expires_at timestamptz, created_at timestamptz, created_by uuid, log_id uuid, actor_type text, message text, trace_id text, ip text,
    reactor_id uuid, proxy_id uuid, otel_trace_id text, application_id uuid, code_application_id uuid, log_mac uuid)`;

/** The four parts of INSERT_TOKENS, each from a relation of NEW_TOKENS. */
export const insertTokensFrom = (rows: string): string => `
  INSERT INTO tokens (tenant_id, id, type, sealed, fingerprint, fingerprint_expression, container, metadata,
    search_indexes, search_digests, digests_due, expires_at, bound_to, masked, created_at, created_by)
  SELECT $1::uuid, id, type, decode(sealed, 'base64'), fingerprint, fingerprint_expression, container, metadata,
    search_indexes, search_digests, false, expires_at, bound_to, masked, created_at, created_by FROM ${rows} ORDER BY id`;

export const insertCvcsFrom = (rows: string): string => `
  INSERT INTO token_cvcs (tenant_id, id, sealed, expires_at)
  SELECT $1::uuid, id, decode(cvc_sealed, 'base64'), cvc_expires_at FROM ${rows} WHERE cvc_sealed IS NOT NULL`;

export const countTokensFrom = (rows: string): string => `
  INSERT INTO token_counts (tenant_id, id, type, change, last_created_at)
  SELECT $1::uuid, gen_random_uuid(), type, count(*), max(created_at) FROM ${rows} GROUP BY type`;

/** @param rows the tokens that were written. @param all the same or more: the columns of a log row may be in another row. */
export const logTokensFrom = (rows: string, all = rows): string => `
INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at,
  disclosure, trace_id, ip, reactor_id, proxy_id, otel_trace_id, application_id, code_application_id, mac)
SELECT $1::uuid, i.log_id, i.created_by, i.actor_type, i.type, of.ids, 'create', i.message, i.created_at, 'none',
  i.trace_id, i.ip, i.reactor_id, i.proxy_id, i.otel_trace_id, i.application_id, i.code_application_id, i.log_mac
FROM (SELECT log_id, array_agg(id) AS ids FROM ${rows} GROUP BY log_id) AS of
JOIN (SELECT * FROM ${all}) AS i ON i.log_id = of.log_id AND i.message IS NOT NULL`;
