-- What happened to each run of code and each proxied request. A run that has begun has a row in begun_runs, which its end moves to
-- runs: rows of runs are inserted once and never changed.
CREATE TABLE "begun_runs" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "run" TEXT NOT NULL,
    "mac" UUID NOT NULL,

    CONSTRAINT "begun_runs_pkey" PRIMARY KEY ("tenant_id", "id")
);

CREATE INDEX "begun_runs_id_idx" ON "begun_runs"("id");

-- By month, as the audit log: ranges of ids, which begin with their time.
CREATE TABLE "runs" (
    "tenant_id" UUID NOT NULL,
    "id" UUID NOT NULL,
    "kind" TEXT NOT NULL,
    "resource_id" UUID,
    "version" TEXT,
    "actor_id" UUID,
    "actor_type" TEXT,
    "outcome" TEXT NOT NULL,
    "status" INTEGER,
    "duration_ms" INTEGER,
    "cpu_ms" DOUBLE PRECISION,
    "error" TEXT,
    "line" INTEGER,
    "destination_host" TEXT,
    "destination_status" INTEGER,
    "trace_id" TEXT,
    "token_ids" TEXT[],
    "mac" UUID NOT NULL,

    CONSTRAINT "runs_pkey" PRIMARY KEY ("tenant_id", "id")
) PARTITION BY RANGE ("id");

CREATE INDEX "runs_id_idx" ON "runs"("id");

CREATE INDEX "runs_tenant_id_kind_id_idx" ON "runs"("tenant_id", "kind", "id");

CREATE INDEX "runs_tenant_id_resource_id_id_idx" ON "runs"("tenant_id", "resource_id", "id");

CREATE INDEX "runs_tenant_id_actor_id_id_idx" ON "runs"("tenant_id", "actor_id", "id");

CREATE INDEX "runs_tenant_id_outcome_id_idx" ON "runs"("tenant_id", "outcome", "id") WHERE (outcome <> 'success'::text);

CREATE INDEX "runs_tenant_id_destination_status_id_idx" ON "runs"("tenant_id", "destination_status", "id");

CREATE INDEX "runs_destination_4xx_idx" ON "runs"("tenant_id", "id") WHERE (destination_status >= 400 AND destination_status < 500);

CREATE INDEX "runs_destination_5xx_idx" ON "runs"("tenant_id", "id") WHERE (destination_status >= 500);

-- Makes an empty partition: no role empties one by TRUNCATE, and one of a walled table has a wall of its own.
CREATE FUNCTION make_run_partition(name text, from_id uuid, to_id uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE %I PARTITION OF runs FOR VALUES FROM (%s) TO (%s)', name,
    coalesce(quote_literal(from_id), 'MINVALUE'), coalesce(quote_literal(to_id), 'MAXVALUE'));
  EXECUTE format('REVOKE TRUNCATE ON %I FROM CURRENT_USER', name);
  IF (SELECT relforcerowsecurity FROM pg_class WHERE oid = 'runs'::regclass) THEN
    PERFORM raise_tenant_wall(name::regclass);
  END IF;
END
$$;

-- Makes the partitions of this month and the next three, where they are missing, and joins the oldest month to the first partition
-- where both are empty. Returns how many it made and joined. The server calls it, whose role may make no tables: so it runs with the
-- rights of its owner, and takes nothing from the caller. It gives up where a lock waits, and the next call tries again.
CREATE FUNCTION keep_run_partitions() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '100ms' SET "TimeZone" = 'UTC' AS $$
DECLARE
  wanted constant uuid := log_id_at(date_trunc('month', now()) + interval '4 months');
  named constant text := coalesce(current_setting('strongroom.tenants', true), '');
  parts text[];
  bounds uuid[];
  last text;
  from_id uuid;
  next_id uuid;
  is_empty boolean;
  changed integer := 0;
