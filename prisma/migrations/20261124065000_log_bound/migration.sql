-- First of three steps that turn the audit log into partitions by month. All rows of today's table have ids below the start of
-- the month after next. Ids begin with their time, so new rows stay below it for a month at least. The next step checks the
-- rows, while servers write. The third makes the table a partition, which reads no row then.
-- A lock that waits makes all others wait behind it, and old servers end a query after 10 s: so it is tried for 2 s at a time.
DO $$
DECLARE
  newest uuid;
  newest_at timestamptz;
  bound uuid;
BEGIN
  PERFORM set_config('TimeZone', 'UTC', true);
  -- The newest row of each tenant, by the primary key: a table of any size takes a moment. A row of a clock that was ahead counts.
  WITH RECURSIVE of AS (
    (SELECT tenant_id FROM audit_log ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT l.tenant_id FROM audit_log l WHERE l.tenant_id > of.tenant_id ORDER BY l.tenant_id LIMIT 1)
    FROM of WHERE of.tenant_id IS NOT NULL
  )
  SELECT last.id INTO newest FROM of CROSS JOIN LATERAL (
    SELECT l.id FROM audit_log l WHERE l.tenant_id = of.tenant_id ORDER BY l.id DESC LIMIT 1
  ) AS last ORDER BY last.id DESC LIMIT 1;
  newest_at := to_timestamp(('x' || left(replace(newest::text, '-', ''), 12))::bit(48)::bigint / 1000.0);
  bound := (lpad(to_hex(extract(epoch FROM date_trunc('month', greatest(now(), newest_at)) + interval '2 months')::bigint * 1000), 12, '0')
    || '70008000000000000000')::uuid;
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      EXECUTE format('ALTER TABLE audit_log ADD CONSTRAINT audit_log_bound CHECK (id < %L::uuid) NOT VALID', bound);
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
