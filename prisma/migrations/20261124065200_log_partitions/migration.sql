-- The audit log becomes a table of partitions by month: ranges of ids, which begin with their time. The table of today becomes the
-- first of them in place, so that this takes milliseconds for any number of rows. Statements of old servers find the new table
-- by the same name.
--
-- The ranges have no gap: audit_log_before_2027_01 is for everything below its bound, then come months, and
-- audit_log_from_2027_05 is for everything above. So no row is refused for want of a partition. A DEFAULT partition would do
-- that too, but PostgreSQL then reads all partitions for the newest rows: it could have some of them.

-- The lowest id of a time.
CREATE FUNCTION log_id_at(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid;

-- The time of an id.
CREATE FUNCTION log_time_of(id uuid) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0);

-- The partitions with their bounds, oldest first. NULL is no bound.
CREATE FUNCTION log_partitions() RETURNS TABLE (name text, from_id uuid, to_id uuid) LANGUAGE sql STABLE AS $$
  SELECT c.relname::text, (regexp_match(bounds, 'FROM \(''([-0-9a-f]{36})''\)'))[1]::uuid,
    (regexp_match(bounds, 'TO \(''([-0-9a-f]{36})''\)'))[1]::uuid
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid CROSS JOIN pg_get_expr(c.relpartbound, c.oid) AS bounds
  WHERE i.inhparent = 'audit_log'::regclass ORDER BY 2 NULLS FIRST
$$;