BEGIN
  -- The number has no meaning.
  IF NOT pg_try_advisory_xact_lock(7270736900652) THEN RETURN 0; END IF;
  -- It moves rows of all tenants, whoever calls it: rows that it did not see would be dropped.
  PERFORM set_config('strongroom.tenants', '*', true);
  BEGIN
    LOOP
      -- Oldest first, with the lower bounds of all but the first.
      SELECT array_agg(p.name ORDER BY p.lower NULLS FIRST), array_remove(array_agg(p.lower ORDER BY p.lower NULLS FIRST), NULL)
      INTO parts, bounds FROM (
        SELECT c.relname::text AS name,
          (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([-0-9a-f]{36})''\)'))[1]::uuid AS lower
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'runs'::regclass
      ) AS p;
      EXIT WHEN cardinality(parts) < 3 OR bounds[2] > log_id_at(date_trunc('month', now()));
      EXECUTE format('SELECT NOT EXISTS (SELECT 1 FROM %I) AND NOT EXISTS (SELECT 1 FROM %I)', parts[1], parts[2]) INTO is_empty;
      EXIT WHEN NOT is_empty;
      EXECUTE format('ALTER TABLE runs DETACH PARTITION %I', parts[1]);
      EXECUTE format('ALTER TABLE runs DETACH PARTITION %I', parts[2]);
      PERFORM make_run_partition('runs_before_' || to_char(log_time_of(bounds[2]), 'YYYY_MM'), NULL, bounds[2]);
      -- One that had come before the lock.
      EXECUTE format('INSERT INTO runs SELECT * FROM %I UNION ALL SELECT * FROM %I', parts[1], parts[2]);
      EXECUTE format('DROP TABLE %I, %I', parts[1], parts[2]);
      changed := changed + 1;
    END LOOP;
    last := parts[cardinality(parts)];
    from_id := bounds[cardinality(bounds)];
    IF from_id < wanted THEN
      EXECUTE format('ALTER TABLE runs DETACH PARTITION %I', last);
      WHILE from_id < wanted LOOP
        next_id := log_id_at(date_trunc('month', log_time_of(from_id)) + interval '1 month');
        PERFORM make_run_partition('runs_' || to_char(log_time_of(from_id), 'YYYY_MM'), from_id, next_id);
        from_id := next_id;
        changed := changed + 1;
      END LOOP;
      PERFORM make_run_partition('runs_from_' || to_char(log_time_of(from_id), 'YYYY_MM'), from_id, NULL);
      EXECUTE format('INSERT INTO runs SELECT * FROM %I', last);
      EXECUTE format('DROP TABLE %I', last);
    END IF;
  EXCEPTION WHEN lock_not_available THEN
    changed := 0;
  END;
  PERFORM set_config('strongroom.tenants', named, true);
  RETURN changed;
END
$$;

DO $$
DECLARE
  grantee text;
  bound uuid;
BEGIN
  PERFORM set_config('TimeZone', 'UTC', true);
  bound := log_id_at(date_trunc('month', now()));
  REVOKE TRUNCATE ON "begun_runs", "runs" FROM CURRENT_USER;
  PERFORM make_run_partition('runs_before_' || to_char(log_time_of(bound), 'YYYY_MM'), NULL, bound);
  PERFORM make_run_partition('runs_from_' || to_char(log_time_of(bound), 'YYYY_MM'), bound, NULL);
  EXECUTE format('ALTER FUNCTION keep_run_partitions() SET search_path = %I, pg_temp', current_schema());
  REVOKE ALL ON FUNCTION keep_run_partitions() FROM PUBLIC;
  FOR grantee IN
    SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
    FROM pg_class c, aclexplode(c.relacl) AS a WHERE c.oid = 'audit_log'::regclass AND a.privilege_type = 'INSERT'
  LOOP
    EXECUTE 'GRANT EXECUTE ON FUNCTION keep_run_partitions() TO ' || grantee;
  END LOOP;
END
$$;

SELECT keep_run_partitions();
