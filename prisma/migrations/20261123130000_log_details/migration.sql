-- Rows of earlier versions keep disclosure NULL: those versions did not record it. All that they logged had succeeded.
-- Columns with a constant default are added without touching the rows.
-- The indexes have migrations of their own: while one is built, servers can read the table.
-- A lock that waits makes all others wait behind it, and old servers end a query after 10 s: so it is tried for 2 s at a time.
DO $$
BEGIN
  PERFORM set_config('lock_timeout', '2s', true);
  LOOP
    BEGIN
      ALTER TABLE "audit_log" ADD COLUMN "disclosure" TEXT,
        ADD COLUMN "outcome" TEXT NOT NULL DEFAULT 'success',
        ADD COLUMN "trace_id" TEXT,
        ADD COLUMN "ip" TEXT,
        ADD COLUMN "reactor_id" UUID,
        ADD COLUMN "proxy_id" UUID,
        ADD COLUMN "destination_host" TEXT,
        ADD COLUMN "is_list" BOOLEAN NOT NULL DEFAULT false;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_sleep(1);
    END;
  END LOOP;
END
$$;