-- Rights on the log are those on audit_log. On a partition its owner has those that do not change rows, and others have none.
CREATE FUNCTION close_log_partition(part regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  owner oid;
  grantee oid;
BEGIN
  SELECT relowner INTO owner FROM pg_class WHERE oid = part;
  EXECUTE format('REVOKE UPDATE, DELETE, TRUNCATE ON %s FROM %I', part, pg_get_userbyid(owner));
  FOR grantee IN SELECT DISTINCT acl.grantee FROM pg_class, aclexplode(relacl) AS acl WHERE pg_class.oid = part LOOP
    IF grantee = 0 THEN
      EXECUTE format('REVOKE ALL ON %s FROM PUBLIC', part);
    ELSIF grantee <> owner THEN
      EXECUTE format('REVOKE ALL ON %s FROM %I', part, pg_get_userbyid(grantee));
    END IF;
  END LOOP;
END
$$;

-- Makes an empty partition. The role must own audit_log.
CREATE FUNCTION make_log_partition(name text, from_id uuid, to_id uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE %I PARTITION OF audit_log FOR VALUES FROM (%s) TO (%s)', name,
    coalesce(quote_literal(from_id), 'MINVALUE'), coalesce(quote_literal(to_id), 'MAXVALUE'));
  PERFORM close_log_partition(name::regclass);
END
$$;

-- Makes the partitions of this month and the next three, where they are missing, and returns how many it made. The server calls it,
-- whose role may make no tables: so it runs with the rights of its owner, and takes nothing from the caller. Rows of these
-- months that are in the last partition move to theirs.
CREATE FUNCTION add_log_partitions() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
-- While the lock waits, others wait behind it. The next call tries again: the months are made ahead of time.
SET lock_timeout = '1s' SET "TimeZone" = 'UTC' AS $$
DECLARE
  wanted constant timestamptz := date_trunc('month', now()) + interval '4 months';
  last text;
  last_id uuid;
  next_id uuid;
  has_rows boolean;
  made integer := 0;
BEGIN
  SELECT p.name, p.from_id INTO STRICT last, last_id FROM log_partitions() AS p WHERE p.to_id IS NULL;
  IF last_id >= log_id_at(wanted) THEN RETURN 0; END IF;
  -- The number has no meaning.
  IF NOT pg_try_advisory_xact_lock(7270736900651) THEN RETURN 0; END IF;
  BEGIN
    SELECT p.name, p.from_id INTO STRICT last, last_id FROM log_partitions() AS p WHERE p.to_id IS NULL;
    IF last_id >= log_id_at(wanted) THEN RETURN 0; END IF;
    EXECUTE format('ALTER TABLE audit_log DETACH PARTITION %I', last);
    WHILE last_id < log_id_at(wanted) LOOP
      next_id := log_id_at(date_trunc('month', log_time_of(last_id)) + interval '1 month');
      PERFORM make_log_partition('audit_log_' || to_char(log_time_of(last_id), 'YYYY_MM'), last_id, next_id);
      last_id := next_id;
      made := made + 1;
    END LOOP;
    PERFORM make_log_partition('audit_log_from_' || to_char(log_time_of(last_id), 'YYYY_MM'), last_id, NULL);
    EXECUTE format('SELECT EXISTS (SELECT FROM %I)', last) INTO has_rows;
    IF has_rows THEN EXECUTE format('INSERT INTO audit_log SELECT * FROM %I', last); END IF;
    EXECUTE format('DROP TABLE %I', last);
  EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
  END;
  RETURN made;
END
$$;

DO $$
DECLARE
  first oid := 'audit_log'::regclass;
  bound uuid;
  name text;
  index_name text;
  acl record;
  grantee text;
BEGIN
  EXECUTE format('ALTER FUNCTION add_log_partitions() SET search_path = %I, pg_temp', current_schema());
  PERFORM set_config('TimeZone', 'UTC', true);
  SELECT (regexp_match(pg_get_constraintdef(oid), '[-0-9a-f]{36}'))[1]::uuid INTO STRICT bound
    FROM pg_constraint WHERE conrelid = first AND conname = 'audit_log_bound';
  name := 'audit_log_before_' || to_char(log_time_of(bound), 'YYYY_MM');
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      EXECUTE format('ALTER TABLE audit_log RENAME TO %I', name);
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;

  FOR index_name IN SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = first LOOP
    EXECUTE format('ALTER INDEX %I RENAME TO %I', index_name, replace(index_name, 'audit_log', name));
  END LOOP;

  EXECUTE format('CREATE TABLE audit_log (LIKE %I INCLUDING DEFAULTS) PARTITION BY RANGE (id)', name);
  ALTER TABLE audit_log ADD CONSTRAINT "audit_log_pkey" PRIMARY KEY ("tenant_id", "id");
  CREATE INDEX "audit_log_tenant_id_entity_type_id_idx" ON "audit_log"("tenant_id", "entity_type", "id");
  CREATE INDEX "audit_log_tenant_id_actor_id_id_idx" ON "audit_log"("tenant_id", "actor_id", "id");
  CREATE INDEX "audit_log_tenant_id_operation_id_idx" ON "audit_log"("tenant_id", "operation", "id");
  CREATE INDEX "audit_log_tenant_id_outcome_id_idx" ON "audit_log"("tenant_id", "outcome", "id") WHERE (outcome <> 'success'::text);
  CREATE INDEX "audit_log_without_readings_idx" ON "audit_log"("tenant_id", "id") WHERE (entity_type <> 'log'::text);
  -- Rows of all tenants by their time, for streams. They are on disk in about this order: a page of the index is enough for months.
  CREATE INDEX "audit_log_id_idx" ON "audit_log" USING BRIN ("id") WITH (autosummarize = on);
  CREATE INDEX "audit_log_entity_ids_idx" ON "audit_log" USING GIN ("entity_ids") WITH (gin_pending_list_limit = 512);

  -- The rights of the old table, and no others: default privileges give a new table more.
  FOR grantee IN
    SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
    FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) AS a WHERE c.oid = 'audit_log'::regclass
  LOOP
    EXECUTE 'REVOKE ALL ON audit_log FROM ' || grantee;
  END LOOP;
  REVOKE ALL ON FUNCTION add_log_partitions() FROM PUBLIC;
  FOR acl IN
    SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
    FROM pg_class c, aclexplode(c.relacl) AS a WHERE c.oid = first
  LOOP
    EXECUTE format('GRANT %s ON audit_log TO %s', acl.privilege_type, acl.grantee);
    IF acl.privilege_type = 'INSERT' THEN
      EXECUTE 'GRANT EXECUTE ON FUNCTION add_log_partitions() TO ' || acl.grantee;
    END IF;
  END LOOP;

  EXECUTE format('ALTER TABLE audit_log ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)', name, bound);
  EXECUTE format('ALTER TABLE %I DROP CONSTRAINT audit_log_bound', name);
  PERFORM close_log_partition(first::regclass);
  PERFORM make_log_partition('audit_log_from_' || to_char(log_time_of(bound), 'YYYY_MM'), bound, NULL);
END
$$;

SELECT add_log_partitions();
