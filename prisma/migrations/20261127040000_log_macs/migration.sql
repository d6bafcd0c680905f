-- The MAC that the server which writes a row of the audit log makes: 16 bytes, which row_to_json writes in one way, unlike BYTEA. NULL
-- in rows of earlier versions.
-- A lock that waits makes all others wait behind it, and old servers end a query after 10 s: so it is tried for 2 s at a time.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "audit_log" ADD COLUMN "mac" UUID;
      ALTER TABLE "log_streams" ADD COLUMN "mac" UUID;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;

-- The upgrade of a vault has a step more: migrate --contract says up to which row of its log there may be rows without a MAC.
UPDATE "instance" SET "new_forms_at" = NULL;

-- As before, with the new column. Servers of earlier versions give rows without it.
--
-- Writes tokens of which some must be the only ones with their fingerprint. A function, since each of its statements sees what
-- was committed before it began: the look for an equal token has to see what others wrote before they gave up the lock.
--
-- given: the rows as INSERT_TOKENS takes them (src/modules/tokens/rows/token-sql.ts). A row with `seen` is not written where a token with its
-- fingerprint and expression is there, in a container that one of these LIKE patterns matches.
-- Returns for each row that was not written its place, from 1, and the id of the token that is there.
CREATE OR REPLACE FUNCTION insert_unique_tokens(of_tenant uuid, given json) RETURNS TABLE (place int, existing text)
LANGUAGE plpgsql AS $$
DECLARE
  r record;
  written text[] := '{}';
BEGIN
  -- The locks that LOCK_FINGERPRINTS takes, in its order.
  PERFORM pg_advisory_xact_lock(hashtext(of_tenant::text), lock) FROM (
    SELECT DISTINCT abs(hashtext(g.fingerprint) % 64) AS lock
    FROM json_to_recordset(given) AS g(fingerprint text, seen text[]) WHERE g.seen IS NOT NULL ORDER BY 1
  ) AS locks;
  FOR r IN
    SELECT g.* FROM ROWS FROM (json_to_recordset(given) AS (
      id text, type text, sealed text, fingerprint text, fingerprint_expression text, container text, metadata jsonb,
      search_indexes text[], search_digests text[], expires_at timestamptz, masked boolean, cvc_sealed text,
      cvc_expires_at timestamptz, created_at timestamptz, created_by uuid, seen text[]
    )) WITH ORDINALITY AS g
  LOOP
    existing := NULL;
    IF r.seen IS NOT NULL THEN
      -- OFFSET 0 keeps PostgreSQL from walking all tokens by their time in the hope of meeting an equal one soon.
      SELECT equal.id INTO existing FROM (
        SELECT t.id, t.created_at FROM tokens t
        WHERE t.tenant_id IS NOT DISTINCT FROM of_tenant AND t.fingerprint = r.fingerprint
          AND t.fingerprint_expression = r.fingerprint_expression AND t.container LIKE ANY (r.seen)
          AND (t.expires_at IS NULL OR t.expires_at > r.created_at)
        OFFSET 0
      ) AS equal ORDER BY equal.created_at, equal.id LIMIT 1;
    END IF;
    IF existing IS NOT NULL THEN
      place := r.ordinality;
      RETURN NEXT;
      CONTINUE;
    END IF;
    INSERT INTO tokens (tenant_id, id, type, sealed, fingerprint, fingerprint_expression, container, metadata,
      search_indexes, search_digests, expires_at, masked, created_at, created_by)
    VALUES (of_tenant, r.id, r.type, decode(r.sealed, 'base64'), r.fingerprint, r.fingerprint_expression, r.container,
      r.metadata, r.search_indexes, r.search_digests, r.expires_at, r.masked, r.created_at, r.created_by);
    IF r.cvc_sealed IS NOT NULL THEN
      INSERT INTO token_cvcs (tenant_id, id, sealed, expires_at)
      VALUES (of_tenant, r.id, decode(r.cvc_sealed, 'base64'), r.cvc_expires_at);
    END IF;
    written := written || r.id;
  END LOOP;
  INSERT INTO token_counts (tenant_id, id, type, change, last_created_at)
  SELECT of_tenant, gen_random_uuid(), g.type, count(*), max(g.created_at)
  FROM json_to_recordset(given) AS g(id text, type text, created_at timestamptz)
  WHERE g.id = ANY (written) GROUP BY g.type;
  INSERT INTO audit_log (tenant_id, id, actor_id, actor_type, entity_type, entity_ids, operation, message, created_at,
    disclosure, trace_id, ip, reactor_id, proxy_id, otel_trace_id, mac)
  SELECT of_tenant, l.log_id, l.created_by, l.actor_type, l.type, of.ids, 'create', l.message, l.created_at, 'none',
    l.trace_id, l.ip, l.reactor_id, l.proxy_id, l.otel_trace_id, l.log_mac
  FROM (
    SELECT g.log_id, array_agg(g.id) AS ids FROM json_to_recordset(given) AS g(id text, log_id uuid)
    WHERE g.id = ANY (written) GROUP BY g.log_id
  ) AS of
  JOIN json_to_recordset(given) AS l(type text, created_at timestamptz, created_by uuid, log_id uuid, actor_type text,
    message text, trace_id text, ip text, reactor_id uuid, proxy_id uuid, otel_trace_id text,
    log_mac uuid) ON l.log_id = of.log_id AND l.message IS NOT NULL;
END
$$;
